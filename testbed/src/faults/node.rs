//! A fault: a node loses its power. With its disks kept it is a reboot; without them it is a loss, and who comes back
//! under its name is another machine. Or it loses its cable: then everything on it goes on, and nobody hears of it.

use std::{fs, io, path::Path, process::Command, thread, time::Duration};

use k8s_openapi::{
    api::core::v1::{self, Pod},
    apimachinery::pkg::apis::meta::v1::Time,
    jiff::Timestamp,
};
use kube::{
    Api, ResourceExt as _,
    api::{Patch, PatchParams},
};
use serde_json::json;

use super::{Broken, Fault, FaultError, Ground, PATIENCE, failed, here};
use crate::{
    cgroup,
    cluster::{binaries, start_node},
    kit::{call, check, wait_for, wait_for_all},
    node::Node,
};

/// What of a node is on its disks: kubelet and volumes of pods, images and containers, provisioned volumes.
const DISKS: [&str; 3] = ["root", "containerd", "volumes"];

/// The node over which this machine reaches Services.
const WAY: Node = Node(1);

/// A node without power.
#[derive(Debug)]
pub struct NodeDown {
    ground: Ground,
    node: Node,
}

/// A node without a cable.
#[derive(Debug)]
pub struct Unplugged {
    ground: Ground,
    node: Node,
}

/// A node that somebody drains: when this heals, it takes pods again.
#[derive(Debug)]
pub struct InMaintenance {
    ground: Ground,
    node: Node,
}

/// This machine reaches Services over another node than usual.
#[derive(Debug)]
pub struct Detour {
    ground: Ground,
}

impl Ground {
    /// Takes the power from a node: every process of it is gone at once, and nothing is told of it. Its disks are kept, and with
    /// them its pods' emptyDirs; when it heals, it starts with them, as after a reboot.
    pub fn power_cut(&self, node: Node) -> Result<Broken<NodeDown>, FaultError> {
        let down = Broken::new(NodeDown { ground: self.clone(), node });
        self.node(node)?.power_off()?;
        Ok(down)
    }

    /// Loses a node for good, with its disks. What comes back under its name when it heals is a fresh machine.
    pub fn lose(&self, node: Node) -> Result<Broken<NodeDown>, FaultError> {
        let down = self.power_cut(node)?;
        let dir = self.layout.machine(&node.name());
        released(&dir)?;
        for disk in DISKS {
            let path = dir.join(disk);
            match fs::remove_dir_all(&path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(failed(path.display().to_string(), error));
                }
                _ => {}
            }
        }
        Ok(down)
    }

    /// Takes the power from a node, and starts it again with its disks.
    pub async fn reboot(&self, node: Node) -> Result<(), FaultError> {
        self.power_cut(node)?.heal().await
    }

    /// Pulls a node's cable: what runs on it goes on, and nobody else hears of it.
    pub fn unplug(&self, node: Node) -> Result<Broken<Unplugged>, FaultError> {
        let unplugged = Broken::new(Unplugged { ground: self.clone(), node });
        self.cable(node, "down")?;
        Ok(unplugged)
    }

    /// The cable's end at the switch has the node's name.
    pub(super) fn cable(&self, node: Node, state: &str) -> Result<(), FaultError> {
        self.control()?.run(&["ip", "link", "set", &node.name(), state])?;
        Ok(())
    }

    /// For a node that is about to be drained by hand: however that ends, afterwards it takes pods again.
    pub fn maintain(&self, node: Node) -> Broken<InMaintenance> {
        Broken::new(InMaintenance { ground: self.clone(), node })
    }

    /// Lets a node take pods, as `kubectl uncordon` does.
    pub(super) async fn uncordon(&self, node: Node) -> Result<(), FaultError> {
        let nodes: Api<v1::Node> = Api::all(self.cluster().await?.client());
        let patch = Patch::Merge(json!({"spec": {"unschedulable": null}}));
        let attempt = format!("let {} take pods", node.name());
        call(&attempt, nodes.patch(&node.name(), &PatchParams::default(), &patch)).await?;
        Ok(())
    }

    /// Lets this machine reach Services over this node: the one that it usually takes may be down meanwhile.
    pub fn detour(&self, over: Node) -> Result<Broken<Detour>, FaultError> {
        let detour = Broken::new(Detour { ground: self.clone() });
        self.reach_services_over(over)?;
        Ok(detour)
    }

    fn reach_services_over(&self, node: Node) -> Result<(), FaultError> {
        let network = self.layout.instance.network();
        let (services, via) = (network.services().to_string(), network.node(node.0).to_string());
        here(Command::new("ip").args(["route", "replace", &services, "via", &via])).map(drop)
    }

    /// Lets this machine reach Services as usual.
    pub(super) fn usual_way(&self) -> Result<(), FaultError> {
        self.reach_services_over(WAY)
    }

    /// Waits until a node's kubelet has said after this moment that it is Ready.
    async fn ready_again(&self, node: Node, since: Timestamp) -> Result<(), FaultError> {
        let nodes: Api<v1::Node> = Api::all(self.cluster().await?.client());
        // A node that was away for seconds is still Ready by its old word.
        wait_for(&nodes, &node.name(), PATIENCE, "to be Ready again", |node| {
            check::node_ready(node)?;
            if heard_after(node, since) { Ok(()) } else { Err("its kubelet has not spoken yet".to_owned()) }
        })
        .await?;
        Ok(())
    }

    /// Gives a node its power, unless it has it.
    pub(super) fn power_on(&self, node: Node) -> Result<(), FaultError> {
        if self.node(node).is_ok_and(|machine| machine.is_alive()) {
            return Ok(());
        }
        released(&self.layout.machine(&node.name()))?;
        // A machine that was off has no cgroups.
        cgroup::remove(&node.cgroup(&self.layout))?;
        Ok(start_node(&self.layout, &binaries(&self.layout)?, &self.control()?, node)?)
    }
}

