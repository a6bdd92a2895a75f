//! FOR PROOF: the planner inside a formed cluster's life: what it plans on what is seen, and what happens when a write lands.

use std::{collections::HashMap, hash::BuildHasherDefault, rc::Rc};

use api::{ConditionStatus, ConditionType};
use planner::{
    Desired, Leaving, Plan, Step,
    safety::{self, Facts, MadePod, MemberFact},
};

use super::{
    Life,
    cast::{Cast, member_id, slot_of},
    etcd,
    eyes::{self, Eyes, Glance},
    state::{Listed, Mark, Memory, Refused, Round, Slot, SlotId, Slots, State},
    write::{Book, Change, change_of, member_list},
};
use crate::{
    cast::{CastError, Who, uid_of},
    hash::Quick,
    kubelet::Guard,
    laws::{Broken, Law, Properties},
    model::Planner,
    state::{Data, ScriptId, Stage, WriteId},
};

/// A plan, as the world keeps it.
#[derive(Debug)]
pub(crate) struct Planned {
    pub(crate) script: ScriptId,
    pub(crate) waits: Vec<&'static str>,
    pub(crate) reported: Option<u8>,
    pub(crate) broken: Option<Law>,
}

/// What a view consists of: two states that look the same get the same plan.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct View {
    glance: Glance,
    size: u8,
    paused: bool,
    reported: u8,
    leader: Option<SlotId>,
    /// The slots when members are asked, where that is later than the list.
    later: Option<Slots>,
}

/// What became of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Landing {
    Done,
    /// A precondition did not hold, or the object was there already.
    Moved,
    /// etcd refused it.
    Refused,
    /// The world has no room for it.
    Beyond,
}

/// When a write lands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Timing {
    /// Whether nobody waits for it any more.
    pub(crate) late: bool,
    /// Whether a fault has hit anybody since it was planned.
    pub(crate) disturbed: bool,
}

/// Everything that does not change from state to state.
pub(crate) struct Model<'a> {
    pub(crate) world: &'a Life,
    pub(crate) properties: Properties,
    pub(crate) book: Book,
    pub(crate) guard: Guard,
    planner: Planner<'a>,
    cast: Cast,
    eyes: Eyes,
    plans: HashMap<View, Rc<Planned>, BuildHasherDefault<Quick>>,
    /// What the invariants say to a write depends on the slots and on nothing else.
    verdicts: HashMap<(Slots, WriteId), Option<Broken>, BuildHasherDefault<Quick>>,
}

impl<'a> Model<'a> {
    pub(crate) fn new(
        world: &'a Life,
        planner: Planner<'a>,
        properties: Properties,
    ) -> Result<Self, CastError> {
        let cast = Cast::new(if world.seed { "Seed" } else { "Parallel" }, world.learners)?;
        Ok(Self {
            world,
            properties,
            book: Book::default(),
            guard: Guard::new(cast.first().version)?,
            planner,
            eyes: Eyes::new(&cast),
            cast,
            plans: HashMap::default(),
            verdicts: HashMap::default(),
        })
    }

    pub(crate) fn planned_on(&self) -> usize {
        self.plans.len()
    }

    /// The names that somebody means: in a planned write, in one that is under way, or in an operator's memory.
    pub(crate) fn meant(&self, state: &State) -> u16 {
        let of = |id: WriteId| self.book.change(id).named();
        Who::ALL.into_iter().fold(0, |set, who| {
            let operator = state.operator(who);
            let planned = match operator.round {
                Round::Acting { script, .. } => {
                    self.book.writes_of(script).iter().fold(0, |set, id| set | of(*id))
                }
                Round::Listing { list, .. } => {
                    let slots = self.book.list_of(list);
                    let there =
                        |id: &SlotId| slots.get(id.index()).is_some_and(|slot| *slot != Slot::default());
                    SlotId::all().filter(there).fold(0, |set, id| set | id.bit())
                }
                Round::Idle => 0,
            };
            let memory = operator.memory;
            let flying = operator.flying.map_or(0, |flying| of(flying.write));
            set | planned | flying | memory.silent | memory.stalled | memory.unmade
        })
    }

    /// The name that an operator would give a new member. Each makes up its own.
    fn fresh(&self, state: &State, who: Who) -> Option<SlotId> {
        let meant = self.meant(state);
        let mut free = SlotId::named()
            .filter(|id| !id.is_founder() && meant & id.bit() == 0 && state.slot(*id) == Slot::default());
        match who {
            Who::A => free.next(),
            Who::B => free.nth(1),
        }
    }

