//! A member that is lost is removed, so that another can take its place; one that may come back is given its time first.
//!
//! Never below a quorum by our own measure: the healthy ones that stay must be a quorum of the voters that stay. That also says what
//! happens at small sizes. Of three, the lost one is removed before another is added: etcd before 3.5.30 and 3.6.11 adds nobody
//! while a voter is down, and at no moment can the cluster lose less than with the other order. Of two, the loss of one is the loss of
//! the quorum, unless it is on its way out and still answers; of one it is the loss of everything. Then nothing is removed, and that
//! is said.

use std::{collections::BTreeSet, time::Duration};

use api::{Event, Reason};

use super::{Decision, Flow, Situation, after};
use crate::{
    Waiting,
    course::{is_held_by_relaunch, is_unproven},
    membership::{Fate, Membership, Seat},
    observed::{ContainerState, OrderSeen, RefusalClass},
    step::{Leaving, Step},
    waiting,
};

/// How long a member that joins may come no further before another one is tried in its place.
pub(crate) const JOIN_PATIENCE: Duration = Duration::from_mins(10);
/// How long a member that somebody else added may take to start, where it is in the way.
const UNKNOWN_PATIENCE: Duration = Duration::from_mins(1);

pub(super) fn ask(situation: &Situation<'_>, decision: &mut Decision) -> Flow {
    let Some(membership) = &situation.membership else { return Flow::Next };
    for seat in &membership.seats {
        let leaving = match verdict(situation, membership, seat) {
            Verdict::Stays => continue,
            Verdict::Waits(waiting) => {
                decision.wait(waiting);
                continue;
            }
            Verdict::Leaves(leaving) => leaving,
        };
        if seat.is_voter() && !membership.can_lose(seat) {
            let (member, why) = (seat.title(), leaving.in_words());
            decision.wait(Waiting::blocked(Reason::RemovalRisky { member, why }));
            continue;
        }
        if decision.may_act() && !paused_by_etcd(situation, decision) {
            remove(situation, membership, seat, leaving, decision);
        }
    }
    Flow::Next
}

enum Verdict {
    Stays,
    Waits(Waiting),
    Leaves(Leaving),
}

fn verdict(situation: &Situation<'_>, membership: &Membership<'_>, seat: &Seat<'_>) -> Verdict {
    let (observed, now) = (situation.observed, situation.observed.now);
    let stalled = Membership::stalled_for(observed, seat.listed.id);
    let until = |patience: Duration, passed: Duration| after(now, patience.saturating_sub(passed));
    let joins = seat.is_joining();
    match &seat.fate {
        Fate::Lost(why) if joins => Verdict::Leaves(Leaving::NotJoined(why.clone())),
        Fate::Lost(why) => Verdict::Leaves(Leaving::Lost(why.clone())),
        Fate::Unmade if name_is_taken(situation, seat) => {
            Verdict::Leaves(Leaving::NotJoined("its name is in use".to_owned()))
        }
        Fate::Unknown if stalled >= unknown_patience(situation, membership, seat) => {
            Verdict::Leaves(Leaving::Unknown)
        }
        Fate::Unknown => Verdict::Waits(
            Waiting::passing(Reason::UnknownMember { member: seat.title() })
                .until(until(unknown_patience(situation, membership, seat), stalled)),
        ),
        Fate::Disowned(owner) => {
            let (pod, owner) = (seat.title(), owner.clone());
            Verdict::Waits(Waiting::blocked(Reason::PodDisowned { pod, owner }))
        }
        Fate::Foreign => Verdict::Waits(Waiting::blocked(Reason::ForeignMember { member: seat.title() })),
        Fate::Silent { .. } if joins && is_outdated(situation, membership, seat) => {
            Verdict::Leaves(Leaving::Outdated)
        }
        Fate::Silent { .. } if joins && is_told_of_others(membership, seat) => {
            let why = "the members have changed since it was told of them";
            Verdict::Leaves(Leaving::NotJoined(why.to_owned()))
        }
        Fate::Unmade | Fate::Silent { .. } | Fate::Healthy if joins => {
            let minutes = stalled.as_secs() / 60;
            let why = format!("it has come no further for {minutes} minutes");
            if stalled >= JOIN_PATIENCE {
                return Verdict::Leaves(Leaving::NotJoined(why));
            }
            let reason = Reason::WaitingForMemberJoined { member: seat.title() };
            Verdict::Waits(Waiting::passing(reason).until(until(JOIN_PATIENCE, stalled)))
        }
        Fate::Silent { why, gone_for } => silent(situation, membership, seat, why, *gone_for),
        Fate::Unmade | Fate::Healthy => Verdict::Stays,
    }
}

