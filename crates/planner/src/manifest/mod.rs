//! The objects that a cluster is made of, as they are sent to the API server.

mod budget;
mod member;
mod pod;
mod security;
mod service;

use std::collections::BTreeMap;

use api::names::{LABEL_APP, LABEL_APP_VALUE, LABEL_ATTEMPT, LABEL_CLUSTER, MANAGED_BY, RECOMMENDED_LABELS};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};

pub use budget::{budget, budget_of_a_roll};
pub use pod::{joining_pod, pod};
pub use service::{client_service, peer_service};

pub(crate) use budget::is_budget_as_wanted;
pub(crate) use member::{relaunched, restarted, restored};
pub(crate) use pod::member_labels;
pub(crate) use service::is_as_wanted;

use crate::{attempt::Attempt, desired::Desired};

/// The labels that all objects of a cluster carry, and that tell whose they are.
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

/// The labels that Kubernetes recommends, for tools that sort objects by them. Nobody selects by them here.
fn recommended_labels(cluster: &str, component: &str) -> impl Iterator<Item = (String, String)> {
    let pairs = [
        ("name", LABEL_APP_VALUE),
        ("instance", cluster),
        ("component", component),
        ("managed-by", MANAGED_BY),
    ];
    pairs.map(|(key, value)| (format!("{RECOMMENDED_LABELS}{key}"), value.to_owned())).into_iter()
}

/// Whether these labels hold all that an object has to have. What somebody added is left alone, and what Kubernetes only recommends is no
/// reason to write: objects of an earlier operator have none of it, and upgrading the operator changes nobody's objects.
fn has_labels(seen: &BTreeMap<String, String>, wanted: &ObjectMeta) -> bool {
    let needed = wanted.labels.iter().flatten().filter(|(key, _)| !key.starts_with(RECOMMENDED_LABELS));
    needed.into_iter().all(|(key, value)| seen.get(key) == Some(value))
}

/// Name, labels and owner; what else is asked for as a label goes before what is only recommended. The owner is what removes the object when the resource goes: there is no finalizer.
fn metadata(
    desired: &Desired,
    name: &str,
    component: &str,
    mut labels: BTreeMap<String, String>,
) -> ObjectMeta {
    for (key, value) in recommended_labels(&desired.name, component) {
        labels.entry(key).or_insert(value);
    }
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
