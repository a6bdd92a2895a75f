//! Pods find each other, by their names and through a Service, whatever nodes they are on.

use std::collections::BTreeSet;

use anyhow::{Context, ensure};
use futures::future::try_join_all;
use k8s_openapi::api::core::v1::{Node, Service};
use kube::{Api, ResourceExt, api::ListParams};
use testbed::kit::{Cluster, TestNamespace, in_namespace};

use crate::{CLIENT_IMAGE, etcdctl};

#[tokio::test]
async fn pods_on_three_nodes_talk_by_name_and_through_a_service() -> anyhow::Result<()> {
    in_namespace("pods_on_three_nodes_talk_by_name_and_through_a_service", async |ns| {
        let nodes = one_node_per_zone(ns.cluster()).await?;
        ensure!(nodes.len() >= 3, "three zones are needed, there are {nodes:?}");
        let pods: Vec<_> = (1..=3).map(|at| format!("talk-{at}")).collect();
        ns.apply(SERVICES).await?;
        for (pod, node) in pods.iter().zip(&nodes) {
            ns.apply(&talker(pod, node)).await?;
        }
        for (pod, node) in ns.pods_ready("app=talk", 3).await?.iter().zip(&nodes) {
            let placed = pod.spec.as_ref().and_then(|spec| spec.node_name.as_ref());
            ensure!(placed == Some(node), "{} is on {placed:?}, not on {node}", pod.name_any());
        }
        // Each says its own name, so that it can be told who answers.
        try_join_all(pods.iter().map(|pod| tell(&ns, pod, pod))).await?;
        for from in &pods {
            for to in &pods {
                let answer = ask(&ns, from, &format!("{to}.talk")).await?;
                ensure!(answer == *to, "{from} asked {to}, and {answer:?} answered");
            }
        }
        the_service_leads_to_all(&ns, &pods).await
    })
    .await
}

async fn the_service_leads_to_all(ns: &TestNamespace, pods: &[String]) -> anyhow::Result<()> {
    let service: Service = ns.api().get("anyone").await?;
    let address = service.spec.and_then(|spec| spec.cluster_ip).context("the Service has no address")?;
    let resolved = ns.exec("talk-1", &["getent", "hosts", "anyone"]).await?.success()?;
    ensure!(resolved.starts_with(&address), "anyone is {address}, but resolves to {resolved}");

    // Who answers is up to chance: that one of three is missed a hundred times over is not going to happen.
    let mut answered = BTreeSet::new();
    for _ in 0..100 {
        answered.insert(ask(ns, "talk-1", "anyone").await?);
        if answered.len() == pods.len() {
            break;
        }
    }
    ensure!(answered.iter().eq(pods), "the Service leads to {answered:?}");
    Ok(())
}

async fn ask(ns: &TestNamespace, from: &str, host: &str) -> anyhow::Result<String> {
    let url = format!("http://{host}:2379");
    Ok(etcdctl(ns, from, &url, &["get", "who", "--print-value-only"]).await?.success()?)
}

async fn tell(ns: &TestNamespace, to: &str, who: &str) -> anyhow::Result<String> {
    Ok(etcdctl(ns, to, "http://127.0.0.1:2379", &["put", "who", who]).await?.success()?)
}

async fn one_node_per_zone(cluster: &Cluster) -> anyhow::Result<Vec<String>> {
    let nodes: Api<Node> = Api::all(cluster.client());
    let mut zones = BTreeSet::new();
    let mut chosen = Vec::new();
    for node in nodes.list(&ListParams::default()).await? {
        if zones.insert(node.labels().get("topology.kubernetes.io/zone").cloned()) {
            chosen.push(node.name_any());
        }
    }
    chosen.truncate(3);
    Ok(chosen)
}

const SERVICES: &str = "
apiVersion: v1
kind: Service
metadata: {name: talk}
spec: {clusterIP: None, selector: {app: talk}, ports: [{port: 2379}]}
---
apiVersion: v1
kind: Service
metadata: {name: anyone}
spec: {selector: {app: talk}, ports: [{port: 2379}]}
";

/// An etcd of its own in each pod: something that listens, and that tells who it is.
fn talker(name: &str, node: &str) -> String {
    format!(
        "
apiVersion: v1
kind: Pod
metadata: {{name: {name}, labels: {{app: talk}}}}
spec:
  hostname: {name}
  subdomain: talk
  nodeSelector: {{kubernetes.io/hostname: {node}}}
  terminationGracePeriodSeconds: 1
  containers:
  - name: etcd
    image: {CLIENT_IMAGE}
    command: [etcd, --data-dir=/tmp/data, '--listen-client-urls=http://0.0.0.0:2379',
      '--advertise-client-urls=http://0.0.0.0:2379']
    readinessProbe: {{httpGet: {{path: /health, port: 2379}}, periodSeconds: 1}}
"
    )
}
