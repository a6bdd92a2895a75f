//! The real loop, from watch to report, against the fakes: ended, robbed of its answers and disturbed at every one of its writes.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test that panics has failed"
)]

mod every_write;
mod goal;
mod judge;
mod workflow;
mod world;
