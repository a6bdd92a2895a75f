//! S11 to S13 under load: the size is changed by apply, patch, edit and scale, also while it is still changing, and members are lost on
//! the way. No acknowledged write is lost, and none is read out of order.

use std::env;

use anyhow::{Context as _, ensure};
use api::EtcdCluster;
use e2e::{
    LONG,
    client::{answered, loaded, verdict},
    etcd_cluster,
    members::one_cluster,
    pods::living,
    says,
};
use kube::ResourceExt as _;
use rand::{RngExt as _, SeedableRng as _, rngs::StdRng};
use testbed::kit::{TestCase, TestNamespace};

/// How a size is asked for.
#[derive(Clone, Copy, Debug)]
enum How {
    Apply,
    Edit,
    Patch,
    Scale,
}

async fn ask_for(ns: &TestNamespace, how: How, size: u8) -> anyhow::Result<()> {
    let said = match how {
        How::Apply => {
            ns.apply(&etcd_cluster("c", size, "3.6.14")).await?;
            return Ok(());
        }
        How::Edit => {
            let now = ns.api::<EtcdCluster>().get("c").await?.spec.size.unwrap_or_default();
            let editor = format!("sed -i /^..size:/s/{now}/{size}/");
            ns.kubectl_edit("etcdcluster/c", &editor).await?
        }
        How::Patch => {
            let patch = format!(r#"{{"spec":{{"size":{size}}}}}"#);
            ns.kubectl(&["patch", "etcdcluster", "c", "--type=merge", "-p", &patch]).await?
        }
        How::Scale => ns.kubectl(&["scale", "etcdcluster/c", &format!("--replicas={size}")]).await?,
    };
    let said = said.success()?;
    ensure!(["edited", "patched", "scaled"].iter().any(|word| said.contains(word)), "{how:?}: {said}");
    Ok(())
}

async fn delete(ns: &TestNamespace, pod: &str) -> anyhow::Result<()> {
    ns.kubectl(&["delete", "pod", pod, "--wait=false"]).await?.success()?;
    Ok(())
}

/// The seed of a walk: another one each time, or the one that is to be walked again.
fn seed() -> anyhow::Result<u64> {
    let named = env::var("WALK_SEED").ok();
    named.map_or_else(|| Ok(rand::random()), |text| text.parse().context("WALK_SEED is no number"))
}

#[tokio::test]
async fn a_cluster_walks_from_one_member_to_seven_and_back_under_load_and_loses_no_write()
-> anyhow::Result<()> {
    let seed = seed()?;
    let mut random = StdRng::seed_from_u64(seed);
    let (unlucky, moment, who) =
        (random.random_range(1..4_usize), random.random_range(1..200_usize), random.random::<u16>());
    println!("seed {seed}: on leg {unlucky}, after {moment} answers, member {who} is lost");
    let walked = TestCase::of("walk").deadline(LONG).run(async |ns| {
        let load = loaded(&ns, &etcd_cluster("c", 1, "3.6.14")).await?;
        let legs = [(How::Apply, 3), (How::Patch, 5), (How::Edit, 7), (How::Scale, 4)];
        for (leg, (how, size)) in legs.into_iter().enumerate() {
            ask_for(&ns, how, size).await?;
            if leg == unlucky {
                answered(&load, moment).await?;
                let members = living(&ns, "c").await?;
                let lost = members.get(usize::from(who) % members.len()).context("no members")?;
                delete(&ns, &lost.name_any()).await?;
            }
            one_cluster(&ns, "c").await?;
            println!("{size} members: {}", load.progress());
        }
        // On its way to six it is called back.
        ask_for(&ns, How::Scale, 6).await?;
        says(&ns, "c", "Scaling", "Scaling up").await?;
        ask_for(&ns, How::Patch, 1).await?;
        one_cluster(&ns, "c").await?;
        verdict(load).await?;
        Ok(())
    });
    walked.await.with_context(|| format!("WALK_SEED={seed}"))
}

/// Grows by apply, loses and replaces a member, and shrinks in one edit.
async fn grows_heals_and_shrinks(version: &str, [first, most, end]: [u8; 3]) -> anyhow::Result<()> {
    let case = format!("walk-{}", version.replace('.', "-"));
    let walked = TestCase::of(&case).deadline(LONG).run(async |ns| {
        let load = loaded(&ns, &etcd_cluster("c", first, version)).await?;
        ns.apply(&etcd_cluster("c", most, version)).await?;
        one_cluster(&ns, "c").await?;
        let lost = living(&ns, "c").await?.first().context("no members")?.name_any();
        delete(&ns, &lost).await?;
        one_cluster(&ns, "c").await?;
        ensure!(living(&ns, "c").await?.iter().all(|pod| pod.name_any() != lost), "{lost} is still there");
        ask_for(&ns, How::Patch, end).await?;
        one_cluster(&ns, "c").await?;
        verdict(load).await?;
        Ok(())
    });
    walked.await
}

#[tokio::test]
async fn etcd_3_4_grows_heals_and_shrinks_under_load() -> anyhow::Result<()> {
    grows_heals_and_shrinks("3.4.23", [3, 4, 3]).await
}

#[tokio::test]
async fn etcd_3_7_grows_to_seven_heals_and_shrinks_to_one_in_one_edit_under_load() -> anyhow::Result<()> {
    grows_heals_and_shrinks("3.7.1", [5, 7, 1]).await
}
