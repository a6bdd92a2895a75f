//! The broken planners of a roll: a plan with one thing in it changed, or a view that shows less than there is.

use std::collections::BTreeSet;

use api::names::{ANNOTATION_INPUTS, ANNOTATION_RELAUNCHED, ANNOTATION_VERSION};
use launch::{EtcdVersion, LaunchOrder, Minor, ORDER_ANNOTATION};
use planner::{
    Answer, Basis, Desired, Leaving, Observed, OrderSeen, Plan, Problem, Readiness, SeenList, SeenMember,
    SeenObject, SeenPod, Step, plan,
};

type Wanted = Result<Desired, Vec<Problem>>;

/// Whoever answers and reads through the quorum.
fn answers(observed: &Observed) -> impl Iterator<Item = (&SeenPod, &Answer)> {
    let answering = observed.pods.iter().filter_map(|pod| Some((pod, observed.answer(&pod.name)?)));
    answering.filter(|(_, answer)| answer.linearizable)
}

/// What a change is decided on.
fn basis(observed: &Observed) -> Option<Basis> {
    let (pod, list) = answers(observed).find(|(_, answer)| answer.leader == Some(answer.member_id))?;
    Some(Basis {
        through: pod.name.parse().ok()?,
        through_id: list.member_id,
        list: SeenList { cluster_id: list.cluster_id, members: list.members.clone() },
        healthy: answers(observed).map(|(_, answer)| answer.member_id).collect(),
    })
}

/// The step that gives a member another version.
fn relaunch(observed: &Observed, pod: &SeenPod, version: EtcdVersion) -> Option<Step> {
    let OrderSeen::Order(order) = &pod.order else { return None };
    let order = LaunchOrder { version, ..order.clone() };
    Some(Step::RelaunchMember {
        basis: Some(basis(observed)?),
        pod: pod.name.clone(),
        seen: SeenObject { uid: pod.uid.clone(), resource_version: pod.resource_version.clone() },
        version,
        annotations: [
            (ANNOTATION_VERSION.to_owned(), version.to_string()),
            (ANNOTATION_INPUTS.to_owned(), String::new()),
            (ORDER_ANNOTATION.to_owned(), order.to_annotation()),
        ]
        .into(),
    })
}

/// The plan with its steps changed.
fn changed(desired: &Wanted, observed: &Observed, change: impl FnOnce(&mut Vec<Step>)) -> Plan {
    let mut plan = plan(desired, observed);
    change(&mut plan.steps);
    plan
}

fn relaunches(steps: &[Step]) -> Option<EtcdVersion> {
    steps.iter().find_map(|step| match step {
        Step::RelaunchMember { version, .. } => Some(*version),
        _ => None,
    })
}

/// Those that serve and are not ordered to run this version yet.
fn outdated(observed: &Observed, version: EtcdVersion) -> impl Iterator<Item = (&SeenPod, &Answer)> {
    answers(observed).filter(move |(pod, _)| pod.version() != Some(version))
}

/// A view in which everybody who is silent answers like the others, in the version that was ordered.
fn all_well(observed: &Observed, whom: impl Fn(&SeenPod) -> bool) -> Observed {
    let mut seen = observed.clone();
    let Some((_, example)) = answers(observed).next() else { return seen };
    for pod in seen.pods.iter_mut().filter(|pod| whom(pod)) {
        let Ok(name) = pod.name.parse() else { continue };
        let listed = example.members.iter().find(|member| member.is_in(&pod.name));
        let Some(listed) = listed else { continue };
        let answer = Answer { member_id: listed.id, version: pod.version(), ..example.clone() };
        seen.members.insert(name, SeenMember::Known(answer));
        pod.ready = Readiness::Ready;
        pod.annotations.remove(ANNOTATION_RELAUNCHED);
    }
    seen
}

pub(crate) fn begins_with_the_leader(desired: &Wanted, observed: &Observed) -> Plan {
    changed(desired, observed, |steps| {
        let Some(version) = relaunches(steps) else { return };
        let leads = |answer: &Answer| answer.leader == Some(answer.member_id);
        let leader = outdated(observed, version).find(|(_, answer)| leads(answer));
        if let Some(step) = leader.and_then(|(pod, _)| relaunch(observed, pod, version)) {
            *steps = vec![step];
        }
    })
}

pub(crate) fn relaunches_two_at_once(desired: &Wanted, observed: &Observed) -> Plan {
    changed(desired, observed, |steps| {
        let Some(version) = relaunches(steps) else { return };
        let followers = outdated(observed, version)
            .filter(|(_, answer)| answer.leader != Some(answer.member_id))
            .filter_map(|(pod, _)| relaunch(observed, pod, version));
        *steps = followers.collect();
    })
}

