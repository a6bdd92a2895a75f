//! A namespaced and a cluster-wide operator, side by side: each has its own resources, and nobody has the rest.

use std::time::Duration;

use api::scope::{CLUSTER_WIDE, Scope};
use fakes::kubernetes::{kinds, store::Key};
use http::Method;
use serde_json::json;
use tokio::time::sleep;

use crate::world::{Settings, World};

/// Namespace, name, scope annotation, and who looks after it. The namespaced operator is in `n`.
const RESOURCES: [(&str, &str, Option<&str>, Option<&str>); 8] = [
    ("n", "plain", None, Some("namespaced")),
    ("n", "wide", Some(CLUSTER_WIDE), Some("cluster-wide")),
    ("n", "other", Some("namespaced"), None),
    ("n", "empty", Some(""), None),
    ("m", "plain", None, None),
    ("m", "wide", Some(CLUSTER_WIDE), Some("cluster-wide")),
    ("m", "other", Some("namespaced"), None),
    ("ops", "plain", None, None),
];

#[tokio::test(start_paused = true)]
async fn no_resource_is_touched_by_two_operators_or_by_the_wrong_one() {
    let mut world = World::new();
    let settings = |namespace, scope| Settings { namespace, scope, judged: false, ..Settings::default() };
    world.start("namespaced", settings("n", Scope::Namespaced));
    world.start("cluster-wide", settings("ops", Scope::ClusterWide));
    for (namespace, name, scope, _) in RESOURCES {
        let annotations = scope.map(|scope| json!({"etcd.database.coreos.com/scope": scope}));
        let metadata = json!({"name": name, "annotations": annotations.unwrap_or(json!({}))});
        let resource = json!({"apiVersion": "etcd.database.coreos.com/v1beta2", "kind": "EtcdCluster",
            "metadata": metadata, "spec": {"size": 1}});
        world.person_with(namespace, name, Method::POST, &resource);
    }
    let phase = |world: &World, namespace: &str, name: &str| {
        let resource = world.server.store().lock().get(&Key::new(kinds::CLUSTERS, namespace, name)).cloned();
        resource.unwrap()["status"]["phase"].as_str().unwrap_or_default().to_owned()
    };
    world
        .until("every cluster with an operator runs", |world| {
            let owned = RESOURCES.iter().filter(|(.., operator)| operator.is_some());
            let waiting: Vec<_> =
                owned.filter(|(namespace, name, ..)| phase(world, namespace, name) != "Running").collect();
            if waiting.is_empty() { Ok(()) } else { Err(format!("{waiting:?}")) }
        })
        .await;
    sleep(Duration::from_mins(5)).await;

    let writes = world.record.writes();
    for (namespace, name, _, operator) in RESOURCES {
        let own = |object: &str| {
            let names = [name.to_owned(), format!("{name}-client")];
            let object = object.strip_prefix(&format!("{namespace}/")).unwrap_or_default();
            names.contains(&object.to_owned())
                || object.strip_prefix(&format!("{name}-")).is_some_and(|suffix| suffix.len() == 10)
        };
        let mut who: Vec<&str> =
            writes.iter().filter(|write| own(&write.object)).map(|write| write.who.as_str()).collect();
        who.sort_unstable();
        who.dedup();
        assert_eq!(who, operator.into_iter().collect::<Vec<_>>(), "{namespace}/{name}");
        assert_eq!(phase(&world, namespace, name).is_empty(), operator.is_none(), "{namespace}/{name}");
    }
}
