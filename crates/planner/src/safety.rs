//! What no effect may do, whatever was planned: the invariants of creation as predicates over the world and an effect.
//!
//! `sim` asks at the moment an effect lands, which may be long after it was planned. So these are facts of the world, not views
//! of it, and each holds for a late effect too. An effect whose precondition fails does not land and is not asked about.

use std::{collections::BTreeMap, collections::BTreeSet, fmt};

use api::{Birth, names, validate};
use k8s_openapi::{
    api::core::v1::Pod, api::core::v1::Service, apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use launch::LaunchOrder;

use crate::{
    attempt::Attempt,
    effect::Effect,
    id::ClusterId,
    observed::{OrderSeen, SeenPod},
};

/// What is true of the world.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Facts {
    /// The resource's UID.
    pub uid: String,
    /// The record of birth.
    pub birth: Option<Birth>,
    /// Every pod that was ever made for the resource, whether it still exists or not.
    pub made: BTreeMap<String, MadePod>,
}

/// A pod that was made, once.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct MadePod {
    /// Its UID.
    pub uid: String,
    /// The label of its attempt.
    pub attempt: String,
    /// The initial cluster that it was told.
    pub initial: BTreeSet<String>,
    /// Whether etcd ever ran in it.
    pub started: bool,
    /// The cluster in which it served as a voter, if it ever did.
    pub served: Option<ClusterId>,
}

impl MadePod {
    /// What a pod is when it has just been made.
    #[must_use]
    pub fn from_pod(pod: &Pod) -> Self {
        let seen = SeenPod::from_pod(pod);
        let initial = match &seen.order {
            OrderSeen::Order(order) => initial_cluster(order),
            OrderSeen::Missing | OrderSeen::Unreadable => BTreeSet::new(),
        };
        Self { uid: seen.uid, attempt: seen.attempt.unwrap_or_default(), initial, ..Self::default() }
    }
}

/// The members in an order's initial cluster.
fn initial_cluster(order: &LaunchOrder) -> BTreeSet<String> {
    let lists = order.argv.iter().filter_map(|flag| flag.strip_prefix("--initial-cluster="));
    let entries = lists.flat_map(|list| list.split(','));
    entries.filter_map(|entry| entry.split_once('=')).map(|(name, _)| name.to_owned()).collect()
}

