//! What a running cluster needs and this operator does not do yet is said, and not done: no member is rolled to another version or to
//! another form.

use api::Reason;

use super::{Decision, Flow, Situation};
use crate::{
    Waiting,
    observed::{OrderSeen, SeenPod},
};

pub(super) fn ask(situation: &Situation<'_>, decision: &mut Decision) -> Flow {
    let (desired, view) = (situation.desired, &situation.view);
    if !view.is_formed() {
        return Flow::Next;
    }
    let other = view.current().find_map(|pod| version_of(pod).filter(|version| *version != desired.version));
    if let Some(version) = other {
        let (from, to) = (version.to_string(), desired.version.to_string());
        decision.wait(Waiting::blocked(Reason::UpgradeNotYetSupported { from, to }));
        return Flow::Next;
    }
    let inputs = desired.inputs();
    if let Some(pod) = view.current().find(|pod| pod.inputs.as_ref() != Some(&inputs)) {
        decision.wait(Waiting::blocked(Reason::ChangeNotYetSupported { pod: pod.name.clone() }));
    }
    Flow::Next
}

/// The version that a member was ordered to run, which its launcher has checked.
pub(crate) fn version_of(pod: &SeenPod) -> Option<launch::EtcdVersion> {
    match &pod.order {
        OrderSeen::Order(order) => Some(order.version),
        OrderSeen::Missing | OrderSeen::Unreadable => None,
    }
}

#[cfg(test)]
mod tests {
    use crate::fixture::{World, desired_of};

    type Change = fn(&mut World);

    #[test]
    fn what_is_not_done_yet_is_said_and_not_done() {
        let table: [(&str, Change, &str); 2] = [
            (
                "upgrade",
                |w| w.desired = desired_of(r#"{"size": 3, "version": "3.7.1"}"#),
                "UpgradeNotYetSupported",
            ),
            (
                "other edit",
                |w| w.desired = desired_of(r#"{"size": 3, "pod": {"labels": {"a": "b"}}}"#),
                "ChangeNotYetSupported",
            ),
        ];
        for (title, change, word) in table {
            let mut world = World::formed();
            change(&mut world);
            assert!(world.waits().contains(&word), "{title}: {:?}", world.waits());
            assert_eq!(world.steps(), [""; 0], "{title}");
        }
    }

    #[test]
    fn a_formed_cluster_that_is_as_wanted_waits_for_nothing_and_is_looked_at_again() {
        let plan = World::formed().plan();
        assert_eq!((plan.steps, plan.waiting, plan.events), (vec![], vec![], vec![]));
        assert_eq!(plan.wake_at.unwrap().to_string(), "2026-01-01T00:10:10Z");
    }
}
