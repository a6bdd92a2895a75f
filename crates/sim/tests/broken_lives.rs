//! Planners that are broken on purpose in what they do to a formed cluster: the explorer has to find every one of them.
//!
//! Where both can, the world's laws and the planner's own invariants have to find it each without the other.

#![allow(clippy::panic, reason = "this is a test; a failure prints its path as it is meant to be read")]

mod broken_life;

use planner::{Desired, Observed, Plan, Problem, safety::Violation};
use sim::{
    Broken, Failure, Law, Properties,
    life::{
        Fault::{self, Kills, Pauses, Pods, Strangers, Volumes},
        Life, explore,
    },
};

type Rule = fn(&Result<Desired, Vec<Problem>>, &Observed) -> Plan;

/// Whether it is found as this, and with no fewer faults than are said to be needed.
fn is_caught(life: &Life, rule: Rule, properties: Properties, broken: Broken) {
    match explore(life, &rule, properties) {
        Err(Failure::Found(found)) => {
            println!("{}: {found}", life.name);
            assert_eq!((found.broken, found.faults), (broken, life.faults), "{found}");
        }
        Err(failure) => panic!("{}: {failure}", life.name),
        Ok(stats) => panic!("{} was not caught: {stats}", life.name),
    }
}

/// Each row: the planner, from how many members to how many, how many faults of which kind it takes, and who catches it as what.
macro_rules! caught {
    ($($name:ident, $members:literal to $size:literal, $faults:literal [$($with:ident),*] => $($properties:ident $broken:expr),+;)*) => {
        $(
            #[test]
            fn $name() {
                let with: &[Fault] = &[$($with),*];
                let (name, members, size) = (stringify!($name), $members, $size);
                let (seed, learners, faults) = (false, true, $faults);
                let life = Life { name, members, size, seed, learners, sizes: &[], faults, with };
                $(is_caught(&life, broken_life::$name, Properties::$properties, $broken);)+
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
    removes_a_healthy_voter_beside_a_dead_one, 3 to 3, 1 [Kills] => INVARIANTS invariant(Violation::QuorumRisked);
    adds_the_next_one_while_one_joins, 3 to 5, 0 [] => LAWS law(Law::SeveralJoining), INVARIANTS invariant(Violation::SecondChange);
    adds_a_voter_beside_a_dead_one, 3 to 3, 1 [Kills] => INVARIANTS invariant(Violation::QuorumRisked);
    promotes_a_learner_that_is_dead, 3 to 5, 1 [Kills] => LAWS law(Law::PromotedDead);
    promotes_a_learner_that_is_behind, 3 to 5, 0 [] => INVARIANTS invariant(Violation::PromotedBehind);
    uses_the_name_of_a_lost_member_again, 3 to 3, 1 [Pods] => LAWS law(Law::NameAddedTwice), INVARIANTS invariant(Violation::NameAddedTwice);
    makes_the_pod_before_the_member, 3 to 5, 0 [] => LAWS law(Law::PodBeforeMember), INVARIANTS invariant(Violation::PodBeforeMember);
    makes_joining_pods_as_new, 3 to 3, 1 [Pods] => LAWS law(Law::NewAfterFormed), INVARIANTS invariant(Violation::BornAgain);
    makes_a_lost_pod_again, 3 to 3, 1 [Pods] => LAWS law(Law::NewTwice), INVARIANTS invariant(Violation::NameUsedTwice);
    removes_the_leader_without_moving_it, 3 to 1, 1 [Kills] => LAWS law(Law::LeaderRemoved);
    deletes_the_pod_before_the_removal, 3 to 1, 0 [] => LAWS law(Law::LivePodDeleted), INVARIANTS invariant(Violation::LivePodDeleted);
    begins_anew_when_nobody_serves, 1 to 1, 1 [Kills] => LAWS law(Law::SecondCluster), INVARIANTS invariant(Violation::BornAgain);
    removes_whoever_is_silent_at_once, 3 to 3, 1 [Kills] => LAWS law(Law::GivenUpTooSoon);
    deletes_several_pods_at_once, 3 to 1, 0 [] => LAWS law(Law::SeveralRisks);
    says_available_without_a_quorum, 1 to 1, 1 [Kills] => LAWS law(Law::FalseAvailable);
    works_on_while_paused, 3 to 5, 1 [Pauses] => LAWS law(Law::ActsWhilePaused);
    never_removes, 3 to 3, 1 [Volumes] => ALL Broken::NeverReached;
    never_removes_what_strangers_add, 3 to 3, 1 [Strangers] => ALL Broken::NeverReached;
    never_promotes, 1 to 3, 0 [] => ALL Broken::NeverReached;
    never_adds, 3 to 3, 1 [Pods] => ALL Broken::NeverReached;
    never_deletes_the_pods_of_removed_members, 3 to 1, 0 [] => ALL Broken::NeverReached;
    says_nothing_when_the_quorum_is_lost, 1 to 1, 1 [Volumes] => ALL Broken::NeverReached;
    moves_the_leader_for_ever, 3 to 3, 0 [] => ALL Broken::NeverReached;
}
