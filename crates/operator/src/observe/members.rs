//! OBSERVE's second half: what every member's etcd says, asked in parallel over connections that are kept.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    time::Duration,
};

use api::EtcdClusterSpec;
use etcd_admin::{AlarmKind, Connect, Error, Member, MemberList, Role, Status};
use futures::future::join_all;
use launch::{EtcdVersion, MemberName, Minor};
use planner::{
    Alarm, Answer, ClusterId, ContainerState, ListedMember, MemberId, Observed, SeenMember, SeenPod,
};
use tokio::time::{Instant, timeout};

use crate::{
    memory::Memory,
    silence::{Hearsay, Run, Silent},
};

/// How long a member may take to answer.
const PATIENCE: Duration = Duration::from_secs(2);
/// How long it may take while the cluster has not formed: without a quorum a read would wait in vain, and the pod's next event is near.
const PATIENCE_FORMING: Duration = Duration::from_millis(500);
/// A member list longer than this is no list of ours, and nothing is read from it: who is in a part of it says nothing of who is not.
const MAX_LISTED: usize = 64;

/// What the members said, and over which connections.
pub(super) struct Heard {
    answers: Vec<(MemberName, Result<Answer, String>)>,
    connections: BTreeMap<String, Member>,
}

impl Heard {
    /// The host names, up to the first dot, of all members that anybody lists.
    pub(super) fn listed_hosts(&self) -> BTreeSet<String> {
        let answers = self.answers.iter().filter_map(|(_, answer)| answer.as_ref().ok());
        let urls = answers.flat_map(|answer| &answer.members).flat_map(|member| &member.peer_urls);
        let hosts =
            urls.filter_map(|url| url.split_once("://")).filter_map(|(_, host)| host.split('.').next());
        hosts.map(str::to_owned).collect()
    }

    /// Writes down who said what, and for how long each has been silent or has come no further.
    pub(super) fn remember(self, observed: &mut Observed, memory: &mut Memory) {
        let addresses: BTreeSet<String> = self.connections.keys().cloned().collect();
        memory.connections.extend(self.connections);
        let mut answers: BTreeMap<MemberName, Result<Answer, String>> = self.answers.into_iter().collect();
        let pods: BTreeMap<MemberName, (Run, bool)> = observed
            .own_pods()
            .filter_map(|pod| Some((pod.name.parse().ok()?, (run(pod), pod.is_ready()))))
            .collect();
        // The pull of another image that we asked for is no silence, however long it takes.
        let pulls = |pod: &&SeenPod| pod.is_relaunching() && pod.is_down();
        let pulling: BTreeSet<MemberName> =
            observed.own_pods().filter(pulls).filter_map(|pod| pod.name.parse().ok()).collect();
        memory.keep_members(|name| pods.contains_key(name), &addresses);
        observed.members = pods
            .keys()
            .map(|name| {
                let answer = answers.remove(name);
                let answer = answer.unwrap_or_else(|| Err("its container does not run".to_owned()));
                let zero = Duration::ZERO;
                let unknown = |why| SeenMember::Unknown { why, silent_for: zero, gone_for: zero };
                (name.clone(), answer.map_or_else(unknown, SeenMember::Known))
            })
            .collect();
        let now = Instant::now();
        let list = planner::member_list(observed);
        let unfinished = list.map(|list| {
            unfinished(&observed.members, list, |name| pods.get(name).is_some_and(|(_, ready)| *ready))
        });
        let formed = observed.resource.birth().is_some_and(|birth| birth.formed);
        let leader = list.and_then(|list| list.members.iter().find(|member| Some(member.id) == list.leader));
        let hearsay = |name: &MemberName, ready: bool| match leader {
            _ if ready => Hearsay::Alive,
            _ if pulling.contains(name) => Hearsay::Nothing,
            Some(leader) if formed && leader.is_in(name.as_str()) => Hearsay::Alive,
            // Before there is a cluster, nobody has a quorum, and each is missed.
            _ if unfinished.is_some() || !formed => Hearsay::Missing,
            _ => Hearsay::Nothing,
        };
        let silences: BTreeMap<MemberName, Silent> = pods
            .iter()
            .filter_map(|(name, (run, ready))| match observed.members.get(name)? {
                SeenMember::Known(_) => {
                    memory.silences.heard(name, *run, now);
                    None
                }
                SeenMember::Unknown { .. } => {
                    Some((name.clone(), memory.silences.silent(name, *run, hearsay(name, *ready), now)))
                }
            })
            .collect();
        observed.stalled = memory.stalled_for(unfinished.as_ref(), now);
        for (name, silent) in silences {
            if let Some(SeenMember::Unknown { silent_for, gone_for, .. }) = observed.members.get_mut(&name) {
                (*silent_for, *gone_for) = (silent.silent_for, silent.gone_for);
            }
        }
    }
}

