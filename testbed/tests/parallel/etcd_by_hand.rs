//! etcd itself runs here, every version that is asked for: three members made by hand, on three nodes.

use std::collections::BTreeSet;

use anyhow::ensure;
use testbed::kit::{handmade::HandMade, in_namespace};

use crate::etcdctl;

#[tokio::test]
async fn three_members_of_etcd_3_4_serve() -> anyhow::Result<()> {
    three_members_serve("three_members_of_etcd_3_4_serve", "3.4.23").await
}

#[tokio::test]
async fn three_members_of_etcd_3_5_serve() -> anyhow::Result<()> {
    three_members_serve("three_members_of_etcd_3_5_serve", "3.5.33").await
}

#[tokio::test]
async fn three_members_of_etcd_3_6_serve() -> anyhow::Result<()> {
    three_members_serve("three_members_of_etcd_3_6_serve", "3.6.14").await
}

#[tokio::test]
async fn three_members_of_etcd_3_7_serve() -> anyhow::Result<()> {
    three_members_serve("three_members_of_etcd_3_7_serve", "3.7.1").await
}

async fn three_members_serve(test: &str, version: &str) -> anyhow::Result<()> {
    in_namespace(test, async |ns| {
        let etcd = HandMade { name: "etcd", namespace: ns.name(), version, size: 3 };
        ns.apply(&etcd.manifest()).await?;
        let pods = ns.pods_ready(&etcd.labels(), 3).await?;
        let nodes: BTreeSet<_> = pods.iter().filter_map(|pod| pod.spec.as_ref()?.node_name.clone()).collect();
        ensure!(nodes.len() == 3, "three members are on {nodes:?}");

        let running = ns.exec("etcd-0", &["/usr/local/bin/etcd", "--version"]).await?.success()?;
        ensure!(running.contains(&format!("etcd Version: {version}\n")), "{running}");

        etcdctl(&ns, "etcd-0", &etcd.client_url(), &["put", "greeting", version]).await?.success()?;
        for member in etcd.members() {
            let get = ["get", "greeting", "--print-value-only"];
            let got = etcdctl(&ns, "etcd-0", &etcd.member_url(&member), &get).await?.success()?;
            ensure!(got == version, "{member} has {got:?}");
        }

        let everyone: Vec<_> = etcd.members().iter().map(|member| etcd.member_url(member)).collect();
        let health = etcdctl(&ns, "etcd-0", &everyone.join(","), &["endpoint", "health"]).await?;
        // 3.4 says it on its standard error.
        let healthy = format!("{}{}", health.stdout, health.stderr).matches(" is healthy").count();
        ensure!(health.code == 0 && healthy == 3, "{health}");

        let members = etcdctl(&ns, "etcd-0", &etcd.client_url(), &["member", "list"]).await?.success()?;
        ensure!(members.lines().filter(|line| line.contains(", started, ")).count() == 3, "{members}");
        Ok(())
    })
    .await
}
