//! The book's chapter (seed 004) in the namespace `default`, unchanged, as far as its blocks are not pending.

use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use api::EtcdCluster;
use e2e::{SOON, printed::printed, seeds::Table};
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
/// How `foo` is read, in a pod of its own.
const GET_FOO: &str = "kubectl run --rm -i get-foo --image quay.io/coreos/etcd --restart=Never -- /bin/sh -c \
    'ETCDCTL_API=3 etcdctl --endpoints http://example-etcd-cluster-client:2379 get foo'";

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
        let changes = ["apply", "edit", "delete pod", "patch"].map(|verb| format!("kubectl {verb} "));
        let edits = |line: &String| changes.iter().any(|change| line.contains(change.as_str()));
        if block.typed().iter().any(edits) {
            still_there(&reader).await.with_context(|| format!("after the block {}", block.at))?;
        }
    }
    nothing_left(&cluster).await
}

/// What the book's reader repeats after each change: `foo` is still `bar`.
async fn still_there(reader: &Reader) -> anyhow::Result<()> {
    let expected = ["foo", "bar"].map(str::to_owned);
    let end = Instant::now() + SOON;
    loop {
        let said = reader.run(GET_FOO, None).await;
        match said.as_ref().map(|said| printed(&expected, said)) {
            Ok(Ok(())) => return Ok(()),
            _ if Instant::now() > end => bail!("foo is not bar: {said:?}"),
            // Nobody attached in time, or etcd was choosing a leader: as a person would, one looks again.
            _ => reader.run("kubectl delete pod get-foo --ignore-not-found --now", None).await?,
        };
    }
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
