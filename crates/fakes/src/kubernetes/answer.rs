//! FAKES: what the API server answers, in the words of the real one.

use serde_json::{Value, json};

use super::kinds::Kind;

/// An answer: its code and its body.
pub type Answer = (u16, Value);

/// An error as the API server words it.
#[must_use]
pub fn failure(code: u16, reason: &str, message: &str, details: Value) -> Answer {
    let mut status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": message, "reason": reason, "code": code,
    });
    if !details.is_null() {
        status["details"] = details;
    }
    (code, status)
}

fn details(kind: Kind, name: &str) -> Value {
    json!({"name": name, "group": kind.group, "kind": kind.plural})
}

/// The kind as error messages call it.
fn called(kind: Kind) -> String {
    if kind.group.is_empty() { kind.plural.to_owned() } else { format!("{}.{}", kind.plural, kind.group) }
}

/// There is no such object.
#[must_use]
pub fn not_found(kind: Kind, name: &str) -> Answer {
    failure(404, "NotFound", &format!("{} \"{name}\" not found", called(kind)), details(kind, name))
}

/// There is no such path.
#[must_use]
pub fn no_such_path() -> Answer {
    failure(404, "NotFound", "the server could not find the requested resource", json!({}))
}

/// There is one already.
#[must_use]
pub fn exists(kind: Kind, name: &str) -> Answer {
    let message = format!("{} \"{name}\" already exists", called(kind));
    failure(409, "AlreadyExists", &message, details(kind, name))
}

/// There is no room for another one.
#[must_use]
pub fn over_quota(kind: Kind, name: &Value) -> Answer {
    let plural = kind.plural;
    let limits = format!("requested: {plural}=1, used: {plural}=9, limited: {plural}=9");
    let message = format!("{} {name} is forbidden: exceeded quota: full, {limits}", called(kind));
    failure(403, "Forbidden", &message, details(kind, name.as_str().unwrap_or_default()))
}

/// Not now, and not before so many seconds have passed.
#[must_use]
pub fn busy(seconds: u64) -> Answer {
    let message = "the server has received too many requests and has asked us to try again later";
    failure(429, "TooManyRequests", message, json!({"retryAfterSeconds": seconds}))
}

/// It is not as it was.
#[must_use]
pub fn conflict(kind: Kind, name: &str, why: &str) -> Answer {
    let message = format!("Operation cannot be fulfilled on {} \"{name}\": {why}", called(kind));
    failure(409, "Conflict", &message, details(kind, name))
}

/// Why an update from an old version is refused.
pub(super) const MODIFIED: &str =
    "the object has been modified; please apply your changes to the latest version and try again";

/// It is not a valid object.
#[must_use]
pub fn invalid(kind: Kind, name: &str, why: &str) -> Answer {
    let message = format!("{}.{} \"{name}\" is invalid: {why}", kind.name, kind.group);
    failure(422, "Invalid", &message, details(kind, name))
}

/// It is no form of a patch that this kind takes.
#[must_use]
pub fn unsupported(content: &str) -> Answer {
    let message = format!(
        "the body of the request was in an unknown format - accepted media types include: application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml; it was {content}"
    );
    failure(415, "UnsupportedMediaType", &message, json!({}))
}

/// A watch that begins too far back.
#[must_use]
pub fn too_old(asked: u64, oldest: u64) -> Value {
    let message = format!("too old resource version: {asked} ({oldest})");
    json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": message, "reason": "Expired", "code": 410,
    })
}

/// An object without anything but its metadata.
#[must_use]
pub fn metadata_only(object: &Value) -> Value {
    json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": object["metadata"]})
}
