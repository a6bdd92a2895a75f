//! REPORT: says what was seen, in the status and as Events. A status that says nothing new is not written.

use api::{EtcdCluster, EtcdClusterStatus};
use k8s_openapi::{
    api::core::v1::{Event as CoreEvent, EventSource, ObjectReference},
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time},
    jiff::Timestamp,
};
use kube::{
    Api, Client,
    api::{Patch, PatchParams, PostParams},
};
use planner::{Deadline, Report};
use serde_json::{Map, Value, json};
use tracing::{debug, info, warn};

use crate::{
    act::FIELD_MANAGER,
    gate::{Failure, Gate},
};

/// The longest text of an Event; longer ones are refused by the API server.
const MAX_NOTE: usize = 1024;

/// Says things about resources.
#[derive(Clone)]
pub struct Reporter {
    client: Client,
    gate: Gate,
    /// The operator pod's name: what the From column of `kubectl describe` shows.
    me: String,
}

impl Reporter {
    /// Reports under this name.
    #[must_use]
    pub fn new(client: Client, gate: Gate, me: String) -> Self {
        Self { client, gate, me }
    }

    /// Writes what is new in the report. `birth` is never part of it. Whether the status now says what it should.
    pub async fn status(&self, resource: &EtcdCluster, report: &Report) -> Result<bool, Failure> {
        let current = resource.status.clone().unwrap_or_default();
        let Some(difference) = difference(&current, &report.status) else { return Ok(true) };
        let metadata = &resource.metadata;
        let (namespace, name) = (metadata.namespace.as_deref(), metadata.name.as_deref());
        let api: Api<EtcdCluster> = Api::namespaced(self.client.clone(), namespace.unwrap_or_default());
        // With the version that was read: a report of an older look, or of a former leader, does not land on a newer one.
        let patch = json!({
            "metadata": {"uid": metadata.uid, "resourceVersion": metadata.resource_version},
            "status": difference,
        });
        debug!(%patch, "the status says something new");
        let params = PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..Default::default() };
        let (name, patch) = (name.unwrap_or_default(), Patch::Merge(&patch));
        let call = api.patch_status(name, &params, &patch);
        match self.gate.write("ReportStatus", Deadline::Short.limit(), call).await {
            Ok(_) => {
                info!(phase = report.status.phase, ready = report.status.ready, "status written");
                Ok(true)
            }
            Err(Failure::Api(kube::Error::Api(status))) if matches!(status.code, 404 | 409) => Ok(false),
            Err(failure) => Err(failure),
        }
    }

    /// What is to be told of something that happened now.
    #[must_use]
    pub fn event(&self, resource: &EtcdCluster, event: &api::Event) -> CoreEvent {
        core_event(resource, event, &self.me, Timestamp::now())
    }

    /// Tells it. Whether that is over: an Event may not be written, but then it never will be.
    pub async fn tell(&self, event: &CoreEvent) -> bool {
        let namespace = event.metadata.namespace.as_deref().unwrap_or_default();
        let api: Api<CoreEvent> = Api::namespaced(self.client.clone(), namespace);
        let (reason, note) = (event.reason.as_deref(), event.message.as_deref());
        let params = PostParams::default();
        let call = api.create(&params, event);
        match self.gate.write("CreateEvent", Deadline::Short.limit(), call).await {
            Ok(_) => info!(reason, note, "event"),
            Err(Failure::Api(kube::Error::Api(status))) if status.code == 409 => {
                debug!(reason, note, "it was written the first time, and only its answer was lost");
            }
            Err(failure) => {
                warn!(%failure, reason, "an Event could not be written");
                return is_refused(&failure);
            }
        }
        true
    }
}

/// Whether the API server does not want it, and will not either when it is asked again.
fn is_refused(failure: &Failure) -> bool {
    matches!(failure, Failure::Api(kube::Error::Api(status)) if (400..500).contains(&status.code) && status.code != 429)
}

/// An Event of the classic kind: never merged, because each names another pod, and signed with the operator pod's name.
fn core_event(resource: &EtcdCluster, event: &api::Event, me: &str, now: Timestamp) -> CoreEvent {
    let metadata = &resource.metadata;
    let involved = ObjectReference {
        api_version: Some(format!("{}/{}", api::GROUP, api::VERSION)),
        kind: Some("EtcdCluster".to_owned()),
        name: metadata.name.clone(),
        namespace: metadata.namespace.clone(),
        uid: metadata.uid.clone(),
        resource_version: metadata.resource_version.clone(),
        ..Default::default()
    };
    let related = ObjectReference {
        api_version: Some("v1".to_owned()),
        kind: Some("Pod".to_owned()),
        name: Some(event.member().to_owned()),
        namespace: metadata.namespace.clone(),
        ..Default::default()
    };
    CoreEvent {
        metadata: ObjectMeta {
            name: Some(event_name(metadata.name.as_deref().unwrap_or_default(), now)),
            namespace: metadata.namespace.clone(),
            ..Default::default()
        },
        involved_object: involved,
        related: Some(related).filter(|_| !event.member().is_empty()),
        reason: Some(event.reason().to_owned()),
        message: Some(event.to_string().chars().take(MAX_NOTE).collect()),
        type_: Some(if event.is_warning() { "Warning" } else { "Normal" }.to_owned()),
        source: Some(EventSource { component: Some(me.to_owned()), host: None }),
        reporting_component: Some(me.to_owned()),
        reporting_instance: Some(me.to_owned()),
        first_timestamp: Some(Time(now)),
        last_timestamp: Some(Time(now)),
        count: Some(1),
        ..Default::default()
    }
}

