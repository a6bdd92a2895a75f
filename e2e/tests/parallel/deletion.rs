//! Deleting the resource removes everything that was made for it, whenever, and with nobody's help.

use std::time::Duration;

use anyhow::ensure;
use api::EtcdCluster;
use e2e::{SOON, etcd_cluster, operator, operator_replicas, running};
use k8s_openapi::api::{
    core::v1::{Pod, Service},
    policy::v1::PodDisruptionBudget,
};
use kube::{ResourceExt as _, api::ListParams};
use testbed::kit::{TestNamespace, check, in_namespace, wait_for_all};

const LABELS: &str = "etcd_cluster=c";

async fn nothing_is_left(ns: &TestNamespace) -> anyhow::Result<()> {
    wait_for_all(&ns.api::<Pod>(), LABELS, SOON, "to be gone", check::none_left).await?;
    wait_for_all(&ns.api::<Service>(), LABELS, SOON, "to be gone", check::none_left).await?;
    wait_for_all(&ns.api::<PodDisruptionBudget>(), LABELS, SOON, "to be gone", check::none_left).await?;
    Ok(())
}

async fn delete(ns: &TestNamespace) -> anyhow::Result<()> {
    let cluster = ns.api::<EtcdCluster>().get("c").await?;
    ensure!(cluster.finalizers().is_empty(), "{:?} would hold it", cluster.finalizers());
    ns.kubectl(&["delete", "etcdcluster", "c"]).await?.success()?;
    Ok(())
}

#[tokio::test]
async fn a_deleted_cluster_leaves_nothing_while_it_runs_and_while_it_is_being_made() -> anyhow::Result<()> {
    in_namespace("deleted_cluster", async |ns| {
        operator(&ns).await?;
        ns.apply(&etcd_cluster("c", 3, "3.6.14")).await?;
        running(&ns, "c").await?;
        delete(&ns).await?;
        nothing_is_left(&ns).await?;

        // At other moments of the way to three members: right away, after the first object, after the first pod runs.
        for pause in [0, 150, 400, 900] {
            ns.apply(&etcd_cluster("c", 3, "3.6.14")).await?;
            tokio::time::sleep(Duration::from_millis(pause)).await;
            delete(&ns).await?;
            nothing_is_left(&ns).await?;
        }
        // The name is free again.
        ns.apply(&etcd_cluster("c", 3, "3.6.14")).await?;
        running(&ns, "c").await?;
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_cluster_deleted_without_an_operator_leaves_nothing() -> anyhow::Result<()> {
    in_namespace("deleted_without_operator", async |ns| {
        operator(&ns).await?;
        ns.apply(&etcd_cluster("c", 3, "3.6.14")).await?;
        running(&ns, "c").await?;
        operator_replicas(&ns, 0).await?;
        let before = ns.api::<Pod>().list(&ListParams::default().labels(LABELS)).await?.items.len();
        ensure!(before == 3, "{before} pods");
        delete(&ns).await?;
        nothing_is_left(&ns).await
    })
    .await
}
