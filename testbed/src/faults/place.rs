//! Where a pod is on the testbed: its machine, its processes and its network, found through its cgroup.

use std::fs::File;

use k8s_openapi::api::core::v1::Pod;
use kube::{Api, ResourceExt as _};

use super::{FaultError, Ground, failed};
use crate::{
    cgroup,
    kit::call,
    machine::{Machine, ProcessId, nested_pids},
    node::Node,
};

/// A pod and where it is.
#[derive(Debug)]
pub struct Place {
    /// The pod as it was when it was looked for.
    pub pod: Pod,
    /// Its node.
    pub node: Node,
    pub(super) ground: Ground,
    pub(super) machine: Machine,
}

impl Ground {
    /// Looks for a pod that runs.
    pub async fn place(&self, namespace: &str, pod: &str) -> Result<Place, FaultError> {
        let pods: Api<Pod> = Api::namespaced(self.cluster().await?.client(), namespace);
        let found = call(&format!("read the pod {pod} of {namespace}"), pods.get(pod)).await?;
        self.place_of(found)
    }

    /// Where this pod is.
    pub fn place_of(&self, pod: Pod) -> Result<Place, FaultError> {
        let name = pod.spec.as_ref().and_then(|spec| spec.node_name.clone()).unwrap_or_default();
        let number = name.strip_prefix("node").and_then(|number| number.parse().ok());
        let node =
            Node(number.ok_or_else(|| FaultError::Missing(format!("the node of {}", pod.name_any())))?);
        Ok(Place { pod, node, ground: self.clone(), machine: self.node(node)? })
    }
}

impl Place {
    /// What the pod is called, for people.
    #[must_use]
    pub fn name(&self) -> String {
        format!("{} of {}", self.pod.name_any(), self.pod.namespace().unwrap_or_default())
    }

    /// The pod's address.
    pub fn address(&self) -> Result<String, FaultError> {
        let address = self.pod.status.as_ref().and_then(|status| status.pod_ip.clone());
        address.ok_or_else(|| FaultError::Missing(format!("the address of {}", self.name())))
    }

    /// The first process of a container: the one whose end is the container's end.
    pub fn process(&self, container: &str) -> Result<ProcessId, FaultError> {
        let missing = || FaultError::Missing(format!("a process of {container} in {}", self.name()));
        let statuses = self.pod.status.as_ref().and_then(|status| status.container_statuses.as_ref());
        let id = statuses
            .into_iter()
            .flatten()
            .find(|status| status.name == container)
            .and_then(|status| status.container_id.as_deref()?.split_once("://"))
            .map(|(_, id)| id.to_owned())
            .ok_or_else(missing)?;
        let pids = cgroup::processes(&self.node.cgroup(&self.ground.layout), &id);
        let first = |pid: &i32| {
            let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
            nested_pids(&status).is_some_and(|pids| pids.last() == Some(&1))
        };
        let pid = pids.into_iter().find(first).ok_or_else(missing)?;
        ProcessId::of(pid).map_err(|source| failed(format!("{container} in {}", self.name()), source))
    }

    /// The pod's network, kept open: it stays the same whatever becomes of the pod's containers.
    pub(super) fn network(&self) -> Result<File, FaultError> {
        let uid = self.pod.uid().unwrap_or_default();
        let pids = cgroup::processes(&self.node.cgroup(&self.ground.layout), &format!("pod{uid}"));
        // A process may end between the two looks.
        let opened = pids.iter().find_map(|pid| File::open(format!("/proc/{pid}/ns/net")).ok());
        opened.ok_or_else(|| FaultError::Missing(format!("a process of {}", self.name())))
    }
}
