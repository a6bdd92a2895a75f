//! A spec that changes every second: what was asked for last is what comes of it, and nothing is done twice on the way.

use std::time::Duration;

use serde_json::json;
use tokio::time::sleep;

use crate::{
    goal::{runs, twice},
    workflow::resize,
    world::World,
};

/// How often somebody changes their mind.
const TIMES: usize = 40;

async fn change_mind(sizes: [usize; 2]) -> (World, usize) {
    let mut world = World::new();
    world.operate(None, |client| client);
    world.create(&json!({"size": sizes[0]}));
    world.until("the first size", |world| runs(world, sizes[0])).await;
    let before = world.written();
    for n in 1..=TIMES {
        resize(&world, sizes[n % 2]);
        sleep(Duration::from_secs(1)).await;
    }
    world.until("the last size", |world| runs(world, sizes[TIMES % 2])).await;
    let written = world.written() - before;
    (world, written)
}

#[tokio::test(start_paused = true)]
async fn a_spec_that_changes_every_second_comes_to_its_newest_size_and_nothing_is_done_twice() {
    for sizes in [[3, 5], [3, 2]] {
        let (world, written) = change_mind(sizes).await;
        println!("{sizes:?}: {TIMES} changes, {written} writes");
        assert_eq!(world.record.broken(), Vec::<String>::new(), "{}", world.story());
        assert_eq!(twice(&world), Vec::<String>::new(), "{}", world.story());
        // A second is enough for one change of the membership at the most: it, its pod, two Events, a report, and its undoing.
        assert!(written <= 8 * TIMES, "{sizes:?}: {written} writes\n{}", world.story());
        let changes: usize = world.etcd.clusters().values().map(|cluster| cluster.changes.len()).sum();
        println!("{sizes:?}: {changes} changes of the membership");
        assert!(changes <= TIMES, "{sizes:?}: {changes} changes of the membership\n{}", world.story());
        let resource = world.resource().unwrap();
        assert_eq!(resource["status"]["observedGeneration"], resource["metadata"]["generation"]);
    }
}
