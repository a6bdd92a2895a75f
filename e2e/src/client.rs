//! Clients of a cluster: how far a load has come, and one that retries as applications do.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use etcd_admin::{Connect, Member};
use testbed::{
    history::{Load, Running, Verdict, route::Route},
    kit::TestNamespace,
};
use tokio::{
    sync::watch,
    task::JoinHandle,
    time::{Instant, sleep, timeout},
};

use crate::{SOON, operator, running};

/// Between two writes, and between two attempts at one.
const PAUSE: Duration = Duration::from_millis(100);

/// Makes a cluster called `c` and, once it runs, has a load on it whose history is checked in the end.
pub async fn loaded(ns: &TestNamespace, manifest: &str) -> anyhow::Result<Running> {
    operator(ns).await?;
    ns.apply(manifest).await?;
    running(ns, "c").await?;
    load(ns, "c").await
}

/// A load on a cluster, whose history is checked in the end. How much has to be answered for that is asked there, and by each test as it goes
/// on; how fast that is depends on how busy the machine is, so little is asked for.
pub async fn load(ns: &TestNamespace, cluster: &str) -> anyhow::Result<Running> {
    let load = Load { minimum: 0.2, ..Load::default() };
    let load = load.start(ns.cluster(), ns.name(), cluster).await?;
    answered(&load, 50).await?;
    Ok(load)
}

/// Ends a load a little later, and says what was seen: no acknowledged write is lost, and all answers have an order.
pub async fn verdict(load: Running) -> anyhow::Result<Verdict> {
    answered(&load, 50).await?;
    let verdict = load.finish().await?;
    println!("{verdict}");
    ensure!(verdict.checked() >= 100 && verdict.writes > 0 && verdict.reads > 0, "{verdict}");
    Ok(verdict)
}

/// Waits until this many more operations of a load have been answered.
pub async fn answered(load: &Running, more: usize) -> anyhow::Result<()> {
    let target = load.answered() + more;
    let counted = async {
        while load.answered() < target {
            sleep(PAUSE).await;
        }
    };
    timeout(SOON, counted).await.with_context(|| format!("no {more} answers: {}", load.progress()))
}

/// A client that writes one value after another through the client Service, and each again until it is acknowledged: over a new
/// connection each time, and so through another member.
pub struct Retrying {
    stop: watch::Sender<()>,
    writing: JoinHandle<anyhow::Result<Written>>,
}

/// What such a client has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// The values that were acknowledged: all of them.
    pub writes: usize,
    /// How many attempts that took.
    pub attempts: usize,
    /// The most that one value took.
    pub most: usize,
}

impl Retrying {
    /// Begins to write.
    pub async fn start(ns: &TestNamespace, cluster: &str) -> anyhow::Result<Self> {
        let route = Route::to(ns.cluster(), ns.name(), cluster).await?;
        let (stop, stopped) = watch::channel(());
        Ok(Self { stop, writing: tokio::spawn(write(route, stopped)) })
    }

    /// Ends it. That is an error if a write was given up, or if the last one is not there.
    pub async fn finish(self) -> anyhow::Result<Written> {
        drop(self.stop);
        let written = self.writing.await??;
        ensure!(written.writes > 0, "nothing was written");
        Ok(written)
    }
}

async fn write(route: Route, stopped: watch::Receiver<()>) -> anyhow::Result<Written> {
    const KEY: &[u8] = b"etcd-operator-retrying";
    let endpoint = format!("http://{}", route.address());
    let connect = Connect { deadline: Duration::from_secs(3), ..Connect::default() };
    let mut member = Member::new(&endpoint, &connect)?;
    let mut written = Written::default();
    // The sender never sends: it goes.
    while stopped.has_changed().is_ok() {
        let value = written.writes.to_string();
        let (mut attempts, begun) = (1, Instant::now());
        while let Err(error) = member.put(KEY, value.as_bytes()).await {
            ensure!(begun.elapsed() < SOON, "write {value} is given up after {attempts} attempts: {error}");
            attempts += 1;
            member = Member::new(&endpoint, &connect)?;
            sleep(PAUSE).await;
        }
        written.writes += 1;
        written.attempts += attempts;
        written.most = written.most.max(attempts);
        sleep(PAUSE).await;
    }
    let last = timeout(SOON, async {
        loop {
            match Member::new(&endpoint, &connect)?.get(KEY).await {
                Ok(last) => return anyhow::Ok(last),
                Err(_) => sleep(PAUSE).await,
            }
        }
    });
    let last = last.await.context("the last value cannot be read")??;
    let expected = written.writes.checked_sub(1).map(|last| last.to_string().into_bytes());
    ensure!(last == expected, "{last:?} is there in the end, not {expected:?}");
    Ok(written)
}