    /// What an operator plans on this list of pods and what the members say now.
    pub(crate) fn plan(&mut self, state: &State, who: Who, listed: Slots, memory: Memory) -> Rc<Planned> {
        let glance = Glance { who, memory, listed, fresh: self.fresh(state, who) };
        let later = (listed != state.slots).then_some(state.slots);
        let State { size, paused, reported, leader, .. } = *state;
        let view = View { glance, size, paused, reported, leader, later };
        if let Some(planned) = self.plans.get(&view) {
            return Rc::clone(planned);
        }
        let planned = Rc::new(self.think(state, &glance));
        self.plans.insert(view, Rc::clone(&planned));
        planned
    }

    fn think(&mut self, state: &State, glance: &Glance) -> Planned {
        let nothing =
            Planned { script: self.book.script(Vec::new()), waits: Vec::new(), reported: None, broken: None };
        let Some(Ok(desired)) = self.cast.wanted(state.size) else { return nothing };
        let desired = Desired { paused: state.paused, ..desired.clone() };
        let observed = self.eyes.look(&self.cast, state, glance, &desired);
        let plan = (self.planner)(&Ok(desired.clone()), &observed);
        let mut writes = Vec::new();
        for effect in plan.steps.iter().flat_map(|step| step.lower(&desired)) {
            if let Some(change) = change_of(&self.cast, &effect) {
                writes.push(self.book.note(change, effect));
            }
        }
        let broken = rash(state, glance, &plan).filter(|law| self.properties.has(*law));
        Planned {
            script: self.book.script(writes),
            waits: plan.waiting.iter().map(|waiting| waiting.reason.as_str()).collect(),
            reported: plan.report.status.size.and_then(|size| u8::try_from(size).ok()),
            broken,
        }
    }

    /// The pods that an operator sees that is here in its round.
    pub(crate) fn listed(&self, state: &State, round: Round) -> Slots {
        match round {
            Round::Listing { list, .. } => {
                let mut slots = self.book.list_of(list);
                // A member that the others list and that has no pod in the list is asked for by name before anybody believes it.
                for (then, now) in slots.iter_mut().zip(state.slots) {
                    if now.is_listed() && !then.pod_exists() {
                        *then = now;
                    }
                }
                slots
            }
            Round::Idle | Round::Acting { .. } => state.slots,
        }
    }

    /// Asks the members and plans: the next round of an operator. What it reports is written at once.
    pub(crate) fn observe(&mut self, state: &State, who: Who) -> Result<State, Broken> {
        let round = state.operator(who).round;
        let listed = self.listed(state, round);
        let memory = eyes::remember(state.operator(who).memory, state, &listed);
        let planned = self.plan(state, who, listed, memory);
        if let Some(law) = planned.broken {
            return Err(Broken::Law(law));
        }
        let mut next = *state;
        next.reported = planned.reported.unwrap_or(next.reported);
        let touched = match round {
            Round::Listing { touched, .. } => touched,
            Round::Idle | Round::Acting { .. } => 0,
        };
        let writes = self.book.writes_of(planned.script);
        let is_outdated =
            |id: &WriteId| self.book.change(*id).guard().is_some_and(|slot| touched & slot.bit() != 0);
        let outdated =
            writes.iter().enumerate().filter(|(_, id)| is_outdated(id)).fold(0, |set, (n, _)| set | 1 << n);
        let round = if writes.is_empty() {
            Round::Idle
        } else {
            Round::Acting { script: planned.script, outdated, disturbed: false }
        };
        let operator = next.operator_mut(who);
        (operator.memory, operator.round) = (memory, round);
        Ok(next)
    }

