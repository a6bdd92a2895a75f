//! FOR PROOF: what an operator sees of a roll, in the planner's own types.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use api::{EtcdClusterStatus, MemberDetails, names::ANNOTATION_RELAUNCHED};
use launch::{Intent, MemberName, Minor};
use planner::{
    Answer, ContainerState, Desired, Ended, ListedMember, Observed, OrderSeen, PodPhase, Readiness,
    SeenBudget, SeenContainer, SeenMember, SeenPod, SeenResource, SeenService, Timestamp, manifest,
};

use super::{
    cast::{Cast, cluster_id, member_id},
    state::{Slot, Stage, State},
};
use crate::{cast::uid_of, write::SEEN};

/// Longer than any patience that a planner has.
const LONG: Duration = Duration::from_hours(24);
/// How far the log is: further ahead of its beginning than anybody could call caught up.
const FAR: u64 = 1_000_000;
/// The ID of the container that is there, and of every one before.
const CONTAINERS: (&str, &str) = ("containerd://now", "containerd://before");

/// The objects that views are made of, made once.
pub(crate) struct Eyes {
    now: Timestamp,
    /// By member, and by the version that it is ordered to run.
    pods: Vec<Vec<SeenPod>>,
    services: [SeenService; 2],
    budget: SeenBudget,
}

impl Eyes {
    pub(crate) fn new(cast: &Cast) -> Self {
        let now = Timestamp::UNIX_EPOCH.checked_add(LONG * 30).unwrap_or(Timestamp::UNIX_EPOCH);
        let first = cast.first();
        let seen = |mut service: k8s_openapi::api::core::v1::Service| {
            service.metadata.uid = Some("uid-of-service".to_owned());
            service.metadata.resource_version = Some(SEEN.to_owned());
            SeenService::from_service(&service, &first.uid)
        };
        let services = [
            seen(manifest::peer_service(first, &cast.attempt)),
            seen(manifest::client_service(first, Some(&cast.attempt))),
        ];
        let budget = manifest::budget(first, &cast.attempt, cast.names.len());
        let wanted =
            || (0..).zip(&cast.versions).filter_map(|(number, _)| cast.wanted(number, false)?.as_ref().ok());
        let of_member = |(index, member): (u8, &MemberName)| {
            wanted().filter_map(|desired| pod(cast, desired, index, member)).collect()
        };
        Self {
            now,
            pods: cast.members().map(of_member).collect(),
            services,
            budget: SeenBudget::from_budget(&budget, &first.uid),
        }
    }

    /// Everything that is seen.
    pub(crate) fn look(&self, cast: &Cast, state: &State, desired: &Desired) -> Observed {
        let [peer_service, client_service] = self.services.clone();
        Observed {
            now: self.now,
            token: cast.attempt.token.clone(),
            fresh_name: cast.fresh.clone(),
            resource: resource(cast, state, desired),
            birth_known_for: LONG,
            pods: cast.members().filter_map(|(index, _)| self.pod(cast, state, index)).collect(),
            squatted: Vec::new(),
            peer_service,
            client_service,
            budget: self.budget.clone(),
            members: members(cast, state),
            stalled: BTreeMap::new(),
            unmade: BTreeSet::new(),
            awaited: BTreeSet::new(),
            refusals: Vec::new(),
        }
    }

    fn pod(&self, cast: &Cast, state: &State, index: u8) -> Option<SeenPod> {
        let slot = state.slot(index);
        let mut pod = self.pods.get(usize::from(index))?.get(usize::from(slot.ordered))?.clone();
        let ready = slot.is_well() && has_quorum(cast, state);
        pod.ready = if ready { Readiness::Ready } else { Readiness::NotReady };
        pod.containers = vec![container(slot)];
        if slot.relaunched {
            let gone = if slot.same_container { CONTAINERS.0 } else { CONTAINERS.1 };
            pod.annotations.insert(ANNOTATION_RELAUNCHED.to_owned(), gone.to_owned());
        }
        Some(pod)
    }
}

/// Whether a quorum runs.
pub(crate) fn has_quorum(cast: &Cast, state: &State) -> bool {
    let up = cast.members().filter(|(index, _)| state.slot(*index).is_up()).count();
    up > cast.names.len() / 2
}

