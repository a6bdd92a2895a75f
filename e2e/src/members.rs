//! What a cluster is by the word of its members, and not of anybody who looks after it.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use anyhow::{Context as _, bail, ensure};
use api::EtcdCluster;
use etcd_admin::{Connect, Member, MemberId, Status};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use testbed::{
    faults::Ground,
    kit::{GRAVE, TestNamespace, audit::Mark, check, wait_for},
};

use crate::{
    SOON, etcdctl_once,
    pods::{is_started, living, restarts},
    running, until_it_succeeds,
};

/// How long a member may take to answer on a busy machine.
const ANSWER: Duration = Duration::from_secs(30);
/// How long it may take where another one can be asked instead.
const SHORT: Duration = Duration::from_secs(3);

/// Waits until a cluster runs and each of its members says so: they are as many as the spec wants, each knows exactly all of them, and
/// all are of the one cluster that the resource has on record. While members come and go, as many as wanted may be ready in passing.
pub async fn one_cluster(ns: &TestNamespace, name: &str) -> anyhow::Result<EtcdCluster> {
    until_it_succeeds(async || all_agree(ns, name).await).await
}

async fn all_agree(ns: &TestNamespace, name: &str) -> anyhow::Result<EtcdCluster> {
    let cluster = running(ns, name).await?;
    let size = usize::try_from(cluster.spec.size.unwrap_or_default())?;
    let pods = ns.pods_ready(&format!("etcd_cluster={name}"), size).await?;
    let names: BTreeSet<_> = pods.iter().map(ResourceExt::name_any).collect();
    let (mut answered, mut clusters) = (BTreeSet::new(), BTreeSet::new());
    for pod in &pods {
        // Through the quorum. If it fails, all are looked at anew: whom it concerned may be gone by then.
        let list = member(pod)?.members_linearizable().await?;
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
    ensure!(clusters == BTreeSet::from([recorded]), "{GRAVE} {clusters:?} is not what {birth:?} says");
    Ok(cluster)
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

/// Waits until the member in this pod was restarted, and serves.
pub async fn restarted_and_ready(ns: &TestNamespace, pod: &str) -> anyhow::Result<()> {
    let check = |pod: Option<&Pod>| match pod {
        Some(it) if restarts(it) > 0 => check::pod_ready(Some(it)).map(drop),
        Some(it) => Err(format!("{} restarts", restarts(it))),
        None => Err("it is gone".to_owned()),
    };
    Ok(wait_for(&ns.api::<Pod>(), pod, SOON, "to be restarted and Ready", check).await?)
}

/// Kills the member of a pod, as soon as it runs: it may just be between two runs.
pub async fn kill(ns: &TestNamespace, ground: &Ground, pod: &str) -> anyhow::Result<()> {
    until_it_succeeds(async || {
        ground.place_of(ns.api::<Pod>().get(pod).await?)?.kill("etcd")?;
        Ok(())
    })
    .await
}

/// The way to the member of a pod.
pub fn member(pod: &Pod) -> anyhow::Result<Member> {
    let address = pod.status.as_ref().and_then(|status| status.pod_ip.as_deref()).context("no address")?;
    let connect = Connect { deadline: ANSWER, ..Connect::default() };
    Ok(Member::new(&format!("http://{address}:2379"), &connect)?)
}

/// What the members say of themselves, with their pods; nothing where one does not answer.
async fn statuses(ns: &TestNamespace, cluster: &str) -> anyhow::Result<Vec<(Pod, Option<Status>)>> {
    let mut statuses = Vec::new();
    for pod in living(ns, cluster).await? {
        let status = match member(&pod) {
            Ok(member) => member.within(SHORT).status().await.ok(),
            Err(_) => None,
        };
        statuses.push((pod, status));
    }
    Ok(statuses)
}

/// The members' IDs, by their pods' names: of all whose etcd has been started, and so as soon as each of these answers.
pub async fn identities(ns: &TestNamespace, cluster: &str) -> anyhow::Result<BTreeMap<String, MemberId>> {
    until_it_succeeds(async || {
        let mut ids = BTreeMap::new();
        for (pod, status) in statuses(ns, cluster).await? {
            match status {
                Some(status) => drop(ids.insert(pod.name_any(), status.member)),
                None => ensure!(!is_started(&pod), "{} does not answer", pod.name_any()),
            }
        }
        ensure!(!ids.is_empty(), "no member of {cluster} answers");
        Ok(ids)
    })
    .await
}

/// The member that leads by its own word.
#[derive(Debug)]
pub struct Leader {
    /// Its pod.
    pub pod: Pod,
    /// The raft term in which it does.
    pub term: u64,
}

/// Who leads in the newest term, as soon as it is another one than this.
pub async fn leader(ns: &TestNamespace, cluster: &str, other_than: Option<&str>) -> anyhow::Result<Leader> {
    until_it_succeeds(async || {
        let leads = |(pod, status): (Pod, Option<Status>)| {
            let status = status.filter(|status| status.leader == Some(status.member))?;
            Some(Leader { pod, term: status.term.0 })
        };
        let newest = statuses(ns, cluster).await?.into_iter().filter_map(leads).max_by_key(|it| it.term);
        newest
            .filter(|leader| Some(leader.pod.name_any().as_str()) != other_than)
            .with_context(|| format!("no member of {cluster} leads, other than {other_than:?}"))
    })
    .await
}

/// Makes the member of this pod the leader.
pub async fn let_lead(ns: &TestNamespace, cluster: &str, pod: &Pod) -> anyhow::Result<()> {
    until_it_succeeds(async || {
        let id = member(pod)?.status().await?.member;
        let leads = leader(ns, cluster, None).await?.pod;
        if leads.uid() == pod.uid() {
            return Ok(());
        }
        // An election may come in between; then somebody else is asked.
        let moved = member(&leads)?.move_leader(id).await;
        bail!("{} does not lead: {moved:?}", pod.name_any())
    })
    .await
}

/// A change of the members that a person makes with etcdctl.
#[derive(Clone, Copy, Debug)]
pub enum ByHand<'a> {
    /// Adds one.
    Add {
        /// Under which name; etcd itself does not take it up.
        name: &'a str,
        /// Where it will be reached.
        peer_url: &'a str,
        /// Whether it has no vote at first.
        learner: bool,
    },
    /// Removes one.
    Remove(MemberId),
}

/// Changes the members with etcdctl, and says whose ID that concerned. etcd refuses that until its voters have been connected for 5 s, and
/// an answer goes missing where the one that gives it is removed, or an election comes: as a person would, one looks, and does it again.
pub async fn by_hand(ns: &TestNamespace, cluster: &str, change: ByHand<'_>) -> anyhow::Result<MemberId> {
    let (id, url);
    let arguments = match change {
        ByHand::Add { name, peer_url, learner } => {
            url = format!("--peer-urls={peer_url}");
            let learner = learner.then_some("--learner");
            ["member", "add", name, &url].into_iter().chain(learner).collect::<Vec<_>>()
        }
        ByHand::Remove(member) => {
            id = member.to_string();
            vec!["member", "remove", &id]
        }
    };
    until_it_succeeds(async || {
        let said = etcdctl_once(ns, cluster, &arguments).await;
        done(ns, cluster, change).await.with_context(|| format!("{change:?} is not done: {said:?}"))
    })
    .await
}

/// Whom a change concerned, if a quorum says that it happened.
async fn done(ns: &TestNamespace, cluster: &str, change: ByHand<'_>) -> Option<MemberId> {
    let mut lists = Vec::new();
    for pod in living(ns, cluster).await.ok()? {
        if let Ok(member) = member(&pod) {
            lists.extend(member.within(SHORT).members_linearizable().await);
        }
    }
    let mut listed = lists.first()?.members.iter();
    match change {
        ByHand::Add { peer_url, .. } => {
            listed.find(|member| member.peer_urls.iter().any(|url| url == peer_url)).map(|member| member.id)
        }
        ByHand::Remove(id) => listed.all(|member| member.id != id).then_some(id),
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
