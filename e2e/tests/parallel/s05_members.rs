//! S5: an EtcdCluster becomes three pods, each with one init container and one container.

use anyhow::ensure;
use e2e::{etcd_cluster, operator, running};
use k8s_openapi::api::core::v1::Pod;
use kube::{ResourceExt as _, api::ListParams};
use testbed::kit::{PodSecurity, TestCase};

#[tokio::test]
async fn s5_a_cluster_of_three_becomes_three_pods_with_names_of_their_own() -> anyhow::Result<()> {
    TestCase::of("s5_members")
        .pod_security(PodSecurity::Restricted)
        .run(async |ns| {
            operator(&ns).await?;
            ns.apply(&etcd_cluster("example-etcd-cluster", 3, "3.6.14")).await?;
            running(&ns, "example-etcd-cluster").await?;
            let labels = ListParams::default().labels("etcd_cluster=example-etcd-cluster,app=etcd");
            let pods = ns.api::<Pod>().list(&labels).await?.items;
            ensure!(pods.len() == 3, "{} pods", pods.len());
            for pod in pods {
                let name = pod.name_any();
                let suffix = name.strip_prefix("example-etcd-cluster-").unwrap_or_default();
                let random = suffix.len() == 10
                    && suffix.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
                ensure!(random, "{name} does not end with ten lower-case letters and digits");
                let spec = pod.spec.clone().unwrap_or_default();
                ensure!(spec.containers.len() == 1, "{name} has {} containers", spec.containers.len());
                ensure!(
                    spec.init_containers.map_or(0, |init| init.len()) == 1,
                    "{name} has not one init container"
                );
                ensure!(pod.labels().get("etcd_node") == Some(&name), "{name} is not labelled with its name");
            }
            Ok(())
        })
        .await
}
