//! Whole operators and their Lease: who leads, since when, and what is left of it.

use std::time::Duration;

use fakes::kubernetes::{kinds, store::Key};
use futures::FutureExt;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use operator::{
    leader::{LEASE_DURATION, LEASE_NAME, RETRY_PERIOD},
    watch::shared,
};
use serde_json::Value;
use tokio::{sync::oneshot, time::sleep};

use crate::world::{NAMESPACE, Settings, World};

/// For what is done at once: reading and writing cost no time here.
const MOMENT: Duration = Duration::from_millis(10);

fn lease(world: &World) -> Value {
    let key = Key::new(kinds::LEASES, NAMESPACE, LEASE_NAME);
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
