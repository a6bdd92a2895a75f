//! Before the loop: who this operator is, from its flags, its environment and its own pod.

use std::time::Duration;

use k8s_openapi::{api::core::v1::Pod, apimachinery::pkg::apis::meta::v1::OwnerReference};
use kube::{Api, Client};
use planner::OperatorIdentity;
use tokio::time::{sleep, timeout};
use tracing::warn;

use crate::{clients::READ_LIMIT, flags::Flags, gate::words};

/// How soon the API server is asked again.
const RETRY: Duration = Duration::from_secs(1);

/// The name of the operator's container in its pod.
const CONTAINER: &str = "etcd-operator";

/// Who this operator is.
#[derive(Clone, Debug)]
pub struct Identity {
    /// Its namespace.
    pub namespace: String,
    /// Its pod's name, or what stands for it outside of a cluster.
    pub name: String,
    /// What owns its pod, and so its Lease.
    pub owner: Option<OwnerReference>,
    /// What goes into the objects that it makes.
    pub operator: OperatorIdentity,
}

/// Why it cannot be told.
#[derive(Debug, thiserror::Error)]
pub enum IdentityError {
    /// Nothing says which image has the launcher.
    #[error(
        "which image has the launcher? In a pod, the operator reads its own: set MY_POD_NAME and MY_POD_NAMESPACE from the downward API. Outside of one, give --launcher-image"
    )]
    NoImage,
    /// The pod could not be read.
    #[error(
        "reading the operator's own pod {namespace}/{name} (MY_POD_NAMESPACE, MY_POD_NAME) for its image: {message}; or give --launcher-image"
    )]
    Pod {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
        /// Why.
        message: String,
    },
}

impl Identity {
    /// Finds out.
    pub async fn find(flags: &Flags, client: &Client) -> Result<Self, IdentityError> {
        let set = |value: &Option<String>| value.clone().filter(|value| !value.is_empty());
        let namespace = set(&flags.namespace).unwrap_or_else(|| client.default_namespace().to_owned());
        let (image, member_user) = (set(&flags.launcher_image), flags.member_user);
        let Some(name) = set(&flags.pod_name) else {
            let launcher_image = image.ok_or(IdentityError::NoImage)?;
            let operator = OperatorIdentity { launcher_image, member_user };
            return Ok(Self { namespace, name: hostname(), owner: None, operator });
        };
        let pods: Api<Pod> = Api::namespaced(client.clone(), &namespace);
        let (owner, own_image) = match (own_pod(&pods, &name).await, &image) {
            (Ok(pod), _) => (owner_of(&pod), image_of(&pod)),
            // Whoever names an image may run anywhere, under any name.
            (Err(_), Some(_)) => (None, None),
            (Err(message), None) => return Err(IdentityError::Pod { namespace, name, message }),
        };
        let launcher_image = image.or(own_image).ok_or(IdentityError::NoImage)?;
        Ok(Self { namespace, name, owner, operator: OperatorIdentity { launcher_image, member_user } })
    }
}

/// The operator's own pod, or why the API server does not give it out. An API server that does not answer is waited for: who ends
/// because of it is started again later and later, and an operator that was away with it is to be back with it.
async fn own_pod(pods: &Api<Pod>, name: &str) -> Result<Pod, String> {
    loop {
        let why = match timeout(READ_LIMIT, pods.get(name)).await {
            Ok(Ok(pod)) => return Ok(pod),
            Ok(Err(kube::Error::Api(status))) if status.code < 429 => return Err(status.message),
            Ok(Err(error)) => words(&error),
            Err(_) => format!("no answer within {} s", READ_LIMIT.as_secs()),
        };
        warn!(why, "the API server does not tell about the operator's own pod, and is asked again");
        sleep(RETRY).await;
    }
}

/// What Events are signed with outside of a pod.
fn hostname() -> String {
    std::env::var("HOSTNAME")
        .ok()
        .filter(|name| !name.is_empty())
        .unwrap_or_else(|| "etcd-operator".to_owned())
}

/// The image of the operator's container: the one of its name, or the only one.
fn image_of(pod: &Pod) -> Option<String> {
    let containers = &pod.spec.as_ref()?.containers;
    let ours = containers.iter().find(|container| container.name == CONTAINER).or(containers.first());
    ours.and_then(|container| container.image.clone()).filter(|image| !image.is_empty())
}

/// What owns the pod: its `ReplicaSet`. It goes with the Deployment, and each leader writes its own.
fn owner_of(pod: &Pod) -> Option<OwnerReference> {
    let owner =
        pod.metadata.owner_references.iter().flatten().find(|owner| owner.controller == Some(true))?;
    Some(OwnerReference { controller: None, block_owner_deletion: None, ..owner.clone() })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(containers: &serde_json::Value) -> Pod {
        let owners = json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "u", "controller": true, "blockOwnerDeletion": true}]);
        serde_json::from_value(
            json!({"metadata": {"ownerReferences": owners}, "spec": {"containers": containers}}),
        )
        .unwrap()
    }

    #[test]
    fn the_image_is_that_of_the_container_of_our_name_or_of_the_first() {
        let both = json!([{"name": "proxy", "image": "p:1"}, {"name": "etcd-operator", "image": "o:1"}]);
        assert_eq!(image_of(&pod(&both)).as_deref(), Some("o:1"));
        assert_eq!(image_of(&pod(&json!([{"name": "main", "image": "m:1"}]))).as_deref(), Some("m:1"));
        assert_eq!(image_of(&pod(&json!([{"name": "main"}]))), None);
    }

    #[test]
    fn the_lease_goes_with_what_owns_the_pod_and_holds_nothing_up() {
        let owner = owner_of(&pod(&json!([]))).unwrap();
        assert_eq!((owner.name.as_str(), owner.controller, owner.block_owner_deletion), ("r", None, None));
    }
}
