//! What the operator counts of a cluster's membership is what happened to it.

use std::sync::Arc;

use operator::metrics::Metrics;
use serde_json::json;

use crate::{
    goal::runs,
    many::figure,
    workflow::resize,
    world::{Settings, World},
};

#[tokio::test(start_paused = true)]
async fn members_added_promoted_removed_and_replaced_are_counted() {
    let mut world = World::new();
    let metrics = Arc::new(Metrics::new());
    world.start("op-1", Settings { metrics: Arc::clone(&metrics), ..Settings::default() });
    let changes = || {
        ["added", "promoted", "removed", "replaced"].map(|change| {
            figure(&metrics, &format!("changes_total{{namespace=\"n\",cluster=\"a\",change=\"{change}\"}}"))
        })
    };
    world.create(&json!({"size": 1}));
    world.until("one member", |world| runs(world, 1)).await;
    assert_eq!(changes(), [0; 4], "with whom it began is no change");
    resize(&world, 3);
    world.until("three members", |world| runs(world, 3)).await;
    assert_eq!(changes(), [2, 2, 0, 0]);
    let lost = world.delete_a_pod();
    let replaced = |world: &World| {
        runs(world, 3)?;
        if world.has_pod(&lost) { Err(format!("{lost} is there")) } else { Ok(()) }
    };
    world.until("another member in its place", replaced).await;
    assert_eq!(changes(), [3, 3, 1, 1]);
    resize(&world, 2);
    world.until("two members", |world| runs(world, 2)).await;
    assert_eq!(changes(), [3, 3, 2, 1]);
    let count = |words: &str| figure(&metrics, &format!("{words}{{namespace=\"n\",cluster=\"a\"}}"));
    assert_eq!((count("cluster_voters"), count("cluster_learners"), count("cluster_available")), (2, 0, 1));
}
