//! Waiting for a condition: by watching, never by polling, with a deadline, and with a failure that says what was seen.

use std::{fmt, fmt::Debug, pin::pin, time::Duration};

use futures::{Stream, StreamExt};
use kube::{
    Api, Resource, ResourceExt,
    runtime::watcher::{self, Event, watcher},
};
use serde::de::DeserializeOwned;
use tokio::time::{Instant, sleep, timeout_at};

/// The API server ends a watch after this many seconds, and it is taken up again where it ended. So a connection that
/// died without a word (a frozen API server) is noticed soon, and not after kube's five minutes.
const WATCH_SECONDS: u32 = 30;

/// Between two attempts to watch.
const PAUSE: Duration = Duration::from_millis(200);

/// The deadline passed before the condition held.
#[derive(Debug, thiserror::Error)]
pub struct WaitError {
    /// What was watched, such as `pods/etcd-0 of t-x`.
    pub subject: String,
    /// What it was waited for, such as `to be Ready`.
    pub what: String,
    /// How long.
    pub waited: Duration,
    /// What the check said last; nothing if there never was anything to check.
    pub seen: Option<String>,
    /// Why the watch is broken, if it was when the deadline passed.
    #[source]
    pub source: Option<Box<watcher::Error>>,
}

impl fmt::Display for WaitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "waited {:.1?} for {} {}; ", self.waited, self.subject, self.what)?;
        match &self.seen {
            Some(seen) => write!(f, "last seen: {seen}")?,
            None => write!(f, "nothing was ever seen")?,
        }
        if self.source.is_some() {
            write!(f, "; the watch was broken then")?;
        }
        Ok(())
    }
}

/// Tries again and again for so long, where there is nothing to watch; what went wrong last is told then.
pub async fn until_it_succeeds<T, E>(
    patience: Duration,
    attempt: impl AsyncFn() -> Result<T, E>,
) -> Result<T, E> {
    let end = Instant::now() + patience;
    loop {
        match attempt().await {
            Ok(done) => return Ok(done),
            Err(error) if Instant::now() > end => return Err(error),
            Err(_) => sleep(PAUSE).await,
        }
    }
}

/// Waits until `check` is content with the object of this name; `what` completes the sentence "waited for NAME …".
///
/// The check gets `None` while there is no such object, and says in its error what it sees instead of what it wants.
pub async fn wait_for<K, T>(
    api: &Api<K>,
    name: &str,
    deadline: Duration,
    what: &str,
    mut check: impl FnMut(Option<&K>) -> Result<T, String>,
) -> Result<T, WaitError>
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
{
    let config = watcher::Config::default().fields(&format!("metadata.name={name}")).timeout(WATCH_SECONDS);
    let wait = Wait { subject: subject(api.resource_url(), Some(name)), what, deadline };
    wait.over(watcher(api.clone(), config), |objects| check(objects.first())).await
}

/// Waits until `check` is content with all objects that have these labels (`a=b,c`; none means all), in order of
/// their names.
pub async fn wait_for_all<K, T>(
    api: &Api<K>,
    labels: &str,
    deadline: Duration,
    what: &str,
    check: impl FnMut(&[K]) -> Result<T, String>,
) -> Result<T, WaitError>
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
{
    let config = watcher::Config::default().labels(labels).timeout(WATCH_SECONDS);
    let with_labels = if labels.is_empty() { String::new() } else { format!(" with {labels}") };
    let wait = Wait { subject: subject(api.resource_url(), None) + &with_labels, what, deadline };
    wait.over(watcher(api.clone(), config), check).await
}

/// `pods/etcd-0 of t-x`, from the only thing that an `Api` of any type tells about itself.
fn subject(url: &str, name: Option<&str>) -> String {
    let mut parts = url.rsplit('/');
    let plural = parts.next().unwrap_or_default();
    let namespace = match (parts.next(), parts.next()) {
        (Some(namespace), Some("namespaces")) => format!(" of {namespace}"),
        _ => String::new(),
    };
    match name {
        Some(name) => format!("{plural}/{name}{namespace}"),
        None => format!("{plural}{namespace}"),
    }
}

struct Wait<'a> {
    subject: String,
    what: &'a str,
    deadline: Duration,
}

impl Wait<'_> {
    async fn over<K: ResourceExt, T>(
        self,
        events: impl Stream<Item = watcher::Result<Event<K>>>,
        mut check: impl FnMut(&[K]) -> Result<T, String>,
    ) -> Result<T, WaitError> {
        let started = Instant::now();
        let until = started + self.deadline;
        let mut events = pin!(events);
        let mut view = View::default();
        let (mut seen, mut broken) = (None, None);
        loop {
            match timeout_at(until, events.next()).await {
                Ok(Some(Ok(event))) => {
                    broken = None;
                    if !view.take(event) {
                        continue;
                    }
                    match check(&view.objects) {
                        Ok(found) => return Ok(found),
                        Err(instead) => seen = Some(instead),
                    }
                }
                // The watcher establishes itself again when it is asked for the next event; the pause spares the
                // API server.
                Ok(Some(Err(error))) => {
                    broken = Some(Box::new(error));
                    let _ = timeout_at(until, sleep(PAUSE)).await;
                }
                // A watcher never ends; and at the deadline there is nothing more to wait for.
                Ok(None) | Err(_) => {
                    let (subject, what) = (self.subject, self.what.to_owned());
                    return Err(WaitError { subject, what, waited: started.elapsed(), seen, source: broken });
                }
            }
        }
    }
}

/// All objects as they are known, in order of their names, kept up to date by events.
struct View<K> {
    objects: Vec<K>,
    /// What a list that is still going on has brought: judged only when it is complete, or a page that is still to
    /// come would look like deletions.
    listing: Option<Vec<K>>,
}

impl<K> Default for View<K> {
    fn default() -> Self {
        Self { objects: Vec::new(), listing: None }
    }
}

impl<K: ResourceExt> View<K> {
    /// Takes one event; says whether there is now something new to judge.
    fn take(&mut self, event: Event<K>) -> bool {
        match event {
            Event::Init => self.listing = Some(Vec::new()),
            Event::InitApply(object) => self.listing.get_or_insert_default().push(object),
            Event::InitDone => {
                self.objects = self.listing.take().unwrap_or_default();
                self.objects.sort_by_key(key);
                return true;
            }
            Event::Apply(object) => {
                match self.objects.binary_search_by_key(&key(&object), key) {
                    Ok(at) => {
                        if let Some(known) = self.objects.get_mut(at) {
                            *known = object;
                        }
                    }
                    Err(at) => self.objects.insert(at, object),
                }
                return true;
            }
            Event::Delete(object) => {
                let gone = key(&object);
                self.objects.retain(|known| key(known) != gone);
                return true;
            }
        }
        false
    }
}

fn key<K: ResourceExt>(object: &K) -> (Option<String>, String) {
    (object.namespace(), object.name_any())
}

#[cfg(test)]
#[path = "wait_tests.rs"]
mod tests;