/// The listed members that are no voters yet, have never started, or reach neither the quorum that others read through nor clients; each
/// with how far it has come.
fn unfinished(
    members: &BTreeMap<MemberName, SeenMember>,
    list: &Answer,
    is_ready: impl Fn(&MemberName) -> bool,
) -> BTreeMap<MemberId, (ListedMember, u64)> {
    let answers = || members.values().filter_map(SeenMember::answer);
    let cut_off = |id: MemberId| {
        let is_cut_off = |answer: &Answer| answer.member_id == id && !answer.linearizable;
        members.iter().any(|(name, seen)| seen.answer().is_some_and(is_cut_off) && !is_ready(name))
    };
    list.members
        .iter()
        .filter(|member| member.learner || member.name.is_none() || cut_off(member.id))
        .map(|member| {
            let own = answers().find(|answer| answer.member_id == member.id);
            (member.id, (member.clone(), own.map_or(0, |own| own.applied.unwrap_or(own.raft_index))))
        })
        .collect()
}

/// Which run of its etcd a pod is in.
fn run(pod: &SeenPod) -> Run {
    pod.etcd().filter(|etcd| etcd.state == ContainerState::Running).map(|etcd| etcd.restarts)
}

/// The way to each member that can be asked, by its pod's name.
#[must_use]
pub fn handles(observed: &Observed, kept: &BTreeMap<String, Member>) -> BTreeMap<MemberName, Member> {
    observed
        .own_pods()
        .filter_map(whom_to_ask)
        .filter_map(|(name, endpoint, _)| kept.get(&endpoint).map(|member| (name, member.clone())))
        .collect()
}

/// Asks every member whose pod runs.
pub(super) async fn ask(
    observed: &Observed,
    spec: &EtcdClusterSpec,
    kept: &BTreeMap<String, Member>,
    connect: &Connect,
) -> Heard {
    let formed = observed.resource.birth().is_some_and(|birth| birth.formed);
    let connect = Connect { deadline: PATIENCE, ..connect.clone() };
    let mut connections = BTreeMap::new();
    let mut asked = Vec::new();
    for (name, endpoint, ready) in observed.own_pods().filter_map(whom_to_ask) {
        let member = match kept.get(&endpoint) {
            Some(member) => Ok(member.clone()),
            None => Member::new(&endpoint, &connect).map_err(|error| error.to_string()),
        };
        if let Ok(member) = &member {
            connections.insert(endpoint, member.clone());
        }
        asked.push((name, member, if formed || ready { PATIENCE } else { PATIENCE_FORMING }));
    }
    let wanted: Option<EtcdVersion> = spec.version().ok().and_then(|version| version.parse().ok());
    let answers = asked.iter().map(async |(name, member, patience)| {
        let answer = match member {
            Ok(member) => ask_one(member, *patience, wanted).await,
            Err(why) => Err(why.clone()),
        };
        (name.clone(), answer)
    });
    let answers = join_all(answers).await;
    let through = whom_to_move(&answers)
        .filter(|_| !spec.is_paused())
        .and_then(|through| asked.iter().find(|(name, ..)| name == through));
    if let Some((_, Ok(member), _)) = through {
        // An entry in etcd's log that changes nothing. That it was written is enough, whatever the answer.
        let _ = member.within(PATIENCE).alarms().await;
    }
    Heard { answers, connections }
}

