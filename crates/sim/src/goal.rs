//! FOR PROOF: where everything should end once nothing goes wrong any more.

use crate::{
    cast::{AttemptId, PodId, Who},
    eyes,
    model::Model,
    state::{Mark, Presence, Role, Round, Service, Stage, State},
};

/// What the operator says of pods that it keeps.
const KEPT: &str = "AbandonedPodKept";

/// An end that is as it should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum End {
    /// The cluster has formed, its members serve, clients reach it, and nothing is waited for.
    Running,
    /// As `Running`; and a client wrote to an attempt in the very moment in which it was given up: its pods are kept, and the operator says so.
    Kept,
    /// The cluster has formed and has lost a member, and the operator goes on to change the membership (`life` tells how that ends).
    Degraded,
    /// The cluster has formed and has lost its quorum or everything, and the operator says so and makes nothing anew.
    Lost,
    /// The cluster has formed, and waits for members on lost nodes without which it has no quorum; the operator says so.
    Stranded,
    /// One member waits for an image that is not there, the others serve, and the operator says so.
    Held,
    /// The resource is deleted and nothing is left, but for pods on lost nodes.
    Gone,
}

impl Model<'_> {
    /// Which end this state is, if it is one. The operators have nothing to do in it.
    pub(crate) fn end_of(&mut self, state: &State) -> Option<End> {
        if Who::ALL.into_iter().any(|who| state.operator(who).flying.is_some()) {
            return None;
        }
        let mut waits = Vec::new();
        let mut goes_on = false;
        for who in Who::ALL {
            let operator = *state.operator(who);
            match operator.round {
                Round::Acting { .. } | Round::Read { outdated: true, .. } => return None,
                Round::Idle if state.leader != who => continue,
                Round::Idle | Round::Read { .. } | Round::Listed { .. } => {}
            }
            let sight = self.sight(state, operator.round);
            if sight.seen.presence == Presence::Gone {
                continue;
            }
            let memory = eyes::remember(operator.memory, state, &sight);
            let planned = self.plan(state, who, sight, memory);
            let later = self.plan(state, who, sight, eyes::aged(memory, state));
            if [planned.script, later.script].iter().any(|script| !self.book.writes_of(*script).is_empty()) {
                return None;
            }
            if state.leader == who {
                waits.clone_from(&planned.waits);
                goes_on = planned.goes_on || later.goes_on;
            }
        }
        if state.resource.presence != Presence::Present {
            return is_gone(state).then_some(End::Gone);
        }
        let birth = state.resource.birth?;
        let services_follow = state.peer == Service::Selects(Some(birth.attempt))
            && state.client == Service::Selects(birth.formed.then_some(birth.attempt));
        let kept = |id: PodId| waits.contains(&KEPT) && state.holds_writes(id.attempt());
        let cleaned =
            state.existing().all(|id| id.attempt() == birth.attempt || is_stuck(state, id) || kept(id));
        if !services_follow || !cleaned {
            return None;
        }
        let moves_on = |id: PodId| {
            let pod = state.pod(id);
            pod.exists()
                && !pod.has(Mark::NodeLost)
                && (pod.has(Mark::Deleting) || matches!(pod.stage, Stage::Pending | Stage::Down))
        };
        if birth.attempt.pods().any(moves_on) {
            return None;
        }
        birth.formed.then(|| formed_end(state, birth.attempt, &waits, goes_on)).flatten()
    }
}

/// A pod that nobody can remove: its node is lost.
fn is_stuck(state: &State, id: PodId) -> bool {
    state.pod(id).has(Mark::Deleting) && state.pod(id).has(Mark::NodeLost)
}

fn is_gone(state: &State) -> bool {
    let stuck = state.existing().all(|id| is_stuck(state, id));
    // In the foreground a resource waits for what it owns, so one with a pod on a lost node stays; one without goes.
    let waits = state.resource.presence == Presence::Deleting && state.existing().next().is_none();
    stuck && !waits && [Role::Peer, Role::Client].iter().all(|role| state.service(*role) == Service::Missing)
}

fn formed_end(state: &State, attempt: AttemptId, waits: &[&str], goes_on: bool) -> Option<End> {
    let says = |words: &[&str]| waits.iter().any(|word| words.contains(word));
    let up = attempt.pods().filter(|id| state.pod(*id).is_up()).count();
    let withdrawn =
        attempt.pods().filter(|id| state.pod(*id).is_up()).all(|id| state.pod(id).has(Mark::Withdrawn));
    if !withdrawn {
        return None;
    }
    let unreachable = attempt.pods().any(|id| state.pod(id).exists() && state.pod(id).has(Mark::NodeLost));
    match up {
        3 if waits == [KEPT] => Some(End::Kept),
        3 => waits.is_empty().then_some(End::Running),
        2 => goes_on.then_some(End::Degraded),
        1 => says(&["WaitingForQuorum", "QuorumLost"]).then_some(End::Lost),
        _ if unreachable => says(&["WaitingForQuorum"]).then_some(End::Lost),
        _ => says(&["DataLost"]).then_some(End::Lost),
    }
}
