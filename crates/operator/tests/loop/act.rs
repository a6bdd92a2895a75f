//! What is sent for each effect, and what each answer of the API server means.

use crate::fake::{Asked, failure, open_gate, server};
use api::{Birth, EtcdCluster};
use http::Method;
use operator::act::{Actor, Outcome};
use planner::{Effect, RefusalClass};
use serde_json::{Value, json};

fn resource() -> EtcdCluster {
    serde_json::from_value(json!({
        "apiVersion": "etcd.database.coreos.com/v1beta2", "kind": "EtcdCluster",
        "metadata": {"name": "a", "namespace": "n", "uid": "u-1", "resourceVersion": "7"},
        "spec": {"size": 1}, "status": {"phase": "Creating"}
    }))
    .unwrap()
}

fn pod() -> Effect {
    let pod = json!({"metadata": {"name": "a-1", "namespace": "n"}, "spec": {"containers": []}});
    Effect::CreatePod(serde_json::from_value(pod).unwrap())
}

fn owned_by(uid: &str) -> Value {
    json!({"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata", "metadata": {"name": "a-1", "ownerReferences":
        [{"apiVersion": "v", "kind": "EtcdCluster", "name": "a", "uid": uid, "controller": true}]}})
}

async fn sent(
    effect: &Effect,
    answer: impl Fn(&Asked) -> (u16, Value) + Send + Sync + 'static,
) -> (Outcome, Vec<Asked>) {
    let (client, log) = server(answer);
    let (gate, _leadership) = open_gate();
    let resource = resource();
    let members = std::collections::BTreeMap::new();
    let actor = Actor { client: &client, gate: &gate, resource: &resource, members: &members };
    let outcome = actor.send(effect).await;
    let asked = log.lock().unwrap().clone();
    (outcome, asked)
}

#[tokio::test]
async fn a_pod_that_exists_is_looked_at_and_never_taken_over() {
    for (uid, expected) in [
        ("u-1", Outcome::Moved("it exists already".to_owned())),
        ("u-2", Outcome::Refused(RefusalClass::NameTaken, "EtcdCluster a (UID u-2)".to_owned())),
    ] {
        let (outcome, asked) = sent(&pod(), move |asked| match asked.method {
            Method::POST => failure(409, "AlreadyExists", "pods \"a-1\" already exists"),
            _ => (200, owned_by(uid)),
        })
        .await;
        assert_eq!(outcome, expected);
        assert_eq!(asked.iter().map(|asked| asked.method.as_str()).collect::<Vec<_>>(), ["POST", "GET"]);
    }
}

#[tokio::test]
async fn a_birth_replaces_the_status_as_it_was_read_and_a_crd_that_drops_it_is_told() {
    let birth = Birth::first("t".to_owned());
    let effect = Effect::ReplaceStatusBirth { resource_version: "7".to_owned(), birth };
    let (outcome, asked) = sent(&effect, |asked| (200, asked.body.clone())).await;
    assert_eq!(outcome, Outcome::Done);
    let body = &asked[0].body;
    assert!(asked[0].path.ends_with("/etcdclusters/a/status") && asked[0].method == Method::PUT);
    assert_eq!(body["metadata"]["resourceVersion"], "7");
    assert_eq!(
        (&body["status"]["phase"], &body["status"]["birth"]["token"]),
        (&json!("Creating"), &json!("t"))
    );

    let (outcome, _) = sent(&effect, |_| (200, serde_json::to_value(resource()).unwrap())).await;
    let crd = "etcdclusters.etcd.database.coreos.com".to_owned();
    assert_eq!(outcome, Outcome::Refused(RefusalClass::CrdOutdated, crd.clone()));
    let (outcome, _) = sent(&effect, |_| failure(404, "NotFound", "the server could not find it")).await;
    assert_eq!(outcome, Outcome::Refused(RefusalClass::CrdOutdated, crd));
    let (outcome, _) = sent(&effect, |_| failure(409, "Conflict", "it moved")).await;
    assert_eq!(outcome, Outcome::Moved("it moved".to_owned()));
}

#[tokio::test]
async fn what_was_decided_on_goes_with_the_write() {
    let patch = Effect::PatchPodAnnotation {
        name: "a-1".to_owned(),
        uid: "u-9".to_owned(),
        resource_version: "5".to_owned(),
        key: "k",
        value: "v".to_owned(),
    };
    let (outcome, asked) = sent(&patch, |_| (200, owned_by("u-1"))).await;
    assert_eq!(outcome, Outcome::Done);
    let expected = json!({"metadata": {"uid": "u-9", "resourceVersion": "5", "annotations": {"k": "v"}}});
    assert_eq!(asked[0].body, expected);

    let delete = Effect::DeletePod { name: "a-1".to_owned(), uid: "u-9".to_owned() };
    let (outcome, asked) = sent(&delete, |_| failure(404, "NotFound", "gone")).await;
    assert_eq!(outcome, Outcome::Done, "what is gone is deleted");
    assert_eq!(asked[0].body["preconditions"]["uid"], "u-9");

    let service = Effect::ApplyService {
        uid: "u-8".to_owned(),
        resource_version: "4".to_owned(),
        service: serde_json::from_value(json!({"metadata": {"name": "a", "namespace": "n"}})).unwrap(),
    };
    let (outcome, asked) = sent(&service, |asked| (200, asked.body.clone())).await;
    assert_eq!(outcome, Outcome::Done);
    assert_eq!(asked[0].body["metadata"]["uid"], "u-8");
    assert_eq!(asked[0].body["metadata"]["resourceVersion"], "4");
}
