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

fn right(entry: &AuditEntry, verb: &str) -> String {
    let slash = if entry.subresource.is_empty() { "" } else { "/" };
    format!("{verb} {}{slash}{} of {:?}", entry.resource, entry.subresource, entry.group)
}

/// Everything that a role grants.
fn granted(role: Role) -> BTreeSet<String> {
    let rules = RULES.iter().filter(|rule| role == Role::ClusterWide || rule.used == Used::Always);
    let each = rules.flat_map(|rule| rule.resources.iter().map(move |resource| (rule, resource)));
    each.flat_map(|(rule, resource)| {
        rule.verbs.iter().map(move |verb| format!("{verb} {resource} of {:?}", rule.group))
    })
    .collect()
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
            !granted.contains(&right) || !had.contains(&(&entry.user, right))
        };
        let lacking: Vec<_> = denied.iter().filter(lacks).map(ToString::to_string).collect();
        ensure!(lacking.is_empty(), "{role:?}: denied: {lacking:?}");

        let mut used: BTreeSet<_> = allowed.iter().map(|entry| right(entry, &entry.verb)).collect();
        // Who applies what was not there needs the right to create it as well, whatever the log calls it.
        let applied = allowed.iter().filter(|entry| entry.verb == "patch" && entry.code == 201);
        used.extend(applied.map(|entry| right(entry, "create")));
        let unused: Vec<_> = granted.difference(&used).collect();
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
