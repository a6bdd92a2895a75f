//! CRDs that are missing, older, newer, and written by somebody else in between.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use api::{crd::SCHEMA, names::ANNOTATION_SCHEMA};
use fakes::kubernetes::{ApiServer, kinds, store::Key};
use http::Method;
use operator::{crds, health::Health, watch::shared};
use serde_json::{Value, json};

use crate::fake::open_gate;

const CLUSTERS: &str = "etcdclusters.etcd.database.coreos.com";

fn key(name: &str) -> Key {
    let kind = kinds::ALL.iter().copied().find(|kind| kind.name == "CustomResourceDefinition").unwrap();
    Key::new(kind, "", name)
}

fn server() -> ApiServer {
    ApiServer::new("2026-01-01T00:00:00Z".parse().unwrap())
}

/// Somebody's CRD, with a field that ours does not have.
fn other(number: Option<&str>) -> Value {
    let mut crd = serde_json::to_value(api::crd::cluster()).unwrap();
    crd["metadata"]["annotations"] = number.map_or(json!({}), |number| json!({ANNOTATION_SCHEMA: number}));
    let spec = &mut crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"];
    spec["properties"]["another"] = json!({"type": "string"});
    crd
}

fn stored(server: &ApiServer, name: &str) -> Value {
    server.store().lock().get(&key(name)).cloned().unwrap_or_default()
}

/// The stored schema and its number.
fn schema(server: &ApiServer) -> (Value, Value) {
    let crd = stored(server, CLUSTERS);
    (crd["spec"]["versions"].clone(), crd["metadata"]["annotations"][ANNOTATION_SCHEMA].clone())
}

/// Writes the CRDs, and says what it tells of them.
async fn ensure(server: &ApiServer) -> String {
    let (health, (gate, _leadership)) = (Arc::new(Health::default()), open_gate());
    let never = shared(std::future::pending());
    crds::ensure(server.client("n"), gate, Arc::clone(&health), never).await;
    health.ready().1
}

#[tokio::test(start_paused = true)]
async fn crds_that_are_missing_or_older_become_ours_whole() {
    let ours = serde_json::to_value(api::crd::cluster()).unwrap()["spec"]["versions"].clone();
    let (older, same) = (SCHEMA.saturating_sub(1).to_string(), SCHEMA.to_string());
    for before in [None, Some(other(None)), Some(other(Some(&older))), Some(other(Some(&same)))] {
        let server = server();
        if let Some(before) = &before {
            server.store().change(|objects| objects.put(&key(CLUSTERS), before.clone()));
        }
        let told = ensure(&server).await;
        assert_eq!(schema(&server), (ours.clone(), json!(same)), "{before:?}");
        assert!(!told.contains("CRDs"), "{told}");
        for crd in api::crd::all() {
            assert!(stored(&server, &crd.metadata.name.unwrap()).is_object());
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_newer_crd_is_left_as_it_is_and_that_is_said() {
    for number in [(SCHEMA + 1).to_string(), "2027-a".to_owned()] {
        let server = server();
        let newer = server.store().change(|objects| objects.put(&key(CLUSTERS), other(Some(&number))));
        let told = ensure(&server).await;
        assert_eq!(stored(&server, CLUSTERS), newer, "{number}");
        assert!(told.contains(&format!("CRDs: the CRD {CLUSTERS} has a schema")), "{told}");
        assert!(stored(&server, "etcdbackups.etcd.database.coreos.com").is_object(), "the others are made");
    }
}

#[tokio::test(start_paused = true)]
async fn a_crd_that_somebody_else_writes_after_it_was_read_is_read_again() {
    for before in [None, Some(other(None))] {
        let newer = other(Some(&(SCHEMA + 1).to_string()));
        let server = server();
        if let Some(before) = &before {
            server.store().change(|objects| objects.put(&key(CLUSTERS), before.clone()));
        }
        let (faster, once, theirs) = (server.clone(), AtomicBool::new(false), newer.clone());
        server.refuse(Some(Arc::new(move |asked| {
            if asked.method != Method::GET && !once.swap(true, Ordering::SeqCst) {
                faster.store().change(|objects| objects.put(&key(CLUSTERS), theirs.clone()));
            }
            None
        })));
        ensure(&server).await;
        assert_eq!(schema(&server), (newer["spec"]["versions"].clone(), json!((SCHEMA + 1).to_string())));
    }
}
