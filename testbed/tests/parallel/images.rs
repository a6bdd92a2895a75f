//! Images come from a registry: a tag that it does not have is not found, and `Always` means that it is asked.

use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context, ensure};
use k8s_openapi::api::core::v1::{ContainerStateWaiting, Event, Pod};
use testbed::{
    cluster::forget_image,
    control_plane::Layout,
    image::Image,
    instance::Instance,
    kit::{TestNamespace, check, in_namespace, until_it_succeeds, wait_for, wait_for_all},
    push::push,
};

use crate::{CLIENT_IMAGE, SOON, script_pod};

#[tokio::test]
async fn a_wrong_tag_ends_in_image_pull_back_off_with_not_found() -> anyhow::Result<()> {
    in_namespace("a_wrong_tag_ends_in_image_pull_back_off_with_not_found", async |ns| {
        let manifest = "
apiVersion: v1
kind: Pod
metadata: {name: wrong}
spec: {containers: [{name: etcd, image: 'quay.io/coreos/etcd:v0.0.0'}]}
";
        ns.apply(manifest).await?;
        let backed_off = |pod: Option<&Pod>| {
            let waiting = pod.and_then(waiting).unwrap_or_default();
            let message = waiting.message.unwrap_or_default();
            match waiting.reason.as_deref() {
                Some("ImagePullBackOff") => Ok(message),
                _ => Err(pod.map(check::describe_pod).unwrap_or_default()),
            }
        };
        let said = wait_for(&ns.api(), "wrong", SOON, "to back off from the image", backed_off).await?;
        ensure!(said.contains("quay.io/coreos/etcd:v0.0.0") && said.contains("not found"), "{said}");
        Ok(())
    })
    .await
}

fn waiting(pod: &Pod) -> Option<ContainerStateWaiting> {
    pod.status.as_ref()?.container_statuses.as_ref()?.first()?.state.as_ref()?.waiting.clone()
}

#[tokio::test]
async fn always_asks_the_registry_even_for_an_image_that_is_there() -> anyhow::Result<()> {
    in_namespace("always_asks_the_registry_even_for_an_image_that_is_there", async |ns| {
        ns.apply(&script_pod("first", "true")).await?;
        let first = ns.pod_succeeded("first").await?;
        let node = first.spec.and_then(|spec| spec.node_name).context("a pod ran on no node")?;
        for (name, policy, expected) in [
            ("always", "Always", "Successfully pulled image"),
            ("if-not-present", "IfNotPresent", "already present on machine"),
        ] {
            let manifest = script_pod(name, "true")
                .replace("restartPolicy:", &format!("nodeName: {node}\n  restartPolicy:"))
                .replace("name: shell", &format!("name: shell\n    imagePullPolicy: {policy}"));
            ns.apply(&manifest).await?;
            ns.pod_succeeded(name).await?;
            let said = pulled(&ns, name).await?;
            ensure!(said.contains(expected), "{policy}: {said}");
        }
        Ok(())
    })
    .await
}

#[tokio::test]
async fn an_image_that_the_nodes_forget_is_pulled_again() -> anyhow::Result<()> {
    const IMAGE: &str = "quay.io/etcd-operator/pushed-twice:v1";
    let instance = Instance::chosen()?;
    let push_with = async |text: &str| {
        let image = Image::named(IMAGE).text(text, "/text").build()?;
        anyhow::Ok(push(&image, &Layout::of(instance).registry()).await?)
    };
    in_namespace("an_image_that_the_nodes_forget_is_pulled_again", async |ns| {
        let pulls = async |name: &str, expected: &str| {
            // It has no such program; that it was pulled is said before.
            let manifest = script_pod(name, "true")
                .replace("restartPolicy:", "nodeName: node1\n  restartPolicy:")
                .replace(CLIENT_IMAGE, IMAGE);
            ns.apply(&manifest).await?;
            let said = pulled(&ns, name).await?;
            ensure!(said.contains(expected), "{name}: {said}");
            Ok(())
        };
        push_with("one").await?;
        forget_image(instance, IMAGE)?;
        pulls("first", "Successfully pulled image").await?;
        push_with("another").await?;
        pulls("second", "already present on machine").await?;
        forget_image(instance, IMAGE)?;
        // What the kubelet is told of images follows by an event, sooner or later.
        let next = AtomicUsize::new(3);
        until_it_succeeds(SOON, async || {
            let name = format!("number-{}", next.fetch_add(1, Ordering::Relaxed));
            pulls(&name, "Successfully pulled image").await
        })
        .await
    })
    .await
}

/// What the kubelet says about where it has a pod's image from.
async fn pulled(ns: &TestNamespace, pod: &str) -> anyhow::Result<String> {
    let message = |events: &[Event]| {
        let about = |event: &&Event| {
            event.involved_object.name.as_deref() == Some(pod) && event.reason.as_deref() == Some("Pulled")
        };
        let found = events.iter().find(about).and_then(|event| event.message.clone());
        found.ok_or_else(|| format!("{} Events, none that {pod} was pulled", events.len()))
    };
    Ok(wait_for_all(&ns.api(), "", SOON, "to say how the image came", message).await?)
}
