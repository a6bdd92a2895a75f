//! What users write: reading what an older API server or operator stored.

use k8s_openapi::{api::core::v1::ResourceRequirements, apimachinery::pkg::apis::meta::v1::Time};
use serde::{Deserialize, Deserializer, de::Error};
use serde_json::Value;

/// A time, or nothing where the text is none: the classic operator kept times as free strings, and an odd one must not make the
/// whole object unreadable.
pub fn time<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Time>, D::Error> {
    let text = Option::<String>::deserialize(deserializer)?;
    Ok(text.and_then(|text| serde_json::from_value(Value::String(text)).ok()))
}

/// Resources, whose quantities the schema leaves open: what is no scalar becomes its own text, which is no quantity, so that the rules can
/// say so instead of the object being unreadable.
pub fn resources<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<ResourceRequirements>, D::Error> {
    let mut value = Value::deserialize(deserializer)?;
    for list in ["limits", "requests"] {
        for quantity in
            value.get_mut(list).and_then(Value::as_object_mut).into_iter().flat_map(|all| all.values_mut())
        {
            if !quantity.is_string() && !quantity.is_number() {
                *quantity = Value::String(quantity.to_string());
            }
        }
    }
    serde_json::from_value(value).map_err(D::Error::custom)
}

#[cfg(test)]
mod tests {
    use crate::PodPolicy;

    #[test]
    fn any_quantity_can_be_read() {
        for (text, read) in [
            ("0.5", "0.5"),
            ("1", "1"),
            ("\"500m\"", "500m"),
            ("true", "true"),
            ("null", "null"),
            (r#"{"a":1}"#, r#"{"a":1}"#),
        ] {
            let pod: PodPolicy =
                serde_json::from_str(&format!(r#"{{"resources":{{"limits":{{"cpu":{text}}}}}}}"#)).unwrap();
            assert_eq!(pod.resources.unwrap().limits.unwrap()["cpu"].0, read);
        }
        let none: PodPolicy = serde_json::from_str(r#"{"resources":null}"#).unwrap();
        assert_eq!(none.resources, None);
    }
}
