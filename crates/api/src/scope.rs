//! What users write: the scope annotation, which keeps a namespaced and a cluster-wide operator off each other's clusters.

use std::collections::BTreeMap;

use crate::names::ANNOTATION_SCOPE;

/// Value of the scope annotation that hands a resource to the cluster-wide operator.
pub const CLUSTER_WIDE: &str = "clusterwide";

/// Which resources an operator looks after.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// One namespace, and there only resources without the annotation.
    Namespaced,
    /// All namespaces, and there only resources annotated with `clusterwide`.
    ClusterWide,
}

impl Scope {
    /// Whether an operator of this scope looks after a resource with these annotations.
    #[must_use]
    pub fn manages(self, annotations: Option<&BTreeMap<String, String>>) -> bool {
        let value = annotations.and_then(|all| all.get(ANNOTATION_SCOPE));
        match self {
            Self::Namespaced => value.is_none(),
            Self::ClusterWide => value.is_some_and(|value| value == CLUSTER_WIDE),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exactly_one_operator_or_none_manages_a_resource() {
        let table = [
            (None, true, false),
            (Some("clusterwide"), false, true),
            (Some("namespaced"), false, false),
            (Some(""), false, false),
        ];
        for (value, namespaced, cluster_wide) in table {
            let annotations = value.map(|v| BTreeMap::from([(ANNOTATION_SCOPE.to_owned(), v.to_owned())]));
            assert_eq!(Scope::Namespaced.manages(annotations.as_ref()), namespaced, "{value:?}");
            assert_eq!(Scope::ClusterWide.manages(annotations.as_ref()), cluster_wide, "{value:?}");
        }
    }
}
