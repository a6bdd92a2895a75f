//! FOR PROOF: what an operator sees when it looks at the world, in the planner's own types.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    time::Duration,
};

use api::EtcdClusterStatus;
use launch::{Intent, Refusal};
use planner::{
    Answer, ContainerState, EMPTY_STORE, Ended, ListedMember, Observed, OrderSeen, PodPhase, Readiness,
    RefusalClass, RefusedObject, SeenBudget, SeenContainer, SeenMember, SeenPod, SeenResource, SeenService,
    Timestamp, manifest,
};

use crate::{
    cast::{AttemptId, Cast, PodId, SIZE, Who, uid_of},
    state::{List, Mark, Memory, Pod, Presence, Resource, Role, Service, Stage, State},
    write::SEEN,
};

/// Longer than any patience that a planner has.
const LONG: Duration = Duration::from_hours(24);

/// What is read, and when. Members are always asked last, and only those that the list shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Sight {
    /// The resource as it was read, which may be earlier than the rest.
    pub(crate) seen: Resource,
    /// The pods and Services as they were listed, which may be earlier than the rest.
    pub(crate) list: List,
    /// Whether no member could be asked.
    pub(crate) blind: bool,
}

impl Sight {
    /// Everything as it is now.
    pub(crate) const fn now(state: &State) -> Self {
        Self { seen: state.resource, list: state.list(), blind: false }
    }
}

/// How a view of the world came about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Glance {
    pub(crate) who: Who,
    pub(crate) sight: Sight,
    pub(crate) memory: Memory,
}

/// The objects that views are made of, made once.
pub(crate) struct Eyes {
    now: Timestamp,
    long_ago: Timestamp,
    first: HashMap<PodId, SeenPod>,
    services: HashMap<(Role, Option<AttemptId>), SeenService>,
    /// Always as they should be: nobody evicts anybody in this world.
    budgets: HashMap<AttemptId, SeenBudget>,
}

impl Eyes {
    pub(crate) fn new(cast: &Cast) -> Self {
        let now = Timestamp::UNIX_EPOCH.checked_add(LONG * 3).unwrap_or(Timestamp::UNIX_EPOCH);
        let mut eyes = Self {
            now,
            long_ago: Timestamp::UNIX_EPOCH,
            first: HashMap::new(),
            services: HashMap::new(),
            budgets: HashMap::new(),
        };
        for id in AttemptId::all() {
            let budget =
                cast.attempt(id).map(|attempt| manifest::budget(&cast.wanted, attempt, usize::from(SIZE)));
            let seen = budget.map(|budget| SeenBudget::from_budget(&budget, &cast.wanted.uid));
            eyes.budgets.insert(id, seen.unwrap_or(SeenBudget::Missing));
        }
        for id in PodId::all() {
            let pod = cast
                .attempt(id.attempt())
                .zip(cast.member(id))
                .and_then(|(attempt, member)| manifest::pod(&cast.wanted, attempt, member).ok());
            if let Some(mut pod) = pod {
                pod.metadata.uid = Some(uid_of(&cast.name(id)));
                pod.metadata.resource_version = Some(SEEN.to_owned());
                eyes.first.insert(id, SeenPod::from_pod(&pod));
            }
        }
        for selects in AttemptId::all().map(Some).chain([None]) {
            let attempt = selects.and_then(|id| cast.attempt(id));
            let client = manifest::client_service(&cast.wanted, attempt);
            let peer = attempt.map(|attempt| manifest::peer_service(&cast.wanted, attempt));
            for (role, service) in [(Role::Client, Some(client)), (Role::Peer, peer)] {
                let Some(mut service) = service else { continue };
                service.metadata.uid = Some(format!("uid-of-{role:?}"));
                service.metadata.resource_version = Some(SEEN.to_owned());
                let seen = SeenService::from_service(&service, &cast.wanted.uid);
                eyes.services.insert((role, selects), seen);
            }
        }
        eyes
    }

