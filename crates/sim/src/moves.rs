//! FOR PROOF: from one state to all that can follow it.

use crate::{
    action::{Action, Kind},
    cast::{AttemptId, PodId, Who},
    explore::{self, Explorable},
    eyes::{self, Sight},
    goal::End,
    kubelet,
    laws::{self, Broken},
    model::{Landing, Model},
    replay,
    state::{
        Data, Flying, Mark, Memory, Operator, Pod, Presence, Reported, Role, Round, ScriptId, Service, Stage,
        State, WriteId,
    },
    world::Ingredient,
    write::{Change, Object},
};

pub(crate) type Moves = explore::Moves<Action, State>;

impl Moves {
    fn push(&mut self, model: &Model<'_>, action: Action, outcome: Result<State, Broken>) {
        let outcome = outcome.and_then(|mut state| {
            model.settle(&mut state);
            let broken = laws::broken_by(&state).find(|law| model.properties.has(*law));
            broken.map_or(Ok(state), |law| Err(Broken::Law(law)))
        });
        self.all.push((action, outcome));
    }
}

impl Explorable for Model<'_> {
    type State = State;
    type Action = Action;

    fn beginning(&self) -> State {
        State::new()
    }

    fn faults(&self) -> u8 {
        self.world.faults
    }

    /// With two leaders at once only safety is asked: they may undo each other's attempts for as long as both lead.
    fn has_goal(&self) -> bool {
        !self.world.has(Ingredient::TwoLeaders)
    }

    fn kind(action: Action) -> Kind {
        action.kind()
    }

    fn end(&mut self, state: &State) -> Option<End> {
        self.end_of(state)
    }

    fn says(&mut self, state: &State) -> Vec<&'static str> {
        self.words(state)
    }

    fn views(&self) -> usize {
        self.planned_on()
    }

    fn told(&mut self, states: &[State], path: &[Action]) -> Vec<Action> {
        replay::told(self, states, path)
    }

    fn moves(&mut self, state: &State, faults_left: bool, moves: &mut Moves) {
        for who in Who::ALL {
            self.rounds(state, who, moves);
            self.flights(state, who, moves);
        }
        let pods = self.one_for_all(state);
        self.kubelets(state, &pods, moves);
        self.garbage(state, moves);
        self.chances(state, &pods, moves);
        if faults_left {
            for who in Who::ALL {
                self.operator_faults(state, who, moves);
            }
            self.pod_faults(state, &pods, moves);
        }
    }
}

