//! What users write: `EtcdRestore`, a cluster they want back from a backup.

use kube::{CustomResource, KubeSchema};
use serde::{Deserialize, Serialize};

use crate::{
    condition::Condition,
    rules,
    storage::{AbsSource, GcsSource, OssSource, S3Source},
};

/// The restore that should be done.
#[derive(CustomResource, KubeSchema, Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[kube(
    group = "etcd.database.coreos.com",
    version = "v1beta2",
    kind = "EtcdRestore",
    plural = "etcdrestores",
    namespaced,
    status = "EtcdRestoreStatus",
    category = "etcd-operator",
    derive = "PartialEq",
    doc = "EtcdRestore brings an etcd cluster back to the data of a backup. It has the name of the cluster. This operator does not restore yet, and says so in its status.",
    printcolumn(name = "Cluster", type_ = "string", json_path = ".spec.etcdCluster.name", description = "The cluster to restore"),
    printcolumn(name = "Storage", type_ = "string", json_path = ".spec.backupStorageType", description = "The kind of store"),
    printcolumn(name = "Succeeded", type_ = "boolean", json_path = ".status.succeeded", description = "Whether the restore succeeded"),
    printcolumn(name = "Reason", type_ = "string", json_path = ".status.reason", description = "Why the restore failed", priority = 1),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    validation = crate::rules::RESTORE_NAME
)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = rules::RESTORE_SOURCE)]
pub struct EtcdRestoreSpec {
    /// The kind of store that holds the backup: S3, ABS, GCS or OSS. The block of the same name says where in it.
    #[schemars(required, length(max = 16))]
    #[x_kube(validation = rules::STORAGE_TYPE)]
    pub backup_storage_type: Option<String>,

    /// Where from in Amazon S3, or in a store that speaks its language.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub s3: Option<S3Source>,

    /// Where from in Azure Blob Storage.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub abs: Option<AbsSource>,

    /// Where from in Google Cloud Storage.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gcs: Option<GcsSource>,

    /// Where from in Alibaba Cloud OSS.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub oss: Option<OssSource>,

    /// The cluster to restore, in the same namespace. Its present data is replaced.
    #[schemars(required)]
    pub etcd_cluster: Option<EtcdClusterRef>,
}

/// A cluster in the same namespace.
#[derive(KubeSchema, Clone, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct EtcdClusterRef {
    /// The name of the `EtcdCluster`.
    #[schemars(required, length(min = 1, max = 253))]
    pub name: Option<String>,
}

/// What became of the restore.
#[derive(KubeSchema, Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct EtcdRestoreStatus {
    /// Whether the restore succeeded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub succeeded: Option<bool>,

    /// Why the restore failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32768))]
    pub reason: Option<String>,

    /// What is true of the restore right now, one entry for each type.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".to_owned()]))]
    pub conditions: Option<Vec<Condition>>,

    /// The metadata.generation that this status answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}
