//! A pod that the API server refused is tried again, after a while: it is known not to exist, so its name is still unused. What
//! refused it is said meanwhile.

use launch::MemberName;

use super::{Decision, Flow, Situation};
use crate::{Waiting, step::Step, waiting};

pub(super) fn ask(situation: &Situation<'_>, decision: &mut Decision) -> Flow {
    let (view, observed) = (&situation.view, situation.observed);
    let Some(attempt) = view.attempt.clone().filter(|_| !view.is_formed()) else { return Flow::Next };
    if !decision.act.is_empty() {
        return Flow::Next;
    }
    let mut again: Vec<MemberName> = Vec::new();
    for member in situation.desired.founders(&attempt) {
        let refused = observed.refusal("Pod", member.as_str()).filter(|_| view.pod_of(&member).is_none());
        let Some(refused) = refused else { continue };
        let squatter =
            observed.squatted.iter().find(|taken| taken.kind == "Pod" && taken.name == member.as_str());
        let too_soon = waiting::too_soon(refused, observed.now);
        if too_soon.is_none() && squatter.is_none() {
            again.push(member);
        }
        let reason = squatter.map_or_else(|| waiting::reason_of(refused), waiting::taken);
        decision.wait(Waiting::blocked(reason).until(too_soon.and_then(|waiting| waiting.until)));
    }
    if !again.is_empty() {
        decision.act = vec![Step::CreateMembers { attempt, members: again }];
    }
    Flow::Next
}

#[cfg(test)]
mod tests {
    use crate::{RefusalClass, RefusedObject, SquattedName, Step, fixture::World};

    fn refused(at: &str) -> World {
        let mut world = World::forming();
        let name = world.pod(1).name.clone();
        world.observed.pods.remove(1);
        let at = at.parse().unwrap();
        let class = RefusalClass::Quota;
        let message = "exceeded quota: pods".to_owned();
        world.observed.refusals.push(RefusedObject { kind: "Pod", name, class, message, at });
        world
    }

    #[test]
    fn only_the_refused_pod_is_made_again_and_only_after_a_while() {
        let soon = refused("2026-01-01T00:09:58Z");
        assert_eq!((soon.steps(), soon.waits()[0]), (vec![], "QuotaExceeded"));
        assert_eq!(soon.plan().waiting[0].until.unwrap().to_string(), "2026-01-01T00:10:03Z");
        let later = refused("2026-01-01T00:09:00Z");
        let plan = later.plan();
        let [Step::CreateMembers { members, .. }] = plan.steps.as_slice() else { panic!("{:?}", plan.steps) };
        assert_eq!(members, &[later.name(1)]);
        assert!(plan.waiting[0].reason.to_string().contains(later.name(1).as_str()));
    }

    #[test]
    fn a_foreign_pod_under_the_name_is_named_and_waited_for() {
        let mut world = refused("2026-01-01T00:09:00Z");
        let name = world.name(1).to_string();
        world.observed.squatted.push(SquattedName { kind: "Pod", name, owner: "nobody".to_owned() });
        assert_eq!((world.steps(), world.waits()[0]), (vec![], "NameTaken"));
    }
}