impl Model<'_> {
    fn leads(&self, state: &State, who: Who) -> bool {
        state.leader == who || self.world.has(Ingredient::TwoLeaders)
    }

    /// An operator's rounds, without faults.
    fn rounds(&mut self, state: &State, who: Who, moves: &mut Moves) {
        let operator = *state.operator(who);
        let there = state.resource.presence != Presence::Gone;
        match operator.round {
            Round::Idle if there && self.leads(state, who) => {
                let outcome = self.observe(state, who, false);
                moves.push(self, Action::Observe(who), outcome);
                self.time(state, who, moves);
            }
            // The resource went in between: the list of pods is not asked for any more, or comes to nothing.
            Round::Read { .. } | Round::Listed { .. } => {
                let outcome = self.observe(state, who, false);
                moves.push(self, Action::Observe(who), outcome);
            }
            Round::Acting { script, outdated } => {
                for place in places(self.sendable(state, who, script)) {
                    self.send(state, who, place, outdated, moves);
                }
            }
            Round::Idle => {}
        }
    }

    /// Time passes where it makes a difference; where it makes none now it can still pass later.
    fn time(&mut self, state: &State, who: Who, moves: &mut Moves) {
        let sight = Sight::now(state);
        let memory = eyes::remember(state.operator(who).memory, state, &sight);
        let aged = eyes::aged(memory, state);
        let planned = self.plan(state, who, sight, memory).script;
        if self.plan(state, who, sight, aged).script != planned {
            let mut next = *state;
            next.operator_mut(who).memory = aged;
            moves.push(self, Action::TimePasses(who), Ok(next));
        }
    }

    /// The places of the writes that may be sent next, as a set: creations that stand together go together. Of those of members that
    /// are interchangeable so far, one stands for all.
    fn sendable(&self, state: &State, who: Who, script: ScriptId) -> u16 {
        let writes = self.book.writes_of(script);
        let created = |id: &WriteId| match self.book.change(*id) {
            Change::CreatePod(pod) => Some(pod),
            _ => None,
        };
        let together = || writes.iter().map_while(created);
        let count = together().count();
        if count == 0 {
            return u16::from(!writes.is_empty());
        }
        let other = who.other();
        let again = writes.iter().skip(count).fold(0, |set, id| set | self.named_in(*id));
        let theirs = self.planned_by(state, other) | self.meant_by(state, other);
        let apart = again | theirs | self.meant_by(state, who);
        let alike = |one: PodId, other: PodId| {
            apart & (one.bit() | other.bit()) == 0
                && one.attempt() == other.attempt()
                && state.pod(one) == state.pod(other)
        };
        let first = |place: usize, pod: PodId| !together().take(place).any(|before| alike(before, pod));
        together()
            .enumerate()
            .filter(|(place, pod)| first(*place, *pod))
            .fold(0, |set, (place, _)| set | 1 << place)
    }

    fn send(&mut self, state: &State, who: Who, place: usize, outdated: u16, moves: &mut Moves) {
        let Some(write) = self.write_at(state, who, place) else { return };
        let change = self.book.change(write);
        let mut next = *state;
        self.advance(&mut next, who, place);
        match self.land(&mut next, write, outdated & (1 << place) != 0) {
            Ok(Landing::Done) => {
                forget_refusal(next.operator_mut(who), change);
                moves.push(self, Action::Send(who, change), Ok(next));
            }
            Ok(Landing::Failed) => {
                self.end_round(&mut next, who);
                moves.push(self, Action::Conflict(who, change), Ok(next));
            }
            Ok(Landing::Beyond) => moves.cut += 1,
            Err(broken) => moves.push(self, Action::Send(who, change), Err(broken)),
        }
    }

    fn write_at(&self, state: &State, who: Who, place: usize) -> Option<WriteId> {
        let Round::Acting { script, .. } = state.operator(who).round else { return None };
        self.book.writes_of(script).get(place).copied()
    }

    /// Strikes a write from what is left to send.
    fn advance(&mut self, state: &mut State, who: Who, place: usize) {
        let Round::Acting { script, outdated } = state.operator(who).round else { return };
        let left = self.book.without(script, place);
        let below = outdated & ((1 << place) - 1);
        let outdated = below | ((outdated >> (place + 1)) << place);
        state.operator_mut(who).round = left.map_or(Round::Idle, |script| Round::Acting { script, outdated });
    }

    /// Ends a round early. The report, which speaks of what was seen, is sent all the same.
    fn end_round(&mut self, state: &mut State, who: Who) {
        let Round::Acting { script, .. } = state.operator(who).round else { return };
        let is_report = |id: &WriteId| matches!(self.book.change(*id), Change::Report(_));
        let left: Vec<_> = self.book.writes_of(script).iter().copied().filter(is_report).collect();
        state.operator_mut(who).round = if left.is_empty() {
            Round::Idle
        } else {
            Round::Acting { script: self.book.script(left), outdated: 0 }
        };
    }

    /// Writes that are under way without anybody knowing.
    fn flights(&mut self, state: &State, who: Who, moves: &mut Moves) {
        let Some(Flying { write, outdated }) = state.operator(who).flying else { return };
        let change = self.book.change(write);
        let mut next = *state;
        next.operator_mut(who).flying = None;
        moves.push(self, Action::Vanish(who, change), Ok(next));
        match self.land(&mut next, write, outdated) {
            Ok(Landing::Done) => moves.push(self, Action::Land(who, change), Ok(next)),
            Ok(Landing::Failed) => {}
            Ok(Landing::Beyond) => moves.cut += 1,
            Err(broken) => moves.push(self, Action::Land(who, change), Err(broken)),
        }
    }

    fn with_pod(&self, state: &State, id: PodId, pod: Pod) -> State {
        let mut next = *state;
        next.set_pod(id, pod);
        self.touch(&mut next, Object::Pod(id));
        next
    }

    /// The pods that exist; of those that are interchangeable, one. What happens to it stands for what happens to any of them.
    fn one_for_all(&self, state: &State) -> Vec<PodId> {
        let named = self.named(state);
        let alike = |one: PodId, other: PodId| {
            named & (one.bit() | other.bit()) == 0 && state.pod(one) == state.pod(other)
        };
        let first = |id: &PodId| !id.attempt().pods().take_while(|one| one != id).any(|one| alike(one, *id));
        state.existing().filter(first).collect()
    }

    fn kubelets(&self, state: &State, pods: &[PodId], moves: &mut Moves) {
        if state.resource.presence != Presence::Present {
            return;
        }
        for id in pods.iter().copied() {
            let pod = state.pod(id);
            if state.counts(id) && kubelet::can_start(pod) {
                let started = kubelet::start(&self.guard, state, id);
                let outcome = match started {
                    Err(law) if self.properties.has(law) => Err(Broken::Law(law)),
                    Err(_) => continue,
                    Ok(started) => Ok(self.with_pod(state, id, started)),
                };
                moves.push(self, Action::Start(id), outcome);
            }
            if pod.has(Mark::Deleting) && !pod.has(Mark::NodeLost) {
                moves.push(self, Action::Finish(id), Ok(self.with_pod(state, id, pod.gone())));
            }
        }
    }

    /// The garbage collector, once the resource is on its way.
    fn garbage(&self, state: &State, moves: &mut Moves) {
        if state.resource.presence == Presence::Present {
            return;
        }
        let mut next = *state;
        for id in state.existing() {
            let pod = state.pod(id);
            let collected = if pod.has(Mark::NodeLost) { pod.with(Mark::Deleting) } else { pod.gone() };
            next = self.with_pod(&next, id, collected);
        }
        for role in [Role::Peer, Role::Client] {
            next = self.without_service(&next, role);
        }
        moves.push(self, Action::Collect, Ok(next));
        let left = state.existing().next().is_some()
            || [Role::Peer, Role::Client].iter().any(|role| state.service(*role) != Service::Missing);
        if state.resource.presence == Presence::Deleting && !left {
            moves.push(self, Action::ResourceGoes, Ok(self.without_resource(state)));
        }
    }

    fn without_service(&self, state: &State, role: Role) -> State {
        let mut next = *state;
        next.set_service(role, Service::Missing);
        self.touch(&mut next, Object::Service(role));
        next
    }

    fn without_resource(&self, state: &State) -> State {
        let mut next = *state;
        next.resource.presence = Presence::Gone;
        // The record stays for the safety predicates: what lands late is still asked which attempt it is of.
        next.resource.reported = Reported { phase: api::Phase::None, size: None };
        next.acknowledged = None;
        self.touch(&mut next, Object::Resource);
        for who in Who::ALL {
            next.operator_mut(who).memory = Memory::default();
        }
        next
    }

    /// What people decide, and what luck brings.
    fn chances(&self, state: &State, pods: &[PodId], moves: &mut Moves) {
        if self.world.has(Ingredient::Deletion) && state.resource.presence == Presence::Present {
            moves.push(self, Action::DeleteResource, Ok(self.without_resource(state)));
            let mut next = *state;
            next.resource.presence = Presence::Deleting;
            self.touch(&mut next, Object::Resource);
            moves.push(self, Action::DeleteInForeground, Ok(next));
        }
        let forming = state.resource.birth.filter(|birth| !birth.formed).map(|birth| birth.attempt);
        let unwritten =
            |attempt: &AttemptId| state.has_quorum(*attempt) && state.written & attempt.bit() == 0;
        let there = state.resource.presence != Presence::Gone;
        if let Some(attempt) =
            forming.filter(unwritten).filter(|_| there && self.world.has(Ingredient::EarlyWrites))
        {
            let mut next = *state;
            next.written |= attempt.bit();
            for id in attempt.pods().filter(|id| state.pod(*id).is_up()) {
                next.set_pod(id, state.pod(id).with(Mark::Written));
            }
            moves.push(self, Action::ClientWrites(attempt), Ok(next));
        }
        for id in pods.iter().copied().filter(|id| state.pod(*id).has(Mark::NodeLost)) {
            let pod = state.pod(id);
            moves.push(
                self,
                Action::NodeReturns(id),
                Ok(self.with_pod(state, id, pod.without(Mark::NodeLost))),
            );
            moves.push(self, Action::ForgetNode(id), Ok(self.with_pod(state, id, pod.gone())));
        }
    }

    fn operator_faults(&mut self, state: &State, who: Who, moves: &mut Moves) {
        let operator = *state.operator(who);
        let mut restarted = *state;
        *restarted.operator_mut(who) = Operator { flying: operator.flying, ..Operator::default() };
        if self.world.has(Ingredient::Crashes) && restarted != *state {
            moves.push(self, Action::Crash(who), Ok(restarted));
        }
        if self.world.has(Ingredient::Takeovers) && state.leader != who {
            // It looks for itself before it does anything; what it had planned when it last led is forgotten.
            restarted.leader = who;
            moves.push(self, Action::TakeOver(who), Ok(restarted));
        }
        let there = state.resource.presence != Presence::Gone;
        if operator.round == Round::Idle && there && self.leads(state, who) {
            if self.world.has(Ingredient::Blindness) {
                let outcome = self.observe(state, who, true);
                moves.push(self, Action::ObserveBlind(who), outcome);
            }
            if self.world.has(Ingredient::SplitReads) {
                let mut next = *state;
                next.operator_mut(who).round = Round::Read { seen: state.resource, outdated: false };
                moves.push(self, Action::ReadResource(who), Ok(next));
            }
            if self.world.has(Ingredient::StaleLists) {
                let mut next = *state;
                let list = self.book.list(state.list());
                next.operator_mut(who).round = Round::Listed { list, pods: 0, services: [false; 2] };
                moves.push(self, Action::ListObjects(who), Ok(next));
            }
        }
        let Round::Acting { script, outdated } = operator.round else { return };
        for place in places(self.sendable(state, who, script)) {
            let Some(write) = self.write_at(state, who, place) else { continue };
            let change = self.book.change(write);
            let mut next = *state;
            self.advance(&mut next, who, place);
            if let (Change::CreatePod(pod), true) = (change, self.world.has(Ingredient::Quota)) {
                let mut next = next;
                let memory = &mut next.operator_mut(who).memory;
                memory.refused |= pod.bit();
                memory.refused_aged = false;
                moves.push(self, Action::Refuse(who, pod), Ok(next));
            }
            if self.world.has(Ingredient::Answers) && operator.flying.is_none() {
                self.end_round(&mut next, who);
                forget_refusal(next.operator_mut(who), change);
                next.operator_mut(who).flying =
                    Some(Flying { write, outdated: outdated & (1 << place) != 0 });
                moves.push(self, Action::LoseAnswer(who, change), Ok(next));
            }
        }
    }

    fn pod_faults(&self, state: &State, pods: &[PodId], moves: &mut Moves) {
        for id in pods.iter().copied() {
            let pod = state.pod(id);
            let counts = state.counts(id);
            let alive = !pod.has(Mark::Deleting) && !pod.has(Mark::NodeLost) && pod.stage != Stage::Failed;
            let mut fault = |action, pod| moves.push(self, action, Ok(self.with_pod(state, id, pod)));
            if self.world.has(Ingredient::Nodes) && !pod.has(Mark::NodeLost) && pod.stage != Stage::Failed {
                fault(Action::LoseNode(id), pod.with(Mark::NodeLost));
            }
            // What happens to a pod that is about to be deleted anyway is no more than what its node can do to it.
            if !counts || !alive {
                continue;
            }
            let emptied = pod.without(Mark::Written);
            let ran = matches!(pod.stage, Stage::Up | Stage::Down) && pod.data != Data::Fresh;
            if self.world.has(Ingredient::Kills) && pod.stage == Stage::Up {
                fault(Action::Kill(id), Pod { stage: Stage::Down, ..pod });
            }
            if self.world.has(Ingredient::Pods) {
                fault(
                    Action::Evict(id),
                    Pod { stage: Stage::Failed, data: Data::Fresh, restarts: 0, ..emptied },
                );
                fault(Action::DeletePod(id), pod.with(Mark::Deleting));
            }
            if self.world.has(Ingredient::Volumes) && ran {
                if pod.data != Data::DataLost && pod.data != Data::AllLost {
                    fault(Action::LoseData(id), Pod { stage: Stage::Down, data: Data::DataLost, ..emptied });
                }
                if pod.data != Data::AllLost {
                    fault(
                        Action::LoseVolumes(id),
                        Pod { stage: Stage::Down, data: Data::AllLost, ..emptied },
                    );
                }
            }
        }
        for role in [Role::Peer, Role::Client] {
            if self.world.has(Ingredient::Services) && state.service(role) != Service::Missing {
                moves.push(self, Action::DeleteService(role), Ok(self.without_service(state, role)));
            }
        }
    }
}

/// The places in a set.
fn places(set: u16) -> impl Iterator<Item = usize> {
    (0..16).filter(move |place| set & 1 << place != 0)
}

/// A creation that went through, or may have, is not known to be refused any more.
fn forget_refusal(operator: &mut Operator, change: Change) {
    if let Change::CreatePod(pod) = change {
        operator.memory.refused &= !pod.bit();
        operator.memory.refused_aged &= operator.memory.refused != 0;
    }
}
