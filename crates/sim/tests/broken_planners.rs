//! Planners that are broken on purpose, each in one way: the explorer has to find every one of them, and print how it comes to harm.
//!
//! Where both can, the world's laws and the planner's own invariants have to find it each without the other.

#![allow(clippy::panic, reason = "this is a test; a failure prints its path as it is meant to be read")]

mod broken;

use planner::{Desired, Observed, Plan, Problem, safety::Violation};
use sim::{
    Broken, Counterexample, Failure,
    Ingredient::{
        self, Answers, Crashes, Deletion, EarlyWrites, Kills, Nodes, Pods, Quota, SplitReads, StaleLists,
        Takeovers, Volumes,
    },
    Law, Properties, World, explore,
};

type Rule = fn(&Result<Desired, Vec<Problem>>, &Observed) -> Plan;

/// A planner, and the world in which it comes to harm.
struct Case {
    name: &'static str,
    rule: Rule,
    faults: u8,
    with: &'static [Ingredient],
}

impl Case {
    /// What is found when these properties are asked for.
    fn found(&self, properties: Properties) -> Counterexample {
        let world = World { name: self.name, faults: self.faults, attempts: 4, with: self.with };
        match explore(&world, &self.rule, properties) {
            Err(Failure::Found(found)) => {
                println!("{}: {found}", self.name);
                *found
            }
            Err(failure) => panic!("{}: {failure}", self.name),
            Ok(stats) => panic!("{} was not caught: {stats}", self.name),
        }
    }

    /// Whether it is found, and with no fewer faults than are said to be needed.
    fn is_caught(&self, properties: Properties, broken: Broken) {
        let found = self.found(properties);
        assert_eq!((found.broken, found.faults), (broken, self.faults), "{found}");
    }
}

/// Each row: the planner, how many faults of which kind it takes, and who catches it as what.
macro_rules! caught {
    ($($name:ident, $faults:literal [$($with:ident),*] => $($properties:ident $broken:expr),+;)*) => {
        $(
            #[test]
            fn $name() {
                let (name, rule) = (stringify!($name), broken::$name);
                let case = Case { name, rule, faults: $faults, with: &[$($with),*] };
                $(case.is_caught(Properties::$properties, $broken);)+
            }
        )*
    };
}

const fn law(law: Law) -> Broken {
    Broken::Law(law)
}

const fn invariant(violation: Violation) -> Broken {
    Broken::Invariant(violation)
}

caught! {
    bootstraps_when_it_finds_no_pods, 1 [Crashes] => INVARIANTS invariant(Violation::BirthRewritten);
    makes_pods_before_the_latch, 0 [] => LAWS law(Law::PodBeforeLatch), INVARIANTS invariant(Violation::PodBeforeLatch);
    calls_a_quorum_formed, 0 [] => LAWS law(Law::FormedFalsely), INVARIANTS invariant(Violation::FormedTooEarly);
    makes_a_missing_pod_again, 1 [Pods] => LAWS law(Law::NewTwice), INVARIANTS invariant(Violation::NameUsedTwice);
    makes_lost_members_again_as_new, 1 [Pods] => LAWS law(Law::NewTwice), INVARIANTS invariant(Violation::BornAgain);
    never_withdraws_the_permission, 1 [Volumes] => LAWS law(Law::Amnesia);
    gives_up_what_clients_wrote, 1 [Pods, EarlyWrites] => LAWS law(Law::DataAbandoned), INVARIANTS invariant(Violation::DataAbandoned);
    deletes_pods_that_hold_what_clients_wrote, 1 [Pods, EarlyWrites] => LAWS law(Law::DataAbandoned), INVARIANTS invariant(Violation::DataAbandoned);
    gives_the_permission_back, 0 [] => INVARIANTS invariant(Violation::EmptyStartGranted);
    lets_clients_in_before_formed, 0 [] => LAWS law(Law::ClientsAstray), INVARIANTS invariant(Violation::TrafficBeforeFormed);
    restarts_members_by_deleting_pods, 1 [Kills] => LAWS law(Law::LivePodDeleted), INVARIANTS invariant(Violation::LivePodDeleted);
    ignores_resource_versions, 1 [Takeovers] => INVARIANTS invariant(Violation::BirthRewritten);
    abandons_on_an_outdated_resource, 2 [Takeovers, Kills, Pods] => LAWS law(Law::SecondCluster);
    starts_anew_after_total_loss, 3 [Pods] => LAWS law(Law::SecondCluster), INVARIANTS invariant(Violation::BornAgain);
    deletes_pods_that_it_does_not_know, 3 [Takeovers, SplitReads] => LAWS law(Law::LivePodDeleted), INVARIANTS invariant(Violation::LivePodDeleted);
    works_on_while_the_resource_is_deleted, 0 [Deletion] => LAWS law(Law::ActsOnDeleted);
    says_available_without_a_quorum, 0 [] => LAWS law(Law::FalseAvailable);
    deletes_all_it_abandoned_at_once, 1 [Pods] => LAWS law(Law::SeveralRisks);
    never_lets_clients_in, 0 [] => ALL Broken::NeverReached;
    never_deletes_what_it_abandoned, 1 [Pods] => ALL Broken::NeverReached;
    never_tries_a_refused_pod_again, 1 [Quota] => ALL Broken::NeverReached;
    never_abandons, 1 [Crashes] => ALL Broken::NeverReached;
    says_nothing_of_lost_members, 2 [Pods] => ALL Broken::NeverReached;
    waits_for_lost_nodes_before_it_forms, 1 [Nodes] => ALL Broken::NeverReached;
    waits_for_pods_that_never_ran, 1 [Nodes] => ALL Broken::NeverReached;
    reports_a_phase_before_the_birth, 1 [Answers] => ALL Broken::NeverReached;
    is_never_done, 0 [] => ALL Broken::NeverReached;
}

#[test]
fn a_planner_that_does_nothing_gets_nowhere() {
    let rule: Rule = |desired, observed| Plan { steps: Vec::new(), ..planner::plan(desired, observed) };
    let case = Case { name: "does nothing", rule, faults: 0, with: &[] };
    case.is_caught(Properties::ALL, Broken::NeverReached);
}

#[test]
fn a_permission_that_was_given_back_is_used() {
    let rule = broken::gives_the_permission_back;
    let case = Case { name: "gives the permission back", rule, faults: 1, with: &[Volumes] };
    case.is_caught(Properties::LAWS, law(Law::Amnesia));
}

/// It trusts a stale view: a list from before the cluster had any pods is no total loss.
#[test]
fn a_list_that_is_older_than_the_record_is_no_total_loss() {
    let rule = broken::starts_anew_after_total_loss;
    let case = Case { name: "trusts a stale list", rule, faults: 2, with: &[StaleLists, Takeovers] };
    case.is_caught(Properties::LAWS, law(Law::SecondCluster));
    case.is_caught(Properties::INVARIANTS, invariant(Violation::BornAgain));
}

#[test]
fn a_client_notices_when_its_write_is_gone() {
    let case =
        Case { name: "starts anew", rule: broken::starts_anew_after_total_loss, faults: 3, with: &[Pods] };
    let found = case.found(Properties { laws: &[Law::WriteLost], invariants: &[] });
    assert_eq!(found.broken, law(Law::WriteLost));
}
