//! S23: a leader without its peers, an operator without its members, a member with one port dead. Nobody is removed because one side
//! cannot reach it, it is said what is not seen, and when the network is whole again all members are the ones from before.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use api::EtcdCluster;
use e2e::{
    SOON, Seen,
    client::answered,
    condition, etcd_cluster,
    members::{leader, one_cluster, replaced},
    operator, operator_pod,
    pods::{living, which},
    says,
};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use testbed::{
    faults::{
        Broken, Ground,
        network::{Cut, Peer, Way},
        place::Place,
    },
    history::{Load, Running},
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

async fn available(ns: &TestNamespace) -> anyhow::Result<Seen> {
    let cluster = ns.api::<EtcdCluster>().get("c").await?;
    condition(&cluster, "Available").context("nothing is said about being available")
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
    let seen = says(ns, "c", "Progressing", "WaitingForMemberBack").await?;
    ensure!(seen.message.contains(&first) && !seen.message.contains(&second), "{seen:?}");
    answered(load, 100).await?;
    ensure!(available(ns).await?.status == "True", "the majority serves");
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
    let seen = says(ns, "c", "Progressing", "MembersUnknown").await?;
    ensure!(rest.iter().any(|place| seen.message.contains(&place.pod.name_any())), "{seen:?}");
    ensure!(available(ns).await?.status == "True", "one member says that the cluster serves");

    cuts.extend(cut_from(&operator, &[one])?);
    let seen = says(ns, "c", "Available", "MembersUnknown").await?;
    ensure!(seen.status == "Unknown", "{seen:?}");
    // Longer than anybody is waited for whom Kubernetes does not find ready.
    tokio::time::sleep(GRACE + Duration::from_secs(5)).await;
    answered(load, 100).await?;
    ensure!(available(ns).await?.status == "Unknown", "nobody answers the operator");
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
    let seen = says(ns, "c", "Progressing", "MembersUnknown").await?;
    ensure!(seen.message.contains(&one.pod.name_any()), "{seen:?}");
    answered(load, 100).await?;
    cut.heal().await?;
    says(ns, "c", "Progressing", "Settled").await?;

    let cut = one.cut(Way::In, Peer::Port(2380))?;
    answered(load, 200).await?;
    ensure!(available(ns).await?.status == "True", "the others serve");
    cut.heal().await?;
    ns.pods_ready("etcd_cluster=c", 3).await?;
    Ok(())
}

#[tokio::test]
async fn nobody_is_removed_for_what_one_side_of_a_partition_does_not_see() -> anyhow::Result<()> {
    TestCase::of("partitions")
        .deadline(Duration::from_mins(7))
        .run(async |ns| {
            let ground = Ground::here()?;
            operator(&ns).await?;
            ns.apply(&etcd_cluster("c", 3, "3.6.14")).await?;
            one_cluster(&ns, "c").await?;
            let before = which(&ns, "c").await?;
            let load = Load::default().start(ns.cluster(), ns.name(), "c").await?;
            answered(&load, 50).await?;

            the_leader_loses_its_peers(&ns, &ground, &load).await?;
            ensure!(which(&ns, "c").await? == before, "a leader without peers is not the one from before");
            a_member_loses_a_port(&ns, &ground, &load).await?;
            ensure!(which(&ns, "c").await? == before, "a dead port cost a member");
            let grace = format!("{{memberReplacement: {{graceSeconds: {}}}, size", GRACE.as_secs());
            ns.apply(&etcd_cluster("c", 3, "3.6.14").replace("{size", &grace)).await?;
            the_operator_loses_members(&ns, &ground, &load).await?;
            ensure!(which(&ns, "c").await? == before, "an operator without eyes changed the members");
            a_member_loses_its_peers_for_too_long(&ns, &ground, &load).await?;

            let verdict = load.finish().await?;
            println!("{verdict}");
            ensure!(verdict.writes > 0 && verdict.reads > 0, "{verdict}");
            one_cluster(&ns, "c").await?;
            Ok(())
        })
        .await
}
