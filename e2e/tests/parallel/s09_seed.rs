//! S9: a cluster that begins with a seed: one member alone, then the others join it one after another.

use std::collections::BTreeMap;

use anyhow::ensure;
use e2e::{
    client_pod, etcd_cluster, etcdctl, operator, printed::printed, running, seeds::Table, until_it_succeeds,
};
use k8s_openapi::api::core::v1::Pod;
use kube::{ResourceExt as _, api::ListParams};
use testbed::kit::{PodSecurity, TestCase};

#[tokio::test]
async fn s9_one_member_starts_as_new_and_the_others_join_it() -> anyhow::Result<()> {
    TestCase::of("s9_seed")
        .pod_security(PodSecurity::Restricted)
        .run(async |ns| {
            operator(&ns).await?;
            client_pod(&ns).await?;
            let manifest =
                etcd_cluster("example", 3, "3.6.14").replace("spec: {", "spec: {bootstrap: Seed, ");
            ns.apply(&manifest).await?;
            let cluster = running(&ns, "example").await?;
            let incarnation = cluster.status.and_then(|status| status.birth).map(|birth| birth.incarnation);
            ensure!(incarnation == Some(1), "it took {incarnation:?} attempts");

            let pods =
                ns.api::<Pod>().list(&ListParams::default().labels("etcd_cluster=example")).await?.items;
            // How many members each was told of when it was made: what etcd had then, and itself.
            let mut told: BTreeMap<usize, String> = BTreeMap::new();
            for pod in &pods {
                let order = &pod.annotations()["etcd.database.coreos.com/launch-order"];
                told.insert(order.matches(":2380").count(), pod.name_any());
            }
            // Its own address is in the order twice, and one to listen on.
            ensure!(told.keys().copied().collect::<Vec<_>>() == [3, 4, 5], "{told:?}");
            let members = etcdctl(&ns, "example", &["member", "list"]).await?;
            ensure!(members.lines().filter(|line| line.contains("started")).count() == 3, "{members}");
            ensure!(members.lines().all(|line| line.trim_end().ends_with("false")), "a learner: {members}");
            etcdctl(&ns, "example", &["endpoint", "health", "--cluster"]).await?;
            // What the article does by hand, the operator did.
            for block in Table::read()?.shown_by("003", "seed") {
                for command in block.typed() {
                    let words: Vec<_> = command.split_whitespace().skip(1).collect();
                    // An Event that the API server was late with is told again.
                    until_it_succeeds(async || {
                        let said = ns.kubectl(&words).await?.success()?;
                        printed(&block.prints, &said).map_err(anyhow::Error::msg)
                    })
                    .await?;
                }
            }
            Ok(())
        })
        .await
}
