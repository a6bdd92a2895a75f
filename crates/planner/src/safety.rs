//! What no effect may do, whatever was planned: the invariants as predicates over the world and an effect.
//!
//! `sim` asks at the moment an effect lands, which may be long after it was planned. So these are facts of the world, not views
//! of it, and each holds for a late effect too. An effect whose precondition fails does not land and is not asked about.
//!
//! What a change of the membership counts on is in the effect itself ([`Basis::healthy`]): that a healthy member dies in the
//! second between the decision and the change is a fault of the world and no decision.

use std::{collections::BTreeMap, collections::BTreeSet, fmt};

use api::{Birth, names, validate};
use k8s_openapi::{
    api::core::v1::Pod, api::core::v1::Service, apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use launch::{Intent, LaunchOrder};

use crate::{
    attempt::Attempt,
    effect::{Basis, Effect, MemberChange},
    id::{ClusterId, MemberId},
    observed::{OrderSeen, SeenPod},
    quorum,
};

mod roll;

pub use roll::Running;

/// What is true of the world.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Facts {
    /// The resource's UID.
    pub uid: String,
    /// The record of birth.
    pub birth: Option<Birth>,
    /// Every pod that was ever made for the resource, whether it still exists or not.
    pub made: BTreeMap<String, MadePod>,
    /// The members that etcd has now.
    pub members: Vec<MemberFact>,
    /// Every name that was ever added to etcd by us, whether it is still listed or not.
    pub added: BTreeSet<String>,
    /// What members run.
    pub running: Running,
}

/// A member that etcd has.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct MemberFact {
    /// Its ID.
    pub id: MemberId,
    /// Its pod's name.
    pub name: String,
    /// Whether it is a learner.
    pub learner: bool,
    /// Whether it ever started.
    pub started: bool,
    /// Whether it ever had all that the leader had.
    pub caught_up: bool,
}

/// A pod that was made, once.
#[allow(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct MadePod {
    /// Its UID.
    pub uid: String,
    /// The label of its attempt.
    pub attempt: String,
    /// Whether it joins a cluster that is there, rather than beginning one.
    pub joins: bool,
    /// The initial cluster that it was told.
    pub initial: BTreeSet<String>,
    /// Whether etcd ever ran in it.
    pub started: bool,
    /// The cluster in which it served as a voter, if it ever did.
    pub served: Option<ClusterId>,
    /// Whether the cluster in which it served ever acknowledged what a client wrote.
    pub written: bool,
    /// Whether it told of that when the effect was decided on. What a client writes in the moment after is no decision.
    pub told: bool,
}

impl MadePod {
    /// What a pod is when it has just been made.
    #[must_use]
    pub fn from_pod(pod: &Pod) -> Self {
        let seen = SeenPod::from_pod(pod);
        let (initial, joins) = match &seen.order {
            OrderSeen::Order(order) => (initial_cluster(order), order.intent != Intent::NewCluster),
            OrderSeen::Missing | OrderSeen::Unreadable => (BTreeSet::new(), false),
        };
        Self { uid: seen.uid, attempt: seen.attempt.unwrap_or_default(), joins, initial, ..Self::default() }
    }
}

