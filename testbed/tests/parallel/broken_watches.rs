//! A wait outlives its watch: connections to the API server are cut under it, again and again.

use std::{
    fs,
    net::SocketAddr,
    path::Path,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use anyhow::{Context, ensure};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use serde_json::{Value, json};
use testbed::kit::{Cluster, in_namespace, wait_for};
use tokio::{
    io::copy_bidirectional,
    net::{TcpListener, TcpStream},
    task::JoinSet,
    time::sleep,
};

use crate::SOON;

#[tokio::test]
async fn a_wait_goes_on_when_its_connection_is_cut() -> anyhow::Result<()> {
    in_namespace("a_wait_goes_on_when_its_connection_is_cut", async |ns| {
        let folder = tempfile::tempdir()?;
        let kubeconfig = folder.path().join("kubeconfig");
        let proxy = Proxy::to_the_server_of(&ns.cluster().places().kubeconfig, &kubeconfig).await?;
        let through_proxy = Cluster::connect_with(&kubeconfig).await?;
        let maps: Api<ConfigMap> = Api::namespaced(through_proxy.client(), ns.name());

        let mut views = 0;
        let value = |map: Option<&ConfigMap>| {
            views += 1;
            let value = map.and_then(|map| map.data.as_ref()?.get("cuts").cloned());
            value.filter(|value| value == "10").ok_or("not yet".to_owned())
        };
        let waiting = wait_for(&maps, "x", SOON, "to have seen ten cuts", value);
        let cutting = async {
            for cut in 1..=10 {
                sleep(Duration::from_millis(150)).await;
                proxy.cut();
                // While nobody watches; past the proxy.
                let map = format!(
                    "{{apiVersion: v1, kind: ConfigMap, metadata: {{name: x}}, data: {{cuts: '{cut}'}}}}"
                );
                ns.apply(&map).await?;
            }
            anyhow::Ok(())
        };
        let (waited, cut) = tokio::join!(waiting, cutting);
        cut?;
        waited?;
        ensure!(views > 1, "it was only seen when all was over");
        ensure!(proxy.connections() > 5, "only {} connections were cut", proxy.connections());
        Ok(())
    })
    .await
}

/// Stands between a client and the API server, and can cut the line.
struct Proxy {
    lines: Arc<Mutex<(usize, JoinSet<()>)>>,
}

impl Proxy {
    /// Starts a proxy, and writes a kubeconfig that leads through it.
    async fn to_the_server_of(kubeconfig: &Path, through: &Path) -> anyhow::Result<Self> {
        let mut config: Value = serde_saphyr::from_str(&fs::read_to_string(kubeconfig)?)?;
        let cluster = config.pointer_mut("/clusters/0/cluster").context("the kubeconfig names no cluster")?;
        let server = cluster["server"].as_str().unwrap_or_default().to_owned();
        let address = server.trim_start_matches("https://").to_owned();
        let (host, _) = address.split_once(':').context("the API server has no port")?;
        let listener = TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0))).await?;
        cluster["server"] = json!(format!("https://{}", listener.local_addr()?));
        cluster["tls-server-name"] = json!(host);
        fs::write(through, config.to_string())?;

        let lines = Arc::new(Mutex::new((0, JoinSet::new())));
        let accepted = Arc::clone(&lines);
        tokio::spawn(async move {
            while let Ok((mut client, _)) = listener.accept().await {
                let address = address.clone();
                let mut lines = accepted.lock().unwrap_or_else(PoisonError::into_inner);
                lines.0 += 1;
                lines.1.spawn(async move {
                    if let Ok(mut server) = TcpStream::connect(address).await {
                        let _ = copy_bidirectional(&mut client, &mut server).await;
                    }
                });
            }
        });
        Ok(Self { lines })
    }

    fn cut(&self) {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner).1.abort_all();
    }

    fn connections(&self) -> usize {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner).0
    }
}
