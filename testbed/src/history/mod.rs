//! Histories: what a client of an etcd cluster asked and was told, all the time, and whether a cluster that keeps its
//! promises could have answered so.
//!
//! | to read about | open |
//! | --- | --- |
//! | the client that writes and reads all the time | [`load`] |
//! | the way to a cluster's client Service | [`route`] |
//! | what is written down of each operation | [`record`] |
//! | what a history must not show | [`check`], [`linear`], [`revisions`] |
//! | what a run says in the end | [`verdict`] |
//!
//! ```no_run
//! # async fn the_test(ns: testbed::kit::TestNamespace) -> anyhow::Result<()> {
//! use testbed::history::Load;
//!
//! let load = Load::default().start(ns.cluster(), ns.name(), "example").await?;
//! // Faults.
//! let verdict = load.finish().await?;
//! # Ok(())
//! # }
//! ```

pub mod check;
pub mod linear;
pub mod load;
pub mod record;
pub mod revisions;
pub mod route;
pub mod verdict;

pub use self::{
    load::{Load, LoadError, Running},
    record::{Did, Found, History, Key, Operation, Value},
    verdict::Verdict,
};
