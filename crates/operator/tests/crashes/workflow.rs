//! What people do with clusters, and what has to come of it.

use futures::{FutureExt, future::BoxFuture};
use http::Method;
use serde_json::json;

use crate::{
    goal::{is_gone, rolled, runs},
    world::World,
};

pub(crate) fn resize(world: &World, size: usize) {
    world.begin();
    world.person(Method::PATCH, &json!({"spec": {"size": size}}));
}

/// Asks for another version.
pub(crate) fn ask_for(world: &World, version: &str) {
    world.begin();
    world.person(Method::PATCH, &json!({"spec": {"version": version}}));
}

/// What somebody does, until it is done.
pub(crate) type Script = for<'a> fn(&'a World) -> BoxFuture<'a, ()>;

/// A workflow.
#[derive(Clone, Copy)]
pub(crate) struct Workflow {
    pub(crate) name: &'static str,
    /// The fewest numbered writes that the operator needs for it: a clean run with fewer is not this workflow.
    pub(crate) at_least: usize,
    pub(crate) script: Script,
    /// What has to last.
    pub(crate) goal: fn(&World) -> Result<(), String>,
    /// The first write of the operator that is worth breaking, and how many of its kind go before it; those before are another
    /// workflow's.
    pub(crate) from: Option<(&'static str, usize)>,
}

pub(crate) const CREATE: Workflow = Workflow {
    name: "create three members at once",
    // Two Services, the birth, three pods, three permissions withdrawn, the birth formed, three Events, clients let in, and reports.
    at_least: 15,
    script: |world| {
        async {
            world.create(&json!({"size": 3}));
            world.until("three members", |world| runs(world, 3)).await;
        }
        .boxed()
    },
    goal: |world| runs(world, 3),
    from: None,
};

pub(crate) const CREATE_ONE: Workflow = Workflow {
    name: "create one member",
    at_least: 9,
    script: |world| {
        async {
            world.create(&json!({"size": 1}));
            world.until("one member", |world| runs(world, 1)).await;
        }
        .boxed()
    },
    goal: |world| runs(world, 1),
    from: None,
};

pub(crate) const DELETE: Workflow = Workflow {
    name: "delete a cluster that runs",
    at_least: 15,
    script: |world| {
        async {
            world.create(&json!({"size": 3}));
            world.until("three members", |world| runs(world, 3)).await;
            world.person(Method::DELETE, &json!({}));
            world.until("gone", is_gone).await;
        }
        .boxed()
    },
    goal: is_gone,
    from: None,
};

pub(crate) const DELETE_EARLY: Workflow = Workflow {
    name: "delete a cluster while its members are made",
    at_least: 4,
    script: |world| {
        async {
            world.create(&json!({"size": 3}));
            world.until("a pod", |world| if world.pods() > 0 { Ok(()) } else { Err(String::new()) }).await;
            world.person(Method::DELETE, &json!({}));
            world.until("gone", is_gone).await;
        }
        .boxed()
    },
    goal: is_gone,
    from: None,
};

pub(crate) const SEED: Workflow = Workflow {
    name: "create two members from a seed",
    at_least: 15,
    script: |world| {
        async {
            world.create(&json!({"size": 2, "bootstrap": "Seed"}));
            world.until("two members", |world| runs(world, 2)).await;
        }
        .boxed()
    },
    goal: |world| runs(world, 2),
    from: None,
};

pub(crate) const GROW: Workflow = Workflow {
    name: "grow from one member to three",
    // Twice a member added, its pod, its permission withdrawn and its promotion.
    at_least: 8,
    script: |world| {
        async {
            world.create(&json!({"size": 1}));
            world.until("one member", |world| runs(world, 1)).await;
            resize(world, 3);
            world.until("three members", |world| runs(world, 3)).await;
        }
        .boxed()
    },
    goal: |world| runs(world, 3),
    from: Some(("member add", 0)),
};

pub(crate) const GROW_BY_ONE: Workflow = Workflow {
    name: "grow from one member to two",
    at_least: 4,
    script: |world| {
        async {
            world.create(&json!({"size": 1}));
            world.until("one member", |world| runs(world, 1)).await;
            resize(world, 2);
            world.until("two members", |world| runs(world, 2)).await;
        }
        .boxed()
    },
    goal: |world| runs(world, 2),
    from: Some(("member add", 0)),
};

pub(crate) const SHRINK: Workflow = Workflow {
    name: "shrink from three members to two",
    at_least: 2,
    script: |world| {
        async {
            world.create(&json!({"size": 3}));
            world.until("three members", |world| runs(world, 3)).await;
            resize(world, 2);
            world.until("two members", |world| runs(world, 2)).await;
        }
        .boxed()
    },
    goal: |world| runs(world, 2),
    from: Some(("member remove", 0)),
};

pub(crate) const HEAL: Workflow = Workflow {
    name: "replace a member whose pod was deleted",
    // One removed, one added, its pod, its permission withdrawn and its promotion.
    at_least: 5,
    script: |world| {
        async {
            world.create(&json!({"size": 3}));
            world.until("three members", |world| runs(world, 3)).await;
            world.begin();
            let lost = world.delete_a_pod();
            world
                .until("another member in its place", |world| {
                    runs(world, 3)?;
                    if world.has_pod(&lost) { Err(format!("{lost} is there")) } else { Ok(()) }
                })
                .await;
        }
        .boxed()
    },
    goal: |world| runs(world, 3),
    from: Some(("member remove", 0)),
};

/// A cluster of three that runs this version, and nothing else is to be done.
pub(crate) async fn three_of(world: &World, version: &str) {
    let grace = json!({"graceSeconds": 60});
    world.create(&json!({"size": 3, "version": version, "memberReplacement": grace}));
    world.until("three members", |world| rolled(world, 3, version)).await;
}

pub(crate) const ROLL: Workflow = Workflow {
    name: "roll three members to the next minor",
    // Three relaunches, and the leader moved.
    at_least: 4,
    script: |world| {
        async {
            three_of(world, "3.5.33").await;
            ask_for(world, "3.6.14");
            world.until("the new version", |world| rolled(world, 3, "3.6.14")).await;
        }
        .boxed()
    },
    goal: |world| rolled(world, 3, "3.6.14"),
    // The first three withdraw the permission to start without data.
    from: Some(("PATCH pods", 3)),
};

pub(crate) const ROLL_OVER_TWO: Workflow = Workflow {
    name: "roll three members over two minors",
    at_least: 8,
    script: |world| {
        async {
            three_of(world, "3.4.23").await;
            ask_for(world, "3.6.14");
            world.until("the last version", |world| rolled(world, 3, "3.6.14")).await;
        }
        .boxed()
    },
    goal: |world| rolled(world, 3, "3.6.14"),
    from: Some(("PATCH pods", 3)),
};

pub(crate) const ROLL_DOWN: Workflow = Workflow {
    name: "roll three members to the minor before",
    // As up, and etcd is asked to allow it.
    at_least: 5,
    script: |world| {
        async {
            three_of(world, "3.6.14").await;
            ask_for(world, "3.5.33");
            world.until("the old version", |world| rolled(world, 3, "3.5.33")).await;
        }
        .boxed()
    },
    goal: |world| rolled(world, 3, "3.5.33"),
    from: Some(("downgrade enable", 0)),
};
