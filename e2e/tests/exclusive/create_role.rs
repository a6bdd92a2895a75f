//! S3 and S4: the classic script, the classic Deployment, and CRDs that appear by themselves.

use std::process::Command;

use anyhow::{Context as _, ensure};
use e2e::{SOON, repository};
use k8s_openapi::{
    api::{
        core::v1::Pod,
        rbac::v1::{ClusterRole, ClusterRoleBinding},
    },
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{Api, api::DeleteParams};
use testbed::kit::{Cluster, PodSecurity, check, in_namespace, wait_for, wait_for_all};

/// Runs the classic script as a person does, with this cluster's kubectl first on the path.
pub(crate) fn create_role(cluster: &Cluster, namespace: &str) -> anyhow::Result<String> {
    let places = cluster.places();
    let folder = places.kubectl.parent().context("kubectl has no folder")?;
    let path = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap_or_default());
    let output = Command::new(repository().join("example/rbac/create_role.sh"))
        .arg(format!("--namespace={namespace}"))
        .arg("--role-name=etcd-operator-e2e")
        .arg("--role-binding-name=etcd-operator-e2e")
        .env("PATH", path)
        .env("KUBECONFIG", &places.kubeconfig)
        .output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

pub(crate) async fn no_roles(cluster: &Cluster) {
    let roles: Api<ClusterRole> = Api::all(cluster.client());
    let bindings: Api<ClusterRoleBinding> = Api::all(cluster.client());
    let _ = roles.delete("etcd-operator-e2e", &DeleteParams::default()).await;
    let _ = bindings.delete("etcd-operator-e2e", &DeleteParams::default()).await;
}

#[tokio::test]
async fn s3_the_classic_script_and_deployment_work_and_the_crds_appear() -> anyhow::Result<()> {
    let cluster = Cluster::connect().await?;
    no_roles(&cluster).await;
    let crds: Api<CustomResourceDefinition> = Api::all(cluster.client());
    for crd in api::crd::all() {
        let name = crd.metadata.name.unwrap_or_default();
        let _ = crds.delete(&name, &DeleteParams::default()).await;
        wait_for(&crds, &name, SOON, "to be gone", check::gone).await?;
    }
    let done = in_namespace("s3_create_role", async |ns| {
        ns.enforce(PodSecurity::Restricted).await?;
        let printed = create_role(ns.cluster(), ns.name())?;
        ensure!(printed.contains("clusterrole") && printed.contains("clusterrolebinding"), "{printed}");
        let example = |name: &str| repository().join("example").join(name).display().to_string();
        ns.kubectl(&["create", "-f", &example("deployment.yaml")]).await?.success()?;
        for crd in api::crd::all() {
            let name = crd.metadata.name.unwrap_or_default();
            let there =
                |crd: Option<&CustomResourceDefinition>| crd.map(drop).ok_or_else(|| "missing".to_owned());
            wait_for(&crds, &name, SOON, "to appear", there).await?;
        }
        ns.kubectl(&["wait", "--for=condition=Established", "crd/etcdclusters.etcd.database.coreos.com"])
            .await?
            .success()?;
        ns.kubectl(&["apply", "-f", &example("example-etcd-cluster.yaml")]).await?.success()?;
        let labels = "etcd_cluster=example-etcd-cluster";
        wait_for_all(&ns.api::<Pod>(), labels, SOON, "to be three and Ready", check::pods_ready(3)).await?;
        Ok(())
    })
    .await;
    no_roles(&cluster).await;
    done
}
