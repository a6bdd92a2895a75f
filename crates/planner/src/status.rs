//! What the status should say: the fields of the classic operator, and conditions that hold now and not from memory.

mod details;
mod ready;

use std::{cmp::Ordering, time::Duration};

use api::{
    Condition, ConditionStatus, ConditionType, EtcdClusterStatus, MembersStatus, Phase, Reason, condition,
    names, not_yet, status::ready_of,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use launch::EtcdVersion;

use crate::{
    Desired, Observed, Problem, Step, Timestamp,
    course::Course,
    membership::{Fate, Membership, Seat, pods_of_members},
    observed::{PodPhase, SeenPod, SeenResource, SeenService},
    outage::Outage,
    rules::Decision,
    view::View,
};

/// How long a look at a cluster that runs stays good: "available" means a read within this time.
pub(crate) const FRESH: Duration = Duration::from_secs(10);

/// How many sentences a condition gives; the first are the most important.
const SENTENCES: usize = 3;

/// What the status should say. `birth` is never in it: that is written by a step of its own.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// The status, without `birth`.
    pub status: EtcdClusterStatus,
}

impl Report {
    /// Whether this says anything that the status does not say already. If not, nothing is written.
    #[must_use]
    pub fn is_news(&self, current: &EtcdClusterStatus) -> bool {
        EtcdClusterStatus { birth: None, ..current.clone() } != self.status
    }
}

/// What to say of what was seen and decided.
pub(crate) fn report(
    desired: &Result<Desired, Vec<Problem>>,
    observed: &Observed,
    decision: &Decision,
) -> Report {
    let view = View::of(observed);
    let desired = desired.as_ref().ok();
    let previous = &observed.resource.status;
    let name = &observed.resource.name;
    let has_service = matches!(observed.client_service, SeenService::Ours { .. });
    let service = || names::client_service(name);
    let membership = Membership::of(&view);
    let outage = Outage::of(&view, membership.as_ref());
    let pods: Vec<&SeenPod> = pods_of_members(&view, membership.as_ref()).collect();
    let (members, outage) = (membership.as_ref(), outage.as_ref());
    let seen = Seen { view: &view, membership: members, outage, decision, pods: &pods };
    let upgrade = seen.upgrade(desired);
    let current = current_version(&view, members, &pods);
    // Without a birth nothing is known of members; what somebody else said of them stays.
    let (members, details) = match view.birth {
        Some(_) => (Some(seen.members()), details::of(&view, members)),
        None => (previous.members.clone(), previous.member_details.clone()),
    };
    let ready = members.as_ref().and_then(|members| members.ready.as_ref()).map_or(0, Vec::len);
    let status = EtcdClusterStatus {
        reason: seen.reason(),
        phase: seen.phase().or_else(|| previous.phase.clone()),
        control_paused: desired.is_some_and(|desired| desired.paused).then_some(true),
        conditions: Some(seen.conditions(desired)),
        size: size(&view),
        service_name: if has_service { Some(service()) } else { previous.service_name.clone() },
        client_port: if has_service { Some(i64::from(names::CLIENT_PORT)) } else { previous.client_port },
        members,
        member_details: details,
        current_version: current.or_else(|| previous.current_version.clone()),
        target_version: upgrade.map(|(to, _)| to.to_string()),
        stop_over: upgrade.and_then(|(_, stop)| stop).map(|stop| stop.to_string()),
        ready: wanted(desired, previous).map(|wanted| ready_of(ready, wanted)),
        label_selector: Some(names::selector(name)),
        observed_generation: Some(observed.resource.generation),
        birth: None,
    };
    Report { status }
}

/// What to say of a cluster that could not be looked at, and why: that it is available is not known any more. Everything else is told as
/// it was last seen.
#[must_use]
pub fn blind(resource: &SeenResource, now: Timestamp, why: &str) -> Report {
    let previous = resource.status.conditions.as_deref().unwrap_or_default();
    let reason = Reason::ApiUnavailable { message: why.to_owned() };
    let new = [
        (ConditionType::Available, ConditionStatus::Unknown),
        (ConditionType::Ready, ConditionStatus::Unknown),
        (ConditionType::Progressing, ConditionStatus::False),
    ]
    .map(|(type_, status)| {
        Condition::new(type_, status, &reason, Some(resource.generation), &Time(now))
            .following(condition::find(previous, type_))
    });
    let replaced = |old: &&Condition| new.iter().all(|new| new.type_ != old.type_);
    let others: Vec<Condition> = previous.iter().filter(replaced).cloned().collect();
    let conditions = Some(new.into_iter().chain(others).collect());
    Report { status: EtcdClusterStatus { conditions, birth: None, ..resource.status.clone() } }
}

