//! What every run has to come to, and what must not have happened twice on the way.

use std::collections::BTreeMap;

use fakes::kubernetes::{kinds, store::Change};
use serde_json::Value;

use crate::world::{NAMESPACE, World};

/// Whether the cluster runs with exactly this many members, by its own word and in truth.
pub(crate) fn runs(world: &World, size: usize) -> Result<(), String> {
    let resource = world.resource().ok_or("there is no resource")?;
    let status = &resource["status"];
    let count = |value: &Value| value.as_array().map_or(0, Vec::len);
    let said = (status["phase"].as_str().unwrap_or_default(), count(&status["members"]["ready"]));
    if said != ("Running", size) || count(&status["members"]["unready"]) != 0 {
        return Err(format!("the status says {said:?}"));
    }
    // Whose pod is on its way out is no member any more, and it is still to be told when that is over.
    let conditions = status["conditions"].as_array().map(Vec::as_slice).unwrap_or_default();
    if conditions.iter().any(|condition| condition["reason"] == "WaitingForPodGone") {
        return Err("the status says that a pod is on its way out".to_owned());
    }
    if status["birth"]["formed"] != true {
        return Err("it has not formed".to_owned());
    }
    let clusters = world.etcd.clusters();
    let id = u64::from_str_radix(status["birth"]["clusterID"].as_str().unwrap_or_default(), 16);
    let cluster = id.ok().and_then(|id| clusters.get(&id)).ok_or("etcd has no such cluster")?;
    let voters = cluster.members.values().filter(|member| !member.learner && member.name.is_some());
    if voters.count() != size || cluster.members.len() != size || cluster.leader.is_none() {
        return Err(format!("etcd has {:?}", cluster.members));
    }
    let objects = world.server.store().lock();
    let pods: Vec<&str> = objects.of(kinds::PODS).map(|(key, _)| key.name.as_str()).collect();
    let members: Vec<&str> = cluster.members.values().filter_map(|member| member.name.as_deref()).collect();
    if pods.len() != size || !members.iter().all(|member| pods.contains(member)) {
        return Err(format!("there are the pods {pods:?}"));
    }
    let client = objects.of(kinds::SERVICES).find(|(key, _)| key.name.ends_with("-client"));
    match client {
        Some((_, service)) if !service["spec"]["selector"].is_null() => Ok(()),
        _ => Err("clients are not let in".to_owned()),
    }
}

/// Whether the cluster runs with so many members, all of which are in this version, by its own word and in truth; and they are those that
/// were there from the beginning.
pub(crate) fn rolled(world: &World, size: usize, version: &str) -> Result<(), String> {
    runs(world, size)?;
    let status = world.resource().unwrap_or_default()["status"].clone();
    let (current, target) = (&status["currentVersion"], &status["targetVersion"]);
    if current != version || !target.as_str().unwrap_or_default().is_empty() {
        return Err(format!("the status says {current}, and {target} as the target"));
    }
    let id = u64::from_str_radix(status["birth"]["clusterID"].as_str().unwrap_or_default(), 16);
    let running = world.etcd.versions_of(id.unwrap_or_default());
    if running.len() != size || running.values().any(|running| running != version) {
        return Err(format!("the members run {running:?}"));
    }
    if changes(world, "add") + changes(world, "remove") > 0 {
        return Err("other members came, or some went".to_owned());
    }
    Ok(())
}

/// The pods whose image was changed, in order, each with the image.
pub(crate) fn relaunches(world: &World) -> Vec<(String, String)> {
    let image = |pod: &Value| pod["spec"]["containers"][0]["image"].as_str().unwrap_or_default().to_owned();
    let objects = world.server.store().lock();
    let pods = objects.log().iter().filter(|change| change.key.plural == kinds::PODS.plural);
    let changed = pods.filter_map(|change| {
        let (before, after) = (change.before.as_ref()?, change.after.as_ref()?);
        (image(before) != image(after)).then(|| (change.key.name.clone(), image(after)))
    });
    changed.collect()
}

