//! What the seeds begin with: a cluster on which nothing of ours is installed.

use e2e::{SOON, repository};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{Api, ResourceExt as _};
use testbed::kit::{Cluster, PodSecurity, check, wait_for};

/// Whatever an earlier run left is gone: CRDs and all that hangs on them, and the classic script's roles.
pub(crate) async fn nothing_installed(cluster: &Cluster) -> anyhow::Result<()> {
    let install = repository().join("deploy/install.yaml").display().to_string();
    let from = ["-n", "default", "delete", "--ignore-not-found", "--wait"];
    let files = [&from[..], &["-f", &install]].concat();
    cluster.kubectl_with(&files, b"", SOON).await?.success()?;
    let roles = [&from[..], &["clusterrole/etcd-operator", "clusterrolebinding/etcd-operator"]].concat();
    cluster.kubectl(&roles).await?.success()?;
    let crds: Api<CustomResourceDefinition> = Api::all(cluster.client());
    for crd in api::crd::all() {
        wait_for(&crds, &crd.name_any(), SOON, "to be gone", check::gone).await?;
    }
    // People run pods of their own there. What they lack is noted, and so would be what ours lack: the last test asks.
    Ok(cluster.label_pod_security("default", PodSecurity::Restricted, &["audit"]).await?)
}