/// How many members the spec asks for; while it cannot be read, what it asked for before.
fn wanted(desired: Option<&Desired>, previous: &EtcdClusterStatus) -> Option<usize> {
    desired.map(|desired| desired.size).or_else(|| previous.wanted())
}

/// How many members etcd has: what it says itself, or what it said last.
fn size(view: &View<'_>) -> Option<i64> {
    let listed = view.member_list().filter(|_| view.is_formed()).map(|list| list.members.len());
    listed.and_then(|count| i64::try_from(count).ok()).or(view.observed.resource.status.size)
}

/// The lowest version that a member runs, by the members' own word; where nobody tells, what the lowest was ordered.
fn current_version(
    view: &View<'_>,
    membership: Option<&Membership<'_>>,
    pods: &[&SeenPod],
) -> Option<String> {
    let running = membership.and_then(|membership| membership.running().min());
    let ordered = || pods.iter().filter_map(|pod| pod.version()).min();
    let known = view.observed.resource.status.current_version.is_some();
    let version = running.or_else(|| if known { None } else { ordered() })?;
    view.is_formed().then(|| version.to_string())
}

/// What a condition says.
type Said = (ConditionStatus, Vec<Reason>);

/// What the report is about: what was seen, and what was decided on it.
struct Seen<'s, 'a> {
    view: &'s View<'a>,
    membership: Option<&'s Membership<'a>>,
    outage: Option<&'s Outage>,
    decision: &'s Decision,
    /// The pods of the members.
    pods: &'s [&'a SeenPod],
}

impl Seen<'_, '_> {
    /// What is lost for good; what was said of it before stays, where nobody tells any more.
    fn reason(&self) -> Option<String> {
        let previous = &self.view.observed.resource.status.reason;
        let of = |outage: &Outage| match previous {
            Some(previous) if outage.is_remembered() => previous.clone(),
            _ => outage.reason().to_string(),
        };
        let kept = || previous.clone().filter(|_| self.view.is_passed_over());
        self.outage.filter(|outage| outage.is_final()).map(of).or_else(kept)
    }

    /// Where the cluster is in its life. Without a birth nothing is said: a phase without a birth is the mark of somebody else's cluster.
    fn phase(&self) -> Option<String> {
        let previous = &self.view.observed.resource.status.phase;
        if self.view.is_passed_over() && previous.is_some() {
            return previous.clone();
        }
        let phase = match self.view.birth? {
            _ if self.outage.is_some_and(Outage::is_final) => Phase::Failed,
            birth if birth.formed => Phase::Running,
            _ => Phase::Creating,
        };
        Some(phase.as_str().to_owned())
    }

    /// The members by whether they serve; who does not run yet is neither, as it always was.
    fn members(&self) -> MembersStatus {
        let names = |wanted: &dyn Fn(&SeenPod) -> bool| {
            let mut names: Vec<String> =
                self.pods.iter().filter(|pod| wanted(pod)).map(|pod| pod.name.clone()).collect();
            names.sort_unstable();
            Some(names).filter(|names| !names.is_empty())
        };
        let mut unready = names(&|pod| pod.phase == PodPhase::Running && !pod.is_ready()).unwrap_or_default();
        // By its name alone is one found again that has lost its labels and its owner.
        let listed = |pod: &&SeenPod| {
            let list = self.membership.map(|membership| &membership.list.members);
            list.is_none_or(|list| list.iter().any(|member| member.is_called(&pod.name)))
        };
        unready.extend(self.view.disowned().filter(listed).map(|pod| pod.name.clone()));
        unready.sort_unstable();
        MembersStatus {
            ready: names(&SeenPod::is_ready),
            unready: Some(unready).filter(|names| !names.is_empty()),
        }
    }

