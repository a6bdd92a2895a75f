//! What the operator may do: exactly what it does, as a table. `xtask` writes the Role and the `ClusterRole` from it.

use crate::leader::{LEASE_CLUSTER_WIDE, LEASE_NAMESPACED};

/// A permission that the operator uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule {
    /// The API group; empty for the core one.
    pub group: &'static str,
    /// The resources, with their subresources.
    pub resources: &'static [&'static str],
    /// The verbs.
    pub verbs: &'static [&'static str],
    /// The objects by name; all of them where there is none. A creation cannot be limited so: the API server does not know its name.
    pub names: &'static [&'static str],
    /// When it is used.
    pub used: Used,
    /// What for.
    pub why: &'static str,
}

/// When a permission is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Used {
    /// Always: it is in the Role and in the `ClusterRole`.
    Always,
    /// Unless `--create-crd=false`: CRDs are not in a namespace, so it is only in the `ClusterRole`.
    CreatingCrds,
    /// With `--cluster-wide`: only in the `ClusterRole`.
    ClusterWide,
}

const LEASES: &str = "coordination.k8s.io";
/// For all objects of the kind.
const ANY: &[&str] = &[];
const CRDS: &[&str] = &[
    "etcdclusters.etcd.database.coreos.com",
    "etcdbackups.etcd.database.coreos.com",
    "etcdrestores.etcd.database.coreos.com",
];

/// Every permission that the operator uses.
pub const RULES: &[Rule] = &[
    Rule {
        group: api::GROUP,
        resources: &["etcdclusters", "etcdbackups", "etcdrestores"],
        verbs: &["get", "list", "watch"],
        names: ANY,
        used: Used::Always,
        why: "to see what is asked for",
    },
    Rule {
        group: api::GROUP,
        resources: &["etcdclusters/status"],
        verbs: &["patch", "update"],
        names: ANY,
        used: Used::Always,
        why: "to say how clusters are, and to record their birth",
    },
    Rule {
        group: api::GROUP,
        resources: &["etcdbackups/status", "etcdrestores/status"],
        verbs: &["patch"],
        names: ANY,
        used: Used::Always,
        why: "to say that these are not acted on yet",
    },
    Rule {
        group: "",
        resources: &["pods"],
        verbs: &["create", "delete", "get", "list", "patch", "watch"],
        names: ANY,
        used: Used::Always,
        why: "members",
    },
    Rule {
        group: "",
        resources: &["services"],
        verbs: &["create", "get", "list", "patch", "watch"],
        names: ANY,
        used: Used::Always,
        why: "names for members and for clients; they are deleted by Kubernetes, with their cluster",
    },
    Rule {
        group: "policy",
        resources: &["poddisruptionbudgets"],
        verbs: &["create", "get", "list", "patch", "watch"],
        names: ANY,
        used: Used::Always,
        why: "so that draining nodes takes no quorum away",
    },
    Rule {
        group: "",
        resources: &["events"],
        verbs: &["create"],
        names: ANY,
        used: Used::Always,
        why: "to tell what happened",
    },
    Rule {
        group: LEASES,
        resources: &["leases"],
        verbs: &["create"],
        names: ANY,
        used: Used::Always,
        why: "one operator acts at a time",
    },
    Rule {
        group: LEASES,
        resources: &["leases"],
        verbs: &["get", "update"],
        names: &[LEASE_NAMESPACED],
        used: Used::Always,
        why: "the Lease of who looks after one namespace; a cluster-wide operator reads it because of older releases",
    },
    Rule {
        group: LEASES,
        resources: &["leases"],
        verbs: &["get", "list", "update"],
        names: &[LEASE_CLUSTER_WIDE],
        used: Used::ClusterWide,
        why: "the Lease of who looks after all namespaces, and those of others who would",
    },
    Rule {
        group: "apiextensions.k8s.io",
        resources: &["customresourcedefinitions"],
        verbs: &["create"],
        names: ANY,
        used: Used::CreatingCrds,
        why: "to install its own kinds",
    },
    Rule {
        group: "apiextensions.k8s.io",
        resources: &["customresourcedefinitions"],
        verbs: &["get", "patch"],
        names: CRDS,
        used: Used::CreatingCrds,
        why: "to bring its own kinds up to date, unless they are newer",
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_granted_wholesale_and_no_secret_is_read() {
        for rule in RULES {
            assert!(rule.verbs.iter().chain(rule.resources).all(|word| !word.contains('*')), "{rule:?}");
            assert!(!rule.resources.contains(&"secrets"));
            assert!(rule.verbs.is_sorted());
        }
    }

    #[test]
    fn leases_and_crds_of_others_are_not_ours_to_read_or_write() {
        let shared = ["leases", "customresourcedefinitions"];
        for rule in RULES.iter().filter(|rule| rule.resources.iter().any(|it| shared.contains(it))) {
            assert_eq!(rule.names.is_empty(), rule.verbs == ["create"], "{rule:?}");
            assert!(!rule.verbs.contains(&"watch") && !rule.verbs.contains(&"delete"), "{rule:?}");
        }
        let crds = api::crd::all().map(|crd| crd.metadata.name.unwrap_or_default());
        assert!(crds.iter().map(String::as_str).eq(CRDS.iter().copied()));
    }
}
