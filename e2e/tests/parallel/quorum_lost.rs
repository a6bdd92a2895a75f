//! More members are lost than the quorum can do without: it is said who, what is left is kept, and it can be saved as the status says.
//! When the last one is lost too, that is said, and nothing begins anew.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use api::EtcdCluster;
use e2e::{
    Seen, client_pod, etcd_cluster, etcdctl,
    members::one_cluster,
    operator,
    pods::{living, which},
    says_that, until_it_succeeds,
};
use kube::ResourceExt;
use testbed::kit::{TestNamespace, in_namespace};

async fn status(ns: &TestNamespace) -> anyhow::Result<api::EtcdClusterStatus> {
    ns.api::<EtcdCluster>().get("c").await?.status.context("no status")
}

#[tokio::test]
async fn a_lost_quorum_is_told_member_by_member_and_what_is_left_is_kept_and_can_be_saved()
-> anyhow::Result<()> {
    in_namespace("quorum_lost", async |ns| {
        operator(&ns).await?;
        client_pod(&ns).await?;
        ns.apply(&etcd_cluster("c", 3, "3.6.14")).await?;
        one_cluster(&ns, "c").await?;
        etcdctl(&ns, "c", &["put", "kept", "yes"]).await?;
        let pods = living(&ns, "c").await?;
        let [kept, lost @ ..] = pods.as_slice() else { anyhow::bail!("no members") };
        let names: Vec<String> = lost.iter().map(ResourceExt::name_any).collect();
        let delete = ["delete", "pod", "--force", "--grace-period=0"];
        let those: Vec<&str> = names.iter().map(String::as_str).collect();
        ns.kubectl(&[&delete[..], &those].concat()).await?.success()?;

        let gone = |seen: &Seen| {
            seen.status == "False" && seen.reason == "QuorumLost" && seen.message.contains("2 of 3")
        };
        says_that(&ns, "c", "Available", "to say that the quorum is lost", gone).await?;
        let told = |seen: &Seen| names.iter().all(|name| seen.message.contains(name));
        says_that(&ns, "c", "Recovering", "to name who is lost", told).await?;
        let said = status(&ns).await?;
        ensure!(said.phase.as_deref() == Some("Failed"), "{said:?}");
        ensure!(said.ready.as_deref() == Some("1/3") || said.ready.as_deref() == Some("0/3"), "{said:?}");
        ensure!(said.reason.is_some_and(|reason| names.iter().all(|name| reason.contains(name))));

        // What the sentence tells to do.
        let address =
            kept.status.as_ref().and_then(|status| status.pod_ip.as_deref()).context("no address")?;
        let endpoint = format!("http://{address}:2379");
        let save = ["etcdctl", "--endpoints", &endpoint, "snapshot", "save", "/dev/shm/saved"];
        until_it_succeeds(async || Ok(ns.exec("client", &save).await?.success()?)).await?;
        tokio::time::sleep(Duration::from_secs(10)).await;
        let left = which(&ns, "c").await?;
        let kept = (kept.name_any(), kept.uid().unwrap_or_default());
        ensure!(left == [kept.clone()].into(), "{left:?} instead of {kept:?}");

        ns.kubectl(&[&delete[..], &[&kept.0]].concat()).await?.success()?;
        let all = |seen: &Seen| seen.status == "False" && seen.reason == "DataLost";
        says_that(&ns, "c", "Available", "to say that all is lost", all).await?;
        tokio::time::sleep(Duration::from_secs(10)).await;
        ensure!(which(&ns, "c").await?.is_empty(), "something began anew");
        Ok(())
    })
    .await
}
