//! FAKES: what the members of one etcd cluster have agreed on. There is no raft here: a quorum that is up agrees at once.

use std::collections::{BTreeMap, BTreeSet};

use tokio::time::{Duration, Instant};

/// How long voters have to be connected before etcd lets the membership change.
pub(super) const HEALTHY: Duration = Duration::from_secs(5);
/// How often the leader looks what its members run, and so how long the cluster takes to agree on a higher version.
pub(super) const MONITORED: Duration = Duration::from_secs(4);
/// How long a learner takes to catch up.
pub(super) const CATCH_UP: Duration = Duration::from_millis(300);

/// A member on record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its ID.
    pub id: u64,
    /// Its name; none until it has started.
    pub name: Option<String>,
    /// Where its peers reach it.
    pub peer_urls: Vec<String>,
    /// Where clients reach it; none until it has started.
    pub client_urls: Vec<String>,
    /// Whether it has no vote.
    pub learner: bool,
}

/// What a cluster has agreed on.
#[derive(Clone, Debug, Default)]
pub struct Consensus {
    /// Who belongs to it.
    pub members: BTreeMap<u64, Entry>,
    /// Who did.
    pub removed: BTreeSet<u64>,
    /// How long its log is.
    pub index: u64,
    /// The number of its term.
    pub term: u64,
    /// Who leads.
    pub leader: Option<u64>,
    /// The revision of its data.
    pub revision: i64,
    /// Its data.
    pub data: BTreeMap<Vec<u8>, Vec<u8>>,
    /// Every change of the membership, in words.
    pub changes: Vec<String>,
    /// The minor that its members have agreed on: the lowest that one of them runs, seen while all of them were up.
    pub version: Option<String>,
    /// The lowest minor that is run while all are up, and since when it is that.
    pub lowest: Option<(String, Instant)>,
    /// The minor that its members may go down to.
    pub downgrade: Option<String>,
}

/// Why etcd does not do something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refused {
    /// It says so, in these words.
    Because(tonic::Code, &'static str),
    /// There is no quorum to ask: it waits, and runs out of time.
    NoQuorum,
}

use Refused::Because;
use tonic::Code::{FailedPrecondition, InvalidArgument, NotFound, Unavailable};

const UNHEALTHY: Refused = Because(Unavailable, "etcdserver: unhealthy cluster");
const NOT_STARTED: Refused =
    Because(FailedPrecondition, "etcdserver: re-configuration failed due to not enough started members");
const NOT_FOUND: Refused = Because(NotFound, "etcdserver: member not found");
const EXISTS: Refused = Because(FailedPrecondition, "etcdserver: Peer URLs already exists");
const LEARNERS: Refused = Because(FailedPrecondition, "etcdserver: too many learner members in cluster");
const NOT_READY: Refused =
    Because(FailedPrecondition, "etcdserver: can only promote a learner member which is in sync with leader");
const NO_TARGET: Refused = Because(InvalidArgument, "etcdserver: invalid downgrade target version");
const IN_PROGRESS: Refused =
    Because(FailedPrecondition, "etcdserver: cluster has a downgrade job in progress");
const NO_LEARNER: Refused = Because(FailedPrecondition, "etcdserver: can only promote a learner member");

/// Since when the members that are up are up.
pub(super) type Up = BTreeMap<u64, Instant>;

impl Consensus {
    /// How many voters make a quorum.
    #[must_use]
    pub fn quorum(&self) -> usize {
        self.voters().count() / 2 + 1
    }

    fn voters(&self) -> impl Iterator<Item = &Entry> {
        self.members.values().filter(|entry| !entry.learner)
    }

    /// How many voters one member has been connected to for long enough, itself included.
    fn connected(&self, asked: u64, up: &Up, now: Instant) -> usize {
        let own = up.get(&asked).copied().unwrap_or(now);
        let since = |id: u64| up.get(&id).map(|other| (*other).max(own));
        let long = |id: u64| id == asked || since(id).is_some_and(|since| now - since >= HEALTHY);
        self.voters().filter(|entry| long(entry.id)).count()
    }

    /// How many voters have ever started.
    fn started(&self) -> usize {
        self.voters().filter(|entry| entry.name.is_some()).count()
    }

    /// Lets the cluster elect a leader, if a quorum is up and it has none.
    pub(super) fn elect(&mut self, up: &Up) {
        let alive: Vec<u64> = self.voters().map(|entry| entry.id).filter(|id| up.contains_key(id)).collect();
        if alive.len() < self.quorum() {
            self.leader = None;
        } else if self.leader.is_none_or(|leader| !alive.contains(&leader)) {
            self.term += 1;
            self.index += 1;
            self.leader = alive.first().copied();
        }
    }

