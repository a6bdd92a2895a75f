//! What to do next, with what it was decided on: whoever carries a step out can see whether the facts have moved.

use api::Birth;
use launch::{LaunchOrder, MemberName, ORDER_ANNOTATION};

use crate::{attempt::Attempt, desired::Desired, effect::Effect, manifest};

/// Which object a step was decided on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeenObject {
    /// Its UID.
    pub uid: String,
    /// Its version in the API server.
    pub resource_version: String,
}

/// Why an attempt begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BirthCause {
    /// There was none before.
    First,
    /// The last one had not formed, and cannot: these members are lost, or were never made.
    Lost(Vec<MemberName>),
    /// The last one had not formed, and the spec has changed since.
    SpecChanged,
}

/// Something to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Have the Service that gives the members of an attempt their DNS names.
    EnsurePeerService {
        /// Whose members it selects.
        attempt: Attempt,
        /// The Service that is there, and not as it should be.
        seen: Option<SeenObject>,
    },
    /// Have the Service for clients. It selects nobody until the cluster has formed.
    EnsureClientService {
        /// Whose members it selects, once the cluster has formed.
        formed: Option<Attempt>,
        /// The Service that is there, and not as it should be.
        seen: Option<SeenObject>,
    },
    /// Take the permission to start without data away from a member that has data.
    WithdrawEmptyStart {
        /// The pod.
        pod: String,
        /// The pod as it was seen.
        seen: SeenObject,
        /// Its order from now on.
        order: LaunchOrder,
    },
    /// Write down that an attempt begins, before any pod of it exists.
    LatchBirth {
        /// The version of the resource that this was decided on.
        resource_version: String,
        /// What stands there now.
        from: Option<Birth>,
        /// What is to stand there.
        birth: Birth,
        /// Why.
        because: BirthCause,
    },
    /// Make pods of an attempt: all of them right after its latch, or those that the API server had refused.
    CreateMembers {
        /// The attempt.
        attempt: Attempt,
        /// Whose pods.
        members: Vec<MemberName>,
    },
    /// Write down that the cluster has formed. From then on nothing is ever started as new.
    LatchFormed {
        /// The version of the resource that this was decided on.
        resource_version: String,
        /// What stands there now.
        from: Birth,
        /// What is to stand there.
        birth: Birth,
    },
    /// Delete a pod of an attempt that was abandoned.
    DeleteAbandonedPod {
        /// The pod.
        pod: String,
        /// The pod as it was seen.
        seen: SeenObject,
        /// The label of its attempt.
        attempt: String,
    },
}

impl Step {
    /// The step's name, for logs and metrics.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::EnsurePeerService { .. } => "EnsurePeerService",
            Self::EnsureClientService { .. } => "EnsureClientService",
            Self::WithdrawEmptyStart { .. } => "WithdrawEmptyStart",
            Self::LatchBirth { .. } => "LatchBirth",
            Self::CreateMembers { .. } => "CreateMembers",
            Self::LatchFormed { .. } => "LatchFormed",
            Self::DeleteAbandonedPod { .. } => "DeleteAbandonedPod",
        }
    }

    /// Whether the world is another one afterwards, so that at most one such step is taken before looking again.
    ///
    /// Making pods is none of its own: it follows from the latch, which is.
    #[must_use]
    pub fn is_risky(&self) -> bool {
        matches!(self, Self::LatchBirth { .. } | Self::LatchFormed { .. } | Self::DeleteAbandonedPod { .. })
    }

    /// What exactly is to be sent, in this order. Creations that follow each other may be sent together. The first effect that
    /// fails ends the step and the round, a refused creation apart: the others of its step are sent all the same.
    #[must_use]
    pub fn lower(&self, desired: &Desired) -> Vec<Effect> {
        match self {
            Self::EnsurePeerService { attempt, seen } => {
                vec![Effect::ensure(manifest::peer_service(desired, attempt), seen.as_ref())]
            }
            Self::EnsureClientService { formed, seen } => {
                vec![Effect::ensure(manifest::client_service(desired, formed.as_ref()), seen.as_ref())]
            }
            Self::WithdrawEmptyStart { pod, seen, order } => vec![Effect::PatchPodAnnotation {
                name: pod.clone(),
                uid: seen.uid.clone(),
                resource_version: seen.resource_version.clone(),
                key: ORDER_ANNOTATION,
                value: order.to_annotation(),
            }],
            Self::LatchBirth { resource_version, birth, .. }
            | Self::LatchFormed { resource_version, birth, .. } => vec![Effect::ReplaceStatusBirth {
                resource_version: resource_version.clone(),
                birth: birth.clone(),
            }],
            // A `Desired` makes an address for every member, or it would not exist: nobody is left out here.
            Self::CreateMembers { attempt, members } => members
                .iter()
                .filter_map(|member| manifest::pod(desired, attempt, member).ok())
                .map(|pod| Effect::CreatePod(Box::new(pod)))
                .collect(),
            Self::DeleteAbandonedPod { pod, seen, .. } => {
                vec![Effect::DeletePod { name: pod.clone(), uid: seen.uid.clone() }]
            }
        }
    }
}