/// Through whom etcd's log has to be moved on, so that one that joins begins to serve. One whose first data is a snapshot of more than
/// 5,000 entries does not until it hears of another entry (etcd 3.6 and 3.7, which do not count what a snapshot brings as applied), and
/// where nobody writes there is none.
fn whom_to_move(answers: &[(MemberName, Result<Answer, String>)]) -> Option<&MemberName> {
    let is_silent = |member: &ListedMember| {
        answers.iter().any(|(name, answer)| answer.is_err() && member.is_in(name.as_str()))
    };
    let joins = |member: &ListedMember| member.learner || member.name.is_none();
    let waits = |answer: &Answer| answer.members.iter().any(|member| joins(member) && is_silent(member));
    let knows = |answer: &Answer| answer.linearizable && waits(answer);
    answers.iter().find(|(_, answer)| answer.as_ref().is_ok_and(knows)).map(|(name, _)| name)
}

/// The member of a pod that runs, where it listens, and whether it is ready. By address, not by name: the operator need not be able to
/// resolve the cluster's names, and an address that etcd itself would tell is not believed.
fn whom_to_ask(pod: &SeenPod) -> Option<(MemberName, String, bool)> {
    run(pod)?;
    let ip: IpAddr = pod.ip.as_deref()?.parse().ok()?;
    let host = match ip {
        IpAddr::V4(ip) => ip.to_string(),
        IpAddr::V6(ip) => format!("[{ip}]"),
    };
    Some((pod.name.parse().ok()?, format!("http://{host}:{}", api::names::CLIENT_PORT), pod.is_ready()))
}

async fn ask_one(member: &Member, patience: Duration, wanted: Option<EtcdVersion>) -> Result<Answer, String> {
    let member = member.within(patience);
    let (status, list) = tokio::join!(member.status(), member.members_linearizable());
    let status = status.map_err(|error| error.to_string())?;
    // Only who is on the way to another version has to know what the cluster has agreed on.
    let upgrades = wanted.is_some_and(|wanted| status.version.parse() != Ok(wanted));
    let agreed = if upgrades { member.cluster_version().await } else { None };
    let agreed = agreed.as_deref().and_then(minor_of);
    if let Ok(list) = list {
        return Ok(Answer { cluster_version: agreed, ..answer(&status, Some(&list), true) });
    }
    // Without a quorum a member still tells what it knows.
    let seen = timeout(patience, member.members_as_seen()).await;
    let seen: Option<MemberList> = seen.ok().and_then(Result::<_, Error>::ok);
    Ok(Answer { cluster_version: agreed, ..answer(&status, seen.as_ref(), false) })
}

/// The minor of a version such as `3.6.0`, or `3.6`, as etcd gives it for a cluster and for data.
fn minor_of(version: &str) -> Option<Minor> {
    let mut parts = version.trim_start_matches('v').split('.');
    let (major, minor) = (parts.next()?, parts.next()?.parse::<u64>().ok()?);
    Minor::ALL.into_iter().find(|known| major == "3" && known.number() == minor)
}

