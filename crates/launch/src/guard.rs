//! HOW A MEMBER STARTS: whether the data that is there is the data that was meant (invariant I5, no amnesia).
//!
//! A voter that comes back empty under its old identity can silently lose writes that were acknowledged. Two guards
//! forbid it, and each alone is enough: the operator changes the order's intent to `Restart` once the member has started,
//! and the launcher leaves a [`Seal`] in three places before the first start: inside the data directory, inside the part of it that
//! etcd calls `member`, and on a second volume, the marker, that lives as long as the pod.
//!
//! Why so many: etcd can exit before it has written anything (a peer's name did not resolve yet), and the next start is
//! then still a first one. A marker with untouched seals beside an empty directory says just that; a marker with one of the
//! seals missing says that the directory, or etcd's part of it, was lost in between.

use crate::{
    intent::Intent,
    order::{LaunchOrder, Seal},
    refusal::Refusal,
};

/// A seal as it was found in one place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FoundSeal {
    /// There is none.
    Absent,
    /// There is one.
    Of(Seal),
    /// There is something that is not a seal.
    Unreadable,
}

/// What the launcher found before it starts etcd.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// Whether etcd has written its log: only then is there a member's state to lose.
    pub wal: bool,
    /// The seal inside the data directory.
    pub in_data: FoundSeal,
    /// The seal inside etcd's part of the data directory.
    pub in_member: FoundSeal,
    /// The seal on the marker volume.
    pub on_marker: FoundSeal,
}

/// What is to be sealed before etcd is started.
///
/// The marker comes last. A crash in between then leaves a seal without a marker, which starts; the other
/// way round it would leave a marker without a seal, which is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Start {
    /// The data directory has no seal yet.
    pub seal_data: bool,
    /// Etcd's part of it has no seal yet.
    pub seal_member: bool,
    /// The marker volume has no seal yet.
    pub seal_marker: bool,
}

/// Whether a member may be started on what was found.
pub fn judge(order: &LaunchOrder, found: &Found) -> Result<Start, Refusal> {
    let foreign = |what: String| Refusal::DataForeign { expected: order.seal.clone(), found: what };
    let places = [
        (&found.in_data, "data directory"),
        (&found.in_member, "member directory"),
        (&found.on_marker, "marker volume"),
    ];
    for (seal, place) in places {
        match seal {
            FoundSeal::Of(other) if *other != order.seal => {
                return Err(foreign(format!(
                    "a {place} of {} in incarnation {}, not of incarnation {}",
                    other.member, other.token, order.seal.token
                )));
            }
            FoundSeal::Unreadable => return Err(foreign(format!("a {place} whose seal cannot be read"))),
            FoundSeal::Of(_) | FoundSeal::Absent => {}
        }
    }
    let sealed = found.in_data != FoundSeal::Absent;
    let inside = found.in_member != FoundSeal::Absent;
    let marked = found.on_marker != FoundSeal::Absent;
    if found.wal && !sealed {
        return Err(foreign("etcd data that this launcher did not start".to_owned()));
    }
    if !found.wal && !may_be_first(order.intent, sealed && inside, marked) {
        return Err(Refusal::DataLost { member: order.seal.member.to_string() });
    }
    Ok(Start { seal_data: !sealed, seal_member: !inside, seal_marker: !marked })
}

