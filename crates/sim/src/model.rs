//! FOR PROOF: the planner inside the world: what it plans on what an operator sees, and what happens when a write lands.

use std::{collections::HashMap, hash::BuildHasherDefault, rc::Rc};

use api::{ConditionStatus, ConditionType};
use planner::{
    Desired, Effect, Observed, Plan, Problem,
    safety::{self, Facts, MadePod, MemberFact, Violation},
};

use crate::{
    cast::{AttemptId, Cast, CastError, PodId, Who, uid_of},
    eyes::{self, Eyes, Glance, Sight},
    hash::Quick,
    kubelet::Guard,
    laws::{Broken, Law, Properties},
    state::{
        BirthRecord, Mark, Memory, Pod, Presence, Reported, Role, Round, ScriptId, Service, Stage, State,
        WriteId,
    },
    world::{Ingredient, World},
    write::{Book, Change, Object, change_of},
};

/// A planner: the real one, or a broken one.
pub type Planner<'a> = &'a dyn Fn(&Result<Desired, Vec<Problem>>, &Observed) -> Plan;

/// A plan, as the world keeps it.
#[derive(Clone, Debug)]
pub(crate) struct Planned {
    pub(crate) script: ScriptId,
    pub(crate) waits: Vec<&'static str>,
    /// Whether it goes on to change the membership, which is another world's story.
    pub(crate) goes_on: bool,
    pub(crate) broken: Option<Broken>,
}

/// What a view consists of: two states that look the same get the same plan.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct View {
    glance: Glance,
    /// The pods as they are when members are asked, where that is later than the list.
    later: Option<[Pod; crate::cast::PODS]>,
}

/// What the safety predicates look at.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct FactsKey {
    birth: Option<BirthRecord>,
    made: u32,
    served: u32,
    written: u8,
    write: WriteId,
}

/// Everything that does not change from state to state.
pub(crate) struct Model<'a> {
    pub(crate) world: &'a World,
    pub(crate) properties: Properties,
    /// Whether members are told apart.
    pub(crate) distinct: bool,
    pub(crate) book: Book,
    pub(crate) guard: Guard,
    planner: Planner<'a>,
    cast: Cast,
    eyes: Eyes,
    plans: HashMap<View, Rc<Planned>, BuildHasherDefault<Quick>>,
    verdicts: HashMap<FactsKey, Option<Broken>, BuildHasherDefault<Quick>>,
}

/// What became of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Landing {
    Done,
    /// A precondition did not hold, or the object was there already.
    Failed,
    /// The world has no room for it.
    Beyond,
}

impl<'a> Model<'a> {
    pub(crate) fn new(
        world: &'a World,
        planner: Planner<'a>,
        properties: Properties,
    ) -> Result<Self, CastError> {
        let cast = Cast::new(world.attempts)?;
        Ok(Self {
            world,
            properties,
            distinct: world.has(Ingredient::Distinct),
            book: Book::default(),
            guard: Guard::new(cast.wanted.version)?,
            planner,
            eyes: Eyes::new(&cast),
            cast,
            plans: HashMap::default(),
            verdicts: HashMap::default(),
        })
    }

    /// How many different views were planned on.
    pub(crate) fn planned_on(&self) -> usize {
        self.plans.len()
    }

    /// What an operator plans on what it sees.
    pub(crate) fn plan(&mut self, state: &State, who: Who, sight: Sight, memory: Memory) -> Rc<Planned> {
        let glance = Glance { who, sight, memory };
        let later = (sight.list != state.list()).then(|| state.pods());
        let view = View { glance, later };
        if let Some(planned) = self.plans.get(&view) {
            return Rc::clone(planned);
        }
        let observed = self.eyes.look(&self.cast, state, &glance);
        let plan = (self.planner)(&self.cast.desired, &observed);
        let planned = Rc::new(self.keep(state, &glance, &plan));
        self.plans.insert(view, Rc::clone(&planned));
        planned
    }

