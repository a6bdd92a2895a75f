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
}

pub(crate) const CREATE: Workflow = Workflow {
    name: "create three members at once",
    at_least: 11,
    script: |world| {
        async {
            world.create(&json!({"size": 3}));
            world.until("three members", |world| runs(world, 3)).await;
        }
        .boxed()
    },
};

pub(crate) const CREATE_ONE: Workflow = Workflow {
    name: "create one member",
    at_least: 7,
    script: |world| {
        async {
            world.create(&json!({"size": 1}));
            world.until("one member", |world| runs(world, 1)).await;
        }
        .boxed()
    },
};

pub(crate) const DELETE: Workflow = Workflow {
    name: "delete a cluster that runs",
    at_least: 11,
    script: |world| {
        async {
            world.create(&json!({"size": 3}));
            world.until("three members", |world| runs(world, 3)).await;
            world.person(Method::DELETE, &json!({}));
            world.until("gone", is_gone).await;
        }
        .boxed()
    },
};
