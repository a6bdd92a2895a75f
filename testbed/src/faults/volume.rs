//! A fault: a volume of a pod is wiped, is an older copy of itself, or is gone.

use std::path::{Path, PathBuf};

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use kube::{Api, ResourceExt as _};
use tempfile::TempDir;

use super::{Broken, Fault, FaultError, failed, place::Place};
use crate::{kit::call, machine::Machine};

/// Where a kubelet keeps the volumes of pods.
const PODS: &str = "/var/lib/kubelet/pods";

/// A volume of a pod, on the pod's node.
#[derive(Clone, Debug)]
pub struct Volume {
    machine: Machine,
    /// What the pod sees, as the machine calls it.
    path: PathBuf,
    /// The disk that it is on, if it has one of its own.
    disk: Option<Disk>,
}

#[derive(Clone, Debug)]
struct Disk {
    image: PathBuf,
    mounted_at: PathBuf,
}

/// What a volume held at some moment. It is forgotten when this is dropped.
#[derive(Debug)]
pub struct Copy(TempDir);

/// A volume that is gone: not empty, but nowhere.
#[derive(Debug)]
pub struct Gone {
    volume: Volume,
    aside: TempDir,
}

impl Place {
    /// A volume of this pod, by its name in the pod: an emptyDir, or a claim that was provisioned on the node.
    pub async fn volume(&self, name: &str) -> Result<Volume, FaultError> {
        let missing = || FaultError::Missing(format!("the volume {name} of {}", self.name()));
        let volumes = self.pod.spec.as_ref().and_then(|spec| spec.volumes.as_ref());
        let volume = volumes.into_iter().flatten().find(|volume| volume.name == name).ok_or_else(missing)?;
        let machine = self.machine.clone();
        if volume.empty_dir.is_some() {
            let uid = self.pod.uid().unwrap_or_default();
            let path = Path::new(PODS).join(uid).join("volumes/kubernetes.io~empty-dir").join(name);
            return Ok(Volume { machine, path, disk: None });
        }
        let claim = volume.persistent_volume_claim.as_ref().ok_or_else(missing)?.claim_name.clone();
        let client = self.ground.cluster().await?.client();
        let claims: Api<PersistentVolumeClaim> =
            Api::namespaced(client.clone(), &self.pod.namespace().unwrap_or_default());
        let claim = call("read a claim", claims.get(&claim)).await?;
        let bound = claim.spec.and_then(|spec| spec.volume_name).ok_or_else(missing)?;
        let bound: PersistentVolume = call("read a volume", Api::all(client).get(&bound)).await?;
        let path = bound.spec.and_then(|spec| Some(PathBuf::from(spec.local?.path))).ok_or_else(missing)?;
        let mounted_at = path.parent().ok_or_else(missing)?.to_owned();
        let disk = Disk { image: mounted_at.with_added_extension("ext4"), mounted_at };
        Ok(Volume { machine, path, disk: Some(disk) })
    }
}

impl Volume {
    /// Deletes everything on it. What has a file open goes on with it.
    pub fn wipe(&self) -> Result<(), FaultError> {
        self.machine.run(&["find", &text(&self.path), "-mindepth", "1", "-delete"])?;
        Ok(())
    }

    /// Copies everything on it.
    pub fn copy(&self) -> Result<Copy, FaultError> {
        let copy = Copy(self.folder()?);
        self.machine.run(&["cp", "-a", &text(&self.path.join(".")), &text(copy.0.path())])?;
        Ok(copy)
    }

    /// Makes it what it was when it was copied, and nothing else.
    pub fn put_back(&self, copy: &Copy) -> Result<(), FaultError> {
        self.wipe()?;
        self.machine.run(&["cp", "-a", &text(&copy.0.path().join(".")), &text(&self.path)])?;
        Ok(())
    }

    /// Takes the volume itself away. A container that runs keeps what it has; the next one does not find it.
    pub fn delete(&self) -> Result<Broken<Gone>, FaultError> {
        let gone = Gone { volume: self.clone(), aside: self.folder()? };
        let (from, to) = gone.both_places();
        let gone = Broken::new(gone);
        if let Some(disk) = &self.disk {
            // Lazily: the pod has it mounted too.
            self.machine.run(&["umount", "--lazy", &text(&disk.mounted_at)])?;
        }
        self.machine.run(&["mv", &text(&from), &text(&to)])?;
        Ok(gone)
    }

    /// A folder on the node's disk, which the machine sees at the same place.
    fn folder(&self) -> Result<TempDir, FaultError> {
        TempDir::with_prefix_in("copy-", self.machine.dir())
            .map_err(|source| failed("a folder for a copy", source))
    }
}

impl Gone {
    /// Where it belongs, and where it is meanwhile.
    fn both_places(&self) -> (PathBuf, PathBuf) {
        let home = self.volume.disk.as_ref().map_or(&self.volume.path, |disk| &disk.image);
        (home.clone(), self.aside.path().join("volume"))
    }
}

impl Fault for Gone {
    async fn heal(&self) -> Result<(), FaultError> {
        let (home, aside) = self.both_places();
        let Volume { machine, disk, .. } = &self.volume;
        if !aside.try_exists().map_err(|source| failed(text(&aside), source))? {
            return Ok(());
        }
        if disk.is_none() {
            // What was made in its place since then is not it.
            machine.run(&["rm", "-rf", "--one-file-system", &text(&home)])?;
        }
        machine.run(&["mv", &text(&aside), &text(&home)])?;
        if let Some(disk) = disk {
            let (image, point) = (text(&disk.image), text(&disk.mounted_at));
            machine.run(&["mount", "-o", "loop,errors=remount-ro", &image, &point])?;
        }
        Ok(())
    }
}

fn text(path: &Path) -> String {
    path.display().to_string()
}