    fn keep(&mut self, state: &State, glance: &Glance, plan: &Plan) -> Planned {
        let mut writes = Vec::new();
        let effects: Vec<_> = plan.steps.iter().flat_map(|step| step.lower(&self.cast.wanted)).collect();
        let here =
            effects.iter().take_while(|effect| !matches!(effect, Effect::ChangeMembership { .. })).count();
        let goes_on = here < effects.len();
        let mut abandons = None;
        for effect in effects.into_iter().take(here).filter(|effect| !is_beside(effect)) {
            let change = change_of(&self.cast, &effect);
            abandons = abandons.or_else(|| self.abandons_data(state, &glance.sight, &effect, change));
            writes.push(self.book.note(change, Some(effect)));
        }
        let status = &plan.report.status;
        let reported =
            Reported { phase: status.phase(), size: status.size.and_then(|size| u8::try_from(size).ok()) };
        let risks = plan.steps.iter().filter(|step| step.is_risky()).count();
        let available =
            api::condition::find(status.conditions.as_deref().unwrap_or_default(), ConditionType::Available)
                .is_some_and(|condition| condition.status == ConditionStatus::True.as_str());
        let quorum = glance.sight.seen.birth.is_some_and(|birth| state.has_quorum(birth.attempt));
        let rows = [
            (!writes.is_empty() && glance.sight.seen.presence == Presence::Deleting, Law::ActsOnDeleted),
            (available && (!quorum || glance.sight.blind), Law::FalseAvailable),
            (risks > 1, Law::SeveralRisks),
        ];
        let broken = rows.into_iter().find(|(broken, law)| *broken && self.properties.has(*law));
        let broken = broken.map(|(_, law)| Broken::Law(law)).or(abandons);
        if reported != glance.sight.seen.reported {
            writes.push(self.book.note(Change::Report(reported), None));
        }
        let waits = plan.waiting.iter().map(|waiting| waiting.reason.as_str()).collect();
        Planned { script: self.book.script(writes), waits, goes_on, broken }
    }

    /// Whether this gives up what a client wrote, though a member told of it in this very round. That is asked of the plan, not of what lands: a
    /// client may write in between, and nobody can know.
    fn abandons_data(&self, state: &State, sight: &Sight, effect: &Effect, change: Change) -> Option<Broken> {
        let current = sight.seen.birth;
        let told = |attempt: AttemptId| attempt.pods().any(|id| eyes::tells_of_data(state, sight, id));
        let abandons = match change {
            Change::Birth { formed: false, .. } | Change::Beyond => {
                current.is_some_and(|birth| !birth.formed && told(birth.attempt))
            }
            Change::DeletePod(id) => {
                current.is_some_and(|birth| birth.attempt != id.attempt()) && told(id.attempt())
            }
            _ => return None,
        };
        if abandons && self.properties.has(Law::DataAbandoned) {
            return Some(Broken::Law(Law::DataAbandoned));
        }
        let mut facts = self.facts(state);
        facts.birth = current.map(|birth| self.cast.birth(birth.attempt, birth.formed));
        for id in PodId::all().filter(|id| eyes::tells_of_data(state, sight, *id)) {
            if let Some(made) = facts.made.get_mut(&self.cast.name(id)) {
                made.told = true;
            }
        }
        let wanted = Violation::DataAbandoned;
        let found = safety::check(&facts, effect).contains(&wanted);
        (found && self.properties.invariants.contains(&wanted)).then_some(Broken::Invariant(wanted))
    }

    /// Looks and plans: the next round of an operator.
    pub(crate) fn observe(&mut self, state: &State, who: Who, blind: bool) -> Result<State, Broken> {
        let round = state.operator(who).round;
        let sight = Sight { blind, ..self.sight(state, round) };
        if sight.seen.presence == Presence::Gone {
            let mut next = *state;
            next.operator_mut(who).round = Round::Idle;
            return Ok(next);
        }
        let memory = eyes::remember(state.operator(who).memory, state, &sight);
        let planned = self.plan(state, who, sight, memory);
        if let Some(broken) = planned.broken {
            return Err(broken);
        }
        let mut next = *state;
        let operator = next.operator_mut(who);
        operator.memory = memory;
        let writes = self.book.writes_of(planned.script);
        let is_outdated =
            |id: &WriteId| self.book.change(*id).guard().is_some_and(|on| written_since(round, on));
        let outdated =
            writes.iter().enumerate().filter(|(_, id)| is_outdated(id)).fold(0, |set, (n, _)| set | 1 << n);
        operator.round =
            if writes.is_empty() { Round::Idle } else { Round::Acting { script: planned.script, outdated } };
        Ok(next)
    }

