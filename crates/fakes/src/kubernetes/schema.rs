//! FAKES: what an API server does to an object of ours before it stores it: fields that the CRD does not know are dropped without a
//! word. Rules in CEL are not run here; the real API server's are tested where they are made.

use std::sync::LazyLock;

use serde_json::Value;

use super::kinds::Kind;

/// The CRDs, made once: deriving the schemas of Kubernetes' own types takes longer than storing an object.
static CRDS: LazyLock<Vec<Value>> = LazyLock::new(|| {
    let crds = api::crd::all();
    crds.iter().map(|crd| serde_json::to_value(crd).unwrap_or_default()).collect()
});

/// Drops what the kind's schema does not know.
pub(super) fn prune(kind: Kind, object: &mut Value) {
    if !kind.is_custom() {
        return;
    }
    let Some(crd) = CRDS.iter().find(|crd| crd["spec"]["names"]["plural"] == kind.plural) else { return };
    let schema = &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
    let Value::Object(fields) = object else { return };
    for (name, field) in fields.iter_mut() {
        if !["apiVersion", "kind", "metadata"].contains(&name.as_str()) {
            prune_below(&schema["properties"][name.as_str()], field);
        }
    }
}

fn prune_below(schema: &Value, value: &mut Value) {
    if schema["x-kubernetes-preserve-unknown-fields"] == true {
        return;
    }
    match value {
        Value::Object(fields) => {
            let known = &schema["properties"];
            let others = &schema["additionalProperties"];
            let nullable = |name: &str| known[name]["nullable"] == true;
            fields.retain(|name, field| {
                (known.get(name).is_some() || others.is_object()) && (!field.is_null() || nullable(name))
            });
            for (name, field) in fields.iter_mut() {
                prune_below(known.get(name).unwrap_or(others), field);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| prune_below(&schema["items"], item)),
        _ => {}
    }
}
