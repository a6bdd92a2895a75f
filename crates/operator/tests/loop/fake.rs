//! An API server of a few lines: a function from request to answer, and a list of what was asked.

use std::{
    convert::Infallible,
    sync::{Arc, Mutex},
    time::Duration,
};

use http::{Method, Request, Response};
use kube::{Client, client::Body};
use operator::{
    gate::Gate,
    leader::{LEASE_DURATION, Leadership},
    metrics::Metrics,
};
use serde_json::{Value, json};
use tower::service_fn;

/// What was asked.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) method: Method,
    pub(crate) path: String,
    pub(crate) query: String,
    pub(crate) body: Value,
}

/// The code for no answer so far.
pub(crate) const NOT_YET: u16 = 0;

pub(crate) type Log = Arc<Mutex<Vec<Asked>>>;

/// A client of an API server that answers like this.
pub(crate) fn server(answer: impl Fn(&Asked) -> (u16, Value) + Send + Sync + 'static) -> (Client, Log) {
    let (log, answer) = (Log::default(), Arc::new(answer));
    let kept = Arc::clone(&log);
    let service = service_fn(move |request: Request<Body>| {
        let (log, answer) = (Arc::clone(&kept), Arc::clone(&answer));
        async move {
            let (head, body) = request.into_parts();
            let bytes = body.collect_bytes().await.unwrap();
            let body = serde_json::from_slice(&bytes).unwrap_or(Value::Null);
            let (path, query) = (head.uri.path().to_owned(), head.uri.query().unwrap_or_default().to_owned());
            let asked = Asked { method: head.method, path, query, body };
            log.lock().unwrap().push(asked.clone());
            let mut answered = answer(&asked);
            while answered.0 == NOT_YET {
                tokio::time::sleep(Duration::from_secs(1)).await;
                answered = answer(&asked);
            }
            let (code, value) = answered;
            let response = Response::builder().status(code).body(Body::from(value.to_string().into_bytes()));
            Ok::<_, Infallible>(response.unwrap())
        }
    });
    (Client::new(service, "default"), log)
}

/// An error as the API server words it.
pub(crate) fn failure(code: u16, reason: &str, message: &str) -> (u16, Value) {
    let status = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason, "message": message});
    (code, status)
}

/// A gate that is open.
pub(crate) fn open_gate() -> (Gate, Leadership) {
    let leadership = Leadership::new(LEASE_DURATION);
    leadership.renewed(tokio::time::Instant::now(), false);
    (Gate::new(leadership.clone(), Arc::new(Metrics::new())), leadership)
}
