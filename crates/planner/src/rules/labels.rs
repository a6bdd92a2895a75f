//! A pod gets back what somebody changed or took away of its labels and annotations: without its labels it has no DNS name, no traffic
//! and no budget, and without its order its container does not start again. What somebody added is left alone.
//!
//! The digest of the inputs is not put back: what it was is written nowhere else, and a wrong one would hide that the pod is older
//! than its spec.

use std::collections::BTreeMap;

use api::names::ANNOTATION_VERSION;
use launch::{LaunchOrder, MemberName, ORDER_ANNOTATION};

use super::{Decision, Flow, Situation};
use crate::{
    attempt::Attempt,
    effect::POD_METADATA,
    manifest,
    observed::{OrderSeen, SeenPod},
    step::{SeenObject, Step},
};

type Pairs = BTreeMap<String, String>;

pub(super) fn ask(situation: &Situation<'_>, decision: &mut Decision) -> Flow {
    let view = &situation.view;
    let Some(attempt) = &view.attempt else { return Flow::Next };
    for pod in view.current().filter(|pod| !pod.deleting) {
        let labels = damaged(labels(situation, attempt, pod), &pod.labels);
        let annotations = damaged(annotations(situation, attempt, pod), &pod.annotations);
        if !labels.is_empty() || !annotations.is_empty() {
            if let Some(waiting) = situation.too_soon(POD_METADATA, &pod.name) {
                decision.wait(waiting);
                continue;
            }
            decision.wait(situation.disputed(POD_METADATA, &pod.name));
            let seen = SeenObject { uid: pod.uid.clone(), resource_version: pod.resource_version.clone() };
            let pod = pod.name.clone();
            decision.ensures.push(Step::RestoreMetadata { pod, seen, labels, annotations });
        }
    }
    Flow::Next
}

/// What is not as it should be.
fn damaged(wanted: Pairs, seen: &Pairs) -> Pairs {
    wanted.into_iter().filter(|(key, value)| seen.get(key) != Some(value)).collect()
}

fn labels(situation: &Situation<'_>, attempt: &Attempt, pod: &SeenPod) -> Pairs {
    let mut wanted = manifest::member_labels(&situation.desired.name, attempt, &pod.name);
    for (key, value) in of_the_spec(situation, pod, situation.desired.pod.labels.as_ref()) {
        wanted.entry(key).or_insert(value);
    }
    wanted
}

fn annotations(situation: &Situation<'_>, attempt: &Attempt, pod: &SeenPod) -> Pairs {
    let mut wanted = of_the_spec(situation, pod, situation.desired.pod.annotations.as_ref());
    let lost = order_lost(situation, attempt, pod);
    let order = match &pod.order {
        OrderSeen::Order(order) => Some(order),
        OrderSeen::Missing | OrderSeen::Unreadable => lost.as_ref(),
    };
    wanted.extend(order.map(|order| (ANNOTATION_VERSION.to_owned(), order.version.to_string())));
    wanted.extend(lost.as_ref().map(|order| (ORDER_ANNOTATION.to_owned(), order.to_annotation())));
    wanted
}

/// What the user asks for on every pod, if this one was made from the spec as it is.
fn of_the_spec(situation: &Situation<'_>, pod: &SeenPod, asked: Option<&Pairs>) -> Pairs {
    asked.filter(|_| pod.is_made_from(situation.desired)).cloned().unwrap_or_default()
}

