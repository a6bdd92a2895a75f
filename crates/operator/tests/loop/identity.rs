//! Who the operator is: from its own pod, or from its flags; and what it says when neither tells.

use std::sync::atomic::{AtomicUsize, Ordering};

use clap::Parser;
use operator::{flags::Flags, identity::Identity};
use serde_json::{Value, json};

use crate::fake::{failure, server};

fn flags(arguments: &[&str]) -> Flags {
    // The environment of whoever runs the tests is not part of them.
    let mut flags = Flags::parse_from(["etcd-operator"].iter().chain(arguments));
    (flags.pod_name, flags.namespace) = (None, None);
    flags
}

fn in_pod(arguments: &[&str]) -> Flags {
    Flags { pod_name: Some("op-1".to_owned()), namespace: Some("ops".to_owned()), ..flags(arguments) }
}

fn own_pod() -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "op-1", "ownerReferences":
        [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "op", "uid": "u", "controller": true}]},
        "spec": {"containers": [{"name": "etcd-operator", "image": "o:1"}]}})
}

#[tokio::test]
async fn in_a_pod_the_image_is_its_own_and_the_lease_goes_with_its_replica_set() {
    let (client, log) = server(|_| (200, own_pod()));
    let identity = Identity::find(&in_pod(&[]), &client).await.unwrap();
    assert_eq!(identity.operator.launcher_image, "o:1");
    assert_eq!((identity.namespace.as_str(), identity.name.as_str()), ("ops", "op-1"));
    assert_eq!(identity.owner.unwrap().kind, "ReplicaSet");
    assert_eq!(log.lock().unwrap()[0].path, "/api/v1/namespaces/ops/pods/op-1");
}

#[tokio::test(start_paused = true)]
async fn an_api_server_that_is_away_is_waited_for() {
    let asked = AtomicUsize::new(0);
    let (client, log) = server(move |_| match asked.fetch_add(1, Ordering::SeqCst) {
        0 => failure(503, "ServiceUnavailable", "starting"),
        1 => failure(429, "TooManyRequests", "busy"),
        _ => (200, own_pod()),
    });
    let identity = Identity::find(&in_pod(&[]), &client).await.unwrap();
    assert_eq!((identity.operator.launcher_image.as_str(), log.lock().unwrap().len()), ("o:1", 3));
}

#[tokio::test]
async fn from_a_shell_the_flag_says_it_and_nothing_is_read() {
    let (client, log) = server(|_| failure(500, "InternalError", "not asked"));
    let identity = Identity::find(&flags(&["--launcher-image=l:1"]), &client).await.unwrap();
    assert_eq!(identity.operator.launcher_image, "l:1");
    assert_eq!(identity.namespace, "default", "the kubeconfig's");
    assert!(log.lock().unwrap().is_empty());
}

#[tokio::test]
async fn what_is_missing_is_named() {
    let (client, _) = server(|_| failure(403, "Forbidden", "pods is forbidden"));
    let nothing = Identity::find(&flags(&[]), &client).await.unwrap_err().to_string();
    assert!(nothing.contains("MY_POD_NAME") && nothing.contains("--launcher-image"), "{nothing}");
    let refused = Identity::find(&in_pod(&[]), &client).await.unwrap_err().to_string();
    assert!(refused.contains("ops/op-1") && refused.contains("pods is forbidden"), "{refused}");
    assert!(Identity::find(&in_pod(&["--launcher-image=l:1"]), &client).await.is_ok());
}
