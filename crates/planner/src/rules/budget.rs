//! The budget exists once the cluster has formed, and asks for a quorum of the voters that there are. A budget of somebody else's is
//! named and left alone.

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
    let voters = situation.membership.as_ref().map(|membership| membership.voters().count());
    let Some((attempt, voters)) = view.attempt.clone().zip(voters) else { return Flow::Next };
    let wanted = manifest::budget(situation.desired, &attempt, voters);
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
        decision.ensures.push(Step::EnsureBudget { attempt, voters, seen });
    }
    decision.wait(refused);
    Flow::Next
}

#[cfg(test)]
mod tests {
    use crate::{
        Effect, SeenBudget,
        fixture::{World, desired},
    };

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
