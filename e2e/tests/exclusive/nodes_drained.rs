//! Every node is drained, restarted and taken into service again, one after the other, as for a new kernel, and then two at once. Under
//! load; no acknowledged write is lost, and there is a quorum all the time.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use anyhow::ensure;
use api::EtcdCluster;
use e2e::{
    LONG, SOON, Seen,
    client::{answered, load, verdict},
    condition, etcd_cluster,
    members::one_cluster,
    operator,
    pods::{living, node_of},
    running,
};
use testbed::{
    faults::Ground,
    kit::{TestCase, TestNamespace, wait_for},
    node::Node,
};
use tokio::task::JoinHandle;

/// What was ever said of a cluster's being available.
struct Watched {
    seen: Arc<Mutex<BTreeSet<String>>>,
    watch: JoinHandle<()>,
}

impl Watched {
    fn begin(ns: &TestNamespace, name: &'static str) -> Self {
        let (clusters, seen) = (ns.api::<EtcdCluster>(), Arc::new(Mutex::new(BTreeSet::new())));
        let notes = Arc::clone(&seen);
        let watch = tokio::spawn(async move {
            let note = |cluster: Option<&EtcdCluster>| {
                let said = cluster.and_then(|cluster| condition(cluster, "Available"));
                // Members that are all there and have no leader for a moment, on a busy machine, were not taken away.
                let present = |said: &Seen| {
                    let words: Vec<_> = said.message.split_whitespace().take(3).collect();
                    said.reason == "WaitingForPeers" && words.first() == words.get(2)
                };
                let said = said.filter(|said| !present(said)).map(|said| said.status).unwrap_or_default();
                notes.lock().unwrap_or_else(PoisonError::into_inner).insert(said);
                Err::<(), _>("never enough".to_owned())
            };
            let _ = wait_for(&clusters, name, Duration::from_hours(1), "to be watched", note).await;
        });
        Self { seen, watch }
    }

    fn end(self) -> BTreeSet<String> {
        self.watch.abort();
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

async fn drain(ns: &TestNamespace, node: Node) -> anyhow::Result<()> {
    let command = ["drain", &node.name(), "--ignore-daemonsets", "--delete-emptydir-data"];
    ns.cluster().kubectl_with(&command, b"", SOON).await?.success()?;
    for pod in living(ns, "c").await? {
        ensure!(node_of(&pod) != Some(&node.name()), "a member is on {}, which was drained", node.name());
    }
    Ok(())
}

/// The budget lets the members of two nodes go one after the other, each when the one before has been replaced.
async fn two_at_once(ns: &TestNamespace, ground: &Ground) -> anyhow::Result<()> {
    let way = ground.detour(Node(3))?;
    let maintained = [Node(1), Node(2)].map(|node| ground.maintain(node));
    tokio::try_join!(drain(ns, Node(1)), drain(ns, Node(2)))?;
    for node in maintained {
        node.heal().await?;
    }
    Ok(way.heal().await?)
}

/// Who tolerates a node that takes nobody any more is placed there.
async fn tolerated(ns: &TestNamespace, node: Node) -> anyhow::Result<()> {
    let policy = format!(
        "{{pod: {{nodeSelector: {{kubernetes.io/hostname: {}}}, \
         tolerations: [{{key: node.kubernetes.io/unschedulable, operator: Exists}}]}}, size",
        node.name()
    );
    ns.apply(&etcd_cluster("tolerant", 1, "3.6.14").replace("{size", &policy)).await?;
    running(ns, "tolerant").await?;
    ns.remove::<EtcdCluster>("tolerant").await?;
    Ok(())
}

#[tokio::test]
async fn every_node_is_drained_and_restarted_in_turn_then_two_at_once_and_there_is_always_a_quorum()
-> anyhow::Result<()> {
    let ground = Ground::alone().await?;
    TestCase::of("nodes_drained")
        .deadline(LONG)
        .run(async |ns| {
            operator(&ns).await?;
            ns.apply(&etcd_cluster("c", 3, "3.6.14")).await?;
            one_cluster(&ns, "c").await?;
            let watched = Watched::begin(&ns, "c");
            let load = load(&ns, "c").await?;
            for node in (1..=3).map(Node) {
                // The way of this machine to the Service must not lead over the node that is restarted.
                let way = ground.detour(Node(node.0 % 3 + 1))?;
                let maintained = ground.maintain(node);
                drain(&ns, node).await?;
                if node == Node(2) {
                    tolerated(&ns, node).await?;
                }
                ground.reboot(node).await?;
                maintained.heal().await?;
                way.heal().await?;
                // On to the next without a look whether the cluster is whole again: the budget has to know.
                answered(&load, 50).await?;
            }
            two_at_once(&ns, &ground).await?;
            answered(&load, 50).await?;
            verdict(load).await?;
            one_cluster(&ns, "c").await?;
            let seen = watched.end();
            ensure!(seen.contains("True") && !seen.contains("False"), "it was called {seen:?}");
            Ok(())
        })
        .await
}
