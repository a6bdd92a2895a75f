//! What no write may do when it lands: the planner's own invariants, asked of what the fakes know to be true.

use std::{collections::BTreeMap, sync::Arc};

use api::Birth;
use fakes::{
    kubelet::Kubelet,
    kubernetes::{ApiServer, Asked, Judge, kinds, store::Objects},
};
use http::Method;
use launch::ORDER_ANNOTATION;
use planner::{
    ClusterId, Effect,
    safety::{Facts, MadePod, check},
};
use serde_json::Value;

/// Asks the planner's invariants of every write.
pub(crate) fn judge(server: &ApiServer, kubelet: &Kubelet) -> Judge {
    let (server, kubelet) = (server.clone(), kubelet.clone());
    Arc::new(move |asked| {
        let facts = facts(&server, &kubelet);
        let Some(effect) = effect(asked, &facts) else { return Vec::new() };
        let broken = check(&facts, &effect);
        broken.into_iter().map(|violation| format!("{} {}: {violation}", asked.method, asked.path)).collect()
    })
}

/// The last word on the resource, whether it still exists or not.
fn last_resource(objects: &Objects) -> Option<Value> {
    let of_ours = objects.log().iter().rev().filter(|change| change.key.plural == kinds::CLUSTERS.plural);
    of_ours.map(|change| change.after.clone().or_else(|| change.before.clone())).next().flatten()
}

/// What is true.
pub(crate) fn facts(server: &ApiServer, kubelet: &Kubelet) -> Facts {
    let ran = kubelet.ran();
    let objects = server.store().lock();
    let Some(resource) = last_resource(&objects) else { return Facts::default() };
    let birth: Option<Birth> = serde_json::from_value(resource["status"]["birth"].clone()).ok();
    let mut made = BTreeMap::new();
    for change in objects.log().iter().filter(|change| change.key.plural == kinds::PODS.plural) {
        if let (None, Some(pod)) = (&change.before, &change.after) {
            let pod = serde_json::from_value(pod.clone()).unwrap();
            let mut pod = MadePod::from_pod(&pod);
            if let Some(ran) = ran.get(&pod.uid) {
                pod.started = ran.started;
                pod.served = ran.served.map(ClusterId);
            }
            made.insert(change.key.name.clone(), pod);
        }
    }
    Facts { uid: resource["metadata"]["uid"].as_str().unwrap_or_default().to_owned(), birth, made }
}

/// The effect that a request is.
fn effect(asked: &Asked, facts: &Facts) -> Option<Effect> {
    let target = asked.target()?;
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (uid, resource_version) =
        (text(&asked.body["metadata"]["uid"]), text(&asked.body["metadata"]["resourceVersion"]));
    let object = || asked.body.clone();
    Some(match (&asked.method, target.kind.plural) {
        (&Method::PUT, "etcdclusters") => {
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
