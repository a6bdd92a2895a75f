//! What is wrong is said in a condition, in a sentence with the object's name; when the cause is corrected, it heals by itself.

use std::time::{Duration, Instant};

use anyhow::{bail, ensure};
use api::EtcdCluster;
use e2e::{
    CLIENT_IMAGE, SOON, Seen, condition, etcd_cluster, operator,
    policy::{self, Policy},
    running, until_it_succeeds,
};
use k8s_openapi::api::core::v1::{LimitRange, Pod, ResourceQuota, Service};
use kube::{Api, ResourceExt as _, api::ListParams};
use testbed::kit::{TestNamespace, in_namespace, wait_for};
use tokio::time::sleep;

/// Waits until a condition other than `Available` has this reason, and returns it.
pub(crate) async fn said(ns: &TestNamespace, cluster: &str, reason: &str) -> anyhow::Result<Seen> {
    let clusters: Api<EtcdCluster> = ns.api();
    let check = |cluster: Option<&EtcdCluster>| {
        let cluster = cluster.ok_or("there is no such cluster")?;
        let seen: Vec<_> = ["Progressing", "SpecAccepted", "FieldsIgnored"]
            .iter()
            .filter_map(|kind| condition(cluster, kind))
            .collect();
        seen.iter().find(|seen| seen.reason == reason).cloned().ok_or_else(|| format!("{seen:?}"))
    };
    Ok(wait_for(&clusters, cluster, SOON, &format!("to say {reason}"), check).await?)
}

async fn pods_of(ns: &TestNamespace, cluster: &str) -> anyhow::Result<usize> {
    let labels = ListParams::default().labels(&format!("etcd_cluster={cluster}"));
    Ok(ns.api::<Pod>().list(&labels).await?.items.len())
}

#[tokio::test]
async fn a_squatted_service_is_named_and_left_alone_until_it_is_gone() -> anyhow::Result<()> {
    in_namespace("squatted_service", async |ns| {
        operator(&ns).await?;
        ns.apply("{apiVersion: v1, kind: Service, metadata: {name: c-client}, spec: {ports: [{port: 80}]}}")
            .await?;
        let before = ns.api::<Service>().get("c-client").await?;
        ns.apply(&etcd_cluster("c", 1, "3.6.14")).await?;
        let seen = said(&ns, "c", "NameTaken").await?;
        ensure!(seen.message.contains("c-client"), "{seen:?}");
        let after = ns.api::<Service>().get("c-client").await?;
        ensure!(after.metadata.resource_version == before.metadata.resource_version, "it was touched");
        ns.remove::<Service>("c-client").await?;
        running(&ns, "c").await?;
        Ok(())
    })
    .await
}

#[tokio::test]
async fn an_image_that_is_not_there_is_named_and_corrected_by_the_spec() -> anyhow::Result<()> {
    in_namespace("image_missing", async |ns| {
        operator(&ns).await?;
        ns.apply(&etcd_cluster("c", 1, "3.6.13")).await?;
        let seen = said(&ns, "c", "ImagePullFailing").await?;
        ensure!(seen.message.contains("quay.io/coreos/etcd:v3.6.13"), "{seen:?}");
        ns.apply(&etcd_cluster("c", 1, "3.6.14")).await?;
        running(&ns, "c").await?;
        Ok(())
    })
    .await
}

/// Refuses a pod that asks for nothing, such as a member's, and takes one that asks for something.
const QUOTA: &str = "{apiVersion: v1, kind: ResourceQuota, metadata: {name: few}, spec: {scopes: [BestEffort], hard: {pods: '0'}}}";

/// A pod that asks for nothing, and would be taken otherwise.
const ONE_MORE: &str = "{apiVersion: v1, kind: Pod, metadata: {name: one-more}, spec: {
  securityContext: {runAsNonRoot: true, runAsUser: 1000, seccompProfile: {type: RuntimeDefault}},
  containers: [{name: x, image: x, securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}}]}}";

