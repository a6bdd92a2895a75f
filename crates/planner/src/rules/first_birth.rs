//! A resource without a birth gets one, and right after it its pods, in the same round.
//!
//! The record comes first (invariant I7). The pods follow at once and only here: a later round that finds a pod missing cannot tell
//! whether it was never made or was made, started and lost, so it never makes that pod (`abandon`).

use api::{Birth, Reason, validate};

use super::{Decision, Flow, Situation};
use crate::{
    Waiting,
    attempt::Attempt,
    step::{BirthCause, Step},
    waiting,
};

pub(super) fn ask(situation: &Situation<'_>, decision: &mut Decision) -> Flow {
    if situation.view.birth.is_none() {
        begin(situation, decision, BirthCause::First);
    }
    Flow::Next
}

/// Begins an attempt, unless the record was just refused. Whether it does.
pub(super) fn begin(situation: &Situation<'_>, decision: &mut Decision, because: BirthCause) -> bool {
    let observed = situation.observed;
    let refused = observed.refusals.iter().find(|refused| refused.kind == "EtcdCluster");
    if let Some(waiting) = refused.and_then(|refused| waiting::too_soon(refused, observed.now)) {
        decision.wait(waiting);
        return false;
    }
    let token = observed.token.to_string();
    let from = situation.view.birth.cloned();
    let birth = from.as_ref().map_or_else(|| Birth::first(token.clone()), |birth| birth.next(token.clone()));
    // The API server would refuse it anyway; a count that has come to its end, or a token that is not fresh.
    if let Some(problem) = validate::birth(from.as_ref(), Some(&birth)).first() {
        decision.wait(Waiting::blocked(Reason::AdoptionNeeded { evidence: problem.to_string() }));
        return false;
    }
    let attempt = Attempt { incarnation: birth.incarnation, token: observed.token.clone() };
    let members = situation.desired.founders(&attempt);
    let resource_version = observed.resource.resource_version.clone();
    decision.act = vec![
        Step::LatchBirth { resource_version, from, birth, because },
        Step::CreateMembers { attempt, members },
    ];
    true
}

#[cfg(test)]
mod tests {
    use crate::{
        Effect, RefusalClass, RefusedObject,
        fixture::{World, desired},
        observed::SeenPod,
    };

    fn refused(world: &World, class: RefusalClass, at: &str) -> RefusedObject {
        let name = world.observed.resource.name.clone();
        RefusedObject { kind: "EtcdCluster", name, class, message: "no".to_owned(), at: at.parse().unwrap() }
    }

    #[test]
    fn services_come_first_then_the_record_then_all_pods_at_once() {
        let world = World::new(r#"{"size": 3}"#);
        assert_eq!(
            world.steps(),
            ["EnsurePeerService", "EnsureClientService", "LatchBirth", "CreateMembers"]
        );
        let effects: Vec<Effect> =
            world.plan().steps.iter().flat_map(|step| step.lower(&desired())).collect();
        let names: Vec<&str> = effects.iter().map(Effect::name).collect();
        let expected =
            ["CreateService", "CreateService", "ReplaceStatusBirth", "CreatePod", "CreatePod", "CreatePod"];
        assert_eq!(names, expected);
    }

    #[test]
    fn the_record_carries_the_fresh_token_and_the_version_that_was_read() {
        let world = World::new(r#"{"size": 3}"#);
        let effects: Vec<Effect> =
            world.plan().steps.iter().flat_map(|step| step.lower(&desired())).collect();
        let Effect::ReplaceStatusBirth { resource_version, birth } = &effects[2] else {
            panic!("{effects:?}")
        };
        assert_eq!((resource_version.as_str(), birth), ("7", &api::Birth::first("fresh".to_owned())));
        let Effect::CreatePod(pod) = &effects[3] else { panic!("{effects:?}") };
        let attempt = crate::Attempt::of(birth).unwrap();
        assert_eq!(SeenPod::from_pod(pod).attempt, Some(attempt.label()));
    }

    #[test]
    fn a_record_that_was_refused_is_tried_again_only_after_a_while() {
        for (at, steps) in [("2026-01-01T00:09:59Z", 0), ("2026-01-01T00:09:30Z", 4)] {
            let mut world = World::new(r#"{"size": 3}"#);
            world.observed.refusals = vec![refused(&world, RefusalClass::CrdOutdated, at)];
            assert_eq!(world.steps().len(), steps, "{at}");
            assert_eq!(world.waits().contains(&"CrdOutdated"), steps == 0);
            assert!(steps > 0 || world.plan().wake_at.is_some());
        }
    }

    #[test]
    fn a_token_that_was_used_before_begins_nothing() {
        let mut world = World::forming();
        world.observed.pods.clear();
        world.observed.token = "t-1".parse().unwrap();
        assert!(!world.steps().contains(&"LatchBirth"));
        assert_eq!(world.waits(), ["AdoptionNeeded"]);
    }

    #[test]
    fn every_size_gets_its_number_of_pods() {
        for size in 1..=7 {
            let world = World::new(&format!(r#"{{"size": {size}}}"#));
            let desired = world.desired.clone().unwrap();
            let effects: Vec<Effect> =
                world.plan().steps.iter().flat_map(|step| step.lower(&desired)).collect();
            let pods = effects.iter().filter(|effect| effect.name() == "CreatePod");
            assert_eq!(pods.count(), size);
        }
    }
}
