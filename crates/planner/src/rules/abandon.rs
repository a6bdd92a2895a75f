//! An attempt that cannot form any more, or is not what the spec asks for, makes way for the next: new token, new names, new pods.
//! Nothing is lost by it, since no client was let in yet; after the cluster has formed this never happens (invariant I8). One that got in
//! all the same (`holding`) keeps its attempt from being given up: that counts as formed (`formed`). Where a member serves that does not tell,
//! it is waited for.
//!
//! A missing pod ends the attempt, whether it was ever made or not. From the outside the two look the same, and a member that
//! started, voted and came back empty under its name can undo what the others hold for decided (invariant I5). So a name is used for
//! one creation, right after the latch. The exception is a pod that the API server refused: that one is known not to exist.

use std::{collections::BTreeSet, time::Duration};

use api::{Birth, Event, Reason};
use launch::MemberName;

use super::{Decision, Flow, Situation, after, first_birth, formed, members};
use crate::{
    Waiting,
    holding::Holding,
    observed::{OrderSeen, PodPhase, Readiness, SeenMember, SeenPod},
    safety,
    step::BirthCause,
};

/// How long a started member may be silent before it counts as lost. A stuck process is restarted by the kubelet long before; so this
/// is about nodes that are gone, which nobody else tells us of.
const SILENCE: Duration = Duration::from_mins(5);

/// How long a pod may be on a node in the first attempt without anything of it having run, where nobody says why. Each attempt waits
/// twice as long as the one before, so that the slowest registry is waited for in the end.
const START: Duration = Duration::from_mins(15);

pub(super) fn ask(situation: &Situation<'_>, decision: &mut Decision) -> Flow {
    let Some(birth) = situation.view.birth.filter(|birth| !birth.formed) else { return Flow::Next };
    if !decision.act.is_empty() {
        return Flow::Next;
    }
    let Some((cause, member, why)) = cause(situation) else { return Flow::Next };
    if formed::is_written(situation) {
        return Flow::Next;
    }
    let mut current = situation.view.current();
    if let Some(pod) = current.find(|pod| Holding::of(situation.observed, pod) == Holding::Unknown) {
        let member = pod.name.clone();
        decision.wait(Waiting::blocked(Reason::AbandonmentUnsafe { member, why }));
        return Flow::Next;
    }
    let pause = pause_after(birth).saturating_sub(situation.observed.birth_known_for);
    if !pause.is_zero() {
        let reason = Reason::BirthAbandoned { incarnation: birth.incarnation, why };
        decision.wait(Waiting::passing(reason).until(after(situation.observed.now, pause)));
        return Flow::Next;
    }
    if first_birth::begin(situation, decision, cause) {
        decision.events.push(Event::BirthAbandoned { member, incarnation: birth.incarnation, why });
    }
    Flow::Next
}

/// The first attempts follow each other at once. One that fails again and again has a cause that speed does not cure.
fn pause_after(birth: &Birth) -> Duration {
    let doublings = birth.incarnation.saturating_sub(3).clamp(0, 6);
    if doublings == 0 { Duration::ZERO } else { Duration::from_secs(1 << doublings) }
}

/// Why the attempt is over: the cause, a member that shows it, and a sentence.
pub(super) fn cause(situation: &Situation<'_>) -> Option<(BirthCause, String, String)> {
    let attempt = situation.view.attempt.as_ref()?;
    let desired = situation.desired;
    let is_other = |pod: &&SeenPod| !pod.differences(desired, desired.version).is_empty();
    if let Some(pod) = situation.view.current().find(is_other) {
        let why = format!("the spec has changed since pod {} was made", pod.name);
        return Some((BirthCause::SpecChanged, pod.name.clone(), why));
    }
    let members = situation.desired.founders(attempt);
    // The first members are told of each other, and of nobody else.
    let told = situation.view.current().find(|pod| match &pod.order {
        OrderSeen::Order(order) => safety::initial_cluster(order) != names(&members),
        OrderSeen::Missing | OrderSeen::Unreadable => false,
    });
    if let Some(pod) = told {
        let why = format!("the spec asks for other members than pod {} was told of", pod.name);
        return Some((BirthCause::SpecChanged, pod.name.clone(), why));
    }
    let losses: Vec<(MemberName, String)> =
        members.into_iter().filter_map(|member| loss(situation, &member).map(|why| (member, why))).collect();
    let (member, why) = losses.first()?;
    let why = format!("member {member} is lost, {why}");
    let (member, lost) = (member.to_string(), losses.iter().map(|(member, _)| member.clone()).collect());
    Some((BirthCause::Lost(lost), member, why))
}

