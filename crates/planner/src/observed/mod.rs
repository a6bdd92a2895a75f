//! What is seen: the facts of one round, each with what it was seen on. "Unknown" is a value.
//!
//! The observer promises: pods and Services are read from the API server, not from a cache, and the read begins after this
//! process has the answers to all its own earlier writes. Why it matters: a pod that was made and does not show counts as lost.

mod pod;

use std::{collections::BTreeMap, time::Duration};

use api::{Birth, EtcdCluster, EtcdClusterStatus, Phase};
use k8s_openapi::api::core::v1::Service;
use launch::{ClusterToken, MemberName};

pub(crate) use pod::ETCD;
pub use pod::{ContainerState, Ended, OrderSeen, PodPhase, Readiness, SeenContainer, SeenPod};

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
    /// What etcd said, by member. Who is missing here was not asked.
    pub members: BTreeMap<MemberName, SeenMember>,
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
        /// Its selector.
        selector: BTreeMap<String, String>,
        /// Its ports by name.
        ports: BTreeMap<String, i32>,
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
        let owner = metadata.owner_references.iter().flatten().find(|owner| owner.controller == Some(true));
        if owner.is_none_or(|owner| owner.uid != uid) {
            return Self::Squatted(owner.map_or_else(
                || "nobody".to_owned(),
                |owner| format!("{} {} (UID {})", owner.kind, owner.name, owner.uid),
            ));
        }
        let spec = service.spec.clone().unwrap_or_default();
        Self::Ours {
            uid: metadata.uid.clone().unwrap_or_default(),
            resource_version: metadata.resource_version.clone().unwrap_or_default(),
            selector: spec.selector.unwrap_or_default(),
            ports: spec
                .ports
                .into_iter()
                .flatten()
                .map(|port| (port.name.unwrap_or_default(), port.port))
                .collect(),
            publishes_not_ready: spec.publish_not_ready_addresses.unwrap_or(false),
            deleting: metadata.deletion_timestamp.is_some(),
        }
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
    /// How far its log is committed.
    pub raft_index: u64,
    /// Whether a linearizable read through it succeeded in this round.
    pub linearizable: bool,
    /// Its member list, read behind that linearizable read if there was one.
    pub members: Vec<ListedMember>,
}

/// An entry of etcd's member list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedMember {
    /// Its ID.
    pub id: MemberId,
    /// Its name, once it has published one.
    pub name: Option<String>,
    /// Whether it is a learner.
    pub learner: bool,
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