/// How many changes of this kind etcd has taken.
pub(crate) fn changes(world: &World, kind: &str) -> usize {
    let clusters = world.etcd.clusters();
    clusters.values().flat_map(|cluster| &cluster.changes).filter(|change| change.starts_with(kind)).count()
}

/// Whether nothing is left.
pub(crate) fn is_gone(world: &World) -> Result<(), String> {
    let objects = world.server.store().lock();
    let left: Vec<String> = objects
        .all()
        .filter(|(key, _)| !["leases", "events"].contains(&key.plural))
        .map(|(key, _)| format!("{}/{}", key.plural, key.name))
        .collect();
    if left.is_empty() { Ok(()) } else { Err(format!("{left:?} are left")) }
}

/// What happened twice that may happen once.
///
/// - a pod or a Service: made under a name that one was made under before;
/// - a birth: an incarnation latched with two tokens, or formed twice;
/// - an order: changed twice for the same version, be it that the permission to start empty is taken away or the version is another;
/// - a deletion: asked for again after the pod began to go;
/// - an Event: the same sentence about the same resource;
/// - a member: an address added to etcd, promoted or removed twice;
/// - a first start: etcd begun without data twice in one pod.
pub(crate) fn twice(world: &World) -> Vec<String> {
    let mut done: BTreeMap<String, usize> = BTreeMap::new();
    let mut exists = false;
    for change in world.server.store().lock().log() {
        if change.key.plural == kinds::CLUSTERS.plural {
            exists = change.after.is_some();
        }
        // A late creation for a resource that is gone makes an orphan, which is collected: the goal looks for it.
        for deed in deeds(change).into_iter().filter(|deed| exists || !deed.starts_with("services")) {
            *done.entry(deed).or_default() += 1;
        }
    }
    for cluster in world.etcd.clusters().values() {
        for change in &cluster.changes {
            *done.entry(change.clone()).or_default() += 1;
        }
    }
    let mut twice: Vec<String> = done
        .into_iter()
        .filter(|(_, times)| *times > 1)
        .map(|(deed, times)| format!("{deed}: {times} times"))
        .collect();
    let ran = world.kubelet.ran();
    twice.extend(
        ran.iter().filter(|(_, ran)| ran.empty_starts > 1).map(|(uid, _)| format!("an empty start in {uid}")),
    );
    twice
}

/// What a change did that may be done once.
fn deeds(change: &Change) -> Vec<String> {
    let name = &change.key.name;
    assert_eq!(change.key.namespace, NAMESPACE);
    match (change.key.plural, &change.before, &change.after) {
        (plural @ ("pods" | "services"), None, Some(_)) => vec![format!("{plural} {name} is made")],
        ("events", None, Some(event)) => {
            vec![format!("the Event {} {}", event["reason"], event["message"])]
        }
        ("pods", Some(before), Some(after)) => pod_deeds(name, before, after),
        ("etcdclusters", before, Some(after)) => {
            let birth = |resource: Option<&Value>| {
                resource.map(|it| it["status"]["birth"].clone()).unwrap_or_default()
            };
            let (before, after) = (birth(before.as_deref()), birth(Some(after)));
            let mut deeds = Vec::new();
            if before["token"] != after["token"] {
                deeds.push(format!("incarnation {} is born", after["incarnation"]));
            }
            if before["formed"] != true && after["formed"] == true {
                deeds.push("the cluster has formed".to_owned());
            }
            deeds
        }
        _ => Vec::new(),
    }
}

fn pod_deeds(name: &str, before: &Value, after: &Value) -> Vec<String> {
    let order = |pod: &Value| pod["metadata"]["annotations"][launch::ORDER_ANNOTATION].clone();
    let version = || after["metadata"]["annotations"][api::names::ANNOTATION_VERSION].clone();
    let goes = |pod: &Value| !pod["metadata"]["deletionTimestamp"].is_null();
    let mut deeds = Vec::new();
    if order(before) != order(after) {
        deeds.push(format!("the order of {name} for {} is changed", version()));
    }
    if !goes(before) && goes(after) {
        deeds.push(format!("{name} is deleted"));
    }
    deeds
}
