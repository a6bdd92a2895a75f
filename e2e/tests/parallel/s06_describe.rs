//! S6: `kubectl describe` shows every key of the book's first excerpt.

use anyhow::ensure;
use e2e::{etcd_cluster, operator, running};
use testbed::kit::in_namespace;

#[tokio::test]
async fn s6_describe_shows_what_the_book_shows() -> anyhow::Result<()> {
    in_namespace("s6_describe", async |ns| {
        operator(&ns).await?;
        ns.apply(&etcd_cluster("example-etcd-cluster", 3, "3.6.14")).await?;
        let cluster = running(&ns, "example-etcd-cluster").await?;
        let text = ns.kubectl(&["describe", "etcdcluster/example-etcd-cluster"]).await?.success()?;
        // Today's kubectl aligns values in columns; the keys, their order within a block and the values are the book's.
        let lines: Vec<_> =
            text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
        for expected in [
            "Name: example-etcd-cluster",
            &format!("Namespace: {}", ns.name()),
            "API Version: etcd.database.coreos.com/v1beta2",
            "Kind: EtcdCluster",
            "Repository: quay.io/coreos/etcd",
            "Size: 3",
            "Version: 3.6.14",
            "Client Port: 2379",
            "Reason: Cluster available",
            "Status: True",
            "Type: Available",
            "Current Version: 3.6.14",
            "Phase: Running",
            "Service Name: example-etcd-cluster-client",
        ] {
            ensure!(lines.iter().any(|line| line == expected), "{expected:?} is not in\n{text}");
        }
        let members = cluster.status.and_then(|status| status.members).and_then(|members| members.ready);
        let members = members.unwrap_or_default();
        ensure!(members.len() == 3, "{members:?}");
        for member in members {
            ensure!(lines.contains(&member), "{member} is not in\n{text}");
        }
        Ok(())
    })
    .await
}
