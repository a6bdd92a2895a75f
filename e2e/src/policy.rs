//! What somebody else's policies do to the pods that are made in a namespace, as webhooks do in many clusters.

use kube::{ResourceExt as _, api::DynamicObject};
use testbed::kit::TestNamespace;

/// What a policy does with a pod that is about to be made.
#[derive(Clone, Copy, Debug)]
pub enum Policy<'a> {
    /// It is changed as these fields of a `MutatingAdmissionPolicy` say.
    Changes(&'a str),
    /// It is judged as these fields of a `ValidatingAdmissionPolicy` say, and refused.
    Refuses(&'a str),
}

/// Has such a policy for this namespace. It is in force a moment later, and stays until it is removed.
pub async fn apply(ns: &TestNamespace, policy: Policy<'_>) -> anyhow::Result<Vec<DynamicObject>> {
    let (version, kind, more, fields) = match policy {
        Policy::Changes(fields) => ("v1beta1", "MutatingAdmissionPolicy", "", fields),
        Policy::Refuses(fields) => {
            ("v1", "ValidatingAdmissionPolicy", "  validationActions: [Deny]\n", fields)
        }
    };
    let (name, group) = (ns.name(), format!("admissionregistration.k8s.io/{version}"));
    let manifest = format!(
        r#"apiVersion: {group}
kind: {kind}
metadata: {{name: {name}}}
spec:
  failurePolicy: Fail
  matchConstraints:
    resourceRules: [{{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}}]
{fields}
---
apiVersion: {group}
kind: {kind}Binding
metadata: {{name: {name}}}
spec:
  policyName: {name}
  matchResources: {{namespaceSelector: {{matchLabels: {{kubernetes.io/metadata.name: {name}}}}}}}
{more}"#
    );
    Ok(ns.cluster().apply(&manifest).await?)
}

/// Removes a policy, which belongs to no namespace.
pub async fn remove(ns: &TestNamespace, policy: &[DynamicObject]) -> anyhow::Result<()> {
    for object in policy {
        let kind = object.types.as_ref().map_or("", |types| types.kind.as_str());
        ns.cluster().kubectl(&["delete", kind, &object.name_any()]).await?.success()?;
    }
    Ok(())
}
