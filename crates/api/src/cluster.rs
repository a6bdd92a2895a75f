//! What users write: `EtcdCluster`, the cluster they want.

use std::time::Duration;

use kube::{CustomResource, KubeSchema};
use serde::{Deserialize, Serialize};

use crate::{
    defaults,
    pod::PodPolicy,
    rules,
    status::EtcdClusterStatus,
    tls::TlsPolicy,
    version::{self, NotAVersion},
};

/// The etcd cluster that should exist.
#[derive(CustomResource, KubeSchema, Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[kube(
    group = "etcd.database.coreos.com",
    version = "v1beta2",
    kind = "EtcdCluster",
    plural = "etcdclusters",
    namespaced,
    status = "EtcdClusterStatus",
    shortname = "etcdclus",
    shortname = "etcd",
    category = "etcd-operator",
    derive = "PartialEq",
    doc = "EtcdCluster is an etcd cluster that the operator creates, resizes, heals and removes.",
    scale(
        spec_replicas_path = ".spec.size",
        status_replicas_path = ".status.size",
        label_selector_path = ".status.labelSelector"
    ),
    printcolumn(name = "Phase", type_ = "string", json_path = ".status.phase", description = "Where the cluster is in its life"),
    printcolumn(
        name = "Available",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Available")].status"#,
        description = "Whether a read that needs a quorum succeeded in the last seconds"
    ),
    printcolumn(name = "Ready", type_ = "string", json_path = ".status.ready", description = "Members that serve, of those wanted"),
    printcolumn(
        name = "Version",
        type_ = "string",
        json_path = ".status.currentVersion",
        description = "The etcd version that the members run"
    ),
    printcolumn(
        name = "Target",
        type_ = "string",
        json_path = ".status.targetVersion",
        description = "The etcd version that the cluster is being upgraded to",
        priority = 1
    ),
    printcolumn(
        name = "Reason",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Available")].reason"#,
        description = "Why the cluster is, or is not, available",
        priority = 1
    ),
    printcolumn(
        name = "Service",
        type_ = "string",
        json_path = ".status.serviceName",
        description = "The Service for clients",
        priority = 1
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    validation = crate::rules::CLUSTER_NAME_LENGTH,
    validation = crate::rules::CLUSTER_NAME,
    validation = crate::rules::BIRTH_KEPT
)]
#[serde(rename_all = "camelCase")]
pub struct EtcdClusterSpec {
    /// How many members the cluster should have, from 1 to 7. It can be changed at any time; members are then added or removed one
    /// after another. Odd sizes are better: an even one needs one member more for the same tolerance.
    #[schemars(required)]
    #[x_kube(validation = rules::SIZE)]
    pub size: Option<i64>,

    /// The repository of the etcd image, without a tag: the image is `<repository>:v<version>`. It should hold the tags of the
    /// official one. Default: quay.io/coreos/etcd.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 255), extend("default" = defaults::REPOSITORY))]
    #[x_kube(validation = rules::REPOSITORY)]
    pub repository: Option<String>,

    /// The etcd version that the members should run, such as "3.6.14", with or without a leading "v". When it changes, the members
    /// are restarted with it one after another, on their own data; over several minors by way of each of them, and down one minor at a
    /// time where etcd can. A version that cannot be reached is named in a condition, and the members keep theirs. Two-part versions
    /// such as 3.6 are numbers in YAML and name no release: write all three parts.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64), extend("default" = defaults::VERSION))]
    #[x_kube(validation = rules::VERSION)]
    pub version: Option<String>,

    /// Stops the operator from acting on this cluster while it is true. The cluster goes on running, and deleting it still works.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paused: Option<bool>,

    /// While this is true, the API server refuses to delete this resource: set it to false first. The policy in
    /// deploy/deletion-protection.yaml, which deploy/install.yaml has as well, enforces it; where that is not installed, nothing does. It
    /// holds for whoever deletes the namespace, too, and not against deleting the CRD.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deletion_protection: Option<bool>,

    /// How a new cluster starts. Parallel, the default: all members start together. Seed: one member starts alone and the
    /// others join it one after another, as the classic operator did. It matters only until the cluster has formed.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 16))]
    #[x_kube(validation = rules::BOOTSTRAP)]
    pub bootstrap: Option<String>,

