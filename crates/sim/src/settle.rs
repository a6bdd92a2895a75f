//! FOR PROOF: what follows at once from a state, and which states are the same for all that anybody can tell.

use crate::{
    cast::{AttemptId, PodId, SIZE, Who},
    model::Model,
    state::{Data, Mark, Pod, Presence, Round, Service, Stage, State, WriteId},
    write::Change,
};

impl Model<'_> {
    /// Brings a state into the form in which it is compared.
    pub(crate) fn settle(&self, state: &mut State) {
        serve(state);
        let named = self.named(state);
        for attempt in AttemptId::all() {
            if state.latched & attempt.bit() == 0 {
                continue;
            }
            let counts = state.resource.birth.is_some_and(|birth| birth.attempt == attempt);
            if !counts || state.resource.presence == Presence::Gone {
                abandon(state, attempt);
            }
            sort(state, attempt, named);
        }
    }

    /// The pods that are told apart: somebody means them by name, in a planned write, in one that is under way, or in memory.
    pub(crate) fn named(&self, state: &State) -> u32 {
        Who::ALL.into_iter().fold(0, |set, who| set | self.planned_by(state, who) | self.meant_by(state, who))
    }

    /// The pods that an operator's planned writes name.
    pub(crate) fn planned_by(&self, state: &State, who: Who) -> u32 {
        match state.operator(who).round {
            Round::Acting { script, .. } => {
                self.book.writes_of(script).iter().fold(0, |set, id| set | self.named_in(*id))
            }
            Round::Idle | Round::Read { .. } | Round::Listed { .. } => 0,
        }
    }

    /// The pods that an operator means beside its planned writes.
    pub(crate) fn meant_by(&self, state: &State, who: Who) -> u32 {
        let operator = state.operator(who);
        // An older list tells members apart that look alike now.
        if self.distinct || matches!(operator.round, Round::Listed { .. }) {
            return u32::MAX;
        }
        let flying = operator.flying.map_or(0, |flying| self.named_in(flying.write));
        flying | operator.memory.refused | operator.memory.silent
    }

    pub(crate) fn named_in(&self, id: WriteId) -> u32 {
        match self.book.change(id) {
            Change::CreatePod(pod) | Change::DeletePod(pod) | Change::Order { pod, .. } => pod.bit(),
            _ => 0,
        }
    }
}

/// The members of an attempt are interchangeable: states that differ only in which of them is which are one. Those that are told
/// apart stay where they are.
fn sort(state: &mut State, attempt: AttemptId, named: u32) {
    // Three at the most: whoever is before its neighbour goes there.
    let free = |id: &PodId| named & id.bit() == 0;
    for _ in 1..SIZE {
        let mut before: Option<PodId> = None;
        for id in attempt.pods().filter(free) {
            if let Some(before) = before.filter(|before| state.pod(*before) > state.pod(id)) {
                let (one, other) = (state.pod(before), state.pod(id));
                state.set_pod(before, other);
                state.set_pod(id, one);
            }
            before = Some(id);
        }
    }
}

/// A quorum serves its members, and a client that is let in writes.
fn serve(state: &mut State) {
    for attempt in AttemptId::all() {
        if state.latched & attempt.bit() == 0 || !state.has_quorum(attempt) {
            continue;
        }
        let written = attempt.pods().any(|id| state.pod(id).is_up() && state.pod(id).has(Mark::Written));
        for id in attempt.pods() {
            if state.pod(id).is_up() {
                let pod = state.pod(id).with(Mark::Served);
                state.set_pod(id, if written { pod.with(Mark::Written) } else { pod });
            }
        }
        if state.client == Service::Selects(Some(attempt)) {
            state.acknowledged.get_or_insert(attempt);
        }
    }
}

/// What runs in a pod of an abandoned attempt is of no account any more: no Service leads there. What counts is whether the pod is there,
/// whether it can go, and whether it tells that it holds what a client wrote.
fn abandon(state: &mut State, attempt: AttemptId) {
    for id in attempt.pods() {
        let pod = state.pod(id);
        let tells = pod.stage == Stage::Up && pod.has(Mark::Written);
        let now = if tells { Stage::Up } else { Stage::Pending };
        let plain = if pod.exists() { Pod { stage: now, ..Pod::default() } } else { pod.gone() };
        let told = [Mark::Ran, Mark::Written].into_iter().filter(|_| tells);
        let kept = [Mark::Deleting, Mark::NodeLost].into_iter().chain(told).filter(|mark| pod.has(*mark));
        if pod.stage != Stage::Unmade {
            state.set_pod(id, kept.fold(Pod { data: Data::Fresh, ..plain }, Pod::with));
        }
    }
}
