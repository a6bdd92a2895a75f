//! Faults: what tests break on the testbed, and how it heals. A file per kind.
//!
//! | to break | open |
//! | --- | --- |
//! | a node, for a while or for good; its cable | [`node`] |
//! | the API server, its etcd, the controllers, the registry | [`control`] |
//! | a pod's network | [`network`] |
//! | a process in a pod | [`process`] |
//! | a pod's memory | [`memory`] |
//! | a volume | [`volume`] |
//! | DNS | [`dns`] |
//!
//! What is broken is a value, [`Broken`]: it heals when it is told to, and also when it is dropped, so that a test that
//! fails does not leave the cluster broken for the next one. What a test left that was killed itself, [`Ground::alone`] mends.

pub mod control;
pub mod dns;
pub mod memory;
mod mend;
pub mod network;
pub mod node;
pub mod place;
pub mod process;
pub mod volume;

use std::{fmt, future::Future, io, process::Command, thread, time::Duration};

use crate::{
    cgroup::CgroupError,
    cluster::{self, ClusterError},
    control_plane::Layout,
    instance::{Instance, UnknownInstance},
    kit::{Cluster, KitError, Places, wait::WaitError},
    machine::{Machine, MachineError},
    node::Node,
};

/// How long what heals may take, on a machine that is busy with other things.
const PATIENCE: Duration = Duration::from_mins(2);

/// Why something could not be broken or healed.
#[derive(Debug, thiserror::Error)]
pub enum FaultError {
    /// Somebody else's cluster.
    #[error("TESTBED_KUBECONFIG names a cluster: it is not ours to break")]
    NotOurs,
    /// `TESTBED_INSTANCE` names none.
    #[error(transparent)]
    Instance(#[from] UnknownInstance),
    /// The cluster or a part of it did not start.
    #[error(transparent)]
    Cluster(Box<ClusterError>),
    /// A machine did not do as it was told.
    #[error(transparent)]
    Machine(#[from] MachineError),
    /// A cgroup could not be made or removed.
    #[error(transparent)]
    Cgroup(#[from] CgroupError),
    /// The API server could not be asked.
    #[error(transparent)]
    Api(#[from] KitError),
    /// What was to heal did not.
    #[error(transparent)]
    Wait(#[from] WaitError),
    /// A file or a process was not as it had to be.
    #[error("{what}: {source}")]
    Io {
        /// What was attempted.
        what: String,
        /// Why it failed.
        source: io::Error,
    },
    /// What was to be broken is not there.
    #[error("{0} is not there")]
    Missing(String),
    /// It was healed, and still does not work.
    #[error("{what} does not work again after {PATIENCE:?}: {last}")]
    StillBroken {
        /// What.
        what: String,
        /// What was last seen of it.
        last: String,
    },
}

impl From<ClusterError> for FaultError {
    fn from(error: ClusterError) -> Self {
        Self::Cluster(Box::new(error))
    }
}

/// The testbed that a test may break.
#[derive(Clone, Debug)]
pub struct Ground {
    layout: Layout,
    places: Places,
}

impl Ground {
    /// The testbed that tests run on. For a test that breaks only what is its own.
    pub fn here() -> Result<Self, FaultError> {
        if Places::named().is_some() {
            return Err(FaultError::NotOurs);
        }
        let instance = Instance::chosen()?;
        let places = cluster::places(instance).ok_or(ClusterError::NotRunning)?;
        Ok(Self { layout: Layout::of(instance), places })
    }

    /// The testbed, for a test that nobody runs beside. What an earlier test left broken is mended first.
    pub async fn alone() -> Result<Self, FaultError> {
        let ground = Self::here()?;
        ground.mend().await?;
        Ok(ground)
    }

    /// Its folders and addresses.
    #[must_use]
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// A connection of its own: what heals may run where the test's connections cannot be used any more.
    async fn cluster(&self) -> Result<Cluster, FaultError> {
        Ok(Cluster::connect_to(self.places.clone()).await?)
    }

    fn control(&self) -> Result<Machine, FaultError> {
        self.machine("control")
    }

    fn node(&self, node: Node) -> Result<Machine, FaultError> {
        self.machine(&node.name())
    }

    fn machine(&self, name: &str) -> Result<Machine, FaultError> {
        Machine::find(name, &self.layout.machine(name))
            .ok_or_else(|| FaultError::Missing(format!("the machine {name}")))
    }
}

/// Something that can heal. Healing what has healed already changes nothing.
pub trait Fault: fmt::Debug + Send + 'static {
    /// Heals it, and waits until it works again.
    fn heal(&self) -> impl Future<Output = Result<(), FaultError>>;
}

/// Something that is broken until it is healed or dropped.
#[must_use = "it heals when it is dropped"]
#[derive(Debug)]
pub struct Broken<F: Fault>(Option<F>);

impl<F: Fault> Broken<F> {
    fn new(fault: F) -> Self {
        Self(Some(fault))
    }

    /// Heals it, and waits until it works again.
    pub async fn heal(mut self) -> Result<(), FaultError> {
        if let Some(fault) = &self.0 {
            fault.heal().await?;
        }
        // Only now: a test that ends in the middle of healing leaves the rest to `drop`.
        self.0 = None;
        Ok(())
    }

    /// Heals it, as a part of something else that may be healed more than once.
    async fn heal_again(&self) -> Result<(), FaultError> {
        match &self.0 {
            Some(fault) => fault.heal().await,
            None => Ok(()),
        }
    }
}

impl<F: Fault> Drop for Broken<F> {
    fn drop(&mut self) {
        let Some(fault) = self.0.take() else { return };
        // A thread of its own, because the test's runtime is the one that is ending here.
        let healed = thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.map_err(|source| failed("a runtime", source)).and_then(|it| it.block_on(fault.heal()))
        });
        match healed.join() {
            Ok(Ok(())) => {}
            Ok(Err(error)) => eprintln!("what a test broke did not heal: {error}"),
            Err(_) => eprintln!("what a test broke did not heal"),
        }
    }
}

fn failed(what: impl Into<String>, source: io::Error) -> FaultError {
    FaultError::Io { what: what.into(), source }
}

/// Runs a command of this machine, and returns what it printed.
fn here(command: &mut Command) -> Result<String, FaultError> {
    let output = command.output().map_err(|source| failed(format!("{command:?}"), source))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(failed(format!("{command:?}"), io::Error::other(said)))
}

/// Asks again and again whether something works: what comes back by itself tells nobody.
async fn until_works<E: fmt::Display>(
    what: &str,
    mut works: impl AsyncFnMut() -> Result<(), E>,
) -> Result<(), FaultError> {
    let started = tokio::time::Instant::now();
    loop {
        let last = match works().await {
            Ok(()) => return Ok(()),
            Err(error) => error.to_string(),
        };
        if started.elapsed() > PATIENCE {
            return Err(FaultError::StillBroken { what: what.to_owned(), last });
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}
