//! A spec that breaks rules changes nothing: it is told what is wrong, and a cluster that runs goes on running.

use api::Reason;

use super::Decision;
use crate::{Observed, Problem, Waiting};

pub(super) fn say(problems: &[Problem], observed: &Observed, decision: &mut Decision) {
    let texts: Vec<String> = problems.iter().map(ToString::to_string).collect();
    decision.hold(observed, Waiting::blocked(Reason::InvalidSpec { problems: texts.join("; ") }));
}

#[cfg(test)]
mod tests {
    use crate::fixture::{World, desired_of};

    #[test]
    fn a_bad_spec_stops_everything_and_every_problem_is_named() {
        for mut world in [World::new(r#"{"size": 3}"#), World::forming(), World::up(), World::formed()] {
            world.desired = desired_of(r#"{"size": 12, "version": "latest"}"#);
            let plan = world.plan();
            assert_eq!((plan.steps.len(), world.waits()), (0, vec!["InvalidSpec"]));
            let text = plan.waiting[0].reason.to_string();
            assert!(text.contains("spec.size: ") && text.contains("spec.version: "), "{text}");
        }
    }
}
