//! A cluster whose members all serve has formed: each of them answers, is a voter, reads through the quorum, and names the same cluster
//! and the same members. Once that is latched clients are let in, and nothing is ever started as new again.
//!
//! All of them, not a quorum: until then a lost member costs nothing but another attempt. The exception is an attempt in which a client has
//! written though no Service of ours led it there: it counts as formed as soon as it would be given up, or one of its members does not come.
//! That somebody holds data is proof enough of a quorum, since nobody else takes a write. Those that do not answer may still come, as the
//! first members that they are, and are replaced like any other member if they do not: where the rest is no quorum any more, such a one
//! brings it back.

use std::{collections::BTreeSet, time::Duration};

use api::{Event, Reason};

use super::{Decision, Flow, Situation, abandon, after, empty_start};
use crate::{
    Waiting,
    holding::Holding,
    id::ClusterId,
    observed::{Answer, Observed, OrderSeen, SeenMember, SeenPod},
    safety::initial_cluster,
    status::FRESH,
    step::Step,
    view::{MAX_SIZE, View},
};

/// How soon a cluster is looked at again that forms, should an event go missing, or in which somebody does not answer, which no event tells.
const SOON: Duration = Duration::from_secs(2);
/// For how long that may be so before it is no news any more.
const NEWS: Duration = Duration::from_mins(1);
/// How long a cluster in which a client has written waits for the members that it began with.
const MISSED: Duration = Duration::from_mins(1);

pub(super) fn ask(situation: &Situation<'_>, decision: &mut Decision) -> Flow {
    let (view, observed) = (&situation.view, situation.observed);
    let Some(birth) = view.birth else { return Flow::Next };
    let steady = birth.formed && !is_troubled(observed);
    decision.look_again(after(observed.now, if steady { FRESH } else { SOON }));
    let expected = match &birth.cluster_id {
        Some(id) => Some(id.clone()),
        None => answers(view).next().map(|(_, answer)| answer.cluster_id.to_string()),
    };
    let stranger = answers(view).find(|(_, answer)| Some(answer.cluster_id.to_string()) != expected);
    if let Some((member, answer)) = stranger {
        decision.wait(Waiting::blocked(Reason::ClusterIdMismatch {
            member: member.to_owned(),
            seen: answer.cluster_id.to_string(),
            expected: expected.unwrap_or_default(),
        }));
        return Flow::Stop;
    }
    let latches = !birth.formed && !empty_start::is_held_up(situation);
    let formed = formed_cluster(view).or_else(|| written_cluster(situation)).filter(|_| latches);
    if let Some(cluster_id) = formed {
        decision.act = vec![Step::LatchFormed {
            resource_version: observed.resource.resource_version.clone(),
            from: birth.clone(),
            birth: birth.formed(cluster_id.to_string()),
        }];
        decision.events =
            answers(view).map(|(member, _)| Event::NewMemberAdded { member: member.to_owned() }).collect();
    }
    Flow::Next
}

/// The cluster in which a client has written, where that is a reason to call it formed.
fn written_cluster(situation: &Situation<'_>) -> Option<ClusterId> {
    let view = &situation.view;
    view.birth.filter(|birth| !birth.formed)?;
    let (_, holder) = answers(view).find(|(_, answer)| answer.holds_data())?;
    let is_missed = |pod: &SeenPod| {
        let seen = view.observed.members.iter().find(|(name, _)| name.as_str() == pod.name);
        matches!(seen, Some((_, SeenMember::Unknown { gone_for, .. })) if *gone_for >= MISSED)
    };
    let incomplete = abandon::cause(situation).is_some() || view.current().any(is_missed);
    incomplete.then_some(holder.cluster_id)
}

/// Whether a member holds what a client wrote, so that the attempt is not given up whatever happens.
pub(super) fn is_written(situation: &Situation<'_>) -> bool {
    let observed = situation.observed;
    situation.view.current().any(|pod| Holding::of(observed, pod) == Holding::Data)
}

/// Whether a member has just stopped to answer, or to reach its peers: a busy machine does that to one for a moment, and others wait for it.
fn is_troubled(observed: &Observed) -> bool {
    let stalled = |id| observed.stalled.get(id).is_some_and(|since| *since < NEWS);
    observed.members.values().any(|member| match member {
        SeenMember::Unknown { silent_for, .. } => *silent_for < NEWS,
        SeenMember::Known(answer) => !answer.linearizable && !answer.learner && stalled(&answer.member_id),
    })
}

/// The answers of the attempt's members.
fn answers<'a>(view: &'a View<'_>) -> impl Iterator<Item = (&'a str, &'a Answer)> {
    view.current().filter_map(|pod| view.observed.answer(&pod.name).map(|answer| (pod.name.as_str(), answer)))
}

