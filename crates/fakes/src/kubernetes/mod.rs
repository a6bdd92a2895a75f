//! FAKES: a Kubernetes API server, as true as the operator's use of it: versions, preconditions, status apart, apply, lists and
//! watches, graceful deletion, and the garbage collector. [`crate::truth`] says what is compared with the real one.

pub mod answer;
pub mod kinds;
pub mod merge;
mod request;
mod schema;
pub mod store;
mod watch;
mod write;

use std::{future::pending, sync::Arc, time::Duration};

use bytes::Bytes;
use futures::{FutureExt, StreamExt, future::BoxFuture, stream};
use http::{Method, Request, Response};
use http_body::Frame;
use http_body_util::StreamBody;
use jiff::Timestamp;
use kube::{Client, client::Body};
use serde_json::{Value, json};
use tokio::{
    sync::watch as signal,
    time::{Instant, sleep},
};
use tower::service_fn;

pub use request::{Asked, Target, selects};

use answer::Answer;
use kinds::Kind;
use store::{Key, Store};

use crate::wire::{Fault, Wire, Write};

/// How long a watch may last, if it does not say.
const WATCH: Duration = Duration::from_secs(290);
/// For how long a quota is full.
const FULL: Duration = Duration::from_secs(12);
/// How soon the garbage collector sees that an owner is gone.
const COLLECT: Duration = Duration::from_millis(20);

/// A body that comes in parts.
pub type Parts = StreamBody<stream::BoxStream<'static, Result<Frame<Bytes>, std::convert::Infallible>>>;

/// A refusal that a test put in the way: what the API server answers instead of doing it.
pub type Refuse = Arc<dyn Fn(&Asked) -> Option<Answer> + Send + Sync>;

/// How long a request is under way before the API server sees to it.
pub type Slow = Arc<dyn Fn(&Asked) -> Duration + Send + Sync>;

/// Says which laws a write breaks.
pub type Judge = Arc<dyn Fn(&Asked) -> Vec<String> + Send + Sync>;

/// The API server. All clones are one.
#[derive(Clone)]
pub struct ApiServer {
    store: Arc<Store>,
    cut: signal::Sender<u64>,
    withheld: signal::Sender<Vec<u64>>,
    stale: signal::Sender<Option<u64>>,
    refuse: signal::Sender<Option<Refuse>>,
    slow: signal::Sender<Option<Slow>>,
}

impl ApiServer {
    /// An empty one, whose clock shows this time.
    #[must_use]
    pub fn new(time: Timestamp) -> Self {
        Self {
            store: Arc::new(Store::new(time)),
            cut: signal::Sender::new(0),
            withheld: signal::Sender::new(Vec::new()),
            stale: signal::Sender::new(None),
            refuse: signal::Sender::new(None),
            slow: signal::Sender::new(None),
        }
    }

    /// What it keeps.
    #[must_use]
    pub fn store(&self) -> &Arc<Store> {
        &self.store
    }

    /// A client of it.
    #[must_use]
    pub fn client(&self, namespace: &str) -> Client {
        let server = self.clone();
        let service = service_fn(move |request: Request<Body>| {
            let server = server.clone();
            async move {
                let asked = read(request).await;
                Ok::<_, std::convert::Infallible>(server.answer(&asked))
            }
        });
        Client::new(service, namespace)
    }

    /// A client of it over an operator's wire. `judge` says, at the moment a write lands, which laws it breaks.
    #[must_use]
    pub fn client_over(&self, namespace: &str, wire: &Wire, judge: &Judge) -> Client {
        let (server, wire, judge) = (self.clone(), wire.clone(), Arc::clone(judge));
        let service = service_fn(move |request: Request<Body>| {
            let (server, wire, judge) = (server.clone(), wire.clone(), Arc::clone(&judge));
            async move {
                let asked = read(request).await;
                let slow = server.slow.borrow().as_ref().map_or(Duration::ZERO, |slow| slow(&asked));
                if slow.is_zero() {
                    return Ok::<_, std::convert::Infallible>(server.answer_over(&wire, asked, judge).await);
                }
                // Who stops waiting does not stop a request that is under way.
                let late = tokio::spawn(async move {
                    sleep(slow).await;
                    server.answer_over(&wire, asked, judge).await
                });
                match late.await {
                    Ok(answer) => Ok(answer),
                    Err(_) => pending().await,
                }
            }
        });
        Client::new(service, namespace)
    }

    async fn answer_over(&self, wire: &Wire, asked: Asked, judge: Judge) -> Response<Parts> {
        match asked.target().filter(|_| asked.is_write()) {
            None => {
                wire.opens().await;
                self.answer(&asked)
            }
            Some(target) => self.write_over(wire, asked, &target, judge).await,
        }
    }

