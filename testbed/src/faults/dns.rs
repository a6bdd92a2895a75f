//! Faults: the cluster's DNS does not answer, or gives old answers.

use k8s_openapi::api::{apps::v1::Deployment, core::v1::Pod};
use kube::{Api, api::ListParams};

use super::{
    Broken, Fault, FaultError, Ground, PATIENCE,
    network::{Cut, Peer, Way},
    place::Place,
    process::Frozen,
};
use crate::kit::{call, wait_for};

/// DNS whose servers stand still. After some seconds they are not Ready, and questions are refused instead of lost.
#[derive(Debug)]
pub struct Silent {
    ground: Ground,
    servers: Vec<Broken<Frozen>>,
}

/// DNS whose servers hear of nothing new, and go on to tell what they know.
#[derive(Debug)]
pub struct Old {
    servers: Vec<Broken<Cut>>,
}

impl Ground {
    /// Lets every DNS server stand still.
    pub async fn silence_dns(&self) -> Result<Broken<Silent>, FaultError> {
        let servers = self.dns_servers().await?;
        let servers = servers.iter().map(|server| server.freeze("coredns")).collect::<Result<_, _>>()?;
        Ok(Broken::new(Silent { ground: self.clone(), servers }))
    }

    /// Keeps every DNS server from hearing of anything new.
    pub async fn outdate_dns(&self) -> Result<Broken<Old>, FaultError> {
        // By the address of the Service, as the servers see it.
        let news = Peer::Address(self.layout.instance.network().api_service().into());
        let servers = self.dns_servers().await?;
        let servers = servers.iter().map(|server| server.cut(Way::Both, news)).collect::<Result<_, _>>()?;
        Ok(Broken::new(Old { servers }))
    }

    async fn dns_servers(&self) -> Result<Vec<Place>, FaultError> {
        let pods: Api<Pod> = Api::namespaced(self.cluster().await?.client(), "kube-system");
        let labels = ListParams::default().labels("k8s-app=kube-dns");
        let pods = call("list the DNS servers", pods.list(&labels)).await?;
        pods.into_iter().map(|pod| self.place_of(pod)).collect()
    }

    /// Waits until every DNS server is there.
    pub(super) async fn dns_works(&self) -> Result<(), FaultError> {
        let deployments: Api<Deployment> = Api::namespaced(self.cluster().await?.client(), "kube-system");
        let all_ready = |deployment: Option<&Deployment>| {
            let status = deployment.and_then(|deployment| deployment.status.clone()).unwrap_or_default();
            let (wanted, ready) = (status.replicas.unwrap_or(0), status.ready_replicas.unwrap_or(0));
            if wanted > 0 && ready == wanted { Ok(()) } else { Err(format!("{ready} of {wanted} are Ready")) }
        };
        wait_for(&deployments, "coredns", PATIENCE, "to be all there", all_ready).await?;
        Ok(())
    }
}

impl Fault for Silent {
    async fn heal(&self) -> Result<(), FaultError> {
        for server in &self.servers {
            server.heal_again().await?;
        }
        self.ground.dns_works().await
    }
}

impl Fault for Old {
    async fn heal(&self) -> Result<(), FaultError> {
        for server in &self.servers {
            server.heal_again().await?;
        }
        Ok(())
    }
}
