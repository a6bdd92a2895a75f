//! WHAT WE DECIDE: `plan` looks at what is wanted ([`Desired`]) and at what is seen ([`Observed`]) and says what to do next.
//!
//! Pure and total: no I/O, no clock, no random, no panic. Time and a fresh token come in with [`Observed`]. A [`Step`] says what
//! is to be done and what it was decided on; [`Step::lower`] turns it into [`Effect`]s, which the operator carries out against
//! the real world and `sim` against its model. [`safety`] holds the invariants that no effect may break.
//!
//! Clusters are created, resized, healed, upgraded and destroyed here. What comes later (other changes to running members) is not
//! done and is said: the plan waits with a reason.

mod attempt;
mod course;
mod desired;
mod digest;
mod effect;
mod holding;
mod id;
mod inputs;
pub mod manifest;
mod membership;
mod observed;
mod outage;
mod plan;
mod rules;
pub mod safety;
mod status;
mod step;
mod view;
mod waiting;

#[cfg(test)]
mod fixture;

pub use attempt::Attempt;
pub use desired::{Desired, InvalidMemberUser, MemberUser, OperatorIdentity, Problem};
pub use effect::{
    Basis, Deadline, Effect, JOINS, MemberChange, POD_DELETION, POD_IMAGE, POD_METADATA, SeenList,
};
pub use id::{ClusterId, MemberId};
pub use inputs::{Facet, Inputs};
pub use observed::{
    Alarm, Answer, ContainerState, EMPTY_STORE, ETCD, Ended, ListedMember, Observed, OrderSeen, PodPhase,
    Readiness, RefusalClass, RefusedObject, SeenBudget, SeenContainer, SeenMember, SeenPod, SeenPort,
    SeenResource, SeenService, SquattedName, owner_unless,
};
pub use plan::{Plan, plan};
pub use status::{Report, blind};
pub use step::{BirthCause, Leaving, SeenObject, Step};
pub use waiting::{OFTEN, Waiting};

/// The member list that somebody read through a quorum, in the cluster that was latched if one was.
#[must_use]
pub fn member_list(observed: &Observed) -> Option<&Answer> {
    view::View::of(observed).member_list()
}

/// How many of so many voters have to agree.
#[must_use]
pub const fn quorum(voters: usize) -> usize {
    voters / 2 + 1
}

/// A moment, as the observer's clock has it.
pub use k8s_openapi::jiff::Timestamp;