macro_rules! violations {
    ($($(#[$doc:meta])* $name:ident => $sentence:literal;)*) => {
        /// An invariant that an effect would break.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Violation {
            $($(#[$doc])* $name,)*
        }

        impl Violation {
            /// Every violation there is.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];
        }

        impl fmt::Display for Violation {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(match self {
                    $(Self::$name => $sentence,)*
                })
            }
        }
    };
}

violations! {
    /// Of I7.
    PodBeforeLatch => "a pod is made for an attempt that status.birth never held";
    /// Of I7 and I8.
    BornAgain => "a cluster that has formed is started as new a second time";
    /// Of design decision 1.
    NameUsedTwice => "a pod is made under a name that was used before";
    /// Of I7.
    AnotherInitialCluster => "two pods of one attempt are told different initial clusters";
    /// Of I7.
    BirthRewritten => "status.birth changes in a way that its rules forbid";
    /// Of I8.
    FormedTooEarly => "the cluster is called formed while a member of its initial cluster never served in it";
    /// Of I5.
    EmptyStartGranted => "a member that was made before is given the permission to start without data";
    /// Of I6.
    LivePodDeleted => "a pod is deleted that is of the live attempt, or not ours";
    /// Of design decision 6.
    TrafficBeforeFormed => "clients are sent to a cluster that has not formed, or to another attempt";
    /// Of I9 and I15.
    NotOwned => "an object is made that does not go when the resource goes";
}

/// The invariants that this effect would break.
#[must_use]
pub fn check(facts: &Facts, effect: &Effect) -> Vec<Violation> {
    match effect {
        Effect::ReplaceStatusBirth { birth, .. } => check_birth(facts, birth),
        Effect::CreatePod(pod) => check_pod(facts, pod),
        Effect::CreateService(service) | Effect::ApplyService { service, .. } => {
            check_service(facts, service)
        }
        Effect::PatchPodAnnotation { key, value, .. } => {
            let order = (*key == launch::ORDER_ANNOTATION).then(|| LaunchOrder::read(value));
            let grants = order.is_some_and(|order| order.is_ok_and(|order| order.intent.may_start_empty()));
            when(grants, Violation::EmptyStartGranted)
        }
        Effect::DeletePod { uid, .. } => {
            let live = live(facts).map(|attempt| attempt.label());
            let abandoned =
                facts.made.values().any(|made| made.uid == *uid && Some(&made.attempt) != live.as_ref());
            when(!abandoned, Violation::LivePodDeleted)
        }
    }
}

fn when(broken: bool, violation: Violation) -> Vec<Violation> {
    broken.then_some(violation).into_iter().collect()
}

/// The attempt that counts.
fn live(facts: &Facts) -> Option<Attempt> {
    facts.birth.as_ref().and_then(|birth| Attempt::of(birth).ok())
}

fn check_birth(facts: &Facts, birth: &Birth) -> Vec<Violation> {
    let old = facts.birth.as_ref();
    let mut broken = when(!validate::birth(old, Some(birth)).is_empty(), Violation::BirthRewritten);
    let formed_before = old.filter(|old| old.formed);
    broken.extend(when(
        formed_before.is_some_and(|old| old.incarnation != birth.incarnation),
        Violation::BornAgain,
    ));
    if birth.formed && formed_before.is_none() {
        broken.extend(when(!has_formed(facts, birth), Violation::FormedTooEarly));
    }
    broken
}

/// Whether every member of the attempt's initial cluster has served in this very cluster.
fn has_formed(facts: &Facts, birth: &Birth) -> bool {
    let Ok(attempt) = Attempt::of(birth) else { return false };
    let label = attempt.label();
    let initial: BTreeSet<&String> =
        facts.made.values().filter(|made| made.attempt == label).flat_map(|made| &made.initial).collect();
    let served = |name: &String| {
        let cluster = facts.made.get(name).and_then(|made| made.served);
        cluster.is_some_and(|cluster| Some(cluster.to_string()) == birth.cluster_id)
    };
    !initial.is_empty() && initial.into_iter().all(served)
}

fn check_pod(facts: &Facts, pod: &Pod) -> Vec<Violation> {
    let made = MadePod::from_pod(pod);
    let name = pod.metadata.name.clone().unwrap_or_default();
    let birth = facts.birth.as_ref();
    // A late effect may be of an attempt that was given up since. That one was latched too: numbers only grow.
    let latched = live(facts).is_some_and(|live| {
        live.label() == made.attempt
            || Attempt::incarnation_in(&made.attempt).is_some_and(|number| number < live.incarnation)
    });
    let is_live = live(facts).is_some_and(|live| live.label() == made.attempt);
    let mut siblings = facts.made.values().filter(|other| other.attempt == made.attempt);
    let rows = [
        (!latched, Violation::PodBeforeLatch),
        (is_live && birth.is_some_and(|birth| birth.formed), Violation::BornAgain),
        (facts.made.contains_key(&name), Violation::NameUsedTwice),
        (
            siblings.any(|other| other.initial != made.initial) || !made.initial.contains(&name),
            Violation::AnotherInitialCluster,
        ),
        (!is_owned(facts, &pod.metadata), Violation::NotOwned),
    ];
    rows.into_iter().filter(|(broken, _)| *broken).map(|(_, violation)| violation).collect()
}

fn check_service(facts: &Facts, service: &Service) -> Vec<Violation> {
    let selector = service.spec.as_ref().and_then(|spec| spec.selector.as_ref());
    let is_headless =
        service.spec.as_ref().and_then(|spec| spec.cluster_ip.as_deref()).is_some_and(|ip| ip == "None");
    let formed = live(facts).filter(|_| facts.birth.as_ref().is_some_and(|birth| birth.formed));
    let to_formed = selector.and_then(|all| all.get(names::LABEL_ATTEMPT))
        == formed.map(|attempt| attempt.label()).as_ref();
    let astray = !is_headless && selector.is_some_and(|all| !all.is_empty()) && !to_formed;
    let mut broken = when(astray, Violation::TrafficBeforeFormed);
    broken.extend(when(!is_owned(facts, &service.metadata), Violation::NotOwned));
    broken
}

fn is_owned(facts: &Facts, metadata: &ObjectMeta) -> bool {
    let mut owners = metadata.owner_references.iter().flatten();
    owners.any(|owner| owner.controller == Some(true) && owner.uid == facts.uid)
}

#[cfg(test)]
mod tests;
