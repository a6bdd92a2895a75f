//! Operators that are broken on purpose, each in a way that somebody could write it: every one is caught.

use std::{panic::catch_unwind, time::Duration};

use fakes::wire::{Breaking, Fault};
use http::{Method, Request};
use kube::{Client, client::Body};
use serde_json::{Value, json};
use tokio::time::timeout;
use tower::service_fn;

use crate::{
    every_write::{Run, breaking},
    workflow::{CREATE, Workflow},
};

/// A request in two parts that can be sent twice.
async fn parts(request: Request<Body>) -> (http::request::Parts, Value) {
    let (head, body) = request.into_parts();
    let bytes = body.collect_bytes().await.unwrap();
    (head, serde_json::from_slice(&bytes).unwrap_or_default())
}

fn request(head: &http::request::Parts, body: &Value) -> Request<Body> {
    let bytes = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
    let mut request = Request::new(Body::from(bytes));
    *request.method_mut() = head.method.clone();
    *request.uri_mut() = head.uri.clone();
    *request.headers_mut() = head.headers.clone();
    request
}

type Sent = Result<http::Response<Body>, kube::Error>;

/// A client that sends like this.
pub(crate) fn bent<F, S>(client: Client, send: S) -> Client
where
    S: Fn(Client, Request<Body>) -> F + Clone + Send + 'static,
    F: Future<Output = Sent> + Send + 'static,
{
    Client::new(service_fn(move |request| send(client.clone(), request)), "n")
}

/// A gate that makes a pod again under another name if no answer comes.
fn retries_with_a_new_name(client: Client) -> Client {
    bent(client, async |client: Client, asked: Request<Body>| {
        let (head, mut body) = parts(asked).await;
        let first = client.send(request(&head, &body));
        if head.method != Method::POST || !head.uri.path().ends_with("/pods") {
            return first.await;
        }
        if let Ok(answer) = timeout(Duration::from_secs(1), first).await {
            return answer;
        }
        let name = body["metadata"]["name"].as_str().unwrap().to_owned();
        body["metadata"]["name"] = json!(format!("{}2", &name[..name.len() - 1]));
        client.send(request(&head, &body)).await
    })
}

/// An act that writes the birth without the version that it was decided on, so that nothing ever stands in its way.
fn ignores_conflicts(client: Client) -> Client {
    bent(client, async |client: Client, asked: Request<Body>| {
        let (mut head, mut body) = parts(asked).await;
        if head.method == Method::PUT && head.uri.path().contains("/etcdclusters/") {
            head.method = Method::PATCH;
            let merge = "application/merge-patch+json".parse().unwrap();
            head.headers.insert(http::header::CONTENT_TYPE, merge);
            body = json!({"status": {"birth": body["status"]["birth"]}});
        }
        client.send(request(&head, &body)).await
    })
}

/// A report that writes the whole status, without what is not its own.
fn reports_over_the_birth(client: Client) -> Client {
    bent(client, async |client: Client, asked: Request<Body>| {
        let (head, mut body) = parts(asked).await;
        if head.method == Method::PATCH && head.uri.path().contains("/etcdclusters/") {
            body["status"]["birth"] = Value::Null;
        }
        client.send(request(&head, &body)).await
    })
}

/// An observer that is content with what some cache holds: here, one that knows no pods yet.
fn reads_from_a_cache(client: Client) -> Client {
    bent(client, async |client: Client, asked: Request<Body>| {
        let (mut head, body) = parts(asked).await;
        if head.method == Method::GET && head.uri.path().ends_with("/pods") && !body.is_object() {
            let query = head.uri.query().unwrap_or_default();
            if !query.contains("watch=") && query.contains("etcd_cluster") {
                let path = format!("{}?{}", head.uri.path(), query.replace("etcd_cluster", "etcd_nobody"));
                head.uri = path.parse().unwrap();
            }
        }
        client.send(request(&head, &body)).await
    })
}

/// Whether something is noticed of a broken operator: with nothing going wrong, or with a fault at each write of a kind.
fn is_caught(workflow: Workflow, bend: fn(Client) -> Client, fault: Option<(&str, Fault)>) -> bool {
    let runs: Vec<Option<Breaking>> = match fault {
        None => vec![None],
        Some((what, fault)) => {
            // With nothing going wrong it passes; what it sends is not what a good one would.
            let writes = Run { bend, ..Run::clean(workflow) }.on_a_stopped_clock().writes;
            writes
                .iter()
                .filter(|write| write.what == what)
                .map(|write| Some(breaking(write, fault)))
                .collect()
        }
    };
    assert!(!runs.is_empty());
    runs.into_iter().any(|fault| {
        let run = Run { fault, bend, ..Run::clean(workflow) };
        // A fault that was not met has caught nobody.
        catch_unwind(|| run.until_it_meets_its_fault()).map_or(true, |met| {
            assert!(met.is_some(), "{:?} was not met", run.fault);
            false
        })
    })
}

#[test]
fn a_gate_that_makes_a_lost_pod_again_under_another_name_is_caught() {
    assert!(is_caught(CREATE, retries_with_a_new_name, Some(("POST pods", Fault::LoseAnswer))));
}

#[test]
fn an_act_that_lets_no_conflict_stand_in_its_way_is_caught() {
    assert!(is_caught(CREATE, ignores_conflicts, Some(("PATCH etcdclusters/status", Fault::Late))));
}

#[test]
fn a_report_that_writes_over_the_birth_is_caught() {
    assert!(is_caught(CREATE, reports_over_the_birth, None));
}

#[test]
fn an_observer_that_decides_on_a_cache_is_caught() {
    assert!(is_caught(CREATE, reads_from_a_cache, None));
}
