//! What people do with clusters, and what has to come of it.

use futures::{FutureExt, future::BoxFuture};
use http::Method;
use serde_json::json;

use crate::{
    goal::{is_gone, runs},
    world::World,
};

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
    /// Whether attempts may be abandoned though nothing goes wrong.
    pub(crate) births: bool,
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
    births: false,
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
    births: false,
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
    births: false,
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
    births: false,
};
