//! The broken planners: the real one, with what it sees or what it plans changed in one way.

use api::{Condition, ConditionStatus, ConditionType, Reason};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use launch::{Intent, MemberName};
use planner::{
    Attempt, BirthCause, Desired, Observed, OrderSeen, Plan, Problem, SeenObject, SeenPod, Step, plan,
};

type Wanted = Result<Desired, Vec<Problem>>;

/// The real plan on a changed view.
fn seeing(desired: &Wanted, observed: &Observed, change: impl FnOnce(&mut Observed)) -> Plan {
    let mut observed = observed.clone();
    change(&mut observed);
    plan(desired, &observed)
}

/// The real plan without some of its steps.
fn without(desired: &Wanted, observed: &Observed, dropped: impl Fn(&Step) -> bool) -> Plan {
    let mut plan = plan(desired, observed);
    plan.steps.retain(|step| !dropped(step));
    plan
}

fn attempt(observed: &Observed) -> Option<Attempt> {
    observed.resource.birth().and_then(|birth| Attempt::of(birth).ok())
}

fn is_formed(observed: &Observed) -> bool {
    observed.resource.birth().is_some_and(|birth| birth.formed)
}

/// The pods of the attempt that counts.
fn current(observed: &Observed) -> impl Iterator<Item = &SeenPod> {
    let label = attempt(observed).map(|attempt| attempt.label());
    observed.own_pods().filter(move |pod| label.is_some() && pod.attempt == label)
}

fn seen(pod: &SeenPod) -> SeenObject {
    SeenObject { uid: pod.uid.clone(), resource_version: pod.resource_version.clone() }
}

fn delete(pod: &SeenPod) -> Step {
    Step::DeleteAbandonedPod {
        pod: pod.name.clone(),
        seen: seen(pod),
        attempt: pod.attempt.clone().unwrap_or_default(),
    }
}

pub(crate) fn bootstraps_when_it_finds_no_pods(desired: &Wanted, observed: &Observed) -> Plan {
    seeing(desired, observed, |observed| {
        if observed.pods.is_empty() {
            (observed.resource.status.birth, observed.resource.status.phase) = (None, None);
        }
    })
}

pub(crate) fn makes_pods_before_the_latch(desired: &Wanted, observed: &Observed) -> Plan {
    let mut plan = plan(desired, observed);
    plan.steps.sort_by_key(|step| matches!(step, Step::LatchBirth { .. }));
    plan
}

pub(crate) fn calls_a_quorum_formed(desired: &Wanted, observed: &Observed) -> Plan {
    let mut plan = plan(desired, observed);
    let answers = current(observed).filter_map(|pod| observed.answer(&pod.name));
    let serving = answers.filter(|answer| answer.linearizable).last();
    if let (Some(birth), Some(answer), false) = (observed.resource.birth(), serving, is_formed(observed)) {
        plan.steps = vec![Step::LatchFormed {
            resource_version: observed.resource.resource_version.clone(),
            from: birth.clone(),
            birth: birth.formed(answer.cluster_id.to_string()),
        }];
    }
    plan
}

pub(crate) fn makes_a_missing_pod_again(desired: &Wanted, observed: &Observed) -> Plan {
    let mut plan = plan(desired, observed);
    let (Ok(wanted), Some(attempt)) = (desired, attempt(observed)) else { return plan };
    let there = |member: &MemberName| current(observed).any(|pod| pod.name == member.as_str());
    let members: Vec<MemberName> =
        wanted.founders(&attempt).into_iter().filter(|member| !there(member)).collect();
    if !members.is_empty() && !is_formed(observed) {
        plan.steps = vec![Step::CreateMembers { attempt, members }];
    }
    plan
}

pub(crate) fn makes_lost_members_again_as_new(desired: &Wanted, observed: &Observed) -> Plan {
    let mut plan = plan(desired, observed);
    let (Ok(wanted), Some(attempt)) = (desired, attempt(observed)) else { return plan };
    let there = |member: &MemberName| current(observed).any(|pod| pod.name == member.as_str());
    let members: Vec<MemberName> =
        wanted.founders(&attempt).into_iter().filter(|member| !there(member)).collect();
    if !members.is_empty() && is_formed(observed) {
        plan.steps = vec![Step::CreateMembers { attempt, members }];
    }
    plan
}

