//! FOR PROOF: the planner inside a roll: what it plans on what is seen, and what happens when a write lands.

use std::{
    collections::{BTreeSet, HashMap},
    fmt,
    hash::BuildHasherDefault,
    rc::Rc,
};

use indexmap::IndexSet;
use launch::{LaunchOrder, ORDER_ANNOTATION};
use planner::{
    Effect, MemberChange, Plan, Step,
    safety::{self, Facts, MemberFact, Running, Violation},
};

use super::{
    Roll,
    cast::{Cast, member_id, slot_of},
    eyes::{self, Eyes},
    state::{Doubt, Round, SLOTS, Slot, Stage, State},
};
use crate::{
    cast::CastError,
    hash::Quick,
    laws::{Broken, Law, Properties},
    model::Planner,
    state::{ScriptId, WriteId},
};

/// What a write does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Change {
    /// Gives a member another version. `through` is whom the others were asked through right before, if they were.
    Relaunch {
        slot: u8,
        to: u8,
        through: Option<u8>,
    },
    MoveLeader {
        to: u8,
        through: u8,
    },
    Downgrade {
        to: Option<u8>,
        through: u8,
    },
    /// Writes something that is not part of this world.
    Unknown,
}

impl Change {
    /// The member through which etcd is asked.
    const fn through(self) -> Option<u8> {
        match self {
            Self::Relaunch { through, .. } => through,
            Self::MoveLeader { through, .. } | Self::Downgrade { through, .. } => Some(through),
            Self::Unknown => None,
        }
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Relaunch { slot, to, .. } => write!(f, "relaunch member {slot} with version {to}"),
            Self::MoveLeader { to, .. } => write!(f, "make member {to} the leader"),
            Self::Downgrade { to: Some(to), .. } => write!(f, "allow to go down to version {to}"),
            Self::Downgrade { .. } => write!(f, "allow no longer to go down"),
            Self::Unknown => write!(f, "write something that this world does not know"),
        }
    }
}

/// A plan, as the world keeps it.
#[derive(Debug)]
pub(crate) struct Planned {
    pub(crate) script: ScriptId,
    pub(crate) waits: Vec<&'static str>,
    /// What is written down: the lowest version, and what each member was seen to run.
    current: Option<u8>,
    told: Option<[Option<u8>; SLOTS]>,
    broken: Option<Law>,
}

/// What became of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Landing {
    Done,
    /// A precondition did not hold, or etcd refused it.
    Moved,
}

/// Everything that does not change from state to state.
pub(crate) struct Model<'a> {
    pub(crate) world: &'a Roll,
    pub(crate) properties: Properties,
    planner: Planner<'a>,
    pub(crate) cast: Cast,
    eyes: Eyes,
    writes: Vec<(Change, Effect)>,
    scripts: IndexSet<Vec<WriteId>>,
    plans: HashMap<State, Rc<Planned>, BuildHasherDefault<Quick>>,
}

impl<'a> Model<'a> {
    pub(crate) fn new(
        world: &'a Roll,
        planner: Planner<'a>,
        properties: Properties,
    ) -> Result<Self, CastError> {
        let cast = Cast::new(world)?;
        let eyes = Eyes::new(&cast);
        let (writes, scripts, plans) = (Vec::new(), IndexSet::new(), HashMap::default());
        Ok(Self { world, properties, planner, cast, eyes, writes, scripts, plans })
    }

    pub(crate) fn planned_on(&self) -> usize {
        self.plans.len()
    }

    pub(crate) fn change(&self, id: WriteId) -> Change {
        self.writes.get(usize::from(id.0)).map_or(Change::Unknown, |(change, _)| *change)
    }

    pub(crate) fn writes_of(&self, script: ScriptId) -> &[WriteId] {
        let index = usize::try_from(script.0).ok();
        index.and_then(|index| self.scripts.get_index(index)).map_or(&[], Vec::as_slice)
    }

    pub(crate) fn script(&mut self, writes: Vec<WriteId>) -> ScriptId {
        let (index, _) = self.scripts.insert_full(writes);
        ScriptId(u32::try_from(index).unwrap_or(u32::MAX))
    }

    fn note(&mut self, change: Change, effect: Effect) -> WriteId {
        let known = self.writes.iter().position(|known| (known.0, &known.1) == (change, &effect));
        let index = known.unwrap_or_else(|| {
            self.writes.push((change, effect));
            self.writes.len() - 1
        });
        WriteId(u16::try_from(index).unwrap_or(u16::MAX))
    }

