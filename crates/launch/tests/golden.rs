//! The command line of every minor, word for word, in `tests/golden/etcd-3.N.txt`.
//!
//! `UPDATE_GOLDEN=1 cargo test -p etcd-operator-launch --test golden` writes the files anew; the change is then read
//! in the diff.

#![allow(clippy::unwrap_used, reason = "a test's functions may panic too")]

use std::{collections::BTreeMap, fmt::Write as _, path::PathBuf};

use launch::{
    ClientUrl, CorruptionChecks, EtcdVersion, Intent, LaunchOrder, MemberLaunch, MemberName, Minor, PeerUrl,
    Scheme, argv, newest_known,
};

fn host(member: &str) -> String {
    format!("{member}.example-etcd-cluster.default.svc")
}

fn member(name: &str, peers: &[&str], intent: Intent) -> MemberLaunch {
    let peer_url = |name: &str| PeerUrl::on(Scheme::Http, &host(name)).unwrap();
    MemberLaunch {
        name: name.parse().unwrap(),
        peer_url: peer_url(name),
        client_url: ClientUrl::on(Scheme::Http, &host(name)).unwrap(),
        peers: peers
            .iter()
            .map(|peer| (peer.parse::<MemberName>().unwrap(), peer_url(peer)))
            .collect::<BTreeMap<_, _>>(),
        token: "0f6c1a3e-1".parse().unwrap(),
        intent,
        checks: CorruptionChecks::default(),
    }
}

const A: &str = "example-etcd-cluster-bcdfghjk24";
const B: &str = "example-etcd-cluster-lmnpqrst56";
const C: &str = "example-etcd-cluster-vwxz278999";

fn cases() -> [(&'static str, MemberLaunch); 6] {
    let every_check = CorruptionChecks { at_start: true, on_compaction: true };
    let mut encrypted = member(B, &[A], Intent::Join);
    encrypted.peer_url = PeerUrl::on(Scheme::Https, &host(B)).unwrap();
    encrypted.client_url = ClientUrl::on(Scheme::Https, &host(B)).unwrap();
    [
        ("the seed of a new cluster", member(A, &[], Intent::NewCluster)),
        ("one of three that start together", member(B, &[C, A], Intent::NewCluster)),
        ("the second member joins", member(B, &[A], Intent::Join)),
        ("a member restarts on its data", member(B, &[A, C], Intent::Restart)),
        ("addresses are encrypted", encrypted),
        (
            "every corruption check",
            MemberLaunch { checks: every_check, ..member(A, &[], Intent::NewCluster) },
        ),
    ]
}

fn rendered(version: EtcdVersion) -> String {
    let mut text = format!("etcd {version}\n");
    for (title, launch) in cases() {
        write!(text, "\n# {title}\n{}\n", argv(&launch, version).join("\n")).unwrap();
    }
    text
}

#[test]
fn the_command_line_of_every_minor_is_the_one_on_file() {
    for minor in Minor::ALL {
        let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("tests/golden/etcd-{minor}.txt"));
        let rendered = rendered(newest_known(minor));
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            std::fs::write(&path, &rendered).unwrap();
        }
        let on_file = std::fs::read_to_string(&path).unwrap();
        assert!(rendered == on_file, "etcd-{minor}.txt differs from what is rendered:\n{rendered}");
    }
}

#[test]
fn the_flags_of_s9_are_in_every_minor_with_their_fixed_values() {
    for minor in Minor::ALL {
        for (title, launch) in cases().into_iter().filter(|(title, _)| !title.contains("encrypted")) {
            let argv = argv(&launch, newest_known(minor));
            for fixed in [
                "--data-dir=/var/etcd/data",
                "--listen-peer-urls=http://0.0.0.0:2380",
                "--listen-client-urls=http://0.0.0.0:2379",
            ] {
                assert!(argv.iter().any(|flag| flag == fixed), "{minor}, {title}: no {fixed}");
            }
            for given in [
                "--name=",
                "--initial-advertise-peer-urls=",
                "--advertise-client-urls=",
                "--initial-cluster=",
                "--initial-cluster-state=",
                "--initial-cluster-token=",
            ] {
                let found =
                    argv.iter().filter(|flag| flag.starts_with(given) && flag.len() > given.len()).count();
                assert_eq!(found, 1, "{minor}, {title}: {given}");
            }
        }
    }
}

#[test]
fn no_flag_is_given_twice_and_none_that_the_minor_does_not_know() {
    for minor in Minor::ALL {
        for (title, launch) in cases() {
            let argv = argv(&launch, newest_known(minor));
            let mut names: Vec<&str> = argv.iter().map(|flag| flag.split('=').next().unwrap()).collect();
            assert!(
                minor < Minor::V3_6 || !names.iter().any(|name| name.contains("experimental")),
                "{minor}, {title}"
            );
            assert!(minor >= Minor::V3_6 || !names.contains(&"--feature-gates"), "{minor}, {title}");
            assert!(minor >= Minor::V3_4 || !names.contains(&"--logger"), "{minor}, {title}");
            assert!(!names.contains(&"--enable-v2"), "{minor}, {title}: 3.1 exits on it, so does 3.6");
            names.sort_unstable();
            names.dedup();
            assert_eq!(names.len(), argv.len(), "{minor}, {title}");
        }
    }
}

#[test]
fn a_check_that_a_version_does_not_have_is_left_out() {
    let (_, everything) = cases().into_iter().next_back().unwrap();
    let checks = |text: &str| {
        let argv = argv(&everything, text.parse().unwrap());
        argv.into_iter().filter(|flag| flag.contains("orrupt") || flag.contains("ompact")).collect::<Vec<_>>()
    };
    assert!(checks("3.2.13").is_empty());
    assert_eq!(checks("3.5.4"), ["--experimental-initial-corrupt-check=true"]);
    assert_eq!(checks("3.5.5").len(), 2);
    assert_eq!(checks("3.6.4"), ["--feature-gates=InitialCorruptCheck=true,CompactHashCheck=true"]);
}

#[test]
fn an_order_carries_the_command_line_through_an_annotation_unchanged() {
    for minor in Minor::ALL {
        for (title, launch) in cases() {
            let order = LaunchOrder::new(&launch, newest_known(minor));
            let read = LaunchOrder::read(&order.to_annotation()).unwrap();
            assert_eq!(read, order, "{minor}, {title}");
            assert_eq!(read.argv, argv(&launch, newest_known(minor)));
        }
    }
}
