//! A resource that is being deleted is left to Kubernetes: owner references remove what was made for it. There is no finalizer,
//! so nobody waits for us, and making or deleting anything now would only race with the garbage collector.

use api::Reason;

use super::{Decision, Flow};
use crate::{Observed, Waiting};

pub(super) fn ask(observed: &Observed, decision: &mut Decision) -> Flow {
    if !observed.resource.deleting {
        return Flow::Next;
    }
    decision.hold(observed, Waiting::passing(Reason::BeingDeleted))
}

#[cfg(test)]
mod tests {
    use crate::fixture::World;

    #[test]
    fn nothing_is_done_for_a_resource_that_goes_whatever_its_state() {
        for mut world in
            [World::new(r#"{"size": 3}"#), World::forming(), World::up(), World::formed(), World::new("{}")]
        {
            world.observed.resource.deleting = true;
            assert_eq!((world.steps(), world.waits()), (vec![], vec!["BeingDeleted"]));
        }
    }
}
