//! The cluster-wide operator, from the classic files, and what it looks after.

use std::process::Command;

use anyhow::{Context as _, ensure};
use e2e::{etcd_cluster, file, operator_available, repository};
use testbed::kit::{Cluster, PodSecurity, TestNamespace};

/// The annotation that hands a resource to the cluster-wide operator.
pub(crate) const WIDE: &str = "annotations: {etcd.database.coreos.com/scope: clusterwide}";

/// The manifest of a cluster of three that is the cluster-wide operator's.
pub(crate) fn wide(name: &str, version: &str) -> String {
    etcd_cluster(name, 3, version).replace(&format!("name: {name}"), &format!("name: {name}, {WIDE}"))
}

/// The role's name: cluster roles are nobody's namespace.
const ROLE: &str = "etcd-operator-wide";

/// Runs the classic script as a person does, with this cluster's kubectl first on the path.
fn create_role(cluster: &Cluster, namespace: &str) -> anyhow::Result<()> {
    let places = cluster.places();
    let folder = places.kubectl.parent().context("kubectl has no folder")?;
    let path = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap_or_default());
    let output = Command::new(repository().join("example/rbac/create_role.sh"))
        .args([
            format!("--namespace={namespace}"),
            format!("--role-name={ROLE}"),
            format!("--role-binding-name={ROLE}"),
        ])
        .env("PATH", path)
        .env("KUBECONFIG", &places.kubeconfig)
        .output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}

/// Whatever an earlier test left of the role is gone.
pub(crate) async fn no_roles(cluster: &Cluster) -> anyhow::Result<()> {
    let (role, binding) = (format!("clusterrole/{ROLE}"), format!("clusterrolebinding/{ROLE}"));
    cluster.kubectl(&["delete", "--ignore-not-found", &role, &binding]).await?.success()?;
    Ok(())
}

/// The cluster-wide operator, in a namespace of its own.
pub(crate) async fn cluster_wide_operator(ns: &TestNamespace) -> anyhow::Result<()> {
    ns.enforce(PodSecurity::Restricted).await?;
    create_role(ns.cluster(), ns.name())?;
    let command = "- command:\n        - etcd-operator\n";
    let deployment = file("example/deployment.yaml")?;
    ensure!(deployment.contains(command), "the Deployment's command is not where it was");
    ns.apply(&deployment.replace(command, &format!("{command}        - --cluster-wide\n"))).await?;
    Ok(operator_available(ns).await?)
}
