//! What tests of all files share: one cluster, its attempts, and a small world to plan in.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
    time::Duration,
};

use api::{Birth, EtcdCluster, EtcdClusterStatus};
use launch::{Intent, LaunchOrder, MemberName};

use crate::{
    Answer, Attempt, ClusterId, ContainerState, Desired, Ended, ListedMember, MemberId, MemberUser, Observed,
    OperatorIdentity, OrderSeen, PodPhase, Problem, Readiness, SeenBudget, SeenContainer, SeenMember,
    SeenPod, SeenResource, SeenService, manifest,
};

/// A spec with everything that a pod takes from it.
pub(crate) const EVERY_POLICY: &str = r#"{"size": 3, "version": "v3.5.33", "repository": "mirror.example/etcd", "pod": {
    "labels": {"team": "a"}, "annotations": {"note": "b"}, "nodeSelector": {"disk": "ssd"}, "antiAffinity": true,
    "resources": {"limits": {"memory": "64Mi"}, "requests": {"cpu": "100m"}},
    "tolerations": [{"key": "dedicated", "operator": "Exists"}],
    "etcdEnv": [{"name": "ETCD_AUTO_COMPACTION_RETENTION", "value": "1"}],
    "securityContext": {"runAsUser": 1000}, "ClusterDomain": ".cluster.local"}}"#;

pub(crate) fn resource(spec: &str) -> EtcdCluster {
    let text = format!(
        r#"{{"apiVersion": "etcd.database.coreos.com/v1beta2", "kind": "EtcdCluster",
            "metadata": {{"name": "example", "namespace": "default", "uid": "uid-1", "resourceVersion": "7", "generation": 2}},
            "spec": {spec}}}"#
    );
    serde_json::from_str(&text).unwrap()
}

pub(crate) fn desired_of(spec: &str) -> Result<Desired, Vec<Problem>> {
    let operator = OperatorIdentity {
        launcher_image: "registry.example/etcd-operator:1".to_owned(),
        member_user: MemberUser::default(),
    };
    Desired::from_resource(&resource(spec), &operator)
}

/// What a resource asks for whose status says this.
pub(crate) fn desired_with_status(spec: &str, status: &str) -> Result<Desired, Vec<Problem>> {
    let operator = OperatorIdentity {
        launcher_image: "registry.example/etcd-operator:1".to_owned(),
        member_user: MemberUser::default(),
    };
    let status = Some(serde_json::from_str(status).unwrap());
    Desired::from_resource(&EtcdCluster { status, ..resource(spec) }, &operator)
}

pub(crate) fn desired() -> Desired {
    desired_of(r#"{"size": 3}"#).unwrap()
}

pub(crate) fn attempt(incarnation: i64) -> Attempt {
    Attempt { incarnation, token: format!("t-{incarnation}").parse().unwrap() }
}

pub(crate) fn birth(incarnation: i64) -> Birth {
    Birth { incarnation, ..Birth::first(format!("t-{incarnation}")) }
}

/// Compares an object with the file of this name; `GOLDEN=write` writes it instead.
pub(crate) fn golden<T: serde::Serialize>(name: &str, object: &T) {
    let value = serde_json::to_value(object).unwrap();
    let text = serde_saphyr::to_string(&value).unwrap();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("golden/{name}.yaml"));
    if std::env::var("GOLDEN").is_ok_and(|word| word == "write") {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, &text).unwrap();
    }
    let written = fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(text, written, "{name} is not as written down; GOLDEN=write cargo test writes it");
}

/// A small world: what the observer sees of a cluster that is exactly as the operator made it.
pub(crate) struct World {
    pub(crate) desired: Result<Desired, Vec<Problem>>,
    pub(crate) observed: Observed,
}