    /// What an operator sees that is here in its round.
    pub(crate) fn sight(&self, state: &State, round: Round) -> Sight {
        let now = Sight::now(state);
        match round {
            Round::Read { seen, .. } => Sight { seen, ..now },
            Round::Listed { list, .. } => Sight { list: self.book.list_of(list).unwrap_or(now.list), ..now },
            Round::Idle | Round::Acting { .. } => now,
        }
    }

    /// What the leading operator says when it looks at this state.
    pub(crate) fn words(&mut self, state: &State) -> Vec<&'static str> {
        let sight = Sight::now(state);
        let memory = eyes::remember(state.operator(state.leader).memory, state, &sight);
        self.plan(state, state.leader, sight, memory).waits.clone()
    }

    /// Lets a write land.
    pub(crate) fn land(
        &mut self,
        state: &mut State,
        write: WriteId,
        outdated: bool,
    ) -> Result<Landing, Broken> {
        let change = self.book.change(write);
        if outdated || !admitted(state, change) {
            return Ok(Landing::Failed);
        }
        if change == Change::Beyond {
            return Ok(Landing::Beyond);
        }
        if let Some(broken) = self.forbidden(state, write, change) {
            return Err(broken);
        }
        apply(state, change);
        if let Some(object) = written(change) {
            self.touch(state, object);
        }
        Ok(Landing::Done)
    }

    /// Marks everything that was decided on an older version of this object.
    pub(crate) fn touch(&self, state: &mut State, object: Object) {
        let guarded = |id: WriteId| self.book.change(id).guard() == Some(object);
        for who in Who::ALL {
            let operator = state.operator_mut(who);
            match &mut operator.round {
                Round::Acting { script, outdated } => {
                    for (n, id) in self.book.writes_of(*script).iter().enumerate() {
                        *outdated |= u16::from(guarded(*id)) << n;
                    }
                }
                Round::Read { outdated, .. } => *outdated |= object == Object::Resource,
                Round::Listed { pods, services: [peer, client], .. } => match object {
                    Object::Pod(id) => *pods |= id.bit(),
                    Object::Service(Role::Peer) => *peer = true,
                    Object::Service(Role::Client) => *client = true,
                    Object::Resource => {}
                },
                Round::Idle => {}
            }
            if let Some(flying) = &mut operator.flying {
                flying.outdated |= guarded(flying.write);
            }
        }
    }

    /// What this write would break.
    fn forbidden(&mut self, state: &State, write: WriteId, change: Change) -> Option<Broken> {
        let formed = state.resource.birth.filter(|birth| birth.formed).map(|birth| birth.attempt);
        let law = match change {
            Change::Unknown => Some(Law::UnknownWrite),
            Change::CreatePod(pod) if state.pod(pod).stage != Stage::Unmade => Some(Law::NewTwice),
            Change::DeletePod(pod)
                if state.resource.birth.is_some_and(|birth| birth.attempt == pod.attempt()) =>
            {
                Some(Law::LivePodDeleted)
            }
            Change::Birth { attempt, .. } if formed.is_some_and(|formed| formed != attempt) => {
                Some(Law::SecondCluster)
            }
            _ => None,
        };
        if let Some(law) = law.filter(|law| self.properties.has(*law)) {
            return Some(Broken::Law(law));
        }
        let set = |holds: &dyn Fn(PodId) -> bool| {
            PodId::all().filter(|id| holds(*id)).fold(0, |set, id| set | id.bit())
        };
        let key = FactsKey {
            birth: state.resource.birth,
            made: set(&|id| state.pod(id).stage != Stage::Unmade),
            served: set(&|id| state.pod(id).has(Mark::Served)),
            written: state.written,
            write,
        };
        if let Some(verdict) = self.verdicts.get(&key) {
            return *verdict;
        }
        let facts = self.facts(state);
        let effect = self.book.write(write).and_then(|write| write.effect.as_ref());
        let violations = effect.map(|effect| safety::check(&facts, effect)).unwrap_or_default();
        let verdict = violations
            .into_iter()
            .find(|violation| self.properties.invariants.contains(violation))
            .map(Broken::Invariant);
        self.verdicts.insert(key, verdict);
        verdict
    }

    fn facts(&self, state: &State) -> Facts {
        let made = PodId::all().filter(|id| state.pod(*id).stage != Stage::Unmade).map(|id| {
            let name = self.cast.name(id);
            let pod = state.pod(id);
            let made = MadePod {
                uid: uid_of(&name),
                attempt: self.cast.attempt(id.attempt()).map(planner::Attempt::label).unwrap_or_default(),
                joins: false,
                initial: id.attempt().pods().map(|id| self.cast.name(id)).collect(),
                started: pod.has(Mark::Started),
                served: pod.has(Mark::Served).then(|| id.attempt().cluster_id()),
                written: state.written & id.attempt().bit() != 0,
                // What was told is asked where something is decided on it.
                told: false,
            };
            (name, made)
        });
        Facts {
            uid: self.cast.wanted.uid.clone(),
            birth: state.resource.birth.map(|birth| self.cast.birth(birth.attempt, birth.formed)),
            made: made.collect(),
            // Once it has formed, everybody with whom it began is a member for ever in this world.
            members: state.resource.birth.filter(|birth| birth.formed).map_or_else(Vec::new, |birth| {
                birth.attempt.pods().map(|id| self.member(state, id)).collect()
            }),
            ..Facts::default()
        }
    }

    fn member(&self, state: &State, id: PodId) -> MemberFact {
        let served = state.pod(id).has(Mark::Served);
        let name = self.cast.name(id);
        MemberFact { id: id.member_id(), name, learner: false, started: served, caught_up: served }
    }
}