/// The cluster that the members have formed, if they have. How many they are is what they themselves say: the spec may have changed.
fn formed_cluster(view: &View<'_>) -> Option<ClusterId> {
    let list = view.member_list()?;
    let listed = View::listed_ids(list);
    let attempt = view.attempt.as_ref()?;
    if list.members.len() > MAX_SIZE || list.members.iter().any(|member| member.learner) {
        return None;
    }
    let mut ids = BTreeSet::new();
    for name in attempt.members(&view.observed.resource.name, list.members.len()) {
        let pod = view.pod_of(&name).filter(|pod| pod.loss().is_none())?;
        let answer = view.observed.answer(&pod.name)?;
        let agrees = answer.linearizable && !answer.learner && View::listed_ids(answer) == listed;
        // Somebody may have taken a member out again; with whom the attempt began is in the order.
        let complete = match &pod.order {
            OrderSeen::Order(order) => initial_cluster(order).len() == listed.len(),
            OrderSeen::Missing | OrderSeen::Unreadable => true,
        };
        if !agrees || !complete || answer.cluster_id != list.cluster_id {
            return None;
        }
        ids.insert(answer.member_id);
    }
    let everyone = ids.into_iter().collect::<Vec<_>>() == listed && view.current().count() == listed.len();
    everyone.then_some(list.cluster_id)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use crate::{
        ClusterId, ListedMember, MemberId, Step,
        fixture::{World, desired_of},
    };

    fn latches(world: &World) -> bool {
        world.steps().contains(&"LatchFormed")
    }

    #[test]
    fn a_cluster_whose_members_all_serve_is_formed_and_its_members_are_announced() {
        let world = World::up();
        let plan = world.plan();
        let latch = plan.steps.iter().find(|step| step.is_risky()).unwrap();
        let Step::LatchFormed { birth, resource_version, .. } = latch else { panic!("{latch:?}") };
        assert_eq!(
            (birth.formed, birth.cluster_id.as_deref(), birth.token.as_str()),
            (true, Some("cc"), "t-1")
        );
        assert_eq!(resource_version, "7");
        assert_eq!(plan.events.len(), 3);
        assert!(plan.events.iter().all(|event| event.reason() == "New Member Added"));
    }

    #[test]
    fn one_doubt_is_enough_to_wait() {
        type Change = fn(&mut World);
        let table: [(&str, Change); 11] = [
            ("one was taken out by hand, and its pod is gone", |world| {
                world.unlist(2);
                world.drop_pod(2);
            }),
            ("a member is silent", |world| world.silence(2, Duration::ZERO)),
            ("a member was not asked", |world| world.observed.members.clear()),
            ("a member cannot read", |world| world.change_answer(1, |answer| answer.linearizable = false)),
            ("a member is a learner", |world| world.change_answer(1, |answer| answer.learner = true)),
            ("a member names others", |world| {
                world.change_answer(1, |answer| answer.members[0].id = MemberId(99));
            }),
            ("a member is not in the list", |world| {
                world.change_answer(1, |answer| answer.member_id = MemberId(99));
            }),
            ("two say that they are the same", |world| {
                world.change_answer(1, |answer| answer.member_id = MemberId(1));
            }),
            ("a member is going", |world| world.pod(1).deleting = true),
            ("there is a fourth", |world| {
                for ordinal in 0..3 {
                    let fourth =
                        ListedMember { id: MemberId(4), name: None, peer_urls: vec![], learner: false };
                    world.change_answer(ordinal, |answer| answer.members.push(fourth));
                }
            }),
            ("a pod is gone", |world| {
                world.observed.pods.remove(0);
            }),
        ];
        for (doubt, change) in table {
            let mut world = World::up();
            change(&mut world);
            assert!(!latches(&world), "{doubt}");
        }
    }

    #[test]
    fn a_member_of_another_cluster_stops_everything() {
        for (mut world, formed) in [(World::up(), false), (World::formed(), true)] {
            world.change_answer(1, |answer| answer.cluster_id = ClusterId(0xdd));
            assert!(world.waits().contains(&"ClusterIdMismatch"), "{formed}");
            assert!(world.plan().steps.iter().all(|step| !step.is_risky()));
        }
    }

    #[test]
    fn what_has_formed_is_latched_even_if_the_spec_has_changed_since() {
        let mut world = World::up();
        world.desired = desired_of(r#"{"size": 5}"#);
        assert!(latches(&world));
        assert!(!world.steps().contains(&"LatchBirth"));
    }

    #[test]
    fn it_is_latched_once() {
        assert!(!latches(&World::formed()));
    }
}
