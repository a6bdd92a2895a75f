//! What is sent to the API server and to etcd: the list that the operator carries out for real and `sim` against its model.

use std::{collections::BTreeMap, time::Duration};

use api::Birth;
use k8s_openapi::api::{
    core::v1::{Pod, Service},
    policy::v1::PodDisruptionBudget,
};
use launch::{MemberName, Minor, PeerUrl};

use crate::{
    digest,
    id::{ClusterId, MemberId},
    observed::ListedMember,
    step::SeenObject,
};

/// A member list that was read through a quorum.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SeenList {
    /// Of which cluster.
    pub cluster_id: ClusterId,
    /// The members, by ID.
    pub members: Vec<ListedMember>,
}

/// What a change of the membership was decided on. Whoever sends it reads the list again, through a quorum, at the member it is
/// sent through, and sends nothing if that is another list, or another member of that name answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Basis {
    /// The member that it is sent through: its pod's name.
    pub through: MemberName,
    /// The ID by which that member answered.
    pub through_id: MemberId,
    /// The member list.
    pub list: SeenList,
    /// The voters through which a read succeeded, whose pods stay: those that the decision counts on.
    pub healthy: Vec<MemberId>,
}

/// A change of who belongs to the cluster, or of who leads it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MemberChange {
    /// Add a member. Its pod is created by the effect that follows, and only if this one succeeded.
    Add {
        /// Its name, which is not sent: etcd learns it from the member itself.
        member: MemberName,
        /// Where its peers will reach it. It holds the name, and so tells whose addition it was.
        peer_url: PeerUrl,
        /// Whether it joins as a learner.
        learner: bool,
    },
    /// Make a learner a voter.
    Promote {
        /// Which.
        id: MemberId,
    },
    /// Remove a member. Its ID never comes back.
    Remove {
        /// Which.
        id: MemberId,
    },
    /// Make another voter the leader.
    MoveLeader {
        /// Which.
        to: MemberId,
    },
    /// Let the members go down to an older minor, or not to any more.
    Downgrade {
        /// Which; none takes an earlier one back.
        to: Option<Minor>,
    },
}

/// One write.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// Replace the status of the resource, with everything else in it as it was read, so that `birth` is this.
    ///
    /// An update with this resourceVersion, never an apply. The answer must hold the record: a CRD that is older than this
    /// operator drops it without a word, and that has to count as a refusal (`RefusalClass::CrdOutdated`).
    ReplaceStatusBirth {
        /// The version of the resource that this was decided on.
        resource_version: String,
        /// The record.
        birth: Birth,
    },
    /// Create a pod; one that exists is not touched.
    CreatePod(Box<Pod>),
    /// Create a Service; one that exists is not touched.
    CreateService(Box<Service>),
    /// Apply a Service that is ours, by force over other field managers, with this UID and resourceVersion in the object.
    ApplyService {
        /// The Service's UID.
        uid: String,
        /// Its version in the API server.
        resource_version: String,
        /// What it should be.
        service: Box<Service>,
    },
    /// Patch one annotation of a pod, with this UID and resourceVersion in the patch.
    PatchPodAnnotation {
        /// The pod.
        name: String,
        /// Its UID.
        uid: String,
        /// Its version in the API server.
        resource_version: String,
        /// The annotation.
        key: &'static str,
        /// What it should be.
        value: String,
    },
    /// Delete a pod, with this UID as precondition, and with its own grace period.
    DeletePod {
        /// The pod.
        name: String,
        /// Its UID.
        uid: String,
    },
    /// Create a budget; one that exists is not touched.
    CreateBudget(Box<PodDisruptionBudget>),
    /// Apply a budget that is ours, by force over other field managers, with this UID and resourceVersion in the object.
    ApplyBudget {
        /// The budget's UID.
        uid: String,
        /// Its version in the API server.
        resource_version: String,
        /// What it should be.
        budget: Box<PodDisruptionBudget>,
    },
    /// Patch labels and annotations of a pod, with this UID and resourceVersion in the patch.
    PatchPodMetadata {
        /// The pod.
        name: String,
        /// Its UID.
        uid: String,
        /// Its version in the API server.
        resource_version: String,
        /// The labels to set.
        labels: BTreeMap<String, String>,
        /// The annotations to set.
        annotations: BTreeMap<String, String>,
    },
    /// Patch the image of a pod's etcd container and annotations of the pod, in one patch with this UID and resourceVersion. The kubelet
    /// ends the container and starts it anew from the new image, with the new order, on the same volumes.
    RelaunchPod {
        /// The pod.
        name: String,
        /// Its UID.
        uid: String,
        /// Its version in the API server.
        resource_version: String,
        /// What it was decided on, checked right before as for a change of the membership. None for a member that is down.
        basis: Option<Basis>,
        /// The image.
        image: String,
        /// The annotations, the launch order among them.
        annotations: BTreeMap<String, String>,
    },
    /// Change who belongs to the cluster, or who leads it, in etcd. [`Basis`] says what is checked right before.
    ///
    /// etcd has no precondition of its own for any of these, so there is a moment between the check and the change. How late
    /// it can land is bounded by its deadline and by leadership; [`Effect::if_late`] says what that can do.
    ChangeMembership {
        /// What it was decided on.
        basis: Basis,
        /// The change.
        change: MemberChange,
    },
}

