//! The API server is away for longer than a Lease lasts, then DNS, which then gives old answers: clients of a cluster that has formed
//! notice nothing, no member is removed for it, and what is to be done afterwards is done.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use e2e::{
    LONG, SOON,
    client::{answered, load, verdict},
    etcd_cluster,
    members::{kill, one_cluster, replaced},
    operator, operator_pod,
    pods::{living, restarts, which},
    says,
};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use testbed::{
    faults::{Ground, control::Part},
    history::Running,
    kit::{TestCase, TestNamespace, check, wait_for},
};
use tokio::time::sleep;

async fn some_member(ns: &TestNamespace) -> anyhow::Result<String> {
    Ok(living(ns, "c").await?.first().context("no member")?.name_any())
}

async fn without_api_server(ns: &TestNamespace, ground: &Ground, load: &Running) -> anyhow::Result<()> {
    let operator = operator_pod(ns).await?;
    let stopped = ground.stop(Part::ApiServer)?;
    // The operator's Lease is over by then.
    sleep(Duration::from_secs(25)).await;
    answered(load, 100).await?;
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
    kill(ns, ground, &member).await?;
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
    let new = |pod: &&Pod| before.iter().all(|(name, _)| *name != pod.name_any());
    let ready =
        living(ns, "c").await?.iter().filter(new).filter(|pod| check::pod_ready(Some(pod)).is_ok()).count();
    ensure!(ready == 0, "one is Ready, although its name is not known: {seen:?}");
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
        .deadline(LONG)
        .run(async |ns| {
            operator(&ns).await?;
            ns.apply(&etcd_cluster("c", 3, "3.6.14")).await?;
            one_cluster(&ns, "c").await?;
            let load = load(&ns, "c").await?;
            without_api_server(&ns, &ground, &load).await?;
            without_names(&ns, &ground, &load).await?;
            with_old_names(&ns, &ground, &load).await?;
            verdict(load).await?;
            Ok(())
        })
        .await
}
