//! FOR PROOF: what an operator sees of a formed cluster, in the planner's own types.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use api::EtcdClusterStatus;
use launch::{Intent, MemberName, Refusal};
use planner::{
    Answer, ContainerState, Desired, Ended, ListedMember, Observed, OrderSeen, PodPhase, Readiness,
    RefusalClass, RefusedObject, SeenBudget, SeenContainer, SeenList, SeenMember, SeenPod, SeenResource,
    SeenService, Timestamp, manifest,
};

use super::{
    cast::{Cast, cluster_id, member_id},
    state::{Listed, Mark, Memory, Refused, Slot, SlotId, Slots, State},
};
use crate::{
    cast::{Who, uid_of},
    state::Stage,
    write::SEEN,
};

/// Longer than any patience that a planner has.
const LONG: Duration = Duration::from_hours(24);

/// How far the log is: further ahead of its beginning than anybody could call caught up.
const FAR: u64 = 1_000_000;

/// How a view came about. Members are asked last, and only those that the list shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Glance {
    pub(crate) who: Who,
    pub(crate) memory: Memory,
    /// The pods as they were listed.
    pub(crate) listed: Slots,
    /// The name for a member that may be added.
    pub(crate) fresh: Option<SlotId>,
}

impl Glance {
    fn pod(&self, id: SlotId) -> Slot {
        self.listed.get(id.index()).copied().unwrap_or_default()
    }
}

/// The objects that views are made of, made once.
pub(crate) struct Eyes {
    now: Timestamp,
    first: Vec<(SlotId, SeenPod)>,
    services: [SeenService; 2],
    budgets: Vec<SeenBudget>,
}

impl Eyes {
    pub(crate) fn new(cast: &Cast) -> Self {
        let now = Timestamp::UNIX_EPOCH.checked_add(LONG * 30).unwrap_or(Timestamp::UNIX_EPOCH);
        let first = SlotId::named().filter_map(|id| Some((id, first_look(cast, id)?))).collect();
        let seen = |mut service: k8s_openapi::api::core::v1::Service| {
            service.metadata.uid = Some("uid-of-service".to_owned());
            service.metadata.resource_version = Some(SEEN.to_owned());
            SeenService::from_service(&service, &cast.first().uid)
        };
        let services = [
            seen(manifest::peer_service(cast.first(), &cast.attempt)),
            seen(manifest::client_service(cast.first(), Some(&cast.attempt))),
        ];
        let budget = |voters| {
            let budget = manifest::budget(cast.first(), &cast.attempt, voters);
            SeenBudget::from_budget(&budget, &cast.first().uid)
        };
        Self { now, first, services, budgets: (0..=super::state::SLOTS).map(budget).collect() }
    }

    /// Everything that is seen.
    pub(crate) fn look(&self, cast: &Cast, state: &State, glance: &Glance, desired: &Desired) -> Observed {
        let memory = &glance.memory;
        let [peer_service, client_service] = self.services.clone();
        let names = |set: u16| SlotId::named().filter(move |id| set & id.bit() != 0);
        Observed {
            now: self.now,
            token: cast.attempt.token.clone(),
            fresh_name: glance.fresh.and_then(|id| cast.member(id).cloned()).unwrap_or_else(|| cast.beyond()),
            resource: resource(cast, state, desired),
            birth_known_for: LONG,
            pods: SlotId::named()
                .filter(|id| glance.pod(*id).pod_exists())
                .filter_map(|id| self.pod(cast, state, glance, id))
                .collect(),
            squatted: Vec::new(),
            peer_service,
            client_service,
            budget: self.budgets.get(state.voters()).cloned().unwrap_or(SeenBudget::Missing),
            members: members(cast, state, glance),
            stalled: SlotId::all()
                .filter(|id| is_unfinished(state.slot(*id)))
                .map(|id| (member_id(id), if memory.stalled & id.bit() != 0 { LONG } else { Duration::ZERO }))
                .collect(),
            unmade: names(memory.unmade).filter_map(|id| cast.member(id).cloned()).collect::<BTreeSet<_>>(),
            // No write is under way while somebody looks, except for those of an operator that is none any more.
            awaited: BTreeSet::new(),
            refusals: self.refusals(cast, *memory),
        }
    }

