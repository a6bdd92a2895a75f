//! The real loop, from watch to report, against the fakes: ended, robbed of its answers and disturbed at every one of its writes.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test that panics has failed"
)]

mod broken;
mod busy;
mod every_write;
mod figures;
mod goal;
mod judge;
mod leaders;
mod learners;
mod many;
mod repaired;
mod restless;
mod roll;
mod scope;
mod workflow;
mod world;
