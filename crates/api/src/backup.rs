//! What users write: `EtcdBackup`, a backup they want taken, once or again and again.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::{CustomResource, KubeSchema};
use serde::{Deserialize, Serialize};

use crate::{
    condition::Condition,
    lenient, rules,
    storage::{AbsSource, GcsSource, OssSource, S3Source},
};

/// The backup that should be taken.
#[allow(clippy::duplicated_attributes, reason = "two printer columns may well have the same type")]
#[derive(CustomResource, KubeSchema, Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[kube(
    group = "etcd.database.coreos.com",
    version = "v1beta2",
    kind = "EtcdBackup",
    plural = "etcdbackups",
    namespaced,
    status = "EtcdBackupStatus",
    category = "etcd-operator",
    derive = "PartialEq",
    doc = "EtcdBackup is a backup of an etcd cluster, taken once or at intervals, and kept in an object store. This operator does not take backups yet, and says so in its status.",
    printcolumn(
        name = "Storage",
        type_ = "string",
        json_path = ".spec.storageType",
        description = "The kind of store"
    ),
    printcolumn(
        name = "Succeeded",
        type_ = "boolean",
        json_path = ".status.succeeded",
        description = "Whether the last backup succeeded"
    ),
    printcolumn(
        name = "Revision",
        type_ = "integer",
        json_path = ".status.etcdRevision",
        description = "The revision that was saved"
    ),
    printcolumn(
        name = "Last",
        type_ = "date",
        json_path = ".status.lastSuccessDate",
        description = "When the last backup succeeded"
    ),
    printcolumn(
        name = "Reason",
        type_ = "string",
        json_path = ".status.Reason",
        description = "Why the last backup failed",
        priority = 1
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = rules::BACKUP_ENDPOINTS, validation = rules::BACKUP_SOURCE)]
pub struct EtcdBackupSpec {
    /// The client URLs of the cluster, all of the same one. The backup is taken from the member that is furthest.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 16), inner(length(max = 512)))]
    #[x_kube(validation = rules::ETCD_ENDPOINT)]
    pub etcd_endpoints: Option<Vec<String>>,

    /// The kind of store: S3, ABS, GCS or OSS. The block of the same name says where in it.
    #[schemars(required, length(max = 16))]
    #[x_kube(validation = rules::STORAGE_TYPE)]
    pub storage_type: Option<String>,

    /// How long a backup may take, how often it is taken and how many are kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backup_policy: Option<BackupPolicy>,

    /// Where to in Amazon S3, or in a store that speaks its language.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub s3: Option<S3Source>,

    /// Where to in Azure Blob Storage.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub abs: Option<AbsSource>,

    /// Where to in Google Cloud Storage.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gcs: Option<GcsSource>,

    /// Where to in Alibaba Cloud OSS.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub oss: Option<OssSource>,

    /// The Secret with a client certificate for the cluster: etcd-client.crt, etcd-client.key and etcd-client-ca.crt.
    #[serde(rename = "clientTLSSecret", skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    #[x_kube(validation = rules::SECRET_NAME)]
    pub client_tls_secret: Option<String>,
}

/// How backups are taken.
#[derive(KubeSchema, Clone, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BackupPolicy {
    /// For how many seconds one backup may go on. 0, the default, means 60.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[x_kube(validation = rules::BACKUP_TIMEOUT)]
    pub timeout_in_second: Option<i64>,

    /// The number of seconds from one backup to the next. 0, the default, takes one backup and no more.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[x_kube(validation = rules::BACKUP_INTERVAL)]
    pub backup_interval_in_second: Option<i64>,

    /// How many backups are kept. 0, the default, keeps all.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[x_kube(validation = rules::MAX_BACKUPS)]
    pub max_backups: Option<i64>,
}

/// What became of the backup.
#[derive(KubeSchema, Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct EtcdBackupStatus {
    /// Whether the last backup succeeded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub succeeded: Option<bool>,

    /// Why the last backup failed. The capital letter is the classic operator's.
    #[serde(rename = "Reason", skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32768))]
    pub reason: Option<String>,

    /// The version of the etcd server that the backup was taken from.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub etcd_version: Option<String>,

    /// The revision of the data in the backup.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub etcd_revision: Option<i64>,

    /// When the last backup that succeeded was begun.
    #[serde(default, deserialize_with = "lenient::time", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Time>")]
    pub last_success_date: Option<Time>,

    /// What is true of the backup right now, one entry for each type.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".to_owned()]))]
    pub conditions: Option<Vec<Condition>>,

    /// The metadata.generation that this status answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}
