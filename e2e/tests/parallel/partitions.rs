//! S23: a leader without its peers, an operator without its members, a member with one port dead. Nobody is removed because one side
//! cannot reach it, it is said what is not seen, and when the network is whole again all members are the ones from before.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use e2e::{
    LONG, SOON, Seen,
    client::{answered, load, verdict},
    etcd_cluster,
    members::{leader, one_cluster, replaced},
    operator, operator_pod,
    pods::{living, which},
    says, says_that,
};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use testbed::{
    faults::{
        Broken, Ground,
        network::{Cut, Peer, Way},
        place::Place,
    },
    history::Running,
    kit::{TestCase, TestNamespace, check, wait_for},
};

/// The shortest that there is: silence outlasts it here.
const GRACE: Duration = Duration::from_secs(30);

async fn places(ns: &TestNamespace, ground: &Ground) -> anyhow::Result<Vec<Place>> {
    Ok(living(ns, "c").await?.into_iter().map(|pod| ground.place_of(pod)).collect::<Result<_, _>>()?)
}

/// Cuts a pod off from these, in both directions.
fn cut_from(one: &Place, others: &[&Place]) -> anyhow::Result<Vec<Broken<Cut>>> {
    let cuts = others.iter().map(|other| one.cut(Way::Both, Peer::Pod(other)));
    Ok(cuts.collect::<Result<_, _>>()?)
}

async fn heal(cuts: Vec<Broken<Cut>>) -> anyhow::Result<()> {
    for cut in cuts {
        cut.heal().await?;
    }
    Ok(())
}

/// Waits until it is said of a cluster that it is available, is not, or that nobody knows.
async fn available(ns: &TestNamespace, status: &str) -> anyhow::Result<Seen> {
    let what = format!("to be called available: {status}");
    says_that(ns, "c", "Available", &what, |seen| seen.status == status).await
}

/// F57: the leader is in the minority.
async fn the_leader_loses_its_peers(
    ns: &TestNamespace,
    ground: &Ground,
    load: &Running,
) -> anyhow::Result<()> {
    let first = leader(ns, "c", None).await?.pod.name_any();
    let places = places(ns, ground).await?;
    let (led, followed): (Vec<_>, Vec<_>) = places.iter().partition(|place| place.pod.name_any() == first);
    let cuts = cut_from(led.first().context("no leader")?, &followed)?;
    let second = leader(ns, "c", Some(&first)).await?.pod.name_any();
    let unready = |pod: Option<&Pod>| match check::pod_ready(pod) {
        Ok(_) => Err("it is Ready".to_owned()),
        Err(_) => Ok(()),
    };
    wait_for(&ns.api::<Pod>(), &first, SOON, "not to be Ready", unready).await?;
    let only_first = |seen: &Seen| {
        seen.reason == "WaitingForMemberBack"
            && seen.message.contains(&first)
            && !seen.message.contains(&second)
    };
    says_that(ns, "c", "Progressing", "to wait for the old leader and not for the new one", only_first)
        .await?;
    answered(load, 100).await?;
    available(ns, "True").await?;
    heal(cuts).await?;
    ns.pods_ready("etcd_cluster=c", 3).await?;
    Ok(())
}

/// F58 and F59: the operator reaches one member of three, and then none.
async fn the_operator_loses_members(
    ns: &TestNamespace,
    ground: &Ground,
    load: &Running,
) -> anyhow::Result<()> {
    let operator = ground.place_of(operator_pod(ns).await?)?;
    let places = places(ns, ground).await?;
    let [one, rest @ ..] = places.as_slice() else { anyhow::bail!("no members") };
    let mut cuts = cut_from(&operator, &rest.iter().collect::<Vec<_>>())?;
    let unknown = |seen: &Seen| {
        let named = rest.iter().any(|place| seen.message.contains(&place.pod.name_any()));
        seen.reason == "MembersUnknown" && named
    };
    says_that(ns, "c", "Progressing", "to name whom the operator does not reach", unknown).await?;
    // By the word of the one that it reaches.
    available(ns, "True").await?;

    cuts.extend(cut_from(&operator, &[one])?);
    let unknown = |seen: &Seen| seen.reason == "MembersUnknown" && seen.status == "Unknown";
    says_that(ns, "c", "Available", "to say that nobody is reached", unknown).await?;
    // Longer than anybody is waited for whom Kubernetes does not find ready.
    tokio::time::sleep(GRACE + Duration::from_secs(5)).await;
    answered(load, 100).await?;
    available(ns, "Unknown").await?;
    heal(cuts).await?;
    says(ns, "c", "Available", "Cluster available").await?;
    Ok(())
}

/// A member that hears the operator and not its peers is replaced when its time is over.
async fn a_member_loses_its_peers_for_too_long(
    ns: &TestNamespace,
    ground: &Ground,
    load: &Running,
) -> anyhow::Result<()> {
    let places = places(ns, ground).await?;
    let [one, rest @ ..] = places.as_slice() else { anyhow::bail!("no members") };
    let cuts = cut_from(one, &rest.iter().collect::<Vec<_>>())?;
    replaced(ns, "c", &one.pod.name_any()).await?;
    answered(load, 50).await?;
    heal(cuts).await
}

/// F61: one of a member's two ports is dead.
async fn a_member_loses_a_port(ns: &TestNamespace, ground: &Ground, load: &Running) -> anyhow::Result<()> {
    let places = places(ns, ground).await?;
    let one = places.first().context("no members")?;
    let cut = one.cut(Way::In, Peer::Port(2379))?;
    let name = one.pod.name_any();
    let unknown = |seen: &Seen| seen.reason == "MembersUnknown" && seen.message.contains(&name);
    says_that(ns, "c", "Progressing", "to name the one with the dead port", unknown).await?;
    answered(load, 100).await?;
    cut.heal().await?;
    says(ns, "c", "Progressing", "Settled").await?;

    let cut = one.cut(Way::In, Peer::Port(2380))?;
    answered(load, 200).await?;
    available(ns, "True").await?;
    cut.heal().await?;
    ns.pods_ready("etcd_cluster=c", 3).await?;
    Ok(())
}

#[tokio::test]
async fn nobody_is_removed_for_what_one_side_of_a_partition_does_not_see() -> anyhow::Result<()> {
    TestCase::of("partitions")
        .deadline(LONG)
        .run(async |ns| {
            let ground = Ground::here()?;
            operator(&ns).await?;
            ns.apply(&etcd_cluster("c", 3, "3.6.14")).await?;
            one_cluster(&ns, "c").await?;
            let before = which(&ns, "c").await?;
            let load = load(&ns, "c").await?;

            the_leader_loses_its_peers(&ns, &ground, &load).await?;
            ensure!(which(&ns, "c").await? == before, "a leader without peers is not the one from before");
            a_member_loses_a_port(&ns, &ground, &load).await?;
            ensure!(which(&ns, "c").await? == before, "a dead port cost a member");
            let grace = format!("{{memberReplacement: {{graceSeconds: {}}}, size", GRACE.as_secs());
            ns.apply(&etcd_cluster("c", 3, "3.6.14").replace("{size", &grace)).await?;
            the_operator_loses_members(&ns, &ground, &load).await?;
            ensure!(which(&ns, "c").await? == before, "an operator without eyes changed the members");
            a_member_loses_its_peers_for_too_long(&ns, &ground, &load).await?;

            verdict(load).await?;
            one_cluster(&ns, "c").await?;
            Ok(())
        })
        .await
}