impl Basis {
    pub(crate) fn change(&self, change: MemberChange) -> Effect {
        Effect::ChangeMembership { basis: self.clone(), change }
    }
}

/// How long an effect may be under way. It is sent only if leadership lasts that long.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Deadline {
    /// A small write to one object, which nobody else has an opinion on.
    Short,
    /// A creation: quotas and admission webhooks are asked, each with a patience of its own.
    Creation,
    /// A change of the membership: the check right before it, and an agreement among the members, on disks that may be slow.
    Membership,
}

impl Deadline {
    /// The time itself.
    #[must_use]
    pub const fn limit(self) -> Duration {
        match self {
            Self::Short => Duration::from_secs(3),
            Self::Creation | Self::Membership => Duration::from_secs(5),
        }
    }
}

/// A change of a pod's labels or annotations, as something that was refused.
pub const POD_METADATA: &str = "metadata of Pod";
/// A change of a pod's image, as something that was refused.
pub const POD_IMAGE: &str = "image of Pod";
/// The deletion of a pod, as something that was refused.
pub const POD_DELETION: &str = "deletion of Pod";
/// What stands for a kind where etcd's membership is written: it is one thing, and what was refused last counts for all of it.
pub(crate) const MEMBERS: &str = "Members";
/// The joining of members, one after another: what stands against the next one.
pub const JOINS: &str = "joining of Members";

impl Effect {
    /// Create a Service, or bring the one that was seen into shape.
    pub(crate) fn ensure(service: Service, seen: Option<&SeenObject>) -> Self {
        let service = Box::new(service);
        match seen {
            None => Self::CreateService(service),
            Some(SeenObject { uid, resource_version }) => {
                Self::ApplyService { uid: uid.clone(), resource_version: resource_version.clone(), service }
            }
        }
    }

    /// Create a budget, or bring the one that was seen into shape.
    pub(crate) fn ensure_budget(budget: PodDisruptionBudget, seen: Option<&SeenObject>) -> Self {
        let budget = Box::new(budget);
        match seen {
            None => Self::CreateBudget(budget),
            Some(SeenObject { uid, resource_version }) => {
                Self::ApplyBudget { uid: uid.clone(), resource_version: resource_version.clone(), budget }
            }
        }
    }

