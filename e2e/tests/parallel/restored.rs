//! What a user deletes or edits of that which was made for a cluster comes back: Services, budget, labels and annotations. What has lost
//! its owner is left alone and named. The members are the same all the time.

use std::{collections::BTreeMap, fmt::Debug, time::Duration};

use anyhow::{Context as _, ensure};
use e2e::{
    SOON, client_pod, etcdctl,
    members::{identities, kill, restarted_and_ready},
    operator,
    pods::living,
    running, says,
};
use k8s_openapi::{
    NamespaceResourceScope,
    api::{
        core::v1::{Pod, Service},
        policy::v1::PodDisruptionBudget,
    },
};
use kube::{Resource, ResourceExt as _};
use serde::de::DeserializeOwned;
use testbed::{
    faults::Ground,
    kit::{GRAVE, TestNamespace, in_namespace, wait_for},
};
use tokio::time::sleep;

const CLUSTER: &str = "
apiVersion: etcd.database.coreos.com/v1beta2
kind: EtcdCluster
metadata: {name: c}
spec: {size: 1, version: 3.6.14, pod: {labels: {team: a}, annotations: {note: b}}}
";

/// What of an object is ours, whatever else it has: what the API server and others write goes.
fn ours<K: serde::Serialize>(object: &K) -> serde_json::Value {
    let mut value = serde_json::to_value(object).unwrap_or_default();
    let theirs = ["uid", "resourceVersion", "creationTimestamp", "generation", "managedFields"];
    for (part, keys) in
        [("/metadata", &theirs[..]), ("/spec", &["clusterIP", "clusterIPs"]), ("", &["status"])]
    {
        if let Some(all) = value.pointer_mut(part).and_then(|part| part.as_object_mut()) {
            all.retain(|key, _| !keys.contains(&key.as_str()));
        }
    }
    value
}

/// Waits until an object is again as it was.
async fn comes_back<K>(ns: &TestNamespace, before: &K) -> anyhow::Result<()>
where
    K: Resource<Scope = NamespaceResourceScope, DynamicType = ()> + Clone + DeserializeOwned + Debug,
    K: serde::Serialize + Send + 'static,
{
    let wanted = ours(before);
    let check = |now: Option<&K>| match now.map(ours) {
        Some(now) if now == wanted => Ok(()),
        now => Err(format!("{now:?}")),
    };
    Ok(wait_for(&ns.api::<K>(), &before.name_any(), SOON, "to be as it was", check).await?)
}

async fn patch(ns: &TestNamespace, object: &str, patch: &str) -> anyhow::Result<()> {
    ns.kubectl(&["patch", object, "--type=merge", "-p", patch]).await?.success()?;
    Ok(())
}

/// Patches an object until it is ended.
async fn patch_on_and_on(ns: &TestNamespace, object: &str, with: &str) -> anyhow::Result<()> {
    loop {
        patch(ns, object, with).await?;
        sleep(Duration::from_secs(5)).await;
    }
}

/// What somebody does, object by object.
const EDITS: [(&str, &[&str]); 3] = [
    (
        "service/c-client",
        &[
            r#"{"spec": {"selector": {"app": "nobody"}}}"#,
            r#"{"spec": {"ports": [{"name": "client", "port": 2379, "targetPort": 1}]}}"#,
            r#"{"spec": {"ports": [{"name": "client", "port": 2400, "targetPort": 2379}]}}"#,
            r#"{"metadata": {"labels": {"etcd_cluster": null, "app": "theirs"}}}"#,
        ],
    ),
    (
        "service/c",
        &[
            r#"{"spec": {"selector": {"etcd_attempt": "9-x"}}}"#,
            r#"{"spec": {"publishNotReadyAddresses": false}}"#,
        ],
    ),
    (
        "poddisruptionbudget/c",
        &[
            r#"{"spec": {"minAvailable": 0}}"#,
            r#"{"spec": {"minAvailable": null, "maxUnavailable": 1}}"#,
            r#"{"metadata": {"labels": null}}"#,
        ],
    ),
];

