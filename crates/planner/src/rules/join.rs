//! Members join one after another: added to etcd first, under a name that was never used, then their pod; and a learner gets its vote
//! when it is alive and has what the others have. Growth, replacement and a cluster that began with a seed all take this way.
//!
//! A pod is made right after the addition, in the same step. A later round makes it only if this very process added the member and
//! never asked for the pod; otherwise nobody knows whether there was one, and the member makes way for another (`leave`).

use std::time::Duration;

use api::{Event, Reason};

use super::{Decision, Flow, Situation, after, empty_start, leave};
use crate::{
    Waiting,
    effect::JOINS,
    manifest,
    membership::{Fate, Membership, Seat},
    quorum,
    step::Step,
    waiting,
};

/// How soon a member that joins is looked at again: while it comes on, which takes seconds where nothing is wrong, and when it does not.
const JOINING: (Duration, Duration) = (Duration::from_millis(300), Duration::from_secs(1));
/// For how long it may come no further until then.
const BRISK: Duration = Duration::from_secs(10);

pub(super) fn ask(situation: &Situation<'_>, decision: &mut Decision) -> Flow {
    let Some(membership) = &situation.membership else { return Flow::Next };
    if !decision.may_act() {
        return Flow::Next;
    }
    match membership.joining() {
        Some(seat) => {
            // No event tells that a learner has caught up: it is not ready before it votes. That of somebody else is none of our business.
            let comes_on = Membership::stalled_for(situation.observed, seat.listed.id) < BRISK;
            let pause = if comes_on { JOINING.0 } else { JOINING.1 };
            if seat.name.is_some() {
                decision.look_again(after(situation.observed.now, pause));
            }
            help(situation, membership, seat, decision);
        }
        None => add(situation, membership, decision),
    }
    Flow::Next
}

/// Helps the member that is on its way in.
fn help(situation: &Situation<'_>, membership: &Membership<'_>, seat: &Seat<'_>, decision: &mut Decision) {
    if seat.fate == Fate::Unmade {
        make_pod(situation, membership, seat, decision);
    } else if seat.listed.learner && membership.voters().count() < situation.desired.size {
        promote(situation, membership, seat, decision);
    }
}

fn make_pod(
    situation: &Situation<'_>,
    membership: &Membership<'_>,
    seat: &Seat<'_>,
    decision: &mut Decision,
) {
    let observed = situation.observed;
    let parts = seat.name.clone().zip(situation.view.attempt.clone());
    let version = membership.version_to_join(situation.desired.version);
    let (Some((member, attempt)), Some(version)) = (parts, version) else { return };
    if let Some(refused) = observed.refusal("Pod", member.as_str()) {
        let too_soon = waiting::too_soon(refused, observed.now);
        let until = too_soon.as_ref().and_then(|waiting| waiting.until);
        decision.wait(Waiting::blocked(waiting::reason_of(refused)).until(until));
        if too_soon.is_some() {
            return;
        }
    }
    decision.events.push(Event::NewMemberAdded { member: member.to_string() });
    decision.act = vec![Step::CreateJoiningPod { list: membership.seen(), attempt, member, version }];
}

fn promote(situation: &Situation<'_>, membership: &Membership<'_>, seat: &Seat<'_>, decision: &mut Decision) {
    let ready = seat.is_healthy() && membership.has_caught_up(seat) && membership.gains_by_one();
    if !ready || empty_start::is_held_up(situation) || leave::paused_by_etcd(situation, decision) {
        return;
    }
    let Some(basis) = membership.basis(None) else { return };
    decision.act = vec![Step::PromoteMember { basis, member: seat.title(), id: seat.listed.id }];
}

/// Adds a member, if one is missing and nothing speaks against it.
fn add(situation: &Situation<'_>, membership: &Membership<'_>, decision: &mut Decision) {
    let (desired, voters) = (situation.desired, membership.voters().count());
    if voters >= desired.size {
        return;
    }
    if let Some(waiting) = not_now(membership) {
        decision.wait(waiting);
        return;
    }
    let too_soon = situation.too_soon(JOINS, &desired.inputs(desired.version));
    if too_soon.is_some() {
        decision.wait(too_soon);
        return;
    }
    if leave::paused_by_etcd(situation, decision) {
        return;
    }
    let parts = membership.basis(None).zip(situation.view.attempt.clone());
    let version = membership.version_to_join(desired.version);
    let (Some((basis, attempt)), Some(version)) = (parts, version) else { return };
    let member = situation.observed.fresh_name.clone();
    if let Err(error) = manifest::joining_pod(desired, &attempt, &member, version, &basis.list) {
        let message = error.to_string();
        decision.wait(Waiting::blocked(Reason::MembersUnknown { message }));
        return;
    }
    decision.events.push(Event::NewMemberAdded { member: member.to_string() });
    let learner = membership.has_learners();
    decision.act = vec![Step::AddMember { basis, attempt, member, learner, version }];
}

