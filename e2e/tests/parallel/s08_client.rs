//! S8: the book's client puts and gets through the client Service.

use anyhow::ensure;
use e2e::{SOON, etcd_cluster, operator_beside_people, running, until_it_succeeds};
use testbed::kit::in_namespace;

const SCRIPT: &str = "export ETCDCTL_API=3
export ETCDCSVC=http://example-etcd-cluster-client:2379
etcdctl --endpoints $ETCDCSVC put foo bar
etcdctl --endpoints $ETCDCSVC get foo
";

#[tokio::test]
async fn s8_foo_is_read_back_as_bar_through_the_client_service() -> anyhow::Result<()> {
    in_namespace("s8_client", async |ns| {
        operator_beside_people(&ns).await?;
        ns.apply(&etcd_cluster("example-etcd-cluster", 3, "3.6.14")).await?;
        running(&ns, "example-etcd-cluster").await?;
        let run =
            ["run", "--rm", "-i", "etcdctl", "--image", "quay.io/coreos/etcd", "--restart=Never", "--quiet"];
        // Typed, as in the book: what a shell prints before kubectl is attached to it is not seen.
        let shell = [&run[..], &["--", "/bin/sh"]].concat();
        // Again, if need be: etcdctl gives up after five seconds, which a busy etcd may need.
        until_it_succeeds(async || {
            ns.kubectl(&["delete", "pod", "etcdctl", "--ignore-not-found", "--now"]).await?.success()?;
            let said = ns.kubectl_with(&shell, SCRIPT.as_bytes(), SOON).await?.success()?;
            ensure!(said.contains("OK\nfoo\nbar"), "{said}");
            Ok(())
        })
        .await
    })
    .await
}
