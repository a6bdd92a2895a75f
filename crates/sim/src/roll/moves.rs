//! FOR PROOF: from one state of a roll to all that can follow it, and where it should come to rest.

use std::fmt;

use super::{
    Fault, eyes,
    model::{Change, Model},
    state::{Doubt, Round, Slot, Stage, State},
};
use crate::{
    action::Kind,
    explore::{self, Explorable},
    goal::End,
    state::WriteId,
};

/// Something that happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    Observe,
    Send(Change),
    LoseAnswer(Change),
    Land(Change),
    Vanish(Change),
    Crash,
    /// A container is started, or its image cannot be pulled.
    Start(u8),
    CatchUp(u8),
    Elect(u8),
    Agree,
    Rewrite,
    FinishDowngrade,
    Kill(u8),
    LeaderMoves(u8),
    Edit(u8),
    Pause,
    Unpause,
}

impl Action {
    const fn kind(self) -> Kind {
        match self {
            Self::LoseAnswer(_)
            | Self::Crash
            | Self::Kill(_)
            | Self::LeaderMoves(_)
            | Self::Edit(_)
            | Self::Pause => Kind::Fault,
            _ => Kind::Course,
        }
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Observe => write!(f, "the operator looks and plans"),
            Self::Send(change) => write!(f, "the operator sends: {change}"),
            Self::LoseAnswer(change) => write!(f, "no answer comes to: {change}"),
            Self::Land(change) => write!(f, "it lands late: {change}"),
            Self::Vanish(change) => write!(f, "it never lands: {change}"),
            Self::Crash => write!(f, "the operator crashes"),
            Self::Start(slot) => write!(f, "the kubelet starts member {slot}"),
            Self::CatchUp(slot) => write!(f, "member {slot} has caught up"),
            Self::Elect(slot) => write!(f, "member {slot} is elected"),
            Self::Agree => write!(f, "the cluster agrees on a higher version"),
            Self::Rewrite => write!(f, "the data is in the older form"),
            Self::FinishDowngrade => write!(f, "etcd ends the downgrade"),
            Self::Kill(slot) => write!(f, "member {slot} is killed"),
            Self::LeaderMoves(slot) => write!(f, "member {slot} leads instead"),
            Self::Edit(version) => write!(f, "the spec asks for version {version}"),
            Self::Pause => write!(f, "the cluster is paused"),
            Self::Unpause => write!(f, "the cluster goes on"),
        }
    }
}

type Moves = explore::Moves<Action, State>;

impl Explorable for Model<'_> {
    type State = State;
    type Action = Action;

    fn beginning(&self) -> State {
        self.begin()
    }

    fn faults(&self) -> u8 {
        self.world.faults
    }

    fn has_goal(&self) -> bool {
        true
    }

    fn moves(&mut self, state: &State, faults_left: bool, moves: &mut Moves) {
        self.operator(state, faults_left, moves);
        self.kubelet(state, moves);
        self.etcd(state, moves);
        if faults_left {
            self.faults_of(state, moves);
        }
    }

    fn kind(action: Action) -> Kind {
        action.kind()
    }

    fn end(&mut self, state: &State) -> Option<End> {
        let idle = state.round == Round::Idle && state.flying.is_none() && !state.paused;
        let planned = self.plan(state);
        if !idle || !self.writes_of(planned.script).is_empty() || state.leader.is_none() {
            return None;
        }
        let slots = || self.cast.members().map(|(index, _)| state.slot(index));
        let as_wanted = |slot: Slot| {
            slot.is_well() && !slot.same_container && (slot.ran, slot.ordered) == (state.spec, state.spec)
        };
        if slots().all(as_wanted) && planned.waits.is_empty() {
            return Some(End::Running);
        }
        let held = |slot: &Slot| slot.stage == Stage::PullFails && Some(slot.ordered) == self.world.missing;
        let one = slots().filter(held).count() == 1
            && slots().filter(|slot| slot.is_well()).count() + 1 == slots().count();
        (one && planned.waits.contains(&"MemberNotUpgraded")).then_some(End::Held)
    }

    fn says(&mut self, state: &State) -> Vec<&'static str> {
        self.plan(state).waits.clone()
    }

    fn views(&self) -> usize {
        self.planned_on()
    }

    fn told(&mut self, _: &[State], path: &[Action]) -> Vec<Action> {
        path.to_vec()
    }
}