/// The order of a member that has none any more. Only for one that answers, which says that it has data and which version it runs.
fn order_lost(situation: &Situation<'_>, attempt: &Attempt, pod: &SeenPod) -> Option<LaunchOrder> {
    let (membership, member): (_, MemberName) = (situation.membership.as_ref()?, pod.name.parse().ok()?);
    let seat = membership.seats.iter().find(|seat| seat.name.as_ref() == Some(&member))?;
    let version = seat.answer?.version.filter(|_| pod.order == OrderSeen::Missing)?;
    manifest::restored(situation.desired, attempt, &member, version, &membership.seen()).ok()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{Effect, fixture::World};

    /// The labels and annotations that are put back, and those of how many pods.
    fn restored(world: &World) -> (Pairs, Pairs, usize) {
        let desired = world.desired.clone().unwrap();
        let effects = world.plan().steps.into_iter().flat_map(|step| step.lower(&desired));
        let (mut all, mut notes, mut count) = (Pairs::new(), Pairs::new(), 0);
        for effect in effects {
            let Effect::PatchPodMetadata { labels, annotations, .. } = effect else { panic!("{effect:?}") };
            all.extend(labels);
            notes.extend(annotations);
            count += 1;
        }
        (all, notes, count)
    }

    fn keys(pairs: &Pairs) -> Vec<&str> {
        pairs.keys().map(String::as_str).collect()
    }

    #[test]
    fn what_may_not_be_put_back_is_said_and_holds_nobody_up() {
        let mut world = World::formed();
        world.pod(1).labels.remove("etcd_cluster");
        world.refuse(POD_METADATA, 1);
        assert_eq!((world.steps(), world.waits()), (vec![], vec!["CreationRefused"]));
        world.drop_pod(2);
        assert_eq!(world.steps(), ["RemoveMember"]);
        world.observed.refusals[0].at = "2026-01-01T00:09:00Z".parse().unwrap();
        assert_eq!(world.steps(), ["RestoreMetadata", "RemoveMember"], "it is tried again");
    }

    #[test]
    fn who_undoes_it_each_time_is_spoken_of_also_while_it_is_put_right_again() {
        let mut world = World::formed();
        world.pod(1).labels.remove("etcd_cluster");
        world.refuse(POD_METADATA, 1);
        world.observed.refusals[0].class = crate::RefusalClass::Undone { times: 5 };
        assert_eq!((world.steps(), world.waits()), (vec![], vec!["ChangeUndone"]));
        world.observed.refusals[0].at = "2026-01-01T00:09:00Z".parse().unwrap();
        assert_eq!((world.steps(), world.waits()), (vec!["RestoreMetadata"], vec!["ChangeUndone"]));
        world.pod(1).labels.insert("etcd_cluster".to_owned(), "example".to_owned());
        assert_eq!((world.steps(), world.waits()), (vec![], vec![]), "it stays");
    }

    #[test]
    fn labels_that_somebody_changed_or_took_away_come_back_and_others_are_left_alone() {
        let mut world = World::formed();
        world.pod(0).labels.insert("theirs".to_owned(), "1".to_owned());
        world.pod(0).annotations.insert("theirs".to_owned(), "1".to_owned());
        assert_eq!(world.steps(), [""; 0]);
        world.pod(1).labels.remove("etcd_cluster");
        world.pod(1).labels.insert("etcd_attempt".to_owned(), "9-x".to_owned());
        let (labels, annotations, pods) = restored(&world);
        assert_eq!(
            (keys(&labels), keys(&annotations), pods),
            (vec!["etcd_attempt", "etcd_cluster"], vec![], 1)
        );
    }

    #[test]
    fn annotations_come_back_and_the_order_as_one_that_never_starts_without_data() {
        let mut world = World::formed();
        world.pod(0).annotations.insert("etcd.version".to_owned(), "9.9.9".to_owned());
        world.pod(1).order = OrderSeen::Missing;
        world.pod(1).annotations.clear();
        let (labels, annotations, pods) = restored(&world);
        assert_eq!((keys(&labels), pods), (vec![], 2));
        assert_eq!(keys(&annotations), ["etcd.database.coreos.com/launch-order", "etcd.version"]);
        assert_eq!(annotations["etcd.version"], "3.6.14");
        let order = LaunchOrder::read(&annotations[ORDER_ANNOTATION]).unwrap();
        let before = World::formed();
        assert_eq!(order.seal, crate::fixture::order_of(&before.observed.pods[1]).seal);
        assert_eq!((order.intent, order.argv.len() > 5), (launch::Intent::Restart, true));
    }

    #[test]
    fn an_order_is_not_made_up_for_a_member_that_does_not_answer_nor_over_one_of_a_later_form() {
        let mut silent = World::formed();
        silent.pod(1).order = OrderSeen::Missing;
        silent.silence(1, Duration::ZERO);
        let mut later = World::formed();
        later.pod(1).order = OrderSeen::Unreadable;
        for world in [silent, later] {
            assert!(!restored(&world).1.contains_key(ORDER_ANNOTATION));
        }
    }

    #[test]
    fn what_the_spec_asks_for_on_every_pod_comes_back_on_those_that_were_made_from_it() {
        let spec = r#"{"size": 3, "pod": {"labels": {"team": "a"}, "annotations": {"note": "b"}}}"#;
        let mut world = World::formed();
        world.desired = crate::fixture::desired_of(spec);
        assert_eq!(restored(&world).2, 0, "they were made from another spec");
        let desired = world.desired.clone().unwrap();
        world.pod(2).inputs = Some(desired.inputs(desired.version));
        let (labels, annotations, pods) = restored(&world);
        assert_eq!((keys(&labels), keys(&annotations), pods), (vec!["team"], vec!["note"], 1));
    }
}
