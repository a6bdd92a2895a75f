//! Every etcd version, every odd size, and many clusters at once.

use anyhow::ensure;
use e2e::{client_pod, etcd_cluster, etcdctl, operator, running};
use futures::future::try_join_all;
use testbed::kit::{GRAVE, PodSecurity, TestCase};

async fn serves(version: &str, size: u8) -> anyhow::Result<()> {
    let case = format!("etcd-{}-of-{size}", version.replace('.', "-"));
    TestCase::of(&case)
        .pod_security(PodSecurity::Restricted)
        .run(async |ns| {
            operator(&ns).await?;
            client_pod(&ns).await?;
            ns.apply(&etcd_cluster("c", size, version)).await?;
            let cluster = running(&ns, "c").await?;
            let current = cluster.status.and_then(|status| status.current_version);
            ensure!(current.as_deref() == Some(version), "{current:?} is not {version}");
            etcdctl(&ns, "c", &["put", "foo", "bar"]).await?;
            let got = etcdctl(&ns, "c", &["get", "foo", "--print-value-only"]).await?;
            ensure!(got == "bar", "{GRAVE} {got:?}");
            let members = etcdctl(&ns, "c", &["member", "list"]).await?;
            ensure!(
                members.lines().filter(|line| line.contains("started")).count() == usize::from(size),
                "{members}"
            );
            etcdctl(&ns, "c", &["endpoint", "health", "--cluster"]).await?;
            Ok(())
        })
        .await
}

#[tokio::test]
async fn three_members_of_etcd_3_4_serve() -> anyhow::Result<()> {
    serves("3.4.23", 3).await
}

#[tokio::test]
async fn three_members_of_etcd_3_5_serve() -> anyhow::Result<()> {
    serves("3.5.33", 3).await
}

#[tokio::test]
async fn three_members_of_etcd_3_7_serve() -> anyhow::Result<()> {
    serves("3.7.1", 3).await
}

#[tokio::test]
async fn one_member_serves() -> anyhow::Result<()> {
    serves("3.6.14", 1).await
}

#[tokio::test]
async fn five_members_serve() -> anyhow::Result<()> {
    serves("3.6.14", 5).await
}

#[tokio::test]
async fn seven_members_serve() -> anyhow::Result<()> {
    serves("3.6.14", 7).await
}

#[tokio::test]
async fn ten_clusters_at_once_serve() -> anyhow::Result<()> {
    TestCase::of("ten_clusters")
        .run(async |ns| {
            operator(&ns).await?;
            client_pod(&ns).await?;
            let names: Vec<_> = (0..10).map(|number| format!("c{number}")).collect();
            let manifests: Vec<_> = names.iter().map(|name| etcd_cluster(name, 3, "3.6.14")).collect();
            ns.apply(&manifests.join("---\n")).await?;
            try_join_all(names.iter().map(|name| running(&ns, name))).await?;
            for name in &names {
                etcdctl(&ns, name, &["put", "who", name]).await?;
            }
            for name in &names {
                let got = etcdctl(&ns, name, &["get", "who", "--print-value-only"]).await?;
                ensure!(got == *name, "{GRAVE} {name} says that it is {got}");
            }
            Ok(())
        })
        .await
}
