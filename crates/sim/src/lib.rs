//! FOR PROOF: a small world in which the planner creates and destroys a cluster of three, another one in which it takes care of a
//! cluster that has formed ([`life`]), a third in which it brings members to another version ([`roll`]), and an explorer that visits
//! every state of them that can be reached.
//!
//! The planner is the real one, and so are its effects ([`planner::Step::lower`]), its safety predicates and the launcher's
//! judgement ([`launch::guard::judge`]). Kubernetes and etcd are counted: what a planner cannot see or cause is left out.
//!
//! Modelled in the first world, which ends where a plan changes the membership: the resource, `status.birth` and what of the reported
//! status is read again; pods from creation over start, restart, refusal by the launcher, eviction and deletion to lost nodes; their
//! two volumes; both Services; two operators with their memory, the writes they planned and have not sent, and writes whose answer was
//! lost; lists and reads of different moments; the garbage collector; a client that writes as soon as it is let in, and one that writes before, past our Services. API servers are
//! taken to have no CEL rules: the planner has to be right without them.
//!
//! Not modelled: raft (a quorum that is up serves; names matter only until a member has started), clocks (a time is either short
//! or longer than any patience), edits of the spec, squatted names, and a cluster created again under its name. A kubelet that starts
//! a container on an older order than the API server's needs no place here: such a start differs only where both volumes are lost.
//!
//! Taken for granted: members of one attempt are interchangeable (one test tells them apart), nothing that happens inside a pod of
//! an abandoned attempt matters any more, and losing both volumes of a member at once harms nobody before the cluster has formed, and where it
//! was called formed for what a client had written, before that member was heard of.

mod action;
mod cast;
mod explore;
mod eyes;
mod goal;
mod hash;
mod kubelet;
mod laws;
pub mod life;
mod model;
mod moves;
mod replay;
pub mod roll;
mod settle;
mod state;
mod world;
mod write;

pub use action::{Action, Kind};
pub use cast::{ATTEMPTS, AttemptId, CastError, INCARNATIONS, PODS, PodId, SIZE, Who};
pub use explore::{Counterexample, Failure, Stats};
pub use goal::End;
pub use laws::{Broken, Law, Properties};
pub use model::Planner;
pub use state::{
    BirthRecord, Data, Flying, ListId, Mark, Memory, Operator, Pod, Presence, Reported, Resource, Role,
    Round, ScriptId, Service, Stage, State, WriteId,
};
pub use world::{Ingredient, World, explore};
pub use write::Change;
