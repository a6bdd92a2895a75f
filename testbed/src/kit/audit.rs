//! Who did what: questions to the API server's audit log, which is a file of one JSON event per line.

use std::{
    collections::{BTreeMap, HashMap},
    fs::File,
    io::{self, BufRead, BufReader, Seek, SeekFrom},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    time::Duration,
};

use jiff::Timestamp;
use serde::Deserialize;
use tokio::time::{Instant, sleep};

/// Why the audit log has no answer.
#[derive(Debug, thiserror::Error)]
pub enum AuditError {
    /// The file cannot be read.
    #[error("cannot read the audit log {}", path.display())]
    Read {
        /// Which file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// It is another file than it was, or a shorter one: it was rotated, and events are missing.
    #[error("the audit log {} was rotated since byte {mark}: raise --audit-log-maxsize", path.display())]
    Rotated {
        /// Which file.
        path: PathBuf,
        /// Where it was to be read from.
        mark: u64,
    },
    /// A line is no audit event.
    #[error("the audit log {} has a line that is no event, near byte {at}", path.display())]
    NoEvent {
        /// Which file.
        path: PathBuf,
        /// Where the line begins.
        at: u64,
        /// What is wrong with it.
        source: serde_json::Error,
    },
    /// The question was still without the answer at the deadline.
    #[error("waited {waited:.1?} for the audit log {what}; it has {} entries that fit: {}", seen.len(), summary(seen))]
    Deadline {
        /// What it was waited for.
        what: String,
        /// How long.
        waited: Duration,
        /// What was there.
        seen: Vec<AuditEntry>,
    },
}

fn summary(entries: &[AuditEntry]) -> String {
    let said: Vec<_> = entries.iter().take(10).map(ToString::to_string).collect();
    if said.is_empty() { "none".into() } else { said.join("; ") }
}

/// One request to the API server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditEntry {
    /// Who it was for: the impersonated user if there is one, else the one who asked.
    pub user: String,
    /// Who asked, if that was in the name of somebody else.
    pub impersonator: Option<String>,
    /// The pod that the asking account's token was made for; empty for everybody else.
    pub pod: String,
    /// Such as `create`, `list`, `watch`.
    pub verb: String,
    /// Empty for what belongs to the whole cluster, and for a list over all namespaces.
    pub namespace: String,
    /// Such as `apps`; empty for the core one.
    pub group: String,
    /// Such as `pods`; empty for requests that are about no object.
    pub resource: String,
    /// Such as `status`; mostly empty.
    pub subresource: String,
    /// The object's name; empty for lists, for objects that the API server has to name, and for creations that were
    /// refused before they were read.
    pub name: String,
    /// The HTTP status code; 0 while there is no answer.
    pub code: u16,
    /// How far it got: `ResponseComplete`, or `ResponseStarted` for a watch that goes on.
    pub stage: String,
    /// When it arrived.
    pub at: Timestamp,
    /// What the client calls itself.
    pub user_agent: String,
    /// What admission remarked, such as `pod-security.kubernetes.io/audit-violations`.
    pub annotations: BTreeMap<String, String>,
}

impl AuditEntry {
    /// Whether it was refused because the user has not got the right. A quota, for one, refuses with the same code.
    #[must_use]
    pub fn is_forbidden(&self) -> bool {
        self.annotations.get("authorization.k8s.io/decision").is_some_and(|decision| decision == "forbid")
    }

    /// How a pod in it falls short of the Pod Security Standard that its namespace audits, in the API server's words.
    #[must_use]
    pub fn violations(&self) -> Option<&str> {
        self.annotations.get("pod-security.kubernetes.io/audit-violations").map(String::as_str)
    }
}

impl std::fmt::Display for AuditEntry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { user, verb, namespace, resource, name, code, .. } = self;
        write!(f, "{user} {verb} {resource} {namespace}/{name} {code}")
    }
}

/// A place in the audit log: what is behind it happened later.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mark {
    offset: u64,
    /// A rotated log is another file, which may well have grown beyond the offset.
    inode: Option<u64>,
}

/// The API server's audit log.
#[derive(Debug, Clone)]
pub struct AuditLog {
    path: PathBuf,
}

impl AuditLog {
    /// The audit log in this file.
    #[must_use]
    pub fn at(path: &Path) -> Self {
        Self { path: path.to_owned() }
    }

    /// Where the log ends now.
    pub fn mark(&self) -> Result<Mark, AuditError> {
        let file = std::fs::metadata(&self.path).map_err(|source| self.unreadable(source))?;
        Ok(Mark { offset: file.len(), inode: Some(file.ino()) })
    }

