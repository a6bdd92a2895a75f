//! Clusters that have what they need cost no writes, also where somebody changes our pods as they are made.

use std::time::Duration;

use anyhow::ensure;
use e2e::{
    CLIENT_IMAGE, etcd_cluster, operator,
    pods::living,
    policy::{self, Policy},
    running,
};
use kube::ResourceExt as _;
use testbed::kit::{TestNamespace, audit::AuditEntry, in_namespace};

/// How often it is looked for a while without a write.
const WINDOWS: usize = 7;

/// Gives every member of the cluster `changed` a container, a label, an annotation and a toleration more, as many companies do.
/// `IMAGE` stands for the client's.
const SOMEBODY: &str = r#"  reinvocationPolicy: Never
  matchConditions:
  - {name: member, expression: "object.metadata.?labels[?'etcd_cluster'] == optional.of('changed')"}
  mutations:
  - patchType: JSONPatch
    jsonPatch:
      expression: >
        [JSONPatch{op: "add", path: "/metadata/labels/somebody", value: "was-here"},
         JSONPatch{op: "add", path: "/metadata/annotations/somebody", value: "was-here"},
         JSONPatch{op: "add", path: "/spec/tolerations/-", value: Object.spec.tolerations{key: "somebody", operator: "Exists"}},
         JSONPatch{op: "add", path: "/spec/containers/-", value: Object.spec.containers{
           name: "somebody", image: "IMAGE", command: ["/bin/sh", "-c", "sleep 3600"],
           securityContext: Object.spec.containers.securityContext{
             allowPrivilegeEscalation: false, runAsNonRoot: true, runAsUser: 1000,
             capabilities: Object.spec.containers.securityContext.capabilities{drop: ["ALL"]}}}}]"#;

/// Whether somebody changed all members of this cluster.
async fn is_changed(ns: &TestNamespace, cluster: &str) -> anyhow::Result<bool> {
    let pods = living(ns, cluster).await?;
    let containers = pods.iter().filter_map(|pod| pod.spec.as_ref()).map(|spec| spec.containers.len());
    Ok(containers.eq([2, 2, 2]) && pods.iter().all(|pod| pod.labels().contains_key("somebody")))
}

/// A policy is in force a moment after it was made: until then, clusters are made anew.
async fn changed_by_somebody(ns: &TestNamespace) -> anyhow::Result<()> {
    for _ in 0..10 {
        ns.apply(&etcd_cluster("changed", 3, "3.6.14")).await?;
        running(ns, "changed").await?;
        if is_changed(ns, "changed").await? {
            return Ok(());
        }
        ns.remove::<api::EtcdCluster>("changed").await?;
    }
    anyhow::bail!("nobody changes our pods")
}

/// What was written to the status for a while. Anything else that is written, the Lease apart, is an error.
async fn status_writes(ns: &TestNamespace) -> anyhow::Result<Vec<AuditEntry>> {
    let log = ns.cluster().audit_log()?;
    let mark = log.mark()?;
    tokio::time::sleep(Duration::from_secs(40)).await;
    let user = format!("system:serviceaccount:{}:etcd-operator-sa", ns.name());
    let writes = log.since(mark).user(&user).writes().entries()?;
    let (leases, others): (Vec<_>, Vec<_>) = writes.into_iter().partition(|entry| entry.resource == "leases");
    ensure!(!leases.is_empty(), "the Lease is not renewed: the log shows nothing");
    let (said, others): (Vec<_>, Vec<_>) = others
        .into_iter()
        .partition(|entry| entry.resource == "etcdclusters" && entry.subresource == "status");
    ensure!(others.is_empty(), "{others:?}");
    Ok(said)
}

#[tokio::test]
async fn an_idle_cluster_costs_no_writes_not_even_where_somebody_changed_its_pods() -> anyhow::Result<()> {
    in_namespace("idle", async |ns| {
        operator(&ns).await?;
        let somebody = SOMEBODY.replace("IMAGE", CLIENT_IMAGE);
        let policy = policy::apply(&ns, Policy::Changes(&somebody)).await?;
        ns.apply(&etcd_cluster("c", 3, "3.6.14")).await?;
        changed_by_somebody(&ns).await?;
        running(&ns, "c").await?;
        // What follows from the last member's readiness may still be on its way.
        tokio::time::sleep(Duration::from_secs(10)).await;
        // A busy machine has a member late now and then, and that is said. Somebody who writes without a reason does it all the time.
        let mut said = Vec::new();
        let mut quiet = false;
        for _ in 0..WINDOWS {
            let now = status_writes(&ns).await?;
            quiet = now.is_empty();
            said.extend(now);
            if quiet {
                break;
            }
        }
        ensure!(quiet, "{said:?}");
        ensure!(is_changed(&ns, "changed").await?, "what somebody added is not there any more");
        policy::remove(&ns, &policy).await
    })
    .await
}