impl Model<'_> {
    fn operator(&mut self, state: &State, faults_left: bool, moves: &mut Moves) {
        let mut push = |action, next| moves.all.push((action, next));
        match state.round {
            Round::Idle => push(Action::Observe, self.observe(state)),
            Round::Acting { script, doubt } => {
                let writes: Vec<WriteId> = self.writes_of(script).to_vec();
                let Some((first, rest)) = writes.split_first() else { return };
                let change = self.change(*first);
                let rest = rest.to_vec();
                let rest = if rest.is_empty() { None } else { Some(self.script(rest)) };
                let mut next = *state;
                let landed = self.land(&mut next, *first, doubt);
                push(
                    Action::Send(change),
                    landed.map(|landing| {
                        // What did not go through ends the round.
                        let goes_on = rest.filter(|_| landing == super::model::Landing::Done);
                        let doubt = match next.round {
                            Round::Acting { doubt, .. } => doubt,
                            Round::Idle => doubt,
                        };
                        next.round = goes_on.map_or(Round::Idle, |script| Round::Acting { script, doubt });
                        next
                    }),
                );
                if faults_left && self.world.has(Fault::Answers) && state.flying.is_none() {
                    let doubt = Doubt { late: true, ..doubt };
                    let lost = State { round: Round::Idle, flying: Some((*first, doubt)), ..*state };
                    push(Action::LoseAnswer(change), Ok(lost));
                }
                if faults_left && self.world.has(Fault::Crashes) {
                    push(Action::Crash, Ok(State { round: Round::Idle, ..*state }));
                }
            }
        }
        if let Some((write, doubt)) = state.flying {
            let change = self.change(write);
            let mut next = State { flying: None, ..*state };
            push(Action::Vanish(change), Ok(next));
            let landed = self.land(&mut next, write, doubt);
            // To whoever decides now it is a fault like any other: no check right before a write can know of it.
            next.doubt(None, true);
            push(Action::Land(change), landed.map(|_| next));
        }
    }

    fn kubelet(&self, state: &State, moves: &mut Moves) {
        for (index, _) in self.cast.members() {
            let slot = state.slot(index);
            let after = match slot.stage {
                Stage::Up if slot.behind && state.leader.is_some() => {
                    moves.all.push((
                        Action::CatchUp(index),
                        Ok(self.with(state, index, Slot { behind: false, ..slot })),
                    ));
                    continue;
                }
                Stage::Up => continue,
                Stage::Ended | Stage::PullFails if Some(slot.ordered) == self.world.missing => {
                    Slot { stage: Stage::PullFails, ..slot }
                }
                _ if slot.ordered < state.agreed => {
                    Slot { stage: Stage::Refused, same_container: false, ..slot }
                }
                _ => {
                    Slot { stage: Stage::Up, ran: slot.ordered, behind: true, same_container: false, ..slot }
                }
            };
            if after != slot {
                moves.all.push((Action::Start(index), Ok(self.with(state, index, after))));
            }
        }
    }

    fn with(&self, state: &State, index: u8, slot: Slot) -> State {
        let mut next = *state;
        self.write(&mut next, index, slot);
        next
    }

    fn etcd(&self, state: &State, moves: &mut Moves) {
        let mut push = |action, next| moves.all.push((action, Ok(next)));
        let slots = || self.cast.members().map(|(index, _)| (index, state.slot(index)));
        if state.leader.is_none() && eyes::has_quorum(&self.cast, state) {
            for (index, _) in slots().filter(|(_, slot)| slot.is_up()) {
                push(Action::Elect(index), State { leader: Some(index), ..*state });
            }
        }
        let running = || slots().map(|(_, slot)| slot.ran);
        let lowest = running().min().unwrap_or(state.agreed);
        if slots().all(|(_, slot)| slot.is_well()) {
            match state.allowed {
                Some(to) if running().all(|ran| ran == to) => {
                    push(Action::FinishDowngrade, State { allowed: None, ..*state });
                }
                None if lowest > state.agreed => {
                    push(Action::Agree, State { agreed: lowest, stored: lowest, ..*state });
                }
                _ => {}
            }
        }
        if let Some(to) = state.allowed.filter(|to| *to != state.stored) {
            push(Action::Rewrite, State { stored: to, ..*state });
        }
        if state.paused {
            push(Action::Unpause, State { paused: false, ..*state });
        }
    }

    fn faults_of(&self, state: &State, moves: &mut Moves) {
        let mut push = |action, next| moves.all.push((action, Ok(next)));
        for (index, _) in self.cast.members() {
            let slot = state.slot(index);
            if self.world.has(Fault::Kills) && slot.is_up() {
                let killed = Slot { stage: Stage::Killed, behind: false, ..slot };
                let mut next = self.with(state, index, killed);
                next.doubt(None, true);
                push(Action::Kill(index), next);
            }
            let other = state.leader.is_some() && state.leader != Some(index);
            if self.world.has(Fault::Leaders) && other && slot.is_well() {
                let mut next = State { leader: Some(index), ..*state };
                next.doubt(None, true);
                push(Action::LeaderMoves(index), next);
            }
        }
        if self.world.has(Fault::Edits) {
            for version in self.world.numbers().filter(|version| *version != state.spec) {
                push(Action::Edit(version), state.edit(version));
            }
        }
        if self.world.has(Fault::Pauses) && !state.paused {
            push(Action::Pause, State { paused: true, ..*state });
        }
    }
}
