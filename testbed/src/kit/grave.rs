//! What may not happen even once: a lost write, a broken history, a second cluster.

/// Stands in the message of a failed test that must not be run again, because no second run excuses it: `ensure!(found == "bar",
/// "{GRAVE} {found}")`. `make test` runs others once more in CI, and calls them flaky if they pass then.
pub const GRAVE: &str = "NEVER TO HAPPEN:";
