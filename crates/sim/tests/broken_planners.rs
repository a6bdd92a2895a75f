//! Planners that are broken on purpose, each in one way: the explorer has to find every one of them, and print how it comes to harm.

#![allow(clippy::panic, reason = "this is a test; a failure prints its path as it is meant to be read")]

mod broken;

use planner::{Desired, Observed, Plan, Problem, safety::Violation};
use sim::{
    Broken, Counterexample, Failure,
    Ingredient::{
        self, Answers, Crashes, Deletion, Kills, Nodes, Pods, Quota, SplitReads, Takeovers, Volumes,
    },
    Law, World, explore,
};

type Rule = fn(&Result<Desired, Vec<Problem>>, &Observed) -> Plan;

/// What is found when this planner works in a world with these faults.
fn found(name: &'static str, faults: u8, with: &'static [Ingredient], rule: Rule) -> Counterexample {
    let world = World { name, faults, attempts: 4, with };
    match explore(&world, &rule, Law::ALL) {
        Err(Failure::Found(found)) => {
            println!("{name}: {found}");
            *found
        }
        Err(failure) => panic!("{name}: {failure}"),
        Ok(stats) => panic!("{name} was not caught: {stats}"),
    }
}

macro_rules! caught {
    ($($name:ident, $faults:literal [$($with:ident),*] => $broken:expr, $steps:literal;)*) => {
        $(
            #[test]
            fn $name() {
                let found = found(stringify!($name), $faults, &[$($with),*], broken::$name);
                assert_eq!((found.broken, found.path.len()), ($broken, $steps), "{found}");
            }
        )*
    };
}

caught! {
    bootstraps_when_it_finds_no_pods, 1 [Crashes] => Broken::Invariant(Violation::BirthRewritten), 8;
    makes_pods_before_the_latch, 0 [] => Broken::Invariant(Violation::PodBeforeLatch), 4;
    calls_a_quorum_formed, 0 [] => Broken::Invariant(Violation::FormedTooEarly), 11;
    makes_a_missing_pod_again, 1 [Pods] => Broken::Law(Law::NewTwice), 11;
    never_withdraws_the_permission, 1 [Volumes] => Broken::Law(Law::Amnesia), 14;
    gives_the_permission_back, 0 [] => Broken::Invariant(Violation::EmptyStartGranted), 13;
    lets_clients_in_before_formed, 0 [] => Broken::Invariant(Violation::TrafficBeforeFormed), 3;
    restarts_members_by_deleting_pods, 1 [Kills] => Broken::Law(Law::LivePodDeleted), 19;
    ignores_resource_versions, 1 [Takeovers] => Broken::Invariant(Violation::BirthRewritten), 8;
    starts_anew_after_total_loss, 3 [Pods] => Broken::Law(Law::SecondCluster), 21;
    deletes_pods_that_it_does_not_know, 3 [Takeovers, SplitReads] => Broken::Law(Law::LivePodDeleted), 13;
    works_on_while_the_resource_is_deleted, 0 [Deletion] => Broken::Law(Law::ActsOnDeleted), 2;
    says_available_without_a_quorum, 0 [] => Broken::Law(Law::FalseAvailable), 1;
    never_lets_clients_in, 0 [] => Broken::NeverReached, 0;
    never_deletes_what_it_abandoned, 1 [Pods] => Broken::NeverReached, 6;
    never_tries_a_refused_pod_again, 1 [Quota] => Broken::NeverReached, 5;
    never_abandons, 1 [Crashes] => Broken::NeverReached, 5;
    says_nothing_of_lost_members, 1 [Pods] => Broken::NeverReached, 13;
    waits_for_lost_nodes_before_it_forms, 1 [Nodes] => Broken::NeverReached, 7;
    reports_a_phase_before_the_birth, 1 [Answers] => Broken::NeverReached, 2;
    is_never_done, 0 [] => Broken::NeverReached, 0;
}
