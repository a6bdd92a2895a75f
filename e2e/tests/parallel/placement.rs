//! S18 and S19: members stand where the spec wants them, and with what it gives them. Where it says nothing, each has a node and a zone
//! of its own, as far as there are some. The pods of the smallest clusters cannot be evicted.

use std::collections::BTreeSet;

use anyhow::{Context as _, bail, ensure};
use e2e::{SOON, etcd_cluster, operator, pods::living, running, says};
use k8s_openapi::api::{
    core::v1::{Pod, PodSpec},
    policy::v1::PodDisruptionBudget,
};
use kube::{ResourceExt as _, api::EvictParams};
use serde_json::{Value, json};
use testbed::kit::{TestNamespace, in_namespace, wait_for, wait_for_all};

use crate::truth::said;

fn with_pods(name: &str, size: u8, policy: &Value) -> String {
    etcd_cluster(name, size, "3.6.14").replace("{size", &format!("{{pod: {policy}, size"))
}

/// The nodes on which the pods of a cluster stand.
async fn nodes(ns: &TestNamespace, cluster: &str) -> anyhow::Result<Vec<String>> {
    let pods = living(ns, cluster).await?;
    let mut nodes: Vec<_> = pods.into_iter().filter_map(|pod| pod.spec?.node_name).collect();
    nodes.sort();
    Ok(nodes)
}

/// Everything that says how and where one member runs.
fn everything() -> Value {
    json!({
        "nodeSelector": {"kubernetes.io/hostname": "node2"},
        "affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [
            {"weight": 1, "preference": {"matchExpressions": [{"key": "disk", "operator": "Exists"}]}}]}},
        "tolerations": [{"key": "only-etcd", "operator": "Exists", "effect": "NoSchedule"}],
        "resources": {"requests": {"cpu": "20m", "memory": "64Mi"}, "limits": {"cpu": "1", "memory": "256Mi"}},
        "topologySpreadConstraints": [
            {"maxSkew": 2, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "ScheduleAnyway"}],
        "priorityClassName": "system-cluster-critical",
        "imagePullPolicy": "Always",
        "imagePullSecrets": [{"name": "registry"}],
    })
}

async fn a_pod_has_everything(ns: &TestNamespace) -> anyhow::Result<()> {
    let pods = living(ns, "picked").await?;
    let [Pod { spec: Some(spec), .. }] = pods.as_slice() else { bail!("{} pods", pods.len()) };
    let (asked, has): (_, PodSpec) = (everything(), spec.clone());
    let etcd = has.containers.iter().find(|container| container.name == "etcd").context("no etcd")?;
    // Compared as the API server writes it, which leaves out nothing that was asked for.
    let same = |what: &str, is: Value| {
        let asked = asked.get(what).cloned().unwrap_or_default();
        ensure!(is == asked, "{what}: {is} instead of {asked}");
        Ok(())
    };
    same("nodeSelector", json!(has.node_selector))?;
    same("affinity", json!(has.affinity))?;
    same("resources", json!(etcd.resources))?;
    same("priorityClassName", json!(has.priority_class_name))?;
    same("imagePullPolicy", json!(etcd.image_pull_policy))?;
    same("imagePullSecrets", json!(has.image_pull_secrets))?;
    let tolerations = json!(has.tolerations);
    let first = asked.pointer("/tolerations/0").context("no toleration")?;
    ensure!(tolerations.as_array().is_some_and(|all| all.contains(first)), "{tolerations}");
    let spread = has.topology_spread_constraints.unwrap_or_default();
    let spread: Vec<_> = spread.iter().map(|it| (it.max_skew, it.topology_key.as_str())).collect();
    ensure!(spread == [(2, "topology.kubernetes.io/zone")], "{spread:?}");
    Ok(())
}

/// Two members that may only be on two of the nodes, and have to be apart there.
fn two_of_three() -> Value {
    json!({
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
            {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "NotIn", "values": ["node2"]}]}]}}},
        "topologySpreadConstraints": [
            {"maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "DoNotSchedule"}],
    })
}

/// Four members that never share one of three nodes: one of them is left over.
async fn four_apart(ns: &TestNamespace) -> anyhow::Result<()> {
    let seen = said(ns, "apart", "WaitingForPodScheduled").await?;
    ensure!(seen.message.contains("anti-affinity"), "{seen:?}");
    let three = |pods: &[Pod]| {
        let nodes = pods.iter().filter_map(|pod| pod.spec.as_ref()?.node_name.clone());
        let nodes: Vec<_> = nodes.collect();
        let different = nodes.iter().collect::<BTreeSet<_>>().len();
        if (pods.len(), nodes.len(), different) == (4, 3, 3) { Ok(()) } else { Err(format!("{nodes:?}")) }
    };
    wait_for_all(&ns.api(), "etcd_cluster=apart", SOON, "to be on three nodes", three).await?;
    Ok(())
}

#[tokio::test]
async fn members_stand_where_the_spec_wants_them_and_apart_where_it_says_nothing() -> anyhow::Result<()> {
    in_namespace("placement", async |ns| {
        operator(&ns).await?;
        ns.apply(
            "{apiVersion: v1, kind: Secret, metadata: {name: registry}, type: kubernetes.io/dockerconfigjson, \
             stringData: {.dockerconfigjson: '{\"auths\": {}}'}}",
        )
        .await?;
        ns.apply(&etcd_cluster("plain", 3, "3.6.14")).await?;
        ns.apply(&with_pods("picked", 1, &everything())).await?;
        ns.apply(&with_pods("between", 2, &two_of_three())).await?;
        ns.apply(&with_pods("apart", 4, &json!({"antiAffinity": true}))).await?;
        for (cluster, expected) in [
            ("plain", &["node1", "node2", "node3"][..]),
            ("picked", &["node2"]),
            ("between", &["node1", "node3"]),
        ] {
            running(&ns, cluster).await?;
            let nodes = nodes(&ns, cluster).await?;
            ensure!(nodes == expected, "{cluster} is on {nodes:?}");
        }
        a_pod_has_everything(&ns).await?;
        four_apart(&ns).await?;
        for cluster in ["picked", "between"] {
            cannot_be_evicted(&ns, cluster).await?;
        }
        Ok(())
    })
    .await
}

/// A cluster of one or two can lose nobody: the budget refuses, and the status says so.
async fn cannot_be_evicted(ns: &TestNamespace, cluster: &str) -> anyhow::Result<()> {
    let counted = |budget: Option<&PodDisruptionBudget>| {
        let status = budget.and_then(|budget| budget.status.as_ref()).ok_or("not counted")?;
        if status.current_healthy == status.desired_healthy { Ok(()) } else { Err(format!("{status:?}")) }
    };
    wait_for(&ns.api::<PodDisruptionBudget>(), cluster, SOON, "to count its pods", counted).await?;
    for pod in living(ns, cluster).await? {
        let evicted = ns.api::<Pod>().evict(&pod.name_any(), &EvictParams::default()).await;
        let Err(kube::Error::Api(refused)) = evicted else { bail!("{}: {evicted:?}", pod.name_any()) };
        ensure!(refused.code == 429 && refused.message.contains("disruption budget"), "{refused:?}");
    }
    let reason = if cluster == "picked" { "NoEviction" } else { "EvenSize" };
    let seen = says(ns, cluster, "SpecAccepted", reason).await?;
    ensure!(seen.message.contains("its pods cannot be evicted"), "{seen:?}");
    Ok(())
}
