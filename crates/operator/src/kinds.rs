//! REPORT on what is not done: resources of kinds without a controller of their own yet, and resources that cannot be read. Their status
//! says so, once.

use std::time::Duration;

use api::{Condition, ConditionStatus, ConditionType, Reason, condition};
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
    /// The name that its fields are written under: each controller has its own.
    pub manager: &'static str,
}

/// The kinds whose controllers are still to come.
pub const NOT_YET: [Kind; 2] = [
    Kind {
        name: "EtcdBackup",
        plural: "etcdbackups",
        reason_field: "Reason",
        manager: "etcd-operator-backup",
    },
    Kind {
        name: "EtcdRestore",
        plural: "etcdrestores",
        reason_field: "reason",
        manager: "etcd-operator-restore",
    },
];

/// The kind of clusters, for those that cannot be read.
pub const CLUSTER: Kind =
    Kind { name: "EtcdCluster", plural: "etcdclusters", reason_field: "reason", manager: FIELD_MANAGER };

/// What is true of a resource that is not acted on. Nobody who waits may take it for done.
const NOT_ACTED_ON: &[(ConditionType, ConditionStatus)] = &[
    (ConditionType::SpecAccepted, ConditionStatus::False),
    (ConditionType::Ready, ConditionStatus::False),
    (ConditionType::Stalled, ConditionStatus::True),
];

/// The same of a cluster that cannot be read. It may well run, and nobody looks: what was said of it before holds no more.
const NOT_READ: &[(ConditionType, ConditionStatus)] = &[
    (ConditionType::Available, ConditionStatus::Unknown),
    (ConditionType::Ready, ConditionStatus::False),
    (ConditionType::Progressing, ConditionStatus::False),
    (ConditionType::Stalled, ConditionStatus::True),
    (ConditionType::SpecAccepted, ConditionStatus::False),
];

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
    let params = PatchParams { field_manager: Some(kind.manager.to_owned()), ..Default::default() };
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
    let before = status.get("conditions").and_then(Value::as_array).into_iter().flatten();
    // One that cannot be read does not take the others along.
    let before: Vec<Condition> = before.filter_map(|one| serde_json::from_value(one.clone()).ok()).collect();
    let ours = if kind == CLUSTER { NOT_READ } else { NOT_ACTED_ON };
    let ours = ours.iter().map(|(type_, status)| {
        let previous = condition::find(&before, *type_);
        Condition::new(*type_, *status, reason, generation, now).following(previous)
    });
    let conditions = condition::with_those_of_others(ours.collect(), &before);
    if conditions == before {
        return None;
    }
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

    /// Type and status of each condition.
    fn types(status: &Value) -> Vec<(&str, &str)> {
        let all = status["conditions"].as_array().map(Vec::as_slice).unwrap_or_default();
        all.iter().map(|one| (one["type"].as_str().unwrap(), one["status"].as_str().unwrap())).collect()
    }

    #[test]
    fn of_a_cluster_that_cannot_be_read_nothing_stays_said_but_what_others_wrote() {
        let reason = Reason::InvalidSpec { problems: "p".to_owned() };
        let before = json!({"phase": "Running", "conditions": [
            {"type": "Available", "status": "True"}, {"type": "Ready", "status": "True"},
            {"type": "Progressing", "status": "False"}, {"type": "Scaling", "status": "True"},
            {"type": "Broken"}, {"type": "Theirs", "status": "True"}]});
        let after = said(&object(&before), CLUSTER, &reason, &Time(Timestamp::UNIX_EPOCH)).unwrap();
        let expected = [
            ("Available", "Unknown"),
            ("Ready", "False"),
            ("Progressing", "False"),
            ("Stalled", "True"),
            ("SpecAccepted", "False"),
            ("Theirs", "True"),
        ];
        assert_eq!(types(&after), expected);
        assert_eq!(
            (after.get("reason"), after.get("phase"), &after["observedGeneration"]),
            (None, None, &json!(1))
        );
        assert_eq!(said(&object(&after), CLUSTER, &reason, &Time(Timestamp::now())), None);
    }

    #[test]
    fn who_waits_for_a_resource_that_is_not_acted_on_does_not_take_it_for_done() {
        for kind in NOT_YET {
            let reason = Reason::KindNotYetSupported { kind: kind.name.to_owned() };
            let said = said(&object(&json!({})), kind, &reason, &Time(Timestamp::UNIX_EPOCH)).unwrap();
            assert_eq!(types(&said), [("SpecAccepted", "False"), ("Ready", "False"), ("Stalled", "True")]);
            assert!(kind.manager != CLUSTER.manager && kind.manager.starts_with("etcd-operator-"));
        }
    }
}