fn names(members: &[MemberName]) -> BTreeSet<String> {
    members.iter().map(ToString::to_string).collect()
}

/// Why a member is lost, if it is. One that never started is not, as long as somebody can be working on it: it is waited for.
fn loss(situation: &Situation<'_>, member: &MemberName) -> Option<String> {
    let Some(pod) = situation.view.pod_of(member) else {
        let refused = situation.observed.refusal("Pod", member.as_str()).is_some();
        let awaited = situation.observed.awaited.contains(member);
        return (!refused && !awaited).then(|| "its pod is gone or was never made".to_owned());
    };
    pod.loss().or_else(|| silence(situation, pod, member)).or_else(|| stuck(situation, pod, member))
}

/// A member that has started as far as anybody knows, or whose node does not tell, and that has said nothing for minutes. That it
/// waits for its next start (in back-off) changes nothing: on a node that is gone that never comes.
fn silence(situation: &Situation<'_>, pod: &SeenPod, member: &MemberName) -> Option<String> {
    let Some(SeenMember::Unknown { gone_for, .. }) = situation.observed.members.get(member) else {
        return None;
    };
    let unheard_of = pod.ready == Readiness::Unknown && pod.node.is_some();
    let lost = (pod.may_have_started() || unheard_of) && !pod.is_ready() && *gone_for >= SILENCE;
    lost.then(|| format!("it has not answered for {} minutes", gone_for.as_secs() / 60))
}

/// A pod that a node has taken and that comes no further, without a word about why. That is what is left of one whose node died
/// after its kubelet had first told of it: Kubernetes turns `Ready` to False where it was True and changes nothing else, members
/// tolerate such nodes, so nobody deletes it, and we may not look at nodes. A slow pull looks the same; so this takes long.
fn stuck(situation: &Situation<'_>, pod: &SeenPod, member: &MemberName) -> Option<String> {
    let Some(SeenMember::Unknown { gone_for, .. }) = situation.observed.members.get(member) else {
        return None;
    };
    let node = pod.node.as_ref().filter(|_| pod.phase == PodPhase::Pending && !pod.may_have_started())?;
    let unexplained = members::waiting_of(pod).is_some_and(|waiting| waiting.passes);
    let lost = unexplained && *gone_for >= patience(situation.view.birth?);
    lost.then(|| format!("nothing has run in its pod on node {node} for {} minutes", gone_for.as_secs() / 60))
}