    /// A question about all that was logged after this mark.
    pub fn since(&self, mark: Mark) -> AuditQuery<'_> {
        AuditQuery { log: self, mark, filters: Vec::new() }
    }

    /// A question about all that was ever logged.
    pub fn all(&self) -> AuditQuery<'_> {
        self.since(Mark { offset: 0, inode: None })
    }

    fn unreadable(&self, source: io::Error) -> AuditError {
        AuditError::Read { path: self.path.clone(), source }
    }

    /// Every request behind the mark once, as far as it got.
    fn read(&self, mark: Mark) -> Result<Vec<AuditEntry>, AuditError> {
        let file = File::open(&self.path).map_err(|source| self.unreadable(source))?;
        let is = file.metadata().map_err(|source| self.unreadable(source))?;
        if is.len() < mark.offset || mark.inode.is_some_and(|inode| inode != is.ino()) {
            return Err(AuditError::Rotated { path: self.path.clone(), mark: mark.offset });
        }
        let mut reader = BufReader::new(file);
        // One byte earlier: if that is no line's end, the mark was set inside of a line that began before it.
        let mut at = mark.offset.saturating_sub(1);
        reader.seek(SeekFrom::Start(at)).map_err(|source| self.unreadable(source))?;
        let (mut order, mut by_id) = (Vec::new(), HashMap::new());
        let mut line = Vec::new();
        let mut is_head = mark.offset > 0;
        loop {
            line.clear();
            let length = reader.read_until(b'\n', &mut line).map_err(|source| self.unreadable(source))?;
            // What has no line's end is still being written: it belongs to the next read.
            if line.pop() != Some(b'\n') {
                break;
            }
            if !is_head && !line.is_empty() {
                let event: Event = serde_json::from_slice(&line).map_err(|source| AuditError::NoEvent {
                    path: self.path.clone(),
                    at,
                    source,
                })?;
                order.push(event.audit_id.clone());
                by_id.insert(event.audit_id.clone(), event);
            }
            is_head = false;
            at += length as u64;
        }
        // A request has several events: it is taken out with its last one, where its first one was.
        Ok(order.iter().filter_map(|id| by_id.remove(id)).map(AuditEntry::from).collect())
    }
}

type Filter = Box<dyn Fn(&AuditEntry) -> bool + Send + Sync>;

/// A question to the audit log.
#[must_use]
pub struct AuditQuery<'a> {
    log: &'a AuditLog,
    mark: Mark,
    filters: Vec<Filter>,
}

impl AuditQuery<'_> {
    /// Only what fits.
    pub fn that(mut self, fits: impl Fn(&AuditEntry) -> bool + Send + Sync + 'static) -> Self {
        self.filters.push(Box::new(fits));
        self
    }

    /// Only what this user did, such as `system:serviceaccount:default:etcd-operator`.
    pub fn user(self, user: &str) -> Self {
        let user = user.to_owned();
        self.that(move |entry| entry.user == user)
    }

    /// Only requests of this verb.
    pub fn verb(self, verb: &str) -> Self {
        let verb = verb.to_owned();
        self.that(move |entry| entry.verb == verb)
    }

    /// Only what could change something.
    pub fn writes(self) -> Self {
        self.that(|entry| !matches!(entry.verb.as_str(), "get" | "list" | "watch"))
    }

    /// Only requests about this namespace.
    pub fn namespace(self, namespace: &str) -> Self {
        let namespace = namespace.to_owned();
        self.that(move |entry| entry.namespace == namespace)
    }

    /// Only requests about this resource, such as `pods`.
    pub fn resource(self, resource: &str) -> Self {
        let resource = resource.to_owned();
        self.that(move |entry| entry.resource == resource)
    }

    /// Only what arrived later.
    pub fn after(self, moment: Timestamp) -> Self {
        self.that(move |entry| entry.at > moment)
    }

    /// Every request that fits, once, in the order in which they were first logged.
    pub fn entries(&self) -> Result<Vec<AuditEntry>, AuditError> {
        let mut entries = self.log.read(self.mark)?;
        entries.retain(|entry| self.filters.iter().all(|fits| fits(entry)));
        Ok(entries)
    }

    /// The entries as soon as they are `enough`: the API server may log a request a moment after it has answered it.
    ///
    /// This is the one wait that looks again and again: a file has nothing to watch that would be worth it.
    pub async fn wait_for(
        &self,
        deadline: Duration,
        what: &str,
        enough: impl Fn(&[AuditEntry]) -> bool,
    ) -> Result<Vec<AuditEntry>, AuditError> {
        let started = Instant::now();
        loop {
            let seen = self.entries()?;
            if enough(&seen) {
                return Ok(seen);
            }
            if started.elapsed() >= deadline {
                return Err(AuditError::Deadline { what: what.to_owned(), waited: started.elapsed(), seen });
            }
            sleep(Duration::from_millis(50)).await;
        }
    }
}

/// The part of `audit.k8s.io/v1` that is asked for.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Event {
    #[serde(rename = "auditID")]
    audit_id: String,
    stage: String,
    verb: String,
    user: User,
    impersonated_user: Option<User>,
    #[serde(default)]
    user_agent: String,
    #[serde(default)]
    object_ref: ObjectRef,
    #[serde(default)]
    response_status: ResponseStatus,
    request_received_timestamp: Timestamp,
    #[serde(default)]
    annotations: BTreeMap<String, String>,
}

#[derive(Deserialize)]
struct User {
    #[serde(default)]
    username: String,
    #[serde(default)]
    extra: HashMap<String, Vec<String>>,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct ObjectRef {
    api_group: String,
    resource: String,
    namespace: String,
    name: String,
    subresource: String,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct ResponseStatus {
    code: u16,
}

impl From<Event> for AuditEntry {
    fn from(mut event: Event) -> Self {
        let pod = event.user.extra.remove("authentication.kubernetes.io/pod-name").unwrap_or_default();
        let (user, impersonator) = match event.impersonated_user {
            Some(other) => (other.username, Some(event.user.username)),
            None => (event.user.username, None),
        };
        Self {
            user,
            impersonator,
            pod: pod.into_iter().next().unwrap_or_default(),
            verb: event.verb,
            namespace: event.object_ref.namespace,
            group: event.object_ref.api_group,
            resource: event.object_ref.resource,
            subresource: event.object_ref.subresource,
            name: event.object_ref.name,
            code: event.response_status.code,
            stage: event.stage,
            at: event.request_received_timestamp,
            user_agent: event.user_agent,
            annotations: event.annotations,
        }
    }
}

#[cfg(test)]
#[path = "audit_tests.rs"]
mod tests;
