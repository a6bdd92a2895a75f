//! OBSERVE's memory: what one process remembers of a cluster between rounds. Only how long things have been as they are, what was
//! refused, and open connections; never what to do. Losing all of it makes the operator slower, not wrong.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, VecDeque},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use api::{Birth, Event};
use etcd_admin::Member;
use k8s_openapi::api::core::v1::Event as CoreEvent;
use launch::MemberName;
use planner::{
    Attempt, JOINS, ListedMember, MemberId, OFTEN, POD_DELETION, POD_METADATA, RefusalClass, RefusedObject,
    Timestamp,
};
use tokio::time::Instant;

use crate::{
    metrics::{ClusterFigures, MemberChanged},
    observe::Observation,
    silence::{Silences, UNSEEN},
};

/// The largest cluster there is.
const MAX_SIZE: usize = 7;

/// How long a write may take to land after nobody waits for it any more: an API server asks webhooks, each of which may take up to half a
/// minute, and does not end with the question that it was asked.
pub const LATE: Duration = Duration::from_secs(35);
/// How many Events wait to be told. Of more, the oldest are forgotten: the status says how things are.
const UNSENT: usize = 50;
/// How long an object must stay as it was made before it counts as settled with whoever undid that.
const UNDISPUTED: Duration = Duration::from_mins(5);

/// Which cluster.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

/// What is remembered of all clusters.
#[derive(Default)]
pub struct Memories {
    slots: Mutex<HashMap<Key, Arc<Slot>>>,
}

/// What is remembered of a cluster, and whether something happened to it.
#[derive(Default)]
pub struct Slot {
    touched: AtomicBool,
    /// Rounds of one cluster follow each other; this is never waited for.
    pub memory: tokio::sync::Mutex<Memory>,
}

/// What is remembered of a cluster.
#[derive(Default)]
pub struct Memory {
    /// Which resource of that name, and in which time of leading.
    of: Option<(String, u64)>,
    /// The number of the last round.
    pub round: u64,
    /// The record of birth, and since when it is as it is.
    birth: Option<(Option<Birth>, Instant)>,
    /// Who does not answer, and for how long.
    pub silences: Silences,
    /// How far the members that join, or do not reach their peers, have come, and for how long they have come no further.
    stalled: BTreeMap<MemberId, ((ListedMember, u64), Duration)>,
    /// When the members were last listed, if they were at the last look.
    listed: Option<Instant>,
    /// The names that were sent to etcd as new members, and for which no pod was asked for.
    unmade: BTreeSet<MemberName>,
    /// The names for which a pod was asked for without an answer, and when.
    awaited: BTreeMap<MemberName, Instant>,
    /// What is to be told of changes of which nobody knows yet whether they happened, and since when.
    pub untold: Vec<(Event, Instant)>,
    /// What could not be told yet.
    pub unsent: VecDeque<CoreEvent>,
    /// How often in a row that was tried in vain.
    pub sent_in_vain: u32,
    /// What was refused.
    refusals: Vec<RefusedObject>,
    /// What was done and may have come to nothing, by kind and name.
    repeated: BTreeMap<(&'static str, String), Repeated>,
    /// Connections by address.
    pub connections: BTreeMap<String, Member>,
    /// Rounds in a row that did not go as planned.
    pub stumbles: u32,
    /// The last complete look, if there was nothing to do after it.
    pub settled: Option<Settled>,
    /// What etcd has confirmed of the changes of this round.
    pub changed: Vec<MemberChanged>,
    /// What was last told as metrics.
    pub figures: Option<ClusterFigures>,
}

/// That the same was done again.
struct Repeated {
    /// What that is.
    what: String,
    /// How often in a row.
    times: u32,
    /// When it was last.
    at: Instant,
}

/// A complete look after which there was nothing to do.
pub struct Settled {
    /// What was seen.
    pub observation: Observation,
    /// When.
    pub at: Instant,
}

impl Memories {
    fn slots(&self) -> MutexGuard<'_, HashMap<Key, Arc<Slot>>> {
        // Nothing that holds this lock can leave the map half changed.
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is remembered of this cluster.
    #[must_use]
    pub fn of(&self, key: &Key) -> Arc<Slot> {
        Arc::clone(self.slots().entry(key.clone()).or_default())
    }

    /// What is remembered of each cluster.
    #[must_use]
    pub fn all(&self) -> Vec<(Key, Arc<Slot>)> {
        self.slots().iter().map(|(key, slot)| (key.clone(), Arc::clone(slot))).collect()
    }

    /// Something happened to an object of this cluster.
    pub fn touch(&self, key: &Key) {
        self.of(key).touched.store(true, Ordering::SeqCst);
    }

