//! Whole operators and their Lease: who leads, since when, and what is left of it.

use std::{sync::Arc, time::Duration};

use api::scope::Scope;
use fakes::kubernetes::{Asked, kinds, store::Key};
use futures::FutureExt;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use operator::{
    leader::{LEASE_CLUSTER_WIDE, LEASE_DURATION, LEASE_NAMESPACED, RETRY_PERIOD},
    metrics::Metrics,
    watch::shared,
};
use serde_json::{Value, json};
use tokio::{sync::oneshot, time::sleep};

use crate::world::{NAMESPACE, Settings, World};

/// For what is done at once: reading and writing cost no time here.
const MOMENT: Duration = Duration::from_millis(10);

fn lease(world: &World) -> Value {
    let key = Key::new(kinds::LEASES, NAMESPACE, LEASE_NAMESPACED);
    world.server.store().lock().get(&key).cloned().unwrap_or_default()
}

fn holder(world: &World) -> String {
    lease(world)["spec"]["holderIdentity"].as_str().unwrap_or_default().to_owned()
}

fn of_replica_set(name: &str) -> OwnerReference {
    OwnerReference {
        api_version: "apps/v1".to_owned(),
        kind: "ReplicaSet".to_owned(),
        name: name.to_owned(),
        uid: format!("uid-of-{name}"),
        ..OwnerReference::default()
    }
}

#[tokio::test(start_paused = true)]
async fn at_its_end_an_operator_gives_the_lease_back_and_the_next_one_takes_it_at_its_next_look() {
    let mut world = World::new();
    let (end, ended) = oneshot::channel::<()>();
    let stop = shared(ended.map(drop));
    world.start("first", Settings { owner: Some(of_replica_set("old")), stop, ..Settings::default() });
    sleep(MOMENT).await;
    let first = holder(&world);
    assert!(!first.is_empty());
    assert_eq!(lease(&world)["metadata"]["ownerReferences"][0]["name"], "old");
    world.start("second", Settings { owner: Some(of_replica_set("new")), ..Settings::default() });
    sleep(4 * LEASE_DURATION).await;
    assert_eq!(holder(&world), first, "who leads stays");

    end.send(()).unwrap();
    sleep(MOMENT).await;
    assert_eq!(holder(&world), "", "given back");
    sleep(RETRY_PERIOD + MOMENT).await;
    assert!(!["", &first].contains(&holder(&world).as_str()), "taken");
    let owners = lease(&world)["metadata"]["ownerReferences"].clone();
    assert_eq!((owners[0]["kind"].as_str(), owners[0]["name"].as_str()), (Some("ReplicaSet"), Some("new")));
    assert_eq!(owners.as_array().map(Vec::len), Some(1));
}

#[tokio::test(start_paused = true)]
async fn the_lease_is_not_given_back_while_rounds_may_still_write() {
    let mut world = World::new();
    let (end, ended) = oneshot::channel::<()>();
    let stop = shared(ended.map(drop));
    let process = world.start("first", Settings { stop, ..Settings::default() });
    sleep(MOMENT).await;
    let first = holder(&world);
    // Each call takes nearly as long as it may, so a round lasts longer than Kubernetes waits for a process to end.
    let slow = |asked: &Asked| {
        let of_lease = asked.path.contains("/leases");
        if of_lease { Duration::ZERO } else { Duration::from_millis(2_900) }
    };
    world.server.slow(Some(Arc::new(slow)));
    world.create(&json!({"size": 3}));
    sleep(Duration::from_secs(1)).await;
    end.send(()).unwrap();
    sleep(Duration::from_secs(40)).await;
    assert!(process.is_finished());
    assert_eq!(holder(&world), first, "left to run out");
}

#[tokio::test(start_paused = true)]
async fn who_dies_is_followed_after_one_lease_duration_and_not_before() {
    let mut world = World::new();
    let first = world.start("first", Settings::default());
    sleep(MOMENT).await;
    let dead = holder(&world);
    world.start("second", Settings::default());
    sleep(LEASE_DURATION).await;
    first.abort();
    // Between two renewals lies a retry period, and so does between two looks.
    sleep(LEASE_DURATION.saturating_sub(RETRY_PERIOD + MOMENT)).await;
    assert_eq!(holder(&world), dead);
    sleep(2 * RETRY_PERIOD + 2 * MOMENT).await;
    assert_ne!(holder(&world), dead);
    assert_eq!(lease(&world)["spec"]["leaseTransitions"], 1);
}

/// What this operator says in its metrics of others.
fn others(metrics: &Metrics) -> String {
    let text = metrics.text();
    let line = text.lines().find(|line| line.starts_with("etcd_operator_other_leaders "));
    line.unwrap_or_default().to_owned()
}

#[tokio::test(start_paused = true)]
async fn two_cluster_wide_operators_in_different_namespaces_see_and_tell_each_other() {
    let mut world = World::new();
    let both = ["ops-1", "ops-2"].map(|namespace| {
        let metrics = Arc::new(Metrics::new());
        let counted = Arc::clone(&metrics);
        let settings =
            Settings { namespace, scope: Scope::ClusterWide, judged: false, metrics, ..Settings::default() };
        (namespace, counted, world.start(namespace, settings))
    });
    // A Lease that somebody else wrote once is of nobody who leads.
    world.server.store().change(|objects| {
        let key = Key::new(kinds::LEASES, "ops-3", LEASE_CLUSTER_WIDE);
        objects.put(&key, json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": {"name": LEASE_CLUSTER_WIDE, "namespace": "ops-3"}, "spec": {"holderIdentity": "nobody"}}));
    });
    sleep(Duration::from_mins(1)).await;
    for (namespace, metrics, _) in &both {
        assert_eq!(others(metrics), "etcd_operator_other_leaders 1", "{namespace}");
        let store = world.server.store().lock();
        let of_own = |key: &&Key| key.namespace == *namespace && key.plural == kinds::EVENTS.plural;
        let told: Vec<String> = store
            .of(kinds::EVENTS)
            .filter(|(key, _)| of_own(key))
            .map(|(_, event)| event["message"].as_str().unwrap_or_default().to_owned())
            .collect();
        let other = if *namespace == "ops-1" { "ops-2" } else { "ops-1" };
        assert!(told.len() == 1 && told[0].contains(&format!("in the namespace {other}")), "{told:?}");
        assert!(!told[0].contains("nobody"), "{told:?}");
    }
    let [(_, first, _), (_, _, second)] = &both;
    second.abort();
    sleep(Duration::from_mins(1)).await;
    assert_eq!(others(first), "etcd_operator_other_leaders 0");
}
