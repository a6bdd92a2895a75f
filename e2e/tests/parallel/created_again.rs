//! A cluster is deleted, and created again by the same name before its old pods are gone: it is a new one, with new members and nothing
//! of the old data.

use std::collections::BTreeSet;

use anyhow::{Context as _, ensure};
use e2e::{
    SOON, etcd_cluster,
    members::{member, one_cluster},
    operator,
    pods::living,
    running, until_it_succeeds,
};
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, ResourceExt};
use testbed::kit::{GRAVE, TestNamespace, check, in_namespace, wait_for};

const KEY: &[u8] = b"of-the-old-one";

/// Holds pods, or lets them go.
async fn hold(ns: &TestNamespace, pods: &BTreeSet<String>, held: bool) -> anyhow::Result<()> {
    let finalizers = if held { r#"["etcd-operator.testbed/held"]"# } else { "null" };
    let patch = format!(r#"{{"metadata": {{"finalizers": {finalizers}}}}}"#);
    for pod in pods {
        ns.kubectl(&["patch", "pod", pod, "--type=merge", "-p", &patch]).await?.success()?;
    }
    Ok(())
}

async fn names(ns: &TestNamespace) -> anyhow::Result<BTreeSet<String>> {
    Ok(living(ns, "c").await?.iter().map(ResourceExt::name_any).collect())
}

#[tokio::test]
async fn a_cluster_created_again_before_its_old_pods_are_gone_is_a_new_one() -> anyhow::Result<()> {
    in_namespace("created_again", async |ns| {
        operator(&ns).await?;
        ns.apply(&etcd_cluster("c", 3, "3.6.14")).await?;
        let first = one_cluster(&ns, "c").await?;
        let one = living(&ns, "c").await?.into_iter().next().context("no pod")?;
        until_it_succeeds(async || Ok(member(&one)?.put(KEY, b"x").await?)).await?;
        let old = names(&ns).await?;
        hold(&ns, &old, true).await?;

        ns.kubectl(&["delete", "etcdcluster", "c"]).await?.success()?;
        ns.apply(&etcd_cluster("c", 3, "3.6.14")).await?;
        let second = running(&ns, "c").await?;
        let all: Api<Pod> = ns.api();
        for pod in &old {
            let deleted = |held: Option<&Pod>| match held.map(|held| &held.metadata.deletion_timestamp) {
                Some(Some(_)) => Ok(()),
                Some(None) => Err("it is kept".to_owned()),
                None => Err("it is gone, and was to be held".to_owned()),
            };
            wait_for(&all, pod, SOON, "to be on its way out", deleted).await?;
        }
        let new = names(&ns).await?;
        ensure!(new.len() == 3 && new.is_disjoint(&old), "{new:?} after {old:?}");
        ensure!(first.uid() != second.uid(), "it is the same resource");
        let birth = |cluster: &api::EtcdCluster| cluster.status.clone()?.birth?.cluster_id;
        ensure!(birth(&first) != birth(&second), "{GRAVE} it has the old cluster's ID");
        for pod in living(&ns, "c").await? {
            let found = until_it_succeeds(async || Ok(member(&pod)?.get(KEY).await?)).await?;
            ensure!(found.is_none(), "{GRAVE} {} has old data", pod.name_any());
        }

        hold(&ns, &old, false).await?;
        for pod in &old {
            wait_for(&all, pod, SOON, "to be gone", check::gone).await?;
        }
        one_cluster(&ns, "c").await?;
        ensure!(names(&ns).await? == new, "the end of the old pods changed the new members");
        Ok(())
    })
    .await
}
