//! Members that somebody else adds and removes with etcdctl, under load: what was started is left alone and named, what never starts
//! goes, and what is missing comes back.

use anyhow::{Context as _, ensure};
use api::EtcdCluster;
use e2e::{
    LONG, SOON, Seen,
    client::{loaded, verdict},
    client_pod, etcd_cluster,
    members::{ByHand, by_hand, identities, one_cluster, replaced},
    pods::living,
    says_that, told,
};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use testbed::kit::{TestCase, TestNamespace, wait_for};

/// An etcd that somebody starts by hand, when it has been told of the others.
const STRANGER: &str = "
apiVersion: v1
kind: Pod
metadata: {name: stranger}
spec:
  terminationGracePeriodSeconds: 0
  securityContext: {runAsNonRoot: true, runAsUser: 1000, fsGroup: 1000, seccompProfile: {type: RuntimeDefault}}
  volumes: [{name: data, emptyDir: {}}]
  containers:
  - name: etcd
    image: quay.io/etcd-operator/client:latest
    volumeMounts: [{name: data, mountPath: /data}]
    env: [{name: IP, valueFrom: {fieldRef: {fieldPath: status.podIP}}}]
    command:
    - /bin/sh
    - -c
    - >-
      until [ -s /data/others ]; do sleep 1; done;
      until etcd --name=stranger --data-dir=/data/etcd --initial-cluster-state=existing
      --initial-cluster=$(cat /data/others) --initial-advertise-peer-urls=http://$IP:2380 --listen-peer-urls=http://0.0.0.0:2380
      --advertise-client-urls=http://$IP:2379 --listen-client-urls=http://0.0.0.0:2379;
      do rm -rf /data/etcd; sleep 1; done
    securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}
";

/// Waits until etcd has so many members, by the cluster's own word.
async fn lists(ns: &TestNamespace, size: i64) -> anyhow::Result<()> {
    let check = |cluster: Option<&EtcdCluster>| {
        let listed = cluster.and_then(|cluster| cluster.status.as_ref()?.size);
        if listed == Some(size) { Ok(()) } else { Err(format!("{listed:?}")) }
    };
    Ok(wait_for(&ns.api(), "c", SOON, &format!("to list {size} members"), check).await?)
}

#[tokio::test]
async fn members_added_and_removed_with_etcdctl_are_named_left_alone_removed_or_replaced()
-> anyhow::Result<()> {
    TestCase::of("interference")
        .deadline(LONG)
        .run(async |ns| {
            let load = loaded(&ns, &etcd_cluster("c", 3, "3.6.14")).await?;
            client_pod(&ns).await?;
            ns.apply(STRANGER).await?;
            let stranger = ns.pod_ready("stranger").await?;
            let address = stranger.status.and_then(|status| status.pod_ip).context("no address")?;
            let members = identities(&ns, "c").await?;

            // One that was started: it may have a reason to be there. It is told of the others first, and tries until it is let in.
            let (own, domain) = (format!("http://{address}:2380"), format!("c.{}.svc:2380", ns.name()));
            let others = members.keys().map(|name| format!("{name}=http://{name}.{domain}"));
            let others: Vec<_> = others.chain([format!("stranger={own}")]).collect();
            let write = format!("echo '{}' >/data/others", others.join(","));
            ns.exec("stranger", &["/bin/sh", "-c", &write]).await?.success()?;
            let add = ByHand::Add { name: "stranger", peer_url: &own, learner: true };
            let id = by_hand(&ns, "c", add).await?;
            let names_it = |seen: &Seen| seen.reason == "ForeignMember" && seen.message.contains("stranger");
            says_that(&ns, "c", "Progressing", "to name the stranger", names_it).await?;
            by_hand(&ns, "c", ByHand::Remove(id)).await?;
            ns.remove::<Pod>("stranger").await?;
            lists(&ns, 3).await?;

            // One that never starts.
            let add = ByHand::Add { name: "nobody", peer_url: "http://192.0.2.1:2380", learner: false };
            let id = by_hand(&ns, "c", add).await?.to_string();
            let names_it = |seen: &Seen| seen.message.contains(&format!("etcd lists member {id}"));
            says_that(&ns, "c", "Progressing", "to name the one that never starts", names_it).await?;
            told(&ns, "Member Removed", &format!("Existing member {id} removed from the cluster")).await?;
            lists(&ns, 3).await?;
            one_cluster(&ns, "c").await?;
            ensure!(identities(&ns, "c").await? == members, "somebody was replaced for it");

            // One of ours is removed.
            let (removed, id) = members.first_key_value().context("no members")?;
            by_hand(&ns, "c", ByHand::Remove(*id)).await?;
            replaced(&ns, "c", removed).await?;
            one_cluster(&ns, "c").await?;
            ensure!(living(&ns, "c").await?.iter().all(|pod| pod.name_any() != *removed), "{removed} stays");
            verdict(load).await?;
            Ok(())
        })
        .await
}
