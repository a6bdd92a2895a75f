//! A fault: a program of the control machine is killed, or stands still.

use std::{net::SocketAddr, time::Duration};

use k8s_openapi::api::core::v1::Namespace;
use kube::Api;
use nix::sys::signal::Signal;
use tokio::{net::TcpStream, time::timeout};

use super::{Broken, Fault, FaultError, Ground, PATIENCE, failed, until_works};
use crate::{
    cluster::binaries,
    control_plane,
    kit::call,
    machine::{ProcessId, Program},
};

/// A program of the control machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Where the API server keeps what it is told.
    Etcd,
    /// The API server.
    ApiServer,
    /// The controllers of Kubernetes.
    ControllerManager,
    /// The scheduler.
    Scheduler,
    /// The registry that stands for all others.
    Registry,
}

impl Part {
    /// All of them, in the order in which they need each other.
    pub const ALL: [Self; 5] =
        [Self::Etcd, Self::ApiServer, Self::ControllerManager, Self::Scheduler, Self::Registry];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Etcd => "etcd",
            Self::ApiServer => "kube-apiserver",
            Self::ControllerManager => "kube-controller-manager",
            Self::Scheduler => "kube-scheduler",
            Self::Registry => "registry",
        }
    }

    fn program(self, ground: &Ground) -> Result<Program, FaultError> {
        let binaries = binaries(&ground.layout)?;
        let program = match self {
            Self::Etcd => control_plane::etcd,
            Self::ApiServer => control_plane::api_server,
            Self::ControllerManager => control_plane::controller_manager,
            Self::Scheduler => control_plane::scheduler,
            Self::Registry => control_plane::registry,
        };
        Ok(program(&ground.layout, &binaries))
    }
}

/// A part that was killed.
#[derive(Debug)]
pub struct Stopped {
    ground: Ground,
    part: Part,
}

/// A part that stands still: whoever asks it gets no answer, not even a refusal.
#[derive(Debug)]
pub struct StandingStill {
    ground: Ground,
    part: Part,
    process: ProcessId,
}

impl Ground {
    /// Kills a part with SIGKILL. It is started again when it heals.
    pub fn stop(&self, part: Part) -> Result<Broken<Stopped>, FaultError> {
        let stopped = Broken::new(Stopped { ground: self.clone(), part });
        self.control()?.stop(part.name(), Signal::SIGKILL, PATIENCE)?;
        Ok(stopped)
    }

    /// Kills a part with SIGKILL, starts it again, and waits until it works.
    pub async fn restart(&self, part: Part) -> Result<(), FaultError> {
        self.stop(part)?.heal().await
    }

    /// Lets a part stand still.
    pub fn hold(&self, part: Part) -> Result<Broken<StandingStill>, FaultError> {
        let programs = self.control()?.programs()?;
        let program = programs.into_iter().find(|program| program.name == part.name());
        let program = program.ok_or_else(|| FaultError::Missing(part.name().to_owned()))?;
        let process = ProcessId::of(program.pid).map_err(|source| failed(part.name(), source))?;
        process.signal(Signal::SIGSTOP).map_err(|source| failed(part.name(), source))?;
        Ok(Broken::new(StandingStill { ground: self.clone(), part, process }))
    }

    /// Starts a part, unless it runs.
    pub(super) fn start(&self, part: Part) -> Result<(), FaultError> {
        Ok(self.control()?.start(part.program(self)?)?)
    }

    /// Waits until a part does its work.
    pub(super) async fn works(&self, part: Part) -> Result<(), FaultError> {
        match part {
            Part::Etcd | Part::ApiServer => {
                let cluster = self.cluster().await?;
                let namespaces: Api<Namespace> = Api::all(cluster.client());
                until_works(part.name(), async || {
                    cluster.readyz().await?;
                    // It calls itself ready for a while after its etcd is gone.
                    call("read a namespace", namespaces.get("default")).await.map(drop)
                })
                .await
            }
            Part::Registry => {
                let address: SocketAddr = self
                    .layout
                    .registry()
                    .parse()
                    .map_err(|_| FaultError::Missing(self.layout.registry()))?;
                until_works(part.name(), async || {
                    timeout(Duration::from_secs(5), TcpStream::connect(address)).await?.map(drop)
                })
                .await
            }
            // They answer nobody outside of their machine: what they do is seen in the cluster.
            Part::ControllerManager | Part::Scheduler => Ok(()),
        }
    }
}

impl Fault for Stopped {
    async fn heal(&self) -> Result<(), FaultError> {
        self.ground.start(self.part)?;
        self.ground.works(self.part).await
    }
}

impl Fault for StandingStill {
    async fn heal(&self) -> Result<(), FaultError> {
        self.process.signal(Signal::SIGCONT).map_err(|source| failed(self.part.name(), source))?;
        self.ground.works(self.part).await
    }
}