    /// Everything that is seen.
    pub(crate) fn look(&self, cast: &Cast, state: &State, glance: &Glance) -> Observed {
        let memory = &glance.memory;
        let Sight { seen, list, .. } = &glance.sight;
        let attempt = seen.birth.map(|birth| birth.attempt);
        let next = attempt.map_or(1, |attempt| attempt.incarnation() + 1);
        Observed {
            now: self.now,
            token: cast.fresh_token(next, glance.who),
            fresh_name: cast.fresh_name(glance.who),
            resource: resource(cast, *seen),
            birth_known_for: if memory.birth_aged { LONG } else { Duration::ZERO },
            pods: list.existing().filter_map(|id| self.pod(cast, list, id)).collect(),
            squatted: Vec::new(),
            peer_service: self.service(Role::Peer, list.peer),
            client_service: self.service(Role::Client, list.client),
            budget: attempt.and_then(|id| self.budgets.get(&id).cloned()).unwrap_or(SeenBudget::Missing),
            members: attempt.map(|attempt| members(cast, state, glance, attempt)).unwrap_or_default(),
            stalled: BTreeMap::new(),
            unmade: BTreeSet::new(),
            awaited: BTreeSet::new(),
            refusals: PodId::all()
                .filter(|id| memory.refused & id.bit() != 0)
                .map(|id| RefusedObject {
                    kind: "Pod",
                    name: cast.name(id),
                    class: RefusalClass::Quota,
                    message: "exceeded quota".to_owned(),
                    at: if memory.refused_aged { self.long_ago } else { self.now },
                })
                .collect(),
        }
    }

    fn service(&self, role: Role, service: Service) -> SeenService {
        match service {
            Service::Missing => SeenService::Missing,
            Service::Selects(selects) => {
                self.services.get(&(role, selects)).cloned().unwrap_or(SeenService::Missing)
            }
        }
    }

    fn pod(&self, cast: &Cast, list: &List, id: PodId) -> Option<SeenPod> {
        let pod = list.pod(id);
        let mut seen = self.first.get(&id)?.clone();
        if let OrderSeen::Order(order) = &mut seen.order
            && pod.has(Mark::Withdrawn)
        {
            order.intent = Intent::Restart;
        }
        seen.deleting = pod.has(Mark::Deleting);
        seen.phase = match pod.stage {
            Stage::Failed => PodPhase::Failed,
            Stage::Up | Stage::Down | Stage::Refused => PodPhase::Running,
            Stage::Unmade | Stage::Pending | Stage::Gone => PodPhase::Pending,
        };
        seen.ended = (pod.stage == Stage::Failed).then(|| "Evicted".to_owned());
        seen.ready = match pod {
            // Of a lost node Kubernetes says that its pods are not ready; where no kubelet has told of a pod yet, it says nothing.
            _ if pod.has(Mark::NodeLost) && !pod.has(Mark::Ran) => Readiness::Unknown,
            _ if pod.has(Mark::NodeLost) => Readiness::NotReady,
            _ if pod.is_up() && list.has_quorum(id.attempt()) => Readiness::Ready,
            _ => Readiness::NotReady,
        };
        if is_bound(pod) {
            seen.node = Some("node".to_owned());
        }
        if pod.has(Mark::Ran) {
            seen.ip = Some("10.0.0.1".to_owned());
            seen.containers = vec![container(cast, id, pod)];
        }
        Some(seen)
    }
}

fn container(cast: &Cast, id: PodId, pod: Pod) -> SeenContainer {
    let killed = Ended { exit_code: 137, reason: "Error".to_owned(), message: String::new() };
    let refused = Ended {
        exit_code: 78,
        reason: "Error".to_owned(),
        message: Refusal::DataLost { member: cast.name(id) }.to_termination_message(),
    };
    let back_off =
        || ContainerState::Waiting { reason: "CrashLoopBackOff".to_owned(), message: String::new() };
    let (state, last_end) = match pod.stage {
        Stage::Refused => (back_off(), Some(refused)),
        Stage::Down => (back_off(), Some(killed)),
        Stage::Failed => (ContainerState::Terminated(killed), None),
        _ => (ContainerState::Running, (pod.restarts > 0).then_some(killed)),
    };
    SeenContainer {
        name: "etcd".to_owned(),
        id: None,
        image: cast.wanted.image(),
        state,
        last_end,
        restarts: i32::from(pod.restarts),
    }
}

fn resource(cast: &Cast, seen: Resource) -> SeenResource {
    let phase = seen.reported.phase;
    SeenResource {
        namespace: cast.wanted.namespace.clone(),
        name: cast.wanted.name.clone(),
        uid: cast.wanted.uid.clone(),
        resource_version: SEEN.to_owned(),
        generation: cast.wanted.generation,
        deleting: seen.presence == Presence::Deleting,
        status: EtcdClusterStatus {
            birth: seen.birth.map(|birth| cast.birth(birth.attempt, birth.formed)),
            phase: (phase != api::Phase::None).then(|| phase.as_str().to_owned()),
            size: seen.reported.size.map(i64::from),
            ..Default::default()
        },
    }
}