    /// etcd's last refusal, and the API server's for the pods that were never made.
    fn refusals(&self, cast: &Cast, memory: Memory) -> Vec<RefusedObject> {
        let at = |refused| match refused {
            Refused::No => None,
            Refused::JustNow => Some(self.now),
            Refused::LongAgo => Some(Timestamp::UNIX_EPOCH),
        };
        let by_etcd = at(memory.refused).map(|at| {
            let message = "unhealthy cluster".to_owned();
            RefusedObject { kind: "Members", name: String::new(), class: RefusalClass::Etcd, message, at }
        });
        let unmade = SlotId::named().filter(|id| memory.unmade & id.bit() != 0);
        let by_quota = unmade.filter_map(|id| {
            let (at, message) = (at(memory.no_room)?, "exceeded quota".to_owned());
            Some(RefusedObject { kind: "Pod", name: cast.name(id), class: RefusalClass::Quota, message, at })
        });
        by_etcd.into_iter().chain(by_quota).collect()
    }

    fn pod(&self, cast: &Cast, state: &State, glance: &Glance, id: SlotId) -> Option<SeenPod> {
        let slot = glance.pod(id);
        let (_, first) = self.first.iter().find(|(other, _)| *other == id)?;
        let mut seen = first.clone();
        if let (OrderSeen::Order(order), true) = (&mut seen.order, slot.has(Mark::Withdrawn)) {
            order.intent = Intent::Restart;
        }
        if let (OrderSeen::Order(order), Stage::Down) = (&mut seen.order, slot.stage) {
            // Once it has data, what it was told does not matter, and the world has forgotten it.
            let told = if slot.told == 0 { state.set_of(Slot::is_listed) } else { slot.told };
            cast.tell(order, told);
        }
        seen.created = Timestamp::UNIX_EPOCH.checked_add(Duration::from_secs(u64::from(id.0))).ok();
        seen.deleting = slot.has(Mark::Deleting);
        seen.phase = match slot.stage {
            Stage::Failed => PodPhase::Failed,
            Stage::Up | Stage::Down | Stage::Refused => PodPhase::Running,
            Stage::Unmade | Stage::Pending | Stage::Gone => PodPhase::Pending,
        };
        seen.ended = (slot.stage == Stage::Failed).then(|| "Evicted".to_owned());
        seen.ready = match slot {
            _ if slot.has(Mark::NodeLost) => Readiness::NotReady,
            _ if serves(state, slot) => Readiness::Ready,
            _ => Readiness::NotReady,
        };
        if slot.has(Mark::Ran) {
            seen.node = Some("node".to_owned());
            seen.ip = Some("10.0.0.1".to_owned());
            seen.containers = vec![container(cast, id, slot)];
        }
        Some(seen)
    }
}

/// What the members say: every pod that was listed has an entry.
fn members(cast: &Cast, state: &State, glance: &Glance) -> BTreeMap<MemberName, SeenMember> {
    let quorum = state.has_quorum();
    let list: Vec<ListedMember> = SlotId::all()
        .filter(|id| state.slot(*id).is_listed())
        .map(|id| {
            let slot = state.slot(id);
            let name = slot.has(Mark::Published).then(|| cast.name(id));
            ListedMember {
                id: member_id(id),
                name,
                peer_urls: vec![cast.url(id)],
                learner: slot.listed == Listed::Learner,
            }
        })
        .collect();
    let answer = |id: SlotId| {
        let slot = state.slot(id);
        let has_all = slot.has(Mark::Current) || slot.is_voter() && !quorum;
        let index = if has_all { FAR } else { 1 };
        Answer {
            member_id: member_id(id),
            cluster_id: cluster_id(),
            leader: state.leader.map(member_id),
            learner: slot.listed == Listed::Learner,
            term: 2,
            raft_index: index,
            applied: cast.learners.then_some(index),
            revision: index,
            version: Some(cast.first().version),
            cluster_version: None,
            storage_version: None,
            downgrade: None,
            linearizable: serves(state, slot),
            db_bytes: None,
            alarms: BTreeSet::new(),
            members: list.clone(),
        }
    };
    let told = SlotId::named().filter(|id| glance.pod(*id).pod_exists()).filter_map(|id| {
        let asked = glance.pod(id).has(Mark::Ran) && glance.pod(id).stage != Stage::Failed;
        let seen = if asked && state.slot(id).is_up() {
            SeenMember::Known(answer(id))
        } else {
            let silent_for = if glance.memory.silent & id.bit() != 0 { LONG } else { Duration::ZERO };
            SeenMember::Unknown { why: "no answer".to_owned(), silent_for, gone_for: silent_for }
        };
        Some((cast.member(id)?.clone(), seen))
    });
    told.collect()
}
/// A pod as it is when it was just made.
fn first_look(cast: &Cast, id: SlotId) -> Option<SeenPod> {
    let member = cast.member(id)?;
    let desired = cast.first();
    let pod = if id.is_founder() {
        manifest::pod(desired, &cast.attempt, member)
    } else {
        let list = SeenList { cluster_id: cluster_id(), members: Vec::new() };
        manifest::joining_pod(desired, &cast.attempt, member, desired.version, &list)
    };
    let mut pod = pod.ok()?;
    pod.metadata.uid = Some(uid_of(&cast.name(id)));
    pod.metadata.resource_version = Some(SEEN.to_owned());
    Some(SeenPod::from_pod(&pod))
}

