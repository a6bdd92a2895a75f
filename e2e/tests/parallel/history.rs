//! No acknowledged write is lost, and none is read out of order, while one member after another is killed.

use anyhow::ensure;
use e2e::{
    client::{answered, load},
    etcd_cluster,
    members::{kill, restarted_and_ready},
    operator, running,
};
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, ResourceExt, api::ListParams};
use testbed::{faults::Ground, kit::in_namespace};

#[tokio::test]
async fn killed_members_restart_on_their_data_and_no_acknowledged_write_is_lost() -> anyhow::Result<()> {
    in_namespace("killed_under_load", async |ns| {
        operator(&ns).await?;
        ns.apply(&etcd_cluster("c", 3, "3.6.14")).await?;
        running(&ns, "c").await?;
        let load = load(&ns, "c").await?;
        answered(&load, 100).await?;
        let pods: Api<Pod> = ns.api();
        let members = pods.list(&ListParams::default().labels("etcd_cluster=c")).await?.items;
        ensure!(members.len() == 3, "{} members", members.len());
        let ground = Ground::here()?;
        // One after another, so that the leader is among them.
        for victim in members.iter().map(ResourceExt::name_any) {
            kill(&ns, &ground, &victim).await?;
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
