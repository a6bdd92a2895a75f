//! FOR PROOF: from one state of a formed cluster's life to all that can follow it.

use std::fmt;

use super::{
    Fault,
    cast::SIZES,
    etcd, eyes,
    model::{self, Landing, Model, Timing},
    state::{Flying, Listed, Mark, Operator, Refused, Round, Slot, SlotId, State},
    write::Change,
};
use crate::{
    action::Kind,
    cast::Who,
    explore::{self, Explorable},
    goal::End,
    laws::{Broken, Law},
    state::{Data, Stage, WriteId},
};

/// Something that happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    Observe(Who),
    ListPods(Who),
    Send(Who, Change),
    Moved(Who, Change),
    Refused(Who, Change),
    NoRoom(Who, SlotId),
    LoseAnswer(Who, Change),
    Land(Who, Change),
    Vanish(Who, Change),
    Crash(Who),
    TakeOver(Who),
    TimePasses(Who),
    LosePatience(Who),
    Start(SlotId),
    CatchUp(SlotId),
    Finish(SlotId),
    Kill(SlotId),
    Lag(SlotId),
    LoseData(SlotId),
    Evict(SlotId),
    DeletePod(SlotId),
    LoseNode(SlotId),
    NodeReturns(SlotId),
    ForgetNode(SlotId),
    Edit(u8),
    Pause,
    Resume,
    StrangerAdds { learner: bool },
    StrangerRemoves(SlotId),
}

impl Action {
    const fn kind(self) -> Kind {
        match self {
            Self::Observe(_)
            | Self::Send(..)
            | Self::Moved(..)
            | Self::Refused(..)
            | Self::Land(..)
            | Self::Vanish(..)
            | Self::TimePasses(_)
            | Self::Start(_)
            | Self::CatchUp(_)
            | Self::Finish(_)
            | Self::Resume => Kind::Course,
            Self::NodeReturns(_) | Self::ForgetNode(_) => Kind::Chance,
            _ => Kind::Fault,
        }
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Observe(who) => write!(f, "operator {who:?} looks and plans"),
            Self::ListPods(who) => write!(f, "operator {who:?} lists pods, and is slow to ask the members"),
            Self::Send(who, change) => write!(f, "operator {who:?}: {change}"),
            Self::Moved(who, change) => write!(f, "operator {who:?} does not {change}: the facts have moved"),
            Self::Refused(who, change) => write!(f, "etcd refuses operator {who:?} to {change}"),
            Self::NoRoom(who, id) => write!(f, "a quota refuses operator {who:?} to create the pod of {id}"),
            Self::LoseAnswer(who, change) => {
                write!(f, "operator {who:?} asks to {change}, and the answer is lost")
            }
            Self::Land(who, change) => write!(f, "what operator {who:?} asked for lands late: {change}"),
            Self::Vanish(who, change) => write!(f, "what operator {who:?} asked for never happens: {change}"),
            Self::Crash(who) => write!(f, "operator {who:?} crashes and starts again"),
            Self::TakeOver(who) => write!(f, "operator {who:?} takes over"),
            Self::TimePasses(who) => write!(f, "time passes for operator {who:?}"),
            Self::LosePatience(who) => write!(f, "things take longer than operator {who:?} has patience"),
            Self::Start(id) => write!(f, "the container of {id} starts"),
            Self::CatchUp(id) => write!(f, "{id} has all that the leader has"),
            Self::Finish(id) => write!(f, "the pod of {id} is gone"),
            Self::Kill(id) => write!(f, "the container of {id} is killed"),
            Self::Lag(id) => write!(f, "a write is acknowledged that {id} does not have yet"),
            Self::LoseData(id) => write!(f, "{id} loses its data directory"),
            Self::Evict(id) => write!(f, "the pod of {id} is evicted"),
            Self::DeletePod(id) => write!(f, "somebody deletes the pod of {id}"),
            Self::LoseNode(id) => write!(f, "the node of {id} is lost"),
            Self::NodeReturns(id) => write!(f, "the node of {id} comes back"),
            Self::ForgetNode(id) => write!(f, "the node of {id} is removed, and the pod with it"),
            Self::Edit(size) => write!(f, "the spec asks for {size} members"),
            Self::Pause => write!(f, "somebody pauses the cluster"),
            Self::Resume => write!(f, "the cluster goes on"),
            Self::StrangerAdds { learner: true } => write!(f, "somebody adds a learner with etcdctl"),
            Self::StrangerAdds { .. } => write!(f, "somebody adds a voter with etcdctl"),
            Self::StrangerRemoves(id) => write!(f, "somebody removes {id} with etcdctl"),
        }
    }
}

