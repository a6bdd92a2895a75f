//! What the status should say to tools that wait: `Ready` and `Stalled`, as kstatus reads them. Both follow from what was seen and decided in
//! the same round: nothing is ready that the plan still has something to do about or waits for.

use std::time::Duration;

use api::{Condition, ConditionStatus, ConditionType, Reason, condition};

use super::{Said, Seen};
use crate::{Desired, outage::Outage};

/// For how long something that may pass by itself may be in the way before the cluster counts as stalled: a registry that is away or a
/// node that is being made is no failure yet.
const PATIENCE: Duration = Duration::from_mins(5);

impl Seen<'_, '_> {
    /// Whether all that the spec asks for is carried out, and every member serves.
    pub(super) fn ready(&self, desired: Option<&Desired>, available: &Said, progressing: &Said) -> Said {
        let (availability, why) = available;
        if *availability == ConditionStatus::Unknown {
            return (ConditionStatus::Unknown, why.clone());
        }
        let carried_out = desired.is_some_and(|desired| self.is_carried_out(desired));
        // A pause alone makes nobody unready who has all that was asked for.
        let idle = self.decision.steps().is_empty()
            && self.decision.waiting.iter().all(|waiting| waiting.reason == Reason::Paused);
        if *availability == ConditionStatus::True && carried_out && idle {
            return (ConditionStatus::True, vec![Reason::Settled]);
        }
        let (_, doing) = progressing;
        if doing.first() != Some(&Reason::Settled) {
            return (ConditionStatus::False, doing.clone());
        }
        let ready = self.pods.iter().filter(|pod| pod.is_ready()).count();
        let size = desired.map_or(ready, |desired| desired.size);
        (ConditionStatus::False, vec![Reason::MembersNotReady { ready, size }])
    }

    /// Whether the members are as many as the spec asks for, made from it, and all well.
    fn is_carried_out(&self, desired: &Desired) -> bool {
        let Some(membership) = self.membership else { return false };
        let well = membership.seats.iter().all(|seat| {
            let version = seat.answer.and_then(|answer| answer.version);
            seat.is_voter() && seat.is_healthy() && version.is_none_or(|version| version == desired.version)
        });
        let made = self.pods.iter().all(|pod| {
            let version = pod.version() == Some(desired.version);
            version && pod.is_ready() && !pod.deleting && pod.is_made_from(desired)
        });
        let (members, pods) = (membership.seats.len(), self.pods.len());
        well && made && (members, pods) == (desired.size, desired.size)
    }

    /// Whether nothing goes on until somebody acts; no condition while nothing is in the way, and `Unknown` while it may still pass.
    pub(super) fn stalled(&self) -> Option<Said> {
        let lost = self.outage.filter(|outage| outage.is_final()).map(Outage::reason);
        let blocked = self.decision.waiting.iter().filter(|waiting| !waiting.passes).map(|one| &one.reason);
        // Who pauses a cluster wants it to stand still.
        let blocked = blocked.filter(|reason| **reason != Reason::Paused && Some(*reason) != lost.as_ref());
        let mut reasons: Vec<Reason> = lost.iter().chain(blocked).cloned().collect();
        reasons.sort_by_key(|reason| !reason.never_passes());
        let stays = reasons.first()?.never_passes() || self.has_stood_still();
        Some((if stays { ConditionStatus::True } else { ConditionStatus::Unknown }, reasons))
    }

    /// Whether something has been in the way for long, or was said to be there to stay, since the spec was last changed.
    fn has_stood_still(&self) -> bool {
        let resource = &self.view.observed.resource;
        let previous = resource.status.conditions.as_deref().unwrap_or_default();
        let before = condition::find(previous, ConditionType::Stalled);
        let Some(before) = before.filter(|_| self.is_of_this_generation(before)) else { return false };
        let since = before.last_transition_time.as_ref();
        let due = since.and_then(|since| since.0.checked_add(PATIENCE).ok());
        before.status == ConditionStatus::True.as_str()
            || due.is_some_and(|due| due <= self.view.observed.now)
    }

    /// Whether this was said of the spec as it is.
    pub(super) fn is_of_this_generation(&self, said: Option<&Condition>) -> bool {
        let generation = Some(self.view.observed.resource.generation);
        said.is_some_and(|said| said.observed_generation == generation)
    }
}
