//! What a cluster is by the word of its members, and not of anybody who looks after it.

use std::{collections::BTreeSet, time::Duration};

use anyhow::{Context as _, ensure};
use api::EtcdCluster;
use etcd_admin::{Connect, Member, MemberList};
use k8s_openapi::api::core::v1::Pod;
use kube::{ResourceExt, api::ListParams};
use testbed::kit::{TestNamespace, audit::Mark, wait_for};
use tokio::time::{Instant, sleep};

use crate::{SOON, running};

/// How long a member may take to answer on a busy machine.
const ANSWER: Duration = Duration::from_secs(30);

/// Waits until a cluster runs, and asks each of its members: they are as many as the spec wants, each knows exactly all of them, and
/// all are of the one cluster that the resource has on record.
pub async fn one_cluster(ns: &TestNamespace, name: &str) -> anyhow::Result<EtcdCluster> {
    let cluster = running(ns, name).await?;
    let size = usize::try_from(cluster.spec.size.unwrap_or_default())?;
    let pods = ns.pods_ready(&format!("etcd_cluster={name}"), size).await?;
    let names: BTreeSet<_> = pods.iter().map(ResourceExt::name_any).collect();
    let (mut answered, mut clusters) = (BTreeSet::new(), BTreeSet::new());
    for pod in &pods {
        let address =
            pod.status.as_ref().and_then(|status| status.pod_ip.as_deref()).context("no address")?;
        let list = members(&format!("http://{address}:2379")).await?;
        let listed: BTreeSet<_> = list.members.iter().filter_map(|member| member.name.clone()).collect();
        ensure!(
            list.members.len() == size && listed == names,
            "{} knows {list:?}, not {names:?}",
            pod.name_any()
        );
        answered.insert(list.answered_by);
        clusters.insert(list.cluster.to_string());
    }
    ensure!(answered.len() == size, "{size} pods, but members {answered:?}");
    let birth =
        cluster.status.as_ref().and_then(|status| status.birth.as_ref()).context("no record of birth")?;
    ensure!(birth.formed, "not formed: {birth:?}");
    let recorded = birth.cluster_id.clone().context("no cluster ID on record")?;
    ensure!(clusters == BTreeSet::from([recorded]), "{clusters:?} is not what {birth:?} says");
    Ok(cluster)
}

/// The pods of a cluster's members that are not on their way out, by name.
pub async fn living(ns: &TestNamespace, cluster: &str) -> anyhow::Result<Vec<Pod>> {
    let labels = ListParams::default().labels(&format!("etcd_cluster={cluster}"));
    let mut pods = ns.api::<Pod>().list(&labels).await?.items;
    pods.retain(|pod| pod.metadata.deletion_timestamp.is_none());
    pods.sort_by_key(ResourceExt::name_any);
    Ok(pods)
}

/// Waits until as many members serve as the spec wants, this one not among them, and etcd lists no other.
pub async fn replaced(ns: &TestNamespace, cluster: &str, gone: &str) -> anyhow::Result<()> {
    let healed = |cluster: Option<&EtcdCluster>| {
        let cluster = cluster.ok_or("there is no such cluster")?;
        let status = cluster.status.clone().unwrap_or_default();
        let ready = status.members.and_then(|members| members.ready).unwrap_or_default();
        let all = i64::try_from(ready.len()).ok() == cluster.spec.size && status.size == cluster.spec.size;
        let well = all && ready.iter().all(|name| name != gone);
        if well { Ok(()) } else { Err(format!("{ready:?} of {:?}", status.size)) }
    };
    let what = format!("to have another member for {gone}");
    Ok(wait_for(&ns.api(), cluster, SOON, &what, healed).await?)
}

/// What a member says of all members, through the quorum. On a busy machine the leader changes at times, and it is asked again.
async fn members(endpoint: &str) -> anyhow::Result<MemberList> {
    let member = Member::new(endpoint, &Connect { deadline: ANSWER, ..Connect::default() })?;
    let begun = Instant::now();
    loop {
        match member.members_linearizable().await {
            Ok(list) => return Ok(list),
            Err(error) if begun.elapsed() > SOON => return Err(error.into()),
            Err(_) => sleep(Duration::from_millis(500)).await,
        }
    }
}

/// No pod was made twice under the same name since then.
pub fn no_member_twice(ns: &TestNamespace, since: Mark) -> anyhow::Result<()> {
    let log = ns.cluster().audit_log()?;
    let created = log.since(since).namespace(ns.name()).resource("pods").verb("create");
    let created = created.that(|entry| entry.code == 201 && entry.user_agent.starts_with("etcd-operator/"));
    let mut names = BTreeSet::new();
    for entry in created.entries()? {
        ensure!(names.insert(entry.name.clone()), "{} was made twice", entry.name);
    }
    ensure!(!names.is_empty(), "the log shows no pod that was made");
    Ok(())
}
