//! A member that has data loses the permission to start without (invariant I5). It has data once it has answered: etcd writes its
//! log before it serves. A member that merely runs may not have, and would be refused its own first start.

use launch::{Intent, LaunchOrder};

use super::{Decision, Flow, Situation};
use crate::{
    effect::POD_METADATA,
    manifest,
    observed::{OrderSeen, SeenPod},
    step::{SeenObject, Step},
};

pub(super) fn ask(situation: &Situation<'_>, decision: &mut Decision) -> Flow {
    for (pod, order) in permitted(situation) {
        if let Some(waiting) = situation.too_soon(POD_METADATA, &pod.name) {
            decision.wait(waiting);
            continue;
        }
        decision.ensures.push(Step::WithdrawEmptyStart {
            pod: pod.name.clone(),
            seen: SeenObject { uid: pod.uid.clone(), resource_version: pod.resource_version.clone() },
            order: manifest::restarted(order),
        });
    }
    Flow::Next
}

/// Whether a permission could not be withdrawn a moment ago. What counts on that waits: the latch, and a vote. All else goes on.
pub(super) fn is_held_up(situation: &Situation<'_>) -> bool {
    permitted(situation).any(|(pod, _)| situation.too_soon(POD_METADATA, &pod.name).is_some())
}

/// The members that have data and may still start without.
fn permitted<'a>(situation: &'a Situation<'_>) -> impl Iterator<Item = (&'a SeenPod, &'a LaunchOrder)> {
    let pods = situation.view.current().filter(|pod| !pod.deleting && has_data(situation, pod));
    pods.filter_map(|pod| match &pod.order {
        OrderSeen::Order(order) if order.intent != Intent::Restart => Some((pod, order)),
        _ => None,
    })
}

fn has_data(situation: &Situation<'_>, pod: &SeenPod) -> bool {
    pod.is_ready() || situation.observed.answer(&pod.name).is_some()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use crate::{
        Effect, OrderSeen, Step,
        fixture::{World, container, order_of},
        observed::{ContainerState, PodPhase},
    };

    fn withdrawn(world: &World) -> Vec<String> {
        let steps = world.plan().steps;
        steps
            .into_iter()
            .filter_map(|step| match step {
                Step::WithdrawEmptyStart { pod, .. } => Some(pod),
                _ => None,
            })
            .collect()
    }

    #[test]
    fn the_permission_goes_with_the_first_answer_and_only_once() {
        let mut world = World::forming();
        assert_eq!(withdrawn(&world), [""; 0]);
        world.pod(0).containers = vec![container(ContainerState::Running)];
        world.pod(0).phase = PodPhase::Running;
        assert_eq!(withdrawn(&world), [""; 0], "it runs, and may not have written anything");
        world.answer(0);
        assert_eq!(withdrawn(&world), [world.name(0).to_string()]);
        world.silence(1, Duration::ZERO);
        world.change_answer(0, |answer| answer.linearizable = false);
        assert_eq!(withdrawn(&world), [world.name(0).to_string()], "without a quorum too");
        assert_eq!(withdrawn(&World::up()).len(), 3);
        assert_eq!(withdrawn(&World::formed()), [""; 0]);
    }

    #[test]
    fn what_is_sent_names_the_pod_as_it_was_seen_and_changes_nothing_but_the_permission() {
        let mut world = World::up();
        let plan = world.plan();
        let step = plan.steps.iter().find(|step| step.name() == "WithdrawEmptyStart").unwrap();
        let effects = step.lower(world.desired.as_ref().unwrap());
        let [Effect::PatchPodAnnotation { uid, resource_version, value, .. }] = effects.as_slice() else {
            panic!("{effects:?}")
        };
        let order = launch::LaunchOrder::read(value).unwrap();
        let pod = world.pod(0);
        assert_eq!((uid, resource_version), (&pod.uid, &pod.resource_version));
        assert!(!order.intent.may_start_empty());
        assert_eq!(order.seal, order_of(pod).seal);
    }

    #[test]
    fn a_permission_that_cannot_be_withdrawn_keeps_the_latch_waiting_and_nobody_else() {
        let mut world = World::up();
        let permitted = world.pod(1).order.clone();
        assert!(world.steps().contains(&"LatchFormed"));
        world.refuse(crate::POD_METADATA, 1);
        assert_eq!(withdrawn(&world).len(), 2);
        assert!(!world.steps().contains(&"LatchFormed") && world.waits().contains(&"CreationRefused"));
        let mut world = World::formed();
        world.pod(1).order = permitted;
        world.refuse(crate::POD_METADATA, 1);
        world.drop_pod(2);
        assert_eq!(world.steps(), ["RemoveMember"], "the dead one is removed all the same");
        world.observed.refusals.clear();
        assert_eq!(world.steps(), ["WithdrawEmptyStart", "RemoveMember"]);
    }

    #[test]
    fn an_order_that_cannot_be_read_is_not_replaced_by_a_guess() {
        let mut world = World::up();
        world.pod(0).order = OrderSeen::Unreadable;
        world.pod(1).order = OrderSeen::Missing;
        assert_eq!(withdrawn(&world), [world.name(2).to_string()]);
    }
}
