//! S10, as far as creation goes: what was declared while no operator ran is made when one does.

use anyhow::ensure;
use e2e::{client_pod, etcd_cluster, etcdctl, operator, operator_replicas, running};
use k8s_openapi::api::core::v1::Pod;
use kube::{Resource as _, api::ListParams};
use testbed::kit::in_namespace;

/// A pod with a cluster's labels that nobody made for it.
const FOREIGN: &str = "
apiVersion: v1
kind: Pod
metadata: {name: not-a-member, labels: {app: etcd, etcd_cluster: example, etcd_node: not-a-member}}
spec:
  terminationGracePeriodSeconds: 0
  securityContext: {runAsNonRoot: true, runAsUser: 1000, seccompProfile: {type: RuntimeDefault}}
  containers:
  - name: idle
    image: quay.io/coreos/etcd:latest
    command: [/bin/sh, -c, 'sleep 3600']
    securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}
";

#[tokio::test]
async fn s10_a_cluster_declared_without_an_operator_is_made_when_one_starts() -> anyhow::Result<()> {
    in_namespace("s10_control_loop", async |ns| {
        operator(&ns).await?;
        operator_replicas(&ns, 0).await?;
        ns.apply(&etcd_cluster("example", 3, "3.6.14")).await?;
        ns.apply(FOREIGN).await?;
        let foreign = ns.pod_ready("not-a-member").await?;
        client_pod(&ns).await?;
        operator_replicas(&ns, 1).await?;
        running(&ns, "example").await?;

        let labels = ListParams::default().labels("etcd_cluster=example");
        let pods = ns.api::<Pod>().list(&labels).await?.items;
        ensure!(pods.len() == 4, "three members and the foreign pod are not {} pods", pods.len());
        let members = etcdctl(&ns, "example", &["member", "list"]).await?;
        ensure!(members.lines().count() == 3, "{members}");
        let after = ns.api::<Pod>().get("not-a-member").await?;
        ensure!(after.meta().uid == foreign.meta().uid, "the foreign pod was replaced");
        ensure!(after.meta().labels == foreign.meta().labels, "the foreign pod was relabelled");
        ensure!(after.meta().owner_references.is_none(), "the foreign pod was taken over");
        Ok(())
    })
    .await
}
