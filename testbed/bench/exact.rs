//! The second floor: the very pods and Services that the operator makes, made by hand. What is between it and ours is the
//! operator's doing; what is between it and the bare floor is what our members have and bare ones have not.

use std::{collections::BTreeMap, pin::pin, time::Duration};

use anyhow::{Context as _, ensure};
use futures::{StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::core::v1::{Pod, Service};
use kube::{
    ResourceExt as _,
    api::{ListParams, ObjectMeta},
    runtime::{WatchStreamExt as _, watcher},
};
use testbed::kit::TestNamespace;
use tokio::time::{Instant, timeout};

use crate::ours;

/// What the captured cluster is called: in no other word of its objects.
const CAPTURED: &str = "captured-by-bench";
const PATIENCE: Duration = Duration::from_mins(3);

/// The objects of a cluster as they were made, as one manifest.
pub(crate) struct Exact {
    manifest: String,
    size: usize,
}

impl Exact {
    /// Lets the operator make a cluster, and takes it away again.
    pub(crate) async fn capture(ns: &TestNamespace, size: usize) -> anyhow::Result<Self> {
        // As they were made: the operator takes the permission to start empty away from a member that has started.
        let (applied, pods) = tokio::try_join!(ours::apply(ns, CAPTURED, size), first_seen(ns, size))?;
        ns.pods_ready(&ours::labels(CAPTURED), size).await?;
        let of_cluster = ListParams::default().labels(&ours::labels(CAPTURED));
        let services = ns.api::<Service>().list(&of_cluster).await?.items;
        ensure!(services.len() == 2, "the operator made {} Services", services.len());
        let mut documents = Vec::new();
        for service in services {
            documents.push(serde_json::to_string(&bare_service(service))?);
        }
        for pod in pods {
            documents.push(serde_json::to_string(&bare_pod(pod))?);
        }
        ours::remove(ns, CAPTURED, &applied).await?;
        Ok(Self { manifest: documents.join("\n---\n"), size })
    }

    /// The same, from the `apply` of all until all are Ready; they are gone again afterwards.
    pub(crate) async fn apply_to_ready(&self, ns: &TestNamespace, run: u32) -> anyhow::Result<Duration> {
        let name = format!("exact-{}-{run}", self.size);
        let manifest = self.manifest.replace(CAPTURED, &name);
        let started = Instant::now();
        let ready = async {
            ns.pods_ready(&ours::labels(&name), self.size).await?;
            Ok(started.elapsed())
        };
        let applied = async { anyhow::Ok(ns.apply(&manifest).await?) };
        let (applied, took) = tokio::try_join!(applied, ready)?;
        ns.remove_all(&applied).await?;
        Ok(took)
    }
}

/// The members' pods, each as it was seen first.
async fn first_seen(ns: &TestNamespace, count: usize) -> anyhow::Result<Vec<Pod>> {
    let config = watcher::Config::default().labels(&ours::labels(CAPTURED));
    let mut pods = pin!(watcher(ns.api::<Pod>(), config).applied_objects().boxed());
    let mut seen = BTreeMap::new();
    let all = async {
        while seen.len() < count {
            let pod = pods.try_next().await?.context("the watch ended")?;
            seen.entry(pod.name_any()).or_insert(pod);
        }
        anyhow::Ok(())
    };
    timeout(PATIENCE, all).await.context("the operator made too few pods")??;
    Ok(seen.into_values().collect())
}

/// Without what the API server, the scheduler and the garbage collector added or would act on.
fn bare(metadata: ObjectMeta) -> ObjectMeta {
    let ObjectMeta { name, labels, annotations, .. } = metadata;
    ObjectMeta { name, labels, annotations, ..ObjectMeta::default() }
}

fn bare_pod(pod: Pod) -> Pod {
    let mut spec = pod.spec;
    if let Some(spec) = &mut spec {
        spec.node_name = None;
    }
    Pod { metadata: bare(pod.metadata), spec, status: None }
}

fn bare_service(service: Service) -> Service {
    let mut spec = service.spec;
    if let Some(spec) = &mut spec {
        spec.cluster_ips = None;
        spec.cluster_ip = spec.cluster_ip.take().filter(|address| address == "None");
    }
    Service { metadata: bare(service.metadata), spec, status: None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_somebody_else_added_is_not_made_again() {
        let pod = "{metadata: {name: a, uid: u, labels: {l: '1'}, ownerReferences: [{apiVersion: v1, kind: K, name: n, uid: u}]}, \
                   spec: {nodeName: node1, hostname: h, containers: []}, status: {phase: Running}}";
        let pod = bare_pod(serde_saphyr::from_str(pod).unwrap());
        let expected = "{metadata: {name: a, labels: {l: '1'}}, spec: {hostname: h, containers: []}}";
        assert_eq!(pod, serde_saphyr::from_str(expected).unwrap());
        for (address, expected) in [("10.96.0.1", None), ("None", Some("None"))] {
            let service =
                format!("{{spec: {{clusterIP: {address}, clusterIPs: [{address}], ports: [{{port: 1}}]}}}}");
            let spec = bare_service(serde_saphyr::from_str(&service).unwrap()).spec.unwrap();
            assert_eq!((spec.cluster_ip.as_deref(), spec.cluster_ips), (expected, None));
        }
    }
}
