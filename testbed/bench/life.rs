//! A running cluster that is changed while a client writes and reads: how long each change takes, and how long the client was
//! without an answer at the most. Its history is checked, as everywhere.

use std::{future::Future, time::Duration};

use anyhow::Context as _;
use k8s_openapi::api::core::v1::Pod;
use kube::{
    ResourceExt,
    api::{DeleteParams, ListParams},
};
use testbed::{
    history::Load,
    kit::{TestNamespace, check, wait_for_all},
};
use tokio::time::{Instant, sleep};

use crate::{
    floor, ours,
    stats::{self, Figure},
};

/// etcd takes no change until its voters have been connected for 5 s; what is measured is a cluster that has run for a while.
const SETTLED: Duration = Duration::from_secs(6);
/// How long a change may take, on a busy machine.
const PATIENCE: Duration = Duration::from_mins(3);

/// A change, and the client's longest time without an answer meanwhile.
pub(crate) struct Change {
    pub(crate) took: Figure,
    pub(crate) gap: Figure,
}

impl Change {
    fn of(what: &str) -> Self {
        Self { took: Figure::of(what), gap: Figure::of("  its client without an answer, at the most") }
    }

    /// Makes a change under load, and waits for its end.
    async fn make(
        &mut self,
        ns: &TestNamespace,
        run: u32,
        name: &str,
        change: impl Future<Output = anyhow::Result<()>>,
        ends: impl Fn(&[Pod]) -> Result<(), String>,
    ) -> anyhow::Result<()> {
        let load = Load::default().start(ns.cluster(), ns.name(), name).await?;
        sleep(SETTLED).await;
        let started = Instant::now();
        change.await?;
        wait_for_all(&ns.api::<Pod>(), &ours::labels(name), PATIENCE, "to be as asked for", ends).await?;
        self.took.took(run, started.elapsed());
        self.gap.took(run, load.finish().await?.longest_gap);
        Ok(())
    }
}

/// The changes that are measured, each on the cluster that the one before left.
pub(crate) struct Life {
    pub(crate) replace: Change,
    pub(crate) grow: Change,
    pub(crate) shrink: Change,
    pub(crate) upgrade: Change,
    /// The floor of the last: bare pods, patched by hand one after another.
    pub(crate) by_hand: Figure,
}

impl Life {
    /// Nothing was measured yet.
    pub(crate) fn new() -> Self {
        Self {
            replace: Change::of("a member of three deleted, delete to three Ready"),
            grow: Change::of("three members to five, scale to all Ready"),
            shrink: Change::of("five members to three, scale to three pods left"),
            upgrade: Change::of("three members to the next minor, edit to all Ready with it"),
            by_hand: Figure::of("three etcd pods to the next minor, by hand one after another"),
        }
    }

    /// The life of one cluster, which is gone again afterwards.
    pub(crate) async fn live(&mut self, ns: &TestNamespace, run: u32) -> anyhow::Result<()> {
        let name = format!("life-{run}");
        let labels = ours::labels(&name);
        let applied = ours::apply(ns, &name, 3).await?;
        ns.pods_ready(&labels, 3).await?;
        let pods = ns.api::<Pod>().list(&ListParams::default().labels(&labels)).await?;
        let victim = pods.items.first().map(ResourceExt::name_any).context("there is no member")?;
        // As the floors are made, without a program of its own for it.
        let pods = ns.api::<Pod>();
        let delete = async { Ok(pods.delete(&victim, &DeleteParams::default()).await.map(drop)?) };
        self.replace.make(ns, run, &name, delete, |pods| three_without(&victim, pods)).await?;
        let five = |pods: &[Pod]| check::pods_ready(5)(pods).map(drop);
        self.grow.make(ns, run, &name, scale(ns, &name, 5), five).await?;
        let three = |pods: &[Pod]| match pods.len() {
            3 => check::pods_ready(3)(pods).map(drop),
            other => Err(format!("{other} pods")),
        };
        self.shrink.make(ns, run, &name, scale(ns, &name, 3), three).await?;
        let next = |pods: &[Pod]| match pods.len() {
            3 => pods.iter().try_for_each(|pod| floor::runs(pod, floor::NEXT)),
            other => Err(format!("{other} pods")),
        };
        self.upgrade.make(ns, run, &name, upgrade(ns, &name), next).await?;
        self.by_hand.took(run, floor::roll(ns, run).await?);
        ours::remove(ns, &name, &applied).await
    }

    /// All figures, in their order.
    pub(crate) fn figures(&self) -> Vec<&Figure> {
        [&self.replace, &self.grow, &self.shrink, &self.upgrade]
            .into_iter()
            .flat_map(|change| [&change.took, &change.gap])
            .chain([&self.by_hand])
            .collect()
    }

    /// Beside the floors: members are changed one at a time, so two of them take one pod's time twice.
    pub(crate) fn ratios(&self, one_bare: &Figure, one_exact: &Figure, one_goes: &Figure) -> String {
        format!(
            "a member replaced, to one pod's start: {} (goal 2.00), to the start of one like it: {}\n\
             three to five, to two such pods' starts one after another: {}\n\
             five to three, to two pods' ends one after another: {}\n\
             three members to the next minor, to three pods by hand one after another: {} (goal 1.30)",
            stats::ratio(&self.replace.took, one_bare, 1),
            stats::ratio(&self.replace.took, one_exact, 1),
            stats::ratio(&self.grow.took, one_exact, 2),
            stats::ratio(&self.shrink.took, one_goes, 2),
            stats::ratio(&self.upgrade.took, &self.by_hand, 1),
        )
    }
}

/// Asks for another size, as a person does.
async fn scale(ns: &TestNamespace, name: &str, size: usize) -> anyhow::Result<()> {
    ns.kubectl(&["scale", &format!("etcdcluster/{name}"), &format!("--replicas={size}")]).await?.success()?;
    Ok(())
}

/// Asks for the next minor, as a person does.
async fn upgrade(ns: &TestNamespace, name: &str) -> anyhow::Result<()> {
    let patch = format!(r#"{{"spec": {{"version": "{}"}}}}"#, floor::NEXT);
    ns.kubectl(&["patch", "etcdcluster", name, "--type=merge", "-p", &patch]).await?.success()?;
    Ok(())
}

/// Three Ready members, one of them new: the deleted one does not count while it ends.
fn three_without(victim: &str, pods: &[Pod]) -> Result<(), String> {
    let ready =
        pods.iter().filter(|pod| pod.name_any() != victim && check::pod_ready(Some(pod)).is_ok()).count();
    if ready == 3 { Ok(()) } else { Err(format!("{ready} are Ready")) }
}
