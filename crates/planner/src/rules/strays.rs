//! Pods of attempts that were abandoned are deleted, one in a round. They are out of both Services already, so one on a node that
//! is gone is not waited for.

use super::{Decision, Flow, Situation};
use crate::{
    effect::POD_DELETION,
    step::{SeenObject, Step},
    view::Kinship,
};

pub(super) fn ask(situation: &Situation<'_>, decision: &mut Decision) -> Flow {
    if !decision.act.is_empty() {
        return Flow::Next;
    }
    let strays = situation.view.pods(Kinship::Older).filter(|pod| !pod.deleting);
    // One that may not be deleted holds nobody else up.
    let stray = decision.first_due(situation, POD_DELETION, strays);
    decision.act.extend(stray.map(|pod| Step::DeleteAbandonedPod {
        pod: pod.name.clone(),
        seen: SeenObject { uid: pod.uid.clone(), resource_version: pod.resource_version.clone() },
        attempt: pod.attempt.clone().unwrap_or_default(),
    }));
    Flow::Next
}

#[cfg(test)]
mod tests {
    use crate::{
        Step,
        fixture::{World, attempt, birth},
    };

    /// Attempt 1 was abandoned, attempt 2 counts; pods of both are there.
    fn abandoned(formed: bool) -> World {
        let mut world = World::forming();
        let second = birth(2);
        world.born(if formed { second.formed("cc".to_owned()) } else { second });
        for name in attempt(2).members("example", 3) {
            world.add_pod(&attempt(2), &name);
        }
        world
    }

    fn deleted(world: &World) -> Vec<String> {
        let steps = world.plan().steps;
        let pods = steps.into_iter().filter_map(|step| match step {
            Step::DeleteAbandonedPod { pod, seen, .. } => {
                assert_eq!(seen.uid, format!("uid-of-{pod}"));
                Some(pod)
            }
            _ => None,
        });
        pods.collect()
    }

    #[test]
    fn one_pod_of_an_older_attempt_goes_in_a_round_and_none_of_the_live_one() {
        for formed in [false, true] {
            let mut world = abandoned(formed);
            for ordinal in 0..3 {
                assert_eq!(deleted(&world), [attempt(1).member("example", ordinal).unwrap().to_string()]);
                world.pod(ordinal).deleting = true;
            }
            assert_eq!(deleted(&world), [""; 0], "what is going already is not deleted again");
        }
    }

    #[test]
    fn a_pod_that_is_not_ours_is_left_alone_even_with_our_labels() {
        let mut world = abandoned(false);
        for ordinal in 0..3 {
            world.pod(ordinal).owner_uid = Some("another".to_owned());
        }
        assert_eq!(deleted(&world), [""; 0]);
    }

    #[test]
    fn a_live_member_whose_label_someone_changed_is_not_deleted() {
        let mut world = abandoned(false);
        for ordinal in 0..3 {
            world.pod(ordinal).deleting = true;
            world.pod(ordinal + 3).attempt = Some(attempt(1).label());
        }
        assert_eq!(deleted(&world), [""; 0]);
    }
}
