//! A member that does not run the version or the image that the spec asks for is relaunched: its image and its order change in one write,
//! and its container starts again on its own data. One member at a time, never while another is down; followers first, and the leader last,
//! after it has handed over to a member that was relaunched already.
//!
//! Whatever the spec says now is what members are brought to: a member that does not come up with what it was given is given what the spec
//! says next, and nothing else is touched meanwhile. Healing comes first, so this rule stands behind those that add and remove members.

use std::{collections::BTreeMap, time::Duration};

use api::{
    Event, Reason,
    names::{ANNOTATION_INPUTS, ANNOTATION_RELAUNCHED, ANNOTATION_VERSION},
};
use launch::{EtcdVersion, MemberName, ORDER_ANNOTATION};

use super::{Decision, Flow, Situation, after, leave};
use crate::{
    Waiting,
    course::{Course, is_held_by_relaunch, last_seen_version, needs_relaunch},
    effect::{Basis, POD_IMAGE},
    manifest,
    membership::{Membership, Seat, pods_of_members},
    observed::{OrderSeen, SeenPod},
    step::{SeenObject, Step},
};

/// How soon members are looked at again that are on their way.
const LOOK: Duration = Duration::from_secs(1);

pub(super) fn ask(situation: &Situation<'_>, decision: &mut Decision) -> Flow {
    let (view, membership, desired) = (&situation.view, situation.membership.as_ref(), situation.desired);
    if !view.is_formed() {
        return Flow::Next;
    }
    let told = tell(situation, decision);
    let course = Course::of(view, membership, desired);
    if let Course::Refused(message) = &course {
        decision.wait(Waiting::blocked(Reason::UpgradeRefused { message: message.clone() }));
    }
    let Some(next) = course.next() else { return Flow::Next };
    if course.is_under_way(view, membership, desired) {
        // No event tells what etcd has agreed on, nor that a member has caught up.
        decision.look_again(after(situation.observed.now, LOOK));
        decision.rolling = is_midway(situation, next);
    }
    if relaunch_held(situation, decision, &course, next) {
        return Flow::Next;
    }
    let Some(membership) = membership else { return Flow::Next };
    if let Some(waiting) = not_now(situation, membership, next) {
        decision.wait(waiting);
        return Flow::Next;
    }
    // What happened is written down before the next step is taken.
    if told || !decision.may_act() || leave::paused_by_etcd(situation, decision) {
        return Flow::Next;
    }
    // What was allowed for another way than this: while it is in force, the cluster does not agree on any higher version.
    if let Some(to) = membership.downgrade().filter(|minor| *minor != next.minor()) {
        decision.wait(Waiting::passing(Reason::CancellingDowngrade { to: to.to_string() }));
        decision.act.extend(membership.basis(None).map(|basis| Step::ChangeDowngrade { basis, to: None }));
        return Flow::Next;
    }
    match course {
        Course::To(_) => roll(situation, membership, decision, next),
        Course::AfterClusterVersion { at, .. } => {
            let (version, next) = (at.to_string(), next.to_string());
            decision.wait(Waiting::passing(Reason::WaitingForClusterVersion { version, next }));
        }
        Course::AfterDowngradeEnabled { .. } => {
            let basis = membership.basis(None);
            decision.act.extend(basis.map(|basis| Step::ChangeDowngrade { basis, to: Some(next.minor()) }));
        }
        Course::AfterStorageVersion { .. } => {
            let version = next.minor().to_string();
            decision.wait(Waiting::passing(Reason::WaitingForStorageVersion { version }));
        }
        Course::Refused(_) | Course::Unknown => {}
    }
    Flow::Next
}

/// Whether one has been relaunched and is not back, or others follow.
fn is_midway(situation: &Situation<'_>, next: EtcdVersion) -> bool {
    let pods: Vec<&SeenPod> = pods_of_members(&situation.view, situation.membership.as_ref()).collect();
    let follows = |pod: &&SeenPod| needs_relaunch(pod, situation.desired, next);
    let comes_back = |pod: &&SeenPod| pod.is_relaunching() || (pod.was_relaunched() && !pod.is_ready());
    pods.iter().any(comes_back) || (pods.iter().any(follows) && !pods.iter().all(follows))
}

