//! FOR PROOF: a Kubernetes API server, a kubelet and etcd inside one process, on a clock that tests stop. The operator's real loop
//! runs against them, and a test can end it, lose an answer or put somebody else's write in its way at each of its writes.
//!
//! They are as true as the operator's use of the real ones, and no truer; [`truth`] holds the operations whose outcomes are the same
//! here and there.

#![allow(clippy::indexing_slicing, reason = "JSON: what is not there is null")]

pub mod etcd;
pub mod kubelet;
pub mod kubernetes;
pub mod registry;
pub mod truth;
pub mod wire;