impl World {
    /// A resource that nobody has touched yet.
    pub(crate) fn new(spec: &str) -> Self {
        let observed = Observed {
            now: "2026-01-01T00:10:00Z".parse().unwrap(),
            token: "fresh".parse().unwrap(),
            fresh_name: "example-freshfresh".parse().unwrap(),
            resource: SeenResource::from_resource(&resource(spec)),
            birth_known_for: Duration::from_hours(1),
            pods: Vec::new(),
            squatted: Vec::new(),
            peer_service: SeenService::Missing,
            client_service: SeenService::Missing,
            budget: SeenBudget::Missing,
            members: BTreeMap::new(),
            stalled: BTreeMap::new(),
            unmade: BTreeSet::new(),
            awaited: BTreeSet::new(),
            refusals: Vec::new(),
        };
        Self { desired: desired_of(spec), observed }
    }

    /// Three members in attempt 1, all made, none started.
    pub(crate) fn forming() -> Self {
        let mut world = Self::new(r#"{"size": 3}"#);
        world.born(birth(1));
        for name in attempt(1).members("example", 3) {
            world.add_pod(&attempt(1), &name);
        }
        world
    }

    /// Three members that all answer, in a cluster that has not been latched as formed.
    pub(crate) fn up() -> Self {
        let mut world = Self::forming();
        for ordinal in 0..3 {
            world.answer(ordinal);
        }
        world
    }

    /// Three members of a formed cluster, everything in its place.
    pub(crate) fn formed() -> Self {
        let mut world = Self::up();
        world.born(birth(1).formed("cc".to_owned()));
        for pod in &mut world.observed.pods {
            if let OrderSeen::Order(order) = &mut pod.order {
                order.intent = Intent::Restart;
            }
        }
        world
    }

    /// So many members of a formed cluster, everything in its place; the first leads, the last is the newest.
    pub(crate) fn formed_of(size: usize) -> Self {
        let mut world = Self::new(&format!(r#"{{"size": {size}}}"#));
        world.born(birth(1).formed("cc".to_owned()));
        world.observed.budget =
            SeenBudget::from_budget(&manifest::budget(&desired(), &attempt(1), size), "uid-1");
        for (ordinal, name) in attempt(1).members("example", size).iter().enumerate() {
            world.add_pod(&attempt(1), name);
            let pod = world.pod(ordinal);
            pod.created = Some(format!("2026-01-01T00:00:0{ordinal}Z").parse().unwrap());
            if let OrderSeen::Order(order) = &mut pod.order {
                order.intent = Intent::Restart;
            }
        }
        for ordinal in 0..size {
            world.answer(ordinal);
        }
        let list: Vec<ListedMember> = (0..size).map(|ordinal| world.listed(ordinal)).collect();
        world.change_all(|answer| answer.members = list.clone());
        world
    }

    fn listed(&self, ordinal: usize) -> ListedMember {
        let (id, name) = (MemberId(u64::try_from(ordinal).unwrap() + 1), self.name(ordinal));
        let url = desired().peer_url(&name).unwrap().to_string();
        ListedMember { id, name: Some(name.to_string()), peer_urls: vec![url], learner: false }
    }

    /// The pod at this place is gone, and so is its answer.
    pub(crate) fn drop_pod(&mut self, ordinal: usize) {
        let name = self.name(ordinal);
        self.observed.pods.retain(|pod| pod.name != name.as_str());
        self.observed.members.remove(&name);
    }

    /// Changes every answer.
    pub(crate) fn change_all(&mut self, change: impl Fn(&mut Answer)) {
        for seen in self.observed.members.values_mut() {
            if let SeenMember::Known(answer) = seen
                && !answer.learner
            {
                change(answer);
            }
        }
    }

    /// Somebody takes the member at this place out of etcd's list.
    pub(crate) fn unlist(&mut self, ordinal: usize) {
        let id = MemberId(u64::try_from(ordinal).unwrap() + 1);
        let name = self.name(ordinal);
        self.observed.members.remove(&name);
        for pod in self.observed.pods.iter_mut().filter(|pod| pod.name == name.as_str()) {
            pod.ready = Readiness::NotReady;
        }
        self.change_all(|answer| answer.members.retain(|member| member.id != id));
    }

    /// The budget is as it should be now.
    pub(crate) fn budgeted(&mut self) {
        let budget = self.plan().steps.into_iter().find_map(|step| match step {
            crate::Step::EnsureBudget { attempt, voters, rolling, .. } => {
                let budget = if rolling { manifest::budget_of_a_roll } else { manifest::budget };
                Some(budget(&desired(), &attempt, voters))
            }
            _ => None,
        });
        if let Some(budget) = budget {
            self.observed.budget = SeenBudget::from_budget(&budget, "uid-1");
        }
    }

    /// The API server refused this a moment ago, and does not say why.
    pub(crate) fn refuse(&mut self, kind: &'static str, ordinal: usize) {
        let (name, at) = (self.name(ordinal).to_string(), "2026-01-01T00:09:58Z".parse().unwrap());
        let (class, message) = (crate::RefusalClass::Rejected, "no".to_owned());
        self.observed.refusals.push(crate::RefusedObject { kind, name, class, message, at });
    }

    /// Somebody adds a member to etcd's list.
    pub(crate) fn list(&mut self, id: u64, name: Option<&str>, url: &str, learner: bool) {
        let (name, peer_urls) = (name.map(str::to_owned), vec![url.to_owned()]);
        let member = ListedMember { id: MemberId(id), name, peer_urls, learner };
        self.change_all(|answer| answer.members.push(member.clone()));
    }

    /// A learner with this address joins, runs and has all that the others have.
    pub(crate) fn join(&mut self, url: &str, learner: bool) {
        let name = url.trim_start_matches("http://").split('.').next().unwrap().to_owned();
        self.list(9, Some(&name), url, learner);
        let mut pod = self.pod(0).clone();
        (pod.name, pod.uid, pod.ready) = (name.clone(), format!("uid-of-{name}"), Readiness::NotReady);
        pod.labels.insert("etcd_node".to_owned(), name.clone());
        self.observed.pods.push(pod);
        let (member_id, linearizable) = (MemberId(9), false);
        let first = self.observed.answer(self.name(0).as_str()).unwrap().clone();
        let answer = Answer { member_id, learner, linearizable, ..first };
        self.observed.members.insert(name.parse().unwrap(), SeenMember::Known(answer));
    }

    pub(crate) fn change_learner(&mut self, change: impl FnOnce(&mut Answer)) {
        let learners = self.observed.members.values_mut();
        for seen in learners.filter(|seen| seen.answer().is_some_and(|answer| answer.learner)) {
            if let SeenMember::Known(answer) = seen {
                return change(answer);
            }
        }
    }

    pub(crate) fn silence_learner(&mut self) {
        let (silent_for, gone_for) = (Duration::ZERO, Duration::ZERO);
        let unknown = SeenMember::Unknown { why: "no answer".to_owned(), silent_for, gone_for };
        for seen in self.observed.members.values_mut() {
            if seen.answer().is_some_and(|answer| answer.learner) {
                *seen = unknown.clone();
            }
        }
    }

    /// Latches a birth and has the Services follow it.
    pub(crate) fn born(&mut self, birth: Birth) {
        let attempt = Attempt::of(&birth).unwrap();
        let desired = desired();
        self.observed.peer_service = ours(&manifest::peer_service(&desired, &attempt));
        self.observed.budget = SeenBudget::Missing;
        if birth.formed {
            let budget = manifest::budget(&desired, &attempt, 3);
            self.observed.budget = SeenBudget::from_budget(&budget, "uid-1");
        }
        self.observed.client_service =
            ours(&manifest::client_service(&desired, Some(&attempt).filter(|_| birth.formed)));
        self.observed.resource.status = EtcdClusterStatus {
            birth: Some(birth),
            phase: Some("Creating".to_owned()),
            ..Default::default()
        };
    }

    pub(crate) fn add_pod(&mut self, attempt: &Attempt, name: &MemberName) {
        self.add_pod_of(&desired(), attempt, name);
    }

    pub(crate) fn add_pod_of(&mut self, desired: &Desired, attempt: &Attempt, name: &MemberName) {
        let mut pod = manifest::pod(desired, attempt, name).unwrap();
        pod.metadata.uid = Some(format!("uid-of-{name}"));
        pod.metadata.resource_version = Some("3".to_owned());
        let mut seen = SeenPod::from_pod(&pod);
        seen.phase = PodPhase::Pending;
        self.observed.pods.push(seen);
    }

    /// The pod at this place.
    pub(crate) fn pod(&mut self, ordinal: usize) -> &mut SeenPod {
        &mut self.observed.pods[ordinal]
    }

    #[allow(clippy::unused_self, reason = "it reads as a question to this world")]
    pub(crate) fn name(&self, ordinal: usize) -> MemberName {
        attempt(1).member("example", ordinal).unwrap()
    }

    /// The member at this place runs, answers and is ready.
    pub(crate) fn answer(&mut self, ordinal: usize) {
        let id = |n: usize| MemberId(u64::try_from(n).unwrap() + 1);
        let answer = Answer {
            member_id: id(ordinal),
            cluster_id: ClusterId(0xcc),
            leader: Some(id(0)),
            learner: false,
            term: 2,
            raft_index: 9,
            applied: Some(9),
            revision: crate::EMPTY_STORE,
            version: Some(desired().version),
            cluster_version: Some(desired().version.minor()),
            storage_version: Some(desired().version.minor()),
            downgrade: None,
            linearizable: true,
            db_bytes: Some(1 << 20),
            alarms: BTreeSet::new(),
            members: (0..3).map(|ordinal| self.listed(ordinal)).collect(),
        };
        self.observed.members.insert(self.name(ordinal), SeenMember::Known(answer));
        let pod = self.pod(ordinal);
        pod.phase = PodPhase::Running;
        pod.ready = Readiness::Ready;
        pod.containers = vec![container(ContainerState::Running)];
    }

    pub(crate) fn change_answer(&mut self, ordinal: usize, change: impl FnOnce(&mut Answer)) {
        let name = self.name(ordinal);
        if let Some(SeenMember::Known(answer)) = self.observed.members.get_mut(&name) {
            change(answer);
        }
    }

    /// The member at this place does not answer.
    pub(crate) fn silence(&mut self, ordinal: usize, silent_for: Duration) {
        let unknown = SeenMember::Unknown { why: "no answer".to_owned(), silent_for, gone_for: silent_for };
        self.observed.members.insert(self.name(ordinal), unknown);
        self.pod(ordinal).ready = Readiness::NotReady;
    }

    pub(crate) fn plan(&self) -> crate::Plan {
        crate::plan(&self.desired, &self.observed)
    }

    /// The names of the planned steps.
    pub(crate) fn steps(&self) -> Vec<&'static str> {
        self.plan().steps.iter().map(crate::Step::name).collect()
    }

    /// The words of what is waited for.
    pub(crate) fn waits(&self) -> Vec<&'static str> {
        self.plan().waiting.iter().map(|waiting| waiting.reason.as_str()).collect()
    }
}

pub(crate) fn container(state: ContainerState) -> SeenContainer {
    let id = Some("containerd://1".to_owned());
    SeenContainer { name: "etcd".to_owned(), id, image: "i".to_owned(), state, last_end: None, restarts: 0 }
}

pub(crate) fn waiting(reason: &str, message: &str) -> ContainerState {
    ContainerState::Waiting { reason: reason.to_owned(), message: message.to_owned() }
}

pub(crate) fn ended(message: &str) -> Ended {
    Ended { exit_code: 78, reason: "Error".to_owned(), message: message.to_owned() }
}

pub(crate) fn order_of(pod: &SeenPod) -> &LaunchOrder {
    match &pod.order {
        OrderSeen::Order(order) => order,
        other => panic!("no order: {other:?}"),
    }
}

fn ours(service: &k8s_openapi::api::core::v1::Service) -> SeenService {
    SeenService::from_service(service, "uid-1")
}
