//! Members that stand still under load: one of three, which clients soon notice no more, and two of three, which are waited for. And one
//! that is killed for its memory whenever it starts.

use std::time::Instant;

use anyhow::{Context as _, ensure};
use e2e::{
    LONG, SOON, Seen,
    client::{answered, loaded, verdict},
    etcd_cluster,
    members::{identities, kill, leader, one_cluster, replaced},
    says, says_that, told,
};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::ResourceExt as _;
use testbed::{
    faults::Ground,
    kit::{TestCase, TestNamespace, wait_for_all},
};

/// Waits until the client Service leads to this pod no more.
async fn withdrawn(ns: &TestNamespace, pod: &str) -> anyhow::Result<()> {
    let check = |slices: &[EndpointSlice]| {
        let endpoints = slices.iter().flat_map(|slice| &slice.endpoints);
        let ready: Vec<_> = endpoints
            .filter(|it| it.conditions.as_ref().and_then(|conditions| conditions.ready) != Some(false))
            .filter_map(|it| it.target_ref.as_ref()?.name.as_deref())
            .collect();
        if ready.contains(&pod) { Err(format!("it leads to {ready:?}")) } else { Ok(()) }
    };
    let labels = "kubernetes.io/service-name=c-client";
    Ok(wait_for_all(&ns.api(), labels, SOON, &format!("to leave out {pod}"), check).await?)
}

#[tokio::test]
async fn silent_members_are_kept_from_clients_and_waited_for_and_without_a_quorum_that_is_said()
-> anyhow::Result<()> {
    TestCase::of("silent")
        .deadline(LONG)
        .run(async |ns| {
            let load = loaded(&ns, &etcd_cluster("c", 3, "3.6.14")).await?;
            let (ground, members) = (Ground::here()?, identities(&ns, "c").await?);
            let silent = leader(&ns, "c", None).await?.pod.name_any();
            let frozen = ground.place(ns.name(), &silent).await?.freeze("etcd")?;
            let since = Instant::now();
            withdrawn(&ns, &silent).await?;
            println!("clients were led to a silent leader for {:.1} s", since.elapsed().as_secs_f64());
            says(&ns, "c", "Progressing", "WaitingForMemberBack").await?;
            answered(&load, 50).await?;
            frozen.heal().await?;
            one_cluster(&ns, "c").await?;
            ensure!(identities(&ns, "c").await? == members, "somebody was replaced");

            // Two of three: nothing is changed, and their disks bring the quorum back.
            let mut frozen = Vec::new();
            for victim in members.keys().take(2) {
                frozen.push(ground.place(ns.name(), victim).await?.freeze("etcd")?);
            }
            let lost = |seen: &Seen| {
                seen.reason == "WaitingForQuorum"
                    && seen.status == "False"
                    && seen.message.contains("only 1 of 3")
            };
            says_that(&ns, "c", "Available", "to say that only one of three is left", lost).await?;
            for victim in members.keys().take(2) {
                kill(&ns, &ground, victim).await?;
            }
            drop(frozen);
            one_cluster(&ns, "c").await?;
            ensure!(identities(&ns, "c").await? == members, "somebody was replaced");
            verdict(load).await?;
            Ok(())
        })
        .await
}

/// Less than etcd needs to start, and more than those who start it need.
const TOO_LITTLE: u64 = 12 << 20;

#[tokio::test]
async fn a_member_killed_for_its_memory_again_and_again_is_named_and_replaced_when_its_time_is_over()
-> anyhow::Result<()> {
    TestCase::of("starved")
        .deadline(LONG)
        .run(async |ns| {
            let soon = "spec: {memberReplacement: {graceSeconds: 90}, ";
            let load = loaded(&ns, &etcd_cluster("c", 3, "3.6.14").replace("spec: {", soon)).await?;
            let members = identities(&ns, "c").await?;
            let victim = members.keys().next().context("no members")?;
            let starved = Ground::here()?.place(ns.name(), victim).await?.starve("etcd", TOO_LITTLE).await?;
            let crashes =
                |seen: &Seen| seen.reason == "MemberCrashing" && seen.message.contains(victim.as_str());
            says_that(&ns, "c", "Progressing", "to name the one that crashes", crashes).await?;
            replaced(&ns, "c", victim).await?;
            told(&ns, "Replacing Dead Member", &format!("The dead member {victim} is being replaced"))
                .await?;
            one_cluster(&ns, "c").await?;
            let now = identities(&ns, "c").await?;
            let kept = members.iter().filter(|(name, id)| now.get(*name) == Some(id)).count();
            ensure!(kept == 2, "of {members:?} only {kept} are left: {now:?}");
            drop(starved);
            verdict(load).await?;
            Ok(())
        })
        .await
}
