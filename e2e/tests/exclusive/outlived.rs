//! What an operator outlives: a namespace that goes with a cluster in it, and its own CRD. It deletes nothing, does not go on trying, and
//! takes up what comes afterwards.

use std::time::Duration;

use anyhow::ensure;
use e2e::{
    LONG, SOON, crds,
    members::one_cluster,
    operator_pod, operator_replicas,
    pods::{restarts, which},
    running,
};
use k8s_openapi::{
    api::core::v1::Pod, apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{Api, ResourceExt as _, api::DeleteParams};
use testbed::kit::{
    Cluster, TestCase, TestNamespace,
    audit::{AuditEntry, Mark},
    check, wait_for,
};

use crate::wide::{cluster_wide_operator, no_roles, wide};

const CRD: &str = "etcdclusters.etcd.database.coreos.com";

/// What the operator wrote in a namespace, or tried to.
fn writes(operator: &TestNamespace, to: &str, since: Mark) -> anyhow::Result<Vec<AuditEntry>> {
    let user = format!("system:serviceaccount:{}:default", operator.name());
    Ok(operator.cluster().audit_log()?.since(since).user(&user).writes().namespace(to).entries()?)
}

/// F48: a namespace is deleted with all that is in it.
async fn a_namespace(all: &TestNamespace, other: &TestNamespace) -> anyhow::Result<()> {
    let log = all.cluster().audit_log()?;
    let gone = TestNamespace::create(all.cluster(), "outlived_namespace", None).await?;
    gone.apply(&wide("c", "3.6.14")).await?;
    running(&gone, "c").await?;
    let deleted = log.mark()?;
    gone.delete_and_wait().await?;
    let went = log.mark()?;
    // Something else that is to be done, until it is done.
    other.apply(&wide("c", "3.6.14")).await?;
    one_cluster(other, "c").await?;
    let (tried, afterwards) = (writes(all, gone.name(), deleted)?, writes(all, gone.name(), went)?);
    println!("{} writes to a namespace that went, {} afterwards", tried.len(), afterwards.len());
    ensure!(tried.len() < 30, "it went on trying: {tried:?}");
    ensure!(afterwards.len() < 3, "it goes on trying: {afterwards:?}");
    let made = tried.iter().filter(|entry| entry.verb == "create" && entry.resource == "pods");
    ensure!(made.count() < 3, "members were made in a namespace that goes: {tried:?}");
    Ok(())
}

/// F49: the CRD is deleted, and with it every cluster; then it is there again.
async fn its_crd(all: &TestNamespace, other: &TestNamespace) -> anyhow::Result<()> {
    let mark = all.cluster().audit_log()?.mark()?;
    let crd: Api<CustomResourceDefinition> = Api::all(all.client());
    let members = which(other, "c").await?;
    crd.delete(CRD, &DeleteParams::default()).await?;
    wait_for(&crd, CRD, SOON, "to be gone", check::gone).await?;
    let missing = |log: &str| log.contains(CRD) && log.contains("is missing, and is waited for");
    let operator = operator_pod(all).await?.name_any();
    let mut noticed = false;
    for _ in 0..600 {
        noticed = missing(&all.logs(&operator, None).await?);
        if noticed {
            break;
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    ensure!(noticed, "the operator does not say that its kind is gone");

    crds(all.cluster()).await?;
    other.apply(&wide("c", "3.6.14")).await?;
    running(other, "c").await?;
    // The old ones go with their owner, which Kubernetes may see only now that it knows the kind again.
    for (pod, _) in &members {
        wait_for(&other.api::<Pod>(), pod, SOON, "to be gone", check::gone).await?;
    }
    one_cluster(other, "c").await?;
    let deleted = writes(all, other.name(), mark)?.into_iter().filter(|entry| entry.verb == "delete");
    let deleted: Vec<_> = deleted.collect();
    ensure!(deleted.is_empty(), "the operator deleted something: {deleted:?}");
    Ok(())
}

#[tokio::test]
async fn an_operator_outlives_a_namespace_with_a_cluster_in_it_and_its_own_crd() -> anyhow::Result<()> {
    let cluster = Cluster::connect().await?;
    no_roles(&cluster).await?;
    crds(&cluster).await?;
    let in_namespace = |what: &str| TestCase::of(what).on(cluster.clone()).deadline(LONG);
    let done = in_namespace("outlived_by")
        .run(async |all| {
            cluster_wide_operator(&all).await?;
            let before = operator_pod(&all).await?;
            in_namespace("outlived_crd")
                .run(async |other| {
                    a_namespace(&all, &other).await?;
                    its_crd(&all, &other).await
                })
                .await?;
            let after = operator_pod(&all).await?;
            ensure!(after.uid() == before.uid() && restarts(&after) == restarts(&before), "it was restarted");
            // Before its rights: it would look after what the next test makes for another one, and be denied.
            Ok(operator_replicas(&all, 0).await?)
        })
        .await;
    no_roles(&cluster).await?;
    done
}
