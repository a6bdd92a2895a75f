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

/// Long enough to watch, or to fail to.
const A_MOMENT: Duration = Duration::from_millis(250);

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
                sleep(A_MOMENT).await;
                proxy.cut();
                // While nobody can watch; past the proxy.
                ns.apply(&map_with(cut)).await?;
                sleep(A_MOMENT).await;
                proxy.mend();
            }
            anyhow::Ok(())
        };
        let (waited, cut) = tokio::join!(waiting, cutting);
        cut?;
        waited?;
        ensure!(views > 1, "it was only seen when all was over");
        ensure!(proxy.asked() > 10, "only {} connections for ten cuts", proxy.asked());
        Ok(())
    })
    .await
}

fn map_with(cuts: usize) -> String {
    format!("{{apiVersion: v1, kind: ConfigMap, metadata: {{name: x}}, data: {{cuts: '{cuts}'}}}}")
}

/// Stands between a client and the API server, and can cut the line.
struct Proxy {
    lines: Arc<Mutex<Lines>>,
}

#[derive(Default)]
struct Lines {
    cut: bool,
    /// How many connections were asked for.
    asked: usize,
    open: JoinSet<()>,
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

        let proxy = Self { lines: Arc::default() };
        let lines = Arc::clone(&proxy.lines);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let mut lines = lines.lock().unwrap_or_else(PoisonError::into_inner);
                lines.asked += 1;
                if !lines.cut {
                    lines.open.spawn(forward(client, address.clone()));
                }
            }
        });
        Ok(proxy)
    }

    /// Ends all connections, and lets no new one through.
    fn cut(&self) {
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        lines.cut = true;
        lines.open.abort_all();
    }

    fn mend(&self) {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner).cut = false;
    }

    fn asked(&self) -> usize {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner).asked
    }
}

async fn forward(mut client: TcpStream, address: String) {
    if let Ok(mut server) = TcpStream::connect(address).await {
        // However it ends: both sides see that it did.
        let _ = copy_bidirectional(&mut client, &mut server).await;
    }
}