    /// How everything begins.
    pub(crate) fn begin(&self) -> State {
        let from = self.world.from;
        let slot = Slot { ordered: from, ran: from, told: Some(from), ..Slot::default() };
        State {
            spec: self.world.to,
            paused: false,
            agreed: from,
            stored: from,
            allowed: None,
            leader: Some(0),
            current: from,
            slots: [slot; SLOTS],
            round: Round::Idle,
            flying: None,
        }
    }

    /// What the operator plans in a state.
    pub(crate) fn plan(&mut self, state: &State) -> Rc<Planned> {
        let view = state.seen();
        if let Some(planned) = self.plans.get(&view) {
            return Rc::clone(planned);
        }
        let planned = Rc::new(self.plan_anew(&view));
        self.plans.insert(view, Rc::clone(&planned));
        planned
    }

    fn plan_anew(&mut self, state: &State) -> Planned {
        let wanted = self.cast.wanted(state.spec, state.paused);
        let Some(Ok(desired)) = wanted else {
            let script = self.script(Vec::new());
            let broken = Some(Law::UnknownWrite);
            return Planned { script, waits: Vec::new(), current: None, told: None, broken };
        };
        let observed = self.eyes.look(&self.cast, state, desired);
        let plan = (self.planner)(&Ok(desired.clone()), &observed);
        let effects: Vec<Effect> = plan.steps.iter().flat_map(|step| step.lower(desired)).collect();
        let broken = rash(state, &plan);
        let number = |text: &Option<String>| {
            let version = text.as_deref()?.parse().ok()?;
            self.cast.number(|known| known == version)
        };
        let status = &plan.report.status;
        let current = number(&status.current_version);
        let told = status.member_details.as_ref().map(|details| {
            let mut told = [None; SLOTS];
            for of in details {
                let place = self.cast.slot_named(&of.name).and_then(|index| told.get_mut(usize::from(index)));
                if let Some(place) = place {
                    *place = number(&of.version);
                }
            }
            told
        });
        let waits = plan.waiting.iter().map(|waiting| waiting.reason.as_str()).collect();
        let mut writes = Vec::new();
        for effect in effects {
            if let Some(change) = self.change_of(&effect) {
                writes.push(self.note(change, effect));
            }
        }
        Planned { script: self.script(writes), waits, current, told, broken }
    }

    /// What an effect does here; nothing where it is about an object that is always as it should be.
    fn change_of(&self, effect: &Effect) -> Option<Change> {
        let through = |basis: &planner::Basis| slot_of(basis.through_id);
        let minor = |to: &Option<launch::Minor>| match to {
            Some(minor) => self.cast.number(|known| known.minor() == *minor).map(Some),
            None => Some(None),
        };
        let change = match effect {
            Effect::RelaunchPod { name, basis, annotations, .. } => {
                let order = annotations.get(ORDER_ANNOTATION).and_then(|text| LaunchOrder::read(text).ok());
                let to = order.and_then(|order| self.cast.number(|known| known == order.version));
                let slot = self.cast.slot_named(name);
                slot.zip(to).map(|(slot, to)| Change::Relaunch {
                    slot,
                    to,
                    through: basis.as_ref().and_then(through),
                })
            }
            Effect::ChangeMembership { basis, change: MemberChange::MoveLeader { to } } => {
                slot_of(*to).zip(through(basis)).map(|(to, through)| Change::MoveLeader { to, through })
            }
            Effect::ChangeMembership { basis, change: MemberChange::Downgrade { to } } => {
                minor(to).zip(through(basis)).map(|(to, through)| Change::Downgrade { to, through })
            }
            Effect::CreateBudget(_) | Effect::ApplyBudget { .. } | Effect::PatchPodMetadata { .. } => {
                return None;
            }
            _ => None,
        };
        Some(change.unwrap_or(Change::Unknown))
    }

    /// The operator looks, plans, and writes down what it saw.
    pub(crate) fn observe(&mut self, state: &State) -> Result<State, Broken> {
        let planned = self.plan(state);
        if let Some(law) = planned.broken.filter(|law| self.properties.has(*law)) {
            return Err(Broken::Law(law));
        }
        let mut next = *state;
        next.current = planned.current.unwrap_or(next.current);
        for (slot, told) in next.slots.iter_mut().zip(planned.told.into_iter().flatten()) {
            slot.told = told;
        }
        if !self.writes_of(planned.script).is_empty() {
            next.round = Round::Acting { script: planned.script, doubt: Doubt::default() };
        }
        Ok(next)
    }

