//! What no write may do when it lands: the planner's own invariants, asked of what the fakes know to be true.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use api::{Birth, names::ANNOTATION_RELAUNCHED};
use fakes::{
    etcd::{self, Etcd},
    kubelet::Kubelet,
    kubernetes::{ApiServer, Asked, Judge, kinds, store::Objects},
};
use http::Method;
use launch::{MemberName, Minor, ORDER_ANNOTATION, PeerUrl};
use planner::{
    Basis, ClusterId, Effect, MemberChange, MemberId, SeenList,
    safety::{Facts, MadePod, MemberFact, Running, check},
};
use serde::Deserialize;
use serde_json::Value;

/// Asks the planner's invariants of every write.
pub(crate) fn judge(server: &ApiServer, kubelet: &Kubelet, etcd: &Etcd) -> Judge {
    let (server, kubelet, etcd) = (server.clone(), kubelet.clone(), etcd.clone());
    Arc::new(move |asked| {
        let facts = facts(&server, &kubelet, &etcd);
        let Some(effect) = effect(asked, &facts) else { return Vec::new() };
        let broken = check(&facts, &effect);
        broken.into_iter().map(|violation| format!("{} {}: {violation}", asked.method, asked.path)).collect()
    })
}

/// Asks the planner's invariants of every change of the membership. What it counts on is what is true: who serves.
pub(crate) fn of_members(server: &ApiServer, kubelet: &Kubelet, etcd: &Etcd) -> etcd::Judge {
    let (server, kubelet, etcd) = (server.clone(), kubelet.clone(), etcd.clone());
    Arc::new(move |asked| {
        let facts = facts(&server, &kubelet, &etcd);
        let cluster = cluster_of(&facts).unwrap_or_default();
        let healthy = etcd.serving(cluster).into_iter().map(MemberId).collect();
        let list = SeenList { cluster_id: ClusterId(cluster), members: Vec::new() };
        let through: MemberName = "a-1".parse().unwrap();
        let basis = Basis { through_id: MemberId(0), through: through.clone(), list, healthy };
        let change = match asked {
            etcd::Change::Add { peer_urls, learner } => {
                let peer_url: PeerUrl = peer_urls[0].parse().unwrap();
                let member = host(&peer_urls[0]).parse().unwrap();
                MemberChange::Add { member, peer_url, learner: *learner }
            }
            etcd::Change::Promote(id) => MemberChange::Promote { id: MemberId(*id) },
            etcd::Change::Remove(id) => MemberChange::Remove { id: MemberId(*id) },
            etcd::Change::MoveLeader(id) => MemberChange::MoveLeader { to: MemberId(*id) },
            etcd::Change::AllowDowngrade(minor) => MemberChange::Downgrade {
                to: Minor::ALL.into_iter().find(|known| known.to_string() == *minor),
            },
            etcd::Change::CancelDowngrade => MemberChange::Downgrade { to: None },
        };
        let broken = check(&facts, &Effect::ChangeMembership { basis, change });
        broken.into_iter().map(|violation| format!("{asked:?}: {violation}")).collect()
    })
}

/// The pod in a peer URL.
fn host(url: &str) -> String {
    let host = url.split("://").nth(1).unwrap_or_default();
    host.split('.').next().unwrap_or_default().to_owned()
}

fn cluster_of(facts: &Facts) -> Option<u64> {
    let id = facts.birth.as_ref()?.cluster_id.clone()?;
    u64::from_str_radix(&id, 16).ok()
}

/// The last word on the resource, whether it still exists or not.
fn last_resource(objects: &Objects) -> Option<Arc<Value>> {
    let of_ours = objects.log().iter().rev().filter(|change| change.key.plural == kinds::CLUSTERS.plural);
    of_ours.map(|change| change.after.clone().or_else(|| change.before.clone())).next().flatten()
}

