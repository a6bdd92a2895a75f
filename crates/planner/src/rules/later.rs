//! What a running cluster needs and this operator does not do yet is said, and not done: no member is brought to another form.

use std::collections::BTreeSet;

use api::Reason;

use super::{Decision, Flow, Situation};
use crate::{Facet, Waiting, membership::pods_of_members, observed::SeenPod};

pub(super) fn ask(situation: &Situation<'_>, decision: &mut Decision) -> Flow {
    let (desired, view) = (situation.desired, &situation.view);
    if !view.is_formed() {
        return Flow::Next;
    }
    let differences = |pod: &SeenPod| {
        let mut facets = pod.differences(desired, pod.version().unwrap_or(desired.version));
        // That is rolled.
        facets.remove(&Facet::Image);
        facets
    };
    // Whoever is no member any more is on its way out as it is.
    let mut pods = pods_of_members(view, situation.membership.as_ref());
    let other = pods.find_map(|pod| Some((pod, differences(pod))).filter(|(_, facets)| !facets.is_empty()));
    if let Some((pod, facets)) = other {
        let (pod, what) = (pod.name.clone(), in_words(&facets));
        decision.wait(Waiting::blocked(Reason::ChangeNotYetSupported { pod, what }));
    }
    Flow::Next
}

fn in_words(facets: &BTreeSet<Facet>) -> String {
    facets.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use crate::fixture::{World, desired_of};

    #[test]
    fn who_joined_while_another_version_was_asked_for_is_as_the_spec_says_when_that_is_taken_back() {
        let mut world = World::formed();
        let (asked, runs) =
            (desired_of(r#"{"size": 3, "version": "3.7.1"}"#).unwrap(), world.pod(0).version());
        world.pod(1).inputs = Some(asked.inputs(runs.unwrap()));
        assert_eq!((world.steps(), world.waits()), (vec![], vec![]));
    }

    #[test]
    fn who_is_no_member_any_more_need_not_be_as_the_spec_says() {
        let mut world = World::formed();
        let other = desired_of(r#"{"size": 3, "pod": {"labels": {"a": "b"}}}"#).unwrap();
        world.unlist(2);
        (world.pod(2).inputs, world.pod(2).deleting) = (Some(other.inputs(other.version)), true);
        assert!(!world.waits().contains(&"ChangeNotYetSupported"), "{:?}", world.waits());
        world.pod(1).inputs = Some(other.inputs(other.version));
        assert!(world.waits().contains(&"ChangeNotYetSupported"), "{:?}", world.waits());
    }

    #[test]
    fn what_is_not_done_yet_is_said_and_not_done() {
        let mut world = World::formed();
        world.desired =
            desired_of(r#"{"size": 3, "pod": {"labels": {"a": "b"}, "resources": {"limits": {"cpu": 1}}}}"#);
        assert_eq!((world.steps(), world.waits()), (vec![], vec!["ChangeNotYetSupported"]));
        let sentence = world.plan().waiting[0].reason.to_string();
        assert!(sentence.contains("labels and annotations, resources"), "{sentence}");
    }

    #[test]
    fn a_formed_cluster_that_is_as_wanted_waits_for_nothing_and_is_looked_at_again() {
        let plan = World::formed().plan();
        assert_eq!((plan.steps, plan.waiting, plan.events), (vec![], vec![], vec![]));
        assert_eq!(plan.wake_at.unwrap().to_string(), "2026-01-01T00:10:10Z");
    }
}
