//! The operators have every right that they use and use every right that they have, by the audit log of all tests; and of their pods
//! none is more than it must be.
//!
//! The log is the cluster's whole life: where only some tests ran, rights that the others use are missing here.

use std::collections::BTreeSet;

use anyhow::ensure;
use operator::rbac::{RULES, Used};
use testbed::kit::{Cluster, audit::AuditEntry};

/// How an operator came by its rights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    /// The book's Role in its namespace.
    Namespaced,
    /// The `ClusterRole` of the classic script.
    ClusterWide,
}

/// The operator that asked, if it was one.
fn operator(entry: &AuditEntry) -> Option<Role> {
    let account = entry.user.strip_prefix("system:serviceaccount:")?;
    let (_, name) = account.split_once(':')?;
    let role = match name {
        "etcd-operator-sa" => Role::Namespaced,
        "default" => Role::ClusterWide,
        _ => return None,
    };
    entry.user_agent.starts_with("etcd-operator/").then_some(role)
}

/// What an entry used, or would have: a verb on a resource.
fn right(entry: &AuditEntry, verb: &str) -> String {
    let slash = if entry.subresource.is_empty() { "" } else { "/" };
    format!("{verb} {}{slash}{} of {:?}", entry.resource, entry.subresource, entry.group)
}

/// A right, on all objects of its kind or on the one of this name.
type Granted = (String, Option<&'static str>);

/// Everything that a role grants.
fn granted(role: Role) -> BTreeSet<Granted> {
    let mut granted = BTreeSet::new();
    for rule in RULES.iter().filter(|rule| role == Role::ClusterWide || rule.used == Used::Always) {
        let each = rule.resources.iter().flat_map(|it| rule.verbs.iter().map(move |verb| (it, verb)));
        for right in each.map(|(resource, verb)| format!("{verb} {resource} of {:?}", rule.group)) {
            if rule.names.is_empty() {
                granted.insert((right, None));
            } else {
                granted.extend(rule.names.iter().map(|name| (right.clone(), Some(*name))));
            }
        }
    }
    granted
}

/// Whether this is what lets an entry use a right. Who lists by name names the object, too.
fn lets((right, name): &Granted, used: &str, entry: &AuditEntry) -> bool {
    right == used && name.is_none_or(|name| name == entry.name)
}

#[tokio::test]
async fn operators_use_every_right_they_have_and_lack_none() -> anyhow::Result<()> {
    let log = Cluster::connect().await?.audit_log()?.all().entries()?;
    for role in [Role::Namespaced, Role::ClusterWide] {
        let of_role = || log.iter().filter(|entry| operator(entry) == Some(role));
        let (denied, allowed): (Vec<_>, Vec<_>) = of_role().partition(|entry| entry.is_forbidden());
        // What is granted is denied all the same after somebody took the role away, as the book does, and for a moment after the API
        // server was started. Who ever had it does not lack it.
        let had: BTreeSet<_> = allowed.iter().map(|entry| (&entry.user, right(entry, &entry.verb))).collect();
        let granted = granted(role);
        let lacks = |entry: &&&AuditEntry| {
            let right = right(entry, &entry.verb);
            !granted.iter().any(|granted| lets(granted, &right, entry))
                || !had.contains(&(&entry.user, right))
        };
        let lacking: Vec<_> = denied.iter().filter(lacks).map(ToString::to_string).collect();
        ensure!(lacking.is_empty(), "{role:?}: denied: {lacking:?}");

        // Who applies what was not there needs the right to create it as well, whatever the log calls it.
        let created = |entry: &AuditEntry| entry.verb == "patch" && entry.code == 201;
        let is_used = |granted: &&Granted| {
            allowed.iter().any(|entry| {
                lets(granted, &right(entry, &entry.verb), entry)
                    || (created(entry) && lets(granted, &right(entry, "create"), entry))
            })
        };
        let unused: Vec<_> = granted.iter().filter(|granted| !is_used(granted)).collect();
        ensure!(unused.is_empty(), "{role:?}: granted and never used: {unused:?}");
    }
    Ok(())
}

#[tokio::test]
async fn no_pod_of_ours_is_more_than_it_must_be() -> anyhow::Result<()> {
    let log = Cluster::connect().await?.audit_log()?.all().entries()?;
    let (ours, others): (Vec<_>, Vec<_>) = log
        .iter()
        .filter(|entry| entry.violations().is_some())
        .partition(|entry| operator(entry).is_some() || entry.name.starts_with("etcd-operator"));
    // The seeds' own `kubectl run` falls short: if it is not noted, nothing is.
    ensure!(!others.is_empty(), "the log notes no pod at all that falls short");
    ensure!(ours.is_empty(), "ours fall short: {ours:?}");
    Ok(())
}
