//! What users write: the CRDs, as they are installed. kube derives them from the types; this gives them what it cannot.

use std::collections::BTreeMap;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool,
};
use kube::CustomResourceExt;

use crate::{
    EtcdBackup, EtcdCluster, EtcdRestore,
    names::{self, ANNOTATION_SCHEMA},
};

/// The number of our schemas, all three together. It stands on each CRD, also on those that people install from a file: a CRD without it is
/// older than any. An operator leaves a CRD with a higher number as it is, because its own would drop the fields that are new there from
/// every object, the record of birth perhaps among them.
///
/// It is raised with every change of the schemas; `tests/schema.rs` notices.
pub const SCHEMA: u32 = 1;

/// The number of the schemas that a CRD with these annotations belongs to: nothing for one that cannot be read, which is not ours to judge.
#[must_use]
pub fn schema_of(annotations: Option<&BTreeMap<String, String>>) -> Option<u32> {
    annotations.and_then(|all| all.get(ANNOTATION_SCHEMA)).map_or(Some(0), |number| number.parse().ok())
}

/// The longest text in a field that sets no limit of its own.
pub const MAX_TEXT: i64 = 1024;
/// The longest list in a field that sets no limit of its own.
pub const MAX_ITEMS: i64 = 64;
/// The largest map in a field that sets no limit of its own.
pub const MAX_PROPERTIES: i64 = 64;

/// The CRD of `EtcdCluster`.
#[must_use]
pub fn cluster() -> CustomResourceDefinition {
    installed(EtcdCluster::crd())
}

/// The CRD of `EtcdBackup`.
#[must_use]
pub fn backup() -> CustomResourceDefinition {
    installed(EtcdBackup::crd())
}

/// The CRD of `EtcdRestore`.
#[must_use]
pub fn restore() -> CustomResourceDefinition {
    installed(EtcdRestore::crd())
}

/// All three.
#[must_use]
pub fn all() -> [CustomResourceDefinition; 3] {
    [cluster(), backup(), restore()]
}

/// Limits that the types of Kubernetes cannot carry: a variable's name, which a costly rule reads, and its value, which may be long.
const LIMITS: &[(&[&str], i64)] =
    &[(&["spec", "pod", "etcdEnv", "name"], 256), (&["spec", "pod", "etcdEnv", "value"], 32_768)];

/// Maps of quantities that old objects may hold as fractions (`cpu: 0.5`), which a schema of integers and texts would refuse.
const OPEN_QUANTITIES: &[&[&str]] =
    &[&["spec", "pod", "resources", "limits"], &["spec", "pod", "resources", "requests"]];

fn installed(mut crd: CustomResourceDefinition) -> CustomResourceDefinition {
    crd.metadata.labels = Some(names::operator_labels());
    let number = (ANNOTATION_SCHEMA.to_owned(), SCHEMA.to_string());
    crd.metadata.annotations.get_or_insert_default().extend([number]);
    crd.spec.names.list_kind = Some(format!("{}List", crd.spec.names.kind));
    for version in &mut crd.spec.versions {
        if let Some(schema) = version.schema.as_mut().and_then(|all| all.open_api_v3_schema.as_mut()) {
            shape(schema);
            for (path, limit) in LIMITS {
                if let Some(field) = descend(schema, path) {
                    field.max_length = Some(*limit);
                }
            }
            for path in OPEN_QUANTITIES {
                if let Some(map) = descend(schema, path) {
                    map.additional_properties =
                        Some(JSONSchemaPropsOrBool::Schema(Box::new(JSONSchemaProps {
                            description: Some("A quantity, such as 500m, 0.5 or 512Mi.".to_owned()),
                            x_kubernetes_preserve_unknown_fields: Some(true),
                            ..Default::default()
                        })));
                }
            }
        }
    }
    crd
}

