//! FAKES: how patches change objects: JSON merge patch, and as much of strategic merge patch and server-side apply as the operator uses.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

/// Changes an object by a JSON merge patch (RFC 7386).
pub fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    let Value::Object(target) = target else { return };
    for (key, value) in patch {
        if value.is_null() {
            target.remove(key);
        } else {
            merge(target.entry(key.clone()).or_insert(Value::Null), value);
        }
    }
}

/// Lists whose items a strategic merge patch tells apart, and by what. Every other list it replaces.
const KEYED: &[(&str, &str)] = &[
    ("containers", "name"),
    ("initContainers", "name"),
    ("volumes", "name"),
    ("env", "name"),
    ("volumeMounts", "mountPath"),
    ("ownerReferences", "uid"),
];

/// Changes an object by a strategic merge patch: like a merge patch, but an item of a list is found by its key, and the others stay.
pub fn strategic(target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    let Value::Object(target) = target else { return };
    for (key, value) in patch {
        let keyed = KEYED.iter().find(|(list, _)| list == key).map(|(_, by)| *by);
        match (keyed, value) {
            (_, Value::Null) => drop(target.remove(key)),
            (Some(by), Value::Array(items)) => {
                strategic_list(target.entry(key.clone()).or_insert_with(|| json!([])), items, by);
            }
            _ => strategic(target.entry(key.clone()).or_insert(Value::Null), value),
        }
    }
}

fn strategic_list(target: &mut Value, items: &[Value], by: &str) {
    if !target.is_array() {
        *target = json!([]);
    }
    let Value::Array(target) = target else { return };
    for item in items {
        match target.iter_mut().find(|found| found[by] == item[by]) {
            Some(found) => strategic(found, item),
            None => target.push(item.clone()),
        }
    }
}

/// Fields that are taken or left as a whole. Lists are, here, all of them: of the two lists that the operator applies, `ports`
/// and `ownerReferences`, it is always the only author.
const ATOMIC: &[&str] = &["/spec/selector"];

/// What the metadata of an applied object says about the request, not about the object.
const NOT_FIELDS: &[&str] = &[
    "/apiVersion",
    "/kind",
    "/metadata/name",
    "/metadata/namespace",
    "/metadata/uid",
    "/metadata/resourceVersion",
    "/metadata/managedFields",
    "/metadata/creationTimestamp",
];

/// The fields of an object, down to what is taken or left as a whole.
#[must_use]
pub fn fields(object: &Value) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    collect(object, "", &mut found);
    found
}

fn collect(value: &Value, path: &str, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(map) if !ATOMIC.contains(&path) && (path.is_empty() || !map.is_empty()) => {
            for (key, below) in map {
                let below_path = format!("{path}/{}", key.replace('~', "~0").replace('/', "~1"));
                collect(below, &below_path, found);
            }
        }
        _ => {
            if !NOT_FIELDS.contains(&path) {
                found.insert(path.to_owned());
            }
        }
    }
}

/// Who wrote which fields, as the object itself remembers it.
fn managers(object: &Value) -> Vec<(String, String, BTreeSet<String>)> {
    let entries = object["metadata"]["managedFields"].as_array().cloned().unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    entries
        .iter()
        .map(|entry| {
            let fields = entry["fields"].as_array().into_iter().flatten().map(text).collect();
            (text(&entry["manager"]), text(&entry["operation"]), fields)
        })
        .collect()
}

fn remember(object: &mut Value, managers: Vec<(String, String, BTreeSet<String>)>) {
    let entries = managers.into_iter().filter(|(_, _, fields)| !fields.is_empty()).map(
        |(manager, operation, fields)| json!({"manager": manager, "operation": operation, "fields": fields}),
    );
    object["metadata"]["managedFields"] = Value::Array(entries.collect());
}

/// Notes who has changed what by a write that is no apply.
pub fn note_update(before: &Value, after: &mut Value, manager: &str) {
    let mut known = managers(before);
    let (old, new) = (fields(before), fields(after));
    let changed: BTreeSet<String> = new
        .iter()
        .filter(|path| !old.contains(*path) || before.pointer(path) != after.pointer(path))
        .filter(|path| !path.starts_with("/metadata/generation"))
        .cloned()
        .collect();
    for (_, _, fields) in &mut known {
        fields.retain(|path| new.contains(path) && !changed.contains(path));
    }
    match known.iter_mut().find(|(name, operation, _)| name == manager && operation == "Update") {
        Some((_, _, fields)) => fields.extend(changed),
        None => known.push((manager.to_owned(), "Update".to_owned(), changed)),
    }
    remember(after, known);
}

