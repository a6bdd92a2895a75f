//! Pods that stand in the way under load, and hold nobody up: one that stays Terminating, one that was evicted, and ones that cannot be
//! made, placed or started while a running cluster grows. What is wrong is said, and heals when it is corrected.

use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use e2e::{
    LONG, SOON, Seen,
    client::{loaded, verdict},
    etcd_cluster,
    members::{identities, one_cluster, replaced},
    operator_beside_people,
    pods::living,
    says_that, told,
};
use k8s_openapi::api::core::v1::{Pod, ResourceQuota};
use kube::ResourceExt as _;
use testbed::kit::{TestCase, TestNamespace, check, wait_for};
use tokio::time::sleep;

use crate::truth::{no_room, said};

async fn some_member(ns: &TestNamespace) -> anyhow::Result<String> {
    Ok(living(ns, "c").await?.first().context("no members")?.name_any())
}

async fn patch(ns: &TestNamespace, pod: &str, patch: &str, more: &[&str]) -> anyhow::Result<()> {
    let arguments: Vec<_> =
        ["patch", "pod", pod, "--type=merge", "-p", patch].into_iter().chain(more.iter().copied()).collect();
    ns.kubectl(&arguments).await?.success()?;
    Ok(())
}

#[tokio::test]
async fn a_pod_that_stays_terminating_and_one_that_was_evicted_hold_nobody_up() -> anyhow::Result<()> {
    TestCase::of("stuck_pods").deadline(LONG).run(async |ns| {
        let load = loaded(&ns, &etcd_cluster("c", 3, "3.6.14")).await?;
        let held = some_member(&ns).await?;
        patch(&ns, &held, r#"{"metadata": {"finalizers": ["example.com/held"]}}"#, &[]).await?;
        ns.kubectl(&["delete", "pod", &held, "--wait=false"]).await?.success()?;
        replaced(&ns, "c", &held).await?;
        ensure!(ns.api::<Pod>().get(&held).await?.metadata.deletion_timestamp.is_some(), "it is not held");

        let evicted = some_member(&ns).await?;
        let status = r#"{"status": {"phase": "Failed", "reason": "Evicted", "message": "The node was low on resource: memory."}}"#;
        let begun = Instant::now();
        while ns.api::<Pod>().get_opt(&evicted).await?.is_some_and(|pod| pod.metadata.deletion_timestamp.is_none()) {
            // Its kubelet did not evict it, and says at its next word that it runs.
            let _ = patch(&ns, &evicted, status, &["--subresource=status"]).await;
            ensure!(begun.elapsed() < SOON, "{evicted} is called evicted, and stays");
            sleep(Duration::from_millis(300)).await;
        }
        replaced(&ns, "c", &evicted).await?;
        told(&ns, "Replacing Dead Member", &format!("The dead member {evicted} is being replaced")).await?;
        wait_for(&ns.api(), &evicted, SOON, "to be gone", check::gone::<Pod>).await?;

        ensure!(ns.api::<Pod>().get_opt(&held).await?.is_some(), "{held} was not held to the end");
        patch(&ns, &held, r#"{"metadata": {"finalizers": null}}"#, &[]).await?;
        one_cluster(&ns, "c").await?;
        verdict(load).await?;
        Ok(())
    })
    .await
}

/// A cluster of five with something more in its spec.
fn five_with(more: &str) -> String {
    etcd_cluster("c", 5, "3.6.14").replace("spec: {", &format!("spec: {{{more}, "))
}

#[tokio::test]
async fn what_keeps_a_running_cluster_from_growing_is_said_and_heals_when_it_is_corrected()
-> anyhow::Result<()> {
    TestCase::of("stuck_growth")
        .deadline(LONG)
        .run(async |ns| {
            let load = loaded(&ns, &etcd_cluster("c", 3, "3.6.14")).await?;
            let members = identities(&ns, "c").await?;
            no_room(&ns).await?;
            ns.apply(&etcd_cluster("c", 4, "3.6.14")).await?;
            let seen = said(&ns, "c", "QuotaExceeded").await?;
            ensure!(seen.message.contains("exceeded quota: few"), "{seen:?}");
            ensure!(identities(&ns, "c").await? == members, "those that ran do not run any more");
            ns.remove::<ResourceQuota>("few").await?;
            one_cluster(&ns, "c").await?;

            ns.apply(&five_with("pod: {nodeSelector: {disk: of-gold}}")).await?;
            let seen = said(&ns, "c", "WaitingForPodScheduled").await?;
            ensure!(seen.message.contains("node affinity/selector"), "{seen:?}");
            let lost = members.keys().next().context("no members")?;
            ns.kubectl(&["delete", "pod", lost, "--wait=false"]).await?.success()?;
            // It is not waited for the one that is pending.
            told(&ns, "Member Removed", &format!("Existing member {lost} removed from the cluster")).await?;

            ns.apply(&five_with("repository: quay.io/coreos/etcd-of-gold")).await?;
            let seen = said(&ns, "c", "ImagePullFailing").await?;
            ensure!(seen.message.contains("quay.io/coreos/etcd-of-gold:v3.6.14"), "{seen:?}");
            let kept = identities(&ns, "c").await?;
            ensure!(members.iter().all(|(name, id)| name == lost || kept.get(name) == Some(id)), "{kept:?}");

            ns.apply(&etcd_cluster("c", 5, "3.6.14")).await?;
            one_cluster(&ns, "c").await?;
            verdict(load).await?;
            Ok(())
        })
        .await
}

#[tokio::test]
async fn members_that_no_node_lets_run_are_tried_less_and_less_often_and_it_is_said_why() -> anyhow::Result<()>
{
    TestCase::of("in_vain")
        .deadline(LONG)
        .run(async |ns| {
            // Where pods are admitted that the kubelet then refuses: each has failed as soon as it is there.
            operator_beside_people(&ns).await?;
            // What falls short here is asked for by the spec, and nothing to be noted of the operator.
            let unnoted = ["label", "namespace", ns.name(), "pod-security.kubernetes.io/audit-"];
            ns.kubectl(&unnoted).await?.success()?;
            ns.apply(&etcd_cluster("c", 1, "3.6.14")).await?;
            one_cluster(&ns, "c").await?;
            let members = identities(&ns, "c").await?;
            let forbidden =
                "pod: {securityContext: {sysctls: [{name: kernel.msgmax, value: '65536'}]}}, size: 2";
            ns.apply(&etcd_cluster("c", 1, "3.6.14").replace("size: 1", forbidden)).await?;
            let why = |seen: &Seen| seen.reason == "JoinFailing" && seen.message.contains("sysctl");
            says_that(&ns, "c", "Progressing", "to say why nobody joins", why).await?;
            let added = async || {
                let told =
                    ns.kubectl(&["get", "events", "-o", "jsonpath={.items[*].reason}"]).await?.success()?;
                anyhow::Ok(told.matches("New Member Added").count())
            };
            let before = added().await?;
            sleep(Duration::from_secs(30)).await;
            let more = added().await? - before;
            // Each took less than a second before, and the waits grow: 1, 2, 4, 8, 16.
            ensure!(more <= 6, "{more} members were added within half a minute");
            ensure!(identities(&ns, "c").await? == members, "who ran does not run any more");

            ns.apply(&etcd_cluster("c", 2, "3.6.14")).await?;
            one_cluster(&ns, "c").await?;
            Ok(())
        })
        .await
}
