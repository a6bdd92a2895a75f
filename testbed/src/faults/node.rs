//! A fault: a node loses its power. With its disks kept it is a reboot; without them it is a loss, and who comes back
//! under its name is another machine.

use std::{fs, io, path::Path, thread, time::Duration};

use k8s_openapi::{
    api::core::v1::{self, Pod},
    apimachinery::pkg::apis::meta::v1::Time,
    jiff::Timestamp,
};
use kube::{Api, ResourceExt as _};

use super::{Broken, Fault, FaultError, Ground, PATIENCE, failed};
use crate::{
    cgroup,
    cluster::{binaries, start_node},
    kit::{check, wait_for, wait_for_all},
    node::Node,
};

/// What of a node is on its disks: kubelet and volumes of pods, images and containers, provisioned volumes.
const DISKS: [&str; 3] = ["root", "containerd", "volumes"];

/// A node without power.
#[derive(Debug)]
pub struct NodeDown {
    ground: Ground,
    node: Node,
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
        let cluster = self.ground.cluster().await?;
        let (nodes, name): (Api<v1::Node>, _) = (Api::all(cluster.client()), self.node.name());
        // A node that was away for seconds is still Ready by its old word.
        wait_for(&nodes, &name, PATIENCE, "to be Ready again", |node| {
            check::node_ready(node)?;
            if heard_after(node, since) { Ok(()) } else { Err("its kubelet has not spoken yet".to_owned()) }
        })
        .await?;
        // So are its pods. Those that everybody needs are waited for; what becomes of a test's own, the test knows.
        let pods: Api<Pod> = Api::namespaced(cluster.client(), "kube-system");
        let again = |pods: &[Pod]| {
            let here = |pod: &&Pod| pod.spec.as_ref().and_then(|it| it.node_name.as_ref()) == Some(&name);
            let late = pods.iter().filter(here).find(|pod| !started_after(pod, since));
            late.map_or(Ok(()), |pod| Err(format!("{} does not run yet", pod.name_any())))
        };
        wait_for_all(&pods, "", PATIENCE, "to run again", again).await?;
        Ok(())
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
