//! Tests that change what all others stand on: they run alone, one after another.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test"
)]

mod dns_answers;
mod faults_control;
mod faults_nodes;
