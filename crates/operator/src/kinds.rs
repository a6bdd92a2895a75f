//! REPORT on what is not done: resources of kinds without a controller of their own yet, and resources that cannot be read. Their status
//! says so, once.

use std::time::Duration;

use api::{Condition, ConditionStatus, ConditionType, Reason};
use k8s_openapi::{apimachinery::pkg::apis::meta::v1::Time, jiff::Timestamp};
use kube::{
    Api, Client,
    api::{ApiResource, DynamicObject, Patch, PatchParams},
};
use serde_json::{Value, json};
use tracing::{info, warn};

use crate::{act::FIELD_MANAGER, clients::deadline, gate::Gate};

/// How long writing a status may take.
const LIMIT: Duration = Duration::from_secs(3);

/// A kind of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kind {
    /// Its name.
    pub name: &'static str,
    /// Its name in paths.
    pub plural: &'static str,
    /// The classic status field with the reason in words.
    pub reason_field: &'static str,
}

/// The kinds whose controllers are still to come.
pub const NOT_YET: [Kind; 2] = [
    Kind { name: "EtcdBackup", plural: "etcdbackups", reason_field: "Reason" },
    Kind { name: "EtcdRestore", plural: "etcdrestores", reason_field: "reason" },
];

/// The kind of clusters, for those that cannot be read.
pub const CLUSTER: Kind = Kind { name: "EtcdCluster", plural: "etcdclusters", reason_field: "reason" };

impl Kind {
    /// How the API server calls it.
    #[must_use]
    pub fn resource(&self) -> ApiResource {
        ApiResource {
            group: api::GROUP.to_owned(),
            version: api::VERSION.to_owned(),
            api_version: format!("{}/{}", api::GROUP, api::VERSION),
            kind: self.name.to_owned(),
            plural: self.plural.to_owned(),
        }
    }
}

/// Says in the status of a resource that it is not acted on, and why. What it says already is not written again.
pub async fn say(
    client: &Client,
    gate: &Gate,
    kind: Kind,
    namespace: &str,
    name: &str,
    reason: &Reason,
) -> bool {
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &kind.resource());
    let object = match deadline(api.get_opt(name)).await {
        Ok(Some(object)) => object,
        Ok(None) => return true,
        Err(message) => {
            warn!(kind = kind.name, namespace, name, message, "the resource could not be read");
            return false;
        }
    };
    let now = Time(Timestamp::now());
    let Some(status) = said(&object, kind, reason, &now) else { return true };
    let metadata = &object.metadata;
    let patch = json!({
        "metadata": {"uid": metadata.uid, "resourceVersion": metadata.resource_version},
        "status": status,
    });
    let params = PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..Default::default() };
    let patch = Patch::Merge(&patch);
    match gate.write("ReportStatus", LIMIT, api.patch_status(name, &params, &patch)).await {
        Ok(_) => {
            info!(kind = kind.name, namespace, name, reason = reason.as_str(), "status written");
            true
        }
        Err(failure) => {
            warn!(kind = kind.name, namespace, name, %failure, "the status could not be written");
            false
        }
    }
}

/// What to merge into the status so that it says so; nothing if it does.
fn said(object: &DynamicObject, kind: Kind, reason: &Reason, now: &Time) -> Option<Value> {
    let generation = object.metadata.generation;
    let status = object.data.get("status").cloned().unwrap_or_default();
    let before: Vec<Condition> = status
        .get("conditions")
        .cloned()
        .and_then(|all| serde_json::from_value(all).ok())
        .unwrap_or_default();
    let previous = api::condition::find(&before, ConditionType::SpecAccepted);
    let condition =
        Condition::new(ConditionType::SpecAccepted, ConditionStatus::False, reason, generation, now)
            .following(previous);
    if previous == Some(&condition) {
        return None;
    }
    let mut conditions: Vec<Condition> =
        before.iter().filter(|other| other.type_ != condition.type_).cloned().collect();
    conditions.push(condition);
    let said = json!({"conditions": conditions, "observedGeneration": generation});
    let Value::Object(mut said) = said else { return None };
    if kind != CLUSTER {
        // Where people, and the classic tools, look first.
        said.insert(kind.reason_field.to_owned(), json!(reason.to_string()));
    }
    Some(Value::Object(said))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(status: &Value) -> DynamicObject {
        serde_json::from_value(json!({
            "apiVersion": "etcd.database.coreos.com/v1beta2", "kind": "EtcdBackup",
            "metadata": {"name": "b", "namespace": "n", "generation": 1}, "spec": {}, "status": status,
        }))
        .unwrap()
    }

    #[test]
    fn it_is_said_once_and_in_the_field_of_the_classic_operator() {
        let reason = Reason::KindNotYetSupported { kind: "EtcdBackup".to_owned() };
        let [backup, _] = NOT_YET;
        let first = said(&object(&json!({})), backup, &reason, &Time(Timestamp::UNIX_EPOCH)).unwrap();
        assert_eq!(first["Reason"], json!(reason.to_string()));
        assert_eq!(first["conditions"][0]["reason"], "KindNotYetSupported");
        assert_eq!(said(&object(&first), backup, &reason, &Time(Timestamp::now())), None);
    }

    #[test]
    fn conditions_of_others_stay() {
        let reason = Reason::InvalidSpec { problems: "p".to_owned() };
        let before = json!({"conditions": [{"type": "Theirs", "status": "True"}]});
        let after = said(&object(&before), CLUSTER, &reason, &Time(Timestamp::UNIX_EPOCH)).unwrap();
        assert_eq!(after["conditions"][0]["type"], "Theirs");
        assert_eq!(after["conditions"][1]["type"], "SpecAccepted");
        assert_eq!(after.get("reason"), None);
    }
}
