//! S1, S2, S4 and S24: the book's chapter in the namespace `default`, from the first file to the last clean-up.

use anyhow::{Context as _, ensure};
use api::EtcdCluster;
use e2e::{SOON, file, repository};
use k8s_openapi::{
    api::core::v1::{Pod, Service},
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{Api, api::ListParams};
use testbed::kit::{Cluster, PodSecurity, check, wait_for, wait_for_all};

const CRD: &str = "etcdclusters.etcd.database.coreos.com";

/// Runs kubectl on a file of the book, and compares what it prints.
async fn on_file(cluster: &Cluster, verb: &str, name: &str, prints: &str) -> anyhow::Result<()> {
    let path = repository().join("example").join(name);
    let printed =
        cluster.kubectl(&["-n", "default", verb, "-f", &path.to_string_lossy()]).await?.success()?;
    ensure!(printed.contains(prints), "{verb} {name} printed {printed:?}, not {prints:?}");
    Ok(())
}

/// Whatever an earlier run left is gone, CRDs and all that hangs on them.
async fn nothing_installed(cluster: &Cluster) -> anyhow::Result<()> {
    let install = repository().join("deploy/install.yaml");
    cluster
        .kubectl(&[
            "-n",
            "default",
            "delete",
            "--ignore-not-found",
            "--wait",
            "-f",
            &install.to_string_lossy(),
        ])
        .await?
        .success()?;
    let crds: Api<CustomResourceDefinition> = Api::all(cluster.client());
    wait_for(&crds, CRD, SOON, "to be gone", check::gone).await?;
    Ok(())
}

#[tokio::test]
async fn s1_to_s5_and_s24_the_books_files_install_run_and_leave_nothing() -> anyhow::Result<()> {
    let cluster = Cluster::connect().await?;
    nothing_installed(&cluster).await?;
    // People run their own pods there: what they lack is noted, and what ours would lack is found out by the last test.
    cluster.label_pod_security("default", PodSecurity::Restricted, &["warn", "audit"]).await?;

    // S1
    let path = repository().join("example/etcd-operator-crd.yaml");
    cluster.kubectl(&["create", "-f", &path.to_string_lossy()]).await?.success()?;
    let listed = cluster.kubectl(&["get", "crd"]).await?.success()?;
    ensure!(listed.contains(CRD), "{listed}");
    let described = cluster.kubectl(&["describe", "crd", CRD]).await?.success()?;
    let lines: Vec<_> =
        described.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    for expected in [
        "Group: etcd.database.coreos.com",
        "Kind: EtcdCluster",
        "List Kind: EtcdClusterList",
        "Plural: etcdclusters",
        "etcdclus",
        "etcd",
        "Singular: etcdcluster",
        "Scope: Namespaced",
        "Name: v1beta2",
    ] {
        ensure!(lines.iter().any(|line| line == expected), "{expected:?} is not in\n{described}");
    }

    // S2
    on_file(&cluster, "create", "etcd-operator-sa.yaml", "serviceaccount/etcd-operator-sa created").await?;
    let role = "role.rbac.authorization.k8s.io/etcd-operator-role created";
    on_file(&cluster, "create", "etcd-operator-role.yaml", role).await?;
    let binding = "rolebinding.rbac.authorization.k8s.io/etcd-operator-rolebinding created";
    on_file(&cluster, "create", "etcd-operator-rolebinding.yaml", binding).await?;
    ensure!(file("example/etcd-operator-role.yaml")?.matches('*').count() == 0, "the role has a wildcard");

    // S4: with only the EtcdCluster CRD there.
    on_file(&cluster, "create", "etcd-operator-deployment.yaml", "deployment.apps/etcd-operator created")
        .await?;
    let deployments: Api<k8s_openapi::api::apps::v1::Deployment> =
        Api::namespaced(cluster.client(), "default");
    wait_for(&deployments, "etcd-operator", SOON, "to be available", check::deployment_available).await?;

    // S5
    let created = "etcdcluster.etcd.database.coreos.com/example-etcd-cluster created";
    on_file(&cluster, "create", "etcd-cluster-cr.yaml", created).await?;
    let pods: Api<Pod> = Api::namespaced(cluster.client(), "default");
    let labels = "etcd_cluster=example-etcd-cluster";
    wait_for_all(&pods, labels, SOON, "to be three and Ready", check::pods_ready(3)).await?;

    clean_up(&cluster, labels).await
}

/// S24: in the book's order, the operator's rights first.
async fn clean_up(cluster: &Cluster, labels: &str) -> anyhow::Result<()> {
    let clusters: Api<EtcdCluster> = Api::namespaced(cluster.client(), "default");
    let resource = clusters.get("example-etcd-cluster").await?;
    ensure!(resource.metadata.finalizers.unwrap_or_default().is_empty(), "a finalizer would hang");
    // The garbage collector takes up a new kind within half a minute; before that it does not know whose the pods are.
    tokio::time::sleep(std::time::Duration::from_secs(35)).await;
    for (name, prints) in [
        ("etcd-operator-sa.yaml", "serviceaccount \"etcd-operator-sa\" deleted"),
        ("etcd-operator-role.yaml", "role.rbac.authorization.k8s.io \"etcd-operator-role\" deleted"),
        (
            "etcd-operator-rolebinding.yaml",
            "rolebinding.rbac.authorization.k8s.io \"etcd-operator-rolebinding\" deleted",
        ),
        ("etcd-operator-crd.yaml", "\"etcdclusters.etcd.database.coreos.com\" deleted"),
        ("etcd-operator-deployment.yaml", "deployment.apps \"etcd-operator\" deleted"),
    ] {
        on_file(cluster, "delete", name, prints).await?;
    }
    // Erratum: the kind went with its CRD, so the book's last command finds none.
    let path = repository().join("example/etcd-cluster-cr.yaml");
    let last = cluster.kubectl(&["-n", "default", "delete", "-f", &path.to_string_lossy()]).await?;
    ensure!(last.code != 0, "the kind is still there: {last}");

    let pods: Api<Pod> = Api::namespaced(cluster.client(), "default");
    let services: Api<Service> = Api::namespaced(cluster.client(), "default");
    let none = |left: usize| if left == 0 { Ok(()) } else { Err(format!("{left} are left")) };
    wait_for_all(&pods, labels, SOON, "to be gone", |left| none(left.len())).await?;
    wait_for_all(&services, labels, SOON, "to be gone", |left| none(left.len())).await?;
    wait_for_all(&pods, "name=etcd-operator", SOON, "to be gone", |left| none(left.len())).await?;
    let leases: Api<k8s_openapi::api::coordination::v1::Lease> = Api::namespaced(cluster.client(), "default");
    let left = leases.list(&ListParams::default()).await.context("list leases")?.items;
    ensure!(left.is_empty(), "leases are left: {left:?}");
    Ok(())
}
