//! What users write: `spec.pod` of an `EtcdCluster`, how members' pods are made.

use std::collections::BTreeMap;

use k8s_openapi::{
    api::core::v1::{
        Affinity, EnvVar, LocalObjectReference, PersistentVolumeClaimSpec, PodAffinityTerm, PodAntiAffinity,
        PodSecurityContext, ResourceRequirements, Toleration, TopologySpreadConstraint,
    },
    apimachinery::pkg::apis::meta::v1::LabelSelector,
};
use kube::KubeSchema;
use serde::{Deserialize, Serialize};

use crate::{defaults, lenient, names, rules};

/// How the members' pods are made.
#[derive(KubeSchema, Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PodPolicy {
    /// Labels for the pods. `app`, keys that start with `etcd_` and keys in the domain etcd.database.coreos.com are the operator's.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("maxProperties" = 64))]
    #[x_kube(validation = rules::LABELS_RESERVED, validation = rules::LABELS_VALID)]
    pub labels: Option<BTreeMap<String, String>>,

    /// Annotations for the pods. `etcd.version` and keys in the domain etcd.database.coreos.com are the operator's.
    #[serde(skip_serializing_if = "Option::is_none")]
    // Tools keep whole documents in them.
    #[schemars(extend("maxProperties" = 64, "additionalProperties" = {"type": "string", "maxLength": 65536}))]
    #[x_kube(validation = rules::ANNOTATIONS_RESERVED, validation = rules::ANNOTATIONS_VALID, validation = rules::ANNOTATIONS_SIZE)]
    pub annotations: Option<BTreeMap<String, String>>,

    /// Labels that a node must have for members to run on it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("maxProperties" = 64))]
    #[x_kube(validation = rules::NODE_SELECTOR)]
    pub node_selector: Option<BTreeMap<String, String>>,

    /// Where members may run and which other pods they should be near to or apart from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub affinity: Option<Affinity>,

    /// Deprecated, use affinity: true keeps two members of this cluster from ever sharing a node. Ignored where affinity is set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub anti_affinity: Option<bool>,

    /// CPU and memory of the containers in the pod.
    #[serde(default, deserialize_with = "lenient::resources", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<ResourceRequirements>")]
    pub resources: Option<ResourceRequirements>,

    /// Taints of nodes that members put up with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tolerations: Option<Vec<Toleration>>,

    /// How members are spread over nodes and zones. Without it they are spread over both where that is possible, and run all the same
    /// where it is not. A constraint without a label selector is about the members of this cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 16))]
    pub topology_spread_constraints: Option<Vec<TopologySpreadConstraint>>,

    /// The priority class of the pods: what may be preempted for them, and for what they may be.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    #[x_kube(validation = rules::PRIORITY_CLASS)]
    pub priority_class_name: Option<String>,

    /// Secrets in the same namespace with which images are pulled.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 16))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".to_owned()]))]
    pub image_pull_secrets: Option<Vec<LocalObjectReference>>,

    /// When the etcd image is pulled: Always, Never, or `IfNotPresent`, which is the default.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 16))]
    #[x_kube(validation = rules::PULL_POLICY)]
    pub image_pull_policy: Option<String>,

    /// Environment variables of the etcd container, such as `ETCD_AUTO_COMPACTION_RETENTION`, each name once. Variables that would change a
    /// member's identity, data directory, URLs, cluster or TLS, or lead its traffic through a proxy, are refused. So are values out of
    /// Secrets, `ConfigMaps` and files.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    #[x_kube(
        merge_strategy = ListMerge::Map(vec!["name".to_owned()]),
        validation = rules::ENV_NAMES, validation = rules::ENV_RESERVED, validation = rules::ENV_SOURCES
    )]
    pub etcd_env: Option<Vec<EnvVar>>,

    /// The claim that each member keeps its data on. Without it the data lives and dies with the pod. This operator does not support
    /// claims yet: where one is asked for, no member is started, and a condition says so.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[x_kube(validation = rules::CLAIM_STORAGE, validation = rules::CLAIM_MODE, validation = rules::CLAIM_NAMESPACE)]
    pub persistent_volume_claim_spec: Option<PersistentVolumeClaimSpec>,

    /// Deprecated: image of the classic operator's DNS check. This operator's own init container needs no busybox, so the
    /// value is accepted and has no effect.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 512))]
    #[x_kube(validation = rules::BUSYBOX_IMAGE)]
    pub busybox_image: Option<String>,

    /// The security context of the whole pod: user, groups, seccomp, sysctls.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub security_context: Option<PodSecurityContext>,

    /// For how many seconds a member waits for its own DNS name before it gives up; 0, the default, waits without limit. Members wait
    /// for DNS only where their names must resolve, which is with TLS.
    #[serde(rename = "DNSTimeoutInSecond", skip_serializing_if = "Option::is_none")]
    #[x_kube(validation = rules::DNS_TIMEOUT)]
    pub dns_timeout_in_second: Option<i64>,

    /// The cluster's DNS domain with a leading dot, such as .cluster.local. It is appended to the members' host names, which end with
    /// .svc without it.
    #[serde(rename = "ClusterDomain", skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    #[x_kube(validation = rules::CLUSTER_DOMAIN)]
    pub cluster_domain: Option<String>,
}

