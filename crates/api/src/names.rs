//! What users write: the names, labels and annotations that an `EtcdCluster` gives to the objects made for it.
//!
//! People select on these (`kubectl get services --selector etcd_cluster=…`), so their spelling is part of the API.

use std::collections::BTreeMap;

/// Label that all pods and Services of all clusters carry.
pub const LABEL_APP: &str = "app";
/// Value of [`LABEL_APP`].
pub const LABEL_APP_VALUE: &str = "etcd";
/// Label with the cluster's name.
pub const LABEL_CLUSTER: &str = "etcd_cluster";
/// Label with the member's name.
pub const LABEL_MEMBER: &str = "etcd_node";
/// Label with the attempt at forming the cluster that a pod belongs to. Both Services select on it, so that a pod of an abandoned
/// attempt, or of an earlier cluster of the same name, gets no traffic and no DNS name.
pub const LABEL_ATTEMPT: &str = "etcd_attempt";
/// Prefix of the label keys that belong to the operator since the classic one.
pub const RESERVED_LABEL_PREFIX: &str = "etcd_";
/// Annotation on a pod with the etcd version that its member was asked to run.
pub const ANNOTATION_VERSION: &str = "etcd.version";
/// Annotation on a pod with the digests of the parts of the spec that it was made from.
pub const ANNOTATION_INPUTS: &str = "etcd.database.coreos.com/inputs";
/// Annotation on a pod whose image was changed: the ID of the container that ran until then, empty if none had.
pub const ANNOTATION_RELAUNCHED: &str = "etcd.database.coreos.com/relaunched-from";
/// Label with the zone that a pod runs in, where Kubernetes sets it on pods.
pub const LABEL_ZONE: &str = "topology.kubernetes.io/zone";
/// Annotation that says which operator, the namespaced or the cluster-wide one, looks after a resource.
pub const ANNOTATION_SCOPE: &str = "etcd.database.coreos.com/scope";
/// Annotation on an `EtcdCluster` with a time: when its members should last have been restarted one after another.
pub const ANNOTATION_RESTARTED_AT: &str = "etcd.database.coreos.com/restartedAt";
/// Annotation on a CRD with the number of the schemas that it belongs to ([`crate::crd::SCHEMA`]).
pub const ANNOTATION_SCHEMA: &str = "etcd.database.coreos.com/schema";
/// Label and annotation keys in this domain, and below it, belong to the operator.
pub const RESERVED_DOMAIN: &str = "etcd.database.coreos.com/";

/// Prefix of the label keys that Kubernetes recommends to all. Nothing of ours depends on them: they are on what is made from now on, and are
/// not put on, or back on, what is there.
pub const RECOMMENDED_LABELS: &str = "app.kubernetes.io/";
/// What manages the objects of a cluster, as those labels say it.
pub const MANAGED_BY: &str = "etcd-operator";

/// The port for clients.
pub const CLIENT_PORT: u16 = 2379;
/// The port between members.
pub const PEER_PORT: u16 = 2380;

/// How many random characters follow the dash in a member's name.
pub const MEMBER_SUFFIX_LENGTH: usize = 10;
/// The longest name a cluster can have: a pod's name is its DNS label, so 63 less the dash and the suffix.
pub const MAX_CLUSTER_NAME_LENGTH: usize = 52;

/// The Service that clients use.
#[must_use]
pub fn client_service(cluster: &str) -> String {
    format!("{cluster}-client")
}

/// The headless Service that gives each member its DNS name.
#[must_use]
pub fn peer_service(cluster: &str) -> String {
    cluster.to_owned()
}

/// The budget that keeps evictions from taking the quorum.
#[must_use]
pub fn budget(cluster: &str) -> String {
    cluster.to_owned()
}

/// The labels that Kubernetes recommends, on what is installed with the operator. Whoever installs it manages it, and may say so.
#[must_use]
pub fn operator_labels() -> BTreeMap<String, String> {
    let pairs = [("name", MANAGED_BY), ("component", "operator"), ("part-of", MANAGED_BY)];
    pairs.map(|(key, value)| (format!("{RECOMMENDED_LABELS}{key}"), value.to_owned())).into()
}

/// The label selector for all objects of a cluster, in the form of `kubectl --selector` and of the scale subresource.
#[must_use]
pub fn selector(cluster: &str) -> String {
    format!("{LABEL_APP}={LABEL_APP_VALUE},{LABEL_CLUSTER}={cluster}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_cluster_name_still_makes_dns_labels() {
        let cluster = "a".repeat(MAX_CLUSTER_NAME_LENGTH);
        assert!(client_service(&cluster).len() <= 63);
        assert_eq!(cluster.len() + 1 + MEMBER_SUFFIX_LENGTH, 63);
    }

    #[test]
    fn the_selector_is_the_one_people_type() {
        assert_eq!(selector("a"), "app=etcd,etcd_cluster=a");
    }
}
