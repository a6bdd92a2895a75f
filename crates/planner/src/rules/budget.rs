//! The budget exists once the cluster has formed, and asks for a quorum of the voters that there are. A budget of somebody else's is
//! named and left alone.
//!
//! A voter that this round adds counts already: what is harmless is sent first, so the budget has risen when the vote is given. The other way
//! around, an eviction between the two could take the quorum, from one voter to two and from three to four. A voter that leaves counts until it
//! has left. While members are restarted one after another, all of them have to stay.

use api::Reason;

use super::{Decision, Flow, Situation, after};
use crate::{
    Waiting, manifest,
    observed::SeenBudget,
    status::FRESH,
    step::{SeenObject, Step},
};

const KIND: &str = "PodDisruptionBudget";

pub(super) fn ask(situation: &Situation<'_>, decision: &mut Decision) -> Flow {
    let (observed, view) = (situation.observed, &situation.view);
    let voters =
        situation.membership.as_ref().map(|membership| membership.voters().count() + added(decision));
    let Some((attempt, voters)) = view.attempt.clone().zip(voters) else { return Flow::Next };
    let rolling = decision.rolling;
    let budget = if rolling { manifest::budget_of_a_roll } else { manifest::budget };
    let wanted = budget(situation.desired, &attempt, voters);
    let name = wanted.metadata.name.clone().unwrap_or_default();
    let refused = situation.too_soon(KIND, &name);
    let again = after(observed.now, FRESH);
    let seen = match &observed.budget {
        SeenBudget::Unknown(message) => {
            let message = message.clone();
            decision.wait(Waiting::passing(Reason::ApiUnavailable { message }).until(again));
            return Flow::Next;
        }
        SeenBudget::Squatted(owner) => {
            let (kind, owner) = (KIND.to_owned(), owner.clone());
            decision.wait(Waiting::blocked(Reason::NameTaken { kind, name, owner }).until(again));
            return Flow::Next;
        }
        SeenBudget::Ours { deleting: true, .. } => return Flow::Next,
        SeenBudget::Ours { .. } if manifest::is_budget_as_wanted(&observed.budget, &wanted) => {
            return Flow::Next;
        }
        SeenBudget::Ours { uid, resource_version, .. } => {
            Some(SeenObject { uid: uid.clone(), resource_version: resource_version.clone() })
        }
        SeenBudget::Missing => None,
    };
    if refused.is_none() {
        decision.wait(situation.disputed(KIND, &name));
        decision.ensures.push(Step::EnsureBudget { attempt, voters, rolling, seen });
    }
    decision.wait(refused);
    Flow::Next
}

/// How many voters this round adds.
fn added(decision: &Decision) -> usize {
    let adds =
        |step: &&Step| matches!(step, Step::PromoteMember { .. } | Step::AddMember { learner: false, .. });
    decision.act.iter().filter(adds).count()
}

#[cfg(test)]
mod tests {
    use crate::{
        Effect, SeenBudget, Step,
        fixture::{World, desired, desired_of},
    };

    /// What is sent of budgets and members, and how many have to stay.
    fn risen(world: &World) -> Vec<(&'static str, Option<i32>)> {
        let effects = world.plan().steps.into_iter().flat_map(|step: Step| step.lower(&desired()));
        let number = |effect: &Effect| match effect {
            Effect::ApplyBudget { budget, .. } | Effect::CreateBudget(budget) => {
                match SeenBudget::from_budget(budget, &desired().uid) {
                    SeenBudget::Ours { min_available, .. } => min_available,
                    _ => None,
                }
            }
            _ => None,
        };
        let told = |effect: Effect| (effect.name(), number(&effect));
        effects.map(told).filter(|(name, _)| name.ends_with("Budget") || name.ends_with("Member")).collect()
    }

    #[test]
    fn the_budget_rises_before_a_vote_is_given() {
        for (size, minimum) in [(1, 2), (2, 2), (3, 3)] {
            let mut world = World::formed_of(size);
            world.desired = desired_of(&format!(r#"{{"size": {}}}"#, size + 1));
            world.join("http://example-newnewnew1.example.default.svc:2380", true);
            let unchanged = size == 2;
            let expected = if unchanged {
                vec![("PromoteMember", None)]
            } else {
                vec![("ApplyBudget", Some(minimum)), ("PromoteMember", None)]
            };
            assert_eq!(risen(&world), expected, "{size}");
        }
    }

    #[test]
    fn before_3_4_a_member_that_joins_with_a_vote_counts_before_it_is_added() {
        let mut world = World::formed();
        world.desired = desired_of(r#"{"size": 4}"#);
        world.change_all(|answer| answer.version = Some("3.3.27".parse().unwrap()));
        assert_eq!(risen(&world)[..2], [("ApplyBudget", Some(3)), ("AddMember", None)], "{:?}", world.plan());
    }

    fn sent(world: &World) -> Vec<&'static str> {
        let effects = world.plan().steps.into_iter().flat_map(|step| step.lower(&desired()));
        effects.map(|effect| Effect::name(&effect)).collect()
    }

    #[test]
    fn the_budget_follows_the_voters_and_comes_back_if_it_is_deleted_or_changed() {
        let mut world = World::formed();
        assert_eq!(sent(&world), [""; 0]);
        world.observed.budget = SeenBudget::Missing;
        assert_eq!(sent(&world), ["CreateBudget"]);
        let mut five = World::formed_of(5);
        five.observed.budget = World::formed().observed.budget;
        assert!(sent(&five).contains(&"ApplyBudget"));
        assert_eq!(sent(&World::up()).iter().filter(|name| name.ends_with("Budget")).count(), 0);
    }

    #[test]
    fn a_foreign_budget_is_named_and_left_alone() {
        let mut world = World::formed();
        world.observed.budget = SeenBudget::Squatted("nobody".to_owned());
        assert_eq!((sent(&world), world.waits()), (vec![], vec!["NameTaken"]));
    }
}
