//! ACT's reading of errors: whether a write was refused for good, met a world that had moved, or has an outcome that nobody knows.

use kube::core::Status;
use planner::RefusalClass;

use crate::gate::Failure;

/// What became of a write that has no good answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It was refused, and did not half happen.
    Refused(RefusalClass, String),
    /// The object is there already.
    Exists,
    /// The object is not as it was seen, or gone. Nothing happened.
    Moved(String),
    /// It may have happened.
    Unknown(String),
    /// It was not sent.
    NotSent,
}

/// What became of a write in this namespace.
#[must_use]
pub fn verdict(failure: &Failure, namespace: &str) -> Verdict {
    match failure {
        Failure::NotLeading => Verdict::NotSent,
        Failure::Api(kube::Error::Api(status)) => of_status(status, namespace),
        // etcd says in words what it refuses; that is for the next round to understand.
        Failure::Etcd(error) if !error.maybe_done() => {
            Verdict::Refused(RefusalClass::Etcd, error.cause.to_string())
        }
        Failure::NoAnswer(_) | Failure::Api(_) | Failure::Etcd(_) => Verdict::Unknown(failure.to_string()),
    }
}

fn of_status(status: &Status, namespace: &str) -> Verdict {
    let message = status.message.clone();
    let causes = status.details.iter().flat_map(|details| &details.causes);
    let terminating = causes.clone().any(|cause| cause.reason == "NamespaceTerminating");
    let about_namespace = status.details.as_ref().is_some_and(|details| details.kind == "namespaces");
    match status.code {
        _ if terminating || (status.code == 404 && about_namespace) => {
            Verdict::Refused(RefusalClass::NamespaceTerminating, namespace.to_owned())
        }
        403 => Verdict::Refused(forbidden(&message), message),
        409 if status.reason == "AlreadyExists" => Verdict::Exists,
        404 | 409 => Verdict::Moved(message),
        400 | 405 | 406 | 413 | 415 | 422 => Verdict::Refused(RefusalClass::Rejected, message),
        // A webhook that cannot be reached is a 500; the object was not written, and the message names the webhook.
        500 if message.contains("failed calling webhook") => {
            Verdict::Refused(RefusalClass::Rejected, message)
        }
        _ => Verdict::Unknown(message),
    }
}

/// The API server answers 403 for three different things, told apart only by its sentence.
fn forbidden(message: &str) -> RefusalClass {
    if message.contains("exceeded quota") || message.contains("failed quota") {
        RefusalClass::Quota
    } else if message.contains(" cannot ") && message.contains(" resource \"") {
        RefusalClass::Permission
    } else {
        RefusalClass::Rejected
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn of(status: serde_json::Value) -> Verdict {
        let status: Status = serde_json::from_value(status).unwrap();
        verdict(&Failure::Api(kube::Error::Api(status.boxed())), "ns")
    }

    #[test]
    fn each_refusal_of_a_real_api_server_has_its_class() {
        let refused = |class, message: &str| Verdict::Refused(class, message.to_owned());
        let quota =
            "pods \"a\" is forbidden: exceeded quota: q, requested: pods=1, used: pods=0, limited: pods=0";
        let rbac = "pods is forbidden: User \"system:serviceaccount:default:default\" cannot create resource \"pods\" in API group \"\" in the namespace \"default\"";
        let security = "pods \"a\" is forbidden: violates PodSecurity \"restricted:latest\": allowPrivilegeEscalation != false";
        let webhook = "Internal error occurred: failed calling webhook \"w\": connection refused";
        let table = [
            (
                json!({"code": 403, "reason": "Forbidden", "message": quota}),
                refused(RefusalClass::Quota, quota),
            ),
            (
                json!({"code": 403, "reason": "Forbidden", "message": rbac}),
                refused(RefusalClass::Permission, rbac),
            ),
            (
                json!({"code": 403, "reason": "Forbidden", "message": security}),
                refused(RefusalClass::Rejected, security),
            ),
            (
                json!({"code": 422, "reason": "Invalid", "message": "bad"}),
                refused(RefusalClass::Rejected, "bad"),
            ),
            (
                json!({"code": 500, "reason": "InternalError", "message": webhook}),
                refused(RefusalClass::Rejected, webhook),
            ),
            (
                json!({"code": 403, "reason": "Forbidden", "message": "unable to create new content in namespace ns because it is being terminated",
                    "details": {"causes": [{"reason": "NamespaceTerminating", "message": "m", "field": "metadata.namespace"}]}}),
                refused(RefusalClass::NamespaceTerminating, "ns"),
            ),
            (
                json!({"code": 404, "reason": "NotFound", "message": "namespaces \"ns\" not found", "details": {"name": "ns", "kind": "namespaces"}}),
                refused(RefusalClass::NamespaceTerminating, "ns"),
            ),
            (json!({"code": 409, "reason": "AlreadyExists", "message": "there"}), Verdict::Exists),
            (
                json!({"code": 409, "reason": "Conflict", "message": "moved"}),
                Verdict::Moved("moved".to_owned()),
            ),
            (
                json!({"code": 404, "reason": "NotFound", "message": "gone"}),
                Verdict::Moved("gone".to_owned()),
            ),
            (
                json!({"code": 504, "reason": "Timeout", "message": "late"}),
                Verdict::Unknown("late".to_owned()),
            ),
            (
                json!({"code": 429, "reason": "TooManyRequests", "message": "busy"}),
                Verdict::Unknown("busy".to_owned()),
            ),
        ];
        for (status, expected) in table {
            assert_eq!(of(status.clone()), expected, "{status}");
        }
    }

    #[test]
    fn a_write_without_an_answer_is_unknown_and_one_that_was_not_sent_is_not() {
        let late = Failure::NoAnswer(std::time::Duration::from_secs(3));
        assert!(matches!(verdict(&late, "ns"), Verdict::Unknown(_)));
        assert_eq!(verdict(&Failure::NotLeading, "ns"), Verdict::NotSent);
    }
}