    /// Forgets the clusters that are gone, and says which they were.
    pub fn keep(&self, exists: impl Fn(&Key) -> bool) -> Vec<(Key, Arc<Slot>)> {
        let mut gone = Vec::new();
        self.slots().retain(|key, slot| {
            let stays = exists(key);
            if !stays {
                gone.push((key.clone(), Arc::clone(slot)));
            }
            stays
        });
        gone
    }
}

impl Slot {
    /// Whether something happened since this was last asked.
    pub fn take_touched(&self) -> bool {
        self.touched.swap(false, Ordering::SeqCst)
    }
}

impl Memory {
    /// Begins anew if this is another resource, or another time of leading: somebody else may have acted in between.
    pub fn enter(&mut self, uid: &str, term: u64) {
        let of = Some((uid.to_owned(), term));
        if self.of != of {
            self.forget();
            self.of = of;
        }
    }

    /// Forgets everything but what was counted and told.
    pub fn forget(&mut self) {
        *self = Self { round: self.round, figures: self.figures.take(), ..Self::default() };
    }

    /// Begins anew if this is another time of leading.
    pub fn begin(&mut self, term: u64) {
        if let Some((uid, _)) = self.of.clone() {
            self.enter(&uid, term);
        }
    }

    /// For how long the record of birth is as it is now.
    pub fn birth_known_for(&mut self, birth: Option<&Birth>, now: Instant) -> Duration {
        match &self.birth {
            Some((known, since)) if known.as_ref() == birth => now.duration_since(*since),
            _ => {
                self.birth = Some((birth.cloned(), now));
                Duration::ZERO
            }
        }
    }

    /// For how long each of these has come no further. Without a list of them, the time stands still.
    pub fn stalled_for(
        &mut self,
        seen: Option<&BTreeMap<MemberId, (ListedMember, u64)>>,
        now: Instant,
    ) -> BTreeMap<MemberId, Duration> {
        let before = std::mem::replace(&mut self.listed, seen.map(|_| now));
        let Some(seen) = seen else { return BTreeMap::new() };
        let passed = before.map_or(Duration::ZERO, |before| now.duration_since(before).min(UNSEEN));
        self.stalled.retain(|id, (progress, _)| seen.get(id) == Some(progress));
        self.stalled.values_mut().for_each(|(_, stalled)| *stalled += passed);
        for (id, progress) in seen {
            self.stalled.entry(*id).or_insert_with(|| (progress.clone(), Duration::ZERO));
        }
        self.stalled.iter().map(|(id, (_, stalled))| (*id, *stalled)).collect()
    }

    /// This has still to be told.
    pub fn not_told(&mut self, events: impl IntoIterator<Item = CoreEvent>) {
        self.unsent.extend(events);
        let surplus = self.unsent.len().saturating_sub(UNSENT);
        self.unsent.drain(..surplus);
    }

    /// A member was, or may have been, added under this name.
    pub fn added(&mut self, member: &MemberName) {
        self.unmade.insert(member.clone());
    }

    /// A pod was asked for under this name, and may exist.
    pub fn made(&mut self, pod: &str) {
        self.unmade.retain(|member| member.as_str() != pod);
    }

    /// The names under which a pod can still be made for the first time.
    #[must_use]
    pub fn unmade(&self) -> BTreeSet<MemberName> {
        self.unmade.clone()
    }

    /// A pod was asked for, and there was no answer.
    pub fn not_answered(&mut self, pod: &str, now: Instant) {
        self.awaited.extend(pod.parse().ok().map(|name| (name, now)));
    }

    /// The names whose pods may appear yet.
    pub fn awaited(&mut self, now: Instant) -> BTreeSet<MemberName> {
        self.awaited.retain(|_, asked| now.duration_since(*asked) < LATE);
        self.awaited.keys().cloned().collect()
    }

    /// Forgets members, and connections to addresses, that are no more.
    pub fn keep_members(&mut self, exists: impl Fn(&MemberName) -> bool, addresses: &BTreeSet<String>) {
        self.silences.keep(&exists);
        self.awaited.retain(|name, _| !exists(name));
        let of_pods = |refused: &RefusedObject| [POD_METADATA, POD_DELETION].contains(&refused.kind);
        let gone = |refused: &RefusedObject| !refused.name.parse().is_ok_and(|name| exists(&name));
        self.refusals.retain(|refused| !of_pods(refused) || !gone(refused));
        self.connections.retain(|address, _| addresses.contains(address));
    }

    /// Remembers a refusal: the last word on this object.
    pub fn refused(
        &mut self,
        kind: &'static str,
        name: &str,
        class: RefusalClass,
        message: String,
        at: Timestamp,
    ) {
        self.not_refused(kind, name);
        self.refusals.push(RefusedObject { kind, name: name.to_owned(), class, message, at });
    }

