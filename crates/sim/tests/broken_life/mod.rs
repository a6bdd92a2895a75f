//! The broken planners of a formed cluster's life: a plan with one thing in it changed.

use api::{Birth, Condition, ConditionStatus, ConditionType, Reason};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use planner::{
    Answer, Attempt, Basis, BirthCause, Desired, Leaving, ListedMember, MemberId, Observed, Plan, Problem,
    SeenList, SeenMember, SeenObject, SeenPod, Step, plan,
};

type Wanted = Result<Desired, Vec<Problem>>;

/// The plan with its steps changed, where somebody reads through a quorum.
fn changed(desired: &Wanted, observed: &Observed, change: impl FnOnce(&Sight<'_>, &mut Vec<Step>)) -> Plan {
    let mut plan = plan(desired, observed);
    if let Some(sight) = Sight::of(desired, observed) {
        change(&sight, &mut plan.steps);
    }
    plan
}

/// The plan without some of its steps.
fn without(desired: &Wanted, observed: &Observed, dropped: impl Fn(&Step) -> bool) -> Plan {
    let mut plan = plan(desired, observed);
    plan.steps.retain(|step| !dropped(step));
    plan
}

/// What most of them look at.
struct Sight<'a> {
    desired: &'a Desired,
    observed: &'a Observed,
    attempt: Attempt,
    basis: Basis,
    list: &'a Answer,
}

impl<'a> Sight<'a> {
    fn of(desired: &'a Wanted, observed: &'a Observed) -> Option<Self> {
        let serving = || observed.pods.iter().filter_map(|pod| Some((pod, observed.answer(&pod.name)?)));
        let (pod, list) = serving().find(|(_, answer)| answer.linearizable)?;
        let healthy = serving().filter(|(_, answer)| answer.linearizable).map(|(_, answer)| answer.member_id);
        let basis = Basis {
            through: pod.name.parse().ok()?,
            through_id: list.member_id,
            list: SeenList { cluster_id: list.cluster_id, members: list.members.clone() },
            healthy: healthy.collect(),
        };
        let attempt = Attempt::of(observed.resource.birth()?).ok()?;
        Some(Self { desired: desired.as_ref().ok()?, observed, attempt, basis, list })
    }

    fn voters(&self) -> impl Iterator<Item = &ListedMember> {
        self.list.members.iter().filter(|member| !member.learner)
    }

    /// The pod of a listed member.
    fn pod(&self, member: &ListedMember) -> Option<&SeenPod> {
        let host = member.peer_urls.first()?.split("://").nth(1)?.split('.').next()?;
        self.observed.pods.iter().find(|pod| pod.name == host)
    }

    fn pod_of(&self, id: MemberId) -> Option<&SeenPod> {
        self.list.members.iter().find(|member| member.id == id).and_then(|member| self.pod(member))
    }

    fn add(&self, member: launch::MemberName, learner: bool) -> Step {
        let (basis, attempt, version) = (self.basis.clone(), self.attempt.clone(), self.desired.version);
        Step::AddMember { basis, attempt, member, learner, version }
    }

    fn create(&self, member: launch::MemberName) -> Step {
        let (list, attempt, version) = (self.basis.list.clone(), self.attempt.clone(), self.desired.version);
        Step::CreateJoiningPod { list, attempt, member, version }
    }

    fn remove(&self, id: MemberId, because: Leaving) -> Step {
        Step::RemoveMember { basis: self.basis.clone(), member: id.to_string(), id, because }
    }

    fn delete(&self, pod: &SeenPod) -> Step {
        let seen = SeenObject { uid: pod.uid.clone(), resource_version: pod.resource_version.clone() };
        Step::DeleteRemovedPod { pod: pod.name.clone(), seen, list: self.basis.list.clone() }
    }
}

pub(crate) fn removes_a_healthy_voter_beside_a_dead_one(desired: &Wanted, observed: &Observed) -> Plan {
    changed(desired, observed, |sight, steps| {
        let healthy = &sight.basis.healthy;
        let other = healthy.iter().find(|id| Some(**id) != sight.list.leader);
        if let (Some(id), true) = (other, healthy.len() < sight.voters().count()) {
            *steps = vec![sight.remove(*id, Leaving::Surplus)];
        }
    })
}