/// What is true.
fn facts(server: &ApiServer, kubelet: &Kubelet, etcd: &Etcd) -> Facts {
    let ran = kubelet.ran();
    let objects = server.store().lock();
    let Some(resource) = last_resource(&objects) else { return Facts::default() };
    let birth: Option<Birth> = Deserialize::deserialize(&resource["status"]["birth"]).ok();
    let (mut made, mut relaunched) = (BTreeMap::new(), BTreeSet::new());
    for change in objects.log().iter().filter(|change| change.key.plural == kinds::PODS.plural) {
        if let (None, Some(pod)) = (&change.before, &change.after) {
            let mut pod = MadePod::from_pod(&Deserialize::deserialize(pod.as_ref()).unwrap());
            if let Some(ran) = ran.get(&pod.uid) {
                pod.started = ran.started;
                pod.served = ran.served.map(ClusterId);
            }
            made.insert(change.key.name.clone(), pod);
        } else if let (Some(_), Some(pod)) = (&change.before, &change.after)
            && !pod["metadata"]["annotations"][ANNOTATION_RELAUNCHED].is_null()
        {
            relaunched.insert(change.key.name.clone());
        }
    }
    let uid = resource["metadata"]["uid"].as_str().unwrap_or_default().to_owned();
    drop(objects);
    let mut facts = Facts { uid, birth, made, ..Facts::default() };
    let Some(id) = cluster_of(&facts) else { return facts };
    let Some(cluster) = etcd.clusters().remove(&id) else { return facts };
    let added = cluster.changes.iter().filter_map(|change| change.strip_prefix("add "));
    facts.added = added.map(host).collect();
    facts.members = cluster
        .members
        .values()
        .map(|member| MemberFact {
            id: MemberId(member.id),
            name: host(&member.peer_urls[0]),
            learner: member.learner,
            started: member.name.is_some(),
            // A learner that has started has what the others have after a moment, and is not promoted before.
            caught_up: member.name.is_some(),
        })
        .collect();
    let serving = etcd.versions_of(id);
    let rests = |member: &&MemberFact| {
        !member.learner && relaunched.contains(&member.name) && !serving.contains_key(&member.id.0)
    };
    let agreed = cluster.version.as_deref();
    facts.running = Running {
        resting: facts.members.iter().filter(rests).map(|member| member.id).collect(),
        serving: serving
            .iter()
            .filter_map(|(id, version)| Some((MemberId(*id), version.parse().ok()?)))
            .collect(),
        leader: cluster.leader.map(MemberId),
        agreed: Minor::ALL.into_iter().find(|minor| Some(minor.to_string().as_str()) == agreed),
    };
    facts
}

/// A relaunch, decided on what is true. Whoever does not serve is done without already.
fn relaunch(name: String, asked: &Asked, facts: &Facts) -> Effect {
    let id = facts.members.iter().find(|member| member.name == name).map(|member| member.id);
    let serving = &facts.running.serving;
    let basis = id.filter(|id| serving.contains_key(id)).map(|through_id| Basis {
        through_id,
        through: name.parse().unwrap(),
        list: SeenList { cluster_id: ClusterId(cluster_of(facts).unwrap_or_default()), members: Vec::new() },
        healthy: serving.keys().copied().collect(),
    });
    let annotations = Deserialize::deserialize(&asked.body["metadata"]["annotations"]).unwrap();
    let (uid, resource_version, image) = Default::default();
    Effect::RelaunchPod { name, uid, resource_version, basis, image, annotations }
}

/// The effect that a request is.
fn effect(asked: &Asked, facts: &Facts) -> Option<Effect> {
    let target = asked.target()?;
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (uid, resource_version) =
        (text(&asked.body["metadata"]["uid"]), text(&asked.body["metadata"]["resourceVersion"]));
    let object = || asked.body.clone();
    Some(match (&asked.method, target.kind.plural) {
        (&Method::PUT | &Method::PATCH, "etcdclusters") => {
            let birth: Birth = serde_json::from_value(asked.body["status"]["birth"].clone()).ok()?;
            if facts.birth.as_ref() == Some(&birth) {
                return None;
            }
            Effect::ReplaceStatusBirth { resource_version, birth }
        }
        (&Method::POST, "pods") => Effect::CreatePod(serde_json::from_value(object()).unwrap()),
        (&Method::POST, "services") => Effect::CreateService(serde_json::from_value(object()).unwrap()),
        (&Method::PATCH, "services") => {
            Effect::ApplyService { uid, resource_version, service: serde_json::from_value(object()).unwrap() }
        }
        (&Method::POST, "poddisruptionbudgets") => {
            Effect::CreateBudget(serde_json::from_value(object()).unwrap())
        }
        (&Method::PATCH, "poddisruptionbudgets") => {
            Effect::ApplyBudget { uid, resource_version, budget: serde_json::from_value(object()).unwrap() }
        }
        (&Method::PATCH, "pods") if asked.body["spec"].is_object() => relaunch(target.name, asked, facts),
        (&Method::PATCH, "pods") => Effect::PatchPodAnnotation {
            name: target.name,
            uid,
            resource_version,
            key: ORDER_ANNOTATION,
            value: text(&asked.body["metadata"]["annotations"][ORDER_ANNOTATION]),
        },
        (&Method::DELETE, "pods") => {
            Effect::DeletePod { name: target.name, uid: text(&asked.body["preconditions"]["uid"]) }
        }
        _ => return None,
    })
}
