//! What etcd itself raises the alarm about is said: a database that is full, and members that hold different data. In the second case
//! nobody knows whose copy is the right one, the majority's need not be, so nobody is added or removed until somebody has ended the alarm.

use std::collections::BTreeSet;

use api::Reason;

use super::{Decision, Flow, Situation};
use crate::{Waiting, observed::Alarm};

pub(super) fn ask(situation: &Situation<'_>, decision: &mut Decision) -> Flow {
    if !situation.view.is_formed() {
        return Flow::Next;
    }
    // Raised and ended through etcd's log: who has not all of it may tell of one that is over.
    let view = &situation.view;
    let with_quorum = view.serving().flat_map(|(_, answer)| &answer.alarms);
    let without = view.answers().filter(|_| situation.membership.is_none()).flat_map(|answer| &answer.alarms);
    let raised: BTreeSet<Alarm> = with_quorum.chain(without).copied().collect();
    if raised.contains(&Alarm::NoSpace) {
        decision.wait(Waiting::blocked(Reason::DatabaseFull));
    }
    if raised.contains(&Alarm::Corrupt) {
        decision.held = true;
        decision.wait(Waiting::blocked(Reason::DataCorrupt));
    }
    Flow::Next
}

#[cfg(test)]
mod tests {
    use crate::{
        Alarm,
        fixture::{World, desired_of},
    };

    type Change = fn(&mut World);

    /// What happens to a cluster that is answered by a change of its members.
    const HAPPENINGS: [(&str, Change); 4] = [
        ("a pod is on its way out", |w| w.pod(1).deleting = true),
        ("somebody removed a member", |w| w.unlist(2)),
        ("fewer are wanted", |w| w.desired = desired_of(r#"{"size": 1}"#)),
        ("more are wanted", |w| w.desired = desired_of(r#"{"size": 5}"#)),
    ];

    #[test]
    fn nobody_comes_or_goes_while_members_may_hold_different_data() {
        for (title, change) in HAPPENINGS {
            let mut world = World::formed();
            change(&mut world);
            assert!(!world.steps().is_empty(), "{title}");
            world.change_answer(0, |answer| answer.alarms.extend([Alarm::Corrupt]));
            assert_eq!(world.steps(), [""; 0], "{title}");
            assert!(world.waits().contains(&"DataCorrupt"), "{title}: {:?}", world.waits());
            world.change_answer(0, |answer| answer.linearizable = false);
            assert!(!world.waits().contains(&"DataCorrupt"), "{title}: the word of one without a quorum");
        }
    }

    #[test]
    fn what_is_nobodys_coming_or_going_is_still_put_right_and_said() {
        let mut world = World::formed();
        world.change_answer(0, |answer| answer.alarms.extend([Alarm::Corrupt]));
        world.observed.budget = crate::SeenBudget::Missing;
        world.pod(1).ready = crate::Readiness::NotReady;
        assert_eq!(world.steps(), ["EnsureBudget"]);
        assert_eq!(world.waits(), ["DataCorrupt", "WaitingForPodReady"]);
    }

    #[test]
    fn a_full_database_is_said_and_healing_goes_on() {
        for (title, change) in HAPPENINGS {
            let mut world = World::formed();
            change(&mut world);
            let steps = world.steps();
            world.change_answer(0, |answer| answer.alarms.extend([Alarm::NoSpace]));
            assert_eq!(world.steps(), steps, "{title}");
            assert!(world.waits().contains(&"DatabaseFull"), "{title}: {:?}", world.waits());
        }
    }
}
