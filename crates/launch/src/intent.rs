//! HOW A MEMBER STARTS: what a start is meant to be.

use serde::{Deserialize, Serialize};

/// What a member's start is meant to be, and so whether it may find no data.
///
/// The operator writes `NewCluster` or `Join` when it makes the pod, and `Restart` as soon as it has seen the member
/// started. From then on an empty data directory is a loss, never a beginning (invariant I5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Intent {
    /// One of the first members of an incarnation of a cluster.
    NewCluster,
    /// A member that was added to a running cluster just now.
    Join,
    /// A member that has run before, on its own data.
    Restart,
}

impl Intent {
    /// Whether a start without data is what was meant.
    #[must_use]
    pub const fn may_start_empty(self) -> bool {
        matches!(self, Self::NewCluster | Self::Join)
    }

    /// The value of `--initial-cluster-state`. etcd looks at it only when it finds no data.
    #[must_use]
    pub const fn initial_cluster_state(self) -> &'static str {
        match self {
            Self::NewCluster => "new",
            // With `existing` etcd asks its peers who it is. Should every guard fail, that is the harmless value.
            Self::Join | Self::Restart => "existing",
        }
    }
}