/// Whether an effect is about an object that is always as it should be in this world.
fn is_beside(effect: &Effect) -> bool {
    matches!(effect, Effect::CreateBudget(_) | Effect::ApplyBudget { .. } | Effect::PatchPodMetadata { .. })
}

/// Whether an object was written since it was read in this round.
fn written_since(round: Round, object: Object) -> bool {
    match (round, object) {
        (Round::Read { outdated, .. }, Object::Resource) => outdated,
        (Round::Listed { pods, .. }, Object::Pod(id)) => pods & id.bit() != 0,
        (Round::Listed { services: [peer, _], .. }, Object::Service(Role::Peer)) => peer,
        (Round::Listed { services: [_, client], .. }, Object::Service(Role::Client)) => client,
        _ => false,
    }
}

/// Whether the API server lets a write through, versions apart.
fn admitted(state: &State, change: Change) -> bool {
    match change {
        Change::Birth { .. } | Change::Beyond | Change::Report(_) => {
            state.resource.presence != Presence::Gone
        }
        Change::CreatePod(pod) => !state.pod(pod).exists(),
        Change::DeletePod(pod) | Change::Order { pod, .. } => state.pod(pod).exists(),
        Change::CreateService { role, .. } => state.service(role) == Service::Missing,
        Change::ApplyService { role, .. } => state.service(role) != Service::Missing,
        Change::Unknown => true,
    }
}

/// The object that a write changes.
fn written(change: Change) -> Option<Object> {
    match change {
        Change::Birth { .. } | Change::Report(_) => Some(Object::Resource),
        Change::CreatePod(pod) | Change::DeletePod(pod) | Change::Order { pod, .. } => Some(Object::Pod(pod)),
        Change::CreateService { role, .. } | Change::ApplyService { role, .. } => Some(Object::Service(role)),
        Change::Beyond | Change::Unknown => None,
    }
}

fn apply(state: &mut State, change: Change) {
    match change {
        Change::Birth { attempt, formed, .. } => {
            state.resource.birth = Some(BirthRecord { attempt, formed });
            state.latched |= attempt.bit();
        }
        Change::Report(reported) => state.resource.reported = reported,
        // Where a name is used a second time, what its first bearer did is remembered.
        Change::CreatePod(id) => state.set_pod(id, Pod { stage: Stage::Pending, ..state.pod(id).gone() }),
        Change::DeletePod(id) => state.set_pod(id, state.pod(id).with(Mark::Deleting)),
        Change::Order { pod: id, may_start_empty, .. } => {
            let pod = state.pod(id);
            let ordered =
                if may_start_empty { pod.without(Mark::Withdrawn) } else { pod.with(Mark::Withdrawn) };
            state.set_pod(id, ordered);
        }
        Change::CreateService { role, selects } | Change::ApplyService { role, selects, .. } => {
            state.set_service(role, Service::Selects(selects));
        }
        Change::Beyond | Change::Unknown => {}
    }
}
