//! Faults that are planted into a good history are found, each by its name.

use std::time::Duration;

use etcd_admin::Revision;

use super::*;

fn operation(key: u16, invoked: u64, returned: u64, did: Did) -> Operation {
    Operation {
        key: Key(key),
        invoked: Duration::from_millis(invoked),
        returned: Duration::from_millis(returned),
        did,
    }
}

fn wrote(value: u64, revision: i64) -> Did {
    Did::Wrote { value: Value(value), revision: Revision(revision) }
}

fn read(found: Option<(u64, i64)>, revision: i64) -> Did {
    let found = found.map(|(value, modified)| Found { value: Value(value), modified: Revision(modified) });
    Did::Read { found, revision: Revision(revision) }
}

/// Two keys; what is unknown of key 1 happened, of key 2 it did not.
fn good() -> History {
    History {
        operations: vec![
            operation(1, 0, 10, wrote(1, 2)),
            operation(2, 5, 15, wrote(2, 3)),
            operation(1, 20, 30, read(Some((1, 2)), 3)),
            operation(1, 31, 40, Did::WriteUnknown { value: Value(3) }),
            operation(2, 31, 40, Did::WriteUnknown { value: Value(4) }),
            operation(1, 41, 45, Did::ReadFailed),
            operation(2, 41, 45, Did::WriteFailed { value: Value(5) }),
            operation(1, 50, 60, read(Some((3, 4)), 4)),
            operation(2, 55, 65, wrote(6, 5)),
        ],
        finals: vec![
            operation(1, 100, 101, read(Some((3, 4)), 5)),
            operation(2, 102, 103, read(Some((6, 5)), 5)),
        ],
    }
}

/// A word for each kind, so that a table can say what is to be found.
fn kinds(history: &History) -> Vec<&'static str> {
    let kind = |violation: &Violation| match violation {
        Violation::Lost { .. } => "lost",
        Violation::NeverWritten(_) => "never written",
        Violation::NotLinearizable(_) => "no order",
        Violation::Undecided(_) => "undecided",
        Violation::RevisionWentBack { .. } => "went back",
        Violation::RevisionDisputed { .. } => "disputed",
    };
    check(history).iter().map(kind).collect()
}

#[test]
fn a_good_history_passes() {
    assert_eq!(check(&good()), []);
}

#[test]
fn every_planted_fault_is_found() {
    type Plant = fn(&mut History);
    let table: [(&str, Plant, &[&str]); 11] = [
        (
            "the last write of key 2 is not there in the end",
            |it| it.finals[1].did = read(Some((2, 3)), 5),
            &["lost", "no order"],
        ),
        ("all data is gone in the end", |it| it.finals[0].did = read(None, 5), &["lost", "no order"]),
        (
            "the cluster was made anew: nothing is there, and revisions begin again",
            |it| {
                it.finals[0].did = read(None, 1);
                it.finals[1].did = read(None, 1);
            },
            &["lost", "lost", "no order", "no order", "went back", "went back"],
        ),
        (
            "a stale read in the middle, of an older state",
            |it| it.operations[7].did = read(None, 1),
            &["no order", "went back"],
        ),
        (
            "a read of the value before, though it was overwritten",
            |it| {
                it.operations.push(operation(1, 70, 71, read(Some((1, 2)), 5)));
            },
            &["no order"],
        ),
        (
            "two writes, one after the other, whose revisions are the other way round",
            |it| {
                it.operations.push(operation(3, 70, 71, wrote(10, 8)));
                it.operations.push(operation(3, 72, 73, wrote(11, 7)));
                it.finals.push(operation(3, 104, 105, read(Some((11, 7)), 9)));
                it.finals[0].did = read(Some((3, 4)), 9);
                it.finals[1].did = read(Some((6, 5)), 9);
            },
            &["lost", "went back"],
        ),
        (
            "a refused write is there",
            |it| it.finals[1].did = read(Some((5, 6)), 6),
            &["never written", "no order"],
        ),
        ("foreign bytes", |it| it.finals[1].did = read(Some((0, 6)), 6), &["never written", "no order"]),
        ("a value changes its revision", |it| it.finals[0].did = read(Some((3, 5)), 5), &["disputed"]),
        (
            "two writes share a revision",
            |it| {
                it.operations.push(operation(3, 56, 64, wrote(10, 5)));
                it.finals.push(operation(3, 104, 105, read(Some((10, 5)), 5)));
            },
            &["disputed", "disputed"],
        ),
        (
            "a value from a revision that is not there yet",
            |it| it.operations[7].did = read(Some((3, 6)), 4),
            &["disputed", "disputed"],
        ),
    ];
    for (what, plant, expected) in table {
        let mut history = good();
        plant(&mut history);
        assert_eq!(kinds(&history), expected, "{what}: {:#?}", check(&history));
    }
}
