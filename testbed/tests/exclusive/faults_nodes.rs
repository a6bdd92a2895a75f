//! A node that is rebooted keeps its disks; one that is lost is gone with them, and who comes back under its name is fresh.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use k8s_openapi::api::core::v1::{Event, Node as NodeObject, Pod};
use kube::Api;
use testbed::{
    faults::{Ground, place::Place},
    kit::{TestNamespace, check, in_namespace, until_it_succeeds, wait_for, wait_for_all},
    node::Node,
};

const SOON: Duration = Duration::from_mins(2);
/// Not the first: the way of this machine to Services leads over that one.
const NODE: Node = Node(3);

/// Two pods on the node: one with an emptyDir, one with a disk. Each adds a line to its file whenever it starts.
const PODS: &str = "
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: disk}
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 16Mi}}}
---
apiVersion: v1
kind: Pod
metadata: {name: empty}
spec:
  nodeSelector: {kubernetes.io/hostname: node3}
  terminationGracePeriodSeconds: 0
  containers:
  - name: shell
    image: quay.io/coreos/etcd:latest
    command: [/bin/sh, -c, 'echo started >> /data/starts; sync; sleep 3600']
    volumeMounts: [{name: data, mountPath: /data}]
  volumes: [{name: data, emptyDir: {}}]
---
apiVersion: v1
kind: Pod
metadata: {name: disk}
spec:
  nodeSelector: {kubernetes.io/hostname: node3}
  terminationGracePeriodSeconds: 0
  containers:
  - name: shell
    image: quay.io/coreos/etcd:latest
    command: [/bin/sh, -c, 'echo started >> /data/starts; sync; sleep 3600']
    volumeMounts: [{name: data, mountPath: /data}]
  volumes: [{name: data, persistentVolumeClaim: {claimName: disk}}]
";

/// Whether the pod's file tells of just so many starts. The shell may be there before it has written.
async fn has_started(ns: &TestNamespace, pod: &str, times: usize) -> anyhow::Result<bool> {
    until_it_succeeds(SOON, async || {
        let lines = ns.exec(pod, &["cat", "/data/starts"]).await?.success()?.lines().count();
        ensure!(lines >= times, "{pod} has written {lines} times");
        Ok(lines == times)
    })
    .await
}

fn container(pod: &Pod) -> Option<String> {
    pod.status.as_ref()?.container_statuses.as_ref()?.first()?.container_id.clone()
}

/// Waits until another container of the same pod runs.
async fn runs_again(ns: &TestNamespace, before: &Pod) -> anyhow::Result<()> {
    let name = before.metadata.name.as_deref().context("a name")?;
    let (uid, container_before) = (before.metadata.uid.clone(), container(before));
    wait_for(&ns.api::<Pod>(), name, SOON, "to run again", |pod: Option<&Pod>| {
        let pod = check::pod_ready(pod)?;
        if pod.metadata.uid != uid {
            return Err("it is another pod".to_owned());
        }
        if container(&pod) == container_before { Err("by its old word".to_owned()) } else { Ok(()) }
    })
    .await?;
    Ok(())
}

async fn both(ns: &TestNamespace, ground: &Ground) -> anyhow::Result<[Place; 2]> {
    let (empty, disk) = (ns.pod_ready("empty").await?, ns.pod_ready("disk").await?);
    Ok([ground.place_of(empty)?, ground.place_of(disk)?])
}

#[tokio::test]
async fn a_rebooted_node_has_its_disks_and_a_lost_one_comes_back_without() -> anyhow::Result<()> {
    let ground = Ground::alone().await?;
    in_namespace("rebooted_and_lost", async |ns| {
        ns.apply(PODS).await?;
        let places = both(&ns, &ground).await?;
        let processes = [places[0].process("shell")?, places[1].process("shell")?]
            .map(|process| (process.clone(), process.is_alive()));
        let down = ground.power_cut(NODE)?;
        ensure!(processes.iter().all(|(process, before)| *before && !process.is_alive()), "{processes:?}");
        ensure!(ns.exec("empty", &["true"]).await.is_err(), "something runs without power");
        down.heal().await?;
        for place in &places {
            runs_again(&ns, &place.pod).await?;
        }
        ensure!(has_started(&ns, "empty", 2).await?, "the emptyDir is not what it was");
        ensure!(has_started(&ns, "disk", 2).await?, "the disk is not what it was");

        unplugged(&ns, &ground).await?;

        let places = both(&ns, &ground).await?;
        let lost = ground.lose(NODE)?;
        let nodes: Api<NodeObject> = Api::all(ns.client());
        wait_for(&nodes, &NODE.name(), SOON, "not to be Ready", |node: Option<&NodeObject>| {
            if check::node_ready(node).is_err() { Ok(()) } else { Err("it is Ready".to_owned()) }
        })
        .await?;
        lost.heal().await?;
        runs_again(&ns, &places[0].pod).await?;
        ensure!(has_started(&ns, "empty", 1).await?, "something of the emptyDir is left");
        disk_is_missed(&ns).await
    })
    .await
}

/// What is on a node without a cable goes on, and nobody reaches it.
async fn unplugged(ns: &TestNamespace, ground: &Ground) -> anyhow::Result<()> {
    let [empty, _] = both(ns, ground).await?;
    let process = empty.process("shell")?;
    let cut = ground.unplug(NODE)?;
    ensure!(ns.exec("empty", &["true"]).await.is_err(), "a node without a cable is reached");
    ensure!(process.is_alive(), "the cable took the power with it");
    cut.heal().await?;
    ensure!(ns.exec("empty", &["true"]).await?.code == 0, "the node is not reached again");
    ensure!(process.is_alive(), "it did not go on");
    Ok(())
}

/// The pod on the disk that is gone does not start on something else.
async fn disk_is_missed(ns: &TestNamespace) -> anyhow::Result<()> {
    wait_for_all(&ns.api::<Event>(), "", SOON, "to tell of the disk that is gone", |events: &[Event]| {
        let told = |event: &Event| {
            event.reason.as_deref() == Some("FailedMount")
                && event.involved_object.name.as_deref() == Some("disk")
                && event.message.as_deref().is_some_and(|message| message.contains("does not exist"))
        };
        if events.iter().any(told) { Ok(()) } else { Err("none does".to_owned()) }
    })
    .await?;
    Ok(())
}
