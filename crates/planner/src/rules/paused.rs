//! A paused cluster is watched and not touched, but for what only protects its data (`empty_start`). Status goes on telling how it is;
//! deleting it still works.

use api::Reason;

use super::{Decision, Flow, Situation};
use crate::{Waiting, membership::Membership};

pub(super) fn ask(situation: &Situation<'_>, decision: &mut Decision) -> Flow {
    if !situation.desired.paused {
        return Flow::Next;
    }
    let flow = decision.hold(situation.observed, Waiting::blocked(Reason::Paused));
    // Nobody goes on with it and nobody takes it back meanwhile: members of an older minor could be started.
    if let Some(to) = situation.membership.as_ref().and_then(Membership::downgrade) {
        decision.wait(Waiting::passing(Reason::DowngradeInForce { to: to.to_string() }));
    }
    flow
}

#[cfg(test)]
mod tests {
    use crate::fixture::{World, desired_of};

    #[test]
    fn a_paused_cluster_is_not_touched_in_any_state() {
        for mut world in [World::new(r#"{"size": 3}"#), World::forming(), World::up(), World::formed()] {
            world.desired = desired_of(r#"{"size": 3, "paused": true}"#);
            let touched: Vec<&str> =
                world.steps().into_iter().filter(|step| *step != "WithdrawEmptyStart").collect();
            assert_eq!((touched, world.waits()), (vec![], vec!["Paused"]));
            assert_eq!(world.plan().report.status.control_paused, Some(true));
        }
    }

    #[test]
    fn a_downgrade_that_is_in_force_is_said() {
        let mut world = World::formed();
        world.desired = desired_of(r#"{"size": 3, "paused": true}"#);
        world.change_all(|answer| answer.downgrade = Some(launch::Minor::V3_5));
        assert_eq!((world.steps(), world.waits()), (vec![], vec!["Paused", "DowngradeInForce"]));
    }

    #[test]
    fn the_permission_to_start_without_data_is_withdrawn_all_the_same() {
        let mut world = World::up();
        world.desired = desired_of(r#"{"size": 3, "paused": true}"#);
        assert_eq!(world.steps(), ["WithdrawEmptyStart"; 3]);
    }
}
