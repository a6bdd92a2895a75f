//! What is seen of the members of a formed cluster: etcd's own list, read through a quorum, with the pods and answers beside it.
//!
//! A member is known by its ID; which pod is its own is told by its address, which holds the pod's name from the moment it was added.

use std::{cmp::Reverse, time::Duration};

use launch::{EtcdVersion, MemberName, Minor};

use crate::{
    effect::{Basis, SeenList},
    id::MemberId,
    observed::{Answer, ListedMember, Observed, SeenMember, SeenPod},
    quorum,
    step::Step,
    view::View,
};

/// How many entries of the log a member may be behind the leader when it counts as caught up: what is written while we ask one and then
/// the other. etcd itself asks a learner for nine tenths of the log, which is too little in a long one.
pub(crate) const NEARLY: u64 = 1000;

/// What can be said of a listed member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It answers; a voter also read through the quorum.
    Healthy,
    /// It does not serve and may come back: why, and for how long it has not.
    Silent { why: String, gone_for: Duration },
    /// Its data is certainly gone, in these words.
    Lost(String),
    /// It was added under a name of ours and has no pod yet.
    Unmade,
    /// Its pod belongs to somebody else now, who is named in words.
    Disowned(String),
    /// Somebody else added it, and it never started.
    Unknown,
    /// Somebody else added it, and started it.
    Foreign,
}

/// A listed member.
#[derive(Clone, Debug)]
pub(crate) struct Seat<'a> {
    pub(crate) listed: &'a ListedMember,
    /// Its pod's name, if its address is one that we give.
    pub(crate) name: Option<MemberName>,
    pub(crate) pod: Option<&'a SeenPod>,
    pub(crate) answer: Option<&'a Answer>,
    pub(crate) fate: Fate,
}

impl Seat<'_> {
    /// What people call it.
    pub(crate) fn title(&self) -> String {
        let name = self.name.as_ref().map(ToString::to_string).or_else(|| self.listed.name.clone());
        name.unwrap_or_else(|| self.listed.id.to_string())
    }

    pub(crate) fn is_healthy(&self) -> bool {
        self.fate == Fate::Healthy
    }

    pub(crate) fn is_voter(&self) -> bool {
        !self.listed.learner
    }

    /// Whether it is on its way in: a learner, or one that never started.
    pub(crate) fn is_joining(&self) -> bool {
        self.listed.learner || self.listed.name.is_none()
    }
}

/// The members of a formed cluster.
#[derive(Clone, Debug)]
pub(crate) struct Membership<'a> {
    /// The answer that the list is from.
    pub(crate) list: &'a Answer,
    pub(crate) seats: Vec<Seat<'a>>,
    /// Pods of ours whose member is not in the list.
    pub(crate) removed: Vec<&'a SeenPod>,
}

impl<'a> Membership<'a> {
    /// The members, if a quorum told who they are.
    pub(crate) fn of(view: &View<'a>) -> Option<Self> {
        let list = view.is_formed().then(|| view.member_list()).flatten()?;
        let seats = seats_as_seen(view, list);
        let listed = |pod: &SeenPod| {
            let id = view.observed.answer(&pod.name).map(|answer| answer.member_id);
            seats.iter().any(|seat| {
                Some(seat.listed.id) == id
                    || seat.name.as_ref().is_some_and(|name| name.as_str() == pod.name)
                    || seat.listed.name.as_deref() == Some(pod.name.as_str())
            })
        };
        let removed = view.current().filter(|pod| !listed(pod)).collect();
        Some(Self { list, seats, removed })
    }