    /// Agrees on a version. `running` are the minors of all members, if all are up.
    pub(super) fn agree(&mut self, running: Option<&[&str]>, now: Instant) {
        let lowest = running.and_then(|running| running.iter().min()).map(|minor| (*minor).to_owned());
        if lowest.as_ref() != self.lowest.as_ref().map(|(minor, _)| minor) {
            self.lowest = lowest.map(|minor| (minor, now));
        }
        if let Some(target) = self.downgrade.clone() {
            let is_there = |running: &[&str]| running.iter().all(|minor| *minor == target);
            if running.is_some_and(is_there) {
                self.downgrade = None;
            }
            self.version = Some(target);
            return;
        }
        let Some((lowest, since)) = &self.lowest else { return };
        let rises = self.version.as_ref().is_some_and(|version| lowest > version);
        if self.version.is_none() || rises && now - *since >= MONITORED {
            self.version = Some(lowest.clone());
        }
    }

    /// Whether the members could go down to this minor: by one, and nowhere else at the same time.
    pub(super) fn may_go_down(&self, target: &str) -> Result<(), Refused> {
        if self.leader.is_none() {
            return Err(Refused::NoQuorum);
        }
        let number = |minor: &str| minor.split_once('.').and_then(|(_, number)| number.parse::<u64>().ok());
        let by_one = number(target).zip(self.version.as_deref().and_then(number));
        if by_one.is_none_or(|(to, from)| to + 1 != from) {
            return Err(NO_TARGET);
        }
        if self.downgrade.is_some() { Err(IN_PROGRESS) } else { Ok(()) }
    }

    /// Lets the members go down to this minor, or lets them no longer.
    pub(super) fn set_downgrade(&mut self, target: Option<&str>) -> Result<(), Refused> {
        match target {
            Some(target) => self.may_go_down(target)?,
            None if self.leader.is_none() => return Err(Refused::NoQuorum),
            None => {}
        }
        self.downgrade = target.map(str::to_owned);
        self.index += 1;
        Ok(())
    }

    pub(super) fn add(
        &mut self,
        asked: u64,
        id: u64,
        peer_urls: &[String],
        learner: bool,
        up: &Up,
    ) -> Result<Entry, Refused> {
        if self.leader.is_none() {
            return Err(Refused::NoQuorum);
        }
        let voters = self.voters().count();
        // One that has not started counts as down: only a single member may be joined by a second that is not there yet.
        let enough = voters == 1 || self.started() > voters.saturating_add(1) / 2;
        if !learner && !enough {
            return Err(NOT_STARTED);
        }
        if self.connected(asked, up, Instant::now()) < voters {
            return Err(UNHEALTHY);
        }
        if self.members.values().any(|entry| entry.peer_urls.iter().any(|url| peer_urls.contains(url))) {
            return Err(EXISTS);
        }
        if learner && self.members.values().any(|entry| entry.learner) {
            return Err(LEARNERS);
        }
        let entry = Entry { id, name: None, peer_urls: peer_urls.to_vec(), client_urls: Vec::new(), learner };
        self.members.insert(id, entry.clone());
        self.note(format!("add {}", peer_urls.join(",")));
        Ok(entry)
    }

    pub(super) fn promote(&mut self, id: u64, up: &Up, lagging: bool) -> Result<(), Refused> {
        if self.leader.is_none() {
            return Err(Refused::NoQuorum);
        }
        let Some(entry) = self.members.get_mut(&id) else { return Err(NOT_FOUND) };
        if !entry.learner {
            return Err(NO_LEARNER);
        }
        let caught_up = up.get(&id).is_some_and(|since| since.elapsed() >= CATCH_UP) && !lagging;
        if entry.name.is_none() || !caught_up {
            return Err(NOT_READY);
        }
        entry.learner = false;
        let words = format!("promote {}", entry.peer_urls.join(","));
        self.note(words);
        Ok(())
    }

    pub(super) fn remove(&mut self, asked: u64, id: u64, up: &Up) -> Result<(), Refused> {
        if self.leader.is_none() {
            return Err(Refused::NoQuorum);
        }
        let Some(entry) = self.members.get(&id).cloned() else { return Err(NOT_FOUND) };
        if !entry.learner {
            let others = self.voters().filter(|other| other.id != id);
            let (left, started) = others.fold((0, 0), |(left, started), other| {
                (left + 1, started + usize::from(other.name.is_some()))
            });
            if left == 0 || started < left / 2 + 1 {
                return Err(NOT_STARTED);
            }
            let down = id != asked && !up.contains_key(&id);
            let active = self.connected(asked, up, Instant::now());
            if !down && active.saturating_sub(1) < 1 + (self.voters().count() - 1) / 2 {
                return Err(UNHEALTHY);
            }
        }
        self.members.remove(&id);
        self.removed.insert(id);
        if self.leader == Some(id) {
            self.leader = None;
        }
        self.note(format!("remove {}", entry.peer_urls.join(",")));
        Ok(())
    }

    fn note(&mut self, change: String) {
        self.index += 1;
        self.changes.push(change);
    }
}
