//! Every state of a roll is visited, with the real planner: members brought to another version, one after another. And with planners
//! that are broken on purpose: each is found.

#![allow(clippy::panic, reason = "this is a test; a failure prints its path as it is meant to be read")]

mod broken_roll;

use planner::{Desired, Observed, Plan, Problem, safety::Violation};
use sim::{
    Broken, End, Failure, Law, Properties, Stats,
    roll::{
        Fault::{self, Answers, Crashes, Edits, Kills, Leaders, Pauses},
        Roll, explore,
    },
};

/// Three members that go from one minor to the next.
const UP: Roll = Roll {
    name: "",
    members: 3,
    versions: &["3.5.33", "3.6.14"],
    from: 0,
    to: 1,
    missing: None,
    faults: 0,
    with: &[],
};

/// Two minors at once.
const FAR: Roll = Roll { versions: &["3.5.33", "3.6.14", "3.7.1"], to: 2, ..UP };

const ALL: &[Fault] = &[Kills, Leaders, Answers, Crashes, Edits, Pauses];

fn visit(roll: &Roll) -> Stats {
    let begin = std::time::Instant::now();
    match explore(roll, &planner::plan, Properties::ALL) {
        Ok(stats) => {
            println!("{}: {stats} ({:.1?})", roll.name, begin.elapsed());
            stats
        }
        Err(failure) => panic!("{}: {failure}", roll.name),
    }
}

fn ends(stats: &Stats) -> Vec<End> {
    stats.ends.keys().copied().collect()
}

#[test]
fn members_of_the_wanted_version_are_left_alone() {
    let stats = visit(&Roll { name: "at rest", from: 1, ..UP });
    assert_eq!(stats.states, 1);
}

/// Two faults without lost answers: a relaunch that lands beside an edit can let the cluster agree on a version that is left again.
#[test]
fn a_minor_up_is_reached_past_any_one_fault() {
    let rows: [(_, _, &[Fault]); 2] = [
        ("one minor up", 1, ALL),
        ("one minor up, two faults", 2, &[Kills, Leaders, Crashes, Edits, Pauses]),
    ];
    for (name, faults, with) in rows {
        let stats = visit(&Roll { name, faults, with, ..UP });
        assert_eq!(ends(&stats), [End::Running]);
    }
}

#[test]
fn two_minors_up_are_reached_past_any_one_fault() {
    let stats = visit(&Roll { name: "two minors up", faults: 1, with: ALL, ..FAR });
    assert_eq!(ends(&stats), [End::Running]);
}

#[test]
fn a_minor_down_is_reached_past_any_one_fault() {
    let stats = visit(&Roll { name: "one minor down", from: 1, to: 0, faults: 1, with: ALL, ..UP });
    assert_eq!(ends(&stats), [End::Running]);
}

#[test]
fn clusters_of_one_and_two_are_rolled_past_any_one_fault() {
    for members in [1, 2] {
        let stats = visit(&Roll { name: "small", members, faults: 1, with: ALL, ..UP });
        assert_eq!(ends(&stats), [End::Running]);
    }
}

/// Two faults without lost answers: a relaunch that lands while somebody else is relaunched can leave two without an image.
#[test]
fn an_image_that_is_missing_costs_one_member_until_another_is_asked_for() {
    let rows: [(_, _, &[Fault]); 2] =
        [("a missing image", 1, ALL), ("a missing image and edits", 2, &[Leaders, Crashes, Edits, Pauses])];
    for (name, faults, with) in rows {
        let stats = visit(&Roll { name, missing: Some(1), faults, with, ..UP });
        assert_eq!(ends(&stats), [End::Running, End::Held]);
    }
}

#[test]
fn a_spec_that_is_edited_at_any_time_is_what_members_come_to() {
    let stats = visit(&Roll { name: "edits", faults: 3, with: &[Edits], ..FAR });
    assert_eq!(ends(&stats), [End::Running]);
}

type Rule = fn(&Result<Desired, Vec<Problem>>, &Observed) -> Plan;

/// Whether it is found as this, and with no fewer faults than are said to be needed.
fn is_caught(roll: &Roll, rule: Rule, broken: Broken) {
    match explore(roll, &rule, Properties::ALL) {
        Err(Failure::Found(found)) => {
            println!("{}: {found}", roll.name);
            assert_eq!((found.broken, found.faults), (broken, roll.faults), "{found}");
        }
        Err(failure) => panic!("{}: {failure}", roll.name),
        Ok(stats) => panic!("{} was not caught: {stats}", roll.name),
    }
}

/// Each row: the planner, the roll, how many faults of which kind it takes, and as what it is caught.
macro_rules! caught {
    ($($name:ident, $roll:expr, $faults:literal [$($with:ident),*] => $broken:expr;)*) => {
        $(
            #[test]
            fn $name() {
                let with: &[Fault] = &[$($with),*];
                let roll = Roll { name: stringify!($name), faults: $faults, with, ..$roll };
                is_caught(&roll, broken_roll::$name, $broken);
            }
        )*
    };
}

const DOWN: Roll = Roll { from: 1, to: 0, ..UP };
const AT_REST: Roll = Roll { from: 1, ..UP };

caught! {
    begins_with_the_leader, UP, 0 [] => Broken::Invariant(Violation::LeaderRested);
    relaunches_two_at_once, UP, 0 [] => Broken::Law(Law::SeveralRisks);
    goes_on_before_the_last_one_is_healthy, UP, 0 [] => Broken::Invariant(Violation::RestedWithoutQuorum);
    trusts_whoever_was_restarted, UP, 0 [] => Broken::Invariant(Violation::SecondAtRest);
    rolls_while_one_is_down, UP, 1 [Kills] => Broken::Invariant(Violation::RestedWithoutQuorum);
    skips_a_minor, FAR, 0 [] => Broken::Invariant(Violation::MinorSkipped);
    does_not_wait_for_the_cluster_version, FAR, 0 [] => Broken::Invariant(Violation::MinorSkipped);
    goes_down_without_asking_etcd, DOWN, 0 [] => Broken::Invariant(Violation::BelowClusterVersion);
    relaunches_for_a_changed_builder, AT_REST, 0 [] => Broken::NeverReached;
    works_on_while_paused, UP, 1 [Pauses] => Broken::Law(Law::ActsWhilePaused);
    removes_whom_it_relaunched, Roll { missing: Some(1), ..UP }, 0 [] => Broken::Law(Law::UnknownWrite);
    never_relaunches, UP, 0 [] => Broken::NeverReached;
}