    pub(crate) fn voters(&self) -> impl Iterator<Item = &Seat<'a>> {
        self.seats.iter().filter(|seat| seat.is_voter())
    }

    pub(crate) fn healthy(&self) -> impl Iterator<Item = &Seat<'a>> {
        self.voters().filter(|seat| seat.is_healthy())
    }

    /// The member on its way in, if there is one.
    pub(crate) fn joining(&self) -> Option<&Seat<'a>> {
        let joining = || self.seats.iter().filter(|seat| seat.is_joining());
        // Ours first: they need help, and others only stand in the way.
        joining().find(|seat| seat.name.is_some()).or_else(|| joining().next())
    }

    pub(crate) fn is_leader(&self, seat: &Seat<'_>) -> bool {
        self.list.leader == Some(seat.listed.id)
    }

    /// Whether the healthy ones are still a quorum of the voters after this one has gone.
    pub(crate) fn can_lose(&self, seat: &Seat<'_>) -> bool {
        let others = |other: &&Seat<'_>| other.listed.id != seat.listed.id;
        let rest = self.voters().filter(others).count();
        rest > 0 && self.healthy().filter(others).count() >= quorum(rest)
    }

    /// Whether a member has applied what the others have agreed on, and follows their leader.
    pub(crate) fn has_caught_up(&self, seat: &Seat<'_>) -> bool {
        let Some(answer) = seat.answer else { return false };
        let newest = self.healthy().filter_map(|seat| seat.answer).map(|answer| answer.raft_index).max();
        let applied = answer.applied.unwrap_or(answer.raft_index);
        // Its log is of the leader's term: otherwise it has not heard from it yet.
        newest.is_some_and(|newest| applied > 0 && newest.saturating_sub(applied) <= NEARLY)
            && answer.leader.is_some()
            && answer.leader == self.list.leader
    }

    /// Whether the healthy ones are a quorum of all voters while this one does not serve for a moment.
    pub(crate) fn can_rest(&self, seat: &Seat<'_>) -> bool {
        let others = self.healthy().filter(|other| other.listed.id != seat.listed.id).count();
        others >= quorum(self.voters().count())
    }

    /// How many more healthy voters there are than a quorum needs, were there so many voters and healthy ones more.
    pub(crate) fn margin(&self, voters_more: usize, healthy_more: usize) -> Option<usize> {
        let needed = quorum(self.voters().count() + voters_more);
        (self.healthy().count() + healthy_more).checked_sub(needed)
    }

    /// Whether one more voter that is up makes the cluster no weaker: all others are up, or it can lose more members then.
    pub(crate) fn gains_by_one(&self) -> bool {
        let all = self.voters().all(Seat::is_healthy);
        let (before, after) = (self.margin(0, 0), self.margin(1, 1));
        after.is_some() && (all || after > before)
    }

    /// The oldest version that a healthy member runs: what the cluster as a whole can do.
    pub(crate) fn version(&self) -> Option<EtcdVersion> {
        self.healthy().filter_map(|seat| seat.answer?.version).min()
    }

    /// The versions that members run, by their own word.
    pub(crate) fn running(&self) -> impl Iterator<Item = EtcdVersion> {
        self.seats.iter().filter_map(|seat| seat.answer?.version)
    }

    /// The minor that the cluster as a whole has agreed on, as far as anybody tells.
    pub(crate) fn cluster_version(&self) -> Option<Minor> {
        self.healthy().filter_map(|seat| seat.answer?.cluster_version).min()
    }

    /// The minor that etcd lets the members go down to.
    pub(crate) fn downgrade(&self) -> Option<Minor> {
        self.healthy().find_map(|seat| seat.answer?.downgrade)
    }

    /// Whether there are learners in this version.
    pub(crate) fn has_learners(&self) -> bool {
        self.version().is_some_and(|version| version.minor().has_learners())
    }

    /// Whether the leader can be asked to hand over.
    pub(crate) fn moves_leader(&self) -> bool {
        self.version().is_some_and(|version| version.minor().moves_leader())
    }

    /// The version that a new member should run: that of the others. While they differ, the one that the spec asks for, if anybody
    /// runs it already. What a member is ordered to run and does not yet, or cannot, is no example to follow.
    pub(crate) fn version_to_join(&self, wanted: EtcdVersion) -> Option<EtcdVersion> {
        let running: Vec<EtcdVersion> = self.healthy().filter_map(|seat| seat.answer?.version).collect();
        let ordered = || self.voters().filter_map(|seat| seat.pod?.version()).min();
        if running.contains(&wanted) { Some(wanted) } else { running.into_iter().min().or_else(ordered) }
    }

    /// What a change is decided on, to be sent through the leader if it is healthy, and through this member if one is given.
    pub(crate) fn basis(&self, through: Option<&Seat<'_>>) -> Option<Basis> {
        let leader = self.healthy().find(|seat| self.is_leader(seat));
        let seat = through.or(leader).or_else(|| self.healthy().next())?;
        Some(Basis {
            through: seat.pod?.name.parse().ok()?,
            through_id: seat.listed.id,
            list: self.seen(),
            healthy: self.healthy().map(|seat| seat.listed.id).collect(),
        })
    }

    /// Makes another voter the leader if this one leads: of those that may lead, the one that has come furthest, and then the oldest.
    pub(crate) fn hand_over(&self, from: &Seat<'_>, may_lead: impl Fn(&Seat<'_>) -> bool) -> Option<Step> {
        if !self.is_leader(from) || !self.moves_leader() {
            return None;
        }
        let others = self.healthy().filter(|seat| seat.listed.id != from.listed.id && may_lead(seat));
        let to = others.max_by_key(|seat| {
            (seat.answer.map(|answer| answer.raft_index), Reverse(seat.pod.and_then(|pod| pod.created)))
        })?;
        Some(Step::MoveLeader { basis: self.basis(Some(from))?, to: to.listed.id })
    }

    pub(crate) fn seen(&self) -> SeenList {
        SeenList { cluster_id: self.list.cluster_id, members: self.list.members.clone() }
    }

    /// For how long a joining member has come no further.
    pub(crate) fn stalled_for(observed: &Observed, id: MemberId) -> Duration {
        observed.stalled.get(&id).copied().unwrap_or_default()
    }
}

