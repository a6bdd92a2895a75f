//! Every state of a formed cluster's life is visited, with the real planner: growing, shrinking, healing.

#![allow(clippy::panic, reason = "this is a test; a failure prints its path as it is meant to be read")]

use sim::{
    End, Properties, Stats,
    life::{
        Fault::{
            self, Answers, Crashes, Kills, Lags, Nodes, Pauses, Pods, Quota, Refusals, Slowness, StaleLists,
            Strangers, Takeovers, Volumes,
        },
        Life, explore,
    },
};

/// A cluster of three that nobody asks to be anything else.
const THREE: Life =
    Life { name: "", members: 3, size: 3, seed: false, learners: true, sizes: &[], faults: 1, with: &[] };

fn visit(life: &Life) -> Stats {
    let begin = std::time::Instant::now();
    match explore(life, &planner::plan, Properties::ALL) {
        Ok(stats) => {
            println!("{}: {stats} ({:.1?})", life.name, begin.elapsed());
            assert_eq!(stats.cut, 0, "{}: the world has too few names", life.name);
            stats
        }
        Err(failure) => panic!("{}: {failure}", life.name),
    }
}

fn ends(stats: &Stats) -> Vec<End> {
    stats.ends.keys().copied().collect()
}

const ABOVE: &[Fault] = &[Answers, Refusals, Quota, Crashes, Takeovers, StaleLists];
const BELOW: &[Fault] = &[Kills, Pods, Volumes, Nodes, Lags];
const ALL: &[Fault] = &[
    Kills, Pods, Volumes, Nodes, Lags, Answers, Refusals, Quota, Crashes, Takeovers, StaleLists, Slowness,
    Strangers,
];

#[test]
fn a_cluster_that_has_what_it_needs_is_left_alone() {
    let stats = visit(&Life { name: "at rest", ..THREE });
    assert_eq!(stats.ends.into_iter().collect::<Vec<_>>(), [(End::Running, 1)]);
}

#[test]
fn a_seed_grows_to_three_past_any_one_fault() {
    let stats = visit(&Life { name: "a seed grows", members: 1, seed: true, with: ALL, ..THREE });
    assert!(ends(&stats).contains(&End::Running));
}

#[test]
fn any_one_fault_is_healed() {
    let stats = visit(&Life { name: "one fault", with: ALL, ..THREE });
    assert_eq!(ends(&stats), [End::Running]);
}

#[test]
fn a_change_of_size_at_any_time_is_carried_out() {
    let stats = visit(&Life { name: "resizes", sizes: &[1, 3, 5], faults: 2, ..THREE });
    assert_eq!(ends(&stats), [End::Running]);
}

#[test]
fn growing_survives_any_one_fault() {
    let stats = visit(&Life { name: "3 to 5", size: 5, with: ALL, ..THREE });
    assert!(ends(&stats).contains(&End::Running));
}

#[test]
fn a_pause_in_the_middle_of_anything_is_kept_and_goes_by() {
    let rows: [(_, _, &[Fault]); 3] = [
        ("paused while it grows", 5, &[Pauses]),
        ("paused while it shrinks", 1, &[Pauses, Pods, Kills, Crashes]),
        ("paused while it heals", 3, &[Pauses, Pods, Kills, Crashes]),
    ];
    for (name, size, with) in rows {
        let stats = visit(&Life { name, size, faults: 2, with, ..THREE });
        assert!(ends(&stats).contains(&End::Running));
    }
}

/// Without strangers: this etcd lets a quorum agree on a removal though one of it has nothing yet, which raft does not. Without lost
/// answers: an addition of a voter that lands after another one counts on fewer than were healthy, which nothing here can forbid. And
/// without stale lists, which the other worlds have.
#[test]
fn without_learners_growing_and_healing_survive_any_one_fault() {
    let with = &[Kills, Pods, Volumes, Nodes, Lags, Refusals, Quota, Crashes, Takeovers, Slowness];
    for (name, members, size) in
        [("1 to 2 before 3.4", 1, 2), ("3 to 5 before 3.4", 3, 5), ("3 before 3.4", 3, 3)]
    {
        let stats = visit(&Life { name, members, size, learners: false, with, ..THREE });
        assert!(ends(&stats).contains(&End::Running));
    }
}

#[test]
fn shrinking_survives_any_one_fault() {
    let stats = visit(&Life { name: "3 to 1", size: 1, with: ALL, ..THREE });
    assert!(ends(&stats).contains(&End::Running));
}

#[test]
fn two_faults_of_members_are_healed_or_said() {
    let stats = visit(&Life { name: "two faults below", faults: 2, with: BELOW, ..THREE });
    assert_eq!(ends(&stats), [End::Running, End::Lost, End::Stranded]);
}

#[test]
fn a_lost_member_and_a_fault_of_the_operator_are_healed() {
    let with = &[Pods, Volumes, Answers, Refusals, Crashes, Takeovers, StaleLists];
    let stats = visit(&Life { name: "a loss and an operator's fault", faults: 2, with, ..THREE });
    assert!(ends(&stats).contains(&End::Running));
}

#[test]
fn two_faults_of_the_operator_while_it_grows() {
    let stats =
        visit(&Life { name: "two faults above", members: 1, size: 2, faults: 2, with: ABOVE, ..THREE });
    assert!(ends(&stats).contains(&End::Running));
}
