//! The API server is away for longer than a Lease lasts, then DNS, which then gives old answers: clients of a cluster that has formed
//! notice nothing, no member is removed for it, and what is to be done afterwards is done.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use e2e::{
    SOON,
    client::answered,
    etcd_cluster,
    members::{one_cluster, replaced},
    operator, operator_pod,
    pods::{living, restarts, which},
    says,
};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use testbed::{
    faults::{Ground, control::Part},
    history::{Load, Running},
    kit::{TestCase, TestNamespace, check, wait_for},
};

async fn some_member(ns: &TestNamespace) -> anyhow::Result<String> {
    Ok(living(ns, "c").await?.first().context("no member")?.name_any())
}

async fn without_api_server(ns: &TestNamespace, ground: &Ground, load: &Running) -> anyhow::Result<()> {
    let operator = operator_pod(ns).await?;
    let stopped = ground.stop(Part::ApiServer)?;
    // About 25 s at the load's rate: the operator's Lease is over by then.
    answered(load, 1000).await?;
    stopped.heal().await?;
    let member = some_member(ns).await?;
    ns.kubectl(&["delete", "pod", &member, "--wait=false"]).await?.success()?;
    replaced(ns, "c", &member).await?;
    one_cluster(ns, "c").await?;
    let after = operator_pod(ns).await?;
    ensure!(after.uid() == operator.uid(), "the operator is another one");
    ensure!(restarts(&after) == restarts(&operator), "the operator ended instead of waiting");
    Ok(())
}

/// A member that restarts does not find the others without names, and is waited for.
async fn without_names(ns: &TestNamespace, ground: &Ground, load: &Running) -> anyhow::Result<()> {
    let before = which(ns, "c").await?;
    let silent = ground.silence_dns().await?;
    let member = some_member(ns).await?;
    ground.place(ns.name(), &member).await?.kill("etcd")?;
    let restarted = |pod: Option<&Pod>| match pod.map(restarts) {
        Some(count) if count > 0 => Ok(()),
        other => Err(format!("{other:?} restarts")),
    };
    wait_for(&ns.api::<Pod>(), &member, SOON, "to be restarted", restarted).await?;
    answered(load, 200).await?;
    silent.heal().await?;
    wait_for(&ns.api::<Pod>(), &member, SOON, "to be Ready", check::pod_ready).await?;
    one_cluster(ns, "c").await?;
    ensure!(which(ns, "c").await? == before, "members were changed for want of names");
    Ok(())
}

/// A member whose name nobody knows yet is waited for, and costs no other.
async fn with_old_names(ns: &TestNamespace, ground: &Ground, load: &Running) -> anyhow::Result<()> {
    let before = which(ns, "c").await?;
    let old = ground.outdate_dns().await?;
    let member = some_member(ns).await?;
    ns.kubectl(&["delete", "pod", &member, "--wait=false"]).await?.success()?;
    says(ns, "c", "Progressing", "WaitingForMemberJoined").await?;
    answered(load, 400).await?;
    let seen = says(ns, "c", "Progressing", "WaitingForMemberJoined").await?;
    let ready = living(ns, "c").await?.iter().filter(|pod| check::pod_ready(Some(pod)).is_ok()).count();
    ensure!(ready == 2, "{ready} are Ready, although a new name is not known: {seen:?}");
    old.heal().await?;
    one_cluster(ns, "c").await?;
    let kept = which(ns, "c").await?.intersection(&before).count();
    ensure!(kept == 2, "{kept} of {before:?} are left");
    Ok(())
}

#[tokio::test]
async fn clients_of_a_cluster_do_not_need_the_api_server_nor_dns() -> anyhow::Result<()> {
    let ground = Ground::alone().await?;
    TestCase::of("control_plane_away")
        .deadline(Duration::from_mins(7))
        .run(async |ns| {
            operator(&ns).await?;
            ns.apply(&etcd_cluster("c", 3, "3.6.14")).await?;
            one_cluster(&ns, "c").await?;
            let load = Load::default().start(ns.cluster(), ns.name(), "c").await?;
            answered(&load, 50).await?;
            without_api_server(&ns, &ground, &load).await?;
            without_names(&ns, &ground, &load).await?;
            with_old_names(&ns, &ground, &load).await?;
            let verdict = load.finish().await?;
            println!("{verdict}");
            Ok(())
        })
        .await
}