/// The pods of those who are members. Whom etcd does not list any more is none, however ready its pod still is.
pub(crate) fn pods_of_members<'v, 'a>(
    view: &'v View<'a>,
    membership: Option<&'v Membership<'a>>,
) -> impl Iterator<Item = &'a SeenPod> + use<'v, 'a> {
    let removed = membership.map(|membership| membership.removed.as_slice()).unwrap_or_default();
    view.current().filter(move |pod| removed.iter().all(|removed| removed.name != pod.name))
}

/// The members as one member lists them, whether a quorum confirmed it or not.
pub(crate) fn seats_as_seen<'a>(view: &View<'a>, answer: &'a Answer) -> Vec<Seat<'a>> {
    answer.members.iter().map(|listed| seat(view, listed)).collect()
}

fn seat<'a>(view: &View<'a>, listed: &'a ListedMember) -> Seat<'a> {
    let name = name_of(view, listed);
    // By its name, where somebody took all its marks away and it does not answer either: no name is used twice, and its owner is ours.
    let by_name = |name: &MemberName| view.observed.own_pods().find(|pod| pod.name == name.as_str());
    let pod = name.as_ref().and_then(|name| view.pod_of(name).or_else(|| by_name(name)));
    let answer =
        pod.and_then(|pod| view.observed.answer(&pod.name)).filter(|answer| answer.member_id == listed.id);
    let fate = fate(view, listed, name.as_ref(), pod, answer);
    Seat { listed, name, pod, answer, fate }
}

fn fate(
    view: &View<'_>,
    listed: &ListedMember,
    name: Option<&MemberName>,
    pod: Option<&SeenPod>,
    answer: Option<&Answer>,
) -> Fate {
    let Some(name) = name else {
        return if listed.name.is_some() { Fate::Foreign } else { Fate::Unknown };
    };
    let Some(pod) = pod else {
        let disowned = view.disowned().find(|pod| pod.name == name.as_str() && listed.name.is_some());
        if let Some(pod) = disowned {
            return Fate::Disowned(pod.owner_in_words());
        }
        return match listed.name {
            None if view.observed.unmade.contains(name) => Fate::Unmade,
            None if view.observed.awaited.contains(name) => {
                Fate::Silent { why: "its pod is being made".to_owned(), gone_for: Duration::ZERO }
            }
            _ => Fate::Lost("it has no pod".to_owned()),
        };
    };
    if let Some(why) = pod.loss() {
        return Fate::Lost(why);
    }
    match (answer, view.observed.members.get(name)) {
        (Some(answer), _) if answer.linearizable || listed.learner => Fate::Healthy,
        // It hears us and not its peers.
        (Some(_), _) => Fate::Silent {
            why: "it cannot read through a quorum".to_owned(),
            gone_for: Membership::stalled_for(view.observed, listed.id),
        },
        (None, Some(SeenMember::Known(_)) | None) => {
            Fate::Silent { why: "it cannot read through a quorum".to_owned(), gone_for: Duration::ZERO }
        }
        (None, Some(SeenMember::Unknown { why, gone_for, .. })) => {
            Fate::Silent { why: why.clone(), gone_for: *gone_for }
        }
    }
}

/// The name in an address that we give: `<name>.<cluster>.<namespace>.svc`, with or without a domain.
fn name_of(view: &View<'_>, listed: &ListedMember) -> Option<MemberName> {
    let [url] = listed.peer_urls.as_slice() else { return None };
    let (_, rest) = url.split_once("://")?;
    let (host, _) = rest.rsplit_once(':')?;
    let (label, domain) = host.split_once('.')?;
    let resource = &view.observed.resource;
    let service = format!("{}.{}.svc", resource.name, resource.namespace);
    let ours = domain.strip_prefix(&service).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
    let named = label.strip_prefix(&resource.name).is_some_and(|rest| rest.starts_with('-'));
    label.parse().ok().filter(|_| ours && named)
}
