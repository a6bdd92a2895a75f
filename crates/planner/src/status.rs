//! What the status should say: the fields of the classic operator, and conditions that hold now and not from memory.

use std::{cmp::Ordering, time::Duration};

use api::{
    Condition, ConditionStatus, ConditionType, EtcdClusterStatus, MembersStatus, Phase, Reason, condition,
    names, not_yet, status::ready_of,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use crate::{
    Desired, Observed, Problem, Step, Timestamp, Waiting,
    membership::{Fate, Membership, Seat},
    observed::{OrderSeen, PodPhase, SeenPod, SeenResource, SeenService},
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
    let phase = phase(&view, decision);
    let has_service = matches!(observed.client_service, SeenService::Ours { .. });
    let service = || names::client_service(name);
    let ready = view.current().filter(|pod| pod.is_ready()).count();
    let known = view.birth.is_some();
    let status = EtcdClusterStatus {
        reason: decision.lost.then(|| sentences(&decision.waiting)),
        phase: phase.or_else(|| previous.phase.clone()),
        control_paused: desired.is_some_and(|desired| desired.paused).then_some(true),
        conditions: Some(conditions(desired, &view, decision)),
        size: size(&view),
        service_name: if has_service { Some(service()) } else { previous.service_name.clone() },
        client_port: if has_service { Some(i64::from(names::CLIENT_PORT)) } else { previous.client_port },
        members: if known { Some(members(&view)) } else { previous.members.clone() },
        current_version: current_version(&view).or_else(|| previous.current_version.clone()),
        // Said while an upgrade runs; there is none yet.
        target_version: None,
        ready: desired.map(|desired| ready_of(ready, desired.size)).or_else(|| previous.ready.clone()),
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

/// Where the cluster is in its life. Without a birth nothing is said: a phase without a birth is the mark of somebody else's cluster.
fn phase(view: &View<'_>, decision: &Decision) -> Option<String> {
    let phase = match view.birth {
        None => return None,
        Some(_) if decision.lost => Phase::Failed,
        Some(birth) if birth.formed => Phase::Running,
        Some(_) => Phase::Creating,
    };
    Some(phase.as_str().to_owned())
}

/// How many members etcd has: what it says itself, or what it said last.
fn size(view: &View<'_>) -> Option<i64> {
    let listed = view.member_list().filter(|_| view.is_formed()).map(|list| list.members.len());
    listed.and_then(|count| i64::try_from(count).ok()).or(view.observed.resource.status.size)
}

/// The members by whether they serve; who does not run yet is neither, as it always was.
fn members(view: &View<'_>) -> MembersStatus {
    let names = |wanted: &dyn Fn(&SeenPod) -> bool| {
        let mut names: Vec<String> =
            view.current().filter(|pod| wanted(pod)).map(|pod| pod.name.clone()).collect();
        names.sort_unstable();
        Some(names).filter(|names| !names.is_empty())
    };
    let mut unready = names(&|pod| pod.phase == PodPhase::Running && !pod.is_ready()).unwrap_or_default();
    // By its name alone is one found again that has lost its labels and its owner.
    unready.extend(view.disowned().map(|pod| pod.name.clone()));
    unready.sort_unstable();
    MembersStatus {
        ready: names(&SeenPod::is_ready),
        unready: Some(unready).filter(|names| !names.is_empty()),
    }
}

/// The version that all members run: what each was ordered, which its launcher compares with what the image holds.
fn current_version(view: &View<'_>) -> Option<String> {
    let mut versions = view.current().map(|pod| match &pod.order {
        OrderSeen::Order(order) => Some(order.version),
        OrderSeen::Missing | OrderSeen::Unreadable => None,
    });
    let first = versions.next()??;
    (view.is_formed() && versions.all(|version| version == Some(first))).then(|| first.to_string())
}

/// The conditions, with the times that they keep while nothing changes.
fn conditions(desired: Option<&Desired>, view: &View<'_>, decision: &Decision) -> Vec<Condition> {
    let resource = &view.observed.resource;
    let previous = resource.status.conditions.as_deref().unwrap_or_default();
    let now = Time(view.observed.now);
    let membership = Membership::of(view);
    let all = [
        (ConditionType::Available, Some(available(view, decision))),
        (ConditionType::Progressing, Some(progressing(view, decision))),
        (ConditionType::Scaling, desired.and_then(|desired| scaling(view, membership.as_ref(), desired))),
        (ConditionType::Recovering, recovering(view, membership.as_ref())),
        (ConditionType::SpecAccepted, accepted(desired, decision)),
        (ConditionType::FieldsIgnored, ignored(desired)),
    ];
    all.into_iter()
        .filter_map(|(type_, said)| said.map(|(status, reasons)| (type_, status, reasons)))
        .filter_map(|(type_, status, reasons)| {
            let mut condition =
                Condition::new(type_, status, reasons.first()?, Some(resource.generation), &now);
            if reasons.len() > 1 {
                condition.message = Some(join(&reasons));
            }
            Some(condition.following(condition::find(previous, type_)))
        })
        .collect()
}

type Said = (ConditionStatus, Vec<Reason>);

/// Whether members come or go; no condition while none do.
fn scaling(view: &View<'_>, membership: Option<&Membership<'_>>, desired: &Desired) -> Option<Said> {
    let to = desired.size;
    let reason = match membership {
        None if view.birth.is_some_and(|birth| !birth.formed) => Reason::ScalingUp { from: 0, to },
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

/// Whether members are lost and not replaced yet; no condition while none are.
fn recovering(view: &View<'_>, membership: Option<&Membership<'_>>) -> Option<Said> {
    let lost: Vec<Reason> = match membership {
        None if !view.is_formed() => return None,
        None => {
            let lost = view.current().filter_map(|pod| Some((pod.name.clone(), pod.loss()?)));
            lost.map(|(member, why)| Reason::MemberLost { member, why }).collect()
        }
        Some(membership) => membership
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
fn available(view: &View<'_>, decision: &Decision) -> Said {
    if view.is_formed() && view.serving().next().is_some() {
        return (ConditionStatus::True, vec![Reason::ClusterAvailable]);
    }
    if view.is_formed() && view.current().chain(view.disowned()).any(SeenPod::is_ready) {
        let message = "no member answers the operator, and Kubernetes finds some ready".to_owned();
        return (ConditionStatus::Unknown, vec![Reason::MembersUnknown { message }]);
    }
    if view.is_formed() {
        return (ConditionStatus::False, vec![outage(view, decision)]);
    }
    let blocked: Vec<Reason> = decision
        .waiting
        .iter()
        .filter(|waiting| !waiting.passes)
        .map(|waiting| waiting.reason.clone())
        .collect();
    (ConditionStatus::False, if blocked.is_empty() { vec![on_the_way(view, decision)] } else { blocked })
}

/// Why a formed cluster does not serve.
fn outage(view: &View<'_>, decision: &Decision) -> Reason {
    let mut reasons = decision.waiting.iter().map(|waiting| &waiting.reason);
    let lost = reasons.find(|reason| matches!(reason, Reason::DataLost { .. })).cloned();
    let answering = view.current().filter(|pod| view.observed.answer(&pod.name).is_some()).count();
    lost.unwrap_or(Reason::WaitingForQuorum { healthy: answering, voters: view.voters() })
}

/// Why a cluster is not there yet, where nothing is in its way.
fn on_the_way(view: &View<'_>, decision: &Decision) -> Reason {
    if view.birth.is_none() {
        return decision.waiting.first().map_or(Reason::RecordingBirth, |waiting| waiting.reason.clone());
    }
    Reason::Forming {
        ready: view.current().filter(|pod| pod.is_ready()).count(),
        size: view.current().count(),
    }
}

/// What is being done or waited for.
fn progressing(view: &View<'_>, decision: &Decision) -> Said {
    let passing = decision.waiting.iter().all(|waiting| waiting.passes);
    let reasons: Vec<Reason> = decision.waiting.iter().map(|waiting| waiting.reason.clone()).collect();
    if !reasons.is_empty() {
        return (if passing { ConditionStatus::True } else { ConditionStatus::False }, reasons);
    }
    let doing = match decision.act.first() {
        Some(Step::DeleteAbandonedPod { pod, .. } | Step::DeleteRemovedPod { pod, .. }) => {
            Reason::WaitingForPodGone { pod: pod.clone() }
        }
        Some(Step::AddMember { member, .. } | Step::CreateJoiningPod { member, .. }) => {
            Reason::WaitingForMemberJoined { member: member.to_string() }
        }
        Some(Step::PromoteMember { member, .. }) => Reason::WaitingForMemberJoined { member: member.clone() },
        Some(Step::RemoveMember { member, because, .. }) => {
            Reason::RemovingMember { member: member.clone(), why: because.in_words() }
        }
        Some(Step::MoveLeader { .. }) => Reason::MovingLeader,
        _ if view.is_formed() => return (ConditionStatus::False, vec![Reason::Settled]),
        _ => on_the_way(view, decision),
    };
    (ConditionStatus::True, vec![doing])
}

/// Whether the spec can be carried out.
fn accepted(desired: Option<&Desired>, decision: &Decision) -> Option<Said> {
    let Some(desired) = desired else {
        let reasons: Vec<Reason> = decision.waiting.iter().map(|waiting| waiting.reason.clone()).collect();
        let invalid = reasons.into_iter().find(|reason| matches!(reason, Reason::InvalidSpec { .. }))?;
        return Some((ConditionStatus::False, vec![invalid]));
    };
    if !desired.held_back.is_empty() {
        let fields = not_yet::as_text(&desired.held_back);
        return Some((ConditionStatus::False, vec![Reason::NotYetSupported { fields }]));
    }
    let advice = if desired.advice.is_empty() { vec![Reason::Accepted] } else { desired.advice.clone() };
    Some((ConditionStatus::True, advice))
}

/// The fields that do nothing; no condition where there are none.
fn ignored(desired: Option<&Desired>) -> Option<Said> {
    let fields = &desired?.without_effect;
    let text = not_yet::as_text(fields);
    (!fields.is_empty()).then(|| (ConditionStatus::True, vec![Reason::FieldsWithoutEffect { fields: text }]))
}

fn sentences(waiting: &[Waiting]) -> String {
    let reasons: Vec<Reason> = waiting.iter().map(|waiting| waiting.reason.clone()).collect();
    join(&reasons)
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
