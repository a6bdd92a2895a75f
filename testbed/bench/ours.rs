//! Ours: the same members, asked of the operator, which runs in the bench's own namespace from the book's files.

use std::time::Duration;

use kube::api::DynamicObject;
use testbed::kit::TestNamespace;
use tokio::time::Instant;

use crate::floor::ETCD;

/// A cluster of this size, from its `apply` until all its members are Ready; it is gone again afterwards.
pub(crate) async fn apply_to_ready(ns: &TestNamespace, name: &str, size: usize) -> anyhow::Result<Duration> {
    let started = Instant::now();
    let ready = async {
        ns.pods_ready(&labels(name), size).await?;
        Ok(started.elapsed())
    };
    let (applied, took) = tokio::try_join!(apply(ns, name, size), ready)?;
    remove(ns, name, &applied).await?;
    Ok(took)
}

/// Selects the members of a cluster.
pub(crate) fn labels(name: &str) -> String {
    format!("etcd_cluster={name}")
}

/// Asks for a cluster.
pub(crate) async fn apply(ns: &TestNamespace, name: &str, size: usize) -> anyhow::Result<Vec<DynamicObject>> {
    let manifest = format!(
        "apiVersion: etcd.database.coreos.com/v1beta2\nkind: EtcdCluster\nmetadata: {{name: {name}}}\n\
         spec: {{size: {size}, version: \"{ETCD}\"}}\n"
    );
    Ok(ns.apply(&manifest).await?)
}

/// Takes a cluster away. Its members go after their resource, and what is measured next must not share the machine with them.
pub(crate) async fn remove(ns: &TestNamespace, name: &str, applied: &[DynamicObject]) -> anyhow::Result<()> {
    ns.remove_all(applied).await?;
    let labels = labels(name);
    ns.kubectl(&["wait", "--for=delete", "--timeout=120s", "pod", "-l", &labels]).await?.success()?;
    Ok(())
}
