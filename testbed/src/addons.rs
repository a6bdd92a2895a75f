//! What a cluster needs beside its programs: DNS, a storage class, and the rights of the testbed's own parts.

use std::time::Duration;

use k8s_openapi::api::apps::v1::Deployment;
use kube::Api;

use crate::{
    control_plane::{KUBELET_CLIENTS, Layout, PROVISIONERS},
    images,
    kit::{Cluster, apply::ApplyError, check, wait::WaitError, wait_for},
    provisioner::PROVISIONER,
};

/// How long the cluster's DNS lets its answers be believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DnsAnswers {
    /// The time to live of each answer, in seconds.
    pub ttl: u32,
    /// How long the server itself keeps an answer, in seconds, also the answer that there is no such name; 0 keeps none.
    pub cache: u32,
}

impl Default for DnsAnswers {
    /// What kubeadm of this Kubernetes sets up: names of the cluster are not cached in the server. Clusters with an older
    /// configuration have `cache: 30`, and a member that is asked for too early cannot be found for half a minute.
    fn default() -> Self {
        Self { ttl: 30, cache: 0 }
    }
}

/// What went wrong with an add-on.
#[derive(Debug, thiserror::Error)]
pub enum AddonError {
    /// An object was not taken.
    #[error("the cluster's own objects could not be applied")]
    Apply(#[from] ApplyError),
    /// DNS does not come up.
    #[error(transparent)]
    Wait(#[from] WaitError),
}

/// Applies all add-ons. DNS is not waited for.
pub async fn apply(layout: &Layout, cluster: &Cluster, dns: DnsAnswers) -> Result<(), AddonError> {
    let network = layout.instance.network();
    let manifest = include_str!("../manifests/cluster.yaml")
        .replace("$KUBELET_CLIENTS", &format!("{KUBELET_CLIENTS:?}"))
        .replace("$PROVISIONERS", &format!("{PROVISIONERS:?}"))
        .replace("$PROVISIONER", PROVISIONER)
        .replace("$COREDNS", &images::coredns_name())
        .replace("$CACHE", &if dns.cache == 0 { String::new() } else { format!("cache {}", dns.cache) })
        .replace("$TTL", &dns.ttl.to_string())
        .replace("$DNS_SERVICE", &network.dns_service().to_string());
    cluster.apply(&manifest).await?;
    Ok(())
}

/// Waits until DNS answers.
pub async fn dns_available(cluster: &Cluster) -> Result<(), AddonError> {
    let deployments: Api<Deployment> = Api::namespaced(cluster.client().clone(), "kube-system");
    let patience = Duration::from_mins(2);
    wait_for(&deployments, "coredns", patience, "to be available", check::deployment_available).await?;
    Ok(())
}