pub(crate) fn never_withdraws_the_permission(desired: &Wanted, observed: &Observed) -> Plan {
    without(desired, observed, |step| matches!(step, Step::WithdrawEmptyStart { .. }))
}

/// What members hold is not looked at.
pub(crate) fn gives_up_what_clients_wrote(desired: &Wanted, observed: &Observed) -> Plan {
    seeing(desired, observed, |observed| {
        for member in observed.members.values_mut() {
            if let planner::SeenMember::Known(answer) = member {
                answer.revision = planner::EMPTY_STORE;
            }
        }
    })
}

/// What members of attempts that were given up hold is not looked at.
pub(crate) fn deletes_pods_that_hold_what_clients_wrote(desired: &Wanted, observed: &Observed) -> Plan {
    let counts: Vec<String> = current(observed).map(|pod| pod.name.clone()).collect();
    seeing(desired, observed, |observed| {
        observed.members.retain(|name, _| counts.iter().any(|one| one == name.as_str()));
        for pod in observed.pods.iter_mut().filter(|pod| !counts.contains(&pod.name)) {
            pod.ready = planner::Readiness::NotReady;
        }
    })
}

pub(crate) fn gives_the_permission_back(desired: &Wanted, observed: &Observed) -> Plan {
    let mut plan = plan(desired, observed);
    for pod in current(observed) {
        if let OrderSeen::Order(order) = &pod.order
            && order.intent == Intent::Restart
        {
            let order = launch::LaunchOrder { intent: Intent::NewCluster, ..order.clone() };
            plan.steps = vec![Step::WithdrawEmptyStart { pod: pod.name.clone(), seen: seen(pod), order }];
        }
    }
    plan
}

pub(crate) fn lets_clients_in_before_formed(desired: &Wanted, observed: &Observed) -> Plan {
    let mut plan = plan(desired, observed);
    for step in &mut plan.steps {
        if let Step::EnsureClientService { formed, .. } = step {
            *formed = Some(Attempt { incarnation: 1, token: observed.token.clone() });
        }
    }
    plan
}

pub(crate) fn restarts_members_by_deleting_pods(desired: &Wanted, observed: &Observed) -> Plan {
    let mut plan = plan(desired, observed);
    let crashing = current(observed).find(|pod| pod.may_have_started() && !pod.is_ready() && !pod.deleting);
    if let (Some(pod), true) = (crashing, is_formed(observed)) {
        plan.steps = vec![delete(pod)];
    }
    plan
}

pub(crate) fn ignores_resource_versions(desired: &Wanted, observed: &Observed) -> Plan {
    seeing(desired, observed, |observed| observed.resource.resource_version.clear())
}

/// The next attempt is latched without a version: a member was lost, but the cluster may have been called formed since.
pub(crate) fn abandons_on_an_outdated_resource(desired: &Wanted, observed: &Observed) -> Plan {
    let mut plan = plan(desired, observed);
    for step in &mut plan.steps {
        if let Step::LatchBirth { resource_version, from: Some(_), .. } = step {
            resource_version.clear();
        }
    }
    plan
}

pub(crate) fn starts_anew_after_total_loss(desired: &Wanted, observed: &Observed) -> Plan {
    let all_lost = current(observed).all(|pod| pod.loss().is_some());
    seeing(desired, observed, |observed| {
        if let (Some(birth), true) = (&mut observed.resource.status.birth, all_lost) {
            birth.formed = false;
        }
    })
}

pub(crate) fn deletes_pods_that_it_does_not_know(desired: &Wanted, observed: &Observed) -> Plan {
    let mut plan = plan(desired, observed);
    let label = attempt(observed).map(|attempt| attempt.label());
    if let Some(pod) =
        observed.own_pods().find(|pod| label.is_some() && pod.attempt != label && !pod.deleting)
    {
        plan.steps = vec![delete(pod)];
    }
    plan
}

