//! FOR PROOF: members of a cluster that has formed are brought to another version, one after another.
//!
//! A world of its own: the members stay who they are and keep their data, and nobody joins or leaves. What counts instead is what each
//! is ordered to run and does run, what the cluster has agreed on, who leads, and what was written down of it. It shares the explorer,
//! the planner and its effects, and the planner's invariants with the other worlds.
//!
//! Modelled: containers that are ended for another image, pulled and started anew, or not; etcd's version of the cluster, its refusal to
//! start below it and its procedure for going down; elections and leaders that move; one operator with writes on their way, answers that
//! are lost and crashes; a spec that is edited at any time, and pauses.
//!
//! Not modelled: raft (a quorum that runs serves), lists that are older than the members' answers, labels, Services and budgets, and the
//! report (it is written at once).

mod cast;
mod eyes;
mod model;
mod moves;
mod state;

use crate::{
    explore::{self, Failure, Stats},
    laws::Properties,
    model::Planner,
};

/// Something that can go wrong. Edits of the spec are bounded like faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fault {
    /// Containers are killed.
    Kills,
    /// Another member leads.
    Leaders,
    /// The answer to a write is lost: it happens at once, later, or never.
    Answers,
    /// The operator crashes between two writes.
    Crashes,
    /// The spec asks for another version.
    Edits,
    /// Somebody pauses the cluster, and lets it go on later.
    Pauses,
}

/// A roll to explore.
#[derive(Clone, Debug)]
pub struct Roll {
    /// What it is called.
    pub name: &'static str,
    /// How many members there are; at most three.
    pub members: u8,
    /// The versions that there are, each of a minor of its own, in order.
    pub versions: &'static [&'static str],
    /// Which of them the members run at the beginning.
    pub from: u8,
    /// Which of them the spec asks for.
    pub to: u8,
    /// Which of them cannot be pulled.
    pub missing: Option<u8>,
    /// How many faults, and edits of the spec, may happen on one path.
    pub faults: u8,
    /// What can go wrong.
    pub with: &'static [Fault],
}

impl Roll {
    fn has(&self, fault: Fault) -> bool {
        self.with.contains(&fault)
    }

    /// All versions, by their numbers.
    fn numbers(&self) -> impl Iterator<Item = u8> + use<> {
        0..u8::try_from(self.versions.len()).unwrap_or(u8::MAX)
    }
}

/// Visits every state of a roll that this planner takes care of.
pub fn explore(world: &Roll, planner: Planner<'_>, properties: Properties) -> Result<Stats, Failure> {
    explore::visit_all(&mut model::Model::new(world, planner, properties)?)
}
