//! The floor: etcd in bare pods with static bootstrap, without an operator. Times end with the watch event that shows it.

use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use testbed::kit::{TestNamespace, handmade::HandMade};
use tokio::time::Instant;

/// The etcd that is measured.
pub(crate) const ETCD: &str = "3.6.14";

/// A cluster of this size, from its `apply` until all its members are Ready; it is gone again afterwards.
pub(crate) async fn apply_to_ready(ns: &TestNamespace, run: u32, size: usize) -> anyhow::Result<Duration> {
    // A new name each time: DNS and the scheduler remember.
    let name = format!("floor-{size}-{run}");
    let etcd = cluster(ns, &name, size);
    let started = Instant::now();
    let ready = async {
        ns.pods_ready(&etcd.labels(), size).await?;
        Ok(started.elapsed())
    };
    let applied = async { anyhow::Ok(ns.apply(&etcd.manifest()).await?) };
    let (applied, took) = tokio::try_join!(applied, ready)?;
    ns.remove_all(&applied).await?;
    Ok(took)
}

/// How long the end of a pod took, and how long all took until the one in its place was Ready.
pub(crate) struct Again {
    pub(crate) gone: Duration,
    pub(crate) ready: Duration,
}

/// The pod of a cluster of one, from its deletion until it is gone, and until the pod that is made then is Ready.
pub(crate) async fn delete_to_ready(ns: &TestNamespace, run: u32) -> anyhow::Result<Again> {
    let name = format!("again-{run}");
    let etcd = cluster(ns, &name, 1);
    let member = format!("{name}-0");
    let applied = ns.apply(&etcd.manifest()).await?;
    ns.pod_ready(&member).await?;

    let started = Instant::now();
    ns.remove::<Pod>(&member).await?;
    let gone = started.elapsed();
    ns.apply(&etcd.pod(&member)).await?;
    ns.pod_ready(&member).await?;
    let ready = started.elapsed();
    ns.remove_all(&applied).await?;
    Ok(Again { gone, ready })
}

fn cluster<'a>(ns: &'a TestNamespace, name: &'a str, size: usize) -> HandMade<'a> {
    HandMade { name, namespace: ns.name(), version: ETCD, size }
}