/// A name of its own, and not one that the API server makes up: so it is not told twice if only the answer is lost. It begins with the
/// moment, as client-go has it, because `kubectl get events` lists by name; what follows tells apart what happened at the same one.
pub(crate) fn event_name(cluster: &str, now: Timestamp) -> String {
    format!("{cluster}.{:016x}{:04x}", now.as_nanosecond(), rand::random::<u16>())
}

/// What has to be merged into one status to make it the other; nothing if nothing has. Whatever they say of it, `birth` stays.
fn difference(current: &EtcdClusterStatus, wanted: &EtcdClusterStatus) -> Option<Value> {
    let value = |status: &EtcdClusterStatus| {
        let without = EtcdClusterStatus { birth: None, ..status.clone() };
        serde_json::to_value(without).unwrap_or(Value::Null)
    };
    merge_patch(&value(current), &value(wanted))
}

/// The JSON merge patch from one value to another.
fn merge_patch(from: &Value, to: &Value) -> Option<Value> {
    if from == to {
        return None;
    }
    let (Value::Object(from), Value::Object(to)) = (from, to) else { return Some(to.clone()) };
    let removed = from.keys().filter(|key| !to.contains_key(*key)).map(|key| (key.clone(), Value::Null));
    let changed = to.iter().filter_map(|(key, wanted)| {
        let patch = from.get(key).map_or_else(|| Some(wanted.clone()), |old| merge_patch(old, wanted));
        patch.map(|patch| (key.clone(), patch))
    });
    Some(Value::Object(removed.chain(changed).collect::<Map<_, _>>()))
}

#[cfg(test)]
mod tests {
    use api::Birth;

    use super::*;

    fn status(value: Value) -> EtcdClusterStatus {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn only_what_changed_is_written_and_what_ended_is_removed() {
        let table = [
            (json!({"phase": "Running"}), json!({"phase": "Running"}), None),
            (json!({}), json!({"phase": "Creating"}), Some(json!({"phase": "Creating"}))),
            (
                json!({"phase": "Creating", "reason": "x", "members": {"unready": ["a"]}}),
                json!({"phase": "Running", "members": {"ready": ["a"]}}),
                Some(
                    json!({"phase": "Running", "reason": null, "members": {"unready": null, "ready": ["a"]}}),
                ),
            ),
            (
                json!({"conditions": [{"type": "Available", "status": "False"}]}),
                json!({"conditions": [{"type": "Available", "status": "True"}]}),
                Some(json!({"conditions": [{"type": "Available", "status": "True"}]})),
            ),
        ];
        for (current, wanted, expected) in table {
            assert_eq!(difference(&status(current.clone()), &status(wanted)), expected, "{current}");
        }
    }

    #[test]
    fn birth_is_never_touched() {
        let with = EtcdClusterStatus { birth: Some(Birth::first("t".to_owned())), ..Default::default() };
        let without = EtcdClusterStatus::default();
        assert_eq!(difference(&with, &without), None);
        assert_eq!(difference(&without, &with), None);
        let other = EtcdClusterStatus { phase: Some("Running".to_owned()), ..Default::default() };
        assert_eq!(difference(&with, &other), Some(json!({"phase": "Running"})));
    }

    #[test]
    fn an_event_is_signed_by_the_operators_pod_and_names_the_members() {
        let resource: EtcdCluster = serde_json::from_value(json!({
            "apiVersion": "etcd.database.coreos.com/v1beta2", "kind": "EtcdCluster",
            "metadata": {"name": "a", "namespace": "n", "uid": "u"}, "spec": {"size": 1}
        }))
        .unwrap();
        let event = api::Event::NewMemberAdded { member: "a-1".to_owned() };
        let written = core_event(&resource, &event, "etcd-operator-7d9", Timestamp::UNIX_EPOCH);
        assert_eq!(written.source.unwrap().component.as_deref(), Some("etcd-operator-7d9"));
        assert_eq!(written.related.unwrap().name.as_deref(), Some("a-1"));
        assert_eq!(written.reason.as_deref(), Some("New Member Added"));
        assert_eq!(written.message.as_deref(), Some("New member a-1 added to cluster"));
        assert_eq!(written.type_.as_deref(), Some("Normal"));
    }

    #[test]
    fn events_are_listed_in_the_order_in_which_they_happened() {
        let at = |nanosecond| event_name("a", Timestamp::from_nanosecond(nanosecond).unwrap());
        let names = [at(1), at(0xff), at(0x100), at(1_800_000_000_000_000_000)];
        assert!(names.is_sorted(), "{names:?}");
        assert!((0..20).any(|_| at(1) != at(1)), "two at one moment would be taken for one");
    }
}
