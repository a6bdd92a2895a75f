//! Beside the loop: the JSON documents of an OCI image.
//!
//! They are structs, not maps, so that a field's place never depends on how a JSON library was compiled: digests stay equal.
use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};
use sha2::Digest as _;

use crate::cache::hex;

pub(super) const LAYER: &str = "application/vnd.oci.image.layer.v1.tar";
pub(super) const CONFIG: &str = "application/vnd.oci.image.config.v1+json";
pub(crate) const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
pub(super) const INDEX: &str = "application/vnd.oci.image.index.v1+json";

/// The SHA-256 of a blob, written `sha256:…`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Digest(String);

impl Digest {
    pub(super) fn of(bytes: &[u8]) -> Self {
        Self::finished(sha2::Sha256::new_with_prefix(bytes))
    }

    pub(super) fn finished(hash: sha2::Sha256) -> Self {
        Self(format!("sha256:{}", hex(&hash.finalize())))
    }

    /// The whole digest, with its algorithm.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Only the hexadecimal digits, as a blob's file is called.
    pub(super) fn digits(&self) -> &str {
        self.0.strip_prefix("sha256:").unwrap_or(&self.0)
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// How a container of the image is run.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct Run {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) user: Option<String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty", default)]
    pub(super) exposed_ports: BTreeMap<String, EmptyObject>,
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub(super) env: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub(super) entrypoint: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub(super) cmd: Vec<String>,
}

/// The empty object that stands for "present".
pub(super) type EmptyObject = BTreeMap<String, String>;

#[derive(Serialize, Deserialize)]
pub(super) struct Config {
    pub(super) architecture: String,
    pub(super) os: String,
    #[serde(rename = "config")]
    pub(super) run: Run,
    pub(super) rootfs: RootFs,
}

#[derive(Serialize, Deserialize)]
pub(super) struct RootFs {
    pub(super) r#type: String,
    pub(super) diff_ids: Vec<Digest>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Manifest {
    pub(super) schema_version: u8,
    pub(super) media_type: String,
    pub(super) config: Descriptor,
    pub(super) layers: Vec<Descriptor>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Index {
    pub(super) schema_version: u8,
    pub(super) media_type: String,
    pub(super) manifests: Vec<Descriptor>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Descriptor {
    pub(super) media_type: String,
    pub(super) digest: Digest,
    pub(super) size: u64,
    #[serde(skip_serializing_if = "BTreeMap::is_empty", default)]
    pub(super) annotations: BTreeMap<String, String>,
}

impl Descriptor {
    pub(super) fn new(media_type: &str, digest: &Digest, size: u64) -> Self {
        Self { media_type: media_type.to_owned(), digest: digest.clone(), size, annotations: BTreeMap::new() }
    }
}

/// The name that OCI images use for this machine's processor.
pub(super) fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}