    /// A write succeeded, or its outcome is unknown: a refusal before it is not the last word any more.
    pub fn not_refused(&mut self, kind: &str, name: &str) {
        self.refusals.retain(|refused| refused.kind != kind || refused.name != name);
    }

    /// An object was made this. If that was so before, and often, somebody undoes it: two who do that to each other as fast as they can
    /// keep an API server busy.
    pub fn put_right(&mut self, kind: &'static str, name: &str, what: String, now: Instant, at: Timestamp) {
        let times = self.repeated(kind, name, what, now);
        if times >= OFTEN {
            self.refused(kind, name, RefusalClass::Undone { times }, String::new(), at);
        }
    }

    /// A member that was to join, and whose pod was made from this, was given up. One after another, as fast as they are, would be a new
    /// entry in etcd's log and a new pod each time. What stood against the members of another spec need not stand against these.
    pub fn not_joined(&mut self, inputs: &str, why: String, now: Instant, at: Timestamp) {
        let times = self.repeated(JOINS, inputs, String::new(), now);
        self.refusals.retain(|refused| refused.kind != JOINS);
        if times >= OFTEN {
            self.refused(JOINS, inputs, RefusalClass::NotJoined { times }, why, at);
        }
    }

    /// Nobody is missing, or one has joined: what stood against that is over.
    pub fn joined(&mut self) {
        self.repeated.retain(|(kind, _), _| *kind != JOINS);
        self.refusals.retain(|refused| refused.kind != JOINS);
    }

    /// How often in a row this was done to an object, now included.
    fn repeated(&mut self, kind: &'static str, name: &str, what: String, now: Instant) -> u32 {
        self.repeated.retain(|_, it| now.duration_since(it.at) < UNDISPUTED);
        let key = (kind, name.to_owned());
        let before = self.repeated.get(&key).filter(|it| it.what == what).map_or(0, |it| it.times);
        let times = before.saturating_add(1);
        self.repeated.insert(key, Repeated { what, times, at: now });
        times
    }

