//! The provisioner of one node's volumes: each a file system of its real size on the node's disk, bound to the node.
//!
//! One runs on every node, as a driver's node part does: when the node is lost, so are its volumes, and what is to be
//! deleted on it waits for its return.

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use futures::StreamExt as _;
use k8s_openapi::{
    api::{
        core::v1::{
            LocalVolumeSource, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, ObjectReference,
            PersistentVolume, PersistentVolumeClaim, PersistentVolumeSpec, VolumeNodeAffinity,
        },
        storage::v1::StorageClass,
    },
    apimachinery::pkg::api::resource::Quantity,
};
use kube::{
    Api, Client, ResourceExt as _,
    api::{DeleteParams, ObjectMeta, PostParams},
    runtime::{
        controller::{Action, Controller},
        watcher,
    },
};
use tokio::process::Command;

/// The name by which storage classes call this provisioner.
pub const PROVISIONER: &str = "etcd-operator.testbed/node-disk";

const PROVISIONED_BY: &str = "pv.kubernetes.io/provisioned-by";
const CLAIM_PROVISIONER: &str = "volume.kubernetes.io/storage-provisioner";
const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";
const HOSTNAME: &str = "kubernetes.io/hostname";
/// Smaller file systems are mostly their own journal; a claim may be given more than it asks for.
const SMALLEST: u64 = 16 << 20;

/// What went wrong with a volume.
#[derive(Debug, thiserror::Error)]
pub enum VolumeError {
    /// The API server did not do it.
    #[error("the API server was asked for {what}: {source}")]
    Api {
        /// What was asked.
        what: &'static str,
        /// Its answer.
        source: kube::Error,
    },
    /// The disk did not do it.
    #[error("{path}: {source}")]
    Disk {
        /// Where.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A command failed.
    #[error("`{command}` failed: {reason}")]
    Command {
        /// Which.
        command: String,
        /// What it said.
        reason: String,
    },
    /// The claim's size is not one.
    #[error("the claim asks for {0:?}, which is not a size")]
    Size(String),
}

struct Provisioner {
    client: Client,
    node: String,
    disk: PathBuf,
}

/// Provisions the volumes of `node` for ever. `disk` is the folder that holds them.
pub async fn run(client: Client, node: String, disk: PathBuf) -> Result<(), VolumeError> {
    let provisioner = Arc::new(Provisioner { client: client.clone(), node, disk });
    provisioner.mount_all().await?;
    let claims =
        Controller::new(Api::<PersistentVolumeClaim>::all(client.clone()), watcher::Config::default())
            .run(provision, retry, Arc::clone(&provisioner))
            .for_each(|_| async {});
    let volumes = Controller::new(Api::<PersistentVolume>::all(client), watcher::Config::default())
        .run(reclaim, retry, provisioner)
        .for_each(|_| async {});
    futures::join!(claims, volumes);
    Ok(())
}

fn retry<K>(_: Arc<K>, error: &VolumeError, _: Arc<Provisioner>) -> Action {
    eprintln!("{error}");
    Action::requeue(Duration::from_secs(2))
}

async fn provision(claim: Arc<PersistentVolumeClaim>, own: Arc<Provisioner>) -> Result<Action, VolumeError> {
    if !is_ours(&claim, &own.node) {
        return Ok(Action::await_change());
    }
    let name = format!("pvc-{}", claim.uid().unwrap_or_default());
    let size = wanted_size(&claim)?.max(SMALLEST);
    own.make(&name, size).await?;
    let class = claim.spec.as_ref().and_then(|spec| spec.storage_class_name.clone()).unwrap_or_default();
    let class = Api::<StorageClass>::all(own.client.clone())
        .get(&class)
        .await
        .map_err(|source| VolumeError::Api { what: "the claim's storage class", source })?;
    let volume = own.volume(&claim, &class, &name, size);
    match Api::all(own.client.clone()).create(&PostParams::default(), &volume).await {
        Ok(_) => {}
        // Made before the last crash, or by the last event: the claim will be bound to it.
        Err(kube::Error::Api(status)) if status.code == 409 => {}
        Err(source) => return Err(VolumeError::Api { what: "a new volume", source }),
    }
    Ok(Action::await_change())
}

/// Whether the scheduler chose this node for a claim that is to be provisioned here and is not bound yet.
fn is_ours(claim: &PersistentVolumeClaim, node: &str) -> bool {
    let annotation = |key: &str| claim.annotations().get(key).map(String::as_str);
    claim.metadata.deletion_timestamp.is_none()
        && claim.spec.as_ref().is_some_and(|spec| spec.volume_name.as_deref().unwrap_or_default().is_empty())
        && annotation(CLAIM_PROVISIONER) == Some(PROVISIONER)
        && annotation(SELECTED_NODE) == Some(node)
}

async fn reclaim(volume: Arc<PersistentVolume>, own: Arc<Provisioner>) -> Result<Action, VolumeError> {
    if is_released(&volume, &own.node) {
        own.destroy(&volume.name_any()).await?;
        let deleted = Api::<PersistentVolume>::all(own.client.clone())
            .delete(&volume.name_any(), &DeleteParams::default())
            .await;
        match deleted {
            Ok(_) => {}
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            Err(source) => return Err(VolumeError::Api { what: "the end of a volume", source }),
        }
    }
    Ok(Action::await_change())
}

/// Whether a volume of this node is no longer needed by anybody.
fn is_released(volume: &PersistentVolume, node: &str) -> bool {
    volume.metadata.deletion_timestamp.is_none()
        && volume.annotations().get(PROVISIONED_BY).is_some_and(|by| by == PROVISIONER)
        && volume.labels().get(HOSTNAME).is_some_and(|at| at == node)
        && volume.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Released")
        && volume.spec.as_ref().and_then(|spec| spec.persistent_volume_reclaim_policy.as_deref())
            == Some("Delete")
}

impl Provisioner {
    fn image(&self, volume: &str) -> PathBuf {
        self.disk.join(format!("{volume}.ext4"))
    }

