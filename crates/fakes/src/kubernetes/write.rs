//! FAKES: how the API server takes writes: who is refused, what is kept, what gets a new version.

use std::collections::HashSet;

use http::Method;
use serde_json::{Map, Value, json};

use super::{
    answer::{self, Answer},
    kinds::{self, Kind},
    merge,
    request::{Asked, Target},
    schema,
    store::{Key, Objects},
};

/// What the API server itself writes into the metadata; whatever an update says, it stays.
const SYSTEM: &[&str] =
    &["uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "generation"];

/// How long a pod may take to end, if it does not say.
const GRACE: i64 = 30;

/// Takes a write.
pub(super) fn write(objects: &mut Objects, asked: &Asked, target: &Target, now: &str) -> Answer {
    let has_part = target.part == "status" && target.kind.status;
    if !target.part.is_empty() && !has_part {
        return answer::no_such_path();
    }
    match asked.method {
        Method::POST if target.name.is_empty() => create(objects, asked, target, now),
        Method::PUT => update(objects, asked, target, now),
        Method::PATCH => patch(objects, asked, target, now),
        Method::DELETE => delete(objects, &asked.body, target, now),
        _ => answer::failure(405, "MethodNotAllowed", "the server does not allow this method", json!({})),
    }
}

fn create(objects: &mut Objects, asked: &Asked, target: &Target, now: &str) -> Answer {
    let kind = target.kind;
    let mut object = asked.body.clone();
    if !object["metadata"].is_object() {
        object["metadata"] = json!({});
    }
    let generated = object["metadata"]["generateName"].as_str().map(str::to_owned);
    let name = match (object["metadata"]["name"].as_str(), generated) {
        (Some(name), _) => name.to_owned(),
        (None, Some(prefix)) => format!("{prefix}{:05x}", objects.fresh()),
        (None, None) => return answer::invalid(kind, "", "metadata.name: Required value"),
    };
    let key = Key::new(kind, &target.namespace, &name);
    if objects.get(&key).is_some() {
        return answer::exists(kind, &name);
    }
    let mut after = born(objects, kind, &key, object, now);
    merge::note_update(&json!({}), &mut after, &asked.manager());
    (201, objects.put(&key, after))
}

/// An object as it is first stored.
fn born(objects: &mut Objects, kind: Kind, key: &Key, mut object: Value, now: &str) -> Value {
    object["apiVersion"] = json!(kind.api_version());
    object["kind"] = json!(kind.name);
    if kind.status
        && let Value::Object(fields) = &mut object
    {
        fields.remove("status");
    }
    schema::prune(kind, &mut object);
    let metadata = &mut object["metadata"];
    for system in SYSTEM.iter().chain(&["resourceVersion", "managedFields"]) {
        if let Value::Object(fields) = metadata {
            fields.remove(*system);
        }
    }
    metadata["name"] = json!(key.name);
    if kind.namespaced {
        metadata["namespace"] = json!(key.namespace);
    }
    metadata["uid"] = json!(format!("00000000-0000-4000-8000-{:012x}", objects.fresh()));
    metadata["creationTimestamp"] = json!(now);
    if kind.generation {
        metadata["generation"] = json!(1);
    }
    match kind.plural {
        "pods" => object["status"] = json!({"phase": "Pending"}),
        "services" => object["status"] = json!({"loadBalancer": {}}),
        _ => {}
    }
    object
}

/// A Lease is made by an update as well, unless it was to be a certain one.
fn make_by_update(objects: &mut Objects, key: &Key, body: &Value, now: &str) -> Answer {
    if !body["metadata"]["uid"].is_null() {
        return answer::conflict(kinds::LEASES, &key.name, "Precondition failed: UID in object meta: ");
    }
    let object = born(objects, kinds::LEASES, key, body.clone(), now);
    (201, objects.put(key, object))
}

fn update(objects: &mut Objects, asked: &Asked, target: &Target, now: &str) -> Answer {
    let (kind, name, body) = (target.kind, &target.name, &asked.body);
    let key = Key::new(kind, &target.namespace, name);
    if body["metadata"]["resourceVersion"].is_null() && !kind.unconditional {
        let why = "metadata.resourceVersion: Invalid value: 0: must be specified for an update";
        return answer::invalid(kind, name, why);
    }
    let Some(before) = objects.get(&key).cloned() else {
        return if kind == kinds::LEASES {
            make_by_update(objects, &key, body, now)
        } else {
            answer::not_found(kind, name)
        };
    };
    let mut after = body.clone();
    if let Err(refused) = preconditions(kind, &before, &after) {
        return refused;
    }
    after["apiVersion"] = before["apiVersion"].clone();
    after["kind"] = before["kind"].clone();
    store(objects, target, &key, &before, after, Some(&asked.manager()))
}

/// Refuses a write that was made from another version, or for another object of the same name.
fn preconditions(kind: Kind, before: &Value, asked: &Value) -> Result<(), Answer> {
    let name = before["metadata"]["name"].as_str().unwrap_or_default();
    let (asked, known) = (&asked["metadata"], &before["metadata"]);
    if !asked["uid"].is_null() && asked["uid"] != known["uid"] {
        let why = format!(
            "Precondition failed: UID in precondition: {}, UID in object meta: {}",
            asked["uid"].as_str().unwrap_or_default(),
            known["uid"].as_str().unwrap_or_default()
        );
        return Err(answer::conflict(kind, name, &why));
    }
    let version = asked["resourceVersion"].as_str().unwrap_or_default();
    if !version.is_empty() && asked["resourceVersion"] != known["resourceVersion"] {
        return Err(answer::conflict(kind, name, answer::MODIFIED));
    }
    Ok(())
}

/// Stores an object that was changed: only the part that the path names, and only if that makes a difference.
fn store(
    objects: &mut Objects,
    target: &Target,
    key: &Key,
    before: &Value,
    asked: Value,
    updated_by: Option<&str>,
) -> Answer {
    let kind = target.kind;
    let mut after = if target.part == "status" {
        let mut after = before.clone();
        set_or_remove(&mut after, "status", asked.get("status"));
        after
    } else {
        let mut after = asked;
        if kind.status {
            set_or_remove(&mut after, "status", before.get("status"));
        }
        for system in SYSTEM.iter().chain(&["name", "namespace"]) {
            set_or_remove(&mut after["metadata"], system, before["metadata"].get(*system));
        }
        after
    };
    schema::prune(kind, &mut after);
    if kind == kinds::PODS && fixed(before) != fixed(&after) {
        let why = "spec: Forbidden: pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";
        return answer::invalid(kind, &key.name, why);
    }
    let managed = |object: &Value| object["metadata"].get("managedFields").cloned();
    if updated_by.is_some() {
        set_or_remove(&mut after["metadata"], "managedFields", managed(before).as_ref());
    }
    after["metadata"]["resourceVersion"] = before["metadata"]["resourceVersion"].clone();
    if is_same(before, &after) {
        return (200, before.clone());
    }
    if kind.generation && without_meta(before) != without_meta(&after) {
        let generation = before["metadata"]["generation"].as_i64().unwrap_or(1);
        after["metadata"]["generation"] = json!(generation + 1);
    }
    if let Some(manager) = updated_by {
        merge::note_update(before, &mut after, manager);
    }
    let stored = objects.put(key, after);
    // What is being deleted and is held up by nobody any more is gone.
    let metadata = &stored["metadata"];
    let free = metadata["finalizers"].as_array().is_none_or(Vec::is_empty);
    if kind != kinds::PODS && !metadata["deletionTimestamp"].is_null() && free {
        objects.remove(key);
    }
    (200, stored)
}

/// What of a pod's spec stays as it was made.
fn fixed(pod: &Value) -> Value {
    let mut spec = pod["spec"].clone();
    for lists in ["containers", "initContainers"] {
        for container in spec[lists].as_array_mut().into_iter().flatten() {
            set_or_remove(container, "image", None);
        }
    }
    for changeable in ["tolerations", "activeDeadlineSeconds"] {
        set_or_remove(&mut spec, changeable, None);
    }
    spec
}

fn is_same(before: &Value, after: &Value) -> bool {
    let without = |object: &Value| {
        let mut object = object.clone();
        set_or_remove(&mut object["metadata"], "managedFields", None);
        object
    };
    without(before) == without(after)
}

fn without_meta(object: &Value) -> Value {
    let mut object = object.clone();
    set_or_remove(&mut object, "metadata", None);
    set_or_remove(&mut object, "status", None);
    object
}

fn set_or_remove(object: &mut Value, key: &str, value: Option<&Value>) {
    if !object.is_object() {
        *object = Value::Object(Map::new());
    }
    let Value::Object(fields) = object else { return };
    match value {
        Some(value) => drop(fields.insert(key.to_owned(), value.clone())),
        None => drop(fields.remove(key)),
    }
}

fn patch(objects: &mut Objects, asked: &Asked, target: &Target, now: &str) -> Answer {
    let (kind, name) = (target.kind, &target.name);
    let key = Key::new(kind, &target.namespace, name);
    let found = objects.get(&key).cloned();
    let is_apply = asked.content.contains("apply-patch");
    let is_strategic = asked.content.contains("strategic-merge-patch");
    if is_strategic && kind.is_custom() {
        return answer::unsupported(&asked.content);
    }
    let Some(before) = found else {
        if !is_apply || !target.part.is_empty() {
            return answer::not_found(kind, name);
        }
        if !asked.body["metadata"]["uid"].is_null() {
            return answer::conflict(kind, name, "uid mismatch: the object was deleted");
        }
        let object = born(objects, kind, &key, asked.body.clone(), now);
        let bare = json!({"metadata": {}});
        let managed = merge::apply(&bare, &asked.body, &asked.manager(), true).unwrap_or_default();
        let mut object = object;
        object["metadata"]["managedFields"] = managed["metadata"]["managedFields"].clone();
        return (201, objects.put(&key, object));
    };
    // Unlike an update and a deletion, a patch meets the version first, and is told that a UID does not change.
    let version = json!({"metadata": {"resourceVersion": asked.body["metadata"]["resourceVersion"]}});
    if let Err(refused) = preconditions(kind, &before, &version) {
        return refused;
    }
    if preconditions(kind, &before, &asked.body).is_err() {
        return answer::invalid(kind, name, "metadata.uid: Invalid value: field is immutable");
    }
    if is_apply {
        return match merge::apply(&before, &asked.body, &asked.manager(), asked.is_on("force")) {
            Ok(after) => store(objects, target, &key, &before, after, None),
            Err(clashes) => {
                let message = format!("Apply failed with {} conflict: {}", clashes.len(), clashes.join(", "));
                answer::failure(409, "Conflict", &message, json!({}))
            }
        };
    }
    let mut after = before.clone();
    if is_strategic {
        merge::strategic(&mut after, &asked.body);
    } else {
        merge::merge(&mut after, &asked.body);
    }
    store(objects, target, &key, &before, after, Some(&asked.manager()))
}

fn delete(objects: &mut Objects, options: &Value, target: &Target, now: &str) -> Answer {
    let (kind, name) = (target.kind, &target.name);
    let key = Key::new(kind, &target.namespace, name);
    let Some(object) = objects.get(&key).cloned() else { return answer::not_found(kind, name) };
    let preconditions_asked = json!({"metadata": options["preconditions"]});
    if let Err(refused) = preconditions(kind, &object, &preconditions_asked) {
        return refused;
    }
    let grace = grace_of(kind, &object, options);
    let held = object["metadata"]["finalizers"].as_array().is_some_and(|all| !all.is_empty());
    if grace == 0 && !held {
        objects.remove(&key);
        if kind == kinds::PODS {
            return (200, object);
        }
        let details =
            json!({"name": name, "group": kind.group, "kind": kind.plural, "uid": object["metadata"]["uid"]});
        let status = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details});
        return (200, status);
    }
    if !object["metadata"]["deletionTimestamp"].is_null() {
        return (200, object);
    }
    let mut object = object;
    object["metadata"]["deletionTimestamp"] = json!(now);
    object["metadata"]["deletionGracePeriodSeconds"] = json!(grace);
    (200, objects.put(&key, object))
}