    /// When a member that is down is replaced.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub member_replacement: Option<MemberReplacement>,

    /// How the members' pods are made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod: Option<PodPolicy>,

    /// TLS between members and towards clients. Without it all traffic is in plain text. This operator does not support TLS yet: where it
    /// is asked for, no member is started, and a condition says so.
    #[serde(rename = "TLS", skip_serializing_if = "Option::is_none")]
    pub tls: Option<TlsPolicy>,
}

/// When a member that is down is replaced.
#[derive(KubeSchema, Clone, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MemberReplacement {
    /// For how many seconds a member that may come back (it is silent, it crashes, its node cannot be reached) is waited for before it is
    /// replaced: 30 to 86400, by default 300. A member whose data is certainly gone is replaced at once. Nobody is replaced while
    /// the others are no quorum.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[x_kube(validation = rules::GRACE_SECONDS)]
    pub grace_seconds: Option<i64>,
}

/// How a new cluster starts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Bootstrap {
    /// All members start together, with one token.
    #[default]
    Parallel,
    /// One member starts, the others join it one after another.
    Seed,
}

impl Bootstrap {
    /// The spelling in `spec.bootstrap`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Parallel => "Parallel",
            Self::Seed => "Seed",
        }
    }
}

impl EtcdClusterSpec {
    /// Where the image comes from.
    #[must_use]
    pub fn repository(&self) -> &str {
        defaults::unless_empty(self.repository.as_deref(), defaults::REPOSITORY)
    }

    /// The wanted etcd version without a leading `v`.
    pub fn version(&self) -> Result<&str, NotAVersion> {
        version::normalise(defaults::unless_empty(self.version.as_deref(), defaults::VERSION))
    }

    /// The image of the wanted version.
    pub fn image(&self) -> Result<String, NotAVersion> {
        Ok(format!("{}:v{}", self.repository(), self.version()?))
    }

    /// Whether the operator should leave the cluster alone.
    #[must_use]
    pub fn is_paused(&self) -> bool {
        self.paused.unwrap_or(false)
    }

    /// How long a member that may come back is waited for.
    #[must_use]
    pub fn grace(&self) -> Duration {
        let asked = self.member_replacement.as_ref().and_then(|replacement| replacement.grace_seconds);
        Duration::from_secs(
            asked.and_then(|seconds| seconds.try_into().ok()).unwrap_or(defaults::GRACE_SECONDS),
        )
    }

    /// How a new cluster starts; nothing for a word that this operator does not know, which is no reason to guess.
    #[must_use]
    pub fn bootstrap(&self) -> Option<Bootstrap> {
        match self.bootstrap.as_deref() {
            None | Some("Parallel") => Some(Bootstrap::Parallel),
            Some("Seed") => Some(Bootstrap::Seed),
            Some(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_and_empty_both_mean_the_default() {
        for spec in [
            EtcdClusterSpec::default(),
            EtcdClusterSpec {
                repository: Some(String::new()),
                version: Some(String::new()),
                ..Default::default()
            },
        ] {
            assert_eq!(spec.image(), Ok(format!("quay.io/coreos/etcd:v{}", defaults::VERSION)));
        }
    }

    #[test]
    fn the_image_has_one_v_however_the_version_is_written() {
        for version in ["3.1.10", "v3.1.10"] {
            let spec = EtcdClusterSpec { version: Some(version.to_owned()), ..Default::default() };
            assert_eq!(spec.image(), Ok("quay.io/coreos/etcd:v3.1.10".to_owned()));
        }
    }

    #[test]
    fn an_unknown_bootstrap_is_not_guessed() {
        let of = |word: Option<&str>| {
            EtcdClusterSpec { bootstrap: word.map(str::to_owned), ..Default::default() }.bootstrap()
        };
        assert_eq!(of(None), Some(Bootstrap::Parallel));
        for bootstrap in [Bootstrap::Parallel, Bootstrap::Seed] {
            assert_eq!(of(Some(bootstrap.as_str())), Some(bootstrap));
        }
        assert_eq!(of(Some("seed")), None);
    }
}