type Moves = explore::Moves<Action, State>;

impl Moves {
    fn push(&mut self, model: &Model<'_>, action: Action, outcome: Result<State, Broken>) {
        let outcome = outcome.and_then(|mut state| {
            model.settle(&mut state);
            let broken = broken_by(&state).filter(|law| model.properties.has(*law));
            broken.map_or(Ok(state), |law| Err(Broken::Law(law)))
        });
        self.all.push((action, outcome));
    }
}

/// The law that a state breaks by itself.
fn broken_by(state: &State) -> Option<Law> {
    let joining =
        |slot: Slot| slot.is_listed() && (slot.listed == Listed::Learner || !slot.has(Mark::Published));
    let ours = SlotId::named().filter(|id| joining(state.slot(*id))).count();
    let rows =
        [(state.has_quorum() && state.leader.is_none(), Law::WriteLost), (ours > 1, Law::SeveralJoining)];
    rows.into_iter().find(|(broken, _)| *broken).map(|(_, law)| law)
}

impl Explorable for Model<'_> {
    type State = State;
    type Action = Action;

    fn beginning(&self) -> State {
        let mut state = State::formed(self.world.members, self.world.size);
        self.settle(&mut state);
        state
    }

    fn faults(&self) -> u8 {
        self.world.faults
    }

    fn has_goal(&self) -> bool {
        true
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

    fn told(&mut self, _states: &[State], path: &[Action]) -> Vec<Action> {
        path.to_vec()
    }

    fn moves(&mut self, state: &State, faults_left: bool, moves: &mut Moves) {
        self.nature(state, moves);
        let still = !moves.all.iter().any(|next| goes_on(state, next));
        for who in Who::ALL {
            self.rounds(state, who, moves);
            self.flights(state, who, moves);
            if still || faults_left && self.world.has(Fault::Slowness) {
                self.time(state, who, still, moves);
            }
        }
        if state.paused {
            moves.push(self, Action::Resume, Ok(State { paused: false, ..*state }));
        }
        if faults_left {
            for who in Who::ALL {
                self.operator_faults(state, who, moves);
            }
            self.member_faults(state, moves);
            self.people(state, moves);
        }
    }
}

