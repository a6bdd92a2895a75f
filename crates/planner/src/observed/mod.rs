//! What is seen: the facts of one round, each with what it was seen on. "Unknown" is a value.
//!
//! The observer promises: pods and Services are read from the API server, not from a cache, and the read begins after this
//! process has the answers to all its own earlier writes. Why it matters: a pod that was made and does not show counts as lost.

mod pod;

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use api::{Birth, EtcdCluster, EtcdClusterStatus, Phase};
use k8s_openapi::{
    api::{
        core::v1::{Service, ServicePort},
        policy::v1::PodDisruptionBudget,
    },
    apimachinery::pkg::{apis::meta::v1::ObjectMeta, util::intstr::IntOrString},
};
use launch::{ClusterToken, EtcdVersion, MemberName, Minor};

pub use pod::{ContainerState, ETCD, Ended, OrderSeen, PodPhase, Readiness, SeenContainer, SeenPod};

use crate::{
    Timestamp,
    id::{ClusterId, MemberId},
};

/// Everything that was seen in one round.
#[derive(Clone, Debug, PartialEq)]
pub struct Observed {
    /// When.
    pub now: Timestamp,
    /// A token that has never been used, for an attempt that may begin in this round.
    pub token: ClusterToken,
    /// A member's name that has never been used, for a member that may be added in this round.
    pub fresh_name: MemberName,
    /// The resource itself.
    pub resource: SeenResource,
    /// For how long this process has seen the record of birth as it is. A restart begins anew: later, never earlier.
    pub birth_known_for: Duration,
    /// All pods with the cluster's labels, whoever owns them.
    pub pods: Vec<SeenPod>,
    /// Foreign objects, Services apart, with a name that we need.
    pub squatted: Vec<SquattedName>,
    /// The Service that gives members their DNS names.
    pub peer_service: SeenService,
    /// The Service for clients.
    pub client_service: SeenService,
    /// The budget that keeps evictions from taking the quorum.
    pub budget: SeenBudget,
    /// What etcd said, by member: every pod of ours has an entry, also one that does not run and so could not be asked.
    ///
    /// They were asked after the pods had been read. So a pod whose member is in no list that was read through a quorum is
    /// the pod of a member that was removed: members are added before their pods are made.
    pub members: BTreeMap<MemberName, SeenMember>,
    /// For how long each listed member that is not a voter yet, has never started, or answers without reaching the quorum that others
    /// read through, has come no further: its entry is the same, and so is what it has applied. A restart of the observer begins anew: later, never earlier.
    pub stalled: BTreeMap<MemberId, Duration>,
    /// The names that this process has sent an addition for, and no creation of a pod. Only names that it made up itself, so
    /// nobody else can have made a pod under them. What a restart forgets is removed from etcd and tried anew.
    pub unmade: BTreeSet<MemberName>,
    /// The names for which a pod was asked for a moment ago, without an answer: it may appear yet.
    pub awaited: BTreeSet<MemberName>,
    /// What the API server refused for good, by object: the last word on that object, and only as long as it is the last. A
    /// write that succeeded since, or whose outcome is unknown, takes the entry away.
    pub refusals: Vec<RefusedObject>,
}

/// The resource, as it was read.
#[derive(Clone, Debug, PartialEq)]
pub struct SeenResource {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its UID.
    pub uid: String,
    /// Its version in the API server.
    pub resource_version: String,
    /// Its generation.
    pub generation: i64,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// Its status.
    pub status: EtcdClusterStatus,
}

impl SeenResource {
    /// The facts of a resource.
    #[must_use]
    pub fn from_resource(resource: &EtcdCluster) -> Self {
        let metadata = resource.metadata.clone();
        Self {
            namespace: metadata.namespace.unwrap_or_default(),
            name: metadata.name.unwrap_or_default(),
            uid: metadata.uid.unwrap_or_default(),
            resource_version: metadata.resource_version.unwrap_or_default(),
            generation: metadata.generation.unwrap_or_default(),
            deleting: metadata.deletion_timestamp.is_some(),
            status: resource.status.clone().unwrap_or_default(),
        }
    }

    /// The record of birth.
    #[must_use]
    pub fn birth(&self) -> Option<&Birth> {
        self.status.birth.as_ref()
    }

    /// Where the cluster was in its life when the status was written.
    #[must_use]
    pub fn phase(&self) -> Phase {
        self.status.phase()
    }
}

/// A foreign object with a name that we need.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SquattedName {
    /// The object's kind.
    pub kind: &'static str,
    /// Its name.
    pub name: String,
    /// Who owns it, in words.
    pub owner: String,
}

