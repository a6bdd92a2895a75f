//! What etcd calls a member and a cluster, as values that cannot be mixed up.

use std::fmt;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub u64);

        impl fmt::Display for $name {
            /// In hexadecimal, as etcd's own tools print it.
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:x}", self.0)
            }
        }
    };
}

id!(
    /// A member's identity in its cluster.
    MemberId
);
id!(
    /// A cluster's identity: every member of one incarnation computes the same.
    ClusterId
);