/// Whether a start that finds no log can be the member's first.
const fn may_be_first(intent: Intent, sealed: bool, marked: bool) -> bool {
    intent.may_start_empty() && (sealed || !marked)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seal(member: &str, token: &str) -> Seal {
        Seal { member: member.parse().unwrap(), token: token.parse().unwrap() }
    }

    fn order(intent: Intent) -> LaunchOrder {
        LaunchOrder { seal: seal("a-1", "t-1"), version: "3.6.14".parse().unwrap(), intent, argv: Vec::new() }
    }

    fn own() -> FoundSeal {
        FoundSeal::Of(seal("a-1", "t-1"))
    }

    /// Situation, intent, etcd's log, seal in the data directory, in etcd's part of it, on the marker, outcome.
    const TABLE: &str = "
        first start of a cluster                 | NewCluster | -   | -           | -   | -      | seals data member marker
        first start of a joining member          | Join       | -   | -           | -   | -      | seals data member marker
        etcd exited before it wrote anything     | Join       | -   | own         | own | own    | seals none
        the launcher died between its two seals  | Join       | -   | own         | own | -      | seals marker
        the container restarts on its data       | NewCluster | wal | own         | own | own    | seals none
        a restart on its data                    | Restart    | wal | own         | own | own    | seals none
        a new pod on the same claim              | Restart    | wal | own         | own | -      | seals marker
        wiped after the operator saw it start    | Restart    | -   | -           | -   | -      | DataLost
        only etcd's part wiped after that        | Restart    | -   | own         | own | own    | DataLost
        wiped before the operator saw it start   | NewCluster | -   | -           | -   | own    | DataLost
        wiped before the operator saw it join    | Join       | -   | -           | -   | own    | DataLost
        another member's volume                  | Restart    | wal | a-2 t-1     | own | -      | DataForeign
        another member's volume, still empty     | Join       | -   | a-2 t-1     | own | -      | DataForeign
        a volume of an abandoned attempt         | NewCluster | wal | a-1 t-0     | own | -      | DataForeign
        data of unknown origin                   | Join       | wal | -           | -   | -      | DataForeign
        data of unknown origin on a restart      | Restart    | wal | -           | -   | own    | DataForeign
        a broken seal                            | Restart    | wal | broken      | own | own    | DataForeign
        a broken marker                          | Restart    | wal | own         | own | broken | DataForeign
        only etcd's part wiped before that       | NewCluster | -   | own         | -    | own    | DataLost
        only etcd's part wiped before it joined  | Join       | -   | own         | -    | own    | DataLost
        the launcher died after its first seal   | Join       | -   | own         | -    | -      | seals member marker
        data of a launcher with two seals        | Restart    | wal | own         | -    | own    | seals member
        another member's part                    | Restart    | wal | own         | a-2 t-1 | own | DataForeign";

    fn found_seal(text: &str) -> FoundSeal {
        match text {
            "-" => FoundSeal::Absent,
            "own" => own(),
            "broken" => FoundSeal::Unreadable,
            other => other.split_once(' ').map(|(member, token)| FoundSeal::Of(seal(member, token))).unwrap(),
        }
    }

    #[test]
    fn each_situation_ends_as_it_should() {
        for row in TABLE.trim().lines() {
            let [title, intent, wal, in_data, in_member, on_marker, expected] =
                row.split('|').map(str::trim).collect::<Vec<_>>().try_into().unwrap();
            let intent = serde_json::from_value(intent.into()).unwrap();
            let found = Found {
                wal: wal == "wal",
                in_data: found_seal(in_data),
                in_member: found_seal(in_member),
                on_marker: found_seal(on_marker),
            };
            let outcome = match judge(&order(intent), &found) {
                Ok(Start { seal_data: false, seal_member: false, seal_marker: false }) => {
                    "seals none".to_owned()
                }
                Ok(Start { seal_data, seal_member, seal_marker }) => {
                    let places = [(seal_data, " data"), (seal_member, " member"), (seal_marker, " marker")];
                    let missing = places.into_iter().filter(|(missing, _)| *missing).map(|(_, place)| place);
                    format!("seals{}", missing.collect::<String>())
                }
                Err(refusal) => refusal.reason().as_str().to_owned(),
            };
            assert_eq!(outcome, expected, "{title}");
        }
    }

    #[test]
    fn of_all_situations_none_starts_a_member_without_the_memory_it_had() {
        let seals = || [FoundSeal::Absent, own(), FoundSeal::Of(seal("a-2", "t-1")), FoundSeal::Unreadable];
        for intent in [Intent::NewCluster, Intent::Join, Intent::Restart] {
            for (wal, in_data, in_member, on_marker) in [true, false].into_iter().flat_map(|wal| {
                let places =
                    seals().into_iter().flat_map(move |d| seals().into_iter().map(move |i| (d.clone(), i)));
                places
                    .flat_map(move |(d, i)| seals().into_iter().map(move |m| (wal, d.clone(), i.clone(), m)))
            }) {
                let found = Found { wal, in_data, in_member, on_marker };
                let starts = judge(&order(intent), &found).is_ok();
                let ours = |seal: &FoundSeal| *seal == own() || *seal == FoundSeal::Absent;
                let empty_after_a_start = !found.wal
                    && found.on_marker == own()
                    && (found.in_data == FoundSeal::Absent || found.in_member == FoundSeal::Absent);
                if intent == Intent::Restart && !found.wal || empty_after_a_start {
                    assert!(!starts, "{intent:?} {found:?}");
                }
                if !ours(&found.in_data) || !ours(&found.in_member) || !ours(&found.on_marker) {
                    assert!(!starts, "{intent:?} {found:?}");
                }
                if found.wal && found.in_data == own() && ours(&found.in_member) && ours(&found.on_marker) {
                    assert!(starts, "a member is kept from its own data: {intent:?} {found:?}");
                }
            }
        }
    }
}
