//! FOR PROOF: what follows at once from a state, and which states are the same for all that anybody can tell.

use crate::{
    cast::{AttemptId, PodId, Who},
    model::Model,
    state::{Data, Mark, Pod, Presence, Round, Service, Stage, State, WriteId},
    write::Change,
};

impl Model<'_> {
    /// Brings a state into the form in which it is compared.
    pub(crate) fn settle(&self, state: &mut State) {
        serve(state);
        // An older list tells members apart that look alike now.
        let listed =
            Who::ALL.into_iter().any(|who| matches!(state.operator(who).round, Round::Listed { .. }));
        for attempt in AttemptId::all() {
            if state.latched & attempt.bit() == 0 {
                continue;
            }
            let counts = state.resource.birth.is_some_and(|birth| birth.attempt == attempt);
            if !counts || state.resource.presence == Presence::Gone {
                abandon(state, attempt);
            }
            if !self.distinct && !listed {
                self.sort(state, attempt);
            }
        }
    }

    /// The members of an attempt are interchangeable: states that differ only in which of them is which are one. Those that a
    /// planned write names stay where they are.
    fn sort(&self, state: &mut State, attempt: AttemptId) {
        let named = self.named(state);
        let free: Vec<PodId> = attempt.pods().filter(|id| named & id.bit() == 0).collect();
        let mut pods: Vec<Pod> = free.iter().map(|id| state.pod(*id)).collect();
        pods.sort_unstable();
        for (id, pod) in free.into_iter().zip(pods) {
            state.set_pod(id, pod);
        }
    }

    /// The pods that somebody means by name: in a planned write, in one that is under way, or in an operator's memory.
    fn named(&self, state: &State) -> u32 {
        let of_write = |id: WriteId| match self.book.change(id) {
            Change::CreatePod(pod) | Change::DeletePod(pod) | Change::Order { pod, .. } => pod.bit(),
            _ => 0,
        };
        let of_operator = |who: Who| {
            let operator = state.operator(who);
            let planned = match operator.round {
                Round::Acting { script, .. } => {
                    self.book.writes_of(script).iter().fold(0, |set, id| set | of_write(*id))
                }
                Round::Idle | Round::Read { .. } | Round::Listed { .. } => 0,
            };
            let flying = operator.flying.map_or(0, |flying| of_write(flying.write));
            planned | flying | operator.memory.refused | operator.memory.silent
        };
        Who::ALL.into_iter().fold(0, |set, who| set | of_operator(who))
    }
}

/// A quorum serves its members, and a client that is let in writes.
fn serve(state: &mut State) {
    for attempt in AttemptId::all() {
        if state.latched & attempt.bit() == 0 || !state.has_quorum(attempt) {
            continue;
        }
        for id in attempt.pods() {
            if state.pod(id).is_up() {
                state.set_pod(id, state.pod(id).with(Mark::Served));
            }
        }
        if state.client == Service::Selects(Some(attempt)) {
            state.acknowledged.get_or_insert(attempt);
        }
    }
}

/// What runs in a pod of an abandoned attempt is of no account any more: no Service leads there, and no rule looks into it. What
/// counts is whether the pod is there, and whether it can go.
fn abandon(state: &mut State, attempt: AttemptId) {
    for id in attempt.pods() {
        let pod = state.pod(id);
        let plain = if pod.exists() { Pod { stage: Stage::Pending, ..Pod::default() } } else { pod.gone() };
        let kept = [Mark::Deleting, Mark::NodeLost].into_iter().filter(|mark| pod.has(*mark));
        if pod.stage != Stage::Unmade {
            state.set_pod(id, kept.fold(Pod { data: Data::Fresh, ..plain }, Pod::with));
        }
    }
}