/// The members in an order's initial cluster.
pub(crate) fn initial_cluster(order: &LaunchOrder) -> BTreeSet<String> {
    order.initial_cluster().map(|(name, _)| name.to_owned()).collect()
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
    FormedTooEarly => "the cluster is called formed while a member of its initial cluster never served in it, and no client has written to it";
    /// Of I1 and I8.
    DataAbandoned => "an attempt is given up, or a pod of one is deleted, though a member of it tells that it holds what a client wrote";
    /// Of I5.
    EmptyStartGranted => "a member that was made before is given the permission to start without data";
    /// Of I6.
    LivePodDeleted => "a pod is deleted whose member is in etcd, or of an attempt that still forms, or that is not ours";
    /// Of design decision 6.
    TrafficBeforeFormed => "clients are sent to a cluster that has not formed, or to another attempt";
    /// Of I9 and I15.
    NotOwned => "an object is made that does not go when the resource goes";
    /// Of design decision 7.
    PodBeforeMember => "a pod is made to join before its member was added";
    /// Of I3.
    QuorumRisked => "a change of the membership does not leave a quorum among the members that were healthy";
    /// Of I3.
    RestedWithoutQuorum => "a member is restarted while the healthy ones without it are no quorum of all voters";
    /// Of I3.
    SecondAtRest => "a member that serves is restarted while another one that was restarted does not serve yet";
    /// Of design decision 9.
    LeaderRested => "the leader is restarted while a member that was relaunched before it could lead";
    /// Of design decision 9.
    MinorSkipped => "a member is given a version that is more than one minor above the one that the cluster has agreed on";
    /// Of design decision 9.
    BelowClusterVersion => "a member is given a version below the one that the cluster has agreed on";
    /// Of I4.
    SecondChange => "a member is added while another one is on its way in";
    /// Of design decision 1.
    NameAddedTwice => "a member is added under a name that was used before";
    /// Of design decision 7.
    PromotedBehind => "a learner gets a vote that never had what the others have";
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
        Effect::CreateBudget(budget) | Effect::ApplyBudget { budget, .. } => {
            when(!is_owned(facts, &budget.metadata), Violation::NotOwned)
        }
        // Labels only say where a pod belongs; the pod stays what it is. An order among the annotations is another matter.
        Effect::PatchPodMetadata { annotations, .. } => when(
            annotations.get(launch::ORDER_ANNOTATION).is_some_and(|order| grants(order)),
            Violation::EmptyStartGranted,
        ),
        Effect::ChangeMembership { basis, change } => check_membership(facts, basis, change),
        Effect::PatchPodAnnotation { key, value, .. } => {
            when(*key == launch::ORDER_ANNOTATION && grants(value), Violation::EmptyStartGranted)
        }
        Effect::RelaunchPod { name, basis, annotations, .. } => {
            roll::check(facts, name, basis.as_ref(), annotations)
        }
        Effect::DeletePod { uid, .. } => {
            let made = facts.made.iter().find(|(_, made)| made.uid == *uid);
            let needed = made.is_none_or(|(name, made)| is_needed(facts, name, made));
            let mut broken = when(needed, Violation::LivePodDeleted);
            let abandoned = made.map(|(_, made)| &made.attempt);
            let abandoned = abandoned.filter(|label| live(facts).is_none_or(|live| live.label() != **label));
            broken.extend(when(
                abandoned.is_some_and(|label| tells_of_data(facts, label)),
                Violation::DataAbandoned,
            ));
            broken
        }
    }
}

/// Whether an order permits an empty start.
fn grants(order: &str) -> bool {
    LaunchOrder::read(order).is_ok_and(|order| order.intent.may_start_empty())
}

/// Whether a pod is one that counts: of the live attempt, which still forms or has this member in etcd.
fn is_needed(facts: &Facts, name: &str, made: &MadePod) -> bool {
    let formed = facts.birth.as_ref().is_some_and(|birth| birth.formed);
    let listed = facts.members.iter().any(|member| member.name == name);
    live(facts).is_some_and(|attempt| attempt.label() == made.attempt) && (!formed || listed)
}