    fn mount_point(&self, volume: &str) -> PathBuf {
        self.disk.join(volume)
    }

    /// After a reboot: everything that is on the disk is mounted again.
    async fn mount_all(&self) -> Result<(), VolumeError> {
        let failed = |source| VolumeError::Disk { path: self.disk.clone(), source };
        fs::create_dir_all(&self.disk).map_err(failed)?;
        for entry in fs::read_dir(&self.disk).map_err(failed)? {
            let path = entry.map_err(failed)?.path();
            if path.extension().is_some_and(|extension| extension == "ext4")
                && let Some(volume) = path.file_stem().and_then(|stem| stem.to_str())
            {
                self.mount(volume).await?;
            }
        }
        Ok(())
    }

    async fn make(&self, volume: &str, size: u64) -> Result<(), VolumeError> {
        let image = self.image(volume);
        if !image.exists() {
            // Formatted under another name: what has the right one is whole.
            let raw = self.disk.join(format!("{volume}.raw"));
            let failed = |source| VolumeError::Disk { path: raw.clone(), source };
            fs::File::create(&raw).and_then(|file| file.set_len(size)).map_err(failed)?;
            run_command(
                Command::new("mkfs.ext4")
                    .args(["-q", "-F", "-m", "0", "-E", "lazy_itable_init=1,nodiscard"])
                    .arg(&raw),
            )
            .await?;
            fs::rename(&raw, &image).map_err(failed)?;
        }
        self.mount(volume).await
    }

    async fn mount(&self, volume: &str) -> Result<(), VolumeError> {
        let point = self.mount_point(volume);
        let failed = |source| VolumeError::Disk { path: point.clone(), source };
        fs::create_dir_all(&point).map_err(failed)?;
        if !is_mounted(&point).map_err(failed)? {
            let image = self.image(volume);
            run_command(Command::new("mount").args(["-o", "loop,errors=remount-ro"]).arg(image).arg(&point))
                .await?;
        }
        // Pods get a folder below the mount: if the mount is missing, they do not start on an empty folder instead.
        fs::create_dir_all(point.join("data")).map_err(failed)
    }

    async fn destroy(&self, volume: &str) -> Result<(), VolumeError> {
        let point = self.mount_point(volume);
        let failed = |source| VolumeError::Disk { path: point.clone(), source };
        if is_mounted(&point).map_err(failed)? {
            run_command(Command::new("umount").arg(&point)).await?;
        }
        for gone in [fs::remove_file(self.image(volume)), fs::remove_dir(&point)] {
            match gone {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
                _ => {}
            }
        }
        Ok(())
    }

