//! Acting on objects: YAML of any kind is applied as `kubectl apply --server-side` would, and taken away again.

use std::{collections::HashMap, fmt::Debug, time::Duration};

use kube::{
    Api, Client, Resource, ResourceExt,
    api::{ApiResource, DeleteParams, DynamicObject, Patch, PatchParams},
    core::{GroupVersionKind, NamespaceResourceScope},
    discovery::{ApiCapabilities, Scope, pinned_kind},
};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{
    Cluster, KitError, TestNamespace, call, check,
    wait::{WaitError, wait_for},
};

/// Who the API server's `managedFields` say applied what tests apply.
const FIELD_MANAGER: &str = "testbed";

/// How long the removal of an object is waited for: a pod's grace period of 30 s, and time for a busy machine.
const REMOVAL_DEADLINE: Duration = Duration::from_mins(5);

/// Why objects could not be applied or deleted.
#[derive(Debug, thiserror::Error)]
pub enum ApplyError {
    /// The text is not YAML.
    #[error("cannot read the manifest as YAML")]
    Yaml(#[source] Box<serde_saphyr::Error>),
    /// A document is no Kubernetes object.
    #[error("a document of the manifest is no Kubernetes object")]
    NoObject(#[source] serde_json::Error),
    /// An object lacks what identifies it.
    #[error("an object of the manifest has no {missing}")]
    Incomplete {
        /// The field.
        missing: &'static str,
    },
    /// An object of the whole cluster was applied to one namespace.
    #[error("{kind} {name} belongs to the whole cluster: apply it with Cluster::apply, in an exclusive test")]
    ClusterScoped {
        /// Its kind.
        kind: String,
        /// Its name.
        name: String,
    },
    /// An object names another namespace than that of the test.
    #[error("{kind} {name} names the namespace {named}, but this test has {own}")]
    OtherNamespace {
        /// Its kind.
        kind: String,
        /// Its name.
        name: String,
        /// The namespace that it names.
        named: String,
        /// The namespace of the test.
        own: String,
    },
    /// An object of a namespaced kind names no namespace.
    #[error("{kind} {name} names no namespace")]
    NoNamespace {
        /// Its kind.
        kind: String,
        /// Its name.
        name: String,
    },
    /// A call to the API server.
    #[error(transparent)]
    Call(#[from] KitError),
    /// The object did not go away.
    #[error(transparent)]
    Wait(#[from] WaitError),
}

/// Where objects go that name no namespace.
#[derive(Clone, Copy)]
enum Into<'a> {
    Cluster,
    Namespace(&'a str),
}

impl Cluster {
    /// Applies all documents of a manifest: objects of the whole cluster, and of the namespaces that they name.
    pub async fn apply(&self, yaml: &str) -> Result<Vec<DynamicObject>, ApplyError> {
        apply(self.client(), Into::Cluster, yaml, &params()).await
    }
}

impl TestNamespace {
    /// Applies all documents of a manifest into this namespace, in their order.
    pub async fn apply(&self, yaml: &str) -> Result<Vec<DynamicObject>, ApplyError> {
        apply(self.cluster().client(), Into::Namespace(self.name()), yaml, &params()).await
    }

    /// Lets the API server judge a manifest (validation, admission, quota), and keeps nothing.
    pub async fn dry_run(&self, yaml: &str) -> Result<Vec<DynamicObject>, ApplyError> {
        apply(self.cluster().client(), Into::Namespace(self.name()), yaml, &params().dry_run()).await
    }

    /// Requests the deletion of an object; content if there is none.
    pub async fn delete<K>(&self, name: &str) -> Result<(), ApplyError>
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()> + Clone + DeserializeOwned + Debug,
    {
        delete(&self.api::<K>(), name).await.map(|_| ())
    }

    /// Deletes an object, and waits until it is gone.
    pub async fn remove<K>(&self, name: &str) -> Result<(), ApplyError>
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>,
        K: Clone + DeserializeOwned + Debug + Send + 'static,
    {
        remove(&self.api::<K>(), name).await
    }

    /// Deletes what `apply` returned, all at once, and waits until all of it is gone.
    pub async fn remove_all(&self, objects: &[DynamicObject]) -> Result<(), ApplyError> {
        let removals = objects.iter().map(async |object| {
            let kind = object.gvk()?;
            let (resource, _) = resource_of(&self.cluster().client(), &kind).await?;
            let api = Api::namespaced_with(self.cluster().client(), self.name(), &resource);
            remove::<DynamicObject>(&api, &object.name_any()).await
        });
        futures::future::try_join_all(removals).await.map(|_| ())
    }
}

fn params() -> PatchParams {
    // Strict, so that a misspelled field in a test is an error and not a test of nothing.
    PatchParams::apply(FIELD_MANAGER).force().validation_strict()
}

async fn apply(
    client: Client,
    into: Into<'_>,
    yaml: &str,
    params: &PatchParams,
) -> Result<Vec<DynamicObject>, ApplyError> {
    let mut known = HashMap::new();
    let mut applied = Vec::new();
    for object in parse(yaml)? {
        let (kind, name) = (object.gvk()?, object.name_any());
        if !known.contains_key(&kind) {
            let found = resource_of(&client, &kind).await?;
            known.insert(kind.clone(), found);
        }
        let Some((resource, capabilities)) = known.get(&kind) else {
            continue;
        };
        let api: Api<DynamicObject> = match place(&object, &kind, &capabilities.scope, into)? {
            Some(namespace) => Api::namespaced_with(client.clone(), &namespace, resource),
            None => Api::all_with(client.clone(), resource),
        };
        let attempt = format!("apply {} {name}", kind.kind);
        applied.push(call(&attempt, api.patch(&name, params, &Patch::Apply(&object))).await?);
    }
    Ok(applied)
}

/// Asks the API server anew each time: a test may have brought the kind itself a moment ago.
async fn resource_of(
    client: &Client,
    kind: &GroupVersionKind,
) -> Result<(ApiResource, ApiCapabilities), KitError> {
    let attempt = format!("find out about {} of {}", kind.kind, kind.api_version());
    call(&attempt, pinned_kind(client, kind)).await
}

async fn delete<K>(api: &Api<K>, name: &str) -> Result<Option<K>, ApplyError>
where
    K: Resource + Clone + DeserializeOwned + Debug,
{
    let attempt = format!("delete {name} at {}", api.resource_url());
    match call(&attempt, api.delete(name, &DeleteParams::background())).await {
        // The object on its way out; what goes at once is answered with a status instead.
        Ok(answer) => Ok(answer.left()),
        Err(error) if error.code() == Some(404) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

async fn remove<K>(api: &Api<K>, name: &str) -> Result<(), ApplyError>
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
{
    if let Some(uid) = delete(api, name).await?.and_then(|leaving| leaving.uid()) {
        wait_for(api, name, REMOVAL_DEADLINE, "to be gone", check::this_gone(&uid)).await?;
    }
    Ok(())
}

trait Kinded {
    fn gvk(&self) -> Result<GroupVersionKind, ApplyError>;
}

impl Kinded for DynamicObject {
    fn gvk(&self) -> Result<GroupVersionKind, ApplyError> {
        let types = self.types.as_ref().ok_or(ApplyError::Incomplete { missing: "apiVersion or kind" })?;
        GroupVersionKind::try_from(types).map_err(|_| ApplyError::Incomplete { missing: "usable apiVersion" })
    }
}

/// The objects of a manifest, those inside of a `List` too, without empty documents.
fn parse(yaml: &str) -> Result<Vec<DynamicObject>, ApplyError> {
    let documents: Vec<Value> =
        serde_saphyr::from_multiple(yaml).map_err(|error| ApplyError::Yaml(Box::new(error)))?;
    let mut objects = Vec::new();
    for document in documents.into_iter().filter(|document| !document.is_null()) {
        let is_list = document.get("kind").and_then(Value::as_str) == Some("List");
        match document.get("items") {
            Some(Value::Array(items)) if is_list => objects.extend(items.iter().cloned()),
            _ => objects.push(document),
        }
    }
    objects.into_iter().map(object).collect()
}

fn object(value: Value) -> Result<DynamicObject, ApplyError> {
    let object: DynamicObject = serde_json::from_value(value).map_err(ApplyError::NoObject)?;
    object.gvk()?;
    if object.metadata.name.is_none() {
        return Err(ApplyError::Incomplete { missing: "metadata.name" });
    }
    Ok(object)
}

/// The namespace that an object goes to; none if it belongs to the whole cluster.
fn place(
    object: &DynamicObject,
    kind: &GroupVersionKind,
    scope: &Scope,
    into: Into<'_>,
) -> Result<Option<String>, ApplyError> {
    let (kind, name) = (kind.kind.clone(), object.name_any());
    match (scope, into, object.namespace()) {
        (Scope::Cluster, Into::Cluster, _) => Ok(None),
        (Scope::Cluster, Into::Namespace(_), _) => Err(ApplyError::ClusterScoped { kind, name }),
        (Scope::Namespaced, Into::Cluster, None) => Err(ApplyError::NoNamespace { kind, name }),
        (Scope::Namespaced, Into::Cluster, Some(named)) => Ok(Some(named)),
        (Scope::Namespaced, Into::Namespace(own), None) => Ok(Some(own.to_owned())),
        (Scope::Namespaced, Into::Namespace(own), Some(named)) if named == own => Ok(Some(named)),
        (Scope::Namespaced, Into::Namespace(own), Some(named)) => {
            Err(ApplyError::OtherNamespace { kind, name, named, own: own.to_owned() })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TWO: &str = "
# a comment before
---
apiVersion: v1
kind: ConfigMap
metadata: {name: a}
data: {items: 'x', yes: 'no', n: '007'}
---
---
apiVersion: v1
kind: List
items:
- apiVersion: apps/v1
  kind: Deployment
  metadata: {name: b, namespace: t-x}
";

    #[test]
    fn a_manifest_is_all_its_documents_and_what_its_lists_hold() {
        let objects = parse(TWO).unwrap();
        let names: Vec<_> = objects.iter().map(|it| (it.gvk().unwrap().kind, it.name_any())).collect();
        assert_eq!(names, [("ConfigMap".into(), "a".into()), ("Deployment".into(), "b".into())]);
        assert_eq!(objects[0].data["data"]["n"], "007");
    }

    #[test]
    fn an_object_with_items_of_its_own_stays_as_it_is() {
        let objects = parse("{apiVersion: v1, kind: X, metadata: {name: a}, items: [1]}").unwrap();
        assert_eq!(objects[0].data["items"], serde_json::json!([1]));
    }

    #[test]
    fn what_is_missing_is_named() {
        let table = [
            ("{apiVersion: v1, kind: Pod, metadata: {}}", "an object of the manifest has no metadata.name"),
            ("{kind: Pod, metadata: {name: a}}", "an object of the manifest has no apiVersion or kind"),
            ("[1, 2]", "a document of the manifest is no Kubernetes object"),
            ("{metadata: {name: a}}", "an object of the manifest has no apiVersion or kind"),
            ("a: [", "cannot read the manifest as YAML"),
        ];
        for (yaml, expected) in table {
            let error = parse(yaml).unwrap_err();
            assert!(error.to_string().contains(expected), "{yaml}: {error}");
        }
    }

    #[test]
    fn a_test_stays_in_its_namespace() {
        let placed = |scope: &Scope, into: Into<'_>, at: usize| {
            let object = parse(TWO).unwrap().remove(at);
            place(&object, &object.gvk().unwrap(), scope, into).map_err(|error| error.to_string())
        };
        let (own, all) = (Into::Namespace("t-x"), Into::Cluster);
        assert_eq!(placed(&Scope::Namespaced, own, 0), Ok(Some("t-x".into())));
        assert_eq!(placed(&Scope::Namespaced, own, 1), Ok(Some("t-x".into())));
        assert_eq!(placed(&Scope::Namespaced, all, 1), Ok(Some("t-x".into())));
        assert_eq!(placed(&Scope::Cluster, all, 0), Ok(None));
        let refused = [
            (placed(&Scope::Namespaced, Into::Namespace("t-y"), 1), "names the namespace t-x"),
            (placed(&Scope::Namespaced, all, 0), "names no namespace"),
            (placed(&Scope::Cluster, own, 0), "belongs to the whole cluster"),
        ];
        for (result, why) in refused {
            assert!(result.unwrap_err().contains(why));
        }
    }
}
