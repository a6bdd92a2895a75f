//! The objects that a cluster is made of, as they are sent to the API server.

mod budget;
mod member;
mod pod;
mod security;
mod service;

use std::collections::BTreeMap;

use api::names::{LABEL_APP, LABEL_APP_VALUE, LABEL_ATTEMPT, LABEL_CLUSTER};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};

pub use budget::{budget, budget_of_a_roll};
pub use pod::{joining_pod, pod};
pub use service::{client_service, peer_service};

pub(crate) use budget::is_budget_as_wanted;
pub(crate) use member::{relaunched, restarted, restored};
pub(crate) use pod::member_labels;
pub(crate) use service::is_as_wanted;

use crate::{attempt::Attempt, desired::Desired};

/// The labels that all objects of a cluster carry.
fn labels(cluster: &str) -> BTreeMap<String, String> {
    BTreeMap::from([
        (LABEL_APP.to_owned(), LABEL_APP_VALUE.to_owned()),
        (LABEL_CLUSTER.to_owned(), cluster.to_owned()),
    ])
}

/// The labels that only the pods of one attempt carry.
fn attempt_labels(cluster: &str, attempt: &Attempt) -> BTreeMap<String, String> {
    let mut labels = labels(cluster);
    labels.insert(LABEL_ATTEMPT.to_owned(), attempt.label());
    labels
}

/// Whether these labels hold all that an object should have. What somebody added is left alone.
fn has_labels(seen: &BTreeMap<String, String>, wanted: &ObjectMeta) -> bool {
    wanted.labels.iter().flatten().all(|(key, value)| seen.get(key) == Some(value))
}

/// Name, labels and owner. The owner is what removes the object when the resource goes: there is no finalizer.
fn metadata(desired: &Desired, name: &str, labels: BTreeMap<String, String>) -> ObjectMeta {
    ObjectMeta {
        name: Some(name.to_owned()),
        namespace: Some(desired.namespace.clone()),
        labels: Some(labels),
        owner_references: Some(vec![OwnerReference {
            api_version: format!("{}/{}", api::GROUP, api::VERSION),
            kind: "EtcdCluster".to_owned(),
            name: desired.name.clone(),
            uid: desired.uid.clone(),
            controller: Some(true),
            // Setting it takes a permission on the resource's finalizers in some clusters, and there is nothing to hold up.
            block_owner_deletion: None,
        }]),
        ..Default::default()
    }
}
