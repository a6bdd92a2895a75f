//! `make load`: a load on any etcd cluster, as long as somebody wants it, and its verdict.

use std::{process::exit, time::Duration};

use anyhow::Context as _;
use clap::Args;
use testbed::{
    history::Load,
    kit::{Cluster, Places},
};
use tokio::{
    signal::ctrl_c,
    time::{Instant, interval, sleep_until},
};

/// How often something is said meanwhile.
const NEWS: Duration = Duration::from_secs(5);
/// As a shell has it for a program that was interrupted.
const INTERRUPTED: i32 = 130;

/// Which cluster, how long, how much.
#[derive(Args)]
pub(crate) struct Arguments {
    /// The namespace of the etcd cluster.
    #[arg(long, default_value = "default")]
    namespace: String,
    /// Its name; the load goes to the Service NAME-client.
    #[arg(long, default_value = "example-etcd-cluster")]
    cluster: String,
    /// For how many seconds; Ctrl-C ends it earlier, with a verdict.
    #[arg(long, default_value_t = 60)]
    duration: u64,
    /// Operations per second, at the most.
    #[arg(long, default_value_t = Load::default().rate)]
    rate: u32,
    /// Answered operations per second below which the run does not count.
    #[arg(long, default_value_t = Load::default().minimum)]
    minimum: f64,
}

/// Runs it. A bad verdict is an error.
pub(crate) async fn run(places: Places, arguments: Arguments) -> anyhow::Result<()> {
    let Arguments { namespace, cluster: etcd, duration, rate, minimum } = arguments;
    let cluster = Cluster::connect_to(places).await?;
    let load = Load { rate, minimum, ..Load::default() };
    let running = load
        .start(&cluster, &namespace, &etcd)
        .await
        .with_context(|| format!("no load on {etcd} in {namespace}"))?;
    println!("writing to and reading from {etcd}-client in {namespace}; Ctrl-C ends it with a verdict");
    let end = Instant::now() + Duration::from_secs(duration);
    let mut news = interval(NEWS);
    news.tick().await;
    loop {
        tokio::select! {
            () = sleep_until(end) => break,
            interrupted = ctrl_c() => {
                interrupted.context("Ctrl-C cannot be listened for")?;
                break;
            }
            _ = news.tick() => println!("{}", running.progress()),
        }
    }
    println!("reading every key a last time");
    tokio::select! {
        verdict = running.finish() => println!("the history holds: {}", verdict?),
        // Who asks a second time does not want to wait for a cluster that may not answer any more.
        _ = ctrl_c() => exit(INTERRUPTED),
    }
    Ok(())
}
