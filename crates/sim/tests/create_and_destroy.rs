//! Every state of creating and destroying a cluster of three is visited, with the real planner.

#![allow(clippy::panic, reason = "this is a test; a failure prints its path as it is meant to be read")]

use sim::{
    End,
    Ingredient::{
        self, Answers, Blindness, Crashes, Deletion, Distinct, EarlyWrites, Kills, Nodes, Pods, Quota,
        Services, SplitReads, StaleLists, Takeovers, TwoLeaders, Volumes,
    },
    Properties, Stats, World, explore,
};

fn visit(name: &'static str, faults: u8, attempts: u8, with: &'static [Ingredient]) -> Stats {
    let begin = std::time::Instant::now();
    match explore(&World { name, faults, attempts, with }, &planner::plan, Properties::ALL) {
        Ok(stats) => {
            println!("{name}: {stats} ({:.1?})", begin.elapsed());
            stats
        }
        Err(failure) => panic!("{name}: {failure}"),
    }
}

fn ends(stats: &Stats) -> Vec<End> {
    stats.ends.keys().copied().collect()
}

#[test]
fn without_faults_there_is_one_end_and_it_is_a_running_cluster() {
    let stats = visit("no faults", 0, 1, &[Distinct]);
    assert_eq!(stats.ends.into_iter().collect::<Vec<_>>(), [(End::Running, 1)]);
}

#[test]
fn a_client_that_writes_before_the_cluster_has_formed_costs_it_nothing() {
    let stats = visit("early writes", 0, 1, &[EarlyWrites, Distinct]);
    assert_eq!((stats.cut, ends(&stats)), (0, vec![End::Running]));
}

#[test]
fn deleting_the_resource_at_any_moment_leaves_nothing() {
    let stats = visit("deletion", 0, 1, &[Deletion, Distinct]);
    assert_eq!(ends(&stats), [End::Running, End::Gone]);
}

#[test]
fn any_one_fault_is_survived() {
    let all = &[
        Kills,
        Pods,
        Volumes,
        Nodes,
        Answers,
        Quota,
        Crashes,
        Takeovers,
        Blindness,
        Services,
        Deletion,
        SplitReads,
        StaleLists,
        EarlyWrites,
    ];
    let stats = visit("any one fault", 1, 2, all);
    assert_eq!(stats.cut, 0, "the world is too small");
    let expected = [End::Running, End::Kept, End::Degraded, End::Gone];
    assert_eq!(ends(&stats), expected, "no pod is waited for for ever");
}

#[test]
fn telling_members_apart_finds_no_other_ends() {
    let with = &[Kills, Pods, Volumes, Nodes, Answers, Quota, Crashes, Takeovers, Services];
    let (one, each) = (visit("one for all", 1, 3, with), {
        let with = &[Kills, Pods, Volumes, Nodes, Answers, Quota, Crashes, Takeovers, Services, Distinct];
        visit("each for itself", 1, 3, with)
    });
    assert_eq!((one.cut, each.cut), (0, 0), "the world is too small");
    assert_eq!(ends(&one), ends(&each));
    assert!(one.states < each.states);
}

#[test]
fn two_faults_of_pods_volumes_and_nodes_are_survived() {
    let stats = visit("two faults below", 2, 3, &[Kills, Pods, Volumes, Nodes, Deletion, EarlyWrites]);
    assert_eq!(stats.cut, 0, "the world is too small");
    assert!(ends(&stats).contains(&End::Lost));
}

#[test]
fn two_faults_of_operators_and_their_writes_are_survived() {
    let with = &[Answers, Quota, Crashes, Takeovers, Blindness, Services, SplitReads];
    let stats = visit("two faults above", 2, 4, with);
    assert_eq!((stats.cut, ends(&stats)), (0, vec![End::Running]));
}

#[test]
fn lists_that_are_older_than_the_record_are_survived() {
    let stats = visit("stale lists", 2, 4, &[StaleLists, Takeovers]);
    assert_eq!((stats.cut, ends(&stats)), (0, vec![End::Running]));
}

#[test]
fn losing_every_pod_never_makes_a_formed_cluster_start_anew() {
    let stats = visit("three pods lost", 3, 4, &[Pods]);
    assert_eq!((stats.cut, ends(&stats)), (0, vec![End::Running, End::Degraded, End::Lost]));
}

#[test]
fn what_a_client_wrote_before_the_cluster_had_formed_outlives_two_lost_pods() {
    let stats = visit("early writes, two pods lost", 2, 3, &[Pods, EarlyWrites]);
    let expected = vec![End::Running, End::Kept, End::Degraded, End::Lost];
    assert_eq!((stats.cut, ends(&stats)), (0, expected));
}

#[test]
fn two_leaders_at_once_do_no_harm() {
    // Each state is safe; none is an end, because the other one always has something to do. They can take each other's attempts for lost
    // without end, too: what comes after the second attempt is left out, and counted.
    visit("two leaders", 0, 2, &[TwoLeaders, Deletion, EarlyWrites]);
}
