//! Members are brought to another version: whatever happens, one at a time, each once, and to what was asked for last.

use std::time::Duration;

use http::Method;
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::{
    every_write::{ALONE, WITH_A_STANDBY, a_stale_cache_after_every_crash, every_fault_at_every_write},
    goal::{changes, relaunches, rolled, twice},
    workflow::{ROLL, ROLL_DOWN, ROLL_OVER_TWO, ask_for, three_of},
    world::{Settings, World},
};

/// Longer than the patience with a member that is silent, as these clusters set it.
const LONG: Duration = Duration::from_mins(2);

#[test]
fn rolling_survives_every_fault_at_every_write() {
    every_fault_at_every_write(ROLL, &ALONE, false);
}

#[test]
fn rolling_survives_a_change_of_leaders_at_every_write() {
    every_fault_at_every_write(ROLL, &WITH_A_STANDBY, true);
}

#[test]
fn rolling_over_two_minors_survives_every_fault_at_every_write() {
    every_fault_at_every_write(ROLL_OVER_TWO, &ALONE, false);
}

#[test]
fn rolling_down_survives_every_fault_at_every_write() {
    every_fault_at_every_write(ROLL_DOWN, &ALONE, false);
}

#[test]
fn rolling_survives_a_stale_cache_after_every_crash() {
    a_stale_cache_after_every_crash(ROLL);
}

/// An operator, and three members of this version.
async fn begun(version: &str) -> World {
    let mut world = World::new();
    world.operate(None, |client| client);
    three_of(&world, version).await;
    world
}

fn is_sound(world: &World) {
    assert_eq!(world.record.broken(), Vec::<String>::new(), "{}", world.story());
    assert_eq!(changes(world, "add") + changes(world, "remove"), 0, "{}", world.story());
}

fn uids(world: &World) -> Vec<Value> {
    let objects = world.server.store().lock();
    objects.of(fakes::kubernetes::kinds::PODS).map(|(_, pod)| pod["metadata"]["uid"].clone()).collect()
}

fn says(world: &World, reason: &str) -> Result<(), String> {
    let reasons = world.reasons();
    if reasons.iter().any(|said| said == reason) { Ok(()) } else { Err(format!("{reasons:?}")) }
}

fn touched(world: &World, count: usize) -> Result<(), String> {
    let relaunches = relaunches(world);
    if relaunches.len() >= count { Ok(()) } else { Err(format!("{relaunches:?}")) }
}

fn sent(world: &World, what: &str) -> usize {
    world.record.writes().iter().filter(|write| write.what == what).count()
}

#[tokio::test(start_paused = true)]
async fn each_member_is_touched_once_for_each_stop_and_the_leader_last() {
    let world = begun("3.4.23").await;
    ask_for(&world, "3.6.14");
    world.until("the last version", |world| rolled(world, 3, "3.6.14")).await;
    is_sound(&world);
    let relaunches = relaunches(&world);
    let stops: Vec<&str> = relaunches
        .iter()
        .filter_map(|(_, image)| image.rsplit_once(":v"))
        .map(|(_, tag)| &tag[..3])
        .collect();
    assert_eq!(stops, ["3.5", "3.5", "3.5", "3.6", "3.6", "3.6"], "{relaunches:?}");
    for stop in relaunches.chunks(3) {
        let mut names: Vec<&String> = stop.iter().map(|(name, _)| name).collect();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), 3, "{relaunches:?}");
    }
    assert_eq!(twice(&world), Vec::<String>::new());
}