pub(crate) fn adds_the_next_one_while_one_joins(desired: &Wanted, observed: &Observed) -> Plan {
    changed(desired, observed, |sight, steps| {
        if sight.list.members.iter().any(|member| member.learner) {
            *steps = vec![sight.add(observed.fresh_name.clone(), false)];
        }
    })
}

pub(crate) fn adds_a_voter_beside_a_dead_one(desired: &Wanted, observed: &Observed) -> Plan {
    changed(desired, observed, |sight, steps| {
        if sight.basis.healthy.len() < sight.voters().count() {
            *steps = vec![sight.add(observed.fresh_name.clone(), false)];
        }
    })
}

pub(crate) fn promotes_a_learner_that_is_dead(desired: &Wanted, observed: &Observed) -> Plan {
    changed(desired, observed, |sight, steps| {
        if let Some(learner) =
            sight.list.members.iter().find(|member| member.learner && member.name.is_some())
        {
            let (basis, member) = (sight.basis.clone(), learner.id.to_string());
            *steps = vec![Step::PromoteMember { basis, member, id: learner.id }];
        }
    })
}

pub(crate) fn promotes_a_learner_that_is_behind(desired: &Wanted, observed: &Observed) -> Plan {
    promotes_a_learner_that_is_dead(desired, observed)
}

pub(crate) fn uses_the_name_of_a_lost_member_again(desired: &Wanted, observed: &Observed) -> Plan {
    changed(desired, observed, |sight, steps| {
        let lost = sight.observed.pods.iter().find(|pod| pod.loss().is_some());
        for step in steps {
            if let (Step::AddMember { member, .. }, Some(name)) =
                (step, lost.and_then(|pod| pod.name.parse().ok()))
            {
                *member = name;
            }
        }
    })
}

pub(crate) fn makes_the_pod_before_the_member(desired: &Wanted, observed: &Observed) -> Plan {
    changed(desired, observed, |sight, steps| {
        for step in steps {
            if let Step::AddMember { member, .. } = step {
                *step = sight.create(member.clone());
            }
        }
    })
}

pub(crate) fn makes_joining_pods_as_new(desired: &Wanted, observed: &Observed) -> Plan {
    changed(desired, observed, |sight, steps| {
        let adds = steps.iter().any(|step| matches!(step, Step::AddMember { .. }));
        let members = vec![observed.fresh_name.clone()];
        if adds {
            *steps = vec![Step::CreateMembers { attempt: sight.attempt.clone(), members }];
        }
    })
}

pub(crate) fn makes_a_lost_pod_again(desired: &Wanted, observed: &Observed) -> Plan {
    changed(desired, observed, |sight, steps| {
        let missing =
            sight.list.members.iter().find(|member| member.name.is_some() && sight.pod(member).is_none());
        if let Some(name) = missing.and_then(|member| member.name.as_ref()?.parse().ok()) {
            *steps = vec![sight.create(name)];
        }
    })
}

pub(crate) fn removes_the_leader_without_moving_it(desired: &Wanted, observed: &Observed) -> Plan {
    changed(desired, observed, |sight, steps| {
        if let (true, Some(leader)) =
            (steps.iter().any(|step| matches!(step, Step::MoveLeader { .. })), sight.list.leader)
        {
            *steps = vec![sight.remove(leader, Leaving::Surplus)];
        }
    })
}

pub(crate) fn deletes_the_pod_before_the_removal(desired: &Wanted, observed: &Observed) -> Plan {
    changed(desired, observed, |sight, steps| {
        let leaving = steps.iter().find_map(|step| match step {
            Step::RemoveMember { id, .. } => sight.pod_of(*id),
            _ => None,
        });
        if let Some(pod) = leaving.filter(|pod| !pod.deleting) {
            *steps = vec![sight.delete(pod)];
        }
    })
}

