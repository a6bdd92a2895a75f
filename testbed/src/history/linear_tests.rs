//! The checker beside one that simply tries every order.

use etcd_admin::Revision;
use proptest::prelude::*;

use super::*;
use crate::history::record::{Found, Key};

const fn at(moment: u64) -> Duration {
    Duration::from_millis(moment)
}

fn operation(invoked: u64, returned: u64, did: Did) -> Operation {
    Operation { key: Key(0), invoked: at(invoked), returned: at(returned), did }
}

fn wrote(value: u64) -> Did {
    Did::Wrote { value: Value(value), revision: Revision(0) }
}

fn perhaps(value: u64) -> Did {
    Did::WriteUnknown { value: Value(value) }
}

/// Zero is nothing.
fn read(value: u64) -> Did {
    let found = (value > 0).then_some(Found { value: Value(value), modified: Revision(0) });
    Did::Read { found, revision: Revision(0) }
}

#[test]
fn legal_histories_pass_and_illegal_ones_are_found_where_they_show() {
    type Step = (u64, u64, Did);
    let table: [(&str, &[Step], Result<(), NotLinear>); 16] = [
        ("nothing happened", &[], Ok(())),
        (
            "one after another",
            &[(0, 1, wrote(1)), (2, 3, read(1)), (4, 5, wrote(2)), (6, 7, read(2))],
            Ok(()),
        ),
        ("a lost write", &[(0, 1, wrote(1)), (2, 3, wrote(2)), (4, 5, read(1))], Err(NotLinear::At(2))),
        ("a stale read", &[(0, 1, wrote(1)), (2, 3, read(0))], Err(NotLinear::At(1))),
        ("a read of the future", &[(0, 1, read(1)), (2, 3, wrote(1))], Err(NotLinear::At(0))),
        (
            "two writes together have either order",
            &[(0, 9, wrote(1)), (1, 8, wrote(2)), (10, 11, read(1))],
            Ok(()),
        ),
        (
            "but only one of them",
            &[(0, 9, wrote(1)), (1, 8, wrote(2)), (10, 11, read(1)), (12, 13, read(2))],
            Err(NotLinear::At(3)),
        ),
        (
            "a reordered pair of reads",
            &[(0, 1, wrote(1)), (2, 20, wrote(2)), (3, 4, read(2)), (5, 6, read(1))],
            Err(NotLinear::At(3)),
        ),
        (
            "reads that overlap may differ",
            &[(0, 1, wrote(1)), (2, 20, wrote(2)), (3, 9, read(2)), (4, 8, read(1))],
            Ok(()),
        ),
        ("unknown, and it did not happen", &[(0, 1, wrote(1)), (2, 3, perhaps(2)), (4, 5, read(1))], Ok(())),
        ("unknown, and it happened", &[(0, 1, wrote(1)), (2, 3, perhaps(2)), (4, 5, read(2))], Ok(())),
        (
            "unknown, and it happened late",
            &[(0, 1, perhaps(1)), (2, 3, wrote(2)), (4, 5, read(2)), (6, 7, read(1))],
            Ok(()),
        ),
        (
            "unknown, and it happened twice",
            &[(0, 1, perhaps(1)), (2, 3, read(1)), (4, 5, wrote(2)), (6, 7, read(1))],
            Err(NotLinear::At(3)),
        ),
        (
            "unknown, and seen before it was asked",
            &[(0, 1, read(1)), (2, 3, perhaps(1))],
            Err(NotLinear::At(0)),
        ),
        (
            "a refused write that is read",
            &[(0, 1, Did::WriteFailed { value: Value(1) }), (2, 3, read(1))],
            Err(NotLinear::At(1)),
        ),
        ("answer and question at one moment may overlap", &[(0, 5, wrote(1)), (5, 6, read(0))], Ok(())),
    ];
    for (what, steps, expected) in table {
        let operations: Vec<_> =
            steps.iter().map(|&(invoked, returned, did)| operation(invoked, returned, did)).collect();
        assert_eq!(check(&operations), expected, "{what}");
        assert_eq!(by_trying(&operations), expected.is_ok(), "{what}, by trying every order");
    }
}

#[test]
fn a_long_outage_with_many_unknown_writes_is_decided() {
    let mut operations: Vec<_> = (0..5000).map(|i| operation(i, i + 1, perhaps(i + 1))).collect();
    operations.push(operation(9000, 9001, read(7)));
    operations.push(operation(9002, 9003, read(4000)));
    assert_eq!(check(&operations), Ok(()));
    operations.push(operation(9004, 9005, read(7)));
    assert_eq!(check(&operations), Err(NotLinear::At(5002)));
}