/// How long a member that somebody else added may take to start. A voter that never starts costs the cluster the loss of another. A learner
/// costs nothing, unless a place has to be filled: etcd admits one learner at a time, so that nobody else can join meanwhile.
fn unknown_patience(situation: &Situation<'_>, membership: &Membership<'_>, seat: &Seat<'_>) -> Duration {
    let missing = membership.voters().count() < situation.desired.size
        || membership.voters().any(|voter| matches!(voter.fate, Fate::Lost(_)));
    if seat.is_voter() || missing { UNKNOWN_PATIENCE } else { situation.desired.grace.max(UNKNOWN_PATIENCE) }
}

/// A voter that may come back. Whom Kubernetes finds ready, or the others follow, is alive, whatever we can reach.
fn silent(
    situation: &Situation<'_>,
    membership: &Membership<'_>,
    seat: &Seat<'_>,
    why: &str,
    gone_for: Duration,
) -> Verdict {
    let alive = seat.pod.is_some_and(crate::SeenPod::is_ready) || membership.is_leader(seat);
    let grace = situation.desired.grace;
    // What it was given last keeps it down, and another one would be given the same. `roll` says so, and gives it what is right.
    let view = &situation.view;
    let held = seat.pod.is_some_and(|pod| is_held_by_relaunch(view, pod) || is_unproven(view, pod));
    if alive || held {
        return Verdict::Stays;
    }
    if gone_for >= grace {
        let minutes = gone_for.as_secs() / 60;
        return Verdict::Leaves(Leaving::Overdue(format!("it has not served for {minutes} minutes: {why}")));
    }
    let reason = Reason::WaitingForMemberBack { member: seat.title(), why: why.to_owned() };
    let until = after(situation.observed.now, grace.saturating_sub(gone_for));
    Verdict::Waits(Waiting::passing(reason).until(until))
}

/// Whether a pod that does not come up is not what the spec asks for any more: what was wrong with it may have been corrected.
fn is_outdated(situation: &Situation<'_>, membership: &Membership<'_>, seat: &Seat<'_>) -> bool {
    let Some(pod) = seat.pod.filter(|pod| pod.inputs.is_some()) else { return false };
    let version = membership.version_to_join(situation.desired.version);
    !pod.is_made_from(situation.desired) || (pod.version().is_some() && pod.version() != version)
}

/// Whether etcd ends in a pod that is to join, and will each time: before its first start it compares the members that it was told of with
/// those that there are, and one of these came or went meanwhile. Seen where a member was deleted just after another was added.
fn is_told_of_others(membership: &Membership<'_>, seat: &Seat<'_>) -> bool {
    let Some((pod, etcd)) = seat.pod.and_then(|pod| Some((pod, pod.etcd()?))) else { return false };
    let OrderSeen::Order(order) = &pod.order else { return false };
    let ended = etcd.last_end.is_some() || matches!(etcd.state, ContainerState::Terminated(_));
    let listed = membership.list.members.iter().flat_map(|member| &member.peer_urls).map(String::as_str);
    let told: BTreeSet<&str> = order.initial_cluster().map(|(_, address)| address).collect();
    ended && seat.listed.name.is_none() && told != listed.collect()
}

fn name_is_taken(situation: &Situation<'_>, seat: &Seat<'_>) -> bool {
    let refused = seat.name.as_ref().and_then(|name| situation.observed.refusal("Pod", name.as_str()));
    refused.is_some_and(|refused| refused.class == RefusalClass::NameTaken)
}

