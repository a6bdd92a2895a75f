//! How the cluster is: what runs where, and how much memory it takes.

use std::{fmt, fs};

use k8s_openapi::api::core::v1;
use kube::{Api, ResourceExt as _, api::ListParams};

use super::{
    ClusterError,
    record::{Found, Record, look, machine, machine_names},
};
use crate::{
    control_plane::Layout,
    instance::Instance,
    kit::{Cluster, call, check},
    machine::ProgramStatus,
};

/// What runs where.
#[derive(Debug)]
pub struct Status {
    record: Record,
    kubeconfig: String,
    machines: Vec<MachineStatus>,
    nodes: Vec<(String, String)>,
}

#[derive(Debug)]
struct MachineStatus {
    name: String,
    alive: bool,
    programs: Vec<(String, Result<u64, String>)>,
    /// Containers, and the shims that hold them.
    pods_kib: u64,
}

impl Status {
    /// What the cluster's own programs take, without pods, in MiB.
    #[must_use]
    pub fn programs_mib(&self) -> u64 {
        let programs = self.machines.iter().flat_map(|machine| &machine.programs);
        programs.filter_map(|(_, memory)| memory.as_ref().ok()).sum::<u64>() >> 10
    }
}

pub(super) async fn status(instance: Instance) -> Result<Status, ClusterError> {
    let layout = Layout::of(instance);
    let Found::Running { record, .. } = look(&layout) else { return Err(ClusterError::NotRunning) };
    let kubeconfig = layout.kubeconfig("admin");
    let cluster = Cluster::connect_with(&kubeconfig).await?;
    let nodes: Api<v1::Node> = Api::all(cluster.client().clone());
    // Machines and programs are worth knowing most of all when the API server does not answer.
    let nodes = match call("list the nodes", nodes.list(&ListParams::default())).await {
        Ok(nodes) => nodes.items.iter().map(node_status).collect(),
        Err(error) => machine_names().into_iter().map(|name| (name, error.to_string())).collect(),
    };
    Ok(Status {
        record,
        kubeconfig: kubeconfig.display().to_string(),
        machines: machine_names().iter().map(|name| machine_status(&layout, name)).collect(),
        nodes,
    })
}

fn node_status(node: &v1::Node) -> (String, String) {
    (node.name_any(), check::node_ready(Some(node)).map_or_else(|seen| seen, |()| "Ready".to_owned()))
}

fn machine_status(layout: &Layout, name: &str) -> MachineStatus {
    let Some(machine) = machine(layout, name).filter(crate::machine::Machine::is_alive) else {
        return MachineStatus { name: name.to_owned(), alive: false, programs: Vec::new(), pods_kib: 0 };
    };
    let known = machine.programs().unwrap_or_default();
    let mut programs: Vec<_> = known
        .iter()
        .map(|program| {
            (name_of(program), program.ended.clone().map_or_else(|| Ok(memory_kib(program.pid)), Err))
        })
        .collect();
    programs.push(("init".to_owned(), Ok(memory_kib(machine.init().pid))));
    let is_program = |pid: i32| pid == machine.init().pid || known.iter().any(|program| program.pid == pid);
    let others = machine.processes().into_iter().map(|(pid, _)| pid).filter(|pid| !is_program(*pid));
    MachineStatus { name: name.to_owned(), alive: true, programs, pods_kib: others.map(memory_kib).sum() }
}

/// A program's name, and how often it had to be started again.
fn name_of(program: &ProgramStatus) -> String {
    match program.restarts {
        0 => program.name.clone(),
        restarts => format!("{} (restarts: {restarts})", program.name),
    }
}

/// A process's share of the memory: what several processes have in common is counted once over all of them.
fn memory_kib(pid: i32) -> u64 {
    let text = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap_or_default();
    text.lines()
        .find_map(|line| line.strip_prefix("Pss:")?.split_ascii_whitespace().next()?.parse().ok())
        .unwrap_or(0)
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for machine in &self.machines {
            let state = match self.nodes.iter().find(|(node, _)| *node == machine.name) {
                _ if !machine.alive => "down",
                Some((_, ready)) => ready,
                None => "up",
            };
            writeln!(f, "{:<10} {state}", machine.name)?;
            for (program, memory) in &machine.programs {
                match memory {
                    Ok(kib) => writeln!(f, "  {program:<26} {:>5} MiB", kib >> 10)?,
                    Err(ended) => writeln!(f, "  {program:<26} ended: {ended}")?,
                }
            }
            if machine.pods_kib > 0 {
                writeln!(f, "  {:<26} {:>5} MiB", "(pods)", machine.pods_kib >> 10)?;
            }
        }
        let pods: u64 = self.machines.iter().map(|machine| machine.pods_kib).sum::<u64>() >> 10;
        writeln!(f, "\nmemory: {} MiB for the cluster itself, {pods} MiB for pods", self.programs_mib())?;
        writeln!(f, "kubeconfig: {}", self.kubeconfig)?;
        write!(f, "started {:.0} by {}", self.record.since, self.record.checkout.display())
    }
}
