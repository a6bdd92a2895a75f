//! `make bench`: how long things take on this machine, beside the floors that no operator can go below.
//!
//! A figure is a function that does the thing once and says how long it took; it is added in `figures` below. All are done in
//! turn, so that what else the machine does meanwhile is shared fairly. `RUNS` says how often (ten times, if it is not said), `CLUSTERS` with how
//! many clusters the operator's memory is looked at (fifty).

mod conditions;
mod exact;
mod floor;
mod life;
mod memory;
mod ours;
mod stats;

use std::{num::ParseIntError, process::ExitCode, str::FromStr, time::Duration};

use anyhow::Context;
use testbed::kit::{Cluster, TestCase, TestNamespace, operator};
use tokio::time::sleep;

use crate::{conditions::Conditions, exact::Exact, life::Life, memory::Memory, stats::Figure};

const RUNS: u32 = 10;
const CLUSTERS: usize = 50;
/// Between two looks of the kubelet at its containers. What was taken away last ended with one of them, so what begins then would always
/// begin at the same moment between two: a lucky one for one figure, and not for another.
const LOOK: Duration = Duration::from_secs(1);

#[tokio::main]
async fn main() -> ExitCode {
    match measure().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn measure() -> anyhow::Result<()> {
    let (runs, clusters) = (number("RUNS", RUNS)?, number("CLUSTERS", CLUSTERS)?);
    let cluster = Cluster::connect().await?;
    let conditions = Conditions::now(&cluster).await?;
    TestCase::of("bench")
        .on(cluster)
        .deadline(Duration::from_hours(1))
        .run(async |ns| {
            // Beside pods made by hand, which are not as restricted as ours.
            operator::operator_beside_people(&ns).await?;
            let figures = figures(&ns, runs).await?;
            println!("{}\n{}", conditions.with_load_after()?, figures.table());
            println!("{}", figures.ratios());
            for memory in Memory::with_one_and_with(&ns, clusters).await? {
                println!("{memory}");
            }
            Ok(())
        })
        .await
}

fn number<N: FromStr<Err = ParseIntError>>(name: &str, otherwise: N) -> anyhow::Result<N> {
    match std::env::var(name) {
        Ok(text) => text.parse().with_context(|| format!("{name} is {text:?}, not a number")),
        Err(_) => Ok(otherwise),
    }
}

/// What is measured. The goals are those of the ratios.
struct Figures {
    one_bare: Figure,
    one_exact: Figure,
    three_bare: Figure,
    three_exact: Figure,
    three_ours: Figure,
    again_bare: Figure,
    gone_bare: Figure,
    life: Life,
}

/// All of them, the first time without being counted: images are pulled, caches are filled.
async fn figures(ns: &TestNamespace, runs: u32) -> anyhow::Result<Figures> {
    let (exact, exact_one) = (Exact::capture(ns, 3).await?, Exact::capture(ns, 1).await?);
    let mut figures = Figures {
        one_bare: Figure::of("one etcd pod, apply to Ready"),
        one_exact: Figure::of("one pod as the operator makes it, by hand, apply to Ready"),
        three_bare: Figure::of("three etcd pods, apply to all Ready"),
        three_exact: Figure::of("three pods as the operator makes them, by hand, apply to all Ready"),
        three_ours: Figure::of("three members by the operator, apply to all Ready"),
        again_bare: Figure::of("a deleted etcd pod, delete to Ready again"),
        gone_bare: Figure::of("an etcd pod, delete to gone"),
        life: Life::new(),
    };
    for run in 0..=runs {
        let at_another_moment = async || sleep(LOOK * run / runs.max(1)).await;
        at_another_moment().await;
        figures.one_bare.took(run, floor::apply_to_ready(ns, run, 1).await?);
        at_another_moment().await;
        figures.one_exact.took(run, exact_one.apply_to_ready(ns, run).await?);
        at_another_moment().await;
        figures.three_bare.took(run, floor::apply_to_ready(ns, run, 3).await?);
        at_another_moment().await;
        figures.three_exact.took(run, exact.apply_to_ready(ns, run).await?);
        at_another_moment().await;
        figures.three_ours.took(run, ours::apply_to_ready(ns, &format!("ours-{run}"), 3).await?);
        at_another_moment().await;
        let again = floor::delete_to_ready(ns, run).await?;
        figures.again_bare.took(run, again.ready);
        figures.gone_bare.took(run, again.gone);
        figures.life.live(ns, run).await?;
    }
    Ok(figures)
}

impl Figures {
    fn table(&self) -> String {
        let Self { one_bare, one_exact, three_bare, three_exact, three_ours, again_bare, gone_bare, life } =
            self;
        let floors = [one_bare, one_exact, three_bare, three_exact, three_ours, again_bare, gone_bare];
        stats::table(&[&floors[..], &life.figures()].concat())
    }

    fn ratios(&self) -> String {
        format!(
            "ours to the bare floor: {} (goal 1.50)\nours to the floor of the same pods: {} (goal 1.15)\n{}",
            stats::ratio(&self.three_ours, &self.three_bare, 1),
            stats::ratio(&self.three_ours, &self.three_exact, 1),
            self.life.ratios(&self.one_bare, &self.one_exact, &self.gone_bare),
        )
    }
}
