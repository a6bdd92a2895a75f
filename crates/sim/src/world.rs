//! FOR PROOF: which world is explored: how many faults may happen in it, and which.

use crate::{
    explore::{self, Failure, Stats},
    laws::Properties,
    model::{Model, Planner},
};

/// Something that can happen in a world beside the plain course of things.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Ingredient {
    /// Containers are killed.
    Kills,
    /// Pods are evicted, and deleted by somebody.
    Pods,
    /// The data directory is wiped, alone or together with the marker volume.
    Volumes,
    /// Nodes are lost, come back, and are forgotten together with their pods.
    Nodes,
    /// The answer to a write is lost: it happens at once, later, or never.
    Answers,
    /// The API server refuses to create a pod.
    Quota,
    /// The operator crashes between two writes.
    Crashes,
    /// The other operator takes over while the first one is still in its round.
    Takeovers,
    /// Both operators lead all the time, as if there were no Lease at all.
    TwoLeaders,
    /// An operator that sees the API server and none of the members.
    Blindness,
    /// A Service is deleted by somebody.
    Services,
    /// The resource is deleted, in the background or in the foreground.
    Deletion,
    /// The resource is read first and everything else later: what is seen never was true all at once.
    SplitReads,
    /// Pods and Services are listed first, and the resource and the members are asked later: the list is older than all the rest.
    StaleLists,
    /// Clients that no Service of ours leads there write to members that serve before the cluster has formed.
    EarlyWrites,
    /// Members are told apart: states that differ only in which member is which are visited each for itself.
    Distinct,
}

/// A world to explore.
#[derive(Clone, Debug)]
pub struct World {
    /// What it is called.
    pub name: &'static str,
    /// How many faults may happen on one path.
    pub faults: u8,
    /// How many attempts there is room for. An attempt ends by a fault, so one more than faults is enough, except for two leaders.
    /// What finds no room is counted ([`crate::Stats::cut`]), so this is a law of counts: no attempt is wasted without a fault.
    pub attempts: u8,
    /// What can happen.
    pub with: &'static [Ingredient],
}

impl World {
    pub(crate) fn has(&self, ingredient: Ingredient) -> bool {
        self.with.contains(&ingredient)
    }
}

/// Visits every state of a world in which this planner works.
pub fn explore(world: &World, planner: Planner<'_>, properties: Properties) -> Result<Stats, Failure> {
    explore::visit_all(&mut Model::new(world, planner, properties)?)
}
