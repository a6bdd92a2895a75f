//! What a history must not show. No I/O: a history goes in, what is wrong with it comes out.

use std::{
    collections::{BTreeMap, HashSet},
    fmt,
};

use super::{
    linear::{self, NotLinear},
    record::{Did, Found, History, Key, Operation, Value},
    revisions,
};

/// Something that a cluster which keeps its promises does not do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Violation {
    /// Writes were acknowledged, and in the end an older value was there, or none.
    Lost {
        /// The newest of them.
        newest: Operation,
        /// How many.
        count: usize,
        /// The last read.
        found: Operation,
    },
    /// A value was read that nobody can have written to this key: foreign, refused, or asked for later.
    NeverWritten(Operation),
    /// No order of the key's operations explains this answer, such as a read of a value that was overwritten before.
    NotLinearizable(Operation),
    /// So much was open at once that it cannot be said whether the answers have an order.
    Undecided(Operation),
    /// A later answer has an older revision.
    RevisionWentBack {
        /// This came first.
        before: Operation,
        /// And then this.
        after: Operation,
    },
    /// Two answers contradict each other about which write has a revision; or one contradicts itself.
    RevisionDisputed {
        /// This one.
        one: Operation,
        /// And this one.
        other: Operation,
    },
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lost { newest, count, found } => {
                write!(
                    f,
                    "{count} acknowledged writes are lost, the newest is [{newest}]; in the end: [{found}]"
                )
            }
            Self::NeverWritten(read) => write!(f, "nobody had written this: [{read}]"),
            Self::NotLinearizable(operation) => write!(f, "no order of events explains this: [{operation}]"),
            Self::Undecided(operation) => {
                write!(f, "too much was open at once to say whether this is right: [{operation}]")
            }
            Self::RevisionWentBack { before, after } => {
                write!(f, "the revision went back: [{before}], then [{after}]")
            }
            Self::RevisionDisputed { one, other } => {
                write!(f, "these contradict each other about a revision: [{one}] and [{other}]")
            }
        }
    }
}

/// All that is wrong with a history.
#[must_use]
pub fn check(history: &History) -> Vec<Violation> {
    let mut by_key: BTreeMap<Key, Vec<Operation>> = BTreeMap::new();
    let mut all = history.operations.clone();
    all.extend(&history.finals);
    for operation in &all {
        by_key.entry(operation.key).or_default().push(*operation);
    }
    let mut violations: Vec<_> =
        history.finals.iter().filter_map(|last| lost(last, &history.operations)).collect();
    for operations in by_key.values() {
        violations.extend(never_written(operations));
        let at = |at: usize| operations.get(at).copied();
        match linear::check(operations) {
            Ok(()) => {}
            Err(NotLinear::At(operation)) => violations.extend(at(operation).map(Violation::NotLinearizable)),
            Err(NotLinear::TooWide(operation)) => violations.extend(at(operation).map(Violation::Undecided)),
        }
    }
    violations.extend(revisions::check(&all));
    violations
}

/// The acknowledged writes that are newer than what was there in the end.
fn lost(last: &Operation, operations: &[Operation]) -> Option<Violation> {
    let Did::Read { found, .. } = last.did else { return None };
    let there = found.map(|found| found.modified);
    let missing = operations.iter().filter(|it| {
        it.key == last.key && matches!(it.did, Did::Wrote { revision, .. } if Some(revision) > there)
    });
    let count = missing.clone().count();
    let newest = *missing.max_by_key(|it| it.revision())?;
    Some(Violation::Lost { newest, count, found: *last })
}

/// Reads of values that no write of this key can have put there.
fn never_written(operations: &[Operation]) -> impl Iterator<Item = Violation> {
    let possible: HashSet<Value> = operations
        .iter()
        .filter_map(|it| match it.did {
            Did::Wrote { value, .. } | Did::WriteUnknown { value } => Some(value),
            _ => None,
        })
        .collect();
    operations
        .iter()
        .filter(move |it| {
            matches!(it.did, Did::Read { found: Some(Found { value, .. }), .. } if !possible.contains(&value))
        })
        .map(|it| Violation::NeverWritten(*it))
}

#[cfg(test)]
#[path = "check_tests.rs"]
mod tests;
