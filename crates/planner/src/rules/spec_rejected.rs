//! A spec that breaks rules starts nothing, and says what is wrong. A cluster that has formed goes on with what its members run: lost
//! members are replaced, Services and budget are kept, and all that the spec asks for besides is done.

use api::Reason;

use super::{Decision, Flow, Situation};
use crate::{Observed, Problem, Waiting};

/// Where something can be made of the spec.
pub(super) fn ask(situation: &Situation<'_>, decision: &mut Decision) -> Flow {
    let problems = &situation.desired.problems;
    if problems.is_empty() {
        return Flow::Next;
    }
    if !situation.view.is_formed() {
        return say(problems, situation.observed, decision);
    }
    decision.wait(Waiting::blocked(Reason::InvalidFields { problems: as_text(problems) }));
    Flow::Next
}

/// Where nothing can.
pub(super) fn say(problems: &[Problem], observed: &Observed, decision: &mut Decision) -> Flow {
    decision.hold(observed, Waiting::blocked(Reason::InvalidSpec { problems: as_text(problems) }))
}

fn as_text(problems: &[Problem]) -> String {
    let texts: Vec<String> = problems.iter().map(ToString::to_string).collect();
    texts.join("; ")
}

#[cfg(test)]
mod tests {
    use crate::{
        Step,
        fixture::{World, desired_of, desired_with_status},
    };

    #[test]
    fn a_bad_spec_starts_nothing_and_every_problem_is_named() {
        for mut world in [World::new(r#"{"size": 3}"#), World::forming(), World::up()] {
            world.desired = desired_of(r#"{"size": 12, "version": "latest"}"#);
            let plan = world.plan();
            assert_eq!((plan.steps.len(), world.waits()), (0, vec!["InvalidSpec"]));
            let text = plan.waiting[0].reason.to_string();
            assert!(text.contains("spec.size") && text.contains("spec.version"), "{text}");
        }
    }

    /// What the status of a cluster of three says.
    const STATUS: &str = r#"{"currentVersion": "3.6.14", "ready": "3/3"}"#;

    #[test]
    fn a_cluster_that_has_formed_is_healed_resized_and_served_whatever_is_wrong_with_another_field() {
        let bad = [
            r#""version": "3.9.0""#,
            r#""version": "3.5.1""#,
            r#""pod": {"resources": {"requests": {"cpu": 2}, "limits": {"cpu": 1}}}"#,
            r#""TLS": {"static": {"member": {"peerSecret": "p"}}}"#,
            r#""pod": {"persistentVolumeClaimSpec": {"resources": {"requests": {"storage": "1Gi"}}}}"#,
        ];
        for field in bad {
            let desired =
                |size: usize| desired_with_status(&format!(r#"{{"size": {size}, {field}}}"#), STATUS);
            let mut world = World::formed();
            world.desired = desired(3);
            assert_eq!(world.steps(), [""; 0], "{field}");
            let said = world.waits();
            assert!(["InvalidFields", "FieldsHeldBack"].contains(&said[0]), "{field}: {said:?}");
            world.drop_pod(2);
            assert_eq!(world.steps(), ["RemoveMember"], "{field}");
            let mut removed = World::formed();
            removed.desired = desired(3);
            removed.unlist(2);
            removed.drop_pod(2);
            let plan = removed.plan();
            let Some(Step::AddMember { version, .. }) = plan.steps.first() else {
                panic!("{field}: {:?}", plan.steps)
            };
            assert_eq!(version.to_string(), "3.6.14", "{field}: as the others run it");
            let mut grown = World::formed();
            grown.desired = desired(5);
            assert!(grown.steps().contains(&"AddMember"), "{field}");
            let mut unserved = World::formed();
            unserved.desired = desired(3);
            unserved.observed.client_service = crate::SeenService::Missing;
            assert_eq!(unserved.steps(), ["EnsureClientService"], "{field}");
        }
    }

    #[test]
    fn a_size_that_is_wrong_is_passed_over_and_lost_members_are_replaced() {
        let mut world = World::formed();
        world.desired = desired_with_status(r#"{"size": 12}"#, STATUS);
        world.unlist(2);
        world.drop_pod(2);
        assert_eq!(world.steps(), ["AddMember"]);
        assert_eq!(world.waits()[0], "InvalidFields");
    }
}
