//! What is written down of each operation.

use std::{fmt, time::Duration};

use etcd_admin::Revision;

/// One of the keys that a load writes and reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(pub u16);

/// What is written. No two writes of a history write the same, so a value says which write it is from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Value(pub u64);

impl Value {
    /// Stands for bytes that no load writes.
    pub const FOREIGN: Self = Self(0);
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Self::FOREIGN { f.write_str("something foreign") } else { write!(f, "v{}", self.0) }
    }
}

/// A value that a read found, and the revision of the write that etcd says it is from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Found {
    /// The value.
    pub value: Value,
    /// Its `mod_revision`.
    pub modified: Revision,
}

/// What was asked, and what is known of the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Did {
    /// A write that was acknowledged.
    Wrote {
        /// What.
        value: Value,
        /// The revision of the answer.
        revision: Revision,
    },
    /// A write that certainly did not happen: it was never sent, or it was refused.
    WriteFailed {
        /// What.
        value: Value,
    },
    /// A write of which nobody knows: no answer came in time, or the connection broke after it was sent. It may have
    /// happened, it may happen later, or never.
    WriteUnknown {
        /// What.
        value: Value,
    },
    /// A read that a quorum answered.
    Read {
        /// What it found.
        found: Option<Found>,
        /// The revision of the answer.
        revision: Revision,
    },
    /// A read without an answer: it says nothing.
    ReadFailed,
}

/// One operation. Times are on one monotonic clock, from the beginning of the load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Operation {
    /// Which key.
    pub key: Key,
    /// When it was sent, at the earliest.
    pub invoked: Duration,
    /// When the answer was there, at the latest, or when it was given up.
    pub returned: Duration,
    /// What it was.
    pub did: Did,
}

impl Operation {
    /// The revision of its answer, if it was answered.
    #[must_use]
    pub fn revision(&self) -> Option<Revision> {
        match self.did {
            Did::Wrote { revision, .. } | Did::Read { revision, .. } => Some(revision),
            Did::WriteFailed { .. } | Did::WriteUnknown { .. } | Did::ReadFailed => None,
        }
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { key, invoked, returned, did } = self;
        write!(f, "key {}, {:.6} s to {:.6} s: ", key.0, invoked.as_secs_f64(), returned.as_secs_f64())?;
        match did {
            Did::Wrote { value, revision } => write!(f, "wrote {value} at revision {revision}"),
            Did::WriteFailed { value } => write!(f, "failed to write {value}"),
            Did::WriteUnknown { value } => write!(f, "perhaps wrote {value}"),
            Did::Read { found: Some(Found { value, modified }), revision } => {
                write!(f, "read {value}, written at revision {modified}, at revision {revision}")
            }
            Did::Read { found: None, revision } => write!(f, "read nothing at revision {revision}"),
            Did::ReadFailed => f.write_str("failed to read"),
        }
    }
}

/// All operations of a load, and how every key was found when all others had ended.
#[derive(Debug, Clone, Default)]
pub struct History {
    /// In no particular order.
    pub operations: Vec<Operation>,
    /// One read of each key.
    pub finals: Vec<Operation>,
}