    pub(crate) fn words(&mut self, state: &State) -> Vec<&'static str> {
        let memory = eyes::remember(state.operator(state.lead).memory, state, &state.slots);
        self.plan(state, state.lead, state.slots, memory).waits.clone()
    }

    /// Lets a write land.
    pub(crate) fn land(
        &mut self,
        state: &mut State,
        write: WriteId,
        outdated: bool,
        when: Timing,
    ) -> Result<Landing, Broken> {
        let change = self.book.change(write);
        if change == Change::Beyond {
            return Ok(Landing::Beyond);
        }
        if outdated || !admitted(state, change) {
            return Ok(Landing::Moved);
        }
        if let Some(law) = forbidden(state, change).filter(|law| self.properties.has(*law)) {
            return Err(Broken::Law(law));
        }
        // What etcd would refuse is asked about as well, where it is sent as it was decided: its check is no substitute for ours.
        if let Some(broken) = self.violated(state, write).filter(|_| !when.late) {
            return Err(broken);
        }
        let before = *state;
        if change.ground().is_some() {
            if etcd::change(state, change) == etcd::Answer::Refused {
                return Ok(Landing::Refused);
            }
        } else {
            apply(state, change);
        }
        if let Some(broken) = self.violated(&before, write).filter(|_| when.late) {
            return Err(broken);
        }
        // Without learners a second voter cannot come without the first standing still until then.
        let second = matches!(change, Change::Add { learner: false, .. }) && before.voters() == 1;
        let lost = before.has_quorum() && !state.has_quorum() && !second;
        if lost && !when.disturbed && self.properties.has(Law::QuorumTaken) {
            return Err(Broken::Law(Law::QuorumTaken));
        }
        if let Some(id) = change.pod() {
            self.touch(state, id);
        }
        Ok(Landing::Done)
    }

    /// Marks everything that was decided on an older version of this pod.
    pub(crate) fn touch(&self, state: &mut State, id: SlotId) {
        let guarded = |write: WriteId| self.book.change(write).guard() == Some(id);
        for who in Who::ALL {
            let operator = state.operator_mut(who);
            match &mut operator.round {
                Round::Acting { script, outdated, .. } => {
                    for (n, write) in self.book.writes_of(*script).iter().enumerate() {
                        *outdated |= u8::from(guarded(*write)) << n;
                    }
                }
                Round::Listing { touched, .. } => *touched |= id.bit(),
                Round::Idle => {}
            }
            if let Some(flying) = &mut operator.flying {
                flying.outdated |= guarded(flying.write);
            }
        }
    }

    /// What the planner's own invariants say to a write.
    fn violated(&mut self, state: &State, write: WriteId) -> Option<Broken> {
        if self.properties.invariants.is_empty() {
            return None;
        }
        if let Some(verdict) = self.verdicts.get(&(state.slots, write)) {
            return *verdict;
        }
        let effect = self.book.effect(write)?;
        let violations = safety::check(&self.facts(state), effect);
        let verdict = violations.into_iter().find(|v| self.properties.invariants.contains(v));
        let verdict = verdict.map(Broken::Invariant);
        self.verdicts.insert((state.slots, write), verdict);
        verdict
    }

    fn facts(&self, state: &State) -> Facts {
        let slot_fact = |id: SlotId| {
            let (slot, name) = (state.slot(id), self.cast.name(id));
            let initial = if id.is_founder() {
                SlotId::named().filter(|id| id.is_founder()).map(|id| self.cast.name(id)).collect()
            } else {
                [name.clone()].into()
            };
            let made = MadePod {
                uid: uid_of(&name),
                attempt: self.cast.label.clone(),
                initial,
                joins: !id.is_founder(),
                started: slot.has(Mark::Started),
                served: id.is_founder().then(super::cast::cluster_id),
                ..MadePod::default()
            };
            (name, made)
        };
        let member = |id: SlotId| {
            let slot = state.slot(id);
            MemberFact {
                id: member_id(id),
                name: self.cast.name(id),
                learner: slot.listed == Listed::Learner,
                started: slot.has(Mark::Published),
                caught_up: slot.has(Mark::Caught),
            }
        };
        Facts {
            uid: self.cast.first().uid.clone(),
            birth: Some(self.cast.birth()),
            made: SlotId::named()
                .filter(|id| state.slot(*id).stage != Stage::Unmade)
                .map(slot_fact)
                .collect(),
            members: SlotId::all().filter(|id| state.slot(*id).is_listed()).map(member).collect(),
            added: SlotId::named()
                .filter(|id| !id.is_founder() && state.slot(*id) != Slot::default())
                .map(|id| self.cast.name(id))
                .collect(),
            ..Facts::default()
        }
    }
}

/// What is wrong with a plan at the moment it is made, when nothing can have happened since it looked.
fn rash(state: &State, glance: &Glance, plan: &Plan) -> Option<Law> {
    let risks = plan.steps.iter().filter(|step| step.is_risky()).count();
    let conditions = plan.report.status.conditions.as_deref().unwrap_or_default();
    let available = api::condition::find(conditions, ConditionType::Available)
        .is_some_and(|condition| condition.status == ConditionStatus::True.as_str());
    let removed = plan.steps.iter().find_map(|step| match step {
        Step::RemoveMember { id, .. } => slot_of(*id),
        _ => None,
    });
    let promoted = plan.steps.iter().find_map(|step| match step {
        Step::PromoteMember { id, .. } => slot_of(*id),
        _ => None,
    });
    let given_up = plan.steps.iter().find_map(|step| match step {
        Step::RemoveMember { because: Leaving::Surplus | Leaving::Unknown, .. } => None,
        Step::RemoveMember { id, .. } => slot_of(*id),
        _ => None,
    });
    let patient = glance.memory.silent | glance.memory.stalled;
    let returning = |id: SlotId| {
        let comes_back = |slot: Slot| slot.may_return() && !slot.has(Mark::NodeLost);
        comes_back(state.slot(id)) && patient & id.bit() == 0
    };
    // A process that is being ended hands over by itself.
    let stays = |id: SlotId| !state.slot(id).has(Mark::Deleting);
    let others = |leader: SlotId| SlotId::all().any(|id| id != leader && eyes::serves(state, state.slot(id)));
    let rows = [
        (risks > 1, Law::SeveralRisks),
        // What only protects data is done all the same.
        (
            state.paused && plan.steps.iter().any(|step| !matches!(step, Step::WithdrawEmptyStart { .. })),
            Law::ActsWhilePaused,
        ),
        (available && !state.has_quorum(), Law::FalseAvailable),
        (removed.is_some_and(|id| stays(id) && others(id)) && removed == state.leader, Law::LeaderRemoved),
        (promoted.is_some_and(|id| !state.slot(id).is_up()), Law::PromotedDead),
        (given_up.is_some_and(returning), Law::GivenUpTooSoon),
    ];
    rows.into_iter().find(|(broken, _)| *broken).map(|(_, law)| law)
}