async fn edited(ns: &TestNamespace) -> anyhow::Result<()> {
    let (client, peer) = (ns.api::<Service>().get("c-client").await?, ns.api::<Service>().get("c").await?);
    let budget = ns.api::<PodDisruptionBudget>().get("c").await?;
    for (object, edits) in EDITS {
        for edit in edits {
            patch(ns, object, edit).await?;
            comes_back(ns, &client).await.with_context(|| format!("{object} after {edit}"))?;
            comes_back(ns, &peer).await.with_context(|| format!("{object} after {edit}"))?;
            comes_back(ns, &budget).await.with_context(|| format!("{object} after {edit}"))?;
        }
        ns.kubectl(&["delete", object]).await?.success()?;
    }
    comes_back(ns, &client).await?;
    comes_back(ns, &peer).await?;
    comes_back(ns, &budget).await
}

/// Waits until a pod has the labels and annotations again that it had. The order is another one, and works as well.
async fn labelled(ns: &TestNamespace, before: &Pod) -> anyhow::Result<()> {
    let own = |pod: &Pod| {
        let mut annotations = pod.annotations().clone();
        let ordered = annotations.remove("etcd.database.coreos.com/launch-order").is_some();
        (pod.labels().clone(), annotations, ordered)
    };
    let wanted: (BTreeMap<_, _>, BTreeMap<_, _>, bool) = own(before);
    let check = |pod: Option<&Pod>| match pod.map(own) {
        Some(now) if now == wanted => Ok(()),
        now => Err(format!("{now:?}")),
    };
    Ok(wait_for(&ns.api(), &before.name_any(), SOON, "to have its labels and annotations", check).await?)
}

#[tokio::test]
async fn what_a_user_deletes_or_edits_comes_back_and_the_members_stay() -> anyhow::Result<()> {
    in_namespace("restored", async |ns| {
        operator(&ns).await?;
        client_pod(&ns).await?;
        ns.apply(CLUSTER).await?;
        running(&ns, "c").await?;
        etcdctl(&ns, "c", &["put", "kept", "yes"]).await?;
        let members = identities(&ns, "c").await?;
        edited(&ns).await?;

        let pod = living(&ns, "c").await?.into_iter().next().context("no member")?;
        let object = format!("pod/{}", pod.name_any());
        for edit in [
            r#"{"metadata": {"labels": {"etcd_cluster": null, "etcd_attempt": "9-x", "team": null}}}"#,
            r#"{"metadata": {"labels": {"app": "theirs", "etcd_node": null}}}"#,
            r#"{"metadata": {"annotations": {"etcd.version": "3.3.27", "note": null}}}"#,
            r#"{"metadata": {"annotations": {"etcd.database.coreos.com/launch-order": "{}", "etcd.version": null}}}"#,
            r#"{"metadata": {"annotations": {"etcd.database.coreos.com/launch-order": null}}}"#,
        ] {
            patch(&ns, &object, edit).await?;
            labelled(&ns, &pod).await.with_context(|| format!("after {edit}"))?;
        }
        // Whoever does it again and again is named, and answered less and less often.
        let again = r#"{"metadata": {"labels": {"team": null}}}"#;
        for _ in 0..5 {
            patch(&ns, &object, again).await?;
            labelled(&ns, &pod).await?;
        }
        // Until it is said: one report may not be written.
        let seen = tokio::select! {
            seen = says(&ns, "c", "Progressing", "ChangeUndone") => seen?,
            ended = patch_on_and_on(&ns, &object, again) => return ended,
        };
        ensure!(seen.message.contains(&pod.name_any()), "{seen:?}");
        labelled(&ns, &pod).await?;

        // The order that came back is one that starts the member on its data.
        kill(&ns, &Ground::here()?, &pod.name_any()).await?;
        restarted_and_ready(&ns, &pod.name_any()).await?;

        // Without its owner it is not ours to touch, and its data is not gone for that.
        let owners = serde_json::json!({"metadata": {"ownerReferences": pod.metadata.owner_references}});
        patch(&ns, &object, r#"{"metadata": {"ownerReferences": null}}"#).await?;
        let seen = says(&ns, "c", "Progressing", "PodDisowned").await?;
        ensure!(seen.message.contains(&pod.name_any()), "{seen:?}");
        patch(&ns, &object, &owners.to_string()).await?;
        let cluster = running(&ns, "c").await?;
        ensure!(cluster.status.and_then(|status| status.phase).as_deref() == Some("Running"), "not running");
        ensure!(identities(&ns, "c").await? == members, "the member was replaced");
        let kept = etcdctl(&ns, "c", &["get", "kept", "--print-value-only"]).await?;
        ensure!(kept == "yes", "{GRAVE} {kept:?}");
        Ok(())
    })
    .await
}