    /// Lets a write land.
    pub(crate) fn land(&self, state: &mut State, write: WriteId, doubt: Doubt) -> Result<Landing, Broken> {
        let change = self.change(write);
        if change == Change::Unknown && self.properties.has(Law::UnknownWrite) {
            return Err(Broken::Law(Law::UnknownWrite));
        }
        // Who is asked right before has to serve, and the pod has to be the one that was seen.
        let outdated = matches!(change, Change::Relaunch { slot, .. } if doubt.written & (1 << slot) != 0);
        let deaf = change.through().is_some_and(|through| !state.slot(through).is_well());
        if outdated || deaf {
            return Ok(Landing::Moved);
        }
        if let Some(broken) = self.violated(state, write, doubt) {
            return Err(broken);
        }
        let before = *state;
        let landing = self.apply(state, change);
        let lost = eyes::has_quorum(&self.cast, &before) && !eyes::has_quorum(&self.cast, state);
        // Up to two, nobody can be done without.
        if lost && self.world.members > 2 && !doubt.excuses() && self.properties.has(Law::QuorumTaken) {
            return Err(Broken::Law(Law::QuorumTaken));
        }
        Ok(landing)
    }

    fn apply(&self, state: &mut State, change: Change) -> Landing {
        match change {
            Change::Relaunch { slot: index, to, .. } => {
                let slot = state.slot(index);
                // The kubelet goes by the image alone.
                let then = if to == slot.ordered { slot.stage } else { Stage::Ended };
                let behind = slot.behind && then == Stage::Up;
                let after =
                    Slot { ordered: to, stage: then, behind, relaunched: true, same_container: true, ..slot };
                self.write(state, index, after);
            }
            Change::MoveLeader { to, through } => {
                if state.leader != Some(through) || !state.slot(to).is_well() {
                    return Landing::Moved;
                }
                state.leader = Some(to);
            }
            Change::Downgrade { to: Some(to), .. } => {
                if state.allowed.is_some() || to + 1 != state.agreed {
                    return Landing::Moved;
                }
                (state.allowed, state.agreed) = (Some(to), to);
            }
            Change::Downgrade { to: None, .. } => {
                if state.allowed.take().is_none() {
                    return Landing::Moved;
                }
            }
            Change::Unknown => {}
        }
        Landing::Done
    }

    /// A member's pod is another one now: whatever was decided on it before is refused, and a leader that is gone leads no more.
    pub(crate) fn write(&self, state: &mut State, index: u8, slot: Slot) {
        state.set(index, slot);
        state.doubt(Some(index), false);
        let leads = state.leader.is_some_and(|leader| state.slot(leader).is_up());
        if !leads || !eyes::has_quorum(&self.cast, state) {
            state.leader = None;
        }
    }

    /// What the planner's own invariants say to a write.
    fn violated(&self, state: &State, write: WriteId, doubt: Doubt) -> Option<Broken> {
        let (_, effect) = self.writes.get(usize::from(write.0))?;
        // That somebody dies, or leads, in the moment between the decision and the write is no decision.
        let excused = |violation: Violation| {
            let by_faults =
                [Violation::SecondAtRest, Violation::LeaderRested, Violation::RestedWithoutQuorum];
            doubt.excuses() && by_faults.contains(&violation)
        };
        let violations = safety::check(&self.facts(state), effect);
        let mut asked = violations.into_iter().filter(|violation| !excused(*violation));
        asked.find(|violation| self.properties.invariants.contains(violation)).map(Broken::Invariant)
    }

    fn facts(&self, state: &State) -> Facts {
        let member = |(index, name): (u8, &launch::MemberName)| MemberFact {
            id: member_id(index),
            name: name.to_string(),
            learner: false,
            started: true,
            caught_up: true,
        };
        let slots = || self.cast.members().map(|(index, _)| (index, state.slot(index)));
        let well = slots().filter(|(_, slot)| slot.is_well());
        let rests = slots().filter(|(_, slot)| slot.relaunched && !slot.is_well());
        Facts {
            uid: self.cast.first().uid.clone(),
            birth: Some(self.cast.birth()),
            members: self.cast.members().map(member).collect(),
            running: Running {
                serving: well.map(|(index, slot)| (member_id(index), self.cast.version(slot.ran))).collect(),
                resting: rests.map(|(index, _)| member_id(index)).collect::<BTreeSet<_>>(),
                leader: state.leader.map(member_id),
                agreed: Some(self.cast.minor(state.agreed)),
            },
            ..Facts::default()
        }
    }
}

/// What is wrong with a plan at the moment it is made, when nothing can have happened since it looked.
fn rash(state: &State, plan: &Plan) -> Option<Law> {
    let risks = plan.steps.iter().filter(|step| step.is_risky()).count();
    let ensures = |step: &&Step| !step.is_ensure();
    let rows = [
        (risks > 1, Law::SeveralRisks),
        (state.paused && plan.steps.iter().any(|step| ensures(&step)), Law::ActsWhilePaused),
    ];
    rows.into_iter().find(|(broken, _)| *broken).map(|(_, law)| law)
}