/// Whether a linearizable read through this member succeeds: it has then all that was agreed on before. Learners answer none.
pub(crate) fn serves(state: &State, slot: Slot) -> bool {
    slot.is_up() && slot.is_voter() && slot.has(Mark::Current) && state.has_quorum()
}

/// Whether a member is on its way in.
fn is_unfinished(slot: Slot) -> bool {
    slot.is_listed() && (slot.listed == Listed::Learner || !slot.has(Mark::Published))
}

fn container(cast: &Cast, id: SlotId, slot: Slot) -> SeenContainer {
    let killed = Ended { exit_code: 137, reason: "Error".to_owned(), message: String::new() };
    let message = Refusal::DataLost { member: cast.name(id) }.to_termination_message();
    let refused = Ended { exit_code: 78, reason: "Error".to_owned(), message };
    let back_off =
        || ContainerState::Waiting { reason: "CrashLoopBackOff".to_owned(), message: String::new() };
    let (state, last_end) = match slot.stage {
        Stage::Refused => (back_off(), Some(refused)),
        Stage::Down => (back_off(), Some(killed)),
        Stage::Failed => (ContainerState::Terminated(killed), None),
        _ => (ContainerState::Running, None),
    };
    let restarts = if matches!(slot.stage, Stage::Refused | Stage::Down) { 2 } else { 0 };
    SeenContainer {
        name: "etcd".to_owned(),
        id: None,
        image: cast.first().image(),
        state,
        last_end,
        restarts,
    }
}

fn resource(cast: &Cast, state: &State, desired: &Desired) -> SeenResource {
    SeenResource {
        namespace: desired.namespace.clone(),
        name: desired.name.clone(),
        uid: desired.uid.clone(),
        resource_version: SEEN.to_owned(),
        generation: desired.generation,
        deleting: false,
        status: EtcdClusterStatus {
            birth: Some(cast.birth()),
            phase: Some(api::Phase::Running.as_str().to_owned()),
            size: Some(i64::from(state.reported)),
            ..Default::default()
        },
    }
}

/// What an operator remembers after it has looked. What was not so for long is seen again as it is now, so it is not kept.
pub(crate) fn remember(before: Memory, state: &State, listed: &Slots) -> Memory {
    let now = aged(before, state, listed);
    Memory { silent: before.silent & now.silent, stalled: before.stalled & now.stalled, ..before }
}

/// What it remembers after a while: a refusal is worth another try sooner than a member is given up.
pub(crate) const fn shortly(memory: Memory) -> Memory {
    Memory { refused: memory.refused.aged(), no_room: memory.no_room.aged(), ..memory }
}

/// What it remembers when things have been as they are for a long time.
pub(crate) fn aged(before: Memory, state: &State, listed: &Slots) -> Memory {
    let pod = |id: SlotId| listed.get(id.index()).copied().unwrap_or_default();
    let silent = SlotId::named().filter(|id| pod(*id).pod_exists() && !state.slot(*id).is_up());
    Memory {
        silent: silent.fold(0, |set, id| set | id.bit()),
        stalled: state.set_of(is_unfinished),
        unmade: before.unmade,
        refused: before.refused.aged(),
        no_room: before.no_room.aged(),
    }
}
