//! What a member that no client was sent to holds all the same: the headless Service publishes members that are not ready, and a Service
//! of somebody's own may select them. So clients can write to a cluster before it has formed, and what was acknowledged must not be lost.

use crate::observed::{Observed, SeenPod};

/// What a pod's member holds, as far as it tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Holding {
    /// What clients wrote.
    Data,
    /// Nothing that anybody knows of.
    Nothing,
    /// Kubernetes finds that it reads through a quorum, and it does not tell us.
    Unknown,
}

impl Holding {
    /// What this pod's member holds. One that neither answers nor is ready has no quorum, so it acknowledges nothing; what it acknowledged before
    /// is told by the others who had to agree.
    pub(crate) fn of(observed: &Observed, pod: &SeenPod) -> Self {
        match observed.answer(&pod.name) {
            Some(answer) if answer.holds_data() => Self::Data,
            None if pod.is_ready() => Self::Unknown,
            Some(_) | None => Self::Nothing,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{Readiness, fixture::World};

    #[test]
    fn who_does_not_tell_may_hold_data_only_while_it_serves() {
        let mut world = World::up();
        let of = |world: &mut World| {
            let pod = world.pod(0).clone();
            Holding::of(&world.observed, &pod)
        };
        assert_eq!(of(&mut world), Holding::Nothing, "an empty store");
        world.change_answer(0, |answer| answer.revision += 1);
        assert_eq!(of(&mut world), Holding::Data);
        world.silence(0, Duration::ZERO);
        assert_eq!(of(&mut world), Holding::Nothing, "it has no quorum");
        world.pod(0).ready = Readiness::Ready;
        assert_eq!(of(&mut world), Holding::Unknown);
        world.pod(0).deleting = true;
        assert_eq!(of(&mut world), Holding::Nothing, "its data goes with it");
    }
}
