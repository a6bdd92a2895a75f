//! A fault: a pod gets less memory than what runs in it needs, and its processes are killed for it, again and again.

use std::{io, time::Duration};

use kube::ResourceExt as _;
use tokio::time::{Instant, sleep};

use super::{Broken, Fault, FaultError, PATIENCE, failed, place::Place};
use crate::cgroup;

/// A pod that starves.
#[derive(Debug)]
pub struct Starved {
    node: String,
    pod: String,
    whose: String,
}

impl Place {
    /// Leaves all containers of this pod together so many bytes, and kills this one, which uses more now.
    pub async fn starve(&self, container: &str, bytes: u64) -> Result<Broken<Starved>, FaultError> {
        let pod = format!("pod{}", self.pod.uid().unwrap_or_default());
        let starved = Starved { node: self.node.cgroup(&self.ground.layout), pod, whose: self.name() };
        let begun = Instant::now();
        // The kernel sets no limit below what is in use.
        while let Err(error) = starved.limit(Some(bytes)) {
            if begun.elapsed() > PATIENCE {
                return Err(error);
            }
            // One that is being restarted has no process at the moment, and another container after that.
            let (namespace, pod) = (self.pod.namespace().unwrap_or_default(), self.pod.name_any());
            let _ = self.ground.place(&namespace, &pod).await.and_then(|now| now.kill(container));
            sleep(Duration::from_millis(20)).await;
        }
        Ok(Broken::new(starved))
    }
}

impl Starved {
    fn limit(&self, bytes: Option<u64>) -> Result<(), FaultError> {
        let what = || format!("the memory of {}", self.whose);
        cgroup::limit_memory(&self.node, &self.pod, bytes).map_err(|source| failed(what(), source))
    }
}

impl Fault for Starved {
    /// One whose pod is gone stays as it is.
    async fn heal(&self) -> Result<(), FaultError> {
        match self.limit(None) {
            Err(FaultError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => Ok(()),
            healed => healed,
        }
    }
}