/// How long an object may take to end. Only pods take any time, and only where a node has them.
fn grace_of(kind: Kind, object: &Value, options: &Value) -> i64 {
    if kind != kinds::PODS || object["spec"]["nodeName"].is_null() {
        return 0;
    }
    let asked = options["gracePeriodSeconds"].as_i64();
    asked.or(object["spec"]["terminationGracePeriodSeconds"].as_i64()).unwrap_or(GRACE)
}

/// Deletes what belongs to nobody any more, and says whether there was any: owners are known by their UIDs.
pub(super) fn collect_garbage(objects: &mut Objects, now: &str) -> bool {
    let uid_of = |object: &Value| object["metadata"]["uid"].as_str().map(str::to_owned);
    let uids: HashSet<String> = objects.all().filter_map(|(_, object)| uid_of(object)).collect();
    let orphan = |object: &Value| {
        let owners = object["metadata"]["ownerReferences"].as_array();
        let known = |owner: &Value| kinds::Kind::named(owner["kind"].as_str().unwrap_or_default()).is_some();
        owners.is_some_and(|owners| {
            let lives = |owner: &Value| owner["uid"].as_str().is_some_and(|uid| uids.contains(uid));
            !owners.is_empty() && owners.iter().all(|owner| known(owner) && !lives(owner))
        })
    };
    let going = |object: &Value| !object["metadata"]["deletionTimestamp"].is_null();
    let orphans: Vec<Key> = objects
        .all()
        .filter(|(_, object)| orphan(object) && !going(object))
        .map(|(key, _)| key.clone())
        .collect();
    for key in &orphans {
        if let Some(kind) = kinds::ALL.iter().copied().find(|kind| kind.plural == key.plural) {
            let (namespace, name) = (key.namespace.clone(), key.name.clone());
            delete(objects, &json!({}), &Target { kind, namespace, name, part: String::new() }, now);
        }
    }
    !orphans.is_empty()
}
