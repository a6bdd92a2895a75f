//! The life of a cluster, on this machine's spare testbed: started, killed, repaired, refused, removed.
//!
//! Each test leaves the machine as it found it. They run one at a time.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test"
)]

mod machine_state;
mod refusals;
mod repair;
mod spare;
mod up_and_down;
