//! The book's chapter (seed 004) in the namespace `default`, unchanged, as far as its blocks are not pending.

use std::time::Duration;

use anyhow::ensure;
use api::EtcdCluster;
use e2e::{SOON, seeds::Table};
use k8s_openapi::{
    api::{
        coordination::v1::Lease,
        core::v1::{Pod, Service},
    },
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::Api;
use testbed::kit::{Cluster, check, wait_for_all};
use tokio::time::{Instant, sleep_until};

use crate::{installed::nothing_installed, reader::Reader};

const SEED: &str = "004";

#[tokio::test]
async fn the_chapter_works_as_written_from_the_first_file_to_the_last_clean_up() -> anyhow::Result<()> {
    let cluster = Cluster::connect().await?;
    nothing_installed(&cluster).await?;
    let table = Table::read()?;
    let mut reader = Reader::on(&cluster, "example")?;
    let begun = Instant::now();
    for block in table.shown_by(SEED, "book") {
        if block.shows.iter().any(|s| s == "S24") {
            before_clean_up(&cluster, begun).await?;
        }
        reader.block(block).await?;
    }
    nothing_left(&cluster).await
}

/// Nothing holds the resource, and the garbage collector knows the kind.
async fn before_clean_up(cluster: &Cluster, begun: Instant) -> anyhow::Result<()> {
    // The book's case: the kinds that it does not have were not needed.
    let crds: Api<CustomResourceDefinition> = Api::all(cluster.client());
    ensure!(
        crds.get_opt("etcdbackups.etcd.database.coreos.com").await?.is_none(),
        "there are more CRDs than the book's"
    );
    let clusters: Api<EtcdCluster> = Api::namespaced(cluster.client(), "default");
    let resource = clusters.get("example-etcd-cluster").await?;
    ensure!(resource.metadata.finalizers.unwrap_or_default().is_empty(), "a finalizer would hang");
    // It takes up a new kind within half a minute; before that it does not know whose the pods are.
    sleep_until(begun + Duration::from_secs(40)).await;
    Ok(())
}

/// S24: of all that was made, nothing is left.
async fn nothing_left(cluster: &Cluster) -> anyhow::Result<()> {
    let pods: Api<Pod> = Api::namespaced(cluster.client(), "default");
    let services: Api<Service> = Api::namespaced(cluster.client(), "default");
    let labels = "etcd_cluster=example-etcd-cluster";
    wait_for_all(&pods, labels, SOON, "to be gone", check::none_left).await?;
    wait_for_all(&services, labels, SOON, "to be gone", check::none_left).await?;
    wait_for_all(&pods, "name=etcd-operator", SOON, "to be gone", check::none_left).await?;
    let leases: Api<Lease> = Api::namespaced(cluster.client(), "default");
    Ok(wait_for_all(&leases, "", SOON, "to be gone", check::none_left).await?)
}
