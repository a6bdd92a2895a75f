//! Volumes behave as the local disks of nodes: writable without being root, tied to their node, gone with their claim.

use std::time::Duration;

use anyhow::{Context, ensure};
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim, Pod};
use kube::Api;
use testbed::kit::{PodSecurity, TestCase, check, wait_for};

use crate::{SOON, script_pod};

#[tokio::test]
async fn what_a_non_root_pod_writes_to_a_claim_the_next_pod_reads_on_the_same_node() -> anyhow::Result<()> {
    let case = TestCase::of("what_a_non_root_pod_writes_to_a_claim_the_next_pod_reads_on_the_same_node");
    case.pod_security(PodSecurity::Restricted)
        .run(async |ns| {
            ns.apply(CLAIM).await?;
            // WaitForFirstConsumer: nobody has decided on a node yet. A moment is given, or this would show nothing.
            tokio::time::sleep(Duration::from_secs(1)).await;
            let claim: PersistentVolumeClaim = ns.api().get("data").await?;
            ensure!(volume_of(&claim).is_none(), "bound before there was a consumer");

            ns.apply(&on_claim("writer", "id -u > /data/who; cat /data/who")).await?;
            let writer = ns.pod_succeeded("writer").await?;
            ensure!(ns.logs("writer", None).await?.trim() == "1000");
            ns.remove::<Pod>("writer").await?;

            ns.apply(&on_claim("reader", "cat /data/who")).await?;
            let reader = ns.pod_succeeded("reader").await?;
            ensure!(ns.logs("reader", None).await?.trim() == "1000");
            ensure!(node_of(&writer).is_some() && node_of(&reader) == node_of(&writer));

            let claim: PersistentVolumeClaim = ns.api().get("data").await?;
            let volume = volume_of(&claim).context("the claim is not bound")?;
            ns.remove::<Pod>("reader").await?;
            ns.remove::<PersistentVolumeClaim>("data").await?;
            let volumes: Api<PersistentVolume> = Api::all(ns.client());
            wait_for(&volumes, &volume, SOON, "to be gone with its claim", check::gone).await?;
            Ok(())
        })
        .await
}

const CLAIM: &str = "
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data}
spec:
  accessModes: [ReadWriteOnce]
  resources: {requests: {storage: 16Mi}}
";

fn on_claim(name: &str, script: &str) -> String {
    script_pod(name, script)
        .replace("name: shell", "name: shell\n    volumeMounts: [{name: data, mountPath: /data}]")
        + "  volumes: [{name: data, persistentVolumeClaim: {claimName: data}}]\n"
}

fn volume_of(claim: &PersistentVolumeClaim) -> Option<String> {
    claim.spec.as_ref()?.volume_name.clone()
}

fn node_of(pod: &Pod) -> Option<String> {
    pod.spec.as_ref()?.node_name.clone()
}