/// What the members of an attempt say.
fn members(
    cast: &Cast,
    state: &State,
    glance: &Glance,
    attempt: AttemptId,
) -> BTreeMap<launch::MemberName, SeenMember> {
    let listed = |id: PodId| ListedMember {
        id: id.member_id(),
        // Those with whom a cluster begins know each other's names from their flags.
        name: Some(cast.name(id)),
        peer_urls: cast.peer_url(id).into_iter().collect(),
        learner: false,
    };
    let quorum = |id: PodId| state.has_quorum(id.attempt());
    let answer = |id: PodId| Answer {
        member_id: id.member_id(),
        cluster_id: id.attempt().cluster_id(),
        leader: id.attempt().pods().find(|one| quorum(id) && state.pod(*one).is_up()).map(PodId::member_id),
        learner: false,
        term: 1,
        raft_index: 9,
        applied: Some(9),
        version: Some(cast.wanted.version),
        cluster_version: None,
        storage_version: None,
        downgrade: None,
        db_bytes: None,
        revision: if state.pod(id).has(Mark::Written) { EMPTY_STORE + 1 } else { EMPTY_STORE },
        linearizable: quorum(id),
        alarms: BTreeSet::new(),
        members: id.attempt().pods().map(listed).collect(),
    };
    // Every pod that is seen has an entry, also one that cannot be asked yet. Of other attempts only those count that hold something.
    let list = &glance.sight.list;
    let others = list.existing().filter(|id| id.attempt() != attempt && list.pod(*id).has(Mark::Written));
    let seen = attempt.pods().filter(|id| list.pod(*id).exists()).chain(others);
    let told = seen.filter_map(|id| {
        let silent_for = if glance.memory.silent_aged && glance.memory.silent & id.bit() != 0 {
            LONG
        } else {
            Duration::ZERO
        };
        let seen = if is_heard(state, &glance.sight, id) {
            SeenMember::Known(answer(id))
        } else {
            SeenMember::Unknown { why: "no answer".to_owned(), silent_for, gone_for: silent_for }
        };
        Some((cast.member(id)?.clone(), seen))
    });
    told.collect()
}

/// Whether a member answers who is asked.
fn is_heard(state: &State, sight: &Sight, id: PodId) -> bool {
    sight.list.pod(id).has(Mark::Ran) && state.pod(id).is_up() && !sight.blind
}

/// Whether a member tells that it holds what a client wrote.
pub(crate) fn tells_of_data(state: &State, sight: &Sight, id: PodId) -> bool {
    is_heard(state, sight, id) && state.pod(id).has(Mark::Written)
}

/// What an operator remembers after it has looked. What was not so for long is seen again as it is now, so it is not kept.
pub(crate) fn remember(before: Memory, state: &State, sight: &Sight) -> Memory {
    let seen = sight.seen;
    let birth_aged = before.birth_aged && before.birth == seen.birth;
    let silent = before.silent & silent(state, sight);
    let current = seen.birth.map_or(0, |birth| set(birth.attempt.pods()));
    let refused = before.refused & current;
    Memory {
        birth: seen.birth.filter(|_| birth_aged),
        birth_aged,
        refused,
        refused_aged: before.refused_aged && refused != 0,
        silent: if before.silent_aged { silent } else { 0 },
        silent_aged: before.silent_aged && silent != 0,
    }
}

/// What it remembers when things have been as they are for a long time.
pub(crate) fn aged(memory: Memory, state: &State) -> Memory {
    let silent = silent(state, &Sight::now(state));
    Memory {
        birth: state.resource.birth,
        birth_aged: state.resource.birth.is_some(),
        refused: memory.refused,
        refused_aged: memory.refused != 0,
        silent,
        silent_aged: silent != 0,
    }
}

/// The members of pods on a node that did not answer. Before a node has taken a pod, how long that takes decides nothing.
fn silent(state: &State, sight: &Sight) -> u32 {
    let is_silent = |id: &PodId| is_bound(sight.list.pod(*id)) && (sight.blind || !state.pod(*id).is_up());
    set(sight.seen.birth.into_iter().flat_map(|birth| birth.attempt.pods()).filter(is_silent))
}

/// Whether a node has taken the pod, as far as that can be seen: its container has run, or the node was lost with it.
fn is_bound(pod: Pod) -> bool {
    pod.exists() && (pod.has(Mark::Ran) || pod.has(Mark::NodeLost))
}

fn set(ids: impl Iterator<Item = PodId>) -> u32 {
    ids.fold(0, |set, id| set | id.bit())
}
