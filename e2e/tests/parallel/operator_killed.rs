//! The operator is killed at any moment of a creation, twenty times; each time exactly one cluster forms, and no member is made twice.
//!
//! Who comes back has to wait for the Lease of the one that was killed, so several operators are killed at the same time.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use api::EtcdCluster;
use e2e::{
    LONG, etcd_cluster,
    members::{no_member_twice, one_cluster},
    operator, until_it_succeeds,
};
use futures::future::join_all;
use rand::{RngExt as _, SeedableRng as _, rngs::StdRng};
use testbed::{
    faults::Ground,
    kit::{TestCase, TestNamespace},
    machine::ProcessId,
};

const OPERATORS: u64 = 5;
const KILLS: u64 = 4;
/// From the first write to the last one, a creation takes about this long.
const CREATION: u64 = 5000;

/// Kills the operator. Its pod may still be called Ready while the kubelet waits with its next start: then that is waited for.
async fn kill(ns: &TestNamespace, ground: &Ground) -> anyhow::Result<ProcessId> {
    until_it_succeeds(async || {
        let pods = ns.pods_ready("name=etcd-operator", 1).await?;
        let pod = pods.into_iter().next().context("no operator")?;
        Ok(ground.place_of(pod)?.kill("etcd-operator")?)
    })
    .await
}

/// Kills the operator in the middle of a creation. Whether the cluster had not formed by then.
async fn kill_once(ns: &TestNamespace, ground: &Ground, name: &str, moment: u64) -> anyhow::Result<bool> {
    ns.pods_ready("name=etcd-operator", 1).await?;
    ns.apply(&etcd_cluster(name, 3, "3.6.14")).await?;
    tokio::time::sleep(Duration::from_millis(moment)).await;
    let killed = kill(ns, ground).await?;
    let seen = ns.api::<EtcdCluster>().get(name).await?;
    ensure!(killed.wait_gone(e2e::SOON), "the operator lives");
    one_cluster(ns, name).await?;
    let formed = seen.status.and_then(|status| status.birth).is_some_and(|birth| birth.formed);
    Ok(!formed)
}

async fn kill_again_and_again(ground: &Ground, seed: u64) -> anyhow::Result<usize> {
    let mut in_the_middle = 0;
    TestCase::of("operator_killed")
        .deadline(LONG)
        .run(async |ns| {
            let mark = ns.cluster().audit_log()?.mark()?;
            operator(&ns).await?;
            let mut random = StdRng::seed_from_u64(seed);
            for number in 0..KILLS {
                let (name, moment) = (format!("c{number}"), random.random_range(0..CREATION));
                let middle = kill_once(&ns, ground, &name, moment).await;
                let middle =
                    middle.with_context(|| format!("seed {seed}, {name}, killed after {moment} ms"))?;
                println!("seed {seed}, {name}: killed after {moment} ms, before it had formed: {middle}");
                in_the_middle += usize::from(middle);
                ns.remove::<EtcdCluster>(&name).await?;
            }
            no_member_twice(&ns, mark)
        })
        .await?;
    Ok(in_the_middle)
}

#[tokio::test]
async fn an_operator_killed_twenty_times_in_the_middle_of_creations_makes_each_cluster_once()
-> anyhow::Result<()> {
    let ground = Ground::here()?;
    let seed = match std::env::var("OPERATOR_KILLED_SEED") {
        Ok(seed) => seed.parse()?,
        Err(_) => rand::random::<u64>() >> 8,
    };
    println!("OPERATOR_KILLED_SEED={seed}");
    let outcomes = join_all((0..OPERATORS).map(|at| kill_again_and_again(&ground, seed + at))).await;
    let mut in_the_middle = 0;
    for outcome in outcomes {
        in_the_middle += outcome.with_context(|| format!("OPERATOR_KILLED_SEED={seed}"))?;
    }
    println!("{in_the_middle} of {} before the cluster had formed", OPERATORS * KILLS);
    ensure!(in_the_middle > 0, "no kill was in the middle of anything");
    Ok(())
}