/// The schema of a field, whose path leads through lists as if they were their items.
fn descend<'a>(mut schema: &'a mut JSONSchemaProps, path: &[&str]) -> Option<&'a mut JSONSchemaProps> {
    for name in path {
        schema = schema.properties.as_mut()?.get_mut(*name)?;
        if matches!(schema.items, Some(JSONSchemaPropsOrArray::Schema(_))) {
            let Some(JSONSchemaPropsOrArray::Schema(item)) = schema.items.as_mut() else {
                return None;
            };
            schema = item;
        }
    }
    Some(schema)
}

/// A text without the line breaks of our source, which `kubectl explain` would repeat. Paragraphs, and lists in the texts of Kubernetes'
/// own types, keep theirs.
fn unwrapped(text: &str) -> String {
    let mut lines = text.lines();
    let mut joined = lines.next().unwrap_or_default().to_owned();
    for line in lines {
        let continues = line.starts_with(|c: char| c.is_alphanumeric() || matches!(c, '`' | '.' | '(' | '"'));
        let separator = if continues && !joined.ends_with('\n') && !joined.is_empty() { ' ' } else { '\n' };
        joined.push(separator);
        joined.push_str(line);
    }
    joined
}

/// Makes a schema, and all below it, one that takes old objects and costs little.
fn shape(schema: &mut JSONSchemaProps) {
    // Without `nullable` the API server drops a null, as Go did when it wrote one for "nothing"; with it the null stays, and `has()`
    // in a CEL rule is true of it.
    schema.nullable = None;
    if let Some(description) = schema.description.as_mut() {
        *description = unwrapped(description);
    }
    if schema.default.as_ref().is_some_and(|default| default.0.is_null()) {
        schema.default = None;
    }
    // Rust's names for number formats mean nothing to Kubernetes.
    if schema.format.as_deref().is_some_and(|format| format.starts_with("uint")) {
        schema.format = None;
    }
    match schema.type_.as_deref() {
        Some("string") if schema.enum_.is_none() && schema.format.is_none() => {
            schema.max_length.get_or_insert(MAX_TEXT);
        }
        Some("array") => {
            schema.max_items.get_or_insert(MAX_ITEMS);
        }
        Some("object") if schema.additional_properties.is_some() => {
            schema.max_properties.get_or_insert(MAX_PROPERTIES);
        }
        _ => {}
    }
    for property in schema.properties.iter_mut().flat_map(|all| all.values_mut()) {
        shape(property);
    }
    match schema.items.as_mut() {
        Some(JSONSchemaPropsOrArray::Schema(item)) => shape(item),
        Some(JSONSchemaPropsOrArray::Schemas(items)) => items.iter_mut().for_each(shape),
        None => {}
    }
    if let Some(JSONSchemaPropsOrBool::Schema(values)) = schema.additional_properties.as_mut() {
        shape(values);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_crd_says_which_schemas_it_belongs_to_and_one_that_says_nothing_is_older() {
        for crd in all() {
            assert_eq!(schema_of(crd.metadata.annotations.as_ref()), Some(SCHEMA));
        }
        let number = |text: &str| BTreeMap::from([(ANNOTATION_SCHEMA.to_owned(), text.to_owned())]);
        for (annotations, expected) in [
            (None, Some(0)),
            (Some(BTreeMap::new()), Some(0)),
            (Some(number("7")), Some(7)),
            (Some(number("7.1")), None),
        ] {
            assert_eq!(schema_of(annotations.as_ref()), expected, "{annotations:?}");
        }
    }

    #[test]
    fn only_the_line_breaks_of_our_source_go() {
        let table = [
            ("one\ntwo", "one two"),
            ("one\n\ntwo\nthree", "one\n\ntwo three"),
            ("one:\n- a\n- b", "one:\n- a\n- b"),
            ("ends with\n.svc", "ends with .svc"),
        ];
        for (text, expected) in table {
            assert_eq!(unwrapped(text), expected);
        }
    }
}
