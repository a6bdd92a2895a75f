//! Everything from one file, `deploy/install.yaml`, as `make deploy` applies it: the operator, what it tells of itself, what `kubectl get`
//! shows at a glance, and what users of a namespace may do who are nobody's administrators.

use anyhow::{Context as _, ensure};
use api::EtcdCluster;
use e2e::{SOON, etcd_cluster, file, is_running, repository, until_it_succeeds};
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, ResourceExt as _, api::ListParams};
use testbed::kit::{Cluster, check, operator::available_in, wait_for, wait_for_all};

use crate::installed::nothing_installed;

const CLUSTER: &str = "from-one-file";

#[tokio::test]
async fn one_file_installs_everything_that_is_needed() -> anyhow::Result<()> {
    let cluster = Cluster::connect().await?;
    nothing_installed(&cluster).await?;
    show(&cluster).await?;
    // Before its kind goes, without which nobody knows whose the pods are.
    cluster.kubectl(&["-n", "default", "delete", "etcdcluster", "--all", "--wait"]).await?.success()?;
    let pods: Api<Pod> = Api::namespaced(cluster.client(), "default");
    wait_for_all(&pods, &format!("etcd_cluster={CLUSTER}"), SOON, "to be gone", check::none_left).await?;
    nothing_installed(&cluster).await
}

async fn show(cluster: &Cluster) -> anyhow::Result<()> {
    // Somebody followed an article before: what they created is theirs until it is taken over. It need not run, it would have no rights.
    let theirs = file("example/deployment.yaml")?.replace("replicas: 1", "replicas: 0");
    let create = ["-n", "default", "create", "-f", "-"];
    cluster.kubectl_with(&create, theirs.as_bytes(), SOON).await?.success()?;
    let path = repository().join("deploy/install.yaml").display().to_string();
    let install = ["-n", "default", "apply", "--server-side", "-f", &path];
    let refused = cluster.kubectl(&install).await?;
    ensure!(refused.success().is_err(), "nothing was in the way");
    cluster.kubectl(&[&install[..], &["--force-conflicts"]].concat()).await?.success()?;
    available_in(cluster, "default").await?;
    let resource = etcd_cluster(CLUSTER, 1, "3.6.14");
    cluster
        .kubectl_with(&["-n", "default", "apply", "-f", "-"], resource.as_bytes(), SOON)
        .await?
        .success()?;
    let clusters: Api<EtcdCluster> = Api::namespaced(cluster.client(), "default");
    wait_for(&clusters, CLUSTER, SOON, "to run with all its members", is_running).await?;
    until_it_succeeds(async || well_at_a_glance(cluster).await).await?;
    until_it_succeeds(async || figures(cluster).await).await?;
    users(cluster).await
}

/// Under each of its short names, and among all that is ours.
async fn well_at_a_glance(cluster: &Cluster) -> anyhow::Result<()> {
    for kind in ["etcdcluster", "etcd", "etcdclus", "etcd-operator"] {
        let said = cluster.kubectl(&["-n", "default", "get", kind]).await?.success()?;
        let lines: Vec<Vec<_>> = said.lines().map(|line| line.split_whitespace().collect()).collect();
        ensure!(
            lines
                .first()
                .is_some_and(|line| line == &["NAME", "PHASE", "AVAILABLE", "READY", "VERSION", "AGE"]),
            "{kind}: {said}"
        );
        let row = lines
            .iter()
            .find_map(|line| line.split_last().map(|(_, row)| row).filter(|row| row.ends_with(&["3.6.14"])));
        let row = row.with_context(|| format!("{kind}: {said}"))?;
        ensure!(row.iter().skip(1).eq(&["Running", "True", "1/1", "3.6.14"]), "{kind}: {said}");
    }
    Ok(())
}

/// What Prometheus would be given.
async fn figures(cluster: &Cluster) -> anyhow::Result<()> {
    let pods: Api<Pod> = Api::namespaced(cluster.client(), "default");
    let operators = pods.list(&ListParams::default().labels("name=etcd-operator")).await?.items;
    let operator = operators.iter().find(|pod| check::pod_ready(Some(pod)).is_ok()).context("no operator")?;
    let path = format!("/api/v1/namespaces/default/pods/{}:8080/proxy/metrics", operator.name_any());
    let said = cluster.kubectl(&["get", "--raw", &path]).await?.success()?;
    let of_cluster = format!("{{namespace=\"default\",cluster=\"{CLUSTER}\"}}");
    for line in [
        "etcd_operator_leader 1".to_owned(),
        format!("etcd_operator_cluster_available{of_cluster} 1"),
        format!("etcd_operator_cluster_members_wanted{of_cluster} 1"),
        format!("etcd_operator_cluster_members_ready{of_cluster} 1"),
    ] {
        ensure!(said.lines().any(|said| said == line), "{line} is not in\n{said}");
    }
    Ok(())
}

/// Who may look or edit in a namespace may do so with our kinds too.
async fn users(cluster: &Cluster) -> anyhow::Result<()> {
    let bindings = ["rolebinding/looks", "rolebinding/edits"];
    let delete = [&["-n", "default", "delete", "--ignore-not-found"][..], &bindings].concat();
    cluster.kubectl(&delete).await?.success()?;
    for (binding, role) in [("looks", "view"), ("edits", "edit")] {
        let role = format!("--clusterrole={role}");
        let user = format!("--user={binding}");
        cluster
            .kubectl(&["-n", "default", "create", "rolebinding", binding, &role, &user])
            .await?
            .success()?;
    }
    for (user, verb, what, may) in [
        ("looks", "list", "etcdclusters", true),
        ("looks", "get", "etcdbackups", true),
        ("looks", "patch", "etcdclusters", false),
        ("edits", "create", "etcdclusters", true),
        ("edits", "delete", "etcdrestores", true),
        ("edits", "patch", "etcdclusters/scale", true),
        ("edits", "patch", "etcdclusters/status", false),
    ] {
        let (what, subresource) = what.split_once('/').unwrap_or((what, ""));
        let what = format!("{what}.etcd.database.coreos.com");
        let subresource = format!("--subresource={subresource}");
        let asked = ["-n", "default", "auth", "can-i", verb, &what, &subresource, "--as", user];
        // Roles are put together by a controller, a moment after they are made.
        let answer = async || {
            let said = cluster.kubectl(&asked).await?;
            let expected = if may { "yes" } else { "no" };
            ensure!(said.stdout.trim() == expected, "{user} may {verb} {what} {subresource}: {said:?}");
            Ok(())
        };
        until_it_succeeds(answer).await?;
    }
    cluster.kubectl(&delete).await?.success()?;
    Ok(())
}
