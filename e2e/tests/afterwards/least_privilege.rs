//! The operators have every right that they use and use every right that they have, by the audit log of all tests; and of their pods
//! none is more than it must be.
//!
//! The log is the cluster's whole life: where only some tests ran, rights that the others use are missing here.

use std::collections::{BTreeMap, BTreeSet};

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

/// The operator that asked, if it was one: its role and its namespace.
fn operator(entry: &AuditEntry) -> Option<(Role, &str)> {
    let account = entry.user.strip_prefix("system:serviceaccount:")?;
    let (namespace, name) = account.split_once(':')?;
    let role = match name {
        "etcd-operator-sa" => Role::Namespaced,
        "default" => Role::ClusterWide,
        _ => return None,
    };
    entry.user_agent.starts_with("etcd-operator/").then_some((role, namespace))
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

/// When each namespace's operator was deprived of its rights: with them, its account, or the namespace.
fn ends(log: &[AuditEntry]) -> BTreeMap<String, jiff::Timestamp> {
    let mut ends = BTreeMap::new();
    for entry in log.iter().filter(|entry| entry.verb == "delete" && entry.code < 300) {
        let namespace = match entry.resource.as_str() {
            "namespaces" => &entry.name,
            "roles" | "rolebindings" | "serviceaccounts" => &entry.namespace,
            _ => continue,
        };
        ends.entry(namespace.clone()).or_insert(entry.at);
    }
    ends
}

#[tokio::test]
async fn operators_use_every_right_they_have_and_lack_none() -> anyhow::Result<()> {
    let log = Cluster::connect().await?.audit_log()?.all().entries()?;
    let ends = ends(&log);
    for role in [Role::Namespaced, Role::ClusterWide] {
        let of_role = |entry: &&AuditEntry| operator(entry).is_some_and(|(its, _)| its == role);
        let denied: Vec<_> = log
            .iter()
            .filter(of_role)
            .filter(|entry| entry.is_forbidden())
            .filter(|entry| {
                operator(entry).and_then(|(_, at)| ends.get(at)).is_none_or(|end| entry.at < *end)
            })
            .map(|entry| format!("{} {}", entry.at, right(entry, &entry.verb)))
            .collect();
        ensure!(denied.is_empty(), "{role:?}: denied: {denied:?}");

        let allowed = || log.iter().filter(of_role).filter(|entry| !entry.is_forbidden());
        let mut used: BTreeSet<_> = allowed().map(|entry| right(entry, &entry.verb)).collect();
        // Who applies what was not there needs the right to create it as well, whatever the log calls it.
        used.extend(
            allowed()
                .filter(|entry| entry.verb == "patch" && entry.code == 201)
                .map(|it| right(it, "create")),
        );
        let unused: Vec<_> = granted(role).difference(&used).cloned().collect();
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