impl Model<'_> {
    /// Brings a state into the form in which it is compared.
    pub(crate) fn settle(&self, state: &mut State) {
        etcd::settle(state);
        let meant = self.meant(state);
        for id in SlotId::all() {
            let slot = state.slot(id);
            if slot.pod_exists() || slot.is_listed() || meant & id.bit() != 0 {
                continue;
            }
            // Nobody has or means this name any more. A founder's is not used again here; any other one may stand for a fresh one.
            let spent = Slot { stage: Stage::Gone, listed: Listed::Removed, ..Slot::default() };
            let used = slot != Slot::default();
            state.set(id, if id.is_founder() && used { spent } else { Slot::default() });
        }
        let listing =
            Who::ALL.into_iter().any(|who| matches!(state.operator(who).round, Round::Listing { .. }));
        if !listing {
            sort(state, meant);
        }
    }

    /// Whether nothing goes on by itself.
    pub(crate) fn is_still(&self, state: &State) -> bool {
        let mut moves = Moves::default();
        self.nature(state, &mut moves);
        !moves.all.iter().any(|next| goes_on(state, next))
    }

    /// An operator's rounds, without faults.
    fn rounds(&mut self, state: &State, who: Who, moves: &mut Moves) {
        match state.operator(who).round {
            Round::Idle if state.lead == who => {
                let outcome = self.observe(state, who);
                moves.push(self, Action::Observe(who), outcome);
            }
            Round::Idle => {}
            Round::Listing { .. } => {
                let outcome = self.observe(state, who);
                moves.push(self, Action::Observe(who), outcome);
            }
            Round::Acting { outdated, disturbed, .. } => {
                self.send(state, who, outdated & 1 != 0, disturbed, moves);
            }
        }
    }

    /// Time passes where it makes a difference; where it makes none now it can still pass later. While something goes on by itself
    /// it is a fault: a kubelet, or a learner, that takes longer than anybody's patience.
    fn time(&mut self, state: &State, who: Who, still: bool, moves: &mut Moves) {
        if state.lead != who || state.operator(who).round != Round::Idle {
            return;
        }
        let memory = eyes::remember(state.operator(who).memory, state, &state.slots);
        let planned = self.plan(state, who, state.slots, memory).script;
        let action = if still { Action::TimePasses(who) } else { Action::LosePatience(who) };
        let shortly = still.then(|| eyes::shortly(memory));
        for later in shortly.into_iter().chain([eyes::aged(memory, state, &state.slots)]) {
            if self.plan(state, who, state.slots, later).script != planned {
                let mut next = *state;
                next.operator_mut(who).memory = later;
                moves.push(self, action, Ok(next));
            }
        }
    }

    fn next_write(&self, state: &State, who: Who) -> Option<WriteId> {
        let Round::Acting { script, .. } = state.operator(who).round else { return None };
        self.book.writes_of(script).first().copied()
    }

    /// Strikes the next write from what is left to send.
    fn advance(&mut self, state: &mut State, who: Who) {
        let Round::Acting { script, outdated, disturbed } = state.operator(who).round else { return };
        let left = self.book.writes_of(script).iter().skip(1).copied().collect::<Vec<_>>();
        state.operator_mut(who).round = if left.is_empty() {
            Round::Idle
        } else {
            Round::Acting { script: self.book.script(left), outdated: outdated >> 1, disturbed }
        };
    }

    fn send(&mut self, state: &State, who: Who, outdated: bool, disturbed: bool, moves: &mut Moves) {
        let Some(write) = self.next_write(state, who) else { return };
        let change = self.book.change(write);
        let mut next = *state;
        self.advance(&mut next, who);
        let landing = if model::holds(state, change) {
            self.land(&mut next, write, outdated, Timing { late: false, disturbed })
        } else {
            Ok(Landing::Moved)
        };
        let action = match landing {
            Ok(Landing::Beyond) => {
                moves.cut += 1;
                return;
            }
            Ok(Landing::Done) => Action::Send(who, change),
            Ok(Landing::Moved) => Action::Moved(who, change),
            Ok(Landing::Refused) => Action::Refused(who, change),
            Err(broken) => return moves.push(self, Action::Send(who, change), Err(broken)),
        };
        let landing = landing.unwrap_or(Landing::Moved);
        model::note(&mut next.operator_mut(who).memory, change, landing);
        if landing != Landing::Done {
            next.operator_mut(who).round = Round::Idle;
        }
        moves.push(self, action, Ok(next));
    }

    /// Writes that are under way without anybody knowing.
    fn flights(&mut self, state: &State, who: Who, moves: &mut Moves) {
        let Some(Flying { write, outdated, disturbed }) = state.operator(who).flying else { return };
        let change = self.book.change(write);
        let mut next = *state;
        next.operator_mut(who).flying = None;
        moves.push(self, Action::Vanish(who, change), Ok(next));
        match self.land(&mut next, write, outdated, Timing { late: true, disturbed }) {
            Ok(Landing::Done) => moves.push(self, Action::Land(who, change), Ok(next)),
            Ok(Landing::Moved | Landing::Refused) => {}
            Ok(Landing::Beyond) => moves.cut += 1,
            Err(broken) => moves.push(self, Action::Land(who, change), Err(broken)),
        }
    }

    /// A state in which somebody else than the operators has changed this slot.
    fn with(&self, state: &State, id: SlotId, slot: Slot) -> State {
        let mut next = *state;
        next.set(id, slot);
        self.touch(&mut next, id);
        next
    }

    /// The same by a fault, which excuses what lands late.
    fn hit(&self, state: &State, id: SlotId, slot: Slot) -> State {
        let mut next = self.with(state, id, slot);
        for who in Who::ALL {
            let operator = next.operator_mut(who);
            if let Some(flying) = &mut operator.flying {
                flying.disturbed = true;
            }
            if let Round::Acting { disturbed, .. } = &mut operator.round {
                *disturbed = true;
            }
        }
        next
    }

    fn nature(&self, state: &State, moves: &mut Moves) {
        for id in SlotId::named() {
            let slot = state.slot(id);
            let reachable = !slot.has(Mark::NodeLost) && slot.pod_exists();
            let startable = matches!(slot.stage, Stage::Pending | Stage::Down | Stage::Refused);
            if reachable && startable && !slot.has(Mark::Deleting) {
                match model::start(&self.guard, state, id) {
                    Err(law) if self.properties.has(law) => {
                        moves.push(self, Action::Start(id), Err(Broken::Law(law)));
                    }
                    Err(_) => {}
                    Ok(started) => {
                        let next = self.progress(state, id, started);
                        moves.push(self, Action::Start(id), Ok(next));
                    }
                }
            }
            if slot.is_up() && state.has_quorum() && !slot.has(Mark::Current) {
                let next = self.progress(state, id, slot.with(Mark::Current).with(Mark::Caught));
                moves.push(self, Action::CatchUp(id), Ok(next));
            }
            if reachable && slot.has(Mark::Deleting) {
                moves.push(self, Action::Finish(id), Ok(self.with(state, id, slot.pod_gone())));
            }
            if slot.has(Mark::NodeLost) {
                let back = slot.without(Mark::NodeLost);
                moves.push(self, Action::NodeReturns(id), Ok(self.with(state, id, back)));
                moves.push(self, Action::ForgetNode(id), Ok(self.with(state, id, slot.pod_gone())));
            }
        }
    }

    /// Somebody comes further, which ends everybody's impatience with it.
    fn progress(&self, state: &State, id: SlotId, slot: Slot) -> State {
        let mut next = self.with(state, id, slot);
        for who in Who::ALL {
            next.operator_mut(who).memory.stalled &= !id.bit();
        }
        next
    }

    fn operator_faults(&mut self, state: &State, who: Who, moves: &mut Moves) {
        let operator = *state.operator(who);
        let mut restarted = *state;
        *restarted.operator_mut(who) = Operator { flying: operator.flying, ..Operator::default() };
        if self.world.has(Fault::Crashes) && restarted != *state {
            moves.push(self, Action::Crash(who), Ok(restarted));
        }
        if self.world.has(Fault::Takeovers) && state.lead != who {
            restarted.lead = who;
            moves.push(self, Action::TakeOver(who), Ok(restarted));
        }
        if self.world.has(Fault::StaleLists) && operator.round == Round::Idle && state.lead == who {
            let mut next = *state;
            next.operator_mut(who).round = Round::Listing { list: self.book.list(state.slots), touched: 0 };
            moves.push(self, Action::ListPods(who), Ok(next));
        }
        let Some(write) = self.next_write(state, who) else { return };
        let change = self.book.change(write);
        let Round::Acting { outdated, disturbed, .. } = operator.round else { return };
        if self.world.has(Fault::Answers) && operator.flying.is_none() && model::holds(state, change) {
            let mut next = *state;
            let after = next.operator_mut(who);
            model::note(&mut after.memory, change, Landing::Done);
            after.round = Round::Idle;
            after.flying = Some(Flying { write, outdated: outdated & 1 != 0, disturbed });
            moves.push(self, Action::LoseAnswer(who, change), Ok(next));
        }
        if let (true, Change::CreatePod { slot, .. }) = (self.world.has(Fault::Quota), change) {
            let mut next = *state;
            let after = next.operator_mut(who);
            (after.memory.no_room, after.round) = (Refused::JustNow, Round::Idle);
            moves.push(self, Action::NoRoom(who, slot), Ok(next));
        }
        if self.world.has(Fault::Refusals) && change.ground().is_some() {
            let mut next = *state;
            let after = next.operator_mut(who);
            after.memory.refused = Refused::JustNow;
            after.round = Round::Idle;
            moves.push(self, Action::Refused(who, change), Ok(next));
        }
    }

    fn member_faults(&self, state: &State, moves: &mut Moves) {
        for id in SlotId::named().filter(|id| state.slot(*id).pod_exists()) {
            let slot = state.slot(id);
            let alive = !slot.has(Mark::Deleting) && !slot.has(Mark::NodeLost) && slot.stage != Stage::Failed;
            let mut fault = |kind, action, slot| {
                if self.world.has(kind) {
                    moves.push(self, action, Ok(self.hit(state, id, slot)));
                }
            };
            if !slot.has(Mark::NodeLost) && slot.stage != Stage::Failed {
                fault(Fault::Nodes, Action::LoseNode(id), slot.with(Mark::NodeLost));
            }
            if !alive {
                continue;
            }
            if slot.stage == Stage::Up {
                fault(Fault::Kills, Action::Kill(id), Slot { stage: Stage::Down, ..slot });
            }
            let evicted = Slot { stage: Stage::Failed, data: Data::Fresh, ..slot }.without(Mark::Current);
            fault(Fault::Pods, Action::Evict(id), evicted);
            fault(Fault::Pods, Action::DeletePod(id), slot.with(Mark::Deleting));
            if slot.data == Data::Log {
                let wiped = Slot { stage: Stage::Down, data: Data::DataLost, ..slot }.without(Mark::Current);
                fault(Fault::Volumes, Action::LoseData(id), wiped);
            }
            let current = state.count(|slot| slot.is_up() && slot.is_voter() && slot.has(Mark::Current));
            let may_lag = state.leader != Some(id) && slot.is_up() && slot.has(Mark::Current);
            if may_lag && (!slot.is_voter() || current - 1 > state.voters() / 2) {
                fault(Fault::Lags, Action::Lag(id), slot.without(Mark::Current));
            }
        }
    }

    /// Those who edit the spec, and those who go to etcd themselves.
    fn people(&self, state: &State, moves: &mut Moves) {
        for size in SIZES {
            if self.world.sizes.contains(&size) && size != state.size {
                moves.push(self, Action::Edit(size), Ok(State { size, ..*state }));
            }
        }
        if self.world.has(Fault::Pauses) && !state.paused {
            moves.push(self, Action::Pause, Ok(State { paused: true, ..*state }));
        }
        if !self.world.has(Fault::Strangers) || !state.has_quorum() {
            return;
        }
        let on = super::write::Ground { through: SlotId::STRANGER, list: 0 };
        for learner in [true, false] {
            let mut next = *state;
            if etcd::change(&mut next, Change::Add { slot: SlotId::STRANGER, learner, on })
                == etcd::Answer::Done
            {
                moves.push(
                    self,
                    Action::StrangerAdds { learner },
                    Ok(self.hit(&next, SlotId::STRANGER, next.slot(SlotId::STRANGER))),
                );
            }
        }
        for id in SlotId::named().filter(|id| state.slot(*id).is_listed()) {
            let mut next = *state;
            if etcd::change(&mut next, Change::Remove { slot: id, on }) == etcd::Answer::Done {
                moves.push(self, Action::StrangerRemoves(id), Ok(self.hit(&next, id, next.slot(id))));
            }
        }
    }
}

/// Whether this is something that goes on by itself, and makes a difference.
fn goes_on(state: &State, (action, next): &(Action, Result<State, Broken>)) -> bool {
    action.kind() == Kind::Course && next.as_ref().is_ok_and(|next| next != state)
}

/// The founders are interchangeable: states that differ only in which of them is which are one. Those that somebody means stay where
/// they are, and so does the leader: whoever moves it means another one by that.
fn sort(state: &mut State, meant: u16) {
    let stays = |id: SlotId| meant & id.bit() != 0 || state.leader == Some(id);
    let free: Vec<SlotId> = SlotId::named().filter(|id| id.is_founder() && !stays(*id)).collect();
    let told = state.slots.iter().fold(0, |set, slot| set | slot.told);
    if free.iter().any(|id| told & id.bit() != 0) {
        return;
    }
    let mut slots: Vec<Slot> = free.iter().map(|id| state.slot(*id)).collect();
    slots.sort_unstable();
    for (id, slot) in free.into_iter().zip(slots) {
        state.set(id, slot);
    }
}
