//! Beside the loop: what people other than administrators may do with our kinds. Kubernetes adds these rules to its own roles `view`,
//! `edit` and `admin`, so whoever may see or change a namespace may do so with the etcd clusters in it.

use std::collections::BTreeMap;

use api::names::operator_labels;
use k8s_openapi::{
    api::rbac::v1::{ClusterRole, PolicyRule},
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};

const READ: &[&str] = &["get", "list", "watch"];
const WRITE: &[&str] = &["create", "delete", "deletecollection", "patch", "update"];

/// The roles for those who use clusters.
pub(crate) fn for_users() -> [ClusterRole; 2] {
    let crds = api::crd::all();
    let plurals = || crds.iter().map(|crd| crd.spec.names.plural.clone());
    let scale = || ["etcdclusters/scale".to_owned()];
    // A status is the operator's to write: `birth` in it decides whether a member may start empty.
    let status = plurals().map(|plural| format!("{plural}/status"));
    [
        role(
            "etcd-operator-view",
            &["view"],
            vec![rule(plurals().chain(scale()).chain(status).collect(), READ)],
        ),
        role(
            "etcd-operator-edit",
            &["edit", "admin"],
            vec![rule(plurals().collect(), WRITE), rule(scale().to_vec(), &["patch", "update"])],
        ),
    ]
}

fn rule(resources: Vec<String>, verbs: &[&str]) -> PolicyRule {
    PolicyRule {
        api_groups: Some(vec![api::GROUP.to_owned()]),
        resources: Some(resources),
        verbs: verbs.iter().map(|&verb| verb.to_owned()).collect(),
        ..Default::default()
    }
}

fn role(name: &str, joins: &[&str], rules: Vec<PolicyRule>) -> ClusterRole {
    let label = |role: &&str| (format!("rbac.authorization.k8s.io/aggregate-to-{role}"), "true".to_owned());
    ClusterRole {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            labels: Some(joins.iter().map(label).chain(operator_labels()).collect::<BTreeMap<_, _>>()),
            ..Default::default()
        },
        rules: Some(rules),
        ..Default::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_but_the_operator_may_write_a_status() {
        for role in for_users() {
            for rule in role.rules.unwrap_or_default() {
                let status = rule.resources.iter().flatten().any(|resource| resource.ends_with("/status"));
                assert!(!status || rule.verbs.iter().all(|verb| READ.contains(&verb.as_str())));
                assert!(rule.verbs.iter().all(|verb| verb != "*"));
            }
        }
    }
}