impl PodPolicy {
    /// The affinity of this cluster's pods: what was asked for, or what the deprecated `antiAffinity` stands for.
    #[must_use]
    pub fn affinity_for(&self, cluster: &str) -> Option<Affinity> {
        if self.affinity.is_some() || !self.anti_affinity.unwrap_or(false) {
            return self.affinity.clone();
        }
        let same_cluster = BTreeMap::from([(names::LABEL_CLUSTER.to_owned(), cluster.to_owned())]);
        let term = PodAffinityTerm {
            label_selector: Some(LabelSelector { match_labels: Some(same_cluster), ..Default::default() }),
            topology_key: "kubernetes.io/hostname".to_owned(),
            ..Default::default()
        };
        Some(Affinity {
            pod_anti_affinity: Some(PodAntiAffinity {
                required_during_scheduling_ignored_during_execution: Some(vec![term]),
                ..Default::default()
            }),
            ..Default::default()
        })
    }

    /// What follows `.svc` in members' host names.
    #[must_use]
    pub fn cluster_domain(&self) -> &str {
        self.cluster_domain.as_deref().unwrap_or_default()
    }

    /// Whether someone chose a busybox image, rather than an old tool having written the default.
    #[must_use]
    pub fn chooses_busybox(&self) -> bool {
        !matches!(self.busybox_image.as_deref(), None | Some("" | defaults::BUSYBOX_IMAGE))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn anti_affinity_counts_only_without_affinity() {
        let chosen = Some(Affinity::default());
        let table = [
            (None, None, None),
            (None, Some(false), None),
            (chosen.clone(), Some(true), chosen.clone()),
            (chosen.clone(), None, chosen.clone()),
        ];
        for (affinity, anti_affinity, expected) in table {
            let policy = PodPolicy { affinity, anti_affinity, ..Default::default() };
            assert_eq!(policy.affinity_for("a"), expected);
        }
    }

    #[test]
    fn anti_affinity_keeps_members_of_one_cluster_apart() {
        let policy = PodPolicy { anti_affinity: Some(true), ..Default::default() };
        let terms = policy
            .affinity_for("a")
            .and_then(|all| all.pod_anti_affinity)
            .and_then(|anti| anti.required_during_scheduling_ignored_during_execution)
            .unwrap();
        assert_eq!(terms.len(), 1);
        assert_eq!(terms[0].topology_key, "kubernetes.io/hostname");
        let labels = terms[0].label_selector.as_ref().and_then(|s| s.match_labels.as_ref()).unwrap();
        assert_eq!(labels, &BTreeMap::from([("etcd_cluster".to_owned(), "a".to_owned())]));
    }
}