/// It patches the next one as soon as the last one was patched.
pub(crate) fn goes_on_before_the_last_one_is_healthy(desired: &Wanted, observed: &Observed) -> Plan {
    changed(desired, observed, |steps| {
        let Ok(wanted) = desired else { return };
        let waits = observed.pods.iter().any(SeenPod::is_relaunching);
        let next = outdated(observed, wanted.version)
            .find(|(_, answer)| answer.leader != Some(answer.member_id))
            .and_then(|(pod, _)| relaunch(observed, pod, wanted.version));
        if let (true, Some(step)) = (waits, next) {
            *steps = vec![step];
        }
    })
}

pub(crate) fn trusts_whoever_was_restarted(desired: &Wanted, observed: &Observed) -> Plan {
    plan(desired, &all_well(observed, SeenPod::was_relaunched))
}

pub(crate) fn rolls_while_one_is_down(desired: &Wanted, observed: &Observed) -> Plan {
    changed(desired, observed, |steps| {
        let Ok(wanted) = desired else { return };
        let untouched = observed.pods.iter().all(|pod| !pod.was_relaunched());
        let down = answers(observed).count() < observed.pods.len();
        let next = outdated(observed, wanted.version)
            .find(|(_, answer)| answer.leader != Some(answer.member_id))
            .and_then(|(pod, _)| relaunch(observed, pod, wanted.version));
        if let (true, Some(step)) = (untouched && down, next) {
            *steps = vec![step];
        }
    })
}

pub(crate) fn skips_a_minor(desired: &Wanted, observed: &Observed) -> Plan {
    changed(desired, observed, |steps| {
        let Ok(wanted) = desired else { return };
        for step in steps {
            let Step::RelaunchMember { pod, .. } = step else { continue };
            let pod = observed.pods.iter().find(|seen| seen.name == *pod);
            if let Some(other) = pod.and_then(|pod| relaunch(observed, pod, wanted.version)) {
                *step = other;
            }
        }
    })
}

/// It takes what the members run for what the cluster has agreed on.
pub(crate) fn does_not_wait_for_the_cluster_version(desired: &Wanted, observed: &Observed) -> Plan {
    let mut seen = observed.clone();
    for member in seen.members.values_mut() {
        if let SeenMember::Known(answer) = member {
            answer.cluster_version = answer.version.map(EtcdVersion::minor);
        }
    }
    plan(desired, &seen)
}

pub(crate) fn goes_down_without_asking_etcd(desired: &Wanted, observed: &Observed) -> Plan {
    let mut seen = observed.clone();
    let below: Option<Minor> = desired.as_ref().ok().map(|wanted| wanted.version.minor());
    for member in seen.members.values_mut() {
        if let SeenMember::Known(answer) = member {
            (answer.downgrade, answer.storage_version) = (below, below);
        }
    }
    plan(desired, &seen)
}

/// It compares pods with those that it would make now, of which something that nobody asked for is another.
pub(crate) fn relaunches_for_a_changed_builder(desired: &Wanted, observed: &Observed) -> Plan {
    let mut seen = observed.clone();
    for pod in &mut seen.pods {
        pod.inputs = Some("made by an older builder".to_owned());
    }
    plan(desired, &seen)
}

pub(crate) fn works_on_while_paused(desired: &Wanted, observed: &Observed) -> Plan {
    let going_on = desired.clone().map(|desired| Desired { paused: false, ..desired });
    plan(&going_on, observed)
}

/// It gives up a member that does not come up with what it was given.
pub(crate) fn removes_whom_it_relaunched(desired: &Wanted, observed: &Observed) -> Plan {
    let held: BTreeSet<String> =
        observed.pods.iter().filter(|pod| pod.is_relaunching()).map(|pod| pod.name.clone()).collect();
    changed(desired, observed, |steps| {
        let listed = answers(observed).next().map(|(_, answer)| answer.members.clone()).unwrap_or_default();
        let lost = listed.iter().find(|member| held.iter().any(|name| member.is_in(name)));
        if let (Some(lost), Some(basis)) = (lost, basis(observed)) {
            let because = Leaving::Overdue("it is silent".to_owned());
            *steps = vec![Step::RemoveMember { basis, member: lost.id.to_string(), id: lost.id, because }];
        }
    })
}

pub(crate) fn never_relaunches(desired: &Wanted, observed: &Observed) -> Plan {
    changed(desired, observed, |steps| steps.retain(|step| !matches!(step, Step::RelaunchMember { .. })))
}
