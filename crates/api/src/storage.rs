//! What users write: where backups are kept. `EtcdBackup` and `EtcdRestore` name a store in the same way.

use kube::KubeSchema;
use serde::{Deserialize, Serialize};

use crate::rules;

/// An object in Amazon S3, or in a store that speaks its language.
#[derive(KubeSchema, Clone, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct S3Source {
    /// Where the backup is: <bucket>/<key>, such as mybucket/etcd.backup.
    #[schemars(required, length(max = 1024))]
    #[x_kube(validation = rules::OBJECT_PATH)]
    pub path: Option<String>,

    /// The Secret with the AWS files `credentials` and `config`, whose profile `default` is used.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    #[x_kube(validation = rules::SECRET_NAME)]
    pub aws_secret: Option<String>,

    /// The URL of a store that is not Amazon's; empty means Amazon, and https is meant where no scheme is written.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    #[x_kube(validation = rules::STORE_ENDPOINT)]
    pub endpoint: Option<String>,

    /// Puts the bucket into the path of the URL instead of its host name, for stores that need it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub force_path_style: Option<bool>,
}

/// An object in Azure Blob Storage.
#[derive(KubeSchema, Clone, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = rules::ABS_SECRET)]
pub struct AbsSource {
    /// Where the backup is: <container>/<key>, such as mycontainer/etcd.backup. The container must exist.
    #[schemars(required, length(max = 1024))]
    #[x_kube(validation = rules::OBJECT_PATH)]
    pub path: Option<String>,

    /// The Secret with `storage-account`, `storage-key` and, for other clouds than the public one, `cloud`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    #[x_kube(validation = rules::SECRET_NAME)]
    pub abs_secret: Option<String>,
}

/// An object in Google Cloud Storage.
#[derive(KubeSchema, Clone, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GcsSource {
    /// Where the backup is: <bucket>/<key>, such as mybucket/etcd.backup.
    #[schemars(required, length(max = 1024))]
    #[x_kube(validation = rules::OBJECT_PATH)]
    pub path: Option<String>,

    /// The Secret with `access-token` or `credentials.json`. Without it the default credentials of the place are used.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    #[x_kube(validation = rules::SECRET_NAME)]
    pub gcp_secret: Option<String>,
}

/// An object in Alibaba Cloud OSS.
#[derive(KubeSchema, Clone, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = rules::OSS_SECRET)]
pub struct OssSource {
    /// Where the backup is: <bucket>/<key>, such as mybucket/etcd.backup.
    #[schemars(required, length(max = 1024))]
    #[x_kube(validation = rules::OBJECT_PATH)]
    pub path: Option<String>,

    /// The Secret with `accessKeyID` and `accessKeySecret`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    #[x_kube(validation = rules::SECRET_NAME)]
    pub oss_secret: Option<String>,

    /// The URL of the OSS region; https is meant where no scheme is written. Default: `http://oss-cn-hangzhou.aliyuncs.com`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    #[x_kube(validation = rules::STORE_ENDPOINT)]
    pub endpoint: Option<String>,
}