    /// The conditions, with the times that they keep while nothing changes, and those that others wrote.
    fn conditions(&self, desired: Option<&Desired>) -> Vec<Condition> {
        let resource = &self.view.observed.resource;
        let previous = resource.status.conditions.as_deref().unwrap_or_default();
        let now = Time(self.view.observed.now);
        let (available, progressing) = (self.available(), self.progressing());
        let ready = self.ready(desired, &available, &progressing);
        let all = [
            (ConditionType::Available, Some(available)),
            (ConditionType::Ready, Some(ready)),
            (ConditionType::Progressing, Some(progressing)),
            (ConditionType::Stalled, self.stalled()),
            (ConditionType::Scaling, desired.and_then(|desired| self.scaling(desired))),
            (ConditionType::Upgrading, self.upgrading(desired)),
            (ConditionType::Recovering, self.recovering()),
            (ConditionType::SpecAccepted, self.accepted(desired)),
            (ConditionType::FieldsIgnored, ignored(desired)),
        ];
        let ours = all
            .into_iter()
            .filter_map(|(type_, said)| said.map(|(status, reasons)| (type_, status, reasons)))
            .filter_map(|(type_, status, reasons)| {
                let mut condition =
                    Condition::new(type_, status, reasons.first()?, Some(resource.generation), &now);
                if reasons.len() > 1 {
                    condition.message = Some(join(&reasons));
                }
                let before = condition::find(previous, type_);
                // How long something has been in the way is counted for each generation anew: it may be what the last edit puts right.
                let anew = type_ == ConditionType::Stalled && !self.is_of_this_generation(before);
                Some(condition.following(before.filter(|_| !anew)))
            })
            .collect();
        condition::with_those_of_others(ours, previous)
    }

    /// Whether members come or go; no condition while none do, or none may.
    fn scaling(&self, desired: &Desired) -> Option<Said> {
        if self.decision.held {
            return None;
        }
        let to = desired.size;
        let reason = match self.membership {
            None if self.view.birth.is_some_and(|birth| !birth.formed) => Reason::ScalingUp { from: 0, to },
            None => return None,
            Some(membership) => {
                let voters = membership.voters().count();
                // A learner that nobody needs any more is also one too many. Whom somebody else added does not go for the spec's sake.
                let ours = |seat: &&Seat<'_>| !matches!(seat.fate, Fate::Foreign | Fate::Unknown);
                let members = membership.seats.iter().filter(ours).count();
                match (voters.cmp(&to), members.cmp(&to)) {
                    (Ordering::Less, _) => Reason::ScalingUp { from: voters, to },
                    (_, Ordering::Greater) => Reason::ScalingDown { from: members, to },
                    _ => return None,
                }
            }
        };
        Some((ConditionStatus::True, vec![reason]))
    }

    /// The version that members are on their way to, and the stop-over that comes first; nothing while they are not on their way.
    fn upgrade(&self, desired: Option<&Desired>) -> Option<(EtcdVersion, Option<EtcdVersion>)> {
        let desired = desired.filter(|_| self.view.is_formed() && !self.decision.held)?;
        let course = Course::of(self.view, self.membership, desired);
        let stop = course.next().filter(|next| *next != desired.version && desired.is_version_accepted());
        course.is_under_way(self.view, self.membership, desired).then_some((desired.version, stop))
    }

    /// Whether members are on their way to another version or image; no condition while they are not.
    fn upgrading(&self, desired: Option<&Desired>) -> Option<Said> {
        let (to, _) = self.upgrade(desired)?;
        Some((ConditionStatus::True, vec![Reason::ClusterUpgrading { to: to.to_string() }]))
    }

    /// Whether members are lost and not replaced yet; no condition while none are.
    fn recovering(&self) -> Option<Said> {
        let lost: Vec<Reason> = match (self.membership, self.outage) {
            (None, outage) => outage?.lost().collect(),
            (Some(membership), _) => membership
                .voters()
                .filter_map(|seat| match &seat.fate {
                    Fate::Lost(why) => Some(Reason::MemberLost { member: seat.title(), why: why.clone() }),
                    _ => None,
                })
                .collect(),
        };
        (!lost.is_empty()).then_some((ConditionStatus::True, lost))
    }

    /// Available only while somebody read through a quorum. Ready pods that we cannot ask are a doubt, not an outage.
    fn available(&self) -> Said {
        let view = self.view;
        if view.is_formed() && view.serving().next().is_some() {
            return (ConditionStatus::True, vec![Reason::ClusterAvailable]);
        }
        if let Some(outage) = self.outage {
            let ready = view.current().chain(view.disowned()).any(SeenPod::is_ready);
            let status = if ready { ConditionStatus::Unknown } else { ConditionStatus::False };
            let unheard = ready && view.answers().next().is_none();
            let message = || "no member answers the operator, and Kubernetes finds some ready".to_owned();
            let reason =
                if unheard { Reason::MembersUnknown { message: message() } } else { outage.reason() };
            return (status, vec![reason]);
        }
        let blocked: Vec<Reason> = self
            .decision
            .waiting
            .iter()
            .filter(|waiting| !waiting.passes)
            .map(|waiting| waiting.reason.clone())
            .collect();
        match blocked.first() {
            // Somebody else's cluster may serve, and is not asked.
            Some(Reason::AdoptionNeeded { .. }) => (ConditionStatus::Unknown, blocked),
            Some(_) => (ConditionStatus::False, blocked),
            None => (ConditionStatus::False, vec![self.on_the_way()]),
        }
    }