/// Whether etcd refused a change a moment ago; then it is left alone for a while.
pub(super) fn paused_by_etcd(situation: &Situation<'_>, decision: &mut Decision) -> bool {
    let observed = situation.observed;
    let refused = observed.refusals.iter().find(|refused| refused.kind == crate::effect::MEMBERS);
    let Some(waiting) = refused.and_then(|refused| waiting::too_soon(refused, observed.now)) else {
        return false;
    };
    decision.wait(Waiting { passes: true, ..waiting });
    true
}

/// Removes a member, and tells it in the classic operator's words.
pub(super) fn remove(
    situation: &Situation<'_>,
    membership: &Membership<'_>,
    seat: &Seat<'_>,
    because: Leaving,
    decision: &mut Decision,
) {
    let Some(basis) = membership.basis(None) else { return };
    let (member, id) = (seat.title(), seat.listed.id);
    let dead = matches!(because, Leaving::Lost(_) | Leaving::Overdue(_));
    if dead && membership.voters().count() <= situation.desired.size {
        decision.events.push(Event::ReplacingDeadMember { member: member.clone() });
    }
    decision.events.push(Event::MemberRemoved { member: member.clone() });
    decision.act = vec![Step::RemoveMember { basis, member, id, because }];
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        PodPhase, Readiness, RefusedObject, SeenPod,
        fixture::{World, attempt, container, ended, waiting},
        manifest,
    };

    const GRACE: Duration = Duration::from_mins(5);

    /// Who is removed, and why.
    fn removed(world: &World) -> Option<(String, Leaving)> {
        world.plan().steps.into_iter().find_map(|step| match step {
            Step::RemoveMember { member, because, .. } => Some((member, because)),
            _ => None,
        })
    }

    type Change = fn(&mut World);

    #[test]
    fn a_member_whose_data_is_gone_is_removed_at_once() {
        let table: [(&str, Change); 7] = [
            ("its pod is being deleted on a node that is gone: its data goes as soon as that is back", |w| {
                let pod = w.pod(1);
                pod.deleting = true;
                pod.ready = Readiness::NotReady;
                pod.node = Some("node".to_owned());
                w.silence(1, Duration::ZERO);
            }),
            ("its pod is gone", |w| w.drop_pod(1)),
            ("its pod is being deleted", |w| w.pod(1).deleting = true),
            ("its pod was evicted", |w| w.pod(1).phase = PodPhase::Failed),
            ("its pod is over", |w| w.pod(1).phase = PodPhase::Succeeded),
            ("its data is gone", |w| {
                let refusal = launch::Refusal::DataLost { member: "a".to_owned() };
                let end = ContainerState::Terminated(ended(&refusal.to_termination_message()));
                w.silence(1, Duration::ZERO);
                w.pod(1).containers = vec![container(end)];
            }),
            ("it leads, and its pod is being deleted", |w| {
                w.pod(1).deleting = true;
                (0..3).for_each(|n| w.change_answer(n, |answer| answer.leader = Some(crate::MemberId(2))));
            }),
        ];
        for (title, change) in table {
            let mut world = World::formed();
            change(&mut world);
            let (member, because) = removed(&world).unwrap_or_else(|| panic!("{title}: {:?}", world.waits()));
            assert_eq!(member, world.name(1).as_str(), "{title}");
            assert!(matches!(because, Leaving::Lost(_)), "{title}: {because:?}");
            let events: Vec<&str> = world.plan().events.iter().map(Event::reason).collect();
            assert_eq!(events, ["Replacing Dead Member", "Member Removed"], "{title}");
        }
    }

    #[test]
    fn a_member_that_may_come_back_is_given_its_time() {
        let table: [(&str, Change); 3] = [
            ("it is silent", |_| ()),
            ("its node is gone", |w| w.pod(1).ready = Readiness::Unknown),
            ("it crashes again and again", |w| {
                w.pod(1).containers = vec![container(waiting("CrashLoopBackOff", "back-off"))];
            }),
        ];
        for (title, change) in table {
            for (silent_for, leaves) in [(GRACE.saturating_sub(Duration::from_secs(1)), false), (GRACE, true)]
            {
                let mut world = World::formed();
                world.silence(1, silent_for);
                change(&mut world);
                let removed = removed(&world);
                assert_eq!(removed.is_some(), leaves, "{title} {silent_for:?}");
                assert!(leaves || world.waits().contains(&"WaitingForMemberBack"), "{title}");
                assert!(
                    leaves || world.plan().wake_at.unwrap().to_string().as_str() <= "2026-01-01T00:10:01Z"
                );
            }
        }
    }

    #[test]
    fn a_member_that_answers_and_does_not_reach_its_peers_is_given_its_time_too() {
        for (stalled, leaves) in [(None, false), (Some(Duration::from_secs(299)), false), (Some(GRACE), true)]
        {
            let mut world = World::formed();
            world.change_answer(1, |answer| answer.linearizable = false);
            world.pod(1).ready = Readiness::NotReady;
            world.observed.stalled.extend(stalled.map(|stalled| (crate::MemberId(2), stalled)));
            assert_eq!(removed(&world).is_some(), leaves, "{stalled:?}");
            assert!(leaves || world.waits().contains(&"WaitingForMemberBack"), "{:?}", world.waits());
            world.pod(1).ready = Readiness::Ready;
            assert_eq!(removed(&world), None, "Kubernetes finds it ready");
        }
    }

    #[test]
    fn a_silent_member_whose_pod_has_lost_all_its_marks_is_given_its_time_too() {
        let mut world = World::formed();
        world.desired = crate::fixture::desired_of(r#"{"size": 4}"#);
        world.join("http://example-newnewnew1.example.default.svc:2380", false);
        let pod = world.observed.pods.last_mut().unwrap();
        (pod.order, pod.attempt, pod.ready) = (OrderSeen::Missing, None, Readiness::NotReady);
        let (silent_for, gone_for) = (Duration::ZERO, Duration::ZERO);
        let silent = crate::SeenMember::Unknown { why: "no answer".to_owned(), silent_for, gone_for };
        world.observed.members.insert("example-newnewnew1".parse().unwrap(), silent);
        assert_eq!(removed(&world), None);
        assert!(world.waits().contains(&"WaitingForMemberBack"), "{:?}", world.waits());
    }

    #[test]
    fn whom_we_cannot_reach_and_others_can_is_not_removed() {
        let mut ready = World::formed();
        ready.silence(1, Duration::from_hours(9));
        ready.pod(1).ready = Readiness::Ready;
        assert_eq!(removed(&ready), None);
        let mut leads = World::formed();
        leads.silence(0, Duration::from_hours(9));
        assert_eq!(removed(&leads), None, "the others follow it");
    }

    #[test]
    fn nobody_is_removed_whom_the_rest_could_not_do_without() {
        for size in [1, 2] {
            let mut world = World::formed_of(size);
            world.drop_pod(size - 1);
            world.change_all(|answer| answer.linearizable = false);
            assert_eq!(removed(&world), None, "{size}");
        }
        let mut just_now = World::formed_of(2);
        just_now.pod(1).deleting = true;
        assert!(removed(&just_now).is_some(), "it still answers, so its vote can be taken back in time");
        let mut two_down = World::formed();
        two_down.pod(1).deleting = true;
        two_down.silence(2, Duration::ZERO);
        assert_eq!(removed(&two_down), None);
        assert!(two_down.waits().contains(&"RemovalRisky"), "{:?}", two_down.waits());
        let mut of_five = World::formed_of(5);
        of_five.pod(1).deleting = true;
        of_five.silence(2, Duration::ZERO);
        assert!(removed(&of_five).is_some());
    }

    #[test]
    fn a_member_that_somebody_else_added_is_removed_if_it_never_starts_and_left_alone_if_it_did() {
        for (age, name, expected) in [
            (UNKNOWN_PATIENCE, None, Some(Leaving::Unknown)),
            (Duration::from_secs(59), None, None),
            (Duration::from_hours(9), Some("theirs"), None),
        ] {
            let mut world = World::formed();
            world.list(9, name, "http://elsewhere:2380", false);
            world.observed.stalled.insert(crate::MemberId(9), age);
            assert_eq!(removed(&world).map(|(_, because)| because), expected, "{age:?} {name:?}");
            assert!(!world.steps().contains(&"AddMember"));
        }
    }

    #[test]
    fn a_learner_that_somebody_added_and_never_started_makes_way_where_a_place_has_to_be_filled() {
        let minute = UNKNOWN_PATIENCE;
        let second = Duration::from_secs(1);
        let table: [(&str, Change, Duration); 4] = [
            ("nobody is missing", |_| (), GRACE),
            ("a voter is missing", |w| w.desired = crate::fixture::desired_of(r#"{"size": 4}"#), minute),
            ("a voter was removed", |w| drop_member(w, 2), minute),
            ("a voter is silent, and may come back", |w| w.silence(2, Duration::ZERO), GRACE),
        ];
        for (title, change, patience) in table {
            for (age, leaves) in [(patience.saturating_sub(second), false), (patience, true)] {
                let mut world = World::formed();
                world.list(9, None, "http://elsewhere:2380", true);
                world.observed.stalled.insert(crate::MemberId(9), age);
                change(&mut world);
                let unknown = removed(&world).is_some_and(|(_, because)| because == Leaving::Unknown);
                assert_eq!(unknown, leaves, "{title} {age:?}: {:?}", world.waits());
                let due = "2026-01-01T00:10:01Z".parse().unwrap();
                assert!(leaves || world.plan().wake_at.is_some_and(|at| at <= due), "{title}");
            }
        }
        let mut lost = World::formed();
        lost.list(9, None, "http://elsewhere:2380", true);
        lost.observed.stalled.insert(crate::MemberId(9), minute);
        lost.drop_pod(2);
        assert!(matches!(removed(&lost), Some((_, Leaving::Lost(_)))), "the lost voter goes first");
    }

    /// A member is gone from the list, and its pod with it.
    fn drop_member(world: &mut World, ordinal: usize) {
        world.unlist(ordinal);
        world.drop_pod(ordinal);
    }

    #[test]
    fn a_member_that_does_not_come_up_makes_way_for_another() {
        let url = "http://example-newnewnew1.example.default.svc:2380";
        for (age, made, leaves) in
            [(Duration::ZERO, false, true), (Duration::ZERO, true, false), (JOIN_PATIENCE, true, true)]
        {
            let mut world = World::formed();
            world.desired = crate::fixture::desired_of(r#"{"size": 5}"#);
            world.list(9, None, url, true);
            world.observed.stalled.insert(crate::MemberId(9), age);
            if made {
                let pod = SeenPod { name: "example-newnewnew1".to_owned(), ..world.pod(0).clone() };
                world.observed.pods.push(SeenPod { ready: Readiness::NotReady, ..pod });
            }
            let removed = removed(&world);
            assert_eq!(removed.is_some(), leaves, "{age:?} {made}");
            assert!(removed.is_none_or(|(_, because)| matches!(because, Leaving::NotJoined(_))));
        }
        let mut unmarked = World::formed();
        unmarked.desired = crate::fixture::desired_of(r#"{"size": 5}"#);
        unmarked.list(9, None, url, true);
        let pod = SeenPod { name: "example-newnewnew1".to_owned(), inputs: None, ..unmarked.pod(0).clone() };
        unmarked.observed.pods.push(SeenPod { ready: Readiness::NotReady, ..pod });
        assert_eq!(removed(&unmarked), None, "somebody took the mark of its spec away");
    }

    #[test]
    fn one_that_does_not_come_up_makes_way_at_once_when_the_spec_is_corrected() {
        let url = "http://example-newnewnew1.example.default.svc:2380";
        for (spec, up, leaves) in [
            (r#"{"size": 5}"#, false, false),
            (r#"{"size": 5, "repository": "mirror/etcd"}"#, false, true),
            (r#"{"size": 5, "repository": "mirror/etcd"}"#, true, false),
        ] {
            let mut world = World::formed();
            world.join(url, true);
            world.desired = crate::fixture::desired_of(spec);
            if !up {
                world.silence_learner();
            }
            let removed = removed(&world);
            assert_eq!(removed.is_some(), leaves, "{spec} {up}");
            assert!(removed.is_none_or(|(_, because)| because == Leaving::Outdated), "it did nothing wrong");
        }
    }

    #[test]
    fn one_that_was_told_of_other_members_than_there_are_makes_way_at_once() {
        let name: launch::MemberName = "example-newnewnew1".parse().unwrap();
        let url = crate::fixture::desired().peer_url(&name).unwrap().to_string();
        let crashed = || {
            let mut etcd = container(waiting("CrashLoopBackOff", "back-off"));
            etcd.last_end = Some(ended("member count is unequal"));
            vec![etcd]
        };
        let one_has_gone: Change = |world| {
            world.unlist(2);
            world.drop_pod(2);
        };
        for (title, change, crashes, leaves) in [
            ("they are the same", (|_| ()) as Change, true, false),
            ("one has gone, and it has not noticed", one_has_gone, false, false),
            ("one has gone", one_has_gone, true, true),
            ("one has come", |w| w.list(8, Some("x"), "http://elsewhere:2380", false), true, true),
        ] {
            let mut world = World::formed();
            world.desired = crate::fixture::desired_of(r#"{"size": 5}"#);
            world.list(9, None, &url, true);
            let list = world.observed.answer(world.name(0).as_str()).unwrap().members.clone();
            let list = crate::SeenList { cluster_id: crate::ClusterId(0xcc), members: list };
            let desired = world.desired.clone().unwrap();
            let version = desired.version;
            let mut pod = manifest::joining_pod(&desired, &attempt(1), &name, version, &list).unwrap();
            pod.metadata.uid = Some("uid-of-new".to_owned());
            let mut pod = SeenPod::from_pod(&pod);
            pod.containers = if crashes { crashed() } else { vec![container(ContainerState::Running)] };
            world.observed.pods.push(pod);
            change(&mut world);
            let new = world.plan().steps.into_iter().find_map(|step| match step {
                Step::RemoveMember { member, because: Leaving::NotJoined(_), .. } => Some(member),
                _ => None,
            });
            assert_eq!(new.is_some(), leaves, "{title}: {:?} {:?}", world.steps(), world.waits());
        }
    }

    #[test]
    fn a_member_whose_pod_has_lost_its_owner_is_left_alone_and_named() {
        let theirs: [(&str, Change, bool); 3] = [
            ("its owner is gone", |w| w.pod(1).owner_uid = None, true),
            ("it has another owner", |w| w.pod(1).owner_uid = Some("another".to_owned()), true),
            (
                "it is another pod of that name",
                |w| {
                    w.pod(1).owner_uid = None;
                    w.pod(1).order = crate::OrderSeen::Missing;
                },
                false,
            ),
        ];
        for (title, change, held) in theirs {
            let mut world = World::formed();
            change(&mut world);
            assert_eq!(removed(&world).is_none(), held, "{title}");
            assert_eq!(world.waits().contains(&"PodDisowned"), held, "{title}: {:?}", world.waits());
        }
        let mut fewer = World::formed();
        fewer.desired = crate::fixture::desired_of(r#"{"size": 1}"#);
        fewer.pod(1).owner_uid = None;
        assert_eq!(removed(&fewer), None, "nobody can delete its pod afterwards");
    }

    #[test]
    fn what_etcd_refused_is_not_sent_again_at_once() {
        let mut world = World::formed();
        world.pod(1).deleting = true;
        let (name, message) = ("example".to_owned(), "unhealthy cluster".to_owned());
        for (at, sends) in [("2026-01-01T00:10:00Z", false), ("2026-01-01T00:09:58Z", true)] {
            let (class, name, message) = (RefusalClass::Etcd, name.clone(), message.clone());
            let at = at.parse().unwrap();
            world.observed.refusals = vec![RefusedObject { kind: "Members", name, class, message, at }];
            assert_eq!(removed(&world).is_some(), sends);
            assert_eq!(world.waits().contains(&"MembershipRefused"), !sends);
        }
    }
}
