//! The way from this process to a cluster's client Service.
//!
//! This machine has routes to the Services of the testbed, and connections go as any client's do, by kube-proxy to one of
//! the members. Of a cluster that was named by its kubeconfig no such thing is known: there each connection goes through the API
//! server to one of the pods that the Service leads to, as with `kubectl port-forward`.

use std::{io, net::Ipv4Addr, sync::Arc};

use k8s_openapi::api::{
    core::v1::{Pod, Service},
    discovery::v1::EndpointSlice,
};
use kube::{Api, api::ListParams};
use tokio::{
    io::copy_bidirectional,
    net::{TcpListener, TcpStream},
    task::JoinSet,
};

use crate::kit::{Cluster, KitError, Places, call, dial};

/// Where etcd serves clients.
const CLIENT_PORT: u16 = 2379;

/// Why there is no way.
#[derive(Debug, thiserror::Error)]
pub enum RouteError {
    /// The Service could not be read.
    #[error(transparent)]
    Service(#[from] KitError),
    /// The Service is one of names only.
    #[error("the Service {service} has no address of its own")]
    NoAddress {
        /// Which.
        service: String,
    },
    /// No port of this machine could be had to pass connections on from.
    #[error("listen for connections to {service}")]
    Listen {
        /// To which Service.
        service: String,
        /// Why not.
        source: io::Error,
    },
}

/// A way to a Service, as long as it is kept.
pub struct Route {
    address: String,
    /// Ends with the route.
    _forwarding: JoinSet<()>,
}

impl Route {
    /// The way to the client Service of an etcd cluster.
    pub async fn to(cluster: &Cluster, namespace: &str, etcd: &str) -> Result<Self, RouteError> {
        let service = format!("{etcd}-client");
        let services: Api<Service> = Api::namespaced(cluster.client(), namespace);
        let found =
            call(&format!("read the Service {service} of {namespace}"), services.get(&service)).await?;
        if Places::named().is_some() {
            return forwarded(cluster, namespace, service).await;
        }
        let ip = found.spec.and_then(|spec| spec.cluster_ip).filter(|ip| !ip.is_empty() && ip != "None");
        let address = ip.map(|ip| format!("{ip}:{CLIENT_PORT}")).ok_or(RouteError::NoAddress { service })?;
        Ok(Self { address, _forwarding: JoinSet::new() })
    }

    /// Host and port to connect to.
    #[must_use]
    pub fn address(&self) -> &str {
        &self.address
    }
}

/// A port of this machine whose connections are passed on to the Service's pods, each to another one.
pub async fn forwarded(cluster: &Cluster, namespace: &str, service: String) -> Result<Route, RouteError> {
    let listen = |source| RouteError::Listen { service: service.clone(), source };
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.map_err(listen)?;
    let address = listener.local_addr().map_err(listen)?.to_string();
    let backends = Arc::new(Backends {
        slices: Api::namespaced(cluster.client(), namespace),
        pods: Api::namespaced(cluster.client(), namespace),
        service,
    });
    let mut forwarding = JoinSet::new();
    forwarding.spawn(async move {
        let mut connections = JoinSet::new();
        for turn in 0.. {
            // Whatever is wrong with one connection, its client sees it break, and the next one may do better.
            let Ok((client, _)) = listener.accept().await else { continue };
            while connections.try_join_next().is_some() {}
            let backends = Arc::clone(&backends);
            connections.spawn(async move { backends.pass_on(client, turn).await });
        }
    });
    Ok(Route { address, _forwarding: forwarding })
}

struct Backends {
    slices: Api<EndpointSlice>,
    pods: Api<Pod>,
    service: String,
}

impl Backends {
    async fn pass_on(&self, mut client: TcpStream, turn: usize) {
        let ready = self.ready().await.unwrap_or_default();
        let Some(pod) = ready.get(turn % ready.len().max(1)) else { return };
        if let Ok(mut dialled) = dial::pod(&self.pods, pod, CLIENT_PORT).await {
            let _ = copy_bidirectional(&mut client, &mut dialled).await;
        }
    }

    /// The pods that the Service leads to now.
    async fn ready(&self) -> Result<Vec<String>, KitError> {
        let of_service =
            ListParams::default().labels(&format!("kubernetes.io/service-name={}", self.service));
        let slices = call("list the endpoints of a Service", self.slices.list(&of_service)).await?;
        let endpoints = slices.items.into_iter().flat_map(|slice| slice.endpoints);
        Ok(endpoints
            .filter(|it| it.conditions.as_ref().and_then(|conditions| conditions.ready) != Some(false))
            .filter_map(|it| it.target_ref?.name)
            .collect())
    }
}
