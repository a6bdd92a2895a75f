//! A formed cluster without a quorum is left as it is: nobody is added and nobody removed, and it is said who is missing. Where every
//! copy of the data is gone that is said too, and never answered by an empty cluster (invariant I8).
//!
//! One exception, before 3.4, which has no learners: from one member to two the cluster stands still until the second has
//! started. If its pod was not made, it is made now. That cannot hurt even if it was there before and is lost: nothing was ever
//! agreed on without the first, which is here.

use api::Reason;

use super::{Decision, Flow, Situation};
use crate::{Waiting, membership::seats_as_seen, observed::Answer, outage::Outage, step::Step};

pub(super) fn ask(situation: &Situation<'_>, decision: &mut Decision) -> Flow {
    let view = &situation.view;
    let Some(outage) = Outage::of(view, situation.membership.as_ref()) else { return Flow::Next };
    for pod in view.disowned() {
        let (pod, owner) = (pod.name.clone(), pod.owner_in_words());
        decision.wait(Waiting::blocked(Reason::PodDisowned { pod, owner }));
    }
    if outage.is_total() {
        decision.wait(Waiting::blocked(outage.reason()));
        return Flow::Stop;
    }
    if decision.act.is_empty() && start_second(situation, decision) {
        return Flow::Next;
    }
    // Ready members that we cannot reach have their quorum, for all we know: that is said of each of them.
    if view.answers().next().is_some() || !view.current().any(crate::SeenPod::is_ready) {
        decision.wait(Waiting { passes: !outage.is_final(), ..Waiting::passing(outage.reason()) });
    }
    outage.lost().for_each(|lost| decision.wait(Waiting::blocked(lost)));
    Flow::Next
}

/// Makes the pod of the second of two voters, if that never started. Whether it does.
fn start_second(situation: &Situation<'_>, decision: &mut Decision) -> bool {
    let view = &situation.view;
    let mut answers = view.current().filter_map(|pod| situation.observed.answer(&pod.name));
    let (Some(only), None) = (answers.next(), answers.next()) else { return false };
    let Some((member, attempt)) = second(situation, only).zip(view.attempt.clone()) else { return false };
    let Some(version) = only.version else { return false };
    if let Some(waiting) = situation.too_soon("Pod", member.as_str()) {
        decision.wait(waiting);
        return false;
    }
    let list = crate::SeenList { cluster_id: only.cluster_id, members: only.members.clone() };
    decision.act = vec![Step::CreateJoiningPod { list, attempt, member, version }];
    true
}

/// The second of two voters, which never started and has no pod.
fn second(situation: &Situation<'_>, only: &Answer) -> Option<launch::MemberName> {
    let seats = seats_as_seen(&situation.view, only);
    let [_, _] = seats.as_slice() else { return None };
    let first = seats.iter().find(|seat| seat.listed.id == only.member_id && seat.is_voter())?;
    let second = seats.iter().find(|seat| seat.listed.id != first.listed.id && seat.is_voter())?;
    let unmade = second.listed.name.is_none() && second.pod.is_none();
    second.name.clone().filter(|_| unmade)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use crate::{ListedMember, MemberId, Step, fixture::World};

    type Change = fn(&mut World);

    #[test]
    fn nothing_is_changed_and_what_is_missing_is_said() {
        let table: [(&str, Change, &[&str]); 5] = [
            (
                "nobody answers",
                |w| (0..3).for_each(|ordinal| w.silence(ordinal, Duration::from_hours(9))),
                &["WaitingForQuorum"],
            ),
            (
                "two pods are gone",
                |w| {
                    w.observed.pods.truncate(1);
                    w.observed.members.clear();
                    w.answer(0);
                    w.change_answer(0, |answer| answer.linearizable = false);
                },
                &["QuorumLost", "MemberLost"],
            ),
            (
                "two pods are on their way out",
                |w| {
                    w.pod(1).deleting = true;
                    w.pod(2).deleting = true;
                    (1..3).for_each(|ordinal| w.silence(ordinal, Duration::ZERO));
                    w.change_answer(0, |answer| answer.linearizable = false);
                },
                &["QuorumLost", "MemberLost"],
            ),
            (
                "all have lost their owner",
                |w| {
                    w.observed.members.clear();
                    w.observed.pods.iter_mut().for_each(|pod| pod.owner_uid = None);
                },
                &["PodDisowned"],
            ),
            (
                "nothing is left",
                |w| {
                    w.observed.pods.clear();
                    w.observed.members.clear();
                },
                &["DataLost"],
            ),
        ];
        for (title, change, words) in table {
            let mut world = World::formed();
            change(&mut world);
            let phase = world.plan().report.status.phase;
            let lost = words.iter().any(|word| ["QuorumLost", "DataLost"].contains(word));
            assert_eq!(phase.as_deref() == Some("Failed"), lost, "{title}");
            for word in words {
                assert!(world.waits().contains(word), "{title}: {:?}", world.waits());
            }
            assert_eq!(world.steps(), [""; 0], "{title}");
        }
    }

    /// One member of an old version that has added a second one, whose pod nobody made.
    fn half_way() -> World {
        let mut world = World::formed();
        world.observed.pods.truncate(1);
        world.observed.members.clear();
        world.answer(0);
        world.change_answer(0, |answer| {
            answer.linearizable = false;
            answer.version = Some("3.3.27".parse().unwrap());
            answer.members.truncate(1);
            let url = "http://example-second.example.default.svc:2380".to_owned();
            let second = ListedMember { id: MemberId(9), name: None, peer_urls: vec![url], learner: false };
            answer.members.push(second);
        });
        world
    }

    #[test]
    fn the_second_of_two_voters_is_started_because_nothing_goes_on_without_it() {
        let plan = half_way().plan();
        let [Step::CreateJoiningPod { member, version, .. }] = plan.steps.as_slice() else {
            panic!("{:?}", plan.steps)
        };
        assert_eq!((member.as_str(), version.to_string().as_str()), ("example-second", "3.3.27"));
    }

    #[test]
    fn a_second_voter_that_has_started_before_or_is_not_ours_is_never_made_again() {
        let changes: [fn(&mut ListedMember); 2] = [
            |second| second.name = Some("example-second".to_owned()),
            |second| second.peer_urls = vec!["http://elsewhere:2380".to_owned()],
        ];
        for change in changes {
            let mut world = half_way();
            world.change_answer(0, |answer| change(&mut answer.members[1]));
            assert_eq!(world.steps(), [""; 0]);
        }
    }
}