/// A Service with a name that we need.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SeenService {
    /// It could not be read.
    Unknown(String),
    /// There is none.
    Missing,
    /// It is controlled by this very resource.
    Ours {
        /// Its UID.
        uid: String,
        /// Its version in the API server.
        resource_version: String,
        /// Its labels.
        labels: BTreeMap<String, String>,
        /// Its selector.
        selector: BTreeMap<String, String>,
        /// Its ports by name.
        ports: BTreeMap<String, SeenPort>,
        /// Whether it publishes members that are not ready.
        publishes_not_ready: bool,
        /// Whether it is being deleted.
        deleting: bool,
    },
    /// It belongs to somebody else, who is named in words.
    Squatted(String),
}

impl SeenService {
    /// The facts of a Service, seen by the resource with this UID.
    #[must_use]
    pub fn from_service(service: &Service, uid: &str) -> Self {
        let metadata = &service.metadata;
        if let Some(owner) = owner_unless(metadata, uid) {
            return Self::Squatted(owner);
        }
        let spec = service.spec.clone().unwrap_or_default();
        Self::Ours {
            uid: metadata.uid.clone().unwrap_or_default(),
            resource_version: metadata.resource_version.clone().unwrap_or_default(),
            labels: metadata.labels.clone().unwrap_or_default(),
            selector: spec.selector.unwrap_or_default(),
            ports: spec.ports.iter().flatten().map(SeenPort::named).collect(),
            publishes_not_ready: spec.publish_not_ready_addresses.unwrap_or(false),
            deleting: metadata.deletion_timestamp.is_some(),
        }
    }
}

/// A port of a Service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SeenPort {
    /// Where the Service is reached.
    pub number: i32,
    /// Which port of the pods that leads to, where that is a number.
    pub target: Option<i32>,
}

impl SeenPort {
    /// A port with its name. Without a target it leads to the same number.
    pub(crate) fn named(port: &ServicePort) -> (String, Self) {
        let target = match &port.target_port {
            Some(IntOrString::Int(number)) => Some(*number),
            Some(IntOrString::String(_)) => None,
            None => Some(port.port),
        };
        (port.name.clone().unwrap_or_default(), Self { number: port.port, target })
    }
}

/// The budget with the name that we need.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SeenBudget {
    /// It could not be read.
    Unknown(String),
    /// There is none.
    Missing,
    /// It is controlled by this very resource.
    Ours {
        /// Its UID.
        uid: String,
        /// Its version in the API server.
        resource_version: String,
        /// Its labels.
        labels: BTreeMap<String, String>,
        /// How many pods have to stay, where that is a number.
        min_available: Option<i32>,
        /// Whom it selects.
        selector: BTreeMap<String, String>,
        /// Which pods that are not healthy may be evicted.
        unhealthy: Option<String>,
        /// Whether it is being deleted.
        deleting: bool,
    },
    /// It belongs to somebody else, who is named in words.
    Squatted(String),
}

impl SeenBudget {
    /// The facts of a budget, seen by the resource with this UID.
    #[must_use]
    pub fn from_budget(budget: &PodDisruptionBudget, uid: &str) -> Self {
        if let Some(owner) = owner_unless(&budget.metadata, uid) {
            return Self::Squatted(owner);
        }
        let (metadata, spec) = (&budget.metadata, budget.spec.clone().unwrap_or_default());
        Self::Ours {
            uid: metadata.uid.clone().unwrap_or_default(),
            resource_version: metadata.resource_version.clone().unwrap_or_default(),
            labels: metadata.labels.clone().unwrap_or_default(),
            min_available: match spec.min_available {
                Some(IntOrString::Int(number)) => Some(number),
                Some(IntOrString::String(_)) | None => None,
            },
            selector: spec.selector.and_then(|selector| selector.match_labels).unwrap_or_default(),
            unhealthy: spec.unhealthy_pod_eviction_policy,
            deleting: metadata.deletion_timestamp.is_some(),
        }
    }
}

/// Who owns an object, in words; nothing if it is the resource with this UID.
#[must_use]
pub fn owner_unless(metadata: &ObjectMeta, uid: &str) -> Option<String> {
    let owner = metadata.owner_references.iter().flatten().find(|owner| owner.controller == Some(true));
    match owner {
        None => Some("nobody".to_owned()),
        Some(owner) if owner.uid == uid => None,
        Some(owner) => Some(format!("{} {} (UID {})", owner.kind, owner.name, owner.uid)),
    }
}

/// What etcd said through one member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SeenMember {
    /// It answered.
    Known(Answer),
    /// It did not.
    Unknown {
        /// Why not.
        why: String,
        /// For how long now. A restart of the observer begins anew: later, never earlier.
        silent_for: Duration,
        /// For how long others have done without it: not the time in which Kubernetes found it ready, its peers followed it, nobody had a
        /// quorum, or nobody looked.
        gone_for: Duration,
    },
}

impl SeenMember {
    /// The answer, if there is one.
    #[must_use]
    pub fn answer(&self) -> Option<&Answer> {
        match self {
            Self::Known(answer) => Some(answer),
            Self::Unknown { .. } => None,
        }
    }
}