pub(crate) fn works_on_while_the_resource_is_deleted(desired: &Wanted, observed: &Observed) -> Plan {
    seeing(desired, observed, |observed| observed.resource.deleting = false)
}

pub(crate) fn says_available_without_a_quorum(desired: &Wanted, observed: &Observed) -> Plan {
    let mut plan = plan(desired, observed);
    let available = Condition::new(
        ConditionType::Available,
        ConditionStatus::True,
        &Reason::ClusterAvailable,
        None,
        &Time(observed.now),
    );
    plan.report.status.conditions = Some(vec![available]);
    plan
}

pub(crate) fn never_lets_clients_in(desired: &Wanted, observed: &Observed) -> Plan {
    without(desired, observed, |step| matches!(step, Step::EnsureClientService { formed: Some(_), .. }))
}

pub(crate) fn never_deletes_what_it_abandoned(desired: &Wanted, observed: &Observed) -> Plan {
    without(desired, observed, |step| matches!(step, Step::DeleteAbandonedPod { .. }))
}

pub(crate) fn deletes_all_it_abandoned_at_once(desired: &Wanted, observed: &Observed) -> Plan {
    let mut plan = plan(desired, observed);
    let label = attempt(observed).map(|attempt| attempt.label());
    if plan.steps.iter().any(|step| matches!(step, Step::DeleteAbandonedPod { .. })) {
        plan.steps =
            observed.own_pods().filter(|pod| pod.attempt != label && !pod.deleting).map(delete).collect();
    }
    plan
}

pub(crate) fn never_tries_a_refused_pod_again(desired: &Wanted, observed: &Observed) -> Plan {
    let begins = |plan: &Plan| plan.steps.iter().any(|step| matches!(step, Step::LatchBirth { .. }));
    let plan = plan(desired, observed);
    if begins(&plan) {
        plan
    } else {
        without(desired, observed, |step| matches!(step, Step::CreateMembers { .. }))
    }
}

pub(crate) fn never_abandons(desired: &Wanted, observed: &Observed) -> Plan {
    let again =
        |step: &Step| matches!(step, Step::LatchBirth { because, .. } if *because != BirthCause::First);
    let plan = plan(desired, observed);
    if plan.steps.iter().any(again) { Plan { steps: Vec::new(), ..plan } } else { plan }
}

pub(crate) fn says_nothing_of_lost_members(desired: &Wanted, observed: &Observed) -> Plan {
    Plan { waiting: Vec::new(), ..plan(desired, observed) }
}

pub(crate) fn waits_for_lost_nodes_before_it_forms(desired: &Wanted, observed: &Observed) -> Plan {
    seeing(desired, observed, |observed| observed.members.retain(|_, member| member.answer().is_some()))
}

pub(crate) fn waits_for_pods_that_never_ran(desired: &Wanted, observed: &Observed) -> Plan {
    let ran = |observed: &Observed, name: &str| {
        observed.pods.iter().any(|pod| pod.name == name && !pod.containers.is_empty())
    };
    let before = observed.clone();
    seeing(desired, observed, |observed| observed.members.retain(|name, _| ran(&before, name.as_str())))
}

pub(crate) fn reports_a_phase_before_the_birth(desired: &Wanted, observed: &Observed) -> Plan {
    let mut plan = plan(desired, observed);
    plan.report.status.phase.get_or_insert_with(|| "Creating".to_owned());
    plan
}

pub(crate) fn is_never_done(desired: &Wanted, observed: &Observed) -> Plan {
    let mut plan = plan(desired, observed);
    if let (planner::SeenService::Ours { uid, resource_version, .. }, true) =
        (&observed.client_service, is_formed(observed))
    {
        let seen = SeenObject { uid: uid.clone(), resource_version: resource_version.clone() };
        plan.steps.push(Step::EnsureClientService { formed: attempt(observed), seen: Some(seen) });
    }
    plan
}
