//! FOR PROOF: what etcd itself answers to a change of its membership, and what follows in it by itself.
//!
//! As in etcd's sources: the strict check before a change (`mayAddMember`, `mayRemoveMember`, since 3.5.30 and 3.6.11), one learner at a
//! time, a promotion that asks how far the learner once came and not whether it lives, and IDs that never come back.

use super::{
    state::{Listed, Mark, Slot, SlotId, State},
    write::Change,
};
use crate::state::Stage;

/// etcd's answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    Done,
    Refused,
}

/// Carries out a change, or refuses it.
pub(crate) fn change(state: &mut State, change: Change) -> Answer {
    if !state.has_quorum() || !is_allowed(state, change) {
        return Answer::Refused;
    }
    match change {
        Change::Add { slot, learner, .. } => {
            let listed = if learner { Listed::Learner } else { Listed::Voter };
            state.set(slot, Slot { listed, ..state.slot(slot) });
        }
        Change::Promote { slot, .. } => state.set(slot, Slot { listed: Listed::Voter, ..state.slot(slot) }),
        Change::Remove { slot, .. } if state.slot(slot).is_listed() => {
            state.set(slot, Slot { listed: Listed::Removed, ..state.slot(slot) });
        }
        Change::MoveLeader { slot, .. } => state.leader = Some(slot),
        _ => {}
    }
    Answer::Done
}

fn is_allowed(state: &State, change: Change) -> bool {
    let (voters, active) = (state.voters(), state.active());
    let started = state.count(|slot| slot.is_voter() && slot.has(Mark::Published));
    match change {
        Change::Add { slot, learner, .. } => {
            let ready = learner || voters == 1 || started > voters.div_ceil(2);
            let connected = active > voters.div_ceil(2) || voters == 1;
            let room = !learner || state.count(|slot| slot.listed == Listed::Learner) == 0;
            ready && connected && room && state.slot(slot).listed == Listed::Never
        }
        Change::Promote { slot, .. } => {
            let slot = state.slot(slot);
            // Every voter that ever started counts here, and the learner as well, whether they live or not.
            slot.listed == Listed::Learner && slot.has(Mark::Caught) && started + 1 > voters.div_ceil(2)
        }
        Change::Remove { slot, .. } => may_remove(state, state.slot(slot)),
        Change::MoveLeader { slot, .. } => state.slot(slot).is_up() && state.slot(slot).is_voter(),
        _ => false,
    }
}

fn may_remove(state: &State, slot: Slot) -> bool {
    if !slot.is_voter() {
        // One that is no member is "not found", which is as good as done.
        return true;
    }
    let (voters, active) = (state.voters(), state.active());
    let started = state.count(|slot| slot.is_voter() && slot.has(Mark::Published));
    let left = started - usize::from(slot.has(Mark::Published));
    if voters == 1 || left <= (voters - 1) / 2 {
        return false;
    }
    !slot.is_up() || active > 1 + (voters - 1) / 2
}

/// What follows at once: somebody leads, clients write, who runs tells its name, who was removed ends.
pub(crate) fn settle(state: &mut State) {
    for id in SlotId::all() {
        let slot = state.slot(id);
        if slot.listed == Listed::Removed && slot.stage == Stage::Up && !slot.has(Mark::NodeLost) {
            state.set(id, Slot { stage: Stage::Down, ..slot });
        }
    }
    if !state.has_quorum() {
        state.leader = None;
        return;
    }
    let leads = |id: &SlotId| {
        let slot = state.slot(*id);
        slot.is_up() && slot.is_voter() && slot.has(Mark::Current)
    };
    if !state.leader.is_some_and(|id| leads(&id)) {
        state.leader = SlotId::all().find(leads);
    }
    // A write is acknowledged in every moment in which one can be: whoever does not run misses it.
    for id in SlotId::all() {
        let slot = state.slot(id);
        state.set(id, if slot.is_up() { slot.with(Mark::Published) } else { slot.without(Mark::Current) });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::life::write::Ground;

    const ON: Ground = Ground { through: SlotId(0), list: 0 };

    /// A cluster of so many voters, the last of which are down.
    fn cluster(voters: u8, down: u8) -> State {
        let mut state = State::formed(voters, voters);
        for id in (voters - down..voters).map(SlotId) {
            state.set(id, Slot { stage: Stage::Down, ..state.slot(id) });
        }
        state
    }

    #[test]
    fn etcd_refuses_what_its_strict_check_refuses_and_nothing_else() {
        let add = |learner| Change::Add { slot: SlotId(3), learner, on: ON };
        let remove = |n| Change::Remove { slot: SlotId(n), on: ON };
        let table = [
            ("a learner beside three", cluster(3, 0), add(true), Answer::Done),
            ("a learner while one of three is down", cluster(3, 1), add(true), Answer::Refused),
            ("a voter beside one", cluster(1, 0), add(false), Answer::Done),
            ("one that runs, of three", cluster(3, 0), remove(0), Answer::Done),
            ("one that runs, while another is down", cluster(3, 1), remove(0), Answer::Refused),
            ("the one that is down", cluster(3, 1), remove(2), Answer::Done),
            ("the last one", cluster(1, 0), remove(0), Answer::Refused),
            ("nobody", cluster(3, 0), remove(7), Answer::Done),
            ("anything without a quorum", cluster(3, 2), remove(2), Answer::Refused),
            (
                "a leader that is down",
                cluster(3, 1),
                Change::MoveLeader { slot: SlotId(2), on: ON },
                Answer::Refused,
            ),
        ];
        for (title, mut state, asked, answer) in table {
            assert_eq!(change(&mut state, asked), answer, "{title}");
        }
    }

    #[test]
    fn there_is_one_learner_at_a_time_and_it_is_promoted_when_it_once_had_everything() {
        let mut state = cluster(3, 0);
        let (add, promote) =
            (|slot| Change::Add { slot, learner: true, on: ON }, Change::Promote { slot: SlotId(3), on: ON });
        assert_eq!(change(&mut state, add(SlotId(3))), Answer::Done);
        assert_eq!(change(&mut state, add(SlotId(4))), Answer::Refused, "too many learners");
        assert_eq!(change(&mut state, promote), Answer::Refused, "it has not caught up");
        state.set(SlotId(3), state.slot(SlotId(3)).with(Mark::Caught));
        assert_eq!(change(&mut state, promote), Answer::Done, "whether it is alive is not asked");
        assert_eq!(change(&mut state, Change::Remove { slot: SlotId(3), on: ON }), Answer::Done);
        assert_eq!(change(&mut state, add(SlotId(3))), Answer::Refused, "an ID never comes back");
    }

    #[test]
    fn a_quorum_without_anybody_who_has_everything_has_no_leader() {
        let mut state = cluster(3, 1);
        settle(&mut state);
        assert!(!state.slot(SlotId(2)).has(Mark::Current), "it missed a write");
        for id in [SlotId(0), SlotId(1)] {
            state.set(id, state.slot(id).without(Mark::Current));
        }
        settle(&mut state);
        assert!(state.has_quorum() && state.leader.is_none());
    }
}
