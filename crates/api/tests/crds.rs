//! The CRDs: names, columns and subresources that people and tools rely on, and a limit and a description on every field.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a failed test is what a panic is for"
)]

mod common;

use api::crd;
use serde_json::{Value, json};

fn values() -> Vec<Value> {
    crd::all().iter().map(|crd| serde_json::to_value(crd).unwrap()).collect()
}

fn schema(crd: &Value) -> &Value {
    &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
}

/// Calls `visit` for every schema below this one, with its path.
fn walk(schema: &Value, path: &str, visit: &mut impl FnMut(&str, &Value)) {
    visit(path, schema);
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        walk(property, &format!("{path}.{name}"), visit);
    }
    for below in ["items", "additionalProperties"] {
        if schema[below].is_object() {
            walk(&schema[below], &format!("{path}[]"), visit);
        }
    }
}

/// Quantities of resources: Go took any number there, so the schema takes anything and the code judges.
fn is_open(path: &str) -> bool {
    [".spec.pod.resources.limits[]", ".spec.pod.resources.requests[]"].contains(&path)
}

#[test]
fn names_are_the_classic_ones() {
    let table = [
        ("EtcdCluster", "etcdclusters", json!(["etcdclus", "etcd"])),
        ("EtcdBackup", "etcdbackups", Value::Null),
        ("EtcdRestore", "etcdrestores", Value::Null),
    ];
    for (crd, (kind, plural, short_names)) in values().iter().zip(table) {
        assert_eq!(crd["metadata"]["name"], format!("{plural}.etcd.database.coreos.com"));
        assert_eq!(crd["spec"]["group"], api::GROUP);
        assert_eq!(crd["spec"]["scope"], "Namespaced");
        let names = &crd["spec"]["names"];
        assert_eq!(names["kind"], kind);
        assert_eq!(names["listKind"], format!("{kind}List"));
        assert_eq!(names["plural"], plural);
        assert_eq!(names["singular"], kind.to_lowercase());
        assert_eq!(names["shortNames"], short_names);
        // `etcd` would hide the short name, and `all` would let `kubectl delete all --all` take databases along.
        assert_eq!(names["categories"], json!(["etcd-operator"]));
        let version = &crd["spec"]["versions"][0];
        assert_eq!(
            (&version["name"], &version["served"], &version["storage"]),
            (&json!("v1beta2"), &json!(true), &json!(true))
        );
    }
}

#[test]
fn a_cluster_answers_at_a_glance_and_can_be_scaled() {
    let cluster = &values()[0];
    let version = &cluster["spec"]["versions"][0];
    let columns: Vec<(&str, u64)> = version["additionalPrinterColumns"]
        .as_array()
        .unwrap()
        .iter()
        .map(|column| (column["name"].as_str().unwrap(), column["priority"].as_u64().unwrap_or(0)))
        .collect();
    assert_eq!(
        columns,
        [
            ("Phase", 0),
            ("Available", 0),
            ("Ready", 0),
            ("Version", 0),
            ("Target", 1),
            ("Reason", 1),
            ("Service", 1),
            ("Age", 0)
        ]
    );
    assert_eq!(version["subresources"]["scale"]["specReplicasPath"], ".spec.size");
    assert_eq!(version["subresources"]["scale"]["statusReplicasPath"], ".status.size");
    assert_eq!(version["subresources"]["status"], json!({}));
}

#[test]
fn conditions_are_a_map_by_type() {
    for crd in values() {
        let conditions = &schema(&crd)["properties"]["status"]["properties"]["conditions"];
        assert_eq!(conditions["x-kubernetes-list-type"], "map");
        assert_eq!(conditions["x-kubernetes-list-map-keys"], json!(["type"]));
    }
}

#[test]
fn entries_with_names_are_maps_so_that_two_who_apply_them_do_not_take_each_others_away() {
    let mut maps = Vec::new();
    walk(schema(&values()[0]), "", &mut |path, schema| {
        if schema["x-kubernetes-list-type"] == "map" {
            let keys = schema["x-kubernetes-list-map-keys"].as_array().unwrap();
            let required = schema["items"]["required"].as_array().unwrap();
            assert!(
                keys.iter().all(|key| required.contains(key)),
                "{path}: the API server takes no other keys"
            );
            maps.push((path.to_owned(), keys[0].as_str().unwrap().to_owned()));
        }
    });
    let ours: Vec<(&str, &str)> = maps.iter().map(|(path, key)| (path.as_str(), key.as_str())).collect();
    assert_eq!(
        ours,
        [
            (".spec.pod.etcdEnv", "name"),
            (".spec.pod.imagePullSecrets", "name"),
            (".status.conditions", "type"),
            (".status.memberDetails", "name"),
        ]
    );
}

#[test]
fn no_word_of_a_status_is_closed_so_that_the_status_of_a_newer_operator_is_taken() {
    for crd in values() {
        walk(&schema(&crd)["properties"]["status"], ".status", &mut |path, schema| {
            assert_eq!(schema.get("enum"), None, "{path}");
        });
    }
    let mut object = common::fixtures("good-update").remove(0).documents.remove(0);
    object["status"]["phase"] = json!("Recovering");
    assert_eq!(common::server::admit(&object, None).err(), None);
}

#[test]
fn every_field_is_described() {
    for crd in values() {
        let kind = crd["spec"]["names"]["kind"].as_str().unwrap();
        walk(schema(&crd), kind, &mut |path, schema| {
            let described = schema["description"].as_str().is_some_and(|text| !text.is_empty());
            assert!(described || path.ends_with("[]"), "{path}");
        });
    }
}

#[test]
fn every_text_list_and_map_has_a_limit() {
    for crd in values() {
        walk(schema(&crd), "", &mut |path, schema| match schema["type"].as_str() {
            Some("string") => {
                let bound = ["maxLength", "enum", "format"].iter().any(|key| schema.get(key).is_some());
                assert!(bound, "{path}");
            }
            Some("array") => assert!(schema["maxItems"].is_u64(), "{path}"),
            Some("object") => {
                assert!(
                    schema.get("additionalProperties").is_none() || schema["maxProperties"].is_u64(),
                    "{path}"
                );
            }
            Some(_) => {}
            None => {
                let number = schema["x-kubernetes-int-or-string"] == true || is_open(path);
                assert!(number, "{path} has no type");
            }
        });
    }
}

#[test]
fn nulls_are_dropped_and_nothing_but_two_fields_is_defaulted() {
    let mut defaults = Vec::new();
    for crd in values() {
        walk(schema(&crd), "", &mut |path, schema| {
            assert_eq!(schema.get("nullable"), None, "{path}");
            assert!(schema.get("x-kubernetes-preserve-unknown-fields").is_none() || is_open(path), "{path}");
            if let Some(default) = schema.get("default") {
                defaults.push((path.to_owned(), default.clone()));
            }
        });
    }
    assert_eq!(
        defaults,
        [
            (".spec.repository".to_owned(), json!(api::defaults::REPOSITORY)),
            (".spec.version".to_owned(), json!(api::defaults::VERSION)),
        ]
    );
}

#[test]
fn a_crd_fits_into_the_annotation_of_kubectl_apply() {
    for crd in crd::all() {
        assert!(serde_json::to_string(&crd).unwrap().len() < 262_144 * 3 / 4);
    }
}
