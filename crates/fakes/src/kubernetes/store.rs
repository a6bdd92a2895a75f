//! FAKES: what the API server keeps: every object, every change, and the number of each.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::{sync::watch, time::Instant};

use super::kinds::Kind;

/// Which object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    /// Its kind, in paths.
    pub plural: &'static str,
    /// Its namespace; empty where it has none.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

impl Key {
    /// The object of this name.
    #[must_use]
    pub fn new(kind: Kind, namespace: &str, name: &str) -> Self {
        Self { plural: kind.plural, namespace: namespace.to_owned(), name: name.to_owned() }
    }
}

/// One change: an object before and after it.
#[derive(Clone, Debug)]
pub struct Change {
    /// Its number.
    pub revision: u64,
    /// Which object.
    pub key: Key,
    /// The object before; nothing if it was created.
    pub before: Option<Arc<Value>>,
    /// The object after; nothing if it is gone.
    pub after: Option<Arc<Value>>,
}

/// What is kept, under one lock.
#[derive(Debug, Default)]
pub struct Objects {
    current: BTreeMap<Key, Arc<Value>>,
    log: Vec<Change>,
    revision: u64,
    /// Changes up to this one cannot be watched any more.
    compacted: u64,
    names: u64,
}

/// What the API server keeps.
#[derive(Debug)]
pub struct Store {
    inner: Mutex<Objects>,
    changed: watch::Sender<u64>,
    begun: (Timestamp, Instant),
}

impl Store {
    /// An empty one, whose clock shows this time.
    #[must_use]
    pub fn new(time: Timestamp) -> Self {
        Self { inner: Mutex::default(), changed: watch::Sender::new(0), begun: (time, Instant::now()) }
    }

    /// What is kept. Nobody waits for anything while holding it.
    pub fn lock(&self) -> MutexGuard<'_, Objects> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes something, and wakes whoever watches.
    pub fn change<T>(&self, act: impl FnOnce(&mut Objects) -> T) -> T {
        let mut objects = self.lock();
        let done = act(&mut objects);
        let revision = objects.revision;
        drop(objects);
        self.changed.send_if_modified(|known| std::mem::replace(known, revision) != revision);
        done
    }

    /// Tells when something has changed.
    #[must_use]
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    /// What time it is, in words.
    #[must_use]
    pub fn now(&self) -> String {
        let (time, at) = self.begun;
        let now = time.checked_add(at.elapsed()).unwrap_or(time);
        now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
    }
}

impl Objects {
    /// The number of the last change.
    #[must_use]
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// Up to where changes are forgotten.
    #[must_use]
    pub fn compacted(&self) -> u64 {
        self.compacted
    }

    /// Forgets all changes so far: a watch cannot go on from any of them. What happened can still be looked at here.
    pub fn compact(&mut self) {
        self.compacted = self.revision;
    }

    /// An object.
    #[must_use]
    pub fn get(&self, key: &Key) -> Option<&Value> {
        self.current.get(key).map(AsRef::as_ref)
    }

    /// All objects of a kind.
    pub fn of(&self, kind: Kind) -> impl Iterator<Item = (&Key, &Value)> {
        let first = Key { plural: kind.plural, namespace: String::new(), name: String::new() };
        let all = self.current.range(first..).take_while(move |(key, _)| key.plural == kind.plural);
        all.map(|(key, object)| (key, object.as_ref()))
    }

    /// All objects.
    pub fn all(&self) -> impl Iterator<Item = (&Key, &Value)> {
        self.current.iter().map(|(key, object)| (key, object.as_ref()))
    }

    /// All objects, as they were after a change.
    #[must_use]
    pub fn at(&self, revision: u64) -> BTreeMap<Key, Arc<Value>> {
        let mut objects = BTreeMap::new();
        for change in self.log.iter().take_while(|change| change.revision <= revision) {
            match &change.after {
                Some(object) => objects.insert(change.key.clone(), Arc::clone(object)),
                None => objects.remove(&change.key),
            };
        }
        objects
    }

    /// Every change so far.
    #[must_use]
    pub fn log(&self) -> &[Change] {
        &self.log
    }

    /// The first change after this one.
    #[must_use]
    pub fn after(&self, revision: u64) -> Option<&Change> {
        let position = self.log.partition_point(|change| change.revision <= revision);
        self.log.get(position)
    }

    /// A number that was not given out before.
    pub fn fresh(&mut self) -> u64 {
        self.names += 1;
        self.names
    }

    /// Writes an object, and returns it with its new version.
    pub fn put(&mut self, key: &Key, mut object: Value) -> Value {
        self.revision += 1;
        object["metadata"]["resourceVersion"] = json!(self.revision.to_string());
        let kept = Arc::new(object.clone());
        let before = self.current.insert(key.clone(), Arc::clone(&kept));
        self.log.push(Change { revision: self.revision, key: key.clone(), before, after: Some(kept) });
        object
    }

    /// Removes an object.
    pub fn remove(&mut self, key: &Key) {
        let Some(mut before) = self.current.remove(key) else { return };
        self.revision += 1;
        Arc::make_mut(&mut before)["metadata"]["resourceVersion"] = json!(self.revision.to_string());
        self.log.push(Change {
            revision: self.revision,
            key: key.clone(),
            before: Some(before),
            after: None,
        });
    }
}