/// Tells of each member that runs another version than it was last seen with. Whether there was one.
fn tell(situation: &Situation<'_>, decision: &mut Decision) -> bool {
    let Some(membership) = situation.membership.as_ref().filter(|_| decision.act.is_empty()) else {
        return false;
    };
    let before = decision.events.len();
    for seat in membership.voters().filter(|seat| seat.is_healthy()) {
        let (Some(name), Some(to)) = (&seat.name, seat.answer.and_then(|answer| answer.version)) else {
            continue;
        };
        if let Some(from) = last_seen_version(&situation.view, name.as_str()).filter(|from| *from != to) {
            let (member, from, to) = (name.to_string(), from.to_string(), to.to_string());
            decision.events.push(Event::MemberUpgraded { member, from, to });
        }
    }
    decision.events.len() > before
}

/// Gives a member that does not come up with what it was given what the spec says now. It serves nobody, so nobody has to do without it for
/// that. Whether there is such a member.
fn relaunch_held(
    situation: &Situation<'_>,
    decision: &mut Decision,
    course: &Course,
    next: EtcdVersion,
) -> bool {
    let membership = situation.membership.as_ref();
    let pods = pods_of_members(&situation.view, membership);
    // It has run what it was given, or the cluster could not have agreed on it: it was only not written down.
    let agreed = membership.and_then(Membership::cluster_version);
    let is_below = agreed.is_some_and(|agreed| next.minor() < agreed);
    let held: Vec<&SeenPod> =
        pods.filter(|pod| is_held_by_relaunch(&situation.view, pod) && !pod.deleting).collect();
    for pod in &held {
        let to = pod.version().map(|version| version.to_string()).unwrap_or_default();
        let is_open = !is_below && pod.version().is_some_and(|ordered| course.is_open_to(ordered));
        if !is_open || !needs_relaunch(pod, situation.desired, next) {
            let why = super::members::waiting_of(pod)
                .map_or_else(|| "it is down".to_owned(), |waiting| waiting.reason.to_string());
            let member = pod.name.clone();
            decision.wait(Waiting::blocked(Reason::MemberNotUpgraded { member, to, why }));
        } else if decision.may_act() {
            relaunch(situation, decision, pod, next, None);
        }
    }
    !held.is_empty()
}

/// What speaks against restarting another member now.
fn not_now(situation: &Situation<'_>, membership: &Membership<'_>, next: EtcdVersion) -> Option<Waiting> {
    let desired = situation.desired;
    let relaunching = |seat: &&Seat<'_>| {
        let (pod, answer) = (seat.pod, seat.answer);
        pod.is_some_and(SeenPod::is_relaunching)
            || pod.and_then(SeenPod::version).is_some_and(|ordered| {
                answer.and_then(|answer| answer.version).is_some_and(|running| running != ordered)
            })
    };
    if let Some(seat) = membership.voters().find(relaunching) {
        let to = seat.pod.and_then(SeenPod::version).unwrap_or(next).to_string();
        return Some(Waiting::passing(Reason::UpgradingMember { member: seat.title(), to }));
    }
    let needed =
        membership.seats.iter().filter_map(|seat| seat.pod).any(|pod| needs_relaunch(pod, desired, next));
    let well = |seat: &&Seat<'_>| {
        seat.is_healthy() && membership.has_caught_up(seat) && seat.pod.is_some_and(SeenPod::is_ready)
    };
    let (healthy, voters) = (membership.voters().filter(well).count(), membership.voters().count());
    let calm = healthy == voters && membership.joining().is_none();
    (needed && !calm).then(|| Waiting::passing(Reason::UpgradeWaitsForMembers { healthy, voters }))
}

fn roll(situation: &Situation<'_>, membership: &Membership<'_>, decision: &mut Decision, next: EtcdVersion) {
    let needs = |seat: &Seat<'_>| seat.pod.is_some_and(|pod| needs_relaunch(pod, situation.desired, next));
    let mut outdated: Vec<&Seat<'_>> = membership.voters().filter(|seat| needs(seat)).collect();
    outdated
        .sort_by_key(|seat| (membership.is_leader(seat), seat.pod.and_then(|pod| pod.created), seat.title()));
    let Some((seat, pod)) = outdated.first().and_then(|seat| Some((*seat, seat.pod?))) else { return };
    let voters = membership.voters().count();
    if !membership.can_rest(seat) {
        // Up to two, nobody can be done without. Their data is kept all the same.
        if voters > 2 {
            let healthy = membership.healthy().count();
            decision.wait(Waiting::passing(Reason::UpgradeWaitsForMembers { healthy, voters }));
            return;
        }
        decision.wait(Waiting::passing(Reason::UpgradeInterrupts { size: voters }));
    }
    if let Some(step) = membership.hand_over(seat, |other| !needs(other)) {
        decision.act = vec![step];
        return;
    }
    let other =
        membership.healthy().find(|other| other.listed.id != seat.listed.id && membership.is_leader(other));
    let Some(basis) = membership.basis(other) else { return };
    relaunch(situation, decision, pod, next, Some(basis));
}