/// A pod that was made for this version, or given it since.
fn pod(cast: &Cast, desired: &Desired, index: u8, member: &MemberName) -> Option<SeenPod> {
    let mut pod = manifest::pod(desired, &cast.attempt, member).ok()?;
    pod.metadata.uid = Some(uid_of(member.as_str()));
    pod.metadata.resource_version = Some(SEEN.to_owned());
    let mut seen = SeenPod::from_pod(&pod);
    if let OrderSeen::Order(order) = &mut seen.order {
        order.intent = Intent::Restart;
    }
    seen.created = Timestamp::UNIX_EPOCH.checked_add(Duration::from_secs(u64::from(index))).ok();
    seen.phase = PodPhase::Running;
    seen.node = Some("node".to_owned());
    seen.ip = Some("10.0.0.1".to_owned());
    Some(seen)
}

fn container(slot: Slot) -> SeenContainer {
    let ended = |exit_code| Ended { exit_code, reason: "Error".to_owned(), message: String::new() };
    let waits = |reason: &str| ContainerState::Waiting { reason: reason.to_owned(), message: String::new() };
    let (state, last_end) = match slot.stage {
        Stage::Up => (ContainerState::Running, None),
        Stage::Killed => (waits("CrashLoopBackOff"), Some(ended(137))),
        Stage::Ended => (ContainerState::Terminated(ended(0)), None),
        Stage::PullFails => (waits("ImagePullBackOff"), Some(ended(0))),
        Stage::Refused => (waits("CrashLoopBackOff"), Some(ended(1))),
    };
    let (name, image) = ("etcd".to_owned(), "etcd".to_owned());
    SeenContainer { name, id: Some(CONTAINERS.0.to_owned()), image, state, last_end, restarts: 2 }
}

/// What the members say.
fn members(cast: &Cast, state: &State) -> BTreeMap<MemberName, SeenMember> {
    let list: Vec<ListedMember> = cast
        .members()
        .zip(&cast.urls)
        .map(|((index, name), url)| ListedMember {
            id: member_id(index),
            name: Some(name.to_string()),
            peer_urls: vec![url.clone()],
            learner: false,
        })
        .collect();
    let answer = |index: u8| {
        let slot = state.slot(index);
        let version = cast.version(slot.ran);
        let tells_more = version.minor() >= Minor::V3_6;
        Answer {
            member_id: member_id(index),
            cluster_id: cluster_id(),
            leader: state.leader.map(member_id),
            learner: false,
            term: 2,
            raft_index: FAR,
            applied: Some(if slot.behind { 1 } else { FAR }),
            version: Some(version),
            // Only who is on the way to another version is asked.
            cluster_version: (slot.ran != state.spec).then(|| cast.minor(state.agreed)),
            storage_version: tells_more.then(|| cast.minor(state.stored)),
            downgrade: state.allowed.filter(|_| tells_more).map(|number| cast.minor(number)),
            linearizable: !slot.behind && state.leader.is_some(),
            db_bytes: None,
            revision: planner::EMPTY_STORE + 1,
            alarms: BTreeSet::new(),
            members: list.clone(),
        }
    };
    let told = cast.members().map(|(index, name)| {
        let slot = state.slot(index);
        // Who was killed comes back; everything else may take as long as it likes.
        let gone_for = if slot.stage == Stage::Killed { Duration::ZERO } else { LONG };
        let seen = if slot.is_up() {
            SeenMember::Known(answer(index))
        } else {
            SeenMember::Unknown { why: "no answer".to_owned(), silent_for: gone_for, gone_for }
        };
        (name.clone(), seen)
    });
    told.collect()
}

fn resource(cast: &Cast, state: &State, desired: &Desired) -> SeenResource {
    let details = |(index, name): (u8, &MemberName)| {
        let version = state.slot(index).told.map(|number| cast.version(number).to_string());
        MemberDetails { name: name.to_string(), version, ..Default::default() }
    };
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
            size: i64::try_from(cast.names.len()).ok(),
            current_version: Some(cast.version(state.current).to_string()),
            member_details: Some(cast.members().map(details).collect()),
            ..Default::default()
        },
    }
}