/// Has such a quota, and waits until it is in force.
pub(crate) async fn no_room(ns: &TestNamespace) -> anyhow::Result<()> {
    ns.apply(QUOTA).await?;
    until_it_succeeds(async || {
        let create = ["create", "-f", "-", "--dry-run=server"];
        let said = ns.kubectl_with(&create, ONE_MORE.as_bytes(), SOON).await?;
        ensure!(said.stderr.contains("exceeded quota: few"), "{said}");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_quota_and_a_squatter_that_keep_a_member_from_being_made_are_named() -> anyhow::Result<()> {
    in_namespace("quota_and_squatter", async |ns| {
        operator(&ns).await?;
        no_room(&ns).await?;
        ns.apply(&etcd_cluster("c", 1, "3.6.14")).await?;
        let seen = said(&ns, "c", "QuotaExceeded").await?;
        ensure!(seen.message.contains("exceeded quota: few"), "{seen:?}");

        // Only now is the member's name known, which somebody else takes.
        let member = seen.message.split_whitespace().find(|word| word.starts_with("c-")).unwrap_or_default();
        ns.apply(&squatter(member)).await?;
        // Once it is placed: Kubernetes itself adds the labels of its node's zone to it then.
        let before = ns.pod_ready(member).await?;
        ns.remove::<ResourceQuota>("few").await?;
        let seen = said(&ns, "c", "NameTaken").await?;
        ensure!(seen.message.contains(&format!("Pod {member} exists already")), "{seen:?}");
        let after = ns.api::<Pod>().get(member).await?;
        ensure!(after.metadata.labels == before.metadata.labels, "it was touched");
        ensure!(after.metadata.owner_references.is_none(), "it was taken over");

        ns.remove::<Pod>(member).await?;
        running(&ns, "c").await?;
        Ok(())
    })
    .await
}

/// Refuses every member, in its own words.
const NO_DATABASES: &str = r#"  validations:
  - {expression: "!('etcd_cluster' in object.metadata.?labels.orValue({}))", message: no databases here}"#;

/// Waits until these words are in what the cluster `c` is waiting for.
async fn says_in_words(ns: &TestNamespace, words: &str) -> anyhow::Result<Seen> {
    let says = |cluster: Option<&EtcdCluster>| {
        let seen = cluster.and_then(|cluster| condition(cluster, "Progressing"));
        seen.clone().filter(|seen| seen.message.contains(words)).ok_or_else(|| format!("{seen:?}"))
    };
    Ok(wait_for(&ns.api::<EtcdCluster>(), "c", SOON, &format!("to say {words:?}"), says).await?)
}

/// A policy is in force a moment after it was made.
async fn in_force(ns: &TestNamespace) -> anyhow::Result<()> {
    let refused = squatter("probe").replace("{name: probe}", "{name: probe, labels: {etcd_cluster: none}}");
    let begun = Instant::now();
    while ns.dry_run(&refused).await.is_ok() {
        ensure!(begun.elapsed() < SOON, "nobody refuses our pods");
        sleep(Duration::from_millis(200)).await;
    }
    Ok(())
}

#[tokio::test]
async fn a_limit_and_a_policy_that_refuse_a_member_are_named_and_it_is_made_when_they_are_gone()
-> anyhow::Result<()> {
    in_namespace("refused", async |ns| {
        operator(&ns).await?;
        let policy = policy::apply(&ns, Policy::Refuses(NO_DATABASES)).await?;
        in_force(&ns).await?;
        let limit = "{apiVersion: v1, kind: LimitRange, metadata: {name: small}, \
                     spec: {limits: [{type: Container, max: {memory: 1Gi}}]}}";
        ns.apply(limit).await?;
        let large = "spec: {pod: {resources: {requests: {memory: 2Gi}, limits: {memory: 2Gi}}}, ";
        ns.apply(&etcd_cluster("c", 1, "3.6.14").replace("spec: {", large)).await?;
        let seen = says_in_words(&ns, "maximum memory usage per Container is 1Gi").await?;
        ensure!(pods_of(&ns, "c").await? == 0, "there is a pod, and {seen:?}");
        ns.remove::<LimitRange>("small").await?;
        says_in_words(&ns, "no databases here").await?;
        policy::remove(&ns, &policy).await?;
        running(&ns, "c").await?;
        Ok(())
    })
    .await
}

fn squatter(name: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}}}\nspec:\n  terminationGracePeriodSeconds: 0\n  \
         securityContext: {{runAsNonRoot: true, runAsUser: 1000, seccompProfile: {{type: RuntimeDefault}}}}\n  \
         containers:\n  - name: idle\n    image: '{CLIENT_IMAGE}'\n    command: [/bin/sh, -c, 'sleep 3600']\n    \
         resources: {{requests: {{cpu: 1m}}}}\n    \
         securityContext: {{allowPrivilegeEscalation: false, capabilities: {{drop: [ALL]}}}}\n"
    )
}

