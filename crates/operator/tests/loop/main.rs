//! The parts of the loop that talk, against an API server of a few lines.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test that panics has failed")]

mod act;
mod crds;
mod fake;
mod identity;
mod kinds;
mod leader;
mod version;