    fn volume(
        &self,
        claim: &PersistentVolumeClaim,
        class: &StorageClass,
        name: &str,
        size: u64,
    ) -> PersistentVolume {
        let spec = claim.spec.clone().unwrap_or_default();
        let here = NodeSelectorRequirement {
            key: HOSTNAME.to_owned(),
            operator: "In".to_owned(),
            values: Some(vec![self.node.clone()]),
        };
        PersistentVolume {
            metadata: ObjectMeta {
                name: Some(name.to_owned()),
                labels: Some(BTreeMap::from([(HOSTNAME.to_owned(), self.node.clone())])),
                annotations: Some(BTreeMap::from([(PROVISIONED_BY.to_owned(), PROVISIONER.to_owned())])),
                ..ObjectMeta::default()
            },
            spec: Some(PersistentVolumeSpec {
                access_modes: spec.access_modes,
                capacity: Some(BTreeMap::from([("storage".to_owned(), Quantity(size.to_string()))])),
                claim_ref: Some(ObjectReference {
                    api_version: Some("v1".to_owned()),
                    kind: Some("PersistentVolumeClaim".to_owned()),
                    namespace: claim.namespace(),
                    name: claim.metadata.name.clone(),
                    uid: claim.uid(),
                    ..ObjectReference::default()
                }),
                local: Some(LocalVolumeSource {
                    path: self.mount_point(name).join("data").display().to_string(),
                    fs_type: None,
                }),
                node_affinity: Some(VolumeNodeAffinity {
                    required: Some(NodeSelector {
                        node_selector_terms: vec![NodeSelectorTerm {
                            match_expressions: Some(vec![here]),
                            match_fields: None,
                        }],
                    }),
                }),
                persistent_volume_reclaim_policy: class.reclaim_policy.clone(),
                storage_class_name: spec.storage_class_name,
                volume_mode: spec.volume_mode,
                ..PersistentVolumeSpec::default()
            }),
            status: None,
        }
    }
}

fn is_mounted(point: &Path) -> io::Result<bool> {
    let mounts = fs::read_to_string("/proc/self/mountinfo")?;
    Ok(mounts.lines().any(|line| line.split(' ').nth(4).is_some_and(|at| Path::new(at) == point)))
}

async fn run_command(command: &mut Command) -> Result<(), VolumeError> {
    let failed = |command: &Command, reason: String| VolumeError::Command {
        command: format!("{:?}", command.as_std()),
        reason,
    };
    let output = command.output().await.map_err(|error| failed(command, error.to_string()))?;
    if output.status.success() {
        Ok(())
    } else {
        Err(failed(command, String::from_utf8_lossy(&output.stderr).trim().to_owned()))
    }
}

fn wanted_size(claim: &PersistentVolumeClaim) -> Result<u64, VolumeError> {
    let request = claim
        .spec
        .as_ref()
        .and_then(|spec| spec.resources.as_ref()?.requests.as_ref()?.get("storage"))
        .map(|quantity| quantity.0.clone())
        .unwrap_or_default();
    bytes(&request).ok_or(VolumeError::Size(request))
}

/// A quantity in bytes. By hand, because the API server has already refused all that is not one, and the fractions and
/// exponents that a library would bring make no sense for a disk.
fn bytes(quantity: &str) -> Option<u64> {
    const SUFFIXES: [(&str, u64); 9] = [
        ("Ki", 1 << 10),
        ("Mi", 1 << 20),
        ("Gi", 1 << 30),
        ("Ti", 1 << 40),
        ("k", 1_000),
        ("M", 1_000_000),
        ("G", 1_000_000_000),
        ("T", 1_000_000_000_000),
        ("", 1),
    ];
    SUFFIXES
        .iter()
        .find_map(|(suffix, factor)| quantity.strip_suffix(suffix)?.parse::<u64>().ok()?.checked_mul(*factor))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_as_kubernetes_writes_them() {
        for (text, expected) in [
            ("1Gi", Some(1 << 30)),
            ("256Mi", Some(256 << 20)),
            ("500M", Some(500_000_000)),
            ("1048576", Some(1 << 20)),
            ("", None),
            ("many", None),
            ("99999999999Ti", None),
        ] {
            assert_eq!(bytes(text), expected, "{text:?}");
        }
    }

    #[test]
    fn only_an_unbound_claim_that_was_given_to_this_node_is_provisioned() {
        let claim = |node: &str, by: &str, volume: &str| -> PersistentVolumeClaim {
            serde_json::from_value(serde_json::json!({
                "metadata": {"name": "c", "annotations": {CLAIM_PROVISIONER: by, SELECTED_NODE: node}},
                "spec": {"volumeName": volume},
            }))
            .unwrap()
        };
        assert!(is_ours(&claim("node1", PROVISIONER, ""), "node1"));
        assert!(!is_ours(&claim("node2", PROVISIONER, ""), "node1"));
        assert!(!is_ours(&claim("node1", "somebody/else", ""), "node1"));
        assert!(!is_ours(&claim("node1", PROVISIONER, "pvc-1"), "node1"));
    }

    #[test]
    fn only_a_released_volume_of_this_node_that_may_go_is_reclaimed() {
        let volume = |node: &str, phase: &str, policy: &str| -> PersistentVolume {
            serde_json::from_value(serde_json::json!({
                "metadata": {"name": "v", "labels": {HOSTNAME: node}, "annotations": {PROVISIONED_BY: PROVISIONER}},
                "spec": {"persistentVolumeReclaimPolicy": policy},
                "status": {"phase": phase},
            }))
            .unwrap()
        };
        assert!(is_released(&volume("node1", "Released", "Delete"), "node1"));
        assert!(!is_released(&volume("node1", "Bound", "Delete"), "node1"));
        assert!(!is_released(&volume("node1", "Released", "Retain"), "node1"));
        assert!(!is_released(&volume("node2", "Released", "Delete"), "node1"));
    }
}