    async fn write_over(&self, wire: &Wire, asked: Asked, target: &Target, judge: Judge) -> Response<Parts> {
        let named = target.name.is_empty().then(|| asked.body["metadata"]["name"].as_str()).flatten();
        let name = named.unwrap_or(&target.name);
        let part = if target.part.is_empty() { String::new() } else { format!("/{}", target.part) };
        let write = Write {
            who: String::new(),
            what: format!("{} {}{part}", asked.method, target.kind.plural),
            object: format!("{}/{name}", target.namespace),
            contended: !name.is_empty(),
            watched: true,
            number: (target.kind != kinds::LEASES).then_some(0),
            nth: 0,
            outcome: None,
        };
        let (server, record) = (self.clone(), wire.record().clone());
        let (faster, disturbed) = (self.clone(), asked.clone());
        let land = move || {
            let broken = judge(&asked);
            let (code, value) = server.handle(&asked);
            if code < 300 {
                record.note(broken);
            }
            (whole(code, &value), code.to_string())
        };
        wire.send(write, move |fault| faster.disturb(fault, &disturbed), land).await
    }

    /// Does what somebody else would do that a write loses against: make the object, delete it, or write it.
    fn disturb(&self, fault: Fault, asked: &Asked) {
        if fault == Fault::Expire {
            return self.expire_watches();
        }
        let Some(target) = asked.target() else { return };
        if fault == Fault::Quota {
            return self.fill_quota(target.kind);
        }
        if matches!(asked.method, Method::POST | Method::DELETE) {
            let _ = self.handle(asked);
            return;
        }
        let key = Key::new(target.kind, &target.namespace, &target.name);
        self.store.change(|objects| {
            let Some(mut object) = objects.get(&key).cloned() else { return };
            let touched = objects.fresh().to_string();
            object["metadata"]["annotations"]["example.com/touched"] = json!(touched);
            objects.put(&key, object);
        });
    }

    /// Refuses every new object of this kind for a while.
    fn fill_quota(&self, kind: Kind) {
        let full = move |asked: &Asked| {
            let target = asked.target().filter(|_| asked.method == Method::POST)?;
            (target.kind == kind).then(|| answer::over_quota(kind, &asked.body["metadata"]["name"]))
        };
        self.refuse(Some(Arc::new(full)));
        let server = self.clone();
        tokio::spawn(async move {
            sleep(FULL).await;
            server.refuse(None);
        });
    }

    /// Ends every watch; they go on from where they were.
    pub fn cut_watches(&self) {
        self.cut.send_modify(|cuts| *cuts += 1);
    }

    /// Forgets all changes so far, and ends every watch: whoever watched has to begin again with a list (410 Gone).
    pub fn expire_watches(&self) {
        self.store.lock().compact();
        self.cut_watches();
    }

    /// Never tells watches of these changes.
    pub fn withhold(&self, revisions: Vec<u64>) {
        self.withheld.send_replace(revisions);
    }

    /// Answers lists that are content with any version from this one.
    pub fn serve_stale(&self, revision: Option<u64>) {
        self.stale.send_replace(revision);
    }

    /// Refuses what this says.
    pub fn refuse(&self, refuse: Option<Refuse>) {
        self.refuse.send_replace(refuse);
    }

    /// Takes its time, as this says.
    pub fn slow(&self, slow: Option<Slow>) {
        self.slow.send_replace(slow);
    }

    /// Answers a request.
    #[must_use]
    pub fn answer(&self, asked: &Asked) -> Response<Parts> {
        if let Some(target) = asked.target().filter(|_| asked.is_on("watch")) {
            return self.watch(asked, target);
        }
        let (code, value) = self.handle(asked);
        whole(code, &value)
    }

    /// Answers a request that is no watch.
    #[must_use]
    pub fn handle(&self, asked: &Asked) -> Answer {
        let group = format!("/apis/{}/{}", api::GROUP, api::VERSION);
        if asked.path == group {
            return discovery();
        }
        if asked.path == "/version" {
            return (200, json!({"major": "1", "minor": "35", "gitVersion": "v1.35.0"}));
        }
        let Some(target) = asked.target() else { return answer::no_such_path() };
        let refused = self.refuse.borrow().as_ref().and_then(|refuse| refuse(asked));
        if let Some(refused) = refused {
            return refused;
        }
        if asked.is_write() {
            let now = self.store.now();
            return shown(asked, self.store.change(|objects| write::write(objects, asked, &target, &now)));
        }
        shown(asked, if target.name.is_empty() { self.list(asked, &target) } else { self.get(&target) })
    }

    fn get(&self, target: &Target) -> Answer {
        let key = Key::new(target.kind, &target.namespace, &target.name);
        let found = self.store.lock().get(&key).cloned();
        found.map_or_else(|| answer::not_found(target.kind, &target.name), |object| (200, object))
    }