/// What a member's answers mean.
fn answer(status: &Status, list: Option<&MemberList>, linearizable: bool) -> Answer {
    // Two answers of one endpoint may come from two processes, where a pod's address went to another. Then nothing was proven.
    let same = list.is_none_or(|list| list.cluster == status.cluster && list.answered_by == status.member);
    let same = same && list.is_none_or(|list| list.members.len() <= MAX_LISTED);
    let listed = list.into_iter().filter(|_| same).flat_map(|list| &list.members);
    Answer {
        member_id: MemberId(status.member.0),
        cluster_id: ClusterId(status.cluster.0),
        leader: status.leader.map(|leader| MemberId(leader.0)),
        learner: status.role == Role::Learner,
        term: status.term.0,
        raft_index: status.committed.0,
        applied: status.applied.map(|index| index.0),
        revision: u64::try_from(status.revision.0).unwrap_or_default(),
        version: status.version.parse().ok(),
        cluster_version: None,
        storage_version: status.storage_version.as_deref().and_then(minor_of),
        downgrade: status.downgrade.as_deref().and_then(minor_of),
        linearizable: linearizable && same,
        members: listed
            .map(|member| ListedMember {
                id: MemberId(member.id.0),
                name: member.name.clone(),
                peer_urls: member.peer_urls.clone(),
                learner: member.role == Role::Learner,
            })
            .collect(),
        db_bytes: Some(status.db_bytes).filter(|bytes| *bytes > 0),
        alarms: status.alarms().into_iter().map(known_alarm).collect(),
    }
}

