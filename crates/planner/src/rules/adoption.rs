//! A resource that has been used before and has no record of its birth is never started as new: it may have data somewhere. The
//! same where the record and the pods contradict each other, as after an old copy of the API server's data was put back.

use api::{Phase, Reason};

use super::{Decision, Flow, Situation};
use crate::{Waiting, view::Kinship};

pub(super) fn ask(situation: &Situation<'_>, decision: &mut Decision) -> Flow {
    let Some(evidence) = evidence(situation) else { return Flow::Next };
    decision.hold(situation.observed, Waiting::blocked(Reason::AdoptionNeeded { evidence }))
}

/// What says that this resource has a past that its record does not tell.
fn evidence(situation: &Situation<'_>) -> Option<String> {
    let view = &situation.view;
    let resource = &situation.observed.resource;
    if view.birth.is_none() {
        let phase = resource.status.phase.as_deref().unwrap_or_default();
        if resource.phase() != Phase::None {
            return Some(format!("its status.phase is {phase:?} and it has no status.birth"));
        }
        let pod = situation.observed.own_pods().next()?;
        return Some(format!("pod {} belongs to it and it has no status.birth", pod.name));
    }
    if view.attempt.is_none() {
        return Some("the token in status.birth was not written by this operator".to_owned());
    }
    // A formed cluster is never started again whatever else is there, so nothing has to be held for it.
    let strange = view.pods(Kinship::Strange).next().filter(|_| !view.is_formed())?;
    Some(format!("pod {} belongs to it and to no attempt that status.birth knows of", strange.name))
}

#[cfg(test)]
mod tests {
    use api::Birth;

    use crate::fixture::{World, attempt, birth};

    fn held(world: &World) -> bool {
        world.waits() == ["AdoptionNeeded"] && world.steps().is_empty()
    }

    #[test]
    fn a_used_resource_without_a_birth_is_held() {
        for phase in ["Creating", "Running", "Failed", "Reborn"] {
            let mut world = World::new(r#"{"size": 3}"#);
            world.observed.resource.status.phase = Some(phase.to_owned());
            assert!(held(&world), "{phase}");
            assert_eq!(world.plan().report.status.phase.as_deref(), Some(phase), "the old phase stays");
        }
        let mut world = World::forming();
        world.observed.resource.status = api::EtcdClusterStatus::default();
        assert!(held(&world), "pods without a birth");
        world.pod(0).deleting = true;
        assert!(held(&world), "also pods that are on their way out");
    }

    #[test]
    fn an_unused_resource_is_not_held() {
        let mut world = World::new(r#"{"size": 3}"#);
        world.observed.resource.status.phase = Some(String::new());
        world.observed.resource.status.conditions = Some(vec![]);
        assert!(!held(&world));
        let mut foreign = World::forming();
        foreign.observed.resource.status = api::EtcdClusterStatus::default();
        for pod in &mut foreign.observed.pods {
            pod.owner_uid = Some("an earlier cluster of this name".to_owned());
        }
        assert!(!held(&foreign), "pods of an earlier resource are not ours");
    }

    #[test]
    fn a_record_that_contradicts_the_pods_is_not_acted_on() {
        let mut world = World::forming();
        world.born(birth(1));
        world.add_pod(&attempt(2), &attempt(2).member("example", 0).unwrap());
        assert!(held(&world), "a pod of a later attempt");
        let mut world = World::new(r#"{"size": 3}"#);
        world.observed.resource.status.birth = Some(Birth::first("not a token".to_owned()));
        assert!(held(&world), "a token of somebody else's");
    }
}
