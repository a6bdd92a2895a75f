//! S11: the size is changed, up and down, and the data stays.

use anyhow::ensure;
use e2e::{SOON, client_pod, etcd_cluster, etcdctl, operator, running};
use k8s_openapi::api::{core::v1::Pod, policy::v1::PodDisruptionBudget};
use kube::{
    Api,
    api::{ListParams, ObjectList},
};
use testbed::kit::{GRAVE, TestNamespace, in_namespace, wait_for};

async fn pods(ns: &TestNamespace) -> anyhow::Result<ObjectList<Pod>> {
    Ok(ns.api::<Pod>().list(&ListParams::default().labels("etcd_cluster=example")).await?)
}

/// Waits until the cluster has so many members by its own word, and asks etcd, the pods and the budget.
async fn has(ns: &TestNamespace, size: usize, budget: i32) -> anyhow::Result<()> {
    let clusters: Api<api::EtcdCluster> = ns.api();
    let settled = |cluster: Option<&api::EtcdCluster>| {
        let status = cluster.and_then(|cluster| cluster.status.clone()).unwrap_or_default();
        let ready = status.members.as_ref().and_then(|members| members.ready.as_ref()).map_or(0, Vec::len);
        let scaling = cluster.and_then(|cluster| e2e::condition(cluster, "Scaling"));
        let is = ready == size && status.size == i64::try_from(size).ok() && scaling.is_none();
        if is { Ok(()) } else { Err(format!("{ready} ready, {:?} members, {scaling:?}", status.size)) }
    };
    wait_for(&clusters, "example", SOON, &format!("to have {size} members"), settled).await?;
    let members = etcdctl(ns, "example", &["member", "list"]).await?;
    ensure!(members.lines().filter(|line| line.contains("started")).count() == size, "{members}");
    ensure!(members.lines().count() == size, "{members}");
    let budgets: Api<PodDisruptionBudget> = ns.api();
    let asks = |found: Option<&PodDisruptionBudget>| {
        let asked = found.and_then(|found| found.spec.clone()?.min_available);
        let wanted = k8s_openapi::apimachinery::pkg::util::intstr::IntOrString::Int(budget);
        if asked == Some(wanted) { Ok(()) } else { Err(format!("{asked:?}")) }
    };
    wait_for(&budgets, "example", SOON, &format!("to ask for {budget}"), asks).await?;
    let value = etcdctl(ns, "example", &["get", "kept", "--print-value-only"]).await?;
    ensure!(value == "yes", "{GRAVE} {value:?}");
    Ok(())
}

#[tokio::test]
async fn s11_a_cluster_grows_and_shrinks_and_keeps_its_data() -> anyhow::Result<()> {
    in_namespace("s11_resize", async |ns| {
        operator(&ns).await?;
        client_pod(&ns).await?;
        ns.apply(&etcd_cluster("example", 1, "3.6.14")).await?;
        running(&ns, "example").await?;
        etcdctl(&ns, "example", &["put", "kept", "yes"]).await?;
        // As the book does it, and by the scale subresource.
        for (size, budget) in [(3, 2), (4, 3)] {
            ns.apply(&etcd_cluster("example", size, "3.6.14")).await?;
            has(&ns, usize::from(size), budget).await?;
        }
        ns.kubectl(&["scale", "etcdcluster/example", "--replicas=3"]).await?.success()?;
        has(&ns, 3, 2).await?;
        let left = pods(&ns).await?.items;
        let staying = left.iter().filter(|pod| pod.metadata.deletion_timestamp.is_none()).count();
        ensure!(staying == 3, "{staying} pods stay");
        ns.kubectl(&["scale", "etcdcluster/example", "--replicas=1"]).await?.success()?;
        has(&ns, 1, 1).await?;
        etcdctl(&ns, "example", &["endpoint", "health", "--cluster"]).await?;
        Ok(())
    })
    .await
}