/// Applies an object over another; the managers whose fields stand in the way, unless by force.
pub fn apply(before: &Value, applied: &Value, manager: &str, force: bool) -> Result<Value, Vec<String>> {
    let mut known = managers(before);
    let ours = fields(applied);
    let differs = |path: &String| before.pointer(path) != applied.pointer(path);
    let in_the_way: Vec<String> = known
        .iter()
        .filter(|(name, operation, _)| !(name == manager && operation == "Apply"))
        .flat_map(|(name, _, fields)| {
            let clash = fields.iter().filter(|path| ours.contains(*path) && differs(path));
            clash.map(move |path| format!("conflict with \"{name}\": {}", path.replace('/', ".")))
        })
        .collect();
    if !force && !in_the_way.is_empty() {
        return Err(in_the_way);
    }
    let mut after = before.clone();
    for (name, operation, fields) in &mut known {
        if !(name == manager && operation == "Apply") {
            fields.retain(|path| !(ours.contains(path) && differs(path)));
        }
    }
    let position = known.iter().position(|(name, operation, _)| name == manager && operation == "Apply");
    let previously = position.map(|index| known.remove(index).2).unwrap_or_default();
    for path in previously.difference(&ours) {
        let shared = known.iter().any(|(_, _, fields)| fields.contains(path));
        if !shared {
            remove(&mut after, path);
        }
    }
    for path in &ours {
        set(&mut after, path, applied.pointer(path).cloned().unwrap_or_default());
    }
    known.push((manager.to_owned(), "Apply".to_owned(), ours));
    remember(&mut after, known);
    Ok(after)
}

fn keys(path: &str) -> Vec<String> {
    path.split('/').skip(1).map(|key| key.replace("~1", "/").replace("~0", "~")).collect()
}

fn set(object: &mut Value, path: &str, value: Value) {
    let mut at = object;
    for key in keys(path) {
        if !at.is_object() {
            *at = Value::Object(Map::new());
        }
        let Value::Object(map) = at else { return };
        at = map.entry(key).or_insert(Value::Null);
    }
    *at = value;
}

fn remove(object: &mut Value, path: &str) {
    let Some((parent, key)) = path.rsplit_once('/') else { return };
    let key = key.replace("~1", "/").replace("~0", "~");
    if let Some(Value::Object(map)) = object.pointer_mut(parent) {
        map.remove(&key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_merge_patch_changes_what_it_names_and_removes_what_it_nulls() {
        let mut object = json!({"a": {"b": 1, "c": 2}, "d": [1, 2]});
        merge(&mut object, &json!({"a": {"b": null, "e": 3}, "d": [3]}));
        assert_eq!(object, json!({"a": {"c": 2, "e": 3}, "d": [3]}));
    }

    #[test]
    fn a_strategic_patch_finds_an_item_of_a_list_by_its_key_and_leaves_the_others() {
        let mut pod = json!({"spec": {"containers": [{"name": "a", "image": "1", "args": ["x"]}, {"name": "b"}],
            "tolerations": [{"key": "t"}]}});
        let patch =
            json!({"spec": {"containers": [{"name": "a", "image": "2"}], "tolerations": [{"key": "u"}]}});
        strategic(&mut pod, &patch);
        let containers = json!([{"name": "a", "image": "2", "args": ["x"]}, {"name": "b"}]);
        assert_eq!(pod, json!({"spec": {"containers": containers, "tolerations": [{"key": "u"}]}}));
        strategic(&mut pod, &json!({"spec": {"containers": [{"name": "c"}], "tolerations": null}}));
        assert_eq!(pod["spec"]["containers"][2], json!({"name": "c"}));
        assert!(pod["spec"].get("tolerations").is_none());
    }

    #[test]
    fn what_was_applied_once_and_is_not_any_more_is_removed_unless_somebody_else_wrote_it_too() {
        let first = apply(&json!({"metadata": {}}), &json!({"spec": {"a": 1, "b": 1}}), "m", false).unwrap();
        let second = apply(&first, &json!({"spec": {"a": 1}}), "m", false).unwrap();
        assert_eq!(second["spec"], json!({"a": 1}));
        let mut theirs = first.clone();
        theirs["spec"]["b"] = json!(2);
        note_update(&first, &mut theirs, "them");
        assert!(apply(&theirs, &json!({"spec": {"b": 1}}), "m", false).is_err());
        let kept = apply(&theirs, &json!({"spec": {"a": 1}}), "m", false).unwrap();
        assert_eq!(kept["spec"], json!({"a": 1, "b": 2}));
        let forced = apply(&theirs, &json!({"spec": {"b": 1}}), "m", true).unwrap();
        assert_eq!(forced["spec"], json!({"b": 1}));
    }
}