#[test]
fn what_cannot_be_followed_is_said_and_not_passed() {
    let many = u64::try_from(SLOTS).unwrap() + 1;
    let operations: Vec<_> = (1..=many).map(|i| operation(i, 1000, wrote(i))).collect();
    assert_eq!(check(&operations), Err(NotLinear::TooWide(SLOTS)));
    // Every subset of these may have happened when the read is answered, in many orders.
    let mut operations: Vec<_> = (1..=40).map(|i| operation(i, 1000, wrote(i))).collect();
    operations.push(operation(50, 51, read(99)));
    assert_eq!(check(&operations), Err(NotLinear::TooWide(40)));
}

/// Whether some order explains all answers: tries them all.
fn by_trying(operations: &[Operation]) -> bool {
    fn try_from(state: Option<Value>, left: &[Operation]) -> bool {
        // A write that nobody knows of has no end, and need not happen at all.
        let must = |it: &&Operation| !matches!(it.did, Did::WriteUnknown { .. });
        let Some(end) = left.iter().filter(must).map(|it| it.returned).min() else { return true };
        (0..left.len()).any(|next| {
            let mut rest = left.to_vec();
            let it = rest.remove(next);
            it.invoked <= end
                && match it.did {
                    Did::Wrote { value, .. } | Did::WriteUnknown { value } => try_from(Some(value), &rest),
                    Did::Read { found, .. } => {
                        found.map(|found| found.value) == state && try_from(state, &rest)
                    }
                    Did::WriteFailed { .. } | Did::ReadFailed => false,
                }
        })
    }
    let effective = |it: &&Operation| !matches!(it.did, Did::WriteFailed { .. } | Did::ReadFailed);
    try_from(None, &operations.iter().filter(effective).copied().collect::<Vec<_>>())
}

/// Few operations at few moments, so that many overlap; what is read is anything.
fn any_history() -> impl Strategy<Value = Vec<Operation>> {
    let step = (0_u64..14, 0_u64..8, 0_u8..8, 0_u64..6);
    proptest::collection::vec(step, 0..7).prop_map(|steps| {
        let written = |at: usize| u64::try_from(at).unwrap() + 1;
        let one = |(at, &(invoked, takes, kind, value)): (usize, &(u64, u64, u8, u64))| {
            let did = match kind {
                0..3 => wrote(written(at)),
                3 => perhaps(written(at)),
                4 if value == 0 => Did::WriteFailed { value: Value(written(at)) },
                _ => read(value),
            };
            operation(invoked, invoked + takes, did)
        };
        steps.iter().enumerate().map(one).collect()
    })
}

/// What a register answers: each operation takes effect at a moment between its question and its answer, a write of which
/// nobody knows at some moment after its question, or not at all.
fn legal_history() -> impl Strategy<Value = Vec<Operation>> {
    let step = (0_u64..2000, 0_u64..60, 0_u8..8, any::<prop::sample::Index>());
    proptest::collection::vec(step, 0..200).prop_map(|steps| {
        let mut planned: Vec<_> = steps
            .into_iter()
            .enumerate()
            .map(|(at, (invoked, takes, kind, moment))| {
                let within = u64::try_from(moment.index(usize::try_from(takes).unwrap() + 1)).unwrap();
                let late = if kind == 7 { 500 } else { 0 };
                (invoked + within + late, operation(invoked, invoked + takes, Did::ReadFailed), kind, at)
            })
            .collect();
        planned.sort_by_key(|&(moment, _, _, at)| (moment, at));
        let mut state = 0;
        let mut effective = |(_, it, kind, at): (u64, Operation, u8, usize)| {
            let value = u64::try_from(at).unwrap() + 1;
            let did = match kind {
                0..3 => {
                    state = value;
                    wrote(value)
                }
                // This one never happens, the next two do.
                3 => perhaps(value),
                6 | 7 => {
                    state = value;
                    perhaps(value)
                }
                _ => read(state),
            };
            Operation { did, ..it }
        };
        planned.into_iter().map(&mut effective).collect()
    })
}

fn without_a_file(cases: u32) -> ProptestConfig {
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(without_a_file(4_000))]

    #[test]
    fn it_says_what_trying_every_order_says(operations in any_history()) {
        prop_assert_eq!(check(&operations).is_ok(), by_trying(&operations));
    }
}

proptest! {
    #![proptest_config(without_a_file(100))]

    #[test]
    fn what_a_register_answers_passes(operations in legal_history()) {
        prop_assert_eq!(check(&operations), Ok(()));
    }
}
