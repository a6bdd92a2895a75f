//! S12 and S13: a member that is deleted is replaced, what somebody did behind the operator's back is put right, and the data stays.

use anyhow::{Context as _, ensure};
use e2e::{
    client_pod, etcd_cluster, etcdctl,
    members::{ByHand, by_hand, identities, replaced},
    operator, operator_replicas, running, told,
};
use k8s_openapi::api::core::v1::Pod;
use kube::{ResourceExt as _, api::ListParams};
use testbed::kit::{GRAVE, TestNamespace, in_namespace};

/// The members that the status calls ready.
fn ready(cluster: Option<&api::EtcdCluster>) -> Vec<String> {
    let members = cluster.and_then(|cluster| cluster.status.as_ref()?.members.clone());
    members.and_then(|members| members.ready).unwrap_or_default()
}

/// Waits until another member has taken the place of this one, and asks all.
async fn healed(ns: &TestNamespace, gone: &str) -> anyhow::Result<()> {
    replaced(ns, "example", gone).await?;
    etcdctl(ns, "example", &["endpoint", "health", "--cluster"]).await?;
    let value = etcdctl(ns, "example", &["get", "kept", "--print-value-only"]).await?;
    ensure!(value == "yes", "{GRAVE} {value:?}");
    Ok(())
}

async fn some_member(ns: &TestNamespace) -> anyhow::Result<String> {
    let pods = ns.api::<Pod>().list(&ListParams::default().labels("etcd_cluster=example")).await?.items;
    let living = pods.into_iter().find(|pod| pod.metadata.deletion_timestamp.is_none());
    Ok(living.map(|pod| pod.name_any()).unwrap_or_default())
}

#[tokio::test]
async fn s12_a_deleted_member_is_replaced_and_the_data_stays() -> anyhow::Result<()> {
    in_namespace("s12_heal", async |ns| {
        operator(&ns).await?;
        client_pod(&ns).await?;
        ns.apply(&etcd_cluster("example", 3, "3.6.14")).await?;
        running(&ns, "example").await?;
        etcdctl(&ns, "example", &["put", "kept", "yes"]).await?;

        let first = some_member(&ns).await?;
        ns.kubectl(&["delete", "pod", &first, "--wait=false"]).await?.success()?;
        healed(&ns, &first).await?;
        told(&ns, "Replacing Dead Member", &format!("The dead member {first} is being replaced")).await?;
        told(&ns, "Member Removed", &format!("Existing member {first} removed from the cluster")).await?;

        // While no operator runs: a pod goes, and another one loses the label by which it is found.
        operator_replicas(&ns, 0).await?;
        let second = some_member(&ns).await?;
        ns.kubectl(&["delete", "pod", &second, "--wait=false"]).await?.success()?;
        let third = ready(Some(&ns.api::<api::EtcdCluster>().get("example").await?));
        let third = third.iter().find(|name| **name != second).cloned().unwrap_or_default();
        ns.kubectl(&["label", "pod", &third, "etcd_cluster-"]).await?.success()?;
        operator_replicas(&ns, 1).await?;
        healed(&ns, &second).await?;
        let pod = ns.api::<Pod>().get(&third).await?;
        let label = pod.labels().get("etcd_cluster").map(String::as_str);
        ensure!(label == Some("example"), "{third} has the label {label:?}");

        // A member that is removed by hand: its pod goes, and its place is filled.
        let ids = identities(&ns, "example").await?;
        let id = ids.get(&third).with_context(|| format!("{third} is not in {ids:?}"))?;
        by_hand(&ns, "example", ByHand::Remove(*id)).await?;
        healed(&ns, &third).await?;
        Ok(())
    })
    .await
}
