//! A learner that never catches up: it gets no vote, it is said, another one is tried in its place, and nothing else stands still. And one
//! that waits for something to happen.

use std::time::Duration;

use serde_json::json;
use tokio::time::sleep;

use crate::{
    goal::{changes, runs, twice},
    workflow::resize,
    world::World,
};

/// How many changes etcd has noted that begin with this word.
fn some(count: usize) -> Result<(), String> {
    if count > 0 { Ok(()) } else { Err("none".to_owned()) }
}

/// A cluster of three that is to grow to four, and whose learner comes no further.
async fn held_back() -> World {
    let mut world = World::new();
    world.operate(None, |client| client);
    world.create(&json!({"size": 3}));
    world.until("three members", |world| runs(world, 3)).await;
    world.etcd.hold_learners_back(true);
    resize(&world, 4);
    world.until("a learner", |world| some(changes(world, "add"))).await;
    sleep(Duration::from_mins(5)).await;
    assert_eq!(changes(&world, "promote"), 0, "{}", world.story());
    assert!(world.reasons().contains(&"WaitingForMemberJoined".to_owned()), "{:?}", world.reasons());
    world
}

fn judge(world: &World) {
    assert_eq!(world.record.broken(), Vec::<String>::new(), "{}", world.story());
    assert_eq!(twice(world), Vec::<String>::new(), "{}", world.story());
}

#[tokio::test(start_paused = true)]
async fn a_learner_that_never_catches_up_is_replaced_and_never_promoted() {
    let world = held_back().await;
    sleep(Duration::from_mins(4)).await;
    world.until("it is given up", |world| some(changes(world, "remove"))).await;
    sleep(Duration::from_mins(25)).await;
    let tried = changes(&world, "add");
    assert!((3..=5).contains(&tried), "one every ten minutes, not {tried}");
    assert_eq!(changes(&world, "promote"), 0, "{}", world.story());
    world.etcd.hold_learners_back(false);
    world.until("four members", |world| runs(world, 4)).await;
    judge(&world);
}

#[tokio::test(start_paused = true)]
async fn a_learner_that_never_catches_up_does_not_stand_in_the_way_of_a_smaller_size() {
    let world = held_back().await;
    resize(&world, 3);
    world.until("three members", |world| runs(world, 3)).await;
    resize(&world, 2);
    world.until("two members", |world| runs(world, 2)).await;
    assert_eq!(changes(&world, "promote"), 0, "{}", world.story());
    judge(&world);
}

#[tokio::test(start_paused = true)]
async fn a_learner_that_never_catches_up_does_not_keep_a_dead_member_from_being_replaced() {
    let world = held_back().await;
    let clusters = world.etcd.clusters();
    let mut voters =
        clusters.values().flat_map(|cluster| cluster.members.values()).filter(|member| !member.learner);
    let lost = voters.find_map(|member| member.name.clone()).unwrap();
    world.delete_pod(&lost);
    let removal = format!("remove http://{lost}.");
    world.until("the dead one is removed", |world| some(changes(world, &removal))).await;
    world.etcd.hold_learners_back(false);
    world
        .until("four members", |world| {
            runs(world, 4)?;
            if world.has_pod(&lost) { Err(format!("{lost} is there")) } else { Ok(()) }
        })
        .await;
    judge(&world);
}

#[tokio::test(start_paused = true)]
async fn a_learner_that_waits_for_an_entry_where_nobody_writes_gets_one() {
    let mut world = World::new();
    world.operate(None, |client| client);
    world.create(&json!({"size": 3}));
    world.until("three members", |world| runs(world, 3)).await;
    world.etcd.let_learners_wait();
    resize(&world, 4);
    let begun = tokio::time::Instant::now();
    world.until("four members", |world| runs(world, 4)).await;
    assert!(begun.elapsed() < Duration::from_mins(1), "after {:?}: {}", begun.elapsed(), world.story());
    assert_eq!(changes(&world, "add"), 1, "{}", world.story());
    judge(&world);
}
