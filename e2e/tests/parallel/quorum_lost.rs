//! More members are lost than the quorum can do without: it is said who, what is left is kept, and it can be saved as the status says.
//! When the last one is lost too, that is said, and nothing begins anew.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use api::EtcdCluster;
use e2e::{
    LONG, SOON, Seen, client_pod, etcd_cluster, etcdctl,
    members::{kill, one_cluster},
    operator, operator_replicas,
    pods::{living, restarts, which},
    says_that, until_it_succeeds,
};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use testbed::{
    faults::Ground,
    kit::{GRAVE, TestCase, TestNamespace, wait_for},
};

async fn status(ns: &TestNamespace) -> anyhow::Result<api::EtcdClusterStatus> {
    ns.api::<EtcdCluster>().get("c").await?.status.context("no status")
}

#[tokio::test]
async fn a_lost_quorum_is_told_member_by_member_and_what_is_left_is_kept_and_can_be_saved()
-> anyhow::Result<()> {
    TestCase::of("quorum_lost")
        .deadline(LONG)
        .run(async |ns| {
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
            // Both at once, as far as the operator can tell: of two losses one after the other it would make up for the first.
            operator_replicas(&ns, 0).await?;
            ns.kubectl(&[&delete[..], &those].concat()).await?.success()?;
            operator_replicas(&ns, 1).await?;

            let gone = |seen: &Seen| {
                let of_both = names.iter().all(|name| seen.message.contains(name));
                seen.status == "False" && seen.reason == "QuorumLost" && of_both
            };
            says_that(&ns, "c", "Available", "to say that the quorum is lost", gone).await?;
            let told = |seen: &Seen| names.iter().all(|name| seen.message.contains(name));
            says_that(&ns, "c", "Recovering", "to name who is lost", told).await?;
            until_it_succeeds(async || {
                let said = status(&ns).await?;
                ensure!(said.phase.as_deref() == Some("Failed"), "{said:?}");
                ensure!(said.ready.as_deref() == Some("0/3"), "who has no quorum is not ready: {said:?}");
                let reason = said.reason.unwrap_or_default();
                ensure!(names.iter().all(|name| reason.contains(name)), "{reason}");
                Ok(())
            })
            .await?;

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

            // A member that is restarted without a quorum answers nobody, and the others are not less lost for it.
            kill(&ns, &Ground::here()?, &kept.0).await?;
            let ran = |pod: Option<&Pod>| match pod.map(restarts) {
                Some(1..) => Ok(()),
                other => Err(format!("{other:?} restarts")),
            };
            wait_for(&ns.api(), &kept.0, SOON, "to be restarted", ran).await?;
            let unheard = |seen: &Seen| seen.reason == "QuorumLost" && seen.message.contains("tells who");
            says_that(&ns, "c", "Available", "to say the same of a member that is silent", unheard).await?;
            let said = status(&ns).await?;
            ensure!(said.phase.as_deref() == Some("Failed"), "it was given hope: {said:?}");
            let reason = said.reason.unwrap_or_default();
            ensure!(names.iter().all(|name| reason.contains(name)), "it was forgotten who is lost: {reason}");

            ns.kubectl(&[&delete[..], &[&kept.0]].concat()).await?.success()?;
            let all = |seen: &Seen| seen.status == "False" && seen.reason == "DataLost";
            says_that(&ns, "c", "Available", "to say that all is lost", all).await?;
            tokio::time::sleep(Duration::from_secs(10)).await;
            ensure!(which(&ns, "c").await?.is_empty(), "{GRAVE} something began anew");
            Ok(())
        })
        .await
}
