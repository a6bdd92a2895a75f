//! What the operator may do: exactly what it does, as a table. `xtask` writes the Role and the `ClusterRole` from it.

/// A permission that the operator uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule {
    /// The API group; empty for the core one.
    pub group: &'static str,
    /// The resources, with their subresources.
    pub resources: &'static [&'static str],
    /// The verbs.
    pub verbs: &'static [&'static str],
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
}

/// Every permission that the operator uses.
pub const RULES: &[Rule] = &[
    Rule {
        group: api::GROUP,
        resources: &["etcdclusters", "etcdbackups", "etcdrestores"],
        verbs: &["get", "list", "watch"],
        used: Used::Always,
        why: "to see what is asked for",
    },
    Rule {
        group: api::GROUP,
        resources: &["etcdclusters/status"],
        verbs: &["patch", "update"],
        used: Used::Always,
        why: "to say how clusters are, and to record their birth",
    },
    Rule {
        group: api::GROUP,
        resources: &["etcdbackups/status", "etcdrestores/status"],
        verbs: &["patch"],
        used: Used::Always,
        why: "to say that these are not acted on yet",
    },
    Rule {
        group: "",
        resources: &["pods"],
        verbs: &["create", "delete", "get", "list", "patch", "watch"],
        used: Used::Always,
        why: "members",
    },
    Rule {
        group: "",
        resources: &["services"],
        verbs: &["create", "get", "list", "patch", "watch"],
        used: Used::Always,
        why: "names for members and for clients; they are deleted by Kubernetes, with their cluster",
    },
    Rule {
        group: "policy",
        resources: &["poddisruptionbudgets"],
        verbs: &["create", "get", "list", "patch", "watch"],
        used: Used::Always,
        why: "so that draining nodes takes no quorum away",
    },
    Rule {
        group: "",
        resources: &["events"],
        verbs: &["create"],
        used: Used::Always,
        why: "to tell what happened",
    },
    Rule {
        group: "coordination.k8s.io",
        resources: &["leases"],
        verbs: &["create", "get", "update"],
        used: Used::Always,
        why: "one operator acts at a time",
    },
    Rule {
        group: "apiextensions.k8s.io",
        resources: &["customresourcedefinitions"],
        verbs: &["create", "patch"],
        used: Used::CreatingCrds,
        why: "to install its own kinds",
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
}
