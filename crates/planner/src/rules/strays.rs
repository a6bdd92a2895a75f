//! Pods of attempts that were abandoned are deleted, one in a round. They are out of both Services already, so one on a node that
//! is gone is not waited for.
//!
//! An attempt is given up only where nobody holds what a client wrote (`abandon`); but a client may write in that very moment, or later, through
//! a Service of somebody's own. Such a pod is kept and named. They go one by one, each on a new look, so that the others tell.

use std::collections::BTreeSet;

use api::Reason;

use super::{Decision, Flow, Situation};
use crate::{
    Waiting,
    effect::POD_DELETION,
    holding::Holding,
    observed::SeenPod,
    step::{SeenObject, Step},
    view::Kinship,
};

pub(super) fn ask(situation: &Situation<'_>, decision: &mut Decision) -> Flow {
    if !decision.act.is_empty() {
        return Flow::Next;
    }
    let strays = || situation.view.pods(Kinship::Older);
    let holds = |pod: &SeenPod| Holding::of(situation.observed, pod);
    if let Some(pod) = strays().find(|pod| !pod.deleting && holds(pod) != Holding::Nothing) {
        let why = match holds(pod) {
            Holding::Data => "clients have written to it",
            Holding::Unknown | Holding::Nothing => {
                "it serves, and does not tell whether clients have written to it"
            }
        };
        let (pod, why) = (pod.name.clone(), why.to_owned());
        decision.wait(Waiting::blocked(Reason::AbandonedPodKept { pod, why }));
    }
    // Whoever was in one quorum with such a pod stays too.
    let kept: BTreeSet<_> =
        strays().filter(|pod| holds(pod) != Holding::Nothing).map(|pod| &pod.attempt).collect();
    let strays = strays().filter(|pod| !pod.deleting && !kept.contains(&pod.attempt));
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
    fn pods_of_an_attempt_to_which_somebody_wrote_in_the_end_are_kept_and_named() {
        for (title, change, kept) in [
            ("it is empty", (|_| ()) as fn(&mut World), false),
            ("one holds data", |w| w.change_answer(1, |answer| answer.revision += 1), true),
            ("one serves and does not tell", |w| drop(w.observed.members.remove(&w.name(1))), true),
        ] {
            let mut world = abandoned(true);
            (0..3).for_each(|ordinal| world.answer(ordinal));
            world.change_all(|answer| answer.cluster_id = crate::ClusterId(0xdd));
            change(&mut world);
            assert_eq!(deleted(&world).is_empty(), kept, "{title}");
            assert_eq!(world.waits().contains(&"AbandonedPodKept"), kept, "{title}: {:?}", world.waits());
            world.pod(1).deleting = true;
            world.answer(1);
            world.change_answer(1, |answer| {
                answer.cluster_id = crate::ClusterId(0xdd);
                answer.revision += 1;
            });
            assert_eq!(deleted(&world), [""; 0], "{title}: it is on its way out, and is not alone");
            world.drop_pod(1);
            assert_eq!(deleted(&world).len(), 1, "{title}: it is gone, and the others follow");
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
