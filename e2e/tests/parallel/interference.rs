//! Members that somebody else adds and removes with etcdctl, under load: what was started is left alone and named, what never starts
//! goes, and what is missing comes back.

use anyhow::{Context as _, ensure};
use api::EtcdCluster;
use e2e::{
    LONG, SOON,
    client::{loaded, verdict},
    client_pod, etcd_cluster,
    members::{by_hand, identities, one_cluster, replaced},
    pods::living,
    says, told,
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
    image: quay.io/coreos/etcd:latest
    volumeMounts: [{name: data, mountPath: /data}]
    env: [{name: IP, valueFrom: {fieldRef: {fieldPath: status.podIP}}}]
    command:
    - /bin/sh
    - -c
    - >-
      until [ -s /data/others ]; do sleep 1; done;
      exec etcd --name=stranger --data-dir=/data/etcd --initial-cluster-state=existing
      --initial-cluster=$(cat /data/others) --initial-advertise-peer-urls=http://$IP:2380 --listen-peer-urls=http://0.0.0.0:2380
      --advertise-client-urls=http://$IP:2379 --listen-client-urls=http://0.0.0.0:2379
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

/// The ID that etcdctl prints after adding a member.
fn added(said: &str) -> anyhow::Result<String> {
    let mut words = said.split_whitespace().skip_while(|word| *word != "Member");
    Ok(words.nth(1).with_context(|| format!("no ID in {said}"))?.to_owned())
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

            // One that was started: it may have a reason to be there.
            let url = format!("--peer-urls=http://{address}:2380");
            let said = by_hand(&ns, "c", &["add", "stranger", "--learner", &url]).await?;
            let others = said.lines().find_map(|line| line.strip_prefix("ETCD_INITIAL_CLUSTER="));
            let others = others.context("no list of members")?.trim_matches('"');
            ns.exec("stranger", &["/bin/sh", "-c", &format!("echo '{others}' >/data/others")])
                .await?
                .success()?;
            let seen = says(&ns, "c", "Progressing", "ForeignMember").await?;
            ensure!(seen.message.contains("stranger"), "{seen:?}");
            by_hand(&ns, "c", &["remove", &added(&said)?]).await?;
            ns.remove::<Pod>("stranger").await?;
            lists(&ns, 3).await?;

            // One that never starts.
            let said = by_hand(&ns, "c", &["add", "nobody", "--peer-urls=http://192.0.2.1:2380"]).await?;
            let id = added(&said)?;
            let seen = says(&ns, "c", "Progressing", "UnknownMember").await?;
            ensure!(seen.message.contains(&id), "{id} is not in {seen:?}");
            told(&ns, "Member Removed", &format!("Existing member {id} removed from the cluster")).await?;
            lists(&ns, 3).await?;
            one_cluster(&ns, "c").await?;
            ensure!(identities(&ns, "c").await? == members, "somebody was replaced for it");

            // One of ours is removed.
            let (removed, id) = members.first_key_value().context("no members")?;
            by_hand(&ns, "c", &["remove", &id.to_string()]).await?;
            replaced(&ns, "c", removed).await?;
            one_cluster(&ns, "c").await?;
            ensure!(living(&ns, "c").await?.iter().all(|pod| pod.name_any() != *removed), "{removed} stays");
            verdict(load).await?;
            Ok(())
        })
        .await
}
