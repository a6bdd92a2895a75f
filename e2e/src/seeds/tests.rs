//! The table of this repository, and texts made up for the purpose.

use super::*;

const FENCED: &str = "Type
```sh
$ kubectl get pods \\
  -w
NAME \\
 x
$ etcd
    --name=a
```
or use kubectl get pods -l app=x to see, or `kubectl`; or kubectl create:
 ```
k create -f x.yaml
```
";
const PLAIN: &str = "Type
$ kubectl get pods
NAME

apiVersion: v1
kind: Pod

or not
";

fn found(line: usize, lines: &[&str], prose: bool) -> Found {
    Found { line, lines: lines.iter().map(|&line| line.to_owned()).collect(), prose }
}

#[test]
fn a_block_is_what_is_fenced_or_prompted_or_listed_or_typed_in_running_text() {
    assert_eq!(
        blocks_of(FENCED),
        [
            found(3, &["$ kubectl get pods \\", "  -w", "NAME \\", " x", "$ etcd", "    --name=a"], false),
            found(10, &["kubectl get pods -l app=x"], true),
            found(12, &["k create -f x.yaml"], false),
        ]
    );
    let plain =
        [found(2, &["$ kubectl get pods", "NAME"], false), found(5, &["apiVersion: v1", "kind: Pod"], false)];
    assert_eq!(blocks_of(PLAIN), plain);
    let commands: Vec<_> = blocks_of(FENCED).iter().map(Found::commands).collect();
    assert_eq!(commands[0], ["kubectl get pods -w", "etcd --name=a"]);
    assert_eq!(commands[2], ["k create -f x.yaml"]);
    assert!(blocks_of(PLAIN)[1].commands().is_empty());
}

fn table(blocks: &str) -> anyhow::Result<Table> {
    let table: Table = serde_saphyr::from_str(&format!("tests: {{t: a.rs::b}}\nblocks:\n{blocks}"))?;
    table.check()?;
    Ok(table)
}

const SHOWN: &str = "- {at: '001:1', shows: [S1], run: [a], prints: [b], by: [t]}\n";

#[test]
fn what_no_test_shows_is_pending_and_never_passed() {
    let blocks = "- {at: '001:2', shows: [S2, S1], run: [a]}\n- {at: '001:3', run: [a], erratum: e}\n\
                  - {at: '001:4', shows: [S1], run: [a], as: '001:1'}\n- {at: '001:5', shows: [S2], run: [a], as: '001:2'}\n";
    let table = table(&format!("{SHOWN}{blocks}")).unwrap();
    let standing: Vec<_> = table.blocks.iter().map(|block| table.standing(block)).collect();
    assert_eq!(
        standing,
        [Standing::Shown, Standing::Pending, Standing::Void, Standing::Shown, Standing::Pending]
    );
    assert_eq!(table.pending(), BTreeMap::from([(1, 1), (2, 2)]));
}

#[test]
fn a_table_that_contradicts_itself_is_refused() {
    assert!(table(SHOWN).is_ok());
    for bad in [
        "- {at: '001:1', shows: [S1], run: [a]}",
        "- {at: '000:1', shows: [S1], run: [a]}",
        "- {at: '001:2', shows: [S1], run: [a], prints: [b], by: [other]}",
        "- {at: '001:2', shows: [S1], run: [a], by: [t]}",
        "- {at: '001:2', shows: [S1], run: [a], instead: [b]}",
        "- {at: '001:2', shows: [S1], run: [a], erratum: e, fails: b}",
        "- {at: '001:2', run: [a]}",
        "- {at: '001:2', shows: [S1], run: [c], as: '001:1'}",
        "- {at: '001:2', shows: [S1], run: [a], as: '001:9'}",
        "- {at: '001:2', shows: [S1], run: [a], passed: true}",
    ] {
        assert!(table(&format!("{SHOWN}{bad}\n")).is_err(), "{bad}");
    }
}

#[test]
fn a_block_that_is_missing_from_the_table_or_reads_otherwise_is_named() {
    let folder = std::env::temp_dir().join(format!("seeds-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("001_x.txt"), "$ a\nb\n\n$ c\n").unwrap();
    let compared = |blocks: &str| {
        table(&format!("{SHOWN}{blocks}")).unwrap().compare(&folder).map_err(|error| error.to_string())
    };
    assert_eq!(compared("- {at: '001:4', shows: [S1], run: [c]}\n"), Ok(()));
    assert!(compared("").unwrap_err().contains("001:4 is missing"));
    assert!(
        compared("- {at: '001:4', shows: [S1], run: [d]}\n").unwrap_err().contains("001:4: the seed says")
    );
    let more = "- {at: '001:4', shows: [S1], run: [c]}\n- {at: '001:5', shows: [S1], run: [c]}\n";
    assert!(compared(more).unwrap_err().contains("001:5 is no block"));
    fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn the_table_of_this_repository_does_not_contradict_itself() {
    let table = Table::read().unwrap();
    // Where the seeds are at hand, the table is complete; `cargo xtask proof` says where they are not.
    if let Some(folder) = folder() {
        table.compare(&folder).unwrap();
    }
}
