//! A fault: a process in a pod stands still, or is killed.

use nix::sys::signal::Signal;

use super::{Broken, Fault, FaultError, failed, place::Place};
use crate::machine::ProcessId;

/// A process that stands still: it neither answers nor notices that time passes.
#[derive(Debug)]
pub struct Frozen {
    process: ProcessId,
    whose: String,
}

impl Place {
    /// Lets the first process of a container stand still.
    pub fn freeze(&self, container: &str) -> Result<Broken<Frozen>, FaultError> {
        let (process, whose) = (self.process(container)?, self.name());
        process.signal(Signal::SIGSTOP).map_err(|source| failed(&whose, source))?;
        Ok(Broken::new(Frozen { process, whose }))
    }

    /// Kills the first process of a container with SIGKILL. What becomes of the container is the kubelet's to decide.
    pub fn kill(&self, container: &str) -> Result<ProcessId, FaultError> {
        let process = self.process(container)?;
        process.signal(Signal::SIGKILL).map_err(|source| failed(self.name(), source))?;
        Ok(process)
    }
}

impl Fault for Frozen {
    /// One that was killed meanwhile stays as it is.
    async fn heal(&self) -> Result<(), FaultError> {
        self.process.signal(Signal::SIGCONT).map_err(|source| failed(&self.whose, source))
    }
}
