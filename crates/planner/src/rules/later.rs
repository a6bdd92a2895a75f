//! What a running cluster needs and this operator does not do yet is said, and not done: no member is rolled to another version or to
//! another form.

use api::Reason;

use super::{Decision, Flow, Situation};
use crate::{Waiting, membership::pods_of_members};

pub(super) fn ask(situation: &Situation<'_>, decision: &mut Decision) -> Flow {
    let (desired, view) = (situation.desired, &situation.view);
    if !view.is_formed() {
        return Flow::Next;
    }
    // Whoever is no member any more is on its way out as it is.
    let pods = || pods_of_members(view, situation.membership.as_ref());
    let other = pods().find_map(|pod| pod.version().filter(|version| *version != desired.version));
    if let Some(version) = other {
        let (from, to) = (version.to_string(), desired.version.to_string());
        decision.wait(Waiting::blocked(Reason::UpgradeNotYetSupported { from, to }));
        return Flow::Next;
    }
    if let Some(pod) = pods().find(|pod| !pod.is_made_from(desired)) {
        decision.wait(Waiting::blocked(Reason::ChangeNotYetSupported { pod: pod.name.clone() }));
    }
    Flow::Next
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
        assert_eq!(world.waits(), [""; 0]);
        world.desired = Ok(asked);
        assert_eq!(world.waits(), ["UpgradeNotYetSupported"]);
    }

    #[test]
    fn who_is_no_member_any_more_need_not_be_as_the_spec_says() {
        let mut world = World::formed();
        world.unlist(2);
        (world.pod(2).inputs, world.pod(2).deleting) = (Some("of another spec".to_owned()), true);
        assert!(!world.waits().contains(&"ChangeNotYetSupported"), "{:?}", world.waits());
        world.pod(1).inputs = Some("of another spec".to_owned());
        assert!(world.waits().contains(&"ChangeNotYetSupported"), "{:?}", world.waits());
    }

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
