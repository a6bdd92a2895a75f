//! What the end-to-end tests share: the operator in a namespace, clusters in it, a client, and the seeds' table.

pub mod client;
pub mod members;
pub mod pods;
pub mod policy;
pub mod printed;
pub mod seeds;

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::Context as _;
use api::EtcdCluster;
use k8s_openapi::api::core::v1::{Event, Pod};
use kube::Api;
pub use testbed::kit::operator::{
    crds, operator, operator_available, operator_beside_people, operator_replicas, operator_with,
};
use testbed::kit::{self, Exec, Output, TestNamespace, wait_for, wait_for_all};

/// Long enough for a busy machine, short enough to be waited for.
pub const SOON: Duration = Duration::from_mins(5);

/// How long a test may take that changes members again and again: longer than others, and shorter than what ends them all.
pub const LONG: Duration = Duration::from_mins(15);

/// What tests run etcdctl in: a shell, a few tools, etcd and etcdctl of today.
pub const CLIENT_IMAGE: &str = testbed::images::CLIENT;

/// A file of the repository.
pub fn file(path: &str) -> anyhow::Result<String> {
    let path = repository().join(path);
    fs::read_to_string(&path).with_context(|| format!("{} cannot be read", path.display()))
}

/// The repository's root.
#[must_use]
pub fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The manifest of a cluster.
#[must_use]
pub fn etcd_cluster(name: &str, size: u8, version: &str) -> String {
    format!(
        "apiVersion: etcd.database.coreos.com/v1beta2\nkind: EtcdCluster\nmetadata: {{name: {name}}}\n\
         spec: {{size: {size}, version: \"{version}\"}}\n"
    )
}

/// Waits until a cluster runs with all its members, by its own word.
pub async fn running(ns: &TestNamespace, name: &str) -> anyhow::Result<EtcdCluster> {
    let clusters: Api<EtcdCluster> = ns.api();
    Ok(wait_for(&clusters, name, SOON, "to run with all its members", is_running).await?)
}

/// Whether a cluster runs with all its members, by its own word.
pub fn is_running(cluster: Option<&EtcdCluster>) -> Result<EtcdCluster, String> {
    let cluster = cluster.ok_or("there is no such cluster")?;
    let value = serde_json::to_value(&cluster.status).unwrap_or_default();
    let ready = value.pointer("/members/ready").and_then(|ready| ready.as_array()).map_or(0, Vec::len);
    let size = cluster.spec.size.map_or(0, |size| usize::try_from(size).unwrap_or(0));
    let phase = value.pointer("/phase").and_then(|phase| phase.as_str()).unwrap_or("no phase");
    if phase == "Running"
        && ready == size
        && condition(cluster, "Available").is_some_and(|it| it.status == "True")
    {
        Ok(cluster.clone())
    } else {
        Err(format!("{phase}, {ready} of {size} ready: {value}"))
    }
}

/// A condition as the status has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// The word for machines.
    pub reason: String,
    /// The sentence for people.
    pub message: String,
}

/// A condition of a cluster, by its type.
#[must_use]
pub fn condition(cluster: &EtcdCluster, kind: &str) -> Option<Seen> {
    let status = serde_json::to_value(&cluster.status).ok()?;
    let conditions = status.pointer("/conditions")?.as_array()?.clone();
    let found =
        conditions.into_iter().find(|condition| condition.get("type").is_some_and(|it| it == kind))?;
    let text = |key: &str| found.get(key).and_then(|value| value.as_str()).unwrap_or_default().to_owned();
    Some(Seen { status: text("status"), reason: text("reason"), message: text("message") })
}

/// Waits until a condition has this reason, and returns it. What it says is told in the first of its reasons.
pub async fn says(ns: &TestNamespace, cluster: &str, kind: &str, reason: &str) -> anyhow::Result<Seen> {
    says_that(ns, cluster, kind, &format!("to say {reason} in {kind}"), |seen| seen.reason == reason).await
}

/// Waits until a condition is like this, and returns it. On a busy machine it says other things in between.
pub async fn says_that(
    ns: &TestNamespace,
    cluster: &str,
    kind: &str,
    what: &str,
    like: impl Fn(&Seen) -> bool + Send + Sync,
) -> anyhow::Result<Seen> {
    let check = |cluster: Option<&EtcdCluster>| {
        let seen = condition(cluster.ok_or("there is no such cluster")?, kind);
        seen.clone().filter(|seen| like(seen)).ok_or_else(|| format!("{seen:?}"))
    };
    Ok(wait_for(&ns.api(), cluster, SOON, what, check).await?)
}

/// The operator's pod, if there is one and it runs.
pub async fn operator_pod(ns: &TestNamespace) -> anyhow::Result<Pod> {
    let pods = ns.pods_ready(testbed::kit::operator::LABELS, 1).await?;
    pods.into_iter().next().context("there is no operator")
}

/// A pod to run etcdctl in, as unprivileged as a restricted namespace wants it.
pub async fn client_pod(ns: &TestNamespace) -> anyhow::Result<()> {
    ns.apply(&format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: client}}\nspec:\n  terminationGracePeriodSeconds: 0\n  \
         securityContext: {{runAsNonRoot: true, runAsUser: 1000, seccompProfile: {{type: RuntimeDefault}}}}\n  \
         containers:\n  - name: client\n    image: {CLIENT_IMAGE}\n    command: [/bin/sh, -c, 'sleep 3600']\n    \
         securityContext: {{allowPrivilegeEscalation: false, capabilities: {{drop: [ALL]}}}}\n"
    ))
    .await?;
    ns.pod_ready("client").await?;
    Ok(())
}

/// Waits until an Event with exactly this text has been told.
pub async fn told(ns: &TestNamespace, reason: &str, message: &str) -> anyhow::Result<()> {
    let find = |events: &[Event]| {
        let found = events.iter().any(|event| {
            event.reason.as_deref() == Some(reason)
                && event.message.as_deref() == Some(message)
                && event.type_.as_deref() == Some("Normal")
        });
        if found { Ok(()) } else { Err(format!("{} others", events.len())) }
    };
    let what = format!("to have {reason:?} {message:?} among them");
    Ok(wait_for_all(&ns.api::<Event>(), "", SOON, &what, find).await?)
}

/// Tries again and again, up to [`SOON`]; what went wrong last is told then.
pub async fn until_it_succeeds<T>(attempt: impl AsyncFn() -> anyhow::Result<T>) -> anyhow::Result<T> {
    kit::until_it_succeeds(SOON, attempt).await
}

/// What etcdctl prints in the client pod, as soon as it succeeds: a busy etcd is late, has elections, and says so. Only for what may be said
/// twice.
pub async fn etcdctl(ns: &TestNamespace, cluster: &str, arguments: &[&str]) -> anyhow::Result<String> {
    until_it_succeeds(async || Ok(etcdctl_once(ns, cluster, arguments).await?.success()?)).await
}

/// Runs etcdctl once in the client pod, against the client Service of a cluster.
pub async fn etcdctl_once(ns: &TestNamespace, cluster: &str, arguments: &[&str]) -> anyhow::Result<Output> {
    let endpoint = format!("http://{cluster}-client:2379");
    let command: Vec<_> =
        ["etcdctl", "--endpoints", &endpoint, "--dial-timeout=30s", "--command-timeout=30s"]
            .into_iter()
            .chain(arguments.iter().copied())
            .collect();
    Ok(ns.exec_with("client", &command, Exec { deadline: SOON, ..Exec::default() }).await?)
}