    /// What stands refused. Pods of an attempt that is over, and of members that are none, are nobody's concern.
    pub fn refusals(&mut self, cluster: &str, birth: Option<&Birth>) -> Vec<RefusedObject> {
        let mut names = birth
            .and_then(|birth| Attempt::of(birth).ok())
            .map(|attempt| attempt.members(cluster, MAX_SIZE))
            .unwrap_or_default();
        names.extend(self.unmade.iter().cloned());
        self.refusals.retain(|refused| {
            refused.kind != "Pod" || names.iter().any(|name| name.as_str() == refused.name)
        });
        self.refusals.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn birth(token: &str) -> Birth {
        Birth::first(token.to_owned())
    }

    #[tokio::test(start_paused = true)]
    async fn how_long_something_lasts_begins_anew_with_another_leader_or_resource() {
        for (uid, term) in [("u-2", 1), ("u-1", 2)] {
            let mut memory = Memory::default();
            memory.enter("u-1", 1);
            memory.birth_known_for(Some(&birth("t")), Instant::now());
            tokio::time::advance(Duration::from_secs(7)).await;
            memory.enter("u-1", 1);
            assert_eq!(memory.birth_known_for(Some(&birth("t")), Instant::now()).as_secs(), 7);
            memory.enter(uid, term);
            assert_eq!(memory.birth_known_for(Some(&birth("t")), Instant::now()), Duration::ZERO);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_put_right_again_and_again_is_disputed_and_what_differs_or_lasts_is_not() {
        let at: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let mut memory = Memory::default();
        let mut put_right = |name: &str, what: &str| {
            memory.not_refused("Service", name);
            memory.put_right("Service", name, what.to_owned(), Instant::now(), at);
            let refused = memory.refusals("c", None).into_iter().find(|refused| refused.name == name);
            refused.map(|refused| refused.class)
        };
        for voters in ["2", "2", "3", "3", "4"] {
            assert_eq!(put_right("grows", voters), None);
        }
        let seen: Vec<_> = (0..5).map(|_| put_right("disputed", "as it should be")).collect();
        let undone = |times| Some(RefusalClass::Undone { times });
        assert_eq!(seen, [None, None, undone(3), undone(4), undone(5)]);
        tokio::time::advance(UNDISPUTED).await;
        assert_eq!(put_right("disputed", "as it should be"), None, "it lasted");
    }

    #[tokio::test(start_paused = true)]
    async fn several_that_do_not_join_make_the_next_one_wait_until_one_joins_or_the_spec_is_another() {
        let at: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let mut memory = Memory::default();
        let not_joined = |memory: &mut Memory, inputs: &str| {
            memory.not_joined(inputs, "why".to_owned(), Instant::now(), at);
            memory.refusals("c", None).into_iter().find(|it| it.kind == JOINS).map(|refused| refused.class)
        };
        let in_vain = |times| Some(RefusalClass::NotJoined { times });
        let seen: Vec<_> = (0..4).map(|_| not_joined(&mut memory, "a")).collect();
        assert_eq!(seen, [None, None, in_vain(3), in_vain(4)]);
        assert_eq!(not_joined(&mut memory, "b"), None, "made from another spec");
        assert_eq!((not_joined(&mut memory, "b"), not_joined(&mut memory, "b")), (None, in_vain(3)));
        memory.joined();
        assert!(memory.refusals("c", None).is_empty());
        assert_eq!(not_joined(&mut memory, "b"), None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_pod_that_was_asked_for_without_an_answer_may_appear_for_a_while() {
        let mut memory = Memory::default();
        memory.not_answered("c-1", Instant::now());
        tokio::time::advance(LATE.saturating_sub(Duration::from_secs(1))).await;
        assert_eq!(memory.awaited(Instant::now()).len(), 1);
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(memory.awaited(Instant::now()).len(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_birth_that_changed_is_known_for_no_time() {
        let mut memory = Memory::default();
        memory.birth_known_for(None, Instant::now());
        tokio::time::advance(Duration::from_secs(7)).await;
        assert_eq!(memory.birth_known_for(Some(&birth("t")), Instant::now()), Duration::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn a_member_that_comes_further_begins_its_time_anew_and_without_a_list_time_stands_still() {
        let mut memory = Memory::default();
        let seen = |learner, applied| {
            let listed = ListedMember { id: MemberId(7), name: None, peer_urls: vec![], learner };
            Some(BTreeMap::from([(MemberId(7), (listed, applied))]))
        };
        let mut age = |seen: Option<BTreeMap<_, _>>| {
            memory.stalled_for(seen.as_ref(), Instant::now()).values().next().map(Duration::as_secs)
        };
        assert_eq!(age(seen(true, 0)), Some(0));
        tokio::time::advance(Duration::from_secs(5)).await;
        assert_eq!(age(seen(true, 0)), Some(5));
        tokio::time::advance(Duration::from_secs(5)).await;
        assert_eq!(age(None), None, "nobody has a quorum");
        tokio::time::advance(Duration::from_secs(5)).await;
        assert_eq!(age(seen(true, 0)), Some(5));
        tokio::time::advance(Duration::from_secs(5)).await;
        assert_eq!(age(seen(true, 0)), Some(10));
        assert_eq!(age(seen(true, 9)), Some(0), "it has applied more");
        tokio::time::advance(Duration::from_secs(5)).await;
        assert_eq!(age(seen(false, 9)), Some(0), "it is a voter now");
        assert_eq!(age(Some(BTreeMap::new())), None);
    }

    #[test]
    fn a_name_can_be_made_into_a_pod_only_until_one_was_asked_for() {
        let mut memory = Memory::default();
        memory.added(&"a-1".parse().unwrap());
        memory.refused("Pod", "a-1", RefusalClass::Quota, "no".to_owned(), Timestamp::UNIX_EPOCH);
        assert_eq!((memory.unmade().len(), memory.refusals("a", None).len()), (1, 1));
        memory.made("a-1");
        assert_eq!((memory.unmade().len(), memory.refusals("a", None).len()), (0, 0));
    }

    #[test]
    fn a_refusal_stands_until_another_word_on_the_same_object() {
        let (mut memory, now) = (Memory::default(), Timestamp::UNIX_EPOCH);
        let member = Attempt::of(&birth("t")).unwrap().member("a", 0).unwrap();
        memory.refused("Pod", member.as_str(), RefusalClass::Quota, "no".to_owned(), now);
        memory.refused("Pod", member.as_str(), RefusalClass::Permission, "no".to_owned(), now);
        memory.refused("Pod", "of-another-attempt", RefusalClass::Quota, "no".to_owned(), now);
        memory.refused("Service", "a", RefusalClass::Quota, "no".to_owned(), now);
        let seen: Vec<_> =
            memory.refusals("a", Some(&birth("t"))).into_iter().map(|r| (r.kind, r.class)).collect();
        assert_eq!(seen, [("Pod", RefusalClass::Permission), ("Service", RefusalClass::Quota)]);
        memory.not_refused("Service", "a");
        assert_eq!(memory.refusals("a", None), []);
    }

    #[test]
    fn a_cluster_that_is_gone_is_forgotten() {
        let memories = Memories::default();
        let key = |name: &str| Key { namespace: "n".to_owned(), name: name.to_owned() };
        memories.touch(&key("a"));
        memories.touch(&key("b"));
        assert!(memories.of(&key("a")).take_touched() && !memories.of(&key("a")).take_touched());
        let gone: Vec<Key> = memories.keep(|key| key.name == "a").into_iter().map(|(key, _)| key).collect();
        assert_eq!(gone, [key("b")]);
    }
}
