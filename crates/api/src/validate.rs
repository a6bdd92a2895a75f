//! What users write, checked: the rules of [`crate::rules`] in code, for objects that were stored before the schema existed or that
//! passed an older one. A problem is a value; nothing here can fail.

mod cluster;
mod stores;

use std::fmt;

use crate::{
    EtcdBackup, EtcdCluster, EtcdRestore,
    rules::{self, Check},
    status::Birth,
};

/// Something that is wrong with an object.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Problem {
    /// Where, such as `spec.pod.labels`; empty for the object as a whole.
    pub path: String,
    /// What is wrong and what to write instead.
    pub message: &'static str,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.path.is_empty() {
            f.write_str(self.message)
        } else {
            write!(f, "{}: {}", self.path, self.message)
        }
    }
}

/// The problems as one text for a condition.
#[must_use]
pub fn as_text(problems: &[Problem]) -> String {
    let texts: Vec<String> = problems.iter().map(ToString::to_string).collect();
    texts.join("; ")
}

/// Collects what is wrong.
#[derive(Default)]
struct Findings(Vec<Problem>);

impl Findings {
    fn check(&mut self, holds: bool, path: &str, check: Check) {
        if !holds {
            self.0.push(Problem { path: path.to_owned(), message: check.message });
        }
    }

    /// Checks a field that may be missing.
    fn field<T: ?Sized>(&mut self, value: Option<&T>, path: &str, check: Check, holds: impl Fn(&T) -> bool) {
        if let Some(value) = value {
            self.check(holds(value), path, check);
        }
    }
}

/// What is wrong with this cluster.
#[must_use]
pub fn cluster(object: &EtcdCluster) -> Vec<Problem> {
    let mut findings = Findings::default();
    cluster::check(object, &mut findings);
    findings.0
}

/// What is wrong with this backup.
#[must_use]
pub fn backup(object: &EtcdBackup) -> Vec<Problem> {
    let mut findings = Findings::default();
    stores::check_backup(object, &mut findings);
    findings.0
}

/// What is wrong with this restore.
#[must_use]
pub fn restore(object: &EtcdRestore) -> Vec<Problem> {
    let mut findings = Findings::default();
    stores::check_restore(object, &mut findings);
    findings.0
}

/// What is wrong with going from one record of birth to another: the transition rules, for the operator to ask before it writes.
#[must_use]
pub fn birth(old: Option<&Birth>, new: Option<&Birth>) -> Vec<Problem> {
    let mut findings = Findings::default();
    let Some(new) = new else {
        findings.check(old.is_none(), "", rules::BIRTH_KEPT);
        return findings.0;
    };
    let known = new.cluster_id.as_deref().is_some_and(|id| !id.is_empty());
    if let Some(old) = old {
        let same_attempt = new.incarnation == old.incarnation
            && new.token == old.token
            && (new.formed || !old.formed)
            && (old.cluster_id.is_none() || new.cluster_id == old.cluster_id);
        let next_attempt =
            old.incarnation.checked_add(1) == Some(new.incarnation) && new.token != old.token && !new.formed;
        findings.check(same_attempt || next_attempt, "status.birth", rules::BIRTH_STEPS);
    }
    findings.check(known || !new.formed, "status.birth", rules::BIRTH_FORMED);
    findings.0
}
