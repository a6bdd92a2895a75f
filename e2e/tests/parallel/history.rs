//! No acknowledged write is lost, and none is read out of order, while one member after another is killed.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use e2e::{SOON, etcd_cluster, operator, running};
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, ResourceExt, api::ListParams};
use testbed::{
    faults::Ground,
    history::{Load, Running},
    kit::{TestNamespace, in_namespace, wait_for},
};

/// Waits until this many more operations have been answered.
async fn answered(load: &Running, more: usize) -> anyhow::Result<()> {
    let target = load.answered() + more;
    let counted = async {
        while load.answered() < target {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    tokio::time::timeout(SOON, counted)
        .await
        .with_context(|| format!("no {more} answers: {}", load.progress()))
}

fn restarts(pod: &Pod) -> i32 {
    let containers = pod.status.iter().flat_map(|status| status.container_statuses.iter().flatten());
    containers.filter(|it| it.name == "etcd").map(|it| it.restart_count).sum()
}

async fn restarted_and_ready(ns: &TestNamespace, pod: &str) -> anyhow::Result<()> {
    let check = |pod: Option<&Pod>| match pod {
        Some(it) if restarts(it) > 0 => testbed::kit::check::pod_ready(Some(it)).map(drop),
        Some(it) => Err(format!("{} restarts", restarts(it))),
        None => Err("it is gone".to_owned()),
    };
    wait_for(&ns.api::<Pod>(), pod, SOON, "to be restarted and Ready", check).await?;
    Ok(())
}

#[tokio::test]
async fn killed_members_restart_on_their_data_and_no_acknowledged_write_is_lost() -> anyhow::Result<()> {
    in_namespace("killed_under_load", async |ns| {
        operator(&ns).await?;
        ns.apply(&etcd_cluster("c", 3, "3.6.14")).await?;
        running(&ns, "c").await?;
        let load = Load::default().start(ns.cluster(), ns.name(), "c").await?;
        answered(&load, 100).await?;
        let pods: Api<Pod> = ns.api();
        let members = pods.list(&ListParams::default().labels("etcd_cluster=c")).await?.items;
        ensure!(members.len() == 3, "{} members", members.len());
        let ground = Ground::here()?;
        // One after another, so that the leader is among them.
        for victim in members.iter().map(ResourceExt::name_any) {
            ground.place(ns.name(), &victim).await?.kill("etcd")?;
            answered(&load, 50).await?;
            restarted_and_ready(&ns, &victim).await?;
        }
        answered(&load, 50).await?;
        let verdict = load.finish().await?;
        println!("{verdict}");
        ensure!(verdict.checked() >= 300 && verdict.writes > 0 && verdict.reads > 0, "{verdict}");
        running(&ns, "c").await?;
        Ok(())
    })
    .await
}
