//! What to do next, with what it was decided on: whoever carries a step out can see whether the facts have moved.

use std::collections::BTreeMap;

use api::Birth;
use launch::{EtcdVersion, LaunchOrder, MemberName, Minor, ORDER_ANNOTATION};

use crate::{
    attempt::Attempt,
    desired::Desired,
    effect::{Basis, Effect, MemberChange, SeenList},
    id::MemberId,
    manifest,
};

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

/// Why a member leaves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Leaving {
    /// Its data is certainly gone, in these words.
    Lost(String),
    /// It may come back, and was given its time, in these words.
    Overdue(String),
    /// It was to join, and did not come up, in these words.
    NotJoined(String),
    /// It was on its way in, and another one is wanted now.
    Outdated,
    /// Somebody else added it, and nobody ever started it.
    Unknown,
    /// The spec asks for fewer.
    Surplus,
}

impl Leaving {
    /// The same for people.
    pub(crate) fn in_words(&self) -> String {
        match self {
            Self::Lost(why) | Self::Overdue(why) | Self::NotJoined(why) => why.clone(),
            Self::Outdated => "the spec has changed since its pod was made".to_owned(),
            Self::Unknown => "somebody added it, and it never started".to_owned(),
            Self::Surplus => "the spec asks for fewer".to_owned(),
        }
    }
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
    /// Have the budget that keeps evictions from taking the quorum.
    EnsureBudget {
        /// Whose members it selects.
        attempt: Attempt,
        /// How many voters there are.
        voters: usize,
        /// Whether members are restarted one after another, so that all of them have to stay.
        rolling: bool,
        /// The budget that is there, and not as it should be.
        seen: Option<SeenObject>,
    },
    /// Give a pod its labels and annotations back.
    RestoreMetadata {
        /// The pod.
        pod: String,
        /// The pod as it was seen.
        seen: SeenObject,
        /// The labels that are missing or wrong, as they should be.
        labels: BTreeMap<String, String>,
        /// The annotations that are missing or wrong, as they should be.
        annotations: BTreeMap<String, String>,
    },
    /// Add a member to etcd, and right after it make its pod: the only creation under this name.
    AddMember {
        /// What it was decided on.
        basis: Basis,
        /// The attempt that the cluster came from.
        attempt: Attempt,
        /// The new member, under a name that was never used.
        member: MemberName,
        /// Whether it joins as a learner; before 3.4 it cannot.
        learner: bool,
        /// The version that it is to run: that of the others.
        version: EtcdVersion,
    },
    /// Make the pod of a member that is in etcd's list already: the answer to its addition was lost, or its pod was refused.
    CreateJoiningPod {
        /// The member list, the new member in it.
        list: SeenList,
        /// The attempt that the cluster came from.
        attempt: Attempt,
        /// The new member.
        member: MemberName,
        /// The version that it is to run: that of the others.
        version: EtcdVersion,
    },
    /// Make a learner a voter.
    PromoteMember {
        /// What it was decided on.
        basis: Basis,
        /// Its pod's name.
        member: String,
        /// Its ID.
        id: MemberId,
    },
    /// Make another voter the leader, before the leader leaves.
    MoveLeader {
        /// What it was decided on. It is sent through the leader.
        basis: Basis,
        /// The new leader's ID.
        to: MemberId,
    },
    /// Change the image and the order of a member's pod in one write: the kubelet starts its container again, on the same data.
    RelaunchMember {
        /// What it was decided on; none for a member that is down, which nobody does without for it.
        basis: Option<Basis>,
        /// The pod.
        pod: String,
        /// The pod as it was seen.
        seen: SeenObject,
        /// The version that it runs from now on.
        version: EtcdVersion,
        /// The annotations that go with it: its order, its version, its inputs, and the container that is to be gone.
        annotations: BTreeMap<String, String>,
    },
    /// Ask etcd to let its members go down to an older minor, or not to any more. It is sent through the leader.
    ChangeDowngrade {
        /// What it was decided on.
        basis: Basis,
        /// The minor to go down to; none takes an earlier one back.
        to: Option<Minor>,
    },
    /// Remove a member from etcd. Its pod goes when a quorum has confirmed it.
    RemoveMember {
        /// What it was decided on.
        basis: Basis,
        /// Its pod's name, or its ID if it has none.
        member: String,
        /// Its ID.
        id: MemberId,
        /// Why.
        because: Leaving,
    },
    /// Delete the pod of a member that etcd does not list.
    DeleteRemovedPod {
        /// The pod.
        pod: String,
        /// The pod as it was seen.
        seen: SeenObject,
        /// The member list that it is not in, read through a quorum after the pod was seen.
        list: SeenList,
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
            Self::EnsureBudget { .. } => "EnsureBudget",
            Self::RestoreMetadata { .. } => "RestoreMetadata",
            Self::AddMember { .. } => "AddMember",
            Self::CreateJoiningPod { .. } => "CreateJoiningPod",
            Self::PromoteMember { .. } => "PromoteMember",
            Self::MoveLeader { .. } => "MoveLeader",
            Self::RelaunchMember { .. } => "RelaunchMember",
            Self::ChangeDowngrade { .. } => "ChangeDowngrade",
            Self::RemoveMember { .. } => "RemoveMember",
            Self::DeleteRemovedPod { .. } => "DeleteRemovedPod",
        }
    }

    /// Whether it is harmless: an object is brought into shape, and nothing else follows from it.
    #[must_use]
    pub fn is_ensure(&self) -> bool {
        matches!(
            self,
            Self::EnsurePeerService { .. }
                | Self::EnsureClientService { .. }
                | Self::EnsureBudget { .. }
                | Self::RestoreMetadata { .. }
                | Self::WithdrawEmptyStart { .. }
        )
    }

    /// Whether the world is another one afterwards, so that at most one such step is taken before looking again.
    ///
    /// Making pods is none of its own: it follows from the latch, which is.
    #[must_use]
    pub fn is_risky(&self) -> bool {
        !self.is_ensure() && !matches!(self, Self::CreateMembers { .. })
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
            Self::DeleteAbandonedPod { pod, seen, .. } | Self::DeleteRemovedPod { pod, seen, .. } => {
                vec![Effect::DeletePod { name: pod.clone(), uid: seen.uid.clone() }]
            }
            Self::EnsureBudget { attempt, voters, rolling, seen } => {
                let budget = if *rolling { manifest::budget_of_a_roll } else { manifest::budget };
                vec![Effect::ensure_budget(budget(desired, attempt, *voters), seen.as_ref())]
            }
            Self::RestoreMetadata { pod, seen, labels, annotations } => vec![Effect::PatchPodMetadata {
                name: pod.clone(),
                uid: seen.uid.clone(),
                resource_version: seen.resource_version.clone(),
                labels: labels.clone(),
                annotations: annotations.clone(),
            }],
            Self::AddMember { basis, attempt, member, learner, version } => {
                // As for the first members: who has a `Desired` has an address for every member.
                let pod = manifest::joining_pod(desired, attempt, member, *version, &basis.list);
                let Some((pod, peer_url)) = pod.ok().zip(desired.peer_url(member).ok()) else {
                    return Vec::new();
                };
                let change = MemberChange::Add { member: member.clone(), peer_url, learner: *learner };
                vec![
                    Effect::ChangeMembership { basis: basis.clone(), change },
                    Effect::CreatePod(Box::new(pod)),
                ]
            }
            Self::CreateJoiningPod { list, attempt, member, version } => {
                let pod = manifest::joining_pod(desired, attempt, member, *version, list);
                pod.ok().map(|pod| Effect::CreatePod(Box::new(pod))).into_iter().collect()
            }
            Self::PromoteMember { basis, id, .. } => vec![basis.change(MemberChange::Promote { id: *id })],
            Self::MoveLeader { basis, to } => vec![basis.change(MemberChange::MoveLeader { to: *to })],
            Self::RemoveMember { basis, id, .. } => vec![basis.change(MemberChange::Remove { id: *id })],
            Self::RelaunchMember { basis, pod, seen, version, annotations } => vec![Effect::RelaunchPod {
                name: pod.clone(),
                uid: seen.uid.clone(),
                resource_version: seen.resource_version.clone(),
                basis: basis.clone(),
                image: desired.image_of(*version),
                annotations: annotations.clone(),
            }],
            Self::ChangeDowngrade { basis, to } => vec![basis.change(MemberChange::Downgrade { to: *to })],
        }
    }
}