    /// Why a cluster is not there yet, where nothing is in its way.
    fn on_the_way(&self) -> Reason {
        if self.view.birth.is_none() || self.decision.held {
            let first = self.decision.waiting.first();
            return first.map_or(Reason::RecordingBirth, |waiting| waiting.reason.clone());
        }
        Reason::Forming {
            ready: self.view.current().filter(|pod| pod.is_ready()).count(),
            size: self.view.current().count(),
        }
    }

    /// What is being done or waited for.
    fn progressing(&self) -> Said {
        let waiting = &self.decision.waiting;
        let passing = waiting.iter().all(|waiting| waiting.passes);
        let reasons: Vec<Reason> = waiting.iter().map(|waiting| waiting.reason.clone()).collect();
        if !reasons.is_empty() {
            return (if passing { ConditionStatus::True } else { ConditionStatus::False }, reasons);
        }
        let doing = match self.decision.act.first() {
            Some(Step::DeleteAbandonedPod { pod, .. } | Step::DeleteRemovedPod { pod, .. }) => {
                Reason::WaitingForPodGone { pod: pod.clone() }
            }
            Some(Step::AddMember { member, .. } | Step::CreateJoiningPod { member, .. }) => {
                Reason::WaitingForMemberJoined { member: member.to_string() }
            }
            Some(Step::PromoteMember { member, .. }) => {
                Reason::WaitingForMemberJoined { member: member.clone() }
            }
            Some(Step::RemoveMember { member, because, .. }) => {
                Reason::RemovingMember { member: member.clone(), why: because.in_words() }
            }
            Some(Step::MoveLeader { .. }) => Reason::MovingLeader,
            Some(Step::RelaunchMember { pod, version, .. }) => {
                Reason::UpgradingMember { member: pod.clone(), to: version.to_string() }
            }
            Some(Step::ChangeDowngrade { to: Some(to), .. }) => {
                Reason::EnablingDowngrade { to: to.to_string() }
            }
            _ if !self.view.is_formed() => self.on_the_way(),
            step => match step.or(self.decision.ensures.first()) {
                Some(step) => Reason::Working { step: step.name().to_owned() },
                None => return (ConditionStatus::False, vec![Reason::Settled]),
            },
        };
        (ConditionStatus::True, vec![doing])
    }

    /// Whether the spec can be carried out.
    fn accepted(&self, desired: Option<&Desired>) -> Option<Said> {
        let refused: Vec<Reason> = self
            .decision
            .waiting
            .iter()
            .map(|waiting| &waiting.reason)
            .filter(|reason| {
                matches!(
                    reason,
                    Reason::InvalidSpec { .. }
                        | Reason::InvalidFields { .. }
                        | Reason::NotYetSupported { .. }
                        | Reason::FieldsHeldBack { .. }
                        | Reason::UpgradeRefused { .. }
                )
            })
            .cloned()
            .collect();
        if !refused.is_empty() {
            return Some((ConditionStatus::False, refused));
        }
        if let Some(held_back) = desired.map(|desired| &desired.held_back).filter(|fields| !fields.is_empty())
        {
            let fields = not_yet::as_text(held_back);
            return Some((ConditionStatus::False, vec![Reason::NotYetSupported { fields }]));
        }
        let desired = desired?;
        let advice = if desired.advice.is_empty() { vec![Reason::Accepted] } else { desired.advice.clone() };
        Some((ConditionStatus::True, advice))
    }
}

/// The fields that do nothing; no condition where there are none.
fn ignored(desired: Option<&Desired>) -> Option<Said> {
    let fields = &desired?.without_effect;
    let text = not_yet::as_text(fields);
    (!fields.is_empty()).then(|| (ConditionStatus::True, vec![Reason::FieldsWithoutEffect { fields: text }]))
}

/// The first sentences, and how many there are besides.
fn join(reasons: &[Reason]) -> String {
    let mut texts: Vec<String> = reasons.iter().take(SENTENCES).map(ToString::to_string).collect();
    if reasons.len() > SENTENCES {
        texts.push(format!("and {} more", reasons.len() - SENTENCES));
    }
    texts.join("; ").chars().take(condition::MAX_MESSAGE_CHARS).collect()
}

#[cfg(test)]
mod tests;