/// What speaks against adding a member now: it must be able to get its vote, and where it has one from the start, its quorum must
/// be there without it. From one voter to two that cannot be.
fn not_now(membership: &Membership<'_>) -> Option<Waiting> {
    let (voters, healthy) = (membership.voters().count(), membership.healthy().count());
    let safe = membership.has_learners() || voters == 1 || healthy >= quorum(voters + 1);
    let foreign = membership.seats.iter().any(|seat| seat.fate == Fate::Foreign);
    (!safe || foreign || !membership.gains_by_one())
        .then(|| Waiting::passing(Reason::WaitingForMembersHealthy { healthy, voters }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::membership::NEARLY;
    use crate::{
        Effect, MemberChange, MemberId, RefusalClass, RefusedObject, SeenPod,
        fixture::{World, desired_of, order_of},
    };

    const URL: &str = "http://example-newnewnew1.example.default.svc:2380";

    fn grown(size: usize) -> World {
        let mut world = World::formed();
        world.desired = desired_of(&format!(r#"{{"size": {size}}}"#));
        world
    }

    fn effects(world: &World) -> Vec<Effect> {
        let desired = world.desired.clone().unwrap();
        world.plan().steps.iter().flat_map(|step| step.lower(&desired)).collect()
    }

    #[test]
    fn a_member_is_added_before_its_pod_is_made_and_the_pod_is_told_the_whole_list() {
        let world = grown(5);
        let effects = effects(&world);
        let [Effect::ChangeMembership { basis, change }, Effect::CreatePod(pod)] = effects.as_slice() else {
            panic!("{effects:?}")
        };
        let MemberChange::Add { member, peer_url, learner: true } = change else { panic!("{change:?}") };
        assert_eq!(member, &world.observed.fresh_name);
        assert_eq!(pod.metadata.name.as_deref(), Some(member.as_str()));
        assert_eq!((basis.list.members.len(), basis.healthy.len(), basis.through_id), (3, 3, MemberId(1)));
        let seen = SeenPod::from_pod(pod);
        let order = order_of(&seen);
        assert_eq!(order.intent, launch::Intent::Join);
        let flag = order.argv.iter().find(|flag| flag.starts_with("--initial-cluster=")).unwrap();
        assert_eq!((flag.matches("http://").count(), flag.contains(peer_url.as_str())), (4, true));
        assert!(order.argv.contains(&"--initial-cluster-state=existing".to_owned()));
        assert_eq!(world.plan().events, [Event::NewMemberAdded { member: member.to_string() }]);
    }

    #[test]
    fn before_3_4_a_member_joins_as_a_voter_and_runs_what_the_others_run() {
        let mut world = grown(5);
        for ordinal in 0..3 {
            world.change_answer(ordinal, |answer| answer.version = Some("3.3.27".parse().unwrap()));
            if let crate::OrderSeen::Order(order) = &mut world.pod(ordinal).order {
                order.version = "3.3.27".parse().unwrap();
            }
            world.pod(ordinal).annotations.insert("etcd.version".to_owned(), "3.3.27".to_owned());
        }
        let steps = world.plan().steps;
        let Some(Step::AddMember { learner: false, version, .. }) = steps.last() else { panic!("{steps:?}") };
        assert_eq!(version.to_string(), "3.3.27");
        world.silence(2, Duration::ZERO);
        assert_eq!(world.steps(), [""; 0], "a fourth voter would be one too many to lose");
    }

    type Change = fn(&mut World);

    #[test]
    fn one_joins_at_a_time_and_only_where_it_makes_the_cluster_no_weaker() {
        let table: [(&str, Change, &str); 5] = [
            ("a voter is down", |w| w.silence(2, Duration::ZERO), "WaitingForMembersHealthy"),
            ("another one joins", |w| w.join(URL, true), "WaitingForMemberJoined"),
            ("one never started", |w| w.list(9, None, "http://elsewhere:2380", false), "UnknownMember"),
            ("one is not ours", |w| w.list(9, Some("x"), "http://elsewhere:2380", false), "ForeignMember"),
            (
                "etcd refused",
                |w| {
                    let at = "2026-01-01T00:10:00Z".parse().unwrap();
                    let (name, message) = ("example".to_owned(), "unhealthy".to_owned());
                    let class = RefusalClass::Etcd;
                    w.observed.refusals.push(RefusedObject { kind: "Members", name, class, message, at });
                },
                "MembershipRefused",
            ),
        ];
        for (title, change, word) in table {
            let mut world = grown(5);
            change(&mut world);
            assert!(!world.steps().contains(&"AddMember"), "{title}");
            assert!(world.waits().contains(&word), "{title}: {:?}", world.waits());
        }
        let mut four = World::formed_of(4);
        four.desired = desired_of(r#"{"size": 5}"#);
        four.silence(3, Duration::ZERO);
        assert!(four.steps().contains(&"AddMember"), "with a fifth, one more can be lost than now");
    }

    #[test]
    fn after_several_that_did_not_join_the_next_one_waits_and_it_is_said_why() {
        let mut world = grown(5);
        let at = "2026-01-01T00:09:58Z".parse().unwrap();
        let desired = world.desired.clone().unwrap();
        let (name, class) = (desired.inputs(desired.version), RefusalClass::NotJoined { times: 5 });
        let message = "its pod has ended: SysctlForbidden".to_owned();
        world.observed.refusals.push(RefusedObject { kind: JOINS, name, class, message, at });
        assert_eq!((world.steps(), world.waits()), (vec![], vec!["JoinFailing"]));
        let plan = world.plan();
        assert!(plan.waiting[0].reason.to_string().contains("5 members in a row"), "{:?}", plan.waiting);
        assert!(plan.waiting[0].reason.to_string().contains("SysctlForbidden"), "{:?}", plan.waiting);
        world.observed.now = "2026-01-01T00:10:02Z".parse().unwrap();
        assert_eq!(world.steps(), ["AddMember"], "four seconds after the fifth");
        world.observed.now = at;
        assert_eq!(world.steps(), [""; 0]);
        world.desired = desired_of(r#"{"size": 5, "pod": {"labels": {"a": "b"}}}"#);
        assert_eq!(world.steps(), ["AddMember"], "from another spec");
    }

    #[test]
    fn a_learner_gets_its_vote_when_it_is_alive_and_has_what_the_others_have() {
        let table: [(&str, Change, bool); 7] = [
            ("it has all", |_| (), true),
            ("it is a little behind", |w| w.change_all(|answer| answer.raft_index += NEARLY), true),
            ("it is behind", |w| w.change_all(|answer| answer.raft_index += NEARLY + 1), false),
            ("it has nothing", |w| w.change_learner(|answer| answer.applied = Some(0)), false),
            ("it knows no leader", |w| w.change_learner(|answer| answer.leader = None), false),
            ("it is silent", |w| w.silence_learner(), false),
            ("a voter is down", |w| w.silence(2, Duration::ZERO), false),
        ];
        for (title, change, promoted) in table {
            let mut world = grown(5);
            world.join(URL, true);
            change(&mut world);
            assert_eq!(world.steps().contains(&"PromoteMember"), promoted, "{title}: {:?}", world.waits());
            let again = |world: &World| world.plan().wake_at.unwrap().to_string();
            assert_eq!(again(&world), "2026-01-01T00:10:00.3Z", "{title}");
            world.observed.stalled.insert(MemberId(9), BRISK);
            assert_eq!(again(&world), "2026-01-01T00:10:01Z", "{title}");
        }
        let mut enough = grown(3);
        enough.join(URL, true);
        assert!(!enough.steps().contains(&"PromoteMember"), "the spec asks for no more");
    }

    #[test]
    fn a_pod_that_may_appear_yet_is_waited_for() {
        let mut world = grown(5);
        world.list(9, None, URL, true);
        world.observed.awaited.insert("example-newnewnew1".parse().unwrap());
        assert_eq!((world.steps(), world.waits()[0]), (vec![], "WaitingForMemberJoined"));
        world.observed.awaited.clear();
        assert_eq!(world.steps(), ["RemoveMember"]);
    }

    #[test]
    fn a_lost_answer_to_an_addition_is_recognised_by_the_address() {
        let mut world = grown(5);
        world.list(9, None, URL, true);
        world.observed.unmade.insert("example-newnewnew1".parse().unwrap());
        assert_eq!(world.steps(), ["CreateJoiningPod"]);
        let at = "2026-01-01T00:09:59Z".parse().unwrap();
        let (name, message, class) =
            ("example-newnewnew1".to_owned(), "full".to_owned(), RefusalClass::Quota);
        world.observed.refusals.push(RefusedObject { kind: "Pod", name, class, message, at });
        assert_eq!((world.steps(), world.waits()[0]), (vec![], "QuotaExceeded"));
        world.observed.refusals[0].at = "2026-01-01T00:09:00Z".parse().unwrap();
        assert_eq!(world.steps(), ["CreateJoiningPod"]);
        world.observed.refusals[0].class = RefusalClass::NameTaken;
        assert_eq!(world.steps(), ["RemoveMember"], "another name is tried");
    }
}
