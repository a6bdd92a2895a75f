//! FOR PROOF: a small world in which the planner creates and destroys a cluster of three, and an explorer that visits every state
//! of it that can be reached.
//!
//! The planner is the real one, and so are its effects ([`planner::Step::lower`]), its safety predicates and the launcher's
//! judgement ([`launch::guard::judge`]). Kubernetes and etcd are counted: what a planner cannot see or cause is left out.
//!
//! Modelled: the resource, `status.birth` and what of the reported status is read again; pods from creation over scheduling, start, restart,
//! refusal, eviction and deletion to lost nodes; their volumes; both Services; two operators with their memory, the writes they
//! planned and have not sent, and writes whose answer was lost; the garbage collector; a client that writes as soon as it is let in.
//!
//! Not modelled: raft (a quorum that is up serves, and names matter only until a member has started), clocks (a time is either
//! short or longer than any patience), edits of the spec, squatted names, a kubelet that starts a container on an annotation older
//! than the API server's, and a cluster deleted and created again under its name.

mod action;
mod cast;
mod explore;
mod eyes;
mod goal;
mod hash;
mod kubelet;
mod laws;
mod model;
mod moves;
mod replay;
mod settle;
mod state;
mod world;
mod write;

pub use action::{Action, Kind};
pub use cast::{ATTEMPTS, AttemptId, CastError, INCARNATIONS, PODS, PodId, SIZE, Who};
pub use explore::{Counterexample, Failure, Stats, explore};
pub use goal::End;
pub use laws::{Broken, Law};
pub use model::Planner;
pub use state::{
    BirthRecord, Data, Flying, Mark, Memory, Operator, Pod, Presence, Reported, Resource, Role, Round,
    ScriptId, Service, Stage, State, WriteId,
};
pub use world::{Ingredient, World};
pub use write::Change;
