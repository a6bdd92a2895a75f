//! What users write: reading what an older API server or operator stored.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde::{Deserialize, Deserializer};

/// A time, or nothing where the text is none: the classic operator kept times as free strings, and an odd one must not make the
/// whole object unreadable.
pub fn time<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Time>, D::Error> {
    let text = Option::<String>::deserialize(deserializer)?;
    Ok(text.and_then(|text| serde_json::from_value(serde_json::Value::String(text)).ok()))
}
