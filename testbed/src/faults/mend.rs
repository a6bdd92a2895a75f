//! Mending, from what is seen and not from what was written down: a test that was killed had no time to heal anything.

use std::fs;

use k8s_openapi::api::core::v1;
use kube::Api;
use nix::sys::signal::Signal;

use super::{FaultError, Ground, PATIENCE, control::Part, failed};
use crate::{
    cluster::{NODES, machines},
    kit::{check, wait_for},
    machine::ProcessId,
    node::Node,
};

impl Ground {
    /// Makes everything that tests stand on work again. Where nothing is broken, nothing is changed.
    pub(super) async fn mend(&self) -> Result<(), FaultError> {
        for machine in machines(self.layout.instance) {
            for (pid, _) in machine.processes() {
                thaw(pid)?;
            }
        }
        for part in Part::ALL {
            self.start(part)?;
            self.works(part).await?;
        }
        let nodes: Api<v1::Node> = Api::all(self.cluster().await?.client());
        for node in (1..=NODES).map(Node) {
            self.power_on(node)?;
            self.cable(node, "up")?;
            wait_for(&nodes, &node.name(), PATIENCE, "to be Ready", check::node_ready).await?;
            self.uncordon(node).await?;
        }
        self.usual_way()?;
        self.dns_works().await
    }
}

/// Lets a process go on that stands still.
fn thaw(pid: i32) -> Result<(), FaultError> {
    // Who is gone needs nothing.
    let Ok(stat) = fs::read_to_string(format!("/proc/{pid}/stat")) else { return Ok(()) };
    let stopped = stat.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with('T'));
    match ProcessId::of(pid) {
        Ok(process) if stopped => {
            process.signal(Signal::SIGCONT).map_err(|source| failed(format!("process {pid}"), source))
        }
        _ => Ok(()),
    }
}
