//! `make bench`: how long things take on this machine, beside the floor that no operator can go below.
//!
//! A figure is a function that does the thing once and says how long it took; it is added in `figures` below. `RUNS` says
//! how often each is done (ten times, if it is not said).

mod conditions;
mod floor;
mod ours;
mod stats;

use std::time::Duration;

use anyhow::Context;
use testbed::kit::{Cluster, TestCase, TestNamespace};

use crate::{
    conditions::Conditions,
    stats::{Figure, measure},
};

const RUNS: usize = 10;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let runs = match std::env::var("RUNS") {
        Ok(runs) => runs.parse().with_context(|| format!("RUNS is {runs:?}, not a number"))?,
        Err(_) => RUNS,
    };
    let cluster = Cluster::connect().await?;
    let conditions = Conditions::now(&cluster).await?;
    let mut figures = Vec::new();
    TestCase::of("bench")
        .on(cluster)
        .deadline(Duration::from_hours(1))
        .run(async |ns| {
            figures = self::figures(&ns, runs).await?;
            Ok(())
        })
        .await?;
    println!("{}", conditions.with_load_after()?);
    println!("{}", stats::table(&figures));
    if let [_, floor, ours, ..] = figures.as_slice() {
        println!("ours to the bare floor: {}", stats::ratio(ours, floor));
    }
    Ok(())
}

async fn figures(ns: &TestNamespace, runs: usize) -> anyhow::Result<Vec<Figure>> {
    ours::install(ns).await?;
    Ok(vec![
        measure("one etcd pod, apply to Ready", runs, async |run| floor::apply_to_ready(ns, run, 1).await)
            .await?,
        measure("three etcd pods, apply to all Ready", runs, async |run| {
            floor::apply_to_ready(ns, run, 3).await
        })
        .await?,
        measure("three members by the operator, apply to all Ready", runs, async |run| {
            ours::apply_to_ready(ns, run, 3).await
        })
        .await?,
        measure("a deleted etcd pod, delete to Ready again", runs, async |run| {
            floor::delete_to_ready(ns, run).await
        })
        .await?,
    ])
}