fn relaunch(
    situation: &Situation<'_>,
    decision: &mut Decision,
    pod: &SeenPod,
    version: EtcdVersion,
    basis: Option<Basis>,
) {
    let desired = situation.desired;
    if let Some(waiting) = situation.too_soon(POD_IMAGE, &pod.name) {
        decision.wait(waiting);
        return;
    }
    let OrderSeen::Order(before) = &pod.order else { return };
    if pod.name.parse::<MemberName>().ok().as_ref() != Some(&before.seal.member) {
        return;
    }
    let order = match manifest::relaunched(desired, before, version) {
        Ok(order) => order,
        Err(error) => {
            decision.wait(Waiting::blocked(Reason::UpgradeRefused { message: error.to_string() }));
            return;
        }
    };
    let ran = pod.etcd().and_then(|etcd| etcd.id.clone()).unwrap_or_default();
    let annotations = BTreeMap::from([
        (ANNOTATION_VERSION.to_owned(), version.to_string()),
        (
            ANNOTATION_INPUTS.to_owned(),
            desired.inputs.record_with_image(pod.inputs.as_deref(), before.version, version),
        ),
        (ANNOTATION_RELAUNCHED.to_owned(), ran),
        (ORDER_ANNOTATION.to_owned(), order.to_annotation()),
    ]);
    decision.wait(Waiting::passing(Reason::UpgradingMember {
        member: pod.name.clone(),
        to: version.to_string(),
    }));
    decision.rolling = true;
    decision.act = vec![Step::RelaunchMember {
        basis,
        pod: pod.name.clone(),
        seen: SeenObject { uid: pod.uid.clone(), resource_version: pod.resource_version.clone() },
        version,
        annotations,
    }];
}

#[cfg(test)]
mod tests {
    use api::MemberDetails;
    use launch::Minor;

    use super::*;
    use crate::{
        Effect, MemberId, Readiness, SeenBudget,
        fixture::{World, container, desired_of, order_of, waiting},
        observed::ContainerState,
    };

    fn version(text: &str) -> EtcdVersion {
        text.parse().unwrap()
    }

