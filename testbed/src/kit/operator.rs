//! The operator in a test's namespace, from the files that the book names, with the one edit that the book describes.

use std::time::Duration;

use k8s_openapi::{
    api::apps::v1::Deployment,
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{Api, ResourceExt as _};

use super::{
    Cluster, KitError, PodSecurity, TestNamespace,
    apply::ApplyError,
    check,
    kubectl::KubectlError,
    output::NotSuccessful,
    wait::{WaitError, until_it_succeeds, wait_for},
};

/// Long enough for a busy machine, short enough to be waited for.
const PATIENCE: Duration = Duration::from_mins(5);

/// The labels of its pods.
pub const LABELS: &str = "name=etcd-operator";

const DEPLOYMENT: &str = "etcd-operator";
const CRDS: &str = include_str!("../../../deploy/crds.yaml");
const INSTALL: [&str; 4] = [
    include_str!("../../../example/etcd-operator-sa.yaml"),
    include_str!("../../../example/etcd-operator-role.yaml"),
    include_str!("../../../example/etcd-operator-rolebinding.yaml"),
    include_str!("../../../example/etcd-operator-deployment.yaml"),
];

/// Why the operator does not run in a namespace.
#[derive(Debug, thiserror::Error)]
pub enum OperatorError {
    /// The namespace could not be labelled.
    #[error(transparent)]
    Label(#[from] KitError),
    /// Its files could not be applied.
    #[error(transparent)]
    Apply(#[from] ApplyError),
    /// It was waited for in vain.
    #[error(transparent)]
    Wait(#[from] WaitError),
    /// kubectl could not be run.
    #[error(transparent)]
    Kubectl(#[from] KubectlError),
    /// kubectl did not do as it was told.
    #[error(transparent)]
    Scale(#[from] NotSuccessful),
}

/// Has the CRDs, and waits until the API server serves them.
pub async fn crds(cluster: &Cluster) -> Result<(), OperatorError> {
    let crds: Api<CustomResourceDefinition> = Api::all(cluster.client());
    for crd in cluster.apply(CRDS).await? {
        let name = crd.name_any();
        wait_for(&crds, &name, PATIENCE, "to be established", established).await?;
        // The list of kinds, which a client asks before it applies one, follows a moment later.
        let served = async || Ok(cluster.kubectl(&["get", &name, "--all-namespaces"]).await?.success()?);
        until_it_succeeds::<_, OperatorError>(PATIENCE, served).await?;
    }
    Ok(())
}

fn established(crd: Option<&CustomResourceDefinition>) -> Result<(), String> {
    let conditions = crd.and_then(|crd| crd.status.as_ref()?.conditions.as_ref());
    let holds = |kind: &str| {
        conditions
            .into_iter()
            .flatten()
            .any(|condition| condition.type_ == kind && condition.status == "True")
    };
    if holds("Established") && holds("NamesAccepted") { Ok(()) } else { Err("not established".to_owned()) }
}

/// Installs the CRDs and the operator, whose image is in the registry already, and waits until it runs. From then on, pods that are
/// more than they must be are refused in the namespace.
pub async fn operator(ns: &TestNamespace) -> Result<(), OperatorError> {
    operator_with(ns, str::to_owned).await
}

/// The same, with one more edit of its files.
pub async fn operator_with(ns: &TestNamespace, edit: impl Fn(&str) -> String) -> Result<(), OperatorError> {
    ns.enforce(PodSecurity::Restricted).await?;
    install(ns, edit).await
}

/// The operator where people run pods that would be refused otherwise: these are taken, and the audit log names them.
pub async fn operator_beside_people(ns: &TestNamespace) -> Result<(), OperatorError> {
    ns.warn(PodSecurity::Restricted).await?;
    install(ns, str::to_owned).await
}

async fn install(ns: &TestNamespace, edit: impl Fn(&str) -> String) -> Result<(), OperatorError> {
    crds(ns.cluster()).await?;
    for manifest in INSTALL {
        let manifest = manifest.replace("namespace: default", &format!("namespace: {}", ns.name()));
        ns.apply(&edit(&manifest)).await?;
    }
    operator_available(ns).await
}

/// Waits until the operator of this test's namespace runs.
pub async fn operator_available(ns: &TestNamespace) -> Result<(), OperatorError> {
    available_in(ns.cluster(), ns.name()).await
}

/// Waits until the operator of this namespace runs.
pub async fn available_in(cluster: &Cluster, namespace: &str) -> Result<(), OperatorError> {
    let deployments: Api<Deployment> = Api::namespaced(cluster.client(), namespace);
    wait_for(&deployments, DEPLOYMENT, PATIENCE, "to be available", check::deployment_available).await?;
    Ok(())
}

/// Sets how many operators run in this namespace, and waits until that many do.
pub async fn operator_replicas(ns: &TestNamespace, replicas: u8) -> Result<(), OperatorError> {
    let deployment = format!("deployment/{DEPLOYMENT}");
    ns.kubectl(&["scale", &deployment, &format!("--replicas={replicas}")]).await?.success()?;
    ns.kubectl(&["rollout", "status", &deployment, "--timeout=5m"]).await?.success()?;
    if replicas == 0 {
        ns.kubectl(&["wait", "--for=delete", "pod", "-l", LABELS, "--timeout=5m"]).await?.success()?;
    }
    Ok(())
}