/// A member's answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Who it says it is.
    pub member_id: MemberId,
    /// Which cluster it says it is in.
    pub cluster_id: ClusterId,
    /// Who it says leads.
    pub leader: Option<MemberId>,
    /// Whether it is a learner.
    pub learner: bool,
    /// Its raft term.
    pub term: u64,
    /// How far its log is committed.
    pub raft_index: u64,
    /// How far it has applied the log; before 3.4 it does not tell.
    pub applied: Option<u64>,
    /// The newest revision of its data. An empty store is at [`EMPTY_STORE`], and every write of a client raises it; users, alarms and members do not.
    pub revision: u64,
    /// The version that it runs, if it is one that we know.
    pub version: Option<EtcdVersion>,
    /// The version of the cluster as a whole, as it knows it: the lowest that all members have agreed on. Asked only where members are
    /// to run, or run, another version than the others.
    pub cluster_version: Option<Minor>,
    /// The version in whose form its data lies on disk; before 3.6 it does not tell.
    pub storage_version: Option<Minor>,
    /// The version that the cluster is being brought down to, where somebody has asked etcd for that; before 3.6 it does not tell.
    pub downgrade: Option<Minor>,
    /// Whether a linearizable read through it succeeded in this round.
    pub linearizable: bool,
    /// Its member list, read behind that linearizable read if there was one.
    pub members: Vec<ListedMember>,
    /// How many bytes its database has, where it tells.
    pub db_bytes: Option<u64>,
    /// The alarms that it knows to be raised in its cluster; before 3.4 it does not tell.
    pub alarms: BTreeSet<Alarm>,
}

/// The revision of a store in which nobody ever wrote a key.
pub const EMPTY_STORE: u64 = 1;

impl Answer {
    /// Whether it holds what clients wrote.
    #[must_use]
    pub fn holds_data(&self) -> bool {
        self.revision > EMPTY_STORE
    }
}

/// What etcd itself raises the alarm about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Alarm {
    /// A database has reached its largest size.
    NoSpace,
    /// Members hold different data.
    Corrupt,
}

/// An entry of etcd's member list.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ListedMember {
    /// Its ID.
    pub id: MemberId,
    /// Its name, once it has published one: from then on it counts as started, whether it is alive or not.
    pub name: Option<String>,
    /// Where its peers reach it. It is there from the moment of the addition, so it tells whose addition that was.
    pub peer_urls: Vec<String>,
    /// Whether it is a learner.
    pub learner: bool,
}

impl ListedMember {
    /// Whether this is its one address.
    #[must_use]
    pub fn is_at(&self, url: &launch::PeerUrl) -> bool {
        self.peer_urls.iter().map(String::as_str).eq([url.as_str()])
    }

    /// Whether people call it this: by its pod's name, its own, or its ID.
    #[must_use]
    pub fn is_called(&self, title: &str) -> bool {
        self.is_in(title) || self.name.as_deref() == Some(title) || self.id.to_string() == title
    }

    /// Whether it has an address of the pod of this name.
    #[must_use]
    pub fn is_in(&self, pod: &str) -> bool {
        let start = format!("//{pod}.");
        self.peer_urls.iter().any(|url| url.contains(&start))
    }
}

/// Something that the API server refused to write, for good: it was not done, and did not half happen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusedObject {
    /// The object's kind.
    pub kind: &'static str,
    /// The object's name.
    pub name: String,
    /// What kind of refusal it was.
    pub class: RefusalClass,
    /// The API server's words.
    pub message: String,
    /// When.
    pub at: Timestamp,
}

/// What kind of refusal it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum RefusalClass {
    /// A quota.
    Quota,
    /// A missing permission.
    Permission,
    /// Admission control or validation.
    Rejected,
    /// The name is in use.
    NameTaken,
    /// The namespace is going away.
    NamespaceTerminating,
    /// The CRD in the cluster has not all fields: what was written came back without them.
    CrdOutdated,
    /// etcd's own rules: voters that are not connected for long enough, a learner that is behind.
    Etcd,
    /// Nobody refused it: so many members in a row were to join, and none of them did.
    NotJoined {
        /// How many.
        times: u32,
    },
    /// Nobody refused it: it was done so many times, and somebody undid it each time.
    Undone {
        /// How often.
        times: u32,
    },
}

impl Observed {
    /// The pods that this very resource controls.
    pub fn own_pods(&self) -> impl Iterator<Item = &SeenPod> {
        self.pods.iter().filter(|pod| pod.owner_uid.as_deref() == Some(self.resource.uid.as_str()))
    }

    /// The refusal that still stands for an object.
    #[must_use]
    pub fn refusal(&self, kind: &str, name: &str) -> Option<&RefusedObject> {
        self.refusals.iter().find(|refused| refused.kind == kind && refused.name == name)
    }

    /// What a member said.
    #[must_use]
    pub fn answer(&self, member: &str) -> Option<&Answer> {
        self.members.iter().find(|(name, _)| name.as_str() == member).and_then(|(_, seen)| seen.answer())
    }
}
