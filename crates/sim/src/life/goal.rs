//! FOR PROOF: where a formed cluster's life should come to rest once nothing goes wrong any more.

use super::{
    eyes,
    model::Model,
    state::{Mark, Round, Slot, SlotId, State},
};
use crate::{cast::Who, goal::End};

impl Model<'_> {
    /// Which end this state is, if it is one. The operators have nothing to do in it.
    pub(crate) fn end_of(&mut self, state: &State) -> Option<End> {
        let mut waits = Vec::new();
        if state.paused {
            return None;
        }
        for who in Who::ALL {
            let operator = *state.operator(who);
            match operator.round {
                _ if operator.flying.is_some() => return None,
                Round::Acting { .. } => return None,
                Round::Idle if state.lead != who => continue,
                Round::Idle | Round::Listing { .. } => {}
            }
            let listed = self.listed(state, operator.round);
            let memory = eyes::remember(operator.memory, state, &listed);
            let planned = self.plan(state, who, listed, memory);
            let later = self.plan(state, who, listed, eyes::aged(memory, state, &listed));
            if [planned.script, later.script].iter().any(|script| !self.book.writes_of(*script).is_empty()) {
                return None;
            }
            if state.lead == who {
                waits.clone_from(&later.waits);
            }
        }
        if !state.has_quorum() {
            return out_of_service(state, &waits).filter(|_| self.is_still(state));
        }
        let healthy = state.count(|slot| eyes::serves(state, slot) && !slot.has(Mark::Deleting));
        let listed = state.count(Slot::is_listed);
        let stray = |id: SlotId| {
            let slot = state.slot(id);
            let stuck = slot.has(Mark::Deleting) && slot.has(Mark::NodeLost);
            slot.pod_exists() && !slot.is_listed() && !stuck
        };
        let done = healthy == usize::from(state.size) && listed == healthy && !SlotId::named().any(stray);
        done.then_some(End::Running)
    }
}

/// Without a quorum nothing is changed, and that is said: lost for good, or waiting for who may return.
fn out_of_service(state: &State, waits: &[&str]) -> Option<End> {
    let returning = |slot: Slot| slot.is_voter() && slot.may_return();
    let startable = state.count(|slot| returning(slot) && !slot.has(Mark::NodeLost));
    let returns = state.count(returning);
    let quorum = state.voters() / 2 + 1;
    let says = |words: &[&str]| waits.iter().any(|word| words.contains(word));
    if startable >= quorum {
        return None;
    }
    if returns >= quorum {
        return says(&["WaitingForQuorum", "WaitingForPeers"]).then_some(End::Stranded);
    }
    // Who is lost is known where somebody tells who the members are, and of those who have ever started.
    let told = state.count(|slot| slot.pod_exists() && slot.is_up()) > 0;
    let begun = state.count(|slot| slot.is_voter() && !slot.has(Mark::Published)) == 0;
    let doubtful = (!told || !begun) && says(&["WaitingForQuorum"]);
    (says(&["DataLost", "QuorumLost"]) || doubtful).then_some(End::Lost)
}
