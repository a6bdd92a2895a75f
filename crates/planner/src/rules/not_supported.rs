//! What this operator cannot do yet, and what would be worse to go without, is waited for before any pod exists: no member in plain
//! text where TLS was asked for, none on scratch space where a claim was. A cluster that has formed without goes on without.

use api::{Reason, not_yet};

use super::{Decision, Flow, Situation};
use crate::Waiting;

pub(super) fn ask(situation: &Situation<'_>, decision: &mut Decision) -> Flow {
    let desired = situation.desired;
    if desired.held_back.is_empty() {
        return Flow::Next;
    }
    let fields = not_yet::as_text(&desired.held_back);
    if situation.view.is_formed() {
        decision.wait(Waiting::blocked(Reason::FieldsHeldBack { fields }));
        return Flow::Next;
    }
    decision.hold(situation.observed, Waiting::blocked(Reason::NotYetSupported { fields }))
}

#[cfg(test)]
mod tests {
    use crate::fixture::{World, desired_of};

    #[test]
    fn nothing_is_made_that_would_lack_what_was_asked_for() {
        let table = [
            (r#"{"size": 3, "TLS": {"static": {"member": {"peerSecret": "p"}}}}"#, "NotYetSupported"),
            (
                r#"{"size": 3, "pod": {"persistentVolumeClaimSpec": {"resources": {"requests": {"storage": "1Gi"}}}}}"#,
                "NotYetSupported",
            ),
        ];
        for (spec, reason) in table {
            for mut world in [World::new(spec), World::forming(), World::up()] {
                world.desired = desired_of(spec);
                let made: Vec<&str> =
                    world.steps().into_iter().filter(|step| *step != "WithdrawEmptyStart").collect();
                assert_eq!((made, world.waits()), (vec![], vec![reason]), "{spec}");
            }
        }
    }

    #[test]
    fn how_a_cluster_started_does_not_matter_once_it_has() {
        let mut world = World::formed();
        world.desired = desired_of(r#"{"size": 3, "bootstrap": "Seed"}"#);
        assert_eq!((world.steps(), world.waits()), (Vec::<&str>::new(), Vec::<&str>::new()));
    }
}