#[tokio::test]
async fn a_member_that_fits_on_no_node_is_named_and_placed_when_the_spec_is_corrected() -> anyhow::Result<()>
{
    in_namespace("unschedulable", async |ns| {
        operator(&ns).await?;
        ns.apply(
            "apiVersion: etcd.database.coreos.com/v1beta2\nkind: EtcdCluster\nmetadata: {name: c}\n\
             spec: {size: 1, version: 3.6.14, pod: {nodeSelector: {disk: of-gold}}}\n",
        )
        .await?;
        let seen = said(&ns, "c", "WaitingForPodScheduled").await?;
        let pods = ns.api::<Pod>().list(&ListParams::default().labels("etcd_cluster=c")).await?.items;
        let [pod] = pods.as_slice() else { bail!("{} pods", pods.len()) };
        ensure!(
            seen.message.contains(&pod.name_any()) && seen.message.contains("node affinity/selector"),
            "{seen:?}"
        );
        ns.apply(&etcd_cluster("c", 1, "3.6.14")).await?;
        running(&ns, "c").await?;
        Ok(())
    })
    .await
}

#[tokio::test]
async fn what_is_not_there_yet_is_waited_for_and_not_gone_without() -> anyhow::Result<()> {
    in_namespace("not_yet", async |ns| {
        operator(&ns).await?;
        let tls = "TLS: {static: {member: {peerSecret: p, serverSecret: s}, operatorSecret: o}}";
        let claim = "pod: {persistentVolumeClaimSpec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}";
        for (name, field, path) in [("tls", tls, "spec.TLS"), ("claim", claim, "spec.pod.persistentVolumeClaimSpec")] {
            ns.apply(&with_field(name, field)).await?;
            let seen = said(&ns, name, "NotYetSupported").await?;
            ensure!(seen.message.contains(path), "{seen:?}");
            ensure!(pods_of(&ns, name).await? == 0, "a pod was made without {path}");
        }
        Ok(())
    })
    .await
}

/// A cluster of one with one more field in its spec.
fn with_field(name: &str, field: &str) -> String {
    etcd_cluster(name, 1, "3.6.14").replace("size: 1,", &format!("size: 1, {field},"))
}

#[tokio::test]
async fn a_field_that_does_nothing_is_named_and_the_cluster_runs() -> anyhow::Result<()> {
    in_namespace("without_effect", async |ns| {
        operator(&ns).await?;
        ns.apply(&with_field("c", "pod: {busyboxImage: 'busybox:1.28'}")).await?;
        let seen = said(&ns, "c", "FieldsWithoutEffect").await?;
        ensure!(seen.message.contains("spec.pod.busyboxImage"), "{seen:?}");
        running(&ns, "c").await?;
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_release_that_can_lose_data_is_refused_by_name_and_another_one_heals_it() -> anyhow::Result<()> {
    in_namespace("bad_release", async |ns| {
        operator(&ns).await?;
        ns.apply(&etcd_cluster("c", 1, "3.5.0")).await?;
        let seen = said(&ns, "c", "InvalidSpec").await?;
        ensure!(seen.message.contains("3.5.0"), "{seen:?}");
        ensure!(pods_of(&ns, "c").await? == 0, "it was started");
        // As the book patches it, without quotes.
        let patch = r#"[{"op": "replace", "path": "/spec/version", "value":3.6.14}]"#;
        ns.kubectl(&["patch", "etcdcluster", "c", "--type=json", "-p", patch]).await?.success()?;
        running(&ns, "c").await?;
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_resource_that_was_used_before_is_not_started_as_new() -> anyhow::Result<()> {
    in_namespace("used_before", async |ns| {
        operator(&ns).await?;
        e2e::operator_replicas(&ns, 0).await?;
        ns.apply(&etcd_cluster("c", 1, "3.6.14")).await?;
        ns.kubectl(&[
            "patch",
            "etcdcluster",
            "c",
            "--subresource=status",
            "--type=merge",
            "-p",
            r#"{"status":{"phase":"Running"}}"#,
        ])
        .await?
        .success()?;
        e2e::operator_replicas(&ns, 1).await?;
        said(&ns, "c", "AdoptionNeeded").await?;
        ensure!(pods_of(&ns, "c").await? == 0, "a pod was made");
        Ok(())
    })
    .await
}