fn known_alarm(kind: AlarmKind) -> Alarm {
    match kind {
        AlarmKind::NoSpace => Alarm::NoSpace,
        AlarmKind::Corrupt => Alarm::Corrupt,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(ip: &str, state: &serde_json::Value) -> SeenPod {
        let pod = json!({
            "metadata": {"name": "a-1"},
            "status": {"podIP": ip, "phase": "Running", "conditions": [{"type": "Ready", "status": "True"}],
                "containerStatuses": [{"name": "etcd", "image": "i", "imageID": "", "ready": true, "restartCount": 0, "state": state}]}
        });
        SeenPod::from_pod(&serde_json::from_value(pod).unwrap())
    }

    #[test]
    fn only_a_member_that_runs_and_has_an_address_is_asked() {
        let (running, waiting) = (json!({"running": {}}), json!({"waiting": {"reason": "PodInitializing"}}));
        let table = [
            ("10.0.0.7", &running, Some("http://10.0.0.7:2379")),
            ("fd00::7", &running, Some("http://[fd00::7]:2379")),
            ("", &running, None),
            ("evil.example", &running, None),
            ("10.0.0.7", &waiting, None),
        ];
        for (ip, state, expected) in table {
            let asked = whom_to_ask(&pod(ip, state));
            assert_eq!(asked.as_ref().map(|(_, endpoint, _)| endpoint.as_str()), expected, "{ip}");
        }
    }

    fn status() -> Status {
        etcd_admin::rpc::StatusResponse {
            header: Some(etcd_admin::rpc::ResponseHeader {
                cluster_id: 12,
                member_id: 1,
                ..Default::default()
            }),
            leader: 1,
            raft_index: 9,
            ..Default::default()
        }
        .into()
    }

    fn list(cluster: u64, answered_by: u64) -> MemberList {
        let listed = etcd_admin::ListedMember {
            id: etcd_admin::MemberId(1),
            name: Some("a-1".to_owned()),
            peer_urls: vec![],
            client_urls: vec![],
            role: Role::Voter,
        };
        MemberList {
            cluster: etcd_admin::ClusterId(cluster),
            answered_by: etcd_admin::MemberId(answered_by),
            members: vec![listed],
        }
    }

    #[test]
    fn the_versions_of_clusters_and_of_data_are_read_as_minors() {
        let table = [
            ("3.6.0", Some(Minor::V3_6)),
            ("3.5", Some(Minor::V3_5)),
            ("4.6.0", None),
            ("3", None),
            ("", None),
        ];
        for (text, minor) in table {
            assert_eq!(minor_of(text), minor, "{text}");
        }
    }

    #[test]
    fn the_log_is_moved_on_only_for_one_that_joins_and_is_silent() {
        let list = |learner, name: Option<&str>| {
            let mut answer = answer(&status(), Some(&list(12, 1)), true);
            answer.members.push(ListedMember {
                id: MemberId(2),
                name: name.map(str::to_owned),
                peer_urls: vec!["http://a-2.a.default.svc:2380".to_owned()],
                learner,
            });
            answer
        };
        let behind = |answer: Answer| Answer { linearizable: false, ..answer };
        let table = [
            ("a learner is silent", list(true, None), false, true),
            ("one that was added is silent", list(false, None), false, true),
            ("a voter is silent", list(false, Some("a-2")), false, false),
            ("a learner answers", list(true, Some("a-2")), true, false),
            ("nobody has a quorum", behind(list(true, None)), false, false),
        ];
        for (title, first, second, moved) in table {
            let second = if second { Ok(first.clone()) } else { Err("no answer".to_owned()) };
            let third = ("a-3".parse().unwrap(), Err("a voter that is silent is none that joins".to_owned()));
            let answers = [("a-1".parse().unwrap(), Ok(first)), ("a-2".parse().unwrap(), second), third];
            let through = whom_to_move(&answers).map(ToString::to_string);
            assert_eq!(through.as_deref(), moved.then_some("a-1"), "{title}");
        }
    }

    #[test]
    fn a_voter_that_answers_and_does_not_reach_the_quorum_comes_no_further() {
        let member = |id: u64, linearizable| {
            let status = Status { member: etcd_admin::MemberId(id), ..status() };
            let mut answer = answer(&status, Some(&list(12, id)), linearizable);
            let listed = |id| ListedMember {
                id: MemberId(id),
                name: Some(format!("a-{id}")),
                peer_urls: vec![],
                learner: false,
            };
            answer.members = [1, 2].map(listed).to_vec();
            (format!("a-{id}").parse().unwrap(), SeenMember::Known(answer))
        };
        let ids = |second, ready| {
            let members = [member(1, true), member(2, second)].into();
            let (_, first) = member(1, true);
            unfinished(&members, first.answer().unwrap(), |_| ready).into_keys().collect::<Vec<_>>()
        };
        assert_eq!(ids(true, false), []);
        assert_eq!(ids(false, false), [MemberId(2)]);
        assert_eq!(ids(false, true), [], "Kubernetes finds that it serves");
    }

    #[test]
    fn of_a_list_that_is_too_long_nothing_is_known() {
        for (length, listed) in [(MAX_LISTED, MAX_LISTED), (MAX_LISTED + 1, 0)] {
            let mut list = list(12, 1);
            list.members = vec![list.members[0].clone(); length];
            let answer = answer(&status(), Some(&list), true);
            assert_eq!((answer.members.len(), answer.linearizable), (listed, listed > 0), "{length}");
        }
    }

    #[test]
    fn what_a_member_holds_is_told_by_its_revision() {
        for (revision, holds) in [(-1, false), (0, false), (1, false), (2, true)] {
            let status = Status { revision: etcd_admin::Revision(revision), ..status() };
            assert_eq!(answer(&status, None, false).holds_data(), holds, "{revision}");
        }
    }

    #[test]
    fn an_answer_is_linearizable_only_if_the_same_member_of_the_same_cluster_read_through_the_quorum() {
        let table = [
            (Some(list(12, 1)), true, true, 1),
            (Some(list(12, 1)), false, false, 1),
            (Some(list(13, 1)), true, false, 0),
            (Some(list(12, 2)), true, false, 0),
            (None, false, false, 0),
        ];
        for (list, read, linearizable, members) in table {
            let answer = answer(&status(), list.as_ref(), read);
            assert_eq!((answer.linearizable, answer.members.len()), (linearizable, members), "{list:?}");
            assert_eq!(
                (answer.member_id, answer.cluster_id, answer.raft_index),
                (MemberId(1), ClusterId(12), 9)
            );
        }
    }
}