/// Whether a change of the membership passes the check right before it is sent.
pub(crate) fn holds(state: &State, change: Change) -> bool {
    change
        .ground()
        .is_none_or(|on| eyes::serves(state, state.slot(on.through)) && member_list(state) == on.list)
}

/// Whether the API server lets a write through, versions apart. etcd is asked later.
fn admitted(state: &State, change: Change) -> bool {
    match change {
        Change::CreatePod { slot, .. } => !state.slot(slot).pod_exists(),
        Change::DeletePod(slot) | Change::Order { slot, .. } => state.slot(slot).pod_exists(),
        _ => true,
    }
}

/// The law that a write breaks by itself.
fn forbidden(state: &State, change: Change) -> Option<Law> {
    match change {
        Change::Unknown => Some(Law::UnknownWrite),
        Change::Birth => Some(Law::SecondCluster),
        Change::CreatePod { new: true, .. } => Some(Law::NewAfterFormed),
        Change::CreatePod { slot, .. } if state.slot(slot).has(Mark::Started) => Some(Law::NewTwice),
        Change::CreatePod { slot, .. } if state.slot(slot).listed == Listed::Never => {
            Some(Law::PodBeforeMember)
        }
        Change::DeletePod(slot) if state.slot(slot).is_listed() => Some(Law::LivePodDeleted),
        Change::Add { slot, .. } if state.slot(slot) != Slot::default() => Some(Law::NameAddedTwice),
        _ => None,
    }
}

fn apply(state: &mut State, change: Change) {
    match change {
        Change::CreatePod { slot: id, told, .. } => {
            state.set(id, Slot { stage: Stage::Pending, told, ..state.slot(id) });
        }
        Change::DeletePod(id) => state.set(id, state.slot(id).with(Mark::Deleting)),
        Change::Order { slot: id, may_start_empty, .. } => {
            let slot = state.slot(id);
            state.set(
                id,
                if may_start_empty { slot.without(Mark::Withdrawn) } else { slot.with(Mark::Withdrawn) },
            );
        }
        _ => {}
    }
}

/// Starts a pod's container: the launcher's judgement, then etcd.
pub(crate) fn start(guard: &Guard, state: &State, id: SlotId) -> Result<Slot, Law> {
    let slot = state.slot(id).with(Mark::Ran);
    if !guard.admits(slot.data, slot.has(Mark::Withdrawn)) {
        return Ok(Slot { stage: Stage::Refused, ..slot });
    }
    let down = Slot { stage: Stage::Down, ..slot };
    // Whose ID was removed, or is not known, ends at once.
    if !slot.is_listed() {
        return Ok(down);
    }
    if slot.data == Data::Log {
        return Ok(Slot { stage: Stage::Up, ..slot });
    }
    if slot.is_voter() && slot.has(Mark::Started) {
        return Err(Law::Amnesia);
    }
    // It asks its peers who belongs to the cluster, and compares that with what it was told.
    let peers = SlotId::all().any(|other| other != id && state.slot(other).is_up());
    if !peers || slot.told != state.set_of(Slot::is_listed) {
        return Ok(down);
    }
    Ok(Slot { stage: Stage::Up, data: Data::Log, told: 0, ..slot }.with(Mark::Started))
}

/// An operator's memory of what became of a write.
pub(crate) fn note(memory: &mut Memory, change: Change, landing: Landing) {
    match (change, landing) {
        (Change::Add { slot, .. }, Landing::Done) => {
            (memory.unmade, memory.no_room) = (memory.unmade | slot.bit(), Refused::No);
        }
        (Change::CreatePod { slot, .. }, Landing::Done | Landing::Moved) => memory.unmade &= !slot.bit(),
        _ => {}
    }
    if memory.unmade == 0 {
        memory.no_room = Refused::No;
    }
    if change.ground().is_some() {
        memory.refused = if landing == Landing::Refused { Refused::JustNow } else { Refused::No };
    }
}