fn check_membership(facts: &Facts, basis: &Basis, change: &MemberChange) -> Vec<Violation> {
    let voters: BTreeSet<MemberId> =
        facts.members.iter().filter(|member| !member.learner).map(|member| member.id).collect();
    let healthy: BTreeSet<MemberId> =
        basis.healthy.iter().copied().filter(|id| voters.contains(id)).collect();
    let rows = match change {
        MemberChange::Add { member, learner, .. } => {
            let others = voters.len();
            // The one exception: there is no other way from one voter to two where there are no learners.
            let risked = !learner && others > 1 && healthy.len() < quorum(others + 1);
            let on_its_way = facts.members.iter().any(|member| member.learner || !member.started);
            let used = facts.added.contains(member.as_str()) || facts.made.contains_key(member.as_str());
            vec![
                (risked, Violation::QuorumRisked),
                (on_its_way, Violation::SecondChange),
                (used, Violation::NameAddedTwice),
            ]
        }
        MemberChange::Promote { id } => {
            let learner = facts.members.iter().find(|member| member.id == *id);
            // Who is gone, or votes already, is not promoted a second time: etcd refuses that.
            let behind = learner.is_some_and(|learner| learner.learner && !learner.caught_up);
            let risked = learner.is_some() && healthy.len() + 1 < quorum(voters.len() + 1);
            vec![(behind, Violation::PromotedBehind), (risked, Violation::QuorumRisked)]
        }
        MemberChange::Remove { id } => {
            let rest = voters.iter().filter(|voter| *voter != id).count();
            let stay = healthy.iter().filter(|voter| *voter != id).count();
            vec![(voters.contains(id) && (rest == 0 || stay < quorum(rest)), Violation::QuorumRisked)]
        }
        MemberChange::MoveLeader { .. } | MemberChange::Downgrade { .. } => Vec::new(),
    };
    rows.into_iter().filter(|(broken, _)| *broken).map(|(_, violation)| violation).collect()
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
    let given_up = old.filter(|old| !old.formed && old.incarnation != birth.incarnation);
    let label = given_up.and_then(|old| Attempt::of(old).ok()).map(|attempt| attempt.label());
    broken.extend(when(label.is_some_and(|label| tells_of_data(facts, &label)), Violation::DataAbandoned));
    if birth.formed && formed_before.is_none() {
        broken.extend(when(!has_formed(facts, birth), Violation::FormedTooEarly));
    }
    broken
}

/// The pods with which an attempt began.
fn first_members<'a>(facts: &'a Facts, label: &'a str) -> impl Iterator<Item = &'a MadePod> {
    facts.made.values().filter(move |made| made.attempt == label && !made.joins)
}

/// Whether a member of an attempt tells that it holds what a client wrote.
fn tells_of_data(facts: &Facts, label: &str) -> bool {
    facts.made.values().any(|made| made.attempt == label && made.told)
}

/// Whether every member of the attempt's initial cluster has served in this very cluster, or a client has written to it: then a quorum of
/// them has served.
fn has_formed(facts: &Facts, birth: &Birth) -> bool {
    let Ok(attempt) = Attempt::of(birth) else { return false };
    let label = attempt.label();
    let initial: BTreeSet<&String> = first_members(facts, &label).flat_map(|made| &made.initial).collect();
    let served =
        |made: &MadePod| made.served.is_some_and(|cluster| Some(cluster.to_string()) == birth.cluster_id);
    let written = first_members(facts, &label).any(|made| made.written && served(made));
    written || !initial.is_empty() && initial.into_iter().all(|name| facts.made.get(name).is_some_and(served))
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
    let mut siblings = first_members(facts, &made.attempt);
    // Where a client's early write was the reason to call it formed, a creation from before may land late: the first under its name.
    let early = first_members(facts, &made.attempt).any(|other| other.written);
    let formed = is_live && birth.is_some_and(|birth| birth.formed);
    let again = formed && (!early || facts.made.contains_key(&name));
    let another = !made.joins && siblings.any(|other| other.initial != made.initial);
    let rows = [
        (!latched, Violation::PodBeforeLatch),
        (!made.joins && again, Violation::BornAgain),
        (facts.made.contains_key(&name) && !is_only_other(facts, &name), Violation::NameUsedTwice),
        (another || !made.initial.contains(&name), Violation::AnotherInitialCluster),
        (made.joins && !facts.added.contains(&name), Violation::PodBeforeMember),
        (!is_owned(facts, &pod.metadata), Violation::NotOwned),
    ];
    rows.into_iter().filter(|(broken, _)| *broken).map(|(_, violation)| violation).collect()
}

/// Whether this is the second of two voters and never started: the one case in which a name may be used again. The cluster cannot
/// go on without it, and the first voter has all that was ever agreed on, because nothing was without it.
fn is_only_other(facts: &Facts, name: &str) -> bool {
    let voters: Vec<&MemberFact> = facts.members.iter().filter(|member| !member.learner).collect();
    voters.len() == 2 && voters.iter().any(|member| member.name == name && !member.started)
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