impl Fault for NodeDown {
    async fn heal(&self) -> Result<(), FaultError> {
        let since = Timestamp::now();
        self.ground.power_on(self.node)?;
        self.ground.ready_again(self.node, since).await?;
        // By their old word its pods run. Those that everybody needs are waited for; what becomes of a test's own, the test knows.
        let name = self.node.name();
        let pods: Api<Pod> = Api::namespaced(self.ground.cluster().await?.client(), "kube-system");
        let again = |pods: &[Pod]| {
            let here = |pod: &&Pod| pod.spec.as_ref().and_then(|it| it.node_name.as_ref()) == Some(&name);
            let late = pods.iter().filter(here).find(|pod| !started_after(pod, since));
            late.map_or(Ok(()), |pod| Err(format!("{} does not run yet", pod.name_any())))
        };
        wait_for_all(&pods, "", PATIENCE, "to run again", again).await?;
        Ok(())
    }
}

impl Fault for Unplugged {
    async fn heal(&self) -> Result<(), FaultError> {
        let since = Timestamp::now();
        self.ground.cable(self.node, "up")?;
        self.ground.ready_again(self.node, since).await
    }
}

impl Fault for InMaintenance {
    async fn heal(&self) -> Result<(), FaultError> {
        self.ground.uncordon(self.node).await
    }
}

impl Fault for Detour {
    async fn heal(&self) -> Result<(), FaultError> {
        self.ground.usual_way()
    }
}

fn heard_after(node: Option<&v1::Node>, since: Timestamp) -> bool {
    let conditions = node.and_then(|node| node.status.as_ref()?.conditions.as_ref());
    conditions.into_iter().flatten().any(|condition| {
        condition.type_ == "Ready"
            && condition.last_heartbeat_time.as_ref().is_some_and(|Time(at)| *at >= since)
    })
}

fn started_after(pod: &Pod, since: Timestamp) -> bool {
    let containers = pod.status.as_ref().and_then(|status| status.container_statuses.as_ref());
    containers.is_some_and(|containers| {
        containers.iter().all(|container| {
            let started =
                container.state.as_ref().and_then(|state| state.running.as_ref()?.started_at.clone());
            container.ready && started.is_some_and(|Time(at)| at >= since)
        })
    })
}

/// Waits until the kernel has let go of the volumes of a machine that is off: it does so a moment after the last process. A file
/// system that is mounted a second time before that is damaged.
fn released(dir: &Path) -> Result<(), FaultError> {
    for _ in 0..300 {
        if !in_use(dir)? {
            return Ok(());
        }
        thread::sleep(Duration::from_millis(100));
    }
    Err(failed(dir.display().to_string(), io::Error::other("its volumes are still in use")))
}

fn in_use(dir: &Path) -> Result<bool, FaultError> {
    let blocks = fs::read_dir("/sys/block").map_err(|source| failed("/sys/block", source))?;
    let files = blocks.flatten().map(|block| block.path().join("loop/backing_file"));
    Ok(files
        .filter_map(|file| fs::read_to_string(file).ok())
        .any(|file| Path::new(file.trim()).starts_with(dir)))
}
