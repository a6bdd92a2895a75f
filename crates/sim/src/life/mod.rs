//! FOR PROOF: the life of a cluster after it has formed: growing, shrinking, healing.
//!
//! A world of its own, because hardly anything of the first one's state is left in it: there is one attempt, and both Services are as they
//! should be; what counts instead is etcd's member list, which disks hold what was acknowledged, and who leads. Both worlds share the
//! explorer, the planner and its effects, the launcher's judgement and the laws.
//!
//! Modelled: etcd's member list with learners and voters and its answers to every change ([`etcd`]); pods from creation to deletion, lost
//! nodes, wiped volumes; a write that is acknowledged in every moment in which one can be; two operators with memory, writes on their way
//! and answers that are lost; lists of pods that are older than the members' answers; edits of the size; pauses; somebody with etcdctl.
//!
//! Not modelled: raft (a quorum that runs serves, and whoever of it has everything may lead), members' differing views of the list,
//! clocks, Services, budgets and labels, the report (it is written at once), and names that run out: one that nobody has or means any
//! more stands for a fresh one.

mod cast;
mod etcd;
mod eyes;
mod goal;
mod model;
mod moves;
mod state;
mod write;

use crate::{
    explore::{self, Failure, Stats},
    laws::Properties,
    model::Planner,
};

/// Something that can go wrong. Edits of the spec are bounded like faults, and so is what strangers do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fault {
    /// Containers are killed.
    Kills,
    /// Pods are evicted, and deleted by somebody.
    Pods,
    /// A data directory is wiped.
    Volumes,
    /// Nodes are lost; they come back or are forgotten together with their pods.
    Nodes,
    /// A follower or a learner lacks a write that was acknowledged.
    Lags,
    /// The answer to a write is lost: it happens at once, later, or never.
    Answers,
    /// etcd refuses a change, as it does when peers have been connected for less than 5 s.
    Refusals,
    /// The API server refuses to create a pod.
    Quota,
    /// The operator crashes between two writes.
    Crashes,
    /// The other operator takes over while the first one is still in its round.
    Takeovers,
    /// Pods are listed first, and members are asked later.
    StaleLists,
    /// Pods start, go, or catch up more slowly than anybody's patience.
    Slowness,
    /// Somebody adds and removes members with etcdctl.
    Strangers,
    /// Somebody pauses the cluster, and lets it go on later.
    Pauses,
}

/// A life to explore.
#[derive(Clone, Debug)]
pub struct Life {
    /// What it is called.
    pub name: &'static str,
    /// With how many members the cluster has formed; at most three.
    pub members: u8,
    /// How many the spec asks for.
    pub size: u8,
    /// Whether the cluster began with a seed.
    pub seed: bool,
    /// Whether etcd has learners, as it does from 3.4 on: otherwise members join as voters.
    pub learners: bool,
    /// The sizes that the spec may be changed to: 1, 2, 3 or 5.
    pub sizes: &'static [u8],
    /// How many faults, and changes of the spec, may happen on one path.
    pub faults: u8,
    /// What can go wrong.
    pub with: &'static [Fault],
}

impl Life {
    fn has(&self, fault: Fault) -> bool {
        self.with.contains(&fault)
    }
}

/// Visits every state of a life that this planner takes care of.
pub fn explore(life: &Life, planner: Planner<'_>, properties: Properties) -> Result<Stats, Failure> {
    explore::visit_all(&mut model::Model::new(life, planner, properties)?)
}