/// What stands under the tag is not there, or is not what the tag says.
#[tokio::test(start_paused = true)]
async fn a_bad_tag_costs_one_member_that_keeps_its_place_until_the_version_is_set_back() {
    for bad in ["missing", "another version"] {
        let mut world = World::new();
        let first = world.start("op-1", Settings::default());
        three_of(&world, "3.5.33").await;
        let before = uids(&world);
        match bad {
            "missing" => world.kubelet.registry().lose("v3.6.14"),
            _ => world.kubelet.registry().mislabel("v3.6.14", "3.6.13"),
        }
        ask_for(&world, "3.6.14");
        world.until("one is touched", |world| touched(world, 1)).await;
        world.until("it is said", |world| says(world, "MemberNotUpgraded")).await;
        sleep(LONG).await;
        first.abort();
        world.start("op-2", Settings::default());
        sleep(LONG).await;
        is_sound(&world);
        assert_eq!(relaunches(&world).len(), 1, "{bad}: {}", world.story());
        assert_eq!(uids(&world), before, "{bad}: {}", world.story());
        says(&world, "MemberNotUpgraded").unwrap_or_else(|why| panic!("{bad}: {why}\n{}", world.story()));
        ask_for(&world, "3.5.33");
        world.until("the version before", |world| rolled(world, 3, "3.5.33")).await;
        is_sound(&world);
        assert_eq!((uids(&world), relaunches(&world).len()), (before, 2), "{bad}: {}", world.story());
    }
}

#[tokio::test(start_paused = true)]
async fn a_pause_stops_after_the_member_that_is_under_way_and_unpausing_goes_on() {
    let world = begun("3.5.33").await;
    ask_for(&world, "3.6.14");
    world.until("one is touched", |world| touched(world, 1)).await;
    world.person(Method::PATCH, &json!({"spec": {"paused": true}}));
    sleep(LONG).await;
    assert_eq!(relaunches(&world).len(), 1, "{}", world.story());
    assert_eq!(sent(&world, "move leader"), 0, "{}", world.story());
    world.person(Method::PATCH, &json!({"spec": {"paused": false}}));
    world.until("the new version", |world| rolled(world, 3, "3.6.14")).await;
    is_sound(&world);
    assert_eq!(twice(&world), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn a_version_that_is_set_back_half_way_is_gone_back_to_without_asking_etcd() {
    let world = begun("3.5.33").await;
    ask_for(&world, "3.6.14");
    world.until("two are touched", |world| touched(world, 2)).await;
    ask_for(&world, "3.5.33");
    world.until("the version before", |world| rolled(world, 3, "3.5.33")).await;
    is_sound(&world);
    assert_eq!(sent(&world, "downgrade enable"), 0, "{}", world.story());
}

#[tokio::test(start_paused = true)]
async fn a_downgrade_that_is_turned_back_half_way_is_cancelled() {
    let world = begun("3.6.14").await;
    ask_for(&world, "3.5.33");
    world.until("one is touched", |world| touched(world, 1)).await;
    ask_for(&world, "3.6.14");
    world.until("the version before", |world| rolled(world, 3, "3.6.14")).await;
    is_sound(&world);
    assert_eq!(
        (sent(&world, "downgrade enable"), sent(&world, "downgrade cancel")),
        (1, 1),
        "{}",
        world.story()
    );
    let clusters = world.etcd.clusters();
    assert!(clusters.values().all(|cluster| cluster.downgrade.is_none()), "{}", world.story());
}

#[tokio::test(start_paused = true)]
async fn a_member_that_is_lost_half_way_is_replaced_before_the_next_is_touched() {
    let world = begun("3.5.33").await;
    ask_for(&world, "3.6.14");
    world.until("one is touched", |world| touched(world, 1)).await;
    let done = relaunches(&world)[0].0.clone();
    let lost = {
        let objects = world.server.store().lock();
        let other = objects.of(fakes::kubernetes::kinds::PODS).find(|(key, _)| key.name != done);
        other.map(|(key, _)| key.name.clone()).unwrap()
    };
    world.delete_pod(&lost);
    world
        .until("everybody runs the new version", |world| {
            crate::goal::runs(world, 3)?;
            let clusters = world.etcd.clusters();
            let agreed = clusters.values().next().and_then(|cluster| cluster.version.clone());
            if agreed.as_deref() == Some("3.6") { Ok(()) } else { Err(format!("{agreed:?}")) }
        })
        .await;
    assert_eq!(world.record.broken(), Vec::<String>::new(), "{}", world.story());
    assert_eq!(changes(&world, "remove"), 1, "{}", world.story());
}
