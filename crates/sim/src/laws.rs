//! FOR PROOF: what must never be true of the world, whatever the planner's own predicates say: they are checked as well, and could be
//! wrong together with the planner.

use std::fmt;

use planner::safety::Violation;

use crate::{
    cast::{AttemptId, PodId},
    state::{Mark, Presence, Service, State},
};

macro_rules! laws {
    ($($(#[$doc:meta])* $name:ident => $sentence:literal;)*) => {
        /// A law of the world.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Law {
            $($(#[$doc])* $name,)*
        }

        impl Law {
            /// Every law there is.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];
        }

        impl fmt::Display for Law {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(match self {
                    $(Self::$name => $sentence,)*
                })
            }
        }
    };
}

laws! {
    /// Of I5.
    Amnesia => "a voter of a formed cluster starts without the data it had";
    /// Of I7.
    PodBeforeLatch => "a pod exists of an attempt that status.birth never held";
    /// Of I7.
    NewTwice => "a name is created a second time, so a member of one attempt could start as new twice";
    /// Of I8.
    SecondCluster => "another attempt takes the place of a cluster that had formed";
    /// Of I1.
    WriteLost => "clients are led away from the cluster that acknowledged a write, or a quorum serves without it";
    /// Of I1.
    DataAbandoned => "an attempt is given up, or a pod of one deleted, though the operator saw that it holds what a client wrote";
    /// Of I8.
    FormedFalsely => "a cluster is called formed though one of its members never was in its quorum, and no client has written to it";
    /// Of design decision 6.
    ClientsAstray => "the client Service selects somebody who is not the formed cluster";
    /// Of I6.
    LivePodDeleted => "the operator deletes a pod of the attempt that counts, or of a member that etcd has";
    /// Deleting the resource removes everything.
    ActsOnDeleted => "the operator writes for a resource that it saw being deleted";
    /// Of I12.
    FalseAvailable => "the status says Available while no quorum serves";
    /// Of I16.
    SeveralRisks => "more than one risky step in a round";
    /// Of I3.
    QuorumTaken => "the operator's own change leaves no quorum where there was one";
    /// Of I4.
    SeveralJoining => "more than one member of ours is on its way in";
    /// Of I7.
    NewAfterFormed => "a pod is made to begin a cluster after the cluster has formed";
    /// Of design decision 7.
    PodBeforeMember => "a pod is made to join before its member was added";
    /// Of design decision 1.
    NameAddedTwice => "a member is added under a name that was used before";
    /// Of design decision 7.
    PromotedDead => "a learner that does not run is to get a vote";
    /// Of F1: a container that ends is started again by the kubelet.
    GivenUpTooSoon => "a member is to be removed that would come back by itself, and was given no time";
    /// Of design decision 8.
    LeaderRemoved => "the leader is to be removed though another voter could have led before";
    /// Of H36.
    ActsWhilePaused => "the operator plans a write for a cluster that it saw paused";
    /// Of the world itself.
    UnknownWrite => "the operator writes something that is not part of this world";
}

/// What is asked of every state, and of every write at the moment it lands. The goal is always asked for.
#[derive(Clone, Copy, Debug)]
pub struct Properties {
    /// The world's own laws.
    pub laws: &'static [Law],
    /// The planner's own invariants.
    pub invariants: &'static [Violation],
}

impl Properties {
    /// Everything.
    pub const ALL: Self = Self { laws: Law::ALL, invariants: Violation::ALL };
    /// The world's laws alone: they have to be enough without the planner's word.
    pub const LAWS: Self = Self { laws: Law::ALL, invariants: &[] };
    /// The planner's invariants alone.
    pub const INVARIANTS: Self = Self { laws: &[], invariants: Violation::ALL };

    pub(crate) fn has(&self, law: Law) -> bool {
        self.laws.contains(&law)
    }
}

/// What was broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Broken {
    /// A law of the world.
    Law(Law),
    /// One of the planner's own invariants.
    Invariant(Violation),
    /// The goal cannot be reached any more, even if nothing goes wrong from here on.
    NeverReached,
    /// The goal is reached and left again, though nothing goes wrong.
    NotKept,
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Law(law) => law.fmt(f),
            Self::Invariant(violation) => violation.fmt(f),
            Self::NeverReached => {
                f.write_str("the goal cannot be reached any more, even if nothing goes wrong from here on")
            }
            Self::NotKept => f.write_str("the goal is reached and left again, though nothing goes wrong"),
        }
    }
}

/// The laws that a state breaks by itself.
pub(crate) fn broken_by(state: &State) -> impl Iterator<Item = Law> {
    let birth = state.resource.birth;
    let formed = birth.filter(|birth| birth.formed).map(|birth| birth.attempt);
    let there = state.resource.presence != Presence::Gone;
    let unlatched = |id: PodId| state.latched & id.attempt().bit() == 0;
    let never_served = |attempt: AttemptId| {
        state.written & attempt.bit() == 0 && attempt.pods().any(|id| !state.pod(id).has(Mark::Served))
    };
    let rows = [
        (state.existing().any(unlatched), Law::PodBeforeLatch),
        (there && formed.is_some_and(never_served), Law::FormedFalsely),
        (
            there && matches!(state.client, Service::Selects(Some(attempt)) if formed != Some(attempt)),
            Law::ClientsAstray,
        ),
        (
            there
                && state.acknowledged.is_some_and(|attempt| {
                    birth.is_none_or(|birth| birth.attempt != attempt)
                        || matches!(state.client, Service::Selects(Some(other)) if other != attempt)
                }),
            Law::WriteLost,
        ),
    ];
    rows.into_iter().filter(|(broken, _)| *broken).map(|(_, law)| law)
}
