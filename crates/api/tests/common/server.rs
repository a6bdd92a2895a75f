//! For the tests of the API: what an API server does to an object before it stores it: drop nulls, fill in defaults, check the schema and
//! the keys of list maps, run the CEL rules. The last is kube's own; the rest is as much as our schemas use. The testbed asks the real one.

use std::sync::LazyLock;

use api::crd;
use kube_cel::{Validator, apply_defaults};
use serde_json::{Map, Value};

/// A refusal, as (path, message).
pub(crate) type Refusals = Vec<(String, String)>;

/// The CRDs, made once: deriving the schemas of Kubernetes' own types takes longer than checking an object.
static CRDS: LazyLock<Vec<Value>> =
    LazyLock::new(|| crd::all().iter().map(|crd| serde_json::to_value(crd).unwrap()).collect());

/// The schema of an object's kind.
pub(crate) fn schema_of(object: &Value) -> &'static Value {
    let crd = CRDS.iter().find(|crd| crd["spec"]["names"]["kind"] == object["kind"]).unwrap();
    &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
}

/// The object as it would be stored, or why it would not be.
pub(crate) fn admit(object: &Value, old: Option<&Value>) -> Result<Value, Refusals> {
    let schema = schema_of(object);
    let prepared = |object: &Value| {
        let mut object = object.clone();
        prune_nulls(schema, &mut object);
        apply_defaults(schema, &object)
    };
    let object = prepared(object);
    let mut refusals = Vec::new();
    check(schema, &object, "", &mut refusals);
    if !refusals.is_empty() {
        return Err(refusals);
    }
    let old = old.map(prepared);
    match Validator::new().validate(schema, &object, old.as_ref()) {
        Ok(()) => Ok(object),
        Err(errors) => Err(errors.iter().map(|e| (e.field_path.clone(), e.message.clone())).collect()),
    }
}

fn prune_nulls(schema: &Value, value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|name, field| !(field.is_null() && schema["properties"].get(name).is_some()));
            for (name, field) in fields {
                let below = schema["properties"].get(name).unwrap_or(&schema["additionalProperties"]);
                prune_nulls(below, field);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| prune_nulls(&schema["items"], item)),
        _ => {}
    }
}

fn check(schema: &Value, value: &Value, path: &str, refusals: &mut Refusals) {
    if schema["x-kubernetes-preserve-unknown-fields"] == true {
        return;
    }
    let mut refuse = |message: &str| refusals.push((path.to_owned(), message.to_owned()));
    let limit = |name: &str| schema[name].as_u64().and_then(|limit| usize::try_from(limit).ok());
    let type_matches = match schema["type"].as_str() {
        Some("object") => value.is_object(),
        Some("array") => value.is_array(),
        Some("string") => value.is_string(),
        Some("boolean") => value.is_boolean(),
        Some("integer") => value.is_i64(),
        Some("number") => value.is_number(),
        _ => schema["x-kubernetes-preserve-unknown-fields"] == true || value.is_string() || value.is_i64(),
    };
    if !type_matches {
        let type_ = schema["type"].as_str().unwrap_or("integer or string");
        return refuse(&format!("must be of type {type_}"));
    }
    if schema["enum"].as_array().is_some_and(|words| !words.contains(value)) {
        refuse("Unsupported value");
    }
    if schema["minimum"].as_f64().is_some_and(|minimum| value.as_f64().is_some_and(|value| value < minimum)) {
        refuse("should be greater");
    }
    match value {
        Value::String(text) => {
            let length = text.chars().count();
            if limit("maxLength").is_some_and(|max| length > max) {
                refuse("Too long");
            }
            if limit("minLength").is_some_and(|min| length < min) {
                refuse("should be longer");
            }
        }
        Value::Array(items) => {
            if limit("maxItems").is_some_and(|max| items.len() > max) {
                refuse("Too many");
            }
            for index in twice(schema, items) {
                refusals.push((format!("{path}[{index}]"), "Duplicate value".to_owned()));
            }
            for (index, item) in items.iter().enumerate() {
                check(&schema["items"], item, &format!("{path}[{index}]"), refusals);
            }
        }
        Value::Object(fields) => {
            if limit("maxProperties").is_some_and(|max| fields.len() > max) {
                refuse("Too many");
            }
            check_fields(schema, fields, path, refusals);
        }
        _ => {}
    }
}

/// Where a list map has an entry with the keys of one before it.
fn twice(schema: &Value, items: &[Value]) -> Vec<usize> {
    let keys: Vec<&str> = schema["x-kubernetes-list-map-keys"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    let same = |a: &Value, b: &Value| !keys.is_empty() && keys.iter().all(|key| a[*key] == b[*key]);
    let again = |(index, item): &(usize, &Value)| items.iter().take(*index).any(|before| same(before, item));
    items.iter().enumerate().filter(again).map(|(index, _)| index).collect()
}

fn check_fields(schema: &Value, fields: &Map<String, Value>, path: &str, refusals: &mut Refusals) {
    let below = |name: &str| {
        if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
    };
    for name in schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        if !fields.contains_key(name) {
            refusals.push((below(name), "Required value".to_owned()));
        }
    }
    for (name, field) in fields {
        // Not in the schema: `metadata` and `kind` at the root; anything else the server drops, and our fixtures have none of it.
        let Some(schema) = schema["properties"].get(name).or_else(|| schema.get("additionalProperties"))
        else {
            assert!(
                ["apiVersion", "kind", "metadata"].contains(&name.as_str()),
                "unknown field {}",
                below(name)
            );
            continue;
        };
        check(schema, field, &below(name), refusals);
    }
}
