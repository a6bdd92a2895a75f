//! A paused cluster is watched and not touched, but for what only protects its data (`empty_start`). Status goes on telling how it is;
//! deleting it still works.

use api::Reason;

use super::{Decision, Flow, Situation};
use crate::Waiting;

pub(super) fn ask(situation: &Situation<'_>, decision: &mut Decision) -> Flow {
    if !situation.desired.paused {
        return Flow::Next;
    }
    decision.hold(situation.observed, Waiting::blocked(Reason::Paused))
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
    fn the_permission_to_start_without_data_is_withdrawn_all_the_same() {
        let mut world = World::up();
        world.desired = desired_of(r#"{"size": 3, "paused": true}"#);
        assert_eq!(world.steps(), ["WithdrawEmptyStart"; 3]);
    }
}
