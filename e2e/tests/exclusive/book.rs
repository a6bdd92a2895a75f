//! The book's chapter (seed 004), typed from the first file to the last clean-up: in the namespace `default`, unchanged, and in another one with
//! the edit that the book asks for there.

use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use api::EtcdCluster;
use e2e::{
    SOON,
    printed::printed,
    seeds::{Block, Table},
};
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
    let mut reader = Reader::on(&cluster, "example")?;
    read(&cluster, &mut reader, "default").await
}

/// As the book says of those whose kubectl works in the namespace `myproject`.
#[tokio::test]
async fn the_chapter_works_in_another_namespace_with_the_edit_that_it_asks_for() -> anyhow::Result<()> {
    let cluster = Cluster::connect().await?;
    nothing_installed(&cluster).await?;
    let namespace = "myproject";
    // One that an interrupted run left.
    let delete = ["delete", "namespace", namespace, "--ignore-not-found", "--wait"];
    cluster.kubectl_with(&delete, b"", SOON).await?.success()?;
    cluster.kubectl(&["create", "namespace", namespace]).await?.success()?;
    let mut reader = Reader::on(&cluster, "example")?;
    reader.move_to(namespace).await?;
    read(&cluster, &mut reader, namespace).await?;
    cluster.kubectl_with(&delete, b"", SOON).await?.success()?;
    Ok(())
}

/// Reads the chapter where this reader works.
async fn read(cluster: &Cluster, reader: &mut Reader, namespace: &str) -> anyhow::Result<()> {
    let table = Table::read()?;
    let begun = Instant::now();
    let mut changed = false;
    for block in table.shown_by(SEED, "book") {
        if block.shows.iter().any(|s| s == "S24") {
            before_clean_up(cluster, namespace, begun).await?;
        }
        let mut block = block.clone();
        for line in &mut block.prints {
            *line = line.replace("Namespace: default", &format!("Namespace: {namespace}"));
        }
        reader.block(&block).await?;
        // After each change the book looks at what happens, some of which is over in seconds. Then the reader asks the client.
        if std::mem::replace(&mut changed, is_change(&block)) {
            still_there(reader).await.with_context(|| format!("after the block {}", block.at))?;
        }
    }
    nothing_left(cluster, namespace).await
}

/// Whether a cluster that is there is changed by it.
fn is_change(block: &Block) -> bool {
    let changes = ["apply", "edit", "delete pod", "patch"].map(|verb| format!("kubectl {verb} "));
    block.typed().iter().any(|line| changes.iter().any(|change| line.contains(change.as_str())))
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
async fn before_clean_up(cluster: &Cluster, namespace: &str, begun: Instant) -> anyhow::Result<()> {
    // The book's case: the kinds that it does not have were not needed.
    let crds: Api<CustomResourceDefinition> = Api::all(cluster.client());
    ensure!(
        crds.get_opt("etcdbackups.etcd.database.coreos.com").await?.is_none(),
        "there are more CRDs than the book's"
    );
    let clusters: Api<EtcdCluster> = Api::namespaced(cluster.client(), namespace);
    let resource = clusters.get("example-etcd-cluster").await?;
    ensure!(resource.metadata.finalizers.unwrap_or_default().is_empty(), "a finalizer would hang");
    // It takes up a new kind within half a minute; before that it does not know whose the pods are.
    sleep_until(begun + Duration::from_secs(40)).await;
    Ok(())
}

/// S24: of all that was made, nothing is left.
async fn nothing_left(cluster: &Cluster, namespace: &str) -> anyhow::Result<()> {
    let pods: Api<Pod> = Api::namespaced(cluster.client(), namespace);
    let services: Api<Service> = Api::namespaced(cluster.client(), namespace);
    let labels = "etcd_cluster=example-etcd-cluster";
    wait_for_all(&pods, labels, SOON, "to be gone", check::none_left).await?;
    wait_for_all(&services, labels, SOON, "to be gone", check::none_left).await?;
    wait_for_all(&pods, "name=etcd-operator", SOON, "to be gone", check::none_left).await?;
    let leases: Api<Lease> = Api::namespaced(cluster.client(), namespace);
    Ok(wait_for_all(&leases, "", SOON, "to be gone", check::none_left).await?)
}
