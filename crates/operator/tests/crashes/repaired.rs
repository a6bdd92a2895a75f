//! What a person chose for a Service stays when something else of it is put right.

use fakes::kubernetes::{Asked, kinds, store::Key};
use http::Method;
use serde_json::{Value, json};

use crate::world::{NAME, NAMESPACE, PERSON, World};

fn service(world: &World) -> Value {
    let key = Key::new(kinds::SERVICES, NAMESPACE, &format!("{NAME}-client"));
    world.server.store().lock().get(&key).cloned().unwrap_or_default()
}

/// What somebody types with `kubectl patch`.
fn patch_service(world: &World, body: Value) {
    let path = format!("/api/v1/namespaces/{NAMESPACE}/services/{NAME}-client");
    let content = "application/merge-patch+json".to_owned();
    let (query, accept, method) = (PERSON.to_owned(), String::new(), Method::PATCH);
    let (code, value) = world.server.handle(&Asked { method, path, query, accept, content, body });
    assert!(code < 300, "{value}");
}

#[tokio::test(start_paused = true)]
async fn a_client_service_that_a_person_opened_to_the_outside_stays_so_when_its_labels_are_put_right() {
    let mut world = World::new();
    world.operate(None, |client| client);
    world.create(&json!({"size": 1}));
    let runs = |world: &World| if world.phase(NAME) == "Running" { Ok(()) } else { Err(world.phase(NAME)) };
    world.until("the cluster runs", runs).await;
    patch_service(&world, json!({"spec": {"type": "LoadBalancer", "loadBalancerClass": "theirs"}}));
    // The second repair meets fields that were applied before.
    for _ in 0..2 {
        patch_service(&world, json!({"metadata": {"labels": {"etcd_cluster": null}}}));
        let is_right = |world: &World| {
            let service = service(world);
            if service["metadata"]["labels"]["etcd_cluster"] == NAME {
                Ok(())
            } else {
                Err(service.to_string())
            }
        };
        world.until("the label is back", is_right).await;
        let spec = service(&world)["spec"].clone();
        assert_eq!((&spec["type"], &spec["loadBalancerClass"]), (&json!("LoadBalancer"), &json!("theirs")));
    }
}
