//! S7: two Services, found by the book's selector.

use anyhow::ensure;
use e2e::{etcd_cluster, operator, running};
use testbed::kit::in_namespace;

#[tokio::test]
async fn s7_two_services_are_found_by_the_clusters_label() -> anyhow::Result<()> {
    in_namespace("s7_services", async |ns| {
        operator(&ns).await?;
        ns.apply(&etcd_cluster("example-etcd-cluster", 3, "3.6.14")).await?;
        running(&ns, "example-etcd-cluster").await?;
        let text = ns
            .kubectl(&["get", "services", "--selector", "etcd_cluster=example-etcd-cluster", "--no-headers"])
            .await?
            .success()?;
        let rows: Vec<Vec<_>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
        ensure!(rows.len() == 2, "{text}");
        let row =
            |name: &str| rows.iter().find(|row| row.first() == Some(&name)).cloned().unwrap_or_default();
        let (peers, clients) = (row("example-etcd-cluster"), row("example-etcd-cluster-client"));
        ensure!(
            peers.get(1..3) == Some(&["ClusterIP", "None"]) && peers.get(4) == Some(&"2379/TCP,2380/TCP"),
            "{text}"
        );
        ensure!(clients.get(1) == Some(&"ClusterIP") && clients.get(4) == Some(&"2379/TCP"), "{text}");
        Ok(())
    })
    .await
}
