//! A pod whose member is not in etcd's list is deleted: the member was removed, by us or by hand, and its ID never comes back. The list
//! was read through a quorum and after the pod was seen, and members are added before their pods are made.
//!
//! The list is one member's word where no other member answers. So a pod is kept that does not answer and that Kubernetes finds ready: ready
//! means that it reads through a quorum, which a removed member cannot. Its etcd ends by itself, and the kubelet tells that within seconds.

use api::Reason;

use super::{Decision, Flow, Situation, after};
use crate::{
    Waiting,
    effect::POD_DELETION,
    observed::SeenPod,
    status::FRESH,
    step::{SeenObject, Step},
};

pub(super) fn ask(situation: &Situation<'_>, decision: &mut Decision) -> Flow {
    let Some(membership) = &situation.membership else { return Flow::Next };
    if !decision.may_act() {
        return Flow::Next;
    }
    let serves = |pod: &SeenPod| pod.is_ready() && situation.observed.answer(&pod.name).is_none();
    if let Some(pod) = membership.removed.iter().find(|pod| serves(pod)).map(|pod| pod.name.clone()) {
        let again = after(situation.observed.now, FRESH);
        decision.wait(Waiting::passing(Reason::UnlistedMemberServes { pod }).until(again));
    }
    let removed = membership.removed.iter().filter(|pod| !pod.deleting && !serves(pod));
    // One that may not be deleted holds nobody else up.
    let removed = decision.first_due(situation, POD_DELETION, removed.copied());
    decision.act.extend(removed.map(|pod| Step::DeleteRemovedPod {
        pod: pod.name.clone(),
        seen: SeenObject { uid: pod.uid.clone(), resource_version: pod.resource_version.clone() },
        list: membership.seen(),
    }));
    Flow::Next
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{Readiness, fixture::World};

    #[test]
    fn the_pod_of_a_member_that_was_removed_by_hand_goes_and_its_place_is_filled_later() {
        let mut world = World::formed();
        world.unlist(2);
        let plan = world.plan();
        let risky: Vec<&Step> = plan.steps.iter().filter(|step| step.is_risky()).collect();
        let [Step::DeleteRemovedPod { pod, list, .. }] = risky.as_slice() else { panic!("{:?}", plan.steps) };
        assert_eq!((pod.as_str(), list.members.len()), (world.name(2).as_str(), 2));
        world.pod(2).deleting = true;
        assert!(world.steps().contains(&"AddMember"), "a pod on its way out is not waited for");
    }

    #[test]
    fn a_pod_that_may_not_be_deleted_is_said_and_its_place_is_filled() {
        let mut world = World::formed();
        world.unlist(2);
        world.refuse(POD_DELETION, 2);
        assert!(world.steps().contains(&"AddMember"), "{:?}", world.steps());
        assert!(world.waits().contains(&"CreationRefused"), "{:?}", world.waits());
    }

    #[test]
    fn no_pod_goes_on_the_word_of_a_list_that_no_quorum_confirmed() {
        let mut world = World::formed();
        world.unlist(2);
        for ordinal in 0..3 {
            world.change_answer(ordinal, |answer| answer.linearizable = false);
        }
        assert_eq!(world.steps(), [""; 0]);
    }

    #[test]
    fn no_pod_that_serves_goes_on_the_word_of_one_member_alone() {
        let mut world = World::formed();
        for ordinal in [1, 2] {
            world.silence(ordinal, Duration::ZERO);
            world.pod(ordinal).ready = Readiness::Ready;
        }
        world.change_answer(0, |answer| answer.members.truncate(1));
        assert!(!world.steps().contains(&"DeleteRemovedPod"), "{:?}", world.steps());
        assert!(world.waits().contains(&"UnlistedMemberServes"), "{:?}", world.waits());
        world.pod(1).ready = Readiness::NotReady;
        assert!(
            world.steps().contains(&"DeleteRemovedPod"),
            "it does not serve any more: {:?}",
            world.steps()
        );
    }

    #[test]
    fn a_member_that_answers_under_a_listed_id_is_not_taken_for_a_removed_one() {
        let mut world = World::formed();
        for ordinal in 0..3 {
            world.change_answer(ordinal, |answer| {
                answer.members[2].peer_urls = vec!["http://10.0.0.9:2380".to_owned()];
            });
        }
        assert!(!world.steps().contains(&"DeleteRemovedPod"));
    }
}