    /// So many members that run this version, and a spec that asks for another; the first leads.
    fn running(size: usize, runs: &str, asked: &str) -> World {
        let mut world = World::formed_of(size);
        let before = desired_of(&format!(r#"{{"size": {size}, "version": "{runs}"}}"#)).unwrap();
        for ordinal in 0..size {
            let pod = world.pod(ordinal);
            pod.inputs = Some(before.inputs(version(runs)));
            if let OrderSeen::Order(order) = &mut pod.order {
                *order = manifest::relaunched(&before, order, version(runs)).unwrap();
            }
            pod.annotations.insert(ANNOTATION_VERSION.to_owned(), runs.to_owned());
        }
        world.change_all(|answer| {
            answer.version = Some(version(runs));
            answer.cluster_version = Some(version(runs).minor());
            answer.storage_version = Some(version(runs).minor()).filter(|minor| *minor >= Minor::V3_6);
        });
        see(&mut world);
        world.desired = desired_of(&format!(r#"{{"size": {size}, "version": "{asked}"}}"#));
        world
    }

    /// The status says what each member runs, as the last round wrote it.
    fn see(world: &mut World) {
        let details = world.observed.members.iter().filter_map(|(name, seen)| {
            let version = seen.answer()?.version.map(|version| version.to_string());
            Some(MemberDetails { name: name.to_string(), version, ..Default::default() })
        });
        let details: Vec<MemberDetails> = details.collect();
        let lowest = details.iter().filter_map(|details| details.version.clone()).min();
        world.observed.resource.status.member_details = Some(details);
        world.observed.resource.status.current_version = lowest;
    }

    /// The pod that is relaunched next, and with which version.
    fn relaunched(world: &World) -> Option<(String, String)> {
        world.plan().steps.into_iter().find_map(|step| match step {
            Step::RelaunchMember { pod, version, .. } => Some((pod, version.to_string())),
            _ => None,
        })
    }

    /// The patch of the next step lands, as the API server would write it.
    fn land(world: &mut World) -> usize {
        let desired = world.desired.clone().unwrap();
        let effect = world.plan().steps.iter().flat_map(|step| step.lower(&desired)).next_back().unwrap();
        let Effect::RelaunchPod { name, annotations, .. } = effect else { panic!("{effect:?}") };
        let ordinal = world.observed.pods.iter().position(|pod| pod.name == name).unwrap();
        let pod = world.pod(ordinal);
        for (key, value) in annotations {
            match key.as_str() {
                ORDER_ANNOTATION => pod.order = OrderSeen::Order(launch::LaunchOrder::read(&value).unwrap()),
                ANNOTATION_INPUTS => pod.inputs = Some(value),
                _ => drop(pod.annotations.insert(key, value)),
            }
        }
        ordinal
    }

    /// The kubelet starts the container again, and etcd serves in the version that it was given.
    fn serve(world: &mut World, ordinal: usize) {
        let pod = world.pod(ordinal);
        let mut etcd = container(ContainerState::Running);
        etcd.restarts = pod.etcd().map_or(0, |etcd| etcd.restarts) + 1;
        etcd.id = Some(format!("containerd://{ordinal}-{}", etcd.restarts));
        (pod.containers, pod.ready) = (vec![etcd], Readiness::Ready);
        let runs = pod.version();
        world.change_answer(ordinal, |answer| answer.version = runs);
    }

    fn lead(world: &mut World, ordinal: usize) {
        let id = MemberId(u64::try_from(ordinal).unwrap() + 1);
        world.change_all(|answer| answer.leader = Some(id));
    }

    /// Rolls until nothing is to be done any more: what happened, in order.
    fn walk(world: &mut World) -> Vec<String> {
        let mut story = Vec::new();
        for _ in 0..60 {
            let plan = world.plan();
            story.extend(plan.events.iter().map(ToString::to_string));
            see(world);
            world.budgeted();
            match plan.steps.iter().find(|step| !step.is_ensure()) {
                Some(Step::RelaunchMember { pod, version, .. }) => {
                    story.push(format!("{pod} {version}"));
                    let ordinal = land(world);
                    assert_eq!(relaunched(world), None, "nobody else while one is relaunched");
                    serve(world, ordinal);
                }
                Some(Step::MoveLeader { to, .. }) => {
                    story.push(format!("leader {}", to.0));
                    let ordinal = usize::try_from(to.0).unwrap() - 1;
                    lead(world, ordinal);
                }
                Some(Step::ChangeDowngrade { to, .. }) => {
                    story.push(format!("downgrade {to:?}"));
                    let (to, last) = (*to, *to);
                    world.change_all(|answer| {
                        answer.downgrade = to;
                        answer.storage_version = last.or(answer.version.map(EtcdVersion::minor));
                    });
                }
                Some(other) => panic!("{other:?}"),
                None if plan.waiting.iter().any(|w| w.reason.as_str() == "WaitingForClusterVersion") => {
                    story.push("cluster version".to_owned());
                    world
                        .change_all(|answer| answer.cluster_version = answer.version.map(EtcdVersion::minor));
                }
                None if plan.events.is_empty() && plan.steps.is_empty() => return story,
                None => {}
            }
        }
        panic!("no end: {story:?}")
    }

    fn name(world: &World, ordinal: usize) -> String {
        world.name(ordinal).to_string()
    }

    #[test]
    fn followers_go_first_and_the_leader_last_after_it_has_handed_over_to_one_that_went() {
        let mut world = running(3, "3.6.11", "3.6.14");
        let story = walk(&mut world);
        let (first, second, third) = (name(&world, 0), name(&world, 1), name(&world, 2));
        let told = |member: &str| format!("Member {member} upgraded from 3.6.11 to 3.6.14");
        let expected = [
            format!("{second} 3.6.14"),
            told(&second),
            format!("{third} 3.6.14"),
            told(&third),
            "leader 2".to_owned(),
            format!("{first} 3.6.14"),
            told(&first),
        ];
        assert_eq!(story, expected);
        assert_eq!((world.steps(), world.waits()), (vec![], vec![]));
    }

    #[test]
    fn a_jump_over_several_minors_stops_at_each_until_the_cluster_has_agreed_on_it() {
        let mut world = running(3, "3.4.23", "3.7.1");
        let story = walk(&mut world);
        let versions: Vec<&str> = story
            .iter()
            .filter(|line| !line.starts_with("Member") && !line.starts_with("leader"))
            .map(|line| line.split_once(' ').map_or(line.as_str(), |(_, version)| version))
            .collect();
        let minor = |version| vec![version; 3];
        let agreed = || vec!["version"];
        assert_eq!(versions, [minor("3.5.33"), agreed(), minor("3.6.14"), agreed(), minor("3.7.1")].concat());
        assert_eq!(world.plan().report.status.current_version.as_deref(), Some("3.7.1"));
    }

    #[test]
    fn nobody_may_be_evicted_while_members_are_restarted() {
        let mut world = running(3, "3.5.33", "3.6.14");
        assert_eq!(
            world.steps(),
            ["EnsureBudget", "RelaunchMember"],
            "the budget has risen before the first one rests"
        );
        let desired = world.desired.clone().unwrap();
        let effect = world.plan().steps.iter().flat_map(|step| step.lower(&desired)).next().unwrap();
        let Effect::ApplyBudget { budget, .. } = effect else { panic!("{effect:?}") };
        let stay = budget.spec.unwrap().min_available.unwrap();
        assert_eq!(stay, k8s_openapi::apimachinery::pkg::util::intstr::IntOrString::Int(3));
        walk(&mut world);
        let SeenBudget::Ours { min_available, .. } = world.observed.budget else { panic!("no budget") };
        assert_eq!(min_available, Some(2), "and has fallen after the last one");
    }

    #[test]
    fn before_3_3_the_leader_cannot_hand_over_and_goes_last_all_the_same() {
        let mut world = running(3, "3.1.10", "3.2.13");
        let story = walk(&mut world);
        assert!(!story.iter().any(|line| line.starts_with("leader")), "{story:?}");
        assert!(story[4].starts_with(&name(&world, 0)), "{story:?}");
    }

    #[test]
    fn the_status_reads_as_in_the_book_while_members_are_upgraded() {
        let mut world = running(3, "3.5.33", "3.6.14");
        let ordinal = land(&mut world);
        let status = world.plan().report.status;
        let conditions = status.conditions.as_deref().unwrap_or_default();
        let upgrading = api::condition::find(conditions, api::ConditionType::Upgrading).unwrap();
        assert_eq!(upgrading.reason.as_deref(), Some("Cluster upgrading"));
        assert_eq!(upgrading.message.as_deref(), Some("upgrading to 3.6.14"));
        assert_eq!(
            (status.current_version.as_deref(), status.target_version.as_deref()),
            (Some("3.5.33"), Some("3.6.14"))
        );
        assert_eq!(status.stop_over, None);
        serve(&mut world, ordinal);
        assert_eq!(world.plan().report.status.current_version.as_deref(), Some("3.5.33"), "the lowest");
        let far = running(3, "3.5.16", "3.7.1");
        let status = far.plan().report.status;
        assert_eq!(
            (status.target_version.as_deref(), status.stop_over.as_deref()),
            (Some("3.7.1"), Some("3.5.33"))
        );
    }

    type Change = fn(&mut World);

    #[test]
    fn nobody_is_restarted_while_another_is_down_behind_or_on_its_way() {
        let table: [(&str, Change, &str); 7] = [
            ("one is silent", |w| w.silence(2, Duration::ZERO), "WaitingForMemberBack"),
            ("one is not ready", |w| w.pod(2).ready = Readiness::NotReady, "UpgradeWaitsForMembers"),
            ("one is behind", |w| w.change_answer(2, |a| a.applied = Some(0)), "UpgradeWaitsForMembers"),
            (
                "one joins",
                |w| w.join("http://example-newnewnew1.example.default.svc:2380", true),
                "WaitingForMemberJoined",
            ),
            (
                "the image of one has just changed",
                |w| {
                    let id = "containerd://1".to_owned();
                    w.pod(2).annotations.insert(ANNOTATION_RELAUNCHED.to_owned(), id);
                },
                "UpgradingMember",
            ),
            (
                "one does not run yet what it was given",
                |w| {
                    let later = desired_of(r#"{"size": 3, "version": "3.6.14"}"#).unwrap();
                    w.pod(2).inputs = Some(later.inputs(later.version));
                    if let OrderSeen::Order(order) = &mut w.pod(2).order {
                        order.version = later.version;
                    }
                    w.pod(2).annotations.insert(ANNOTATION_VERSION.to_owned(), "3.6.14".to_owned());
                },
                "UpgradingMember",
            ),
            ("nobody leads", |w| w.change_all(|a| a.leader = None), "UpgradeWaitsForMembers"),
        ];
        for (title, change, word) in table {
            let mut world = running(3, "3.5.33", "3.6.14");
            assert!(relaunched(&world).is_some());
            change(&mut world);
            assert_eq!(relaunched(&world), None, "{title}");
            assert!(world.waits().contains(&word), "{title}: {:?}", world.waits());
        }
    }

    #[test]
    fn healing_comes_first() {
        let mut world = running(3, "3.5.33", "3.6.14");
        world.drop_pod(2);
        assert_eq!(world.steps(), ["RemoveMember"]);
        world.unlist(2);
        let plan = world.plan();
        let Some(Step::AddMember { version, .. }) = plan.steps.iter().find(|step| step.is_risky()) else {
            panic!("{:?}", plan.steps)
        };
        assert_eq!(version.to_string(), "3.5.33", "as the others run it");
    }

    #[test]
    fn one_that_joins_midway_runs_what_others_run_already() {
        let mut world = running(3, "3.5.33", "3.6.14");
        let ordinal = land(&mut world);
        world.drop_pod(2);
        world.unlist(2);
        let joins = |world: &World| {
            world.plan().steps.into_iter().find_map(|step| match step {
                Step::AddMember { version, .. } => Some(version.to_string()),
                _ => None,
            })
        };
        assert_eq!(joins(&world).as_deref(), Some("3.5.33"), "what was ordered runs nowhere yet");
        serve(&mut world, ordinal);
        assert_eq!(joins(&world).as_deref(), Some("3.6.14"));
    }

    #[test]
    fn a_member_that_does_not_come_up_keeps_its_place_and_is_given_what_the_spec_says_next() {
        for (size, asked) in [(1, "3.6.99"), (3, "3.6.99"), (3, "3.5.40")] {
            let mut world = running(size, "3.5.33", asked);
            let ordinal = land(&mut world);
            let pulling = |id: &str| {
                let mut etcd = container(waiting("ImagePullBackOff", "no such tag"));
                etcd.id = Some(id.to_owned());
                etcd
            };
            world.pod(ordinal).containers = vec![pulling("containerd://1")];
            world.silence(ordinal, Duration::from_hours(9));
            world.budgeted();
            assert_eq!(
                world.steps(),
                [""; 0],
                "{size} {asked}: nobody is removed, and nobody else is touched"
            );
            assert!(world.waits().contains(&"MemberNotUpgraded"), "{size}: {:?}", world.waits());
            let uid = world.pod(ordinal).uid.clone();
            // The operator may have restarted; all it has is what stands in the pods and in the status.
            world.desired = desired_of(&format!(r#"{{"size": {size}, "version": "3.5.33"}}"#));
            assert_eq!(
                relaunched(&world),
                Some((name(&world, ordinal), "3.5.33".to_owned())),
                "{size} {asked}"
            );
            assert_eq!(land(&mut world), ordinal);
            assert_eq!(world.pod(ordinal).uid, uid);
            world.budgeted();
            assert_eq!(world.steps(), [""; 0], "once");
        }
    }

    #[test]
    fn one_that_is_on_its_way_over_a_minor_is_not_given_the_one_after() {
        for written_down in [true, false] {
            let mut world = running(3, "3.5.33", "3.7.1");
            for _ in 0..2 {
                let ordinal = land(&mut world);
                serve(&mut world, ordinal);
                see(&mut world);
                lead(&mut world, ordinal);
            }
            let last = land(&mut world);
            let mut etcd = container(waiting("ContainerCreating", ""));
            etcd.id = world.pod(last).etcd().and_then(|etcd| etcd.id.clone());
            world.pod(last).containers = vec![etcd];
            world.silence(last, Duration::from_secs(1));
            if !written_down {
                world.observed.resource.status.member_details = None;
            }
            assert_eq!(relaunched(&world), None, "{written_down}");
            if written_down {
                assert_eq!(world.plan().report.status.stop_over.as_deref(), Some("3.6.14"));
            }
        }
    }

    #[test]
    fn one_that_died_before_it_was_written_down_is_not_brought_below_what_the_cluster_has_agreed_on() {
        let mut world = running(3, "3.5.33", "3.6.14");
        for _ in 0..3 {
            see(&mut world);
            let ordinal = land(&mut world);
            serve(&mut world, ordinal);
            lead(&mut world, 1);
        }
        let (agreed, last) = (Some(Minor::V3_6), 0);
        world.change_all(|answer| (answer.cluster_version, answer.storage_version) = (agreed, agreed));
        world.pod(last).containers = vec![{
            let mut etcd = container(waiting("CrashLoopBackOff", "back-off"));
            (etcd.id, etcd.restarts) = (Some("containerd://5".to_owned()), 5);
            etcd
        }];
        world.silence(last, Duration::from_secs(1));
        world.desired = desired_of(r#"{"size": 3, "version": "3.5.33"}"#);
        assert_eq!(relaunched(&world), None);
    }

    #[test]
    fn a_way_down_that_is_not_wanted_any_more_is_closed_also_before_anybody_took_it() {
        for asked in ["3.6.14", "3.6.13", "3.7.1"] {
            let mut world = running(3, "3.6.14", asked);
            world.change_all(|answer| {
                (answer.downgrade, answer.cluster_version) = (Some(Minor::V3_5), Some(Minor::V3_5));
            });
            let steps = world.plan().steps;
            let cancels = |step: &Step| matches!(step, Step::ChangeDowngrade { to: None, .. });
            assert!(matches!(steps.as_slice(), [step] if cancels(step)), "{asked}: {steps:?}");
        }
    }

    #[test]
    fn a_member_whose_new_version_crashes_is_treated_the_same() {
        let mut world = running(3, "3.5.33", "3.6.14");
        let ordinal = land(&mut world);
        let mut etcd = container(waiting("CrashLoopBackOff", "back-off"));
        (etcd.id, etcd.restarts) = (Some("containerd://5".to_owned()), 5);
        world.pod(ordinal).containers = vec![etcd];
        world.silence(ordinal, Duration::from_hours(9));
        world.budgeted();
        assert_eq!(world.steps(), [""; 0]);
        assert!(world.waits().contains(&"MemberNotUpgraded"), "{:?}", world.waits());
        // In the moment in which it is tried again it counts as little as in between.
        let mut etcd = container(ContainerState::Running);
        (etcd.id, etcd.restarts) = (Some("containerd://6".to_owned()), 6);
        world.pod(ordinal).containers = vec![etcd];
        assert_eq!(world.steps(), [""; 0]);
    }

    #[test]
    fn one_that_was_seen_to_run_it_and_dies_later_is_replaced_as_any_other() {
        let mut world = running(3, "3.5.33", "3.6.14");
        walk(&mut world);
        let mut etcd = container(waiting("CrashLoopBackOff", "back-off"));
        (etcd.id, etcd.restarts) = (Some("containerd://5".to_owned()), 5);
        world.pod(2).containers = vec![etcd];
        world.silence(2, Duration::from_hours(9));
        assert_eq!(world.steps(), ["RemoveMember"]);
    }

    #[test]
    fn the_newest_spec_wins_also_halfway_and_back() {
        let mut world = running(3, "3.5.33", "3.6.14");
        let ordinal = land(&mut world);
        serve(&mut world, ordinal);
        see(&mut world);
        world.desired = desired_of(r#"{"size": 3, "version": "3.5.33"}"#);
        assert_eq!(
            relaunched(&world),
            Some((name(&world, ordinal), "3.5.33".to_owned())),
            "no downgrade of etcd's"
        );
        world.desired = desired_of(r#"{"size": 3, "version": "3.6.13"}"#);
        assert_eq!(relaunched(&world).unwrap().1, "3.6.13");
    }

    #[test]
    fn two_and_one_are_interrupted_and_that_is_said() {
        for size in [1, 2] {
            let world = running(size, "3.5.33", "3.6.14");
            assert_eq!(
                relaunched(&world).unwrap().0,
                name(&world, size - 1),
                "a follower, where there is one"
            );
            assert!(world.waits().contains(&"UpgradeInterrupts"), "{:?}", world.waits());
        }
    }

    #[test]
    fn another_repository_is_rolled_too() {
        let mut world = running(3, "3.6.14", "3.6.14");
        world.desired = desired_of(r#"{"size": 3, "repository": "mirror/etcd"}"#);
        let story = walk(&mut world);
        assert_eq!(story.len(), 4, "{story:?}");
        assert_eq!((world.steps(), world.waits()), (vec![], vec![]));
    }

    #[test]
    fn a_version_that_cannot_be_reached_is_refused_and_costs_nothing_else() {
        for (runs, asked, words) in
            [("3.5.33", "3.4.23", "restore a snapshot"), ("3.3.27", "3.1.10", "restore a snapshot")]
        {
            let mut world = running(3, runs, asked);
            assert_eq!((world.steps(), world.waits()), (vec![], vec!["UpgradeRefused"]), "{asked}");
            let sentence = world.plan().waiting[0].reason.to_string();
            assert!(sentence.contains(words), "{sentence}");
            let status = world.plan().report.status;
            assert_eq!((status.target_version, status.stop_over), (None, None));
            world.drop_pod(2);
            assert_eq!(world.steps(), ["RemoveMember"], "{asked}");
        }
    }

    #[test]
    fn down_goes_one_minor_at_a_time_after_etcd_has_agreed_and_rewritten_its_data() {
        let mut world = running(3, "3.7.1", "3.5.33");
        let story = walk(&mut world);
        let versions: Vec<&str> = story
            .iter()
            .filter(|line| !line.starts_with("Member") && !line.starts_with("leader"))
            .map(|line| line.split_once(' ').map_or(line.as_str(), |(_, version)| version))
            .collect();
        assert_eq!(versions[..4], ["Some(V3_6)", "3.6.14", "3.6.14", "3.6.14"], "{story:?}");
        assert_eq!(versions[versions.len() - 3..], ["3.5.33"; 3], "{story:?}");
        let mut waits = running(3, "3.6.14", "3.5.33");
        assert_eq!(waits.steps().last(), Some(&"ChangeDowngrade"));
        waits.change_all(|answer| answer.downgrade = Some(Minor::V3_5));
        assert_eq!(relaunched(&waits), None);
        assert!(waits.waits().contains(&"WaitingForStorageVersion"), "{:?}", waits.waits());
    }

    #[test]
    fn a_downgrade_that_is_turned_back_is_cancelled_first() {
        let mut world = running(3, "3.6.14", "3.5.33");
        world.change_all(|answer| {
            answer.downgrade = Some(Minor::V3_5);
            answer.storage_version = Some(Minor::V3_5);
        });
        let ordinal = land(&mut world);
        serve(&mut world, ordinal);
        see(&mut world);
        world.desired = desired_of(r#"{"size": 3, "version": "3.6.14"}"#);
        world.change_all(|answer| answer.cluster_version = Some(Minor::V3_5));
        let story = walk(&mut world);
        assert_eq!(
            story[..2],
            ["downgrade None".to_owned(), format!("{} 3.6.14", name(&world, ordinal))],
            "{story:?}"
        );
    }

    #[test]
    fn what_is_sent_starts_the_member_on_its_data_or_not_at_all() {
        let world = running(3, "3.5.33", "3.6.14");
        let desired = world.desired.clone().unwrap();
        let effects: Vec<Effect> = world.plan().steps.iter().flat_map(|step| step.lower(&desired)).collect();
        let Some(Effect::RelaunchPod { name, uid, resource_version, basis, image, annotations }) =
            effects.last()
        else {
            panic!("{effects:?}")
        };
        let pod = world.observed.pods.iter().find(|pod| pod.name == *name).unwrap();
        assert_eq!(
            (uid, resource_version, image.as_str()),
            (&pod.uid, &pod.resource_version, "quay.io/coreos/etcd:v3.6.14")
        );
        let order = launch::LaunchOrder::read(&annotations[ORDER_ANNOTATION]).unwrap();
        assert_eq!((order.intent, order.version), (launch::Intent::Restart, version("3.6.14")));
        assert_eq!(order.seal, order_of(pod).seal);
        assert_eq!(basis.as_ref().unwrap().through, world.name(0), "through the leader");
    }
}