pub(crate) fn begins_anew_when_nobody_serves(desired: &Wanted, observed: &Observed) -> Plan {
    let mut plan = plan(desired, observed);
    let serves = observed.members.values().filter_map(SeenMember::answer).any(|answer| answer.linearizable);
    if let (Some(from), false) = (observed.resource.birth().cloned(), serves) {
        let birth = Birth {
            cluster_id: None,
            formed: false,
            incarnation: from.incarnation + 1,
            token: "again".to_owned(),
        };
        let resource_version = observed.resource.resource_version.clone();
        let because = BirthCause::Lost(Vec::new());
        plan.steps = vec![Step::LatchBirth { resource_version, from: Some(from), birth, because }];
    }
    plan
}

pub(crate) fn removes_whoever_is_silent_at_once(desired: &Wanted, observed: &Observed) -> Plan {
    changed(desired, observed, |sight, steps| {
        let silent = sight.voters().find(|member| {
            sight.pod(member).is_some_and(|pod| {
                !pod.deleting && pod.loss().is_none() && observed.answer(&pod.name).is_none()
            })
        });
        if let Some(member) = silent {
            *steps = vec![sight.remove(member.id, Leaving::Overdue("it is silent".to_owned()))];
        }
    })
}

pub(crate) fn deletes_several_pods_at_once(desired: &Wanted, observed: &Observed) -> Plan {
    changed(desired, observed, |sight, steps| {
        let extra = sight.list.members.iter().filter_map(|member| sight.pod(member)).next_back();
        if let (true, Some(pod)) = (steps.iter().any(|step| matches!(step, Step::RemoveMember { .. })), extra)
        {
            steps.push(sight.delete(pod));
        }
    })
}

pub(crate) fn says_available_without_a_quorum(desired: &Wanted, observed: &Observed) -> Plan {
    let mut plan = plan(desired, observed);
    let (status, reason) = (ConditionStatus::True, Reason::ClusterAvailable);
    let available = Condition::new(ConditionType::Available, status, &reason, None, &Time(observed.now));
    plan.report.status.conditions = Some(vec![available]);
    plan
}

pub(crate) fn works_on_while_paused(desired: &Wanted, observed: &Observed) -> Plan {
    let going_on = desired.clone().map(|desired| Desired { paused: false, ..desired });
    plan(&going_on, observed)
}

pub(crate) fn never_removes(desired: &Wanted, observed: &Observed) -> Plan {
    without(desired, observed, |step| matches!(step, Step::RemoveMember { .. }))
}

pub(crate) fn never_removes_what_strangers_add(desired: &Wanted, observed: &Observed) -> Plan {
    let urls = |id: &MemberId| {
        let answers = observed.members.values().filter_map(SeenMember::answer);
        answers
            .flat_map(|answer| &answer.members)
            .any(|m| m.id == *id && m.peer_urls.iter().any(|url| url.contains("stranger")))
    };
    without(desired, observed, |step| matches!(step, Step::RemoveMember { id, .. } if urls(id)))
}

pub(crate) fn never_promotes(desired: &Wanted, observed: &Observed) -> Plan {
    without(desired, observed, |step| matches!(step, Step::PromoteMember { .. }))
}

pub(crate) fn never_adds(desired: &Wanted, observed: &Observed) -> Plan {
    without(desired, observed, |step| matches!(step, Step::AddMember { .. }))
}

pub(crate) fn never_deletes_the_pods_of_removed_members(desired: &Wanted, observed: &Observed) -> Plan {
    without(desired, observed, |step| matches!(step, Step::DeleteRemovedPod { .. }))
}

pub(crate) fn says_nothing_when_the_quorum_is_lost(desired: &Wanted, observed: &Observed) -> Plan {
    Plan { waiting: Vec::new(), ..plan(desired, observed) }
}

pub(crate) fn moves_the_leader_for_ever(desired: &Wanted, observed: &Observed) -> Plan {
    changed(desired, observed, |sight, steps| {
        let leader = sight.list.leader.and_then(|leader| Some((leader, sight.pod_of(leader)?)));
        let to = sight.basis.healthy.iter().find(|id| Some(**id) != sight.list.leader);
        if let (true, Some((id, pod)), Some(to)) = (steps.is_empty(), leader, to)
            && let Ok(through) = pod.name.parse()
        {
            let basis = Basis { through, through_id: id, ..sight.basis.clone() };
            *steps = vec![Step::MoveLeader { basis, to: *to }];
        }
    })
}