fn patience(birth: &Birth) -> Duration {
    START.saturating_mul(1 << birth.incarnation.saturating_sub(1).clamp(0, 6))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        RefusalClass, RefusedObject, Step,
        fixture::{World, attempt, birth, container, desired_of, ended, waiting},
        observed::ContainerState,
    };

    fn refuse(world: &mut World, ordinal: usize) {
        let name = world.name(ordinal).to_string();
        world.observed.pods.retain(|pod| pod.name != name);
        let at = "2026-01-01T00:09:58Z".parse().unwrap();
        let class = RefusalClass::Quota;
        world.observed.refusals.push(RefusedObject {
            kind: "Pod",
            name,
            class,
            message: "full".to_owned(),
            at,
        });
    }

    fn abandons(world: &World) -> bool {
        world.steps().contains(&"LatchBirth")
    }

    type Change = fn(&mut World);

    /// A node has taken the pod, its kubelet has told so, and nothing has been heard of it for so long.
    fn strand(world: &mut World, silent_for: Duration) {
        world.silence(1, silent_for);
        world.pod(1).node = Some("node".to_owned());
        world.pod(1).containers = vec![container(waiting("PodInitializing", ""))];
    }

    #[test]
    fn that_a_pod_could_not_be_changed_does_not_mean_that_it_was_never_made() {
        let mut world = World::up();
        world.refuse(crate::POD_METADATA, 1);
        world.drop_pod(1);
        assert!(abandons(&world), "{:?} {:?}", world.steps(), world.waits());
    }

    #[test]
    fn a_lost_member_ends_the_attempt() {
        let table: [(&str, Change); 12] = [
            ("its node died after it had told of the pod", |w| strand(w, START)),
            ("its node is gone while it waits for its next start", |w| {
                w.silence(1, SILENCE);
                let mut etcd = container(waiting("CrashLoopBackOff", "back-off"));
                (etcd.last_end, etcd.restarts) = (Some(ended("killed")), 1);
                w.pod(1).containers = vec![etcd];
            }),
            ("its node is gone before it started", |w| {
                w.silence(1, SILENCE);
                w.pod(1).ready = Readiness::Unknown;
                w.pod(1).node = Some("node".to_owned());
            }),
            ("a pod is gone", |w| drop(w.observed.pods.remove(1))),
            ("all pods are gone", |w| w.observed.pods.clear()),
            ("a pod is being deleted", |w| w.pod(1).deleting = true),
            ("a pod was evicted", |w| w.pod(1).phase = PodPhase::Failed),
            ("a pod is over", |w| w.pod(1).phase = PodPhase::Succeeded),
            ("a pod of that name is not ours", |w| w.pod(1).owner_uid = None),
            ("its data is gone", |w| {
                let refusal = launch::Refusal::DataLost { member: "a".to_owned() };
                let end = ContainerState::Terminated(ended(&refusal.to_termination_message()));
                w.pod(1).containers = vec![container(end)];
            }),
            ("its node is gone", |w| {
                w.answer(1);
                w.silence(1, SILENCE);
            }),
            ("its node is gone while the others serve", |w| {
                (0..3).for_each(|ordinal| w.answer(ordinal));
                w.silence(1, SILENCE);
            }),
        ];
        for (loss, change) in table {
            let mut world = World::forming();
            change(&mut world);
            assert!(abandons(&world), "{loss}");
            let plan = world.plan();
            assert_eq!(plan.events.len(), 1, "{loss}");
            assert!(plan.events[0].is_warning());
            let latch = plan.steps.iter().find(|step| step.is_risky()).unwrap();
            let Step::LatchBirth { birth, because, .. } = latch else { panic!("{latch:?}") };
            assert_eq!(
                (birth.incarnation, birth.formed, birth.token.as_str()),
                (2, false, "fresh"),
                "{loss}"
            );
            assert!(matches!(because, BirthCause::Lost(_)), "{loss}");
        }
    }

    #[test]
    fn a_member_that_never_started_or_is_slow_is_waited_for() {
        let table: [(&str, Change); 9] = [
            ("pods are new", |_| ()),
            ("its image is large", |w| strand(w, START.saturating_sub(Duration::from_secs(1)))),
            ("its image is not there, and its node says so", |w| {
                strand(w, START * 10);
                w.pod(1).containers.push(container(waiting("ErrImagePull", "no such image")));
            }),
            ("no node takes it", |w| w.pod(1).unschedulable = Some("0/3 nodes".to_owned())),
            ("its image is not there", |w| {
                w.pod(1).containers = vec![container(waiting("ImagePullBackOff", "no such image"))];
            }),
            ("a quota refused it", |w| refuse(w, 1)),
            ("the launcher refused another version", |w| {
                let refusal = launch::Refusal::OrderMissing;
                w.pod(1).containers =
                    vec![container(ContainerState::Terminated(ended(&refusal.to_termination_message())))];
            }),
            ("it was silent for a while", |w| {
                w.answer(1);
                w.silence(1, SILENCE.saturating_sub(Duration::from_secs(1)));
            }),
            ("we cannot reach it, and the kubelet can", |w| {
                w.answer(1);
                w.silence(1, SILENCE);
                w.pod(1).ready = crate::Readiness::Ready;
            }),
        ];
        for (situation, change) in table {
            let mut world = World::forming();
            change(&mut world);
            assert!(!abandons(&world), "{situation}");
        }
    }

    #[test]
    fn every_attempt_waits_twice_as_long_for_a_pod_that_does_not_start() {
        for (incarnation, minutes) in [(1, 15), (2, 30), (3, 60), (7, 960), (i64::MAX, 960)] {
            assert_eq!(patience(&birth(incarnation)), Duration::from_mins(minutes), "{incarnation}");
        }
        let mut world = World::new(r#"{"size": 1}"#);
        world.born(birth(2));
        let name = attempt(2).member("example", 0).unwrap();
        world.add_pod_of(&desired_of(r#"{"size": 1}"#).unwrap(), &attempt(2), &name);
        world.pod(0).node = Some("node".to_owned());
        world.pod(0).ready = Readiness::NotReady;
        let mut silent = |silent_for| {
            let unknown =
                SeenMember::Unknown { why: "no answer".to_owned(), silent_for, gone_for: silent_for };
            world.observed.members.insert(name.clone(), unknown);
            abandons(&world)
        };
        assert!(!silent(START) && silent(START * 2));
    }

    #[test]
    fn a_spec_that_changed_before_the_cluster_had_formed_begins_anew() {
        for spec in [
            r#"{"size": 1}"#,
            r#"{"size": 5}"#,
            r#"{"size": 3, "version": "3.5.33"}"#,
            r#"{"size": 3, "pod": {"nodeSelector": {"a": "b"}}}"#,
        ] {
            let mut world = World::forming();
            world.desired = desired_of(spec);
            assert!(abandons(&world), "{spec}");
        }
        let mut seed = World::forming();
        seed.desired = desired_of(r#"{"size": 3, "bootstrap": "Seed"}"#);
        assert!(abandons(&seed), "the seed would have been told of two others");
    }

    #[test]
    fn a_seed_that_is_lost_before_the_cluster_had_formed_makes_way_and_its_size_may_change() {
        let seed = || {
            let mut world = World::new(r#"{"size": 3, "bootstrap": "Seed"}"#);
            world.born(birth(1));
            let desired = world.desired.clone().unwrap();
            world.add_pod_of(
                &desired,
                &crate::fixture::attempt(1),
                &desired.founders(&crate::fixture::attempt(1))[0],
            );
            world
        };
        assert!(!abandons(&seed()), "{:?}", seed().plan());
        let mut larger = seed();
        larger.desired = desired_of(r#"{"size": 5, "bootstrap": "Seed"}"#);
        assert!(!abandons(&larger));
        let mut lost = seed();
        lost.observed.pods.clear();
        assert!(abandons(&lost));
    }

    /// What would give up an attempt in which two members serve and the third one never came.
    fn reasons_to_give_up() -> Vec<(&'static str, Change)> {
        vec![
            ("its size changes", |w| w.desired = desired_of(r#"{"size": 1}"#)),
            ("its version changes", |w| w.desired = desired_of(r#"{"size": 3, "version": "3.5.33"}"#)),
            ("its pods change", |w| {
                w.desired = desired_of(r#"{"size": 3, "pod": {"nodeSelector": {"a": "b"}}}"#);
            }),
            ("a pod that serves is drained", |w| w.pod(1).deleting = true),
            ("a pod that serves is gone", |w| w.drop_pod(1)),
            ("the pod that never came is deleted", |w| w.drop_pod(2)),
        ]
    }

    /// Two of three members serve; no node takes the third.
    fn two_of_three() -> World {
        let mut world = World::forming();
        (0..2).for_each(|ordinal| world.answer(ordinal));
        world.silence(2, Duration::ZERO);
        world.pod(2).unschedulable = Some("0/3 nodes".to_owned());
        world
    }

    #[test]
    fn an_attempt_in_which_a_client_has_written_is_never_given_up_and_counts_as_formed() {
        for (title, change) in reasons_to_give_up() {
            let mut world = two_of_three();
            world.change_answer(0, |answer| answer.revision += 1);
            change(&mut world);
            let plan = world.plan();
            let latch = plan.steps.iter().find(|step| step.is_risky());
            let Some(Step::LatchFormed { birth, .. }) = latch else { panic!("{title}: {:?}", plan.steps) };
            assert_eq!((birth.incarnation, birth.cluster_id.as_deref()), (1, Some("cc")), "{title}");
            let mut empty = two_of_three();
            change(&mut empty);
            assert!(abandons(&empty), "{title}: {:?}", empty.waits());
        }
    }

    #[test]
    fn what_a_client_wrote_waits_for_a_member_that_is_late_before_the_cluster_counts_as_formed() {
        for (silent_for, formed) in [(0, false), (59, false), (60, true)] {
            let mut world = two_of_three();
            world.change_answer(1, |answer| answer.revision = 2);
            world.silence(2, Duration::from_secs(silent_for));
            assert_eq!(world.steps().contains(&"LatchFormed"), formed, "{silent_for}");
            assert_eq!(world.steps().len(), if formed { 3 } else { 2 }, "{:?}", world.steps());
        }
    }

    #[test]
    fn what_was_written_is_not_given_up_while_a_permission_cannot_be_withdrawn() {
        let mut world = two_of_three();
        world.change_answer(0, |answer| answer.revision += 1);
        world.desired = desired_of(r#"{"size": 1}"#);
        world.refuse(crate::POD_METADATA, 1);
        assert!(world.plan().steps.iter().all(|step| !step.is_risky()), "{:?}", world.steps());
    }

    #[test]
    fn nothing_is_given_up_while_a_member_serves_that_does_not_tell_what_it_holds() {
        for (title, change) in reasons_to_give_up() {
            let mut world = two_of_three();
            for ordinal in 0..2 {
                world.silence(ordinal, Duration::ZERO);
                world.pod(ordinal).ready = Readiness::Ready;
            }
            change(&mut world);
            assert!(!abandons(&world), "{title}");
            assert!(world.waits().contains(&"AbandonmentUnsafe"), "{title}: {:?}", world.waits());
            world.pod(0).ready = Readiness::NotReady;
            world.pod(1).ready = Readiness::NotReady;
            assert!(abandons(&world), "{title}: neither has a quorum");
        }
    }

    #[test]
    fn a_formed_cluster_is_never_abandoned_whatever_is_lost() {
        let losses: [Change; 3] = [
            |w| w.drop_pod(1),
            |w| {
                w.observed.pods.clear();
                w.observed.members.clear();
            },
            |w| w.desired = desired_of(r#"{"size": 5, "version": "3.5.33"}"#),
        ];
        for change in losses {
            let mut world = World::formed();
            change(&mut world);
            assert!(!world.steps().contains(&"LatchBirth"), "{:?}", world.steps());
        }
    }

    #[test]
    fn attempts_that_fail_again_and_again_come_more_slowly() {
        for (incarnation, seconds) in [(1, 0), (3, 0), (4, 2), (5, 4), (9, 64), (99, 64), (i64::MAX, 64)] {
            assert_eq!(pause_after(&birth(incarnation)), Duration::from_secs(seconds), "{incarnation}");
        }
        let mut world = World::new(r#"{"size": 3}"#);
        world.born(birth(5));
        world.observed.birth_known_for = Duration::from_secs(1);
        assert!(!abandons(&world) && world.waits().contains(&"BirthAbandoned"));
        let waiting = world.plan().waiting;
        assert_eq!(waiting[0].until.unwrap().to_string(), "2026-01-01T00:10:03Z");
        world.observed.birth_known_for = Duration::from_secs(4);
        assert!(abandons(&world));
    }
}
