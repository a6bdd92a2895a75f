//! The articles on the classic files (seeds 002 and 003) in the namespace `default`: S3, and S4 with CRDs that appear by themselves.

use anyhow::ensure;
use e2e::{SOON, seeds::Table};
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use testbed::kit::{Cluster, check, wait_for_all};

use crate::{installed::nothing_installed, reader::Reader};

/// The script's flags, in a namespace that is not there: what it makes names it, and nothing else is touched.
const ELSEWHERE: &str = "example/rbac/create_role.sh --role-name=etcd-operator-e2e --role-binding-name=etcd-operator-e2e --namespace=elsewhere";

#[tokio::test]
async fn the_articles_work_as_written_with_the_classic_script_and_crds_that_appear() -> anyhow::Result<()> {
    let cluster = Cluster::connect().await?;
    nothing_installed(&cluster).await?;
    let mut reader = Reader::on(&cluster, "")?;
    let read = reader.read(&Table::read()?, "002", "article").await;
    let flags = match read {
        Ok(()) => the_script_takes_its_flags(&cluster, &reader).await,
        failed => failed,
    };
    clean_up(&cluster).await?;
    flags
}

async fn the_script_takes_its_flags(cluster: &Cluster, reader: &Reader) -> anyhow::Result<()> {
    reader.run(ELSEWHERE, None).await?;
    let binding = [
        "get",
        "clusterrolebinding/etcd-operator-e2e",
        "-o",
        "jsonpath={.roleRef.name} {.subjects[*].namespace}/{.subjects[*].name}",
    ];
    let said = cluster.kubectl(&binding).await?.success()?;
    ensure!(said == "etcd-operator-e2e elsewhere/default", "{said}");
    // A role of that name is somebody's: it is not taken over.
    reader.run(ELSEWHERE, Some(&ELSEWHERE.to_owned())).await?;
    Ok(())
}

/// Takes away what the articles leave, and waits until it is gone.
async fn clean_up(cluster: &Cluster) -> anyhow::Result<()> {
    let from = ["-n", "default", "delete", "--ignore-not-found", "--wait"];
    let roles = ["clusterrole/etcd-operator-e2e", "clusterrolebinding/etcd-operator-e2e"];
    cluster.kubectl(&[&from[..], &roles[..]].concat()).await?.success()?;
    // Before its kind goes, without which nobody knows whose the pods are. Where the test failed, there may be none.
    let resource = ["-n", "default", "delete", "etcdcluster", "--all", "--wait"];
    let _ = cluster.kubectl(&resource).await;
    let pods: Api<Pod> = Api::namespaced(cluster.client(), "default");
    let gone = async |labels| wait_for_all(&pods, labels, SOON, "to be gone", check::none_left).await;
    gone("etcd_cluster=example-etcd-cluster").await?;
    nothing_installed(cluster).await?;
    gone("name=etcd-operator").await?;
    Ok(())
}