    /// The effect's name, for logs, metrics and the places where tests break it.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::ReplaceStatusBirth { .. } => "ReplaceStatusBirth",
            Self::CreatePod(_) => "CreatePod",
            Self::CreateService(_) => "CreateService",
            Self::ApplyService { .. } => "ApplyService",
            Self::PatchPodAnnotation { .. } => "PatchPodAnnotation",
            Self::DeletePod { .. } => "DeletePod",
            Self::CreateBudget(_) => "CreateBudget",
            Self::ApplyBudget { .. } => "ApplyBudget",
            Self::PatchPodMetadata { .. } => "PatchPodMetadata",
            Self::RelaunchPod { .. } => "RelaunchPod",
            Self::ChangeMembership { change, .. } => match change {
                MemberChange::Add { .. } => "AddMember",
                MemberChange::Promote { .. } => "PromoteMember",
                MemberChange::Remove { .. } => "RemoveMember",
                MemberChange::MoveLeader { .. } => "MoveLeader",
                MemberChange::Downgrade { to: Some(_) } => "EnableDowngrade",
                MemberChange::Downgrade { to: None } => "CancelDowngrade",
            },
        }
    }

    /// The kind and the name of the object that it writes; the resource itself and its membership have no name here.
    #[must_use]
    pub fn object(&self) -> (&'static str, &str) {
        match self {
            Self::ReplaceStatusBirth { .. } => ("EtcdCluster", ""),
            Self::CreatePod(pod) => ("Pod", pod.metadata.name.as_deref().unwrap_or_default()),
            Self::CreateService(service) | Self::ApplyService { service, .. } => {
                ("Service", service.metadata.name.as_deref().unwrap_or_default())
            }
            Self::PatchPodAnnotation { name, .. }
            | Self::DeletePod { name, .. }
            | Self::RelaunchPod { name, .. }
            | Self::PatchPodMetadata { name, .. } => ("Pod", name),
            Self::CreateBudget(budget) | Self::ApplyBudget { budget, .. } => {
                ("PodDisruptionBudget", budget.metadata.name.as_deref().unwrap_or_default())
            }
            Self::ChangeMembership { .. } => (MEMBERS, ""),
        }
    }

    /// What its refusal is remembered as. That a pod could not be changed says nothing of whether it was ever made.
    #[must_use]
    pub fn refused_as(&self) -> &'static str {
        match self {
            Self::PatchPodAnnotation { .. } | Self::PatchPodMetadata { .. } => POD_METADATA,
            Self::DeletePod { .. } => POD_DELETION,
            Self::RelaunchPod { .. } => POD_IMAGE,
            other => other.object().0,
        }
    }

    /// A short text that stands for what it makes of an object that is to stay so. None where there is nothing that somebody could undo.
    #[must_use]
    pub fn puts_right(&self) -> Option<String> {
        let what = match self {
            Self::CreateService(service) | Self::ApplyService { service, .. } => format!("{service:?}"),
            Self::CreateBudget(budget) | Self::ApplyBudget { budget, .. } => format!("{budget:?}"),
            // Whatever of it: who undoes one label after another is in a dispute, too.
            Self::PatchPodMetadata { name, .. } => name.clone(),
            Self::ReplaceStatusBirth { .. }
            | Self::CreatePod(_)
            | Self::PatchPodAnnotation { .. }
            | Self::DeletePod { .. }
            | Self::RelaunchPod { .. }
            | Self::ChangeMembership { .. } => return None,
        };
        Some(digest::short(&[&what], 16))
    }

    /// How long it may be under way.
    #[must_use]
    pub fn deadline(&self) -> Deadline {
        match self {
            Self::CreatePod(_) | Self::CreateService(_) | Self::CreateBudget(_) => Deadline::Creation,
            Self::ChangeMembership { .. } | Self::RelaunchPod { .. } => Deadline::Membership,
            _ => Deadline::Short,
        }
    }

    /// The worst that happens if it lands after somebody else has taken over.
    #[must_use]
    pub fn if_late(&self) -> &'static str {
        match self {
            Self::ReplaceStatusBirth { .. } => {
                "nothing: the resourceVersion lets it through only if nobody wrote the resource since"
            }
            Self::CreatePod(_) => {
                "a pod of an abandoned attempt, or of a member that was removed since, appears and is deleted again: it can take part in nothing. Otherwise its name is still unused"
            }
            Self::CreateService(_) => {
                "the Service appears with the selector of an abandoned attempt, so members get no DNS names until the next round corrects it"
            }
            Self::ApplyService { .. } => {
                "nothing: the resourceVersion lets it through only if nobody wrote the Service since"
            }
            Self::PatchPodAnnotation { .. } => {
                "nothing: it only takes a permission away, and the resourceVersion keeps it from undoing what somebody wrote since"
            }
            Self::DeletePod { .. } => {
                "nothing: the UID is that of a pod whose attempt was abandoned or whose member was removed, and neither is ever taken back"
            }
            Self::CreateBudget(_) => {
                "the budget appears with a number for an older membership, and the next round corrects it"
            }
            Self::ApplyBudget { .. } => {
                "nothing: the resourceVersion lets it through only if nobody wrote the budget since"
            }
            Self::PatchPodMetadata { .. } => {
                "nothing: what is put back follows from the pod's name, its attempt and the spec that it was made from, and the resourceVersion keeps it from undoing what somebody wrote since"
            }
            Self::RelaunchPod { .. } => {
                "the member starts again on its own data, with an order that was right seconds ago; where somebody else has just relaunched another one, a quorum may be missing until one of the two is back"
            }
            Self::ChangeMembership { change, .. } => change.if_late(),
        }
    }
}

impl MemberChange {
    /// The worst that happens if it lands after somebody else has taken over.
    #[must_use]
    pub fn if_late(&self) -> &'static str {
        match self {
            Self::Add { learner: true, .. } => {
                "a learner is listed that nobody starts: it has no vote, and is removed as one that does not come up; where another one joins, etcd refuses it"
            }
            Self::Add { learner: false, .. } => {
                "a voter is listed that nobody starts: one more failure than before would be too many until it is removed; a cluster of one stands still until its pod is made"
            }
            Self::Promote { .. } => {
                "a learner that was caught up and alive seconds ago has a vote, and if it died in those seconds it is a dead voter: it is replaced as one, and a cluster of one stands still until it returns"
            }
            Self::Remove { .. } => {
                "the member was lost, overdue or surplus seconds ago and is removed all the same; if another was removed or lost in those seconds the cluster may be one smaller than it should, and etcd itself refuses where the connected rest would be no quorum"
            }
            Self::Downgrade { .. } => {
                "etcd allows, or does not allow any more, that members of an older minor start; no member is changed by it"
            }
            Self::MoveLeader { .. } => "another voter leads, or etcd refuses because the leader is another",
        }
    }
}
