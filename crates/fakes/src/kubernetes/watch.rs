//! FAKES: a watch: every change after a version, in order, and then those to come.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use bytes::Bytes;
use futures::{Stream, stream};
use serde_json::{Value, json};
use tokio::{
    sync::watch,
    time::{Instant, sleep_until},
};

use super::{
    answer,
    request::{Target, selects},
    store::{Change, Store},
};

/// How often a watch is told how far it is, if nothing else happens.
const BOOKMARK: Duration = Duration::from_mins(1);

/// What is watched, and how.
pub(super) struct Watch {
    pub(super) store: Arc<Store>,
    pub(super) target: Target,
    pub(super) selector: Option<String>,
    /// The version after which it goes on.
    pub(super) from: u64,
    pub(super) ends: Instant,
    pub(super) bookmarks: bool,
    /// Whether only metadata is wanted.
    pub(super) metadata: bool,
    /// Every watch ends when this changes.
    pub(super) cut: watch::Receiver<u64>,
    /// Changes that are not told, by the number of the change.
    pub(super) withheld: watch::Receiver<Vec<u64>>,
}

struct Position {
    watch: Watch,
    changed: watch::Receiver<u64>,
    at: u64,
    next_bookmark: Instant,
    ready: VecDeque<Value>,
    over: bool,
}

impl Watch {
    /// The events, one line each.
    pub(super) fn lines(self) -> impl Stream<Item = Bytes> + Send {
        let (changed, at) = (self.store.changes(), self.from);
        let next_bookmark = Instant::now() + BOOKMARK;
        let position =
            Position { watch: self, changed, at, next_bookmark, ready: VecDeque::new(), over: false };
        stream::unfold(position, |mut position| async move {
            let event = position.next().await?;
            Some((Bytes::from(format!("{event}\n")), position))
        })
    }

    fn shown(&self, object: &Value) -> Value {
        if self.metadata { answer::metadata_only(object) } else { object.clone() }
    }

    fn bookmark(&self, at: u64) -> Value {
        let object = json!({
            "kind": self.target.kind.name, "apiVersion": self.target.kind.api_version(),
            "metadata": {"resourceVersion": at.to_string(), "creationTimestamp": null},
        });
        json!({"type": "BOOKMARK", "object": self.shown(&object)})
    }

    /// What a change is to this watch.
    fn event(&self, change: &Change) -> Option<Value> {
        let key = &change.key;
        let elsewhere = !self.target.namespace.is_empty() && key.namespace != self.target.namespace;
        let another = !self.target.name.is_empty() && key.name != self.target.name;
        if key.plural != self.target.kind.plural || elsewhere || another {
            return None;
        }
        if self.withheld.borrow().contains(&change.revision) {
            return None;
        }
        let fits = |object: &&Value| selects(self.selector.as_deref(), object);
        let (before, after) = (change.before.as_deref().filter(fits), change.after.as_deref().filter(fits));
        let (kind, object) = match (before, after) {
            (None, None) => return None,
            (None, Some(object)) => ("ADDED", object.clone()),
            (Some(_), Some(object)) => ("MODIFIED", object.clone()),
            (Some(object), None) => {
                let mut object = object.clone();
                object["metadata"]["resourceVersion"] = json!(change.revision.to_string());
                ("DELETED", object)
            }
        };
        Some(json!({"type": kind, "object": self.shown(&object)}))
    }
}

impl Position {
    async fn next(&mut self) -> Option<Value> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Some(event);
            }
            if self.over || self.watch.cut.has_changed().unwrap_or(true) {
                return None;
            }
            if self.take() {
                continue;
            }
            let wake = self.next_bookmark.min(self.watch.ends);
            tokio::select! {
                changed = self.changed.changed() => self.over = changed.is_err(),
                _ = self.watch.cut.changed() => return None,
                () = sleep_until(wake) => self.tell_how_far(),
            }
        }
    }

    /// Takes the next change; whether there was any.
    fn take(&mut self) -> bool {
        let store = Arc::clone(&self.watch.store);
        let objects = store.lock();
        if self.at < objects.compacted() && self.at == self.watch.from {
            self.ready
                .push_back(json!({"type": "ERROR", "object": answer::too_old(self.at, objects.compacted())}));
            self.over = true;
            return true;
        }
        let Some(change) = objects.after(self.at) else { return false };
        self.at = change.revision;
        self.ready.extend(self.watch.event(change));
        true
    }

    fn tell_how_far(&mut self) {
        self.over = Instant::now() >= self.watch.ends;
        if self.watch.bookmarks {
            self.ready.push_back(self.watch.bookmark(self.at));
        }
        self.next_bookmark = Instant::now() + BOOKMARK;
    }
}
