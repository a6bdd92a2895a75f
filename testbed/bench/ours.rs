//! Ours: the same members, asked of the operator, which runs in the bench's own namespace from the book's files.

use std::time::Duration;

use k8s_openapi::api::apps::v1::Deployment;
use testbed::kit::{TestNamespace, check, wait_for};
use tokio::time::Instant;

use crate::floor::ETCD;

const INSTALL: [&str; 4] = [
    include_str!("../../example/etcd-operator-sa.yaml"),
    include_str!("../../example/etcd-operator-role.yaml"),
    include_str!("../../example/etcd-operator-rolebinding.yaml"),
    include_str!("../../example/etcd-operator-deployment.yaml"),
];

/// Installs the operator. Its image is in the registry already.
pub(crate) async fn install(ns: &TestNamespace) -> anyhow::Result<()> {
    ns.cluster().apply(include_str!("../../deploy/crds.yaml")).await?;
    for manifest in INSTALL {
        ns.apply(&manifest.replace("namespace: default", &format!("namespace: {}", ns.name()))).await?;
    }
    let deployments = ns.api::<Deployment>();
    let patience = Duration::from_mins(2);
    wait_for(&deployments, "etcd-operator", patience, "to be available", check::deployment_available).await?;
    Ok(())
}

/// A cluster of this size, from its `apply` until all its members are Ready; it is gone again afterwards.
pub(crate) async fn apply_to_ready(ns: &TestNamespace, run: usize, size: usize) -> anyhow::Result<Duration> {
    let name = format!("ours-{size}-{run}");
    let manifest = format!(
        "apiVersion: etcd.database.coreos.com/v1beta2\nkind: EtcdCluster\nmetadata: {{name: {name}}}\n\
         spec: {{size: {size}, version: \"{ETCD}\"}}\n"
    );
    let started = Instant::now();
    let ready = async {
        ns.pods_ready(&format!("etcd_cluster={name}"), size).await?;
        Ok(started.elapsed())
    };
    let applied = async { anyhow::Ok(ns.apply(&manifest).await?) };
    let (applied, took) = tokio::try_join!(applied, ready)?;
    ns.remove_all(&applied).await?;
    // The members go after their resource; the next run must not share the machine with them.
    let gone = format!("pod -l etcd_cluster={name}");
    let wait: Vec<_> =
        ["wait", "--for=delete", "--timeout=120s"].into_iter().chain(gone.split(' ')).collect();
    ns.kubectl(&wait).await?.success()?;
    Ok(took)
}
