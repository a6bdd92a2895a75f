//! Which pods a cluster's members are, and who of them leads.

use std::{collections::BTreeSet, time::Duration};

use anyhow::{Context as _, ensure};
use etcd_admin::{Connect, Member, Status};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use testbed::kit::TestNamespace;
use tokio::time::{Instant, sleep};

use crate::{SOON, members::living};

/// How long a member may take to answer where another one can be asked instead.
const ANSWER: Duration = Duration::from_secs(3);
/// Between two attempts.
const PAUSE: Duration = Duration::from_millis(500);

/// How often the containers of a pod were restarted.
#[must_use]
pub fn restarts(pod: &Pod) -> i32 {
    let containers = pod.status.iter().flat_map(|status| status.container_statuses.iter().flatten());
    containers.map(|container| container.restart_count).sum()
}

/// The node of a pod.
#[must_use]
pub fn node_of(pod: &Pod) -> Option<&str> {
    pod.spec.as_ref()?.node_name.as_deref()
}

/// The way to the member of a pod.
pub fn member(pod: &Pod) -> anyhow::Result<Member> {
    let address = pod.status.as_ref().and_then(|status| status.pod_ip.as_deref()).context("no address")?;
    let connect = Connect { deadline: ANSWER, ..Connect::default() };
    Ok(Member::new(&format!("http://{address}:2379"), &connect)?)
}

/// The members' pods: their names, and which pods of these names.
pub async fn which(ns: &TestNamespace, cluster: &str) -> anyhow::Result<BTreeSet<(String, String)>> {
    let pods = living(ns, cluster).await?;
    Ok(pods.iter().map(|pod| (pod.name_any(), pod.uid().unwrap_or_default())).collect())
}

/// The pod of the member that leads by its own word, as soon as it is another one than this.
pub async fn leader(ns: &TestNamespace, cluster: &str, other_than: Option<&str>) -> anyhow::Result<Pod> {
    let begun = Instant::now();
    loop {
        for pod in living(ns, cluster).await? {
            if Some(pod.name_any().as_str()) != other_than
                && let Ok(Status { member, leader, .. }) = member(&pod)?.status().await
                && leader == Some(member)
            {
                return Ok(pod);
            }
        }
        ensure!(begun.elapsed() < SOON, "no member of {cluster} leads, other than {other_than:?}");
        sleep(PAUSE).await;
    }
}

/// Makes the member of this pod the leader.
pub async fn let_lead(ns: &TestNamespace, cluster: &str, pod: &Pod) -> anyhow::Result<()> {
    let begun = Instant::now();
    let id = member(pod)?.status().await?.member;
    loop {
        let leads = leader(ns, cluster, None).await?;
        if leads.uid() == pod.uid() {
            return Ok(());
        }
        // An election may come in between; then somebody else is asked.
        let moved = member(&leads)?.move_leader(id).await;
        ensure!(begun.elapsed() < SOON, "{} does not lead: {moved:?}", pod.name_any());
        sleep(PAUSE).await;
    }
}
