//! What is sent to the API server: the list that the operator carries out for real and `sim` against its model.

use std::time::Duration;

use api::Birth;
use k8s_openapi::api::core::v1::{Pod, Service};

use crate::step::SeenObject;

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
}

/// How long an effect may be under way. It is sent only if leadership lasts that long.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Deadline {
    /// A small write to one object, which nobody else has an opinion on.
    Short,
    /// A creation: quotas and admission webhooks are asked, each with a patience of its own.
    Creation,
}

impl Deadline {
    /// The time itself.
    #[must_use]
    pub const fn limit(self) -> Duration {
        match self {
            Self::Short => Duration::from_secs(3),
            Self::Creation => Duration::from_secs(5),
        }
    }
}

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
        }
    }

    /// The kind and the name of the object that it writes; the resource itself has no name here.
    #[must_use]
    pub fn object(&self) -> (&'static str, &str) {
        match self {
            Self::ReplaceStatusBirth { .. } => ("EtcdCluster", ""),
            Self::CreatePod(pod) => ("Pod", pod.metadata.name.as_deref().unwrap_or_default()),
            Self::CreateService(service) | Self::ApplyService { service, .. } => {
                ("Service", service.metadata.name.as_deref().unwrap_or_default())
            }
            Self::PatchPodAnnotation { name, .. } | Self::DeletePod { name, .. } => ("Pod", name),
        }
    }

    /// How long it may be under way.
    #[must_use]
    pub fn deadline(&self) -> Deadline {
        match self {
            Self::CreatePod(_) | Self::CreateService(_) => Deadline::Creation,
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
                "a pod of an abandoned attempt appears, without a DNS name and without traffic, and is deleted again; in its own attempt its name is still unused"
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
                "nothing: the UID is that of a pod whose attempt was abandoned, which is never taken back"
            }
        }
    }
}
