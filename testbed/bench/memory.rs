//! How much memory the operator takes, with one cluster and with many.

use std::{fmt, fs, time::Duration};

use anyhow::Context as _;
use futures::future::try_join_all;
use k8s_openapi::api::core::v1::Pod;
use kube::{ResourceExt as _, api::ListParams};
use testbed::{
    faults::{FaultError, Ground},
    kit::{TestNamespace, operator},
};

use crate::ours;

/// How long the members of many clusters may take, on a machine that is busy with starting them.
const PATIENCE: Duration = Duration::from_mins(20);

/// What the operator's process held.
pub(crate) struct Memory {
    clusters: usize,
    /// Proportional and resident set size, in KiB; nothing where its process is not on this machine.
    process: Option<(u64, u64)>,
}

impl Memory {
    /// With one cluster of one member, and with so many. They are all left to the end of the namespace.
    pub(crate) async fn with_one_and_with(ns: &TestNamespace, clusters: usize) -> anyhow::Result<[Self; 2]> {
        // A new process: what it held before is not what one cluster takes.
        operator::operator_replicas(ns, 0).await?;
        operator::operator_replicas(ns, 1).await?;
        ours::apply(ns, "memory-0", 1).await?;
        all_run(ns).await?;
        let one = Self { clusters: 1, process: of_operator(ns).await? };
        let names: Vec<_> = (1..clusters).map(|at| format!("memory-{at}")).collect();
        try_join_all(names.iter().map(|name| ours::apply(ns, name, 1))).await?;
        all_run(ns).await?;
        let many = Self { clusters, process: of_operator(ns).await? };
        Ok([one, many])
    }
}

/// Waits until every cluster runs, by its own word. That all are Ready at one moment may never come about where so many share two
/// cores: each member is asked by a process of its own, every few seconds.
async fn all_run(ns: &TestNamespace) -> anyhow::Result<()> {
    let patience = format!("--timeout={}s", PATIENCE.as_secs());
    let wait = ["wait", "--for=jsonpath={.status.phase}=Running", "etcdcluster", "--all", &patience];
    ns.kubectl_with(&wait, &[], PATIENCE * 2).await?.success()?;
    Ok(())
}

async fn of_operator(ns: &TestNamespace) -> anyhow::Result<Option<(u64, u64)>> {
    let ground = match Ground::here() {
        Ok(ground) => ground,
        Err(FaultError::NotOurs) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let pods = ns.api::<Pod>().list(&ListParams::default().labels(operator::LABELS)).await?.items;
    let pod = pods.first().context("the operator has no pod")?;
    let process = ground.place(ns.name(), &pod.name_any()).await?.process("etcd-operator")?;
    let path = format!("/proc/{}/smaps_rollup", process.pid);
    let text = fs::read_to_string(&path).with_context(|| format!("read {path}"))?;
    let sizes = kib(&text, "Pss:").zip(kib(&text, "Rss:"));
    Ok(Some(sizes.with_context(|| format!("{path} has no sizes"))?))
}

fn kib(rollup: &str, name: &str) -> Option<u64> {
    let line = rollup.lines().find(|line| line.starts_with(name))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

impl fmt::Display for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plural = if self.clusters == 1 { "" } else { "s" };
        write!(f, "the operator's memory with {} cluster{plural} of one member: ", self.clusters)?;
        match self.process {
            // Tenths are enough.
            Some((pss, rss)) => write!(f, "{} MiB (PSS), {} MiB (RSS)", mib(pss), mib(rss)),
            None => f.write_str("not seen from this machine"),
        }
    }
}

fn mib(kib: u64) -> String {
    format!("{}.{}", kib / 1024, kib % 1024 * 10 / 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_and_told() {
        let rollup = "55d0-7ffd ---p 00000000 00:00 0 [rollup]\nRss:               15872 kB\nPss:               12345 kB\n";
        let process = kib(rollup, "Pss:").zip(kib(rollup, "Rss:"));
        let memory = Memory { clusters: 50, process };
        let expected = "the operator's memory with 50 clusters of one member: 12.0 MiB (PSS), 15.5 MiB (RSS)";
        assert_eq!(memory.to_string(), expected);
        assert_eq!(kib(rollup, "Swap:"), None);
    }
}
