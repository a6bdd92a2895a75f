//! Two operators: one leads, the other stands by. A leader that stands still loses its place and writes nothing more, and an operator
//! that is taken away leaves nothing.

use anyhow::{Context as _, ensure};
use e2e::{
    LONG, SOON, etcd_cluster,
    members::{no_member_twice, one_cluster},
    operator_replicas, operator_with,
};
use k8s_openapi::api::{
    apps::v1::{Deployment, ReplicaSet},
    coordination::v1::Lease,
    core::v1::Pod,
};
use kube::{ResourceExt as _, api::ListParams};
use testbed::{
    faults::Ground,
    kit::{TestCase, TestNamespace, audit::AuditEntry, check, wait_for, wait_for_all},
};

const LEASE: &str = "etcd-operator";

/// The pod that holds the Lease.
fn holder(lease: Option<&Lease>) -> Option<String> {
    let identity = lease?.spec.as_ref()?.holder_identity.clone()?;
    let (pod, _) = identity.split_once('_')?;
    Some(pod.to_owned())
}

async fn leader(ns: &TestNamespace, other_than: Option<&str>) -> anyhow::Result<String> {
    let led = |lease: Option<&Lease>| match holder(lease) {
        Some(pod) if Some(pod.as_str()) != other_than => Ok(pod),
        other => Err(format!("held by {other:?}")),
    };
    Ok(wait_for(&ns.api::<Lease>(), LEASE, SOON, "to have a new holder", led).await?)
}

#[tokio::test]
async fn a_leader_that_stands_still_is_replaced_and_writes_nothing_more() -> anyhow::Result<()> {
    let ground = Ground::alone().await?;
    TestCase::of("leadership")
        .deadline(LONG)
        .run(async |ns| {
            let log = ns.cluster().audit_log()?;
            let begin = log.mark()?;
            // Two of them, and a kubelet with more patience: who stands still is not to be killed before it is thawed.
            operator_with(&ns, |deployment| {
                deployment
                    .replace("replicas: 1", "replicas: 2")
                    .replace("failureThreshold: 10", "failureThreshold: 200")
            })
            .await?;
            let first = leader(&ns, None).await?;
            let place = ground.place(ns.name(), &first).await?;

            // In the middle of a creation: members are made, and nothing is on record yet of what becomes of them.
            ns.apply(&etcd_cluster("c", 3, "3.6.14")).await?;
            let any = |pods: &[Pod]| if pods.is_empty() { Err("none".to_owned()) } else { Ok(()) };
            wait_for_all(&ns.api::<Pod>(), "etcd_cluster=c", SOON, "to be made", any).await?;
            let frozen = place.freeze("etcd-operator")?;
            let second = leader(&ns, Some(&first)).await?;
            one_cluster(&ns, "c").await?;

            let thawed = log.mark()?;
            frozen.heal().await?;
            // Something that a leader would act on, and a look of the one that was frozen at the Lease, by which it knows.
            ns.apply(&etcd_cluster("d", 3, "3.6.14")).await?;
            one_cluster(&ns, "d").await?;
            let of_first = first.clone();
            log.since(thawed)
                .resource("leases")
                .that(move |entry| entry.pod == of_first)
                .wait_for(SOON, "to show the thawed operator at the Lease", |entries| entries.len() > 1)
                .await?;
            let of_first = first.clone();
            let writes = log.since(thawed).writes().that(move |entry| entry.pod == of_first);
            let written = writes.entries()?.into_iter().filter(|entry| entry.code < 400);
            // What was past the gate when its sender was frozen lands now. That it does no harm is asked below.
            let under_way = |entry: &AuditEntry| {
                let made_by_it = ["pods", "events"].contains(&entry.resource.as_str());
                entry.verb == "create" && made_by_it && entry.name.starts_with('c')
            };
            let written: Vec<_> = written.filter(|entry| !under_way(entry)).collect();
            ensure!(written.is_empty(), "{first} wrote after {second} had taken over: {written:?}");
            one_cluster(&ns, "c").await?;
            let pod = ns.api::<Pod>().get(&first).await?;
            let restarts = pod.status.as_ref().and_then(|status| status.container_statuses.as_ref()?.first());
            ensure!(
                restarts.is_some_and(|status| status.restart_count == 0),
                "{first} was not thawed but killed"
            );
            ensure!(leader(&ns, None).await? == second, "the Lease changed hands again");
            no_member_twice(&ns, begin)?;
            leaves_nothing(&ns).await
        })
        .await
}

/// The Lease is given back, belongs to the operator's `ReplicaSet`, and goes with its Deployment.
async fn leaves_nothing(ns: &TestNamespace) -> anyhow::Result<()> {
    let sets = ns.api::<ReplicaSet>().list(&ListParams::default().labels("name=etcd-operator")).await?.items;
    let lease = ns.api::<Lease>().get(LEASE).await?;
    let owner = lease.owner_references().first().context("the Lease belongs to nobody")?;
    ensure!(
        sets.iter().any(|set| set.uid().as_ref() == Some(&owner.uid)),
        "{owner:?} is none of the operator's"
    );
    operator_replicas(ns, 0).await?;
    let lease = ns.api::<Lease>().get(LEASE).await?;
    let held = lease.spec.and_then(|spec| spec.holder_identity).unwrap_or_default();
    ensure!(held.is_empty(), "the Lease was not given back, {held} holds it");
    ns.remove::<Deployment>("etcd-operator").await?;
    wait_for(&ns.api::<Lease>(), LEASE, SOON, "to be gone with the Deployment", check::gone).await?;
    Ok(())
}
