//! The number of our schemas is raised whenever they change: by it, an operator knows a CRD that is newer than its own.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test that panics has failed")]

use api::crd::SCHEMA;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

/// The number, and the beginning of a digest of what the API server does by the schemas that have it.
const PINNED: (u32, &str) = (1, "bddc909cc9d2fe8e");

/// Texts for people may change without a new number.
fn without_descriptions(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            // A field of ours may have this name; then it is no text.
            fields.retain(|key, value| key != "description" || !value.is_string());
            fields.values_mut().for_each(without_descriptions);
        }
        Value::Array(items) => items.iter_mut().for_each(without_descriptions),
        _ => {}
    }
}

#[test]
fn the_number_of_the_schemas_is_raised_when_they_change() {
    let mut schemas =
        Value::Array(api::crd::all().iter().map(|crd| serde_json::to_value(&crd.spec).unwrap()).collect());
    without_descriptions(&mut schemas);
    let digest: String = Sha256::digest(schemas.to_string())
        .iter()
        .take(8)
        .fold(String::new(), |text, byte| text + &format!("{byte:02x}"));
    assert_eq!(
        (SCHEMA, digest.as_str()),
        PINNED,
        "the schemas have changed: raise api::crd::SCHEMA by one, and write both here"
    );
}
