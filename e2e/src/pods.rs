//! What Kubernetes says of the pods of a cluster's members.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{ContainerStatus, Pod};
use kube::{ResourceExt, api::ListParams};
use testbed::kit::TestNamespace;

/// How often the containers of a pod were restarted.
#[must_use]
pub fn restarts(pod: &Pod) -> i32 {
    let containers = pod.status.iter().flat_map(|status| status.container_statuses.iter().flatten());
    containers.map(|container| container.restart_count).sum()
}

/// Whether all containers of a pod have been started, once at least.
#[must_use]
pub fn is_started(pod: &Pod) -> bool {
    let has_ended =
        |it: &ContainerStatus| it.last_state.as_ref().is_some_and(|last| last.terminated.is_some());
    let has_run = |it: &ContainerStatus| it.started == Some(true) || it.restart_count > 0 || has_ended(it);
    let containers = pod.status.as_ref().and_then(|status| status.container_statuses.as_ref());
    containers.is_some_and(|containers| containers.iter().all(has_run))
}

/// The node of a pod.
#[must_use]
pub fn node_of(pod: &Pod) -> Option<&str> {
    pod.spec.as_ref()?.node_name.as_deref()
}

/// The pods of a cluster's members that are not on their way out, by name.
pub async fn living(ns: &TestNamespace, cluster: &str) -> anyhow::Result<Vec<Pod>> {
    let labels = ListParams::default().labels(&format!("etcd_cluster={cluster}"));
    let mut pods = ns.api::<Pod>().list(&labels).await?.items;
    pods.retain(|pod| pod.metadata.deletion_timestamp.is_none());
    pods.sort_by_key(ResourceExt::name_any);
    Ok(pods)
}

/// The members' pods: their names, and which pods of these names.
pub async fn which(ns: &TestNamespace, cluster: &str) -> anyhow::Result<BTreeSet<(String, String)>> {
    let pods = living(ns, cluster).await?;
    Ok(pods.iter().map(|pod| (pod.name_any(), pod.uid().unwrap_or_default())).collect())
}
