//! A node is lost before the cluster on it has formed. Nobody was let in yet, so the attempt is abandoned, and the next one forms
//! on the nodes that are left.
//!
//! Here the Node is deleted as well, as a cloud's controller does with a machine that is gone; Kubernetes then deletes the pods that were on it.

use anyhow::{Context as _, ensure};
use api::EtcdCluster;
use e2e::{
    LONG, SOON, etcd_cluster,
    members::{no_member_twice, one_cluster},
    operator,
    pods::node_of,
};
use k8s_openapi::api::core::v1::{Node as NodeObject, Pod};
use kube::{Api, api::DeleteParams};
use testbed::{
    faults::{Broken, Ground, place::Place, process::Frozen},
    kit::{TestCase, TestNamespace, check, wait_for_all},
    node::Node,
};

fn started(pods: &[Pod]) -> Result<Vec<Pod>, String> {
    let runs = |pod: &&Pod| {
        let statuses = pod.status.as_ref().and_then(|status| status.container_statuses.as_ref());
        statuses.is_some_and(|all| {
            all.iter().all(|one| one.state.as_ref().is_some_and(|state| state.running.is_some()))
        })
    };
    let running: Vec<_> = pods.iter().filter(runs).cloned().collect();
    if running.len() == 3 { Ok(running) } else { Err(format!("{} of {} run", running.len(), pods.len())) }
}

/// Has a cluster, one member of which is on the doomed node, whose members run while the operator looks away: it would note that they
/// have formed. Nothing, and no cluster, if it was faster than we.
async fn born_unseen(
    ns: &TestNamespace,
    operator: &Place,
    doomed: Node,
) -> anyhow::Result<Option<Broken<Frozen>>> {
    ns.apply(&etcd_cluster("c", 3, "3.6.14")).await?;
    let all_made = |pods: &[Pod]| if pods.len() == 3 { Ok(()) } else { Err(format!("{}", pods.len())) };
    wait_for_all(&ns.api::<Pod>(), "etcd_cluster=c", SOON, "to be made", all_made).await?;
    let away = operator.freeze("etcd-operator")?;
    let members = wait_for_all(&ns.api::<Pod>(), "etcd_cluster=c", SOON, "to run", started).await?;
    ensure!(members.iter().any(|pod| node_of(pod) == Some(&doomed.name())), "no member is on {doomed:?}");
    let seen = ns.api::<EtcdCluster>().get("c").await?;
    let birth = seen.status.and_then(|status| status.birth).context("no record of birth")?;
    if !birth.formed && birth.incarnation == 1 {
        return Ok(Some(away));
    }
    away.heal().await?;
    ns.remove::<EtcdCluster>("c").await?;
    wait_for_all(&ns.api::<Pod>(), "etcd_cluster=c", SOON, "to be gone", check::none_left).await?;
    Ok(None)
}

#[tokio::test]
async fn a_node_lost_before_the_cluster_has_formed_costs_an_attempt_and_nothing_else() -> anyhow::Result<()> {
    let ground = Ground::alone().await?;
    TestCase::of("node_lost_at_birth")
        .deadline(LONG)
        .run(async |ns| {
            let mark = ns.cluster().audit_log()?.mark()?;
            operator(&ns).await?;
            let operators = ns.pods_ready("name=etcd-operator", 1).await?;
            let operator = ground.place_of(operators.into_iter().next().context("no operator")?)?;
            // Neither the operator's node, nor the one over which this machine reaches Services.
            let doomed =
                [Node(2), Node(3)].into_iter().find(|node| *node != operator.node).context("no node")?;

            let mut tries = 0;
            let away = loop {
                if let Some(away) = born_unseen(&ns, &operator, doomed).await? {
                    break away;
                }
                tries += 1;
                ensure!(tries < 5, "the operator always notes that the cluster has formed");
            };
            let lost = ground.lose(doomed)?;
            away.heal().await?;

            let nodes: Api<NodeObject> = Api::all(ns.client());
            nodes.delete(&doomed.name(), &DeleteParams::default()).await?;
            let cluster = one_cluster(&ns, "c").await?;
            let birth = cluster.status.and_then(|status| status.birth).context("no record of birth")?;
            ensure!(birth.incarnation > 1, "the attempt was not abandoned: {birth:?}");
            let labels = kube::api::ListParams::default().labels("etcd_cluster=c");
            for pod in ns.api::<Pod>().list(&labels).await? {
                ensure!(node_of(&pod) != Some(&doomed.name()), "a member is on a node that is lost");
            }
            no_member_twice(&ns, mark)?;
            lost.heal().await?;
            Ok(())
        })
        .await
}
