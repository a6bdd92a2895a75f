//! Parts of the control plane, the registry and DNS fail, and work again when they heal.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use testbed::{
    faults::{Ground, control::Part},
    kit::{TestNamespace, in_namespace, until_it_succeeds, wait_for},
};

use crate::dns_answers::answers;

const SOON: Duration = Duration::from_mins(2);

/// Whether the API server takes something up: it says that it is ready for a while after its etcd is gone.
async fn api_server_works(ns: &TestNamespace) -> bool {
    let note = "{apiVersion: v1, kind: ConfigMap, metadata: {name: note}}";
    let asked = async {
        ns.apply(note).await?;
        ns.remove::<ConfigMap>("note").await
    };
    matches!(tokio::time::timeout(Duration::from_secs(5), asked).await, Ok(Ok(())))
}

/// It does as soon as all who watch it have been served, which takes a busy machine a while.
async fn works_again(ns: &TestNamespace) -> anyhow::Result<()> {
    let attempt = async || {
        ensure!(api_server_works(ns).await, "the API server does not work again");
        Ok(())
    };
    until_it_succeeds(SOON, attempt).await
}

#[tokio::test]
async fn the_api_server_and_its_etcd_are_killed_and_held_and_nothing_is_lost() -> anyhow::Result<()> {
    let ground = Ground::alone().await?;
    in_namespace("api_server_and_etcd", async |ns| {
        ns.apply("{apiVersion: v1, kind: ConfigMap, metadata: {name: kept}, data: {a: b}}").await?;
        let kept = ns.api::<ConfigMap>().get("kept").await?;
        for part in [Part::ApiServer, Part::Etcd] {
            let stopped = ground.stop(part)?;
            ensure!(!api_server_works(&ns).await, "the API server works without {part:?}");
            stopped.heal().await?;
            works_again(&ns).await?;
            let after = ns.api::<ConfigMap>().get("kept").await?;
            ensure!(after == kept, "{after:?} is not what was kept");
        }
        let held = ground.hold(Part::ApiServer)?;
        ensure!(!api_server_works(&ns).await, "an API server that stands still works");
        // As when a test fails.
        drop(held);
        works_again(&ns).await?;

        // What a test left that was killed itself.
        std::mem::forget(ground.stop(Part::Registry)?);
        std::mem::forget(ground.hold(Part::Etcd)?);
        ensure!(!api_server_works(&ns).await, "the API server works without its etcd");
        Ground::alone().await?;
        works_again(&ns).await.context("what was left broken is not mended")?;
        pulls(&ns, "mended").await
    })
    .await
}

/// A pod that asks the registry for its image, whether the node has it or not.
async fn ask_for_image(ns: &TestNamespace, name: &str) -> anyhow::Result<()> {
    ns.apply(&format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}}}\nspec:\n  restartPolicy: Never\n  containers:\n  \
         - {{name: x, image: 'quay.io/coreos/etcd:latest', imagePullPolicy: Always, command: ['true']}}\n"
    ))
    .await?;
    Ok(())
}

async fn pulls(ns: &TestNamespace, name: &str) -> anyhow::Result<()> {
    ask_for_image(ns, name).await?;
    ns.pod_succeeded(name).await?;
    Ok(())
}

fn pull_fails(pod: Option<&Pod>) -> Result<(), String> {
    let statuses = pod.and_then(|pod| pod.status.as_ref()?.container_statuses.as_ref());
    let waits = statuses.and_then(|all| all.first()?.state.as_ref()?.waiting.as_ref()?.reason.clone());
    match waits.as_deref() {
        Some("ErrImagePull" | "ImagePullBackOff") => Ok(()),
        other => Err(format!("{other:?}")),
    }
}

#[tokio::test]
async fn without_the_registry_no_image_is_pulled_and_without_dns_no_name_is_known() -> anyhow::Result<()> {
    let ground = Ground::alone().await?;
    in_namespace("registry_and_dns", async |ns| {
        let stopped = ground.stop(Part::Registry)?;
        ask_for_image(&ns, "waits").await?;
        wait_for(&ns.api(), "waits", SOON, "to lack its image", pull_fails).await?;
        stopped.heal().await?;
        pulls(&ns, "pulls").await?;

        let server = ground.layout().instance.network().dns_service();
        let asks = async || tokio::task::spawn_blocking(move || answers(server)).await;
        ensure!(asks().await?, "DNS does not answer at all");
        let silent = ground.silence_dns().await?;
        ensure!(!asks().await?, "DNS answers");
        silent.heal().await?;
        ensure!(asks().await?, "DNS does not answer again");
        ns.pod_succeeded("waits").await?;
        Ok(())
    })
    .await
}
