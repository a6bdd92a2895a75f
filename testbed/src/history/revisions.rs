//! Whether the revisions tell one story: they never go back, each belongs to one write, and every read names the one that
//! its value was written at.

use std::collections::HashMap;

use etcd_admin::Revision;

use super::{
    check::Violation,
    record::{Did, Found, Key, Operation, Value},
};

/// Looks at all operations, of all keys: revisions are the cluster's.
#[must_use]
pub fn check(operations: &[Operation]) -> Vec<Violation> {
    let mut violations = went_back(operations);
    violations.extend(disputed(operations));
    violations
}

/// An answer that came before another one was asked for has a lower revision, or the same if nothing is written.
fn went_back(operations: &[Operation]) -> Vec<Violation> {
    let answered = |it: &&Operation| it.revision().is_some();
    let mut by_question: Vec<&Operation> = operations.iter().filter(answered).collect();
    let mut by_answer = by_question.clone();
    by_question.sort_by_key(|it| it.invoked);
    by_answer.sort_by_key(|it| it.returned);
    let mut answers = by_answer.into_iter().peekable();
    let mut highest: Option<&Operation> = None;
    let mut violations = Vec::new();
    for after in by_question {
        while let Some(before) = answers.next_if(|before| before.returned < after.invoked) {
            highest = highest.filter(|it| it.revision() >= before.revision()).or(Some(before));
        }
        let Some(before) = highest else { continue };
        let writes = matches!(after.did, Did::Wrote { .. });
        if after.revision() < before.revision() || (writes && after.revision() == before.revision()) {
            violations.push(Violation::RevisionWentBack { before: *before, after: *after });
        }
    }
    violations
}

/// A revision is that of one write, and a write has one.
fn disputed(operations: &[Operation]) -> Vec<Violation> {
    let mut of_value: HashMap<Value, (Revision, Operation)> = HashMap::new();
    let mut of_revision: HashMap<Revision, (Key, Value, Operation)> = HashMap::new();
    let mut violations = Vec::new();
    for &operation in operations {
        let (value, revision) = match operation.did {
            Did::Wrote { value, revision } => (value, revision),
            Did::Read { found: Some(Found { value, modified }), revision } => {
                if modified > revision {
                    violations.push(Violation::RevisionDisputed { one: operation, other: operation });
                }
                (value, modified)
            }
            Did::Read { found: None, .. }
            | Did::WriteFailed { .. }
            | Did::WriteUnknown { .. }
            | Did::ReadFailed => continue,
        };
        let &mut (known, one) = of_value.entry(value).or_insert((revision, operation));
        let &mut (key, written, other) =
            of_revision.entry(revision).or_insert((operation.key, value, operation));
        if known != revision {
            violations.push(Violation::RevisionDisputed { one, other: operation });
        } else if (key, written) != (operation.key, value) {
            violations.push(Violation::RevisionDisputed { one: other, other: operation });
        }
    }
    violations
}
