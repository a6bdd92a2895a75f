//! The whole cluster on this machine: start it, remove it, say how it is.

mod down;
mod record;
mod status;
mod up;

use std::{
    fs::{File, OpenOptions},
    io,
    path::{Path, PathBuf},
};

use crate::{
    addons::{AddonError, DnsAnswers},
    cache::CacheError,
    cgroup::CgroupError,
    control_plane::Layout,
    host::HostError,
    image::ImageError,
    images::{EtcdVersion, ImagesError},
    instance::Instance,
    kit::{KitError, Places, wait::WaitError},
    machine::{Machine, MachineError},
    network::NetworkError,
    pki::PkiError,
    push::PushError,
};

pub use record::NODES;
pub use status::Status;
pub(crate) use up::{binaries, start_node};

/// What can be asked of a cluster's start.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Which testbed.
    pub instance: Instance,
    /// Whose cluster it is: a running one that belongs to another checkout is left alone.
    pub checkout: PathBuf,
    /// The etcd versions whose images can be pulled.
    pub etcd: Vec<EtcdVersion>,
    /// How DNS answers.
    pub dns: DnsAnswers,
}

/// Why a cluster could not be started, removed or looked at.
#[derive(Debug, thiserror::Error)]
pub enum ClusterError {
    /// The machine lacks something.
    #[error(transparent)]
    Host(#[from] HostError),
    /// Something could not be built.
    #[error(transparent)]
    Cache(#[from] CacheError),
    /// An image could not be made.
    #[error(transparent)]
    Image(#[from] ImageError),
    /// The parts of an image are not there.
    #[error(transparent)]
    Images(#[from] ImagesError),
    /// An image could not be pushed.
    #[error(transparent)]
    Push(#[from] PushError),
    /// A machine did not do as it was told.
    #[error(transparent)]
    Machine(#[from] MachineError),
    /// A cgroup could not be made or removed.
    #[error(transparent)]
    Cgroup(#[from] CgroupError),
    /// The network could not be made.
    #[error(transparent)]
    Network(#[from] NetworkError),
    /// Certificates could not be made.
    #[error(transparent)]
    Pki(#[from] PkiError),
    /// The API server could not be used.
    #[error(transparent)]
    Api(#[from] KitError),
    /// Something did not come up.
    #[error(transparent)]
    Wait(#[from] WaitError),
    /// An add-on could not be installed.
    #[error(transparent)]
    Addon(#[from] AddonError),
    /// A file could not be read, written or removed.
    #[error("{path}: {source}")]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Somebody else's.
    #[error(
        "the cluster on this machine belongs to the checkout {} and is running: run `make cluster-down` there first",
        owner.display()
    )]
    Foreign {
        /// Whose it is.
        owner: PathBuf,
    },
    /// A program of the control plane ended.
    #[error("{program} ended while it was waited for ({how}); its log is {log}, and ends with:\n{last}")]
    Ended {
        /// Which.
        program: String,
        /// How.
        how: String,
        /// Where it logs.
        log: PathBuf,
        /// The log's last lines.
        last: String,
    },
    /// The API server does not answer.
    #[error(
        "the API server did not become ready within {seconds} s; its log is {log}, and its last answer was: {answer}"
    )]
    NotReady {
        /// How long it was waited for.
        seconds: u64,
        /// Where it logs.
        log: PathBuf,
        /// What was last heard.
        answer: String,
    },
    /// There is none.
    #[error("no cluster runs on this machine: start one with `make cluster-up`")]
    NotRunning,
}

/// Builds everything that a cluster needs, without starting one.
pub fn build(settings: &Settings) -> Result<(), ClusterError> {
    up::build_all(settings)
}

/// Starts the cluster, or repairs what is left of one. A running one is used as it is.
pub async fn up(settings: &Settings) -> Result<(), ClusterError> {
    up::up(settings).await
}

/// Removes the cluster, or what is left of one.
pub fn down(instance: Instance, checkout: &Path) -> Result<(), ClusterError> {
    down::down(instance, checkout)
}

/// Says what runs where, and how much memory it takes.
pub async fn status(instance: Instance) -> Result<Status, ClusterError> {
    status::status(instance).await
}

/// The administrator's kubeconfig of a cluster that is up on this machine.
#[must_use]
pub fn kubeconfig(instance: Instance) -> Option<PathBuf> {
    places(instance).map(|places| places.kubeconfig)
}

/// The machines of an instance that were started and are not removed: the control plane's, then the nodes'. They may be dead.
#[must_use]
pub fn machines(instance: Instance) -> Vec<Machine> {
    let layout = Layout::of(instance);
    record::machine_names().iter().filter_map(|name| record::machine(&layout, name)).collect()
}

/// Lets all nodes that run forget an image, so that they pull it anew: its name may stand for another one now, and a node that has one of
/// that name does not ask.
pub fn forget_image(instance: Instance, image: &str) -> Result<(), MachineError> {
    let forget = ["ctr", "--namespace=k8s.io", "images", "rm", image];
    machines(instance)
        .iter()
        .filter(|machine| machine.name() != record::CONTROL && machine.is_alive())
        .try_for_each(|node| node.run(&forget).map(drop))
}

/// Where tests find the parts of a cluster that is up on this machine.
#[must_use]
pub fn places(instance: Instance) -> Option<Places> {
    let layout = Layout::of(instance);
    match record::look(&layout) {
        record::Found::Running { record, .. } => Some(Places {
            kubeconfig: layout.kubeconfig("admin"),
            kubectl: record.kubernetes.join("kubectl"),
            audit_log: Some(layout.audit_log()),
        }),
        _ => None,
    }
}

/// Lets nobody else start or remove this instance's cluster while the file is open.
fn lock(instance: Instance) -> Result<File, ClusterError> {
    let path = instance.lock_file();
    let failed = |source| ClusterError::File { path: path.clone(), source };
    let file = OpenOptions::new().create(true).write(true).truncate(false).open(&path).map_err(failed)?;
    if file.try_lock().is_err() {
        println!("another command is starting or removing the cluster; waiting for it");
        file.lock().map_err(failed)?;
    }
    Ok(file)
}