    fn list(&self, asked: &Asked, target: &Target) -> Answer {
        let selector = asked.parameter("labelSelector");
        let named = asked.parameter("fieldSelector");
        let stale = self.stale.borrow().filter(|_| asked.parameter("resourceVersion").is_some());
        let objects = self.store.lock();
        let fits = |key: &Key, object: &Value| {
            let here = target.namespace.is_empty() || key.namespace == target.namespace;
            let is_named =
                named.as_deref().is_none_or(|fields| fields == format!("metadata.name={}", key.name));
            key.plural == target.kind.plural && here && is_named && selects(selector.as_deref(), object)
        };
        let (revision, items): (u64, Vec<Value>) = if let Some(revision) = stale {
            let old = objects.at(revision).into_iter().filter(|(key, object)| fits(key, object));
            (revision, old.map(|(_, object)| object.as_ref().clone()).collect())
        } else {
            let all = objects.of(target.kind).filter(|(key, object)| fits(key, object));
            (objects.revision(), all.map(|(_, object)| object.clone()).collect())
        };
        let kind = target.kind;
        (
            200,
            json!({
                "kind": format!("{}List", kind.name), "apiVersion": kind.api_version(),
                "metadata": {"resourceVersion": revision.to_string()}, "items": items,
            }),
        )
    }

    fn watch(&self, asked: &Asked, target: Target) -> Response<Parts> {
        let number = |key: &str| asked.parameter(key).and_then(|text| text.parse::<u64>().ok());
        let lasts = number("timeoutSeconds").map_or(WATCH, Duration::from_secs);
        let watch = watch::Watch {
            store: Arc::clone(&self.store),
            target,
            selector: asked.parameter("labelSelector"),
            from: number("resourceVersion").unwrap_or_else(|| self.store.lock().revision()),
            ends: Instant::now() + lasts,
            bookmarks: asked.is_on("allowWatchBookmarks"),
            metadata: wants_metadata(asked),
            cut: self.cut.subscribe(),
            withheld: self.withheld.subscribe(),
        };
        let frames = watch.lines().map(|line| Ok(Frame::data(line))).boxed();
        response(200, frames)
    }

    /// The garbage collector.
    pub async fn collect_garbage(self) {
        let mut changes = self.store.changes();
        loop {
            let now = self.store.now();
            self.store.change(|objects| write::collect_garbage(objects, &now));
            if changes.changed().await.is_err() {
                return;
            }
            sleep(COLLECT).await;
        }
    }
}

/// Reads a request.
pub(crate) async fn read(request: Request<Body>) -> Asked {
    let (head, body) = request.into_parts();
    let bytes = body.collect_bytes().await.unwrap_or_default();
    let header = |name: http::HeaderName| {
        head.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default().to_owned()
    };
    Asked {
        path: head.uri.path().to_owned(),
        query: head.uri.query().unwrap_or_default().to_owned(),
        accept: header(http::header::ACCEPT),
        content: header(http::header::CONTENT_TYPE),
        body: serde_json::from_slice(&bytes).unwrap_or(Value::Null),
        method: head.method,
    }
}

fn wants_metadata(asked: &Asked) -> bool {
    asked.accept.contains("PartialObjectMetadata")
}

/// An answer in the form that was asked for.
fn shown(asked: &Asked, (code, value): Answer) -> Answer {
    if !wants_metadata(asked) || value["kind"] == "Status" {
        return (code, value);
    }
    let Some(items) = value["items"].as_array() else { return (code, answer::metadata_only(&value)) };
    let items: Vec<Value> = items.iter().map(answer::metadata_only).collect();
    let list = json!({
        "kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1", "metadata": value["metadata"], "items": items,
    });
    (code, list)
}

/// What the API server has of our group.
fn discovery() -> Answer {
    let of = |kind: &Kind| json!({"name": kind.plural, "singularName": "", "namespaced": true, "kind": kind.name, "verbs": []});
    let resources: Vec<Value> = kinds::ALL.iter().filter(|kind| kind.is_custom()).map(of).collect();
    let group = format!("{}/{}", api::GROUP, api::VERSION);
    (
        200,
        json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group, "resources": resources}),
    )
}

/// A body in one part.
pub(crate) fn whole(code: u16, value: &Value) -> Response<Parts> {
    let frame = Frame::data(Bytes::from(value.to_string()));
    let mut response = response(code, stream::iter([Ok(frame)]).boxed());
    if let Some(seconds) = value["details"]["retryAfterSeconds"].as_u64() {
        response.headers_mut().insert(http::header::RETRY_AFTER, seconds.into());
    }
    response
}

fn response(
    code: u16,
    frames: stream::BoxStream<'static, Result<Frame<Bytes>, std::convert::Infallible>>,
) -> Response<Parts> {
    let mut response = Response::new(StreamBody::new(frames));
    *response.status_mut() = http::StatusCode::from_u16(code).unwrap_or_default();
    response
}

/// Something that goes on in the background, until it is dropped.
pub type Background = BoxFuture<'static, ()>;

impl ApiServer {
    /// What has to go on for it to be true.
    #[must_use]
    pub fn background(&self) -> Background {
        self.clone().collect_garbage().boxed()
    }
}
