//! What a formed cluster needs and this operator does not do yet is said, and not done: no member is added, removed, replaced or
//! rolled. Where every copy of the data is gone that is said too, and never answered by an empty cluster (invariant I8).

use api::Reason;

use super::{Decision, Flow, Situation};
use crate::{
    Waiting,
    observed::{OrderSeen, SeenPod},
};

pub(super) fn ask(situation: &Situation<'_>, decision: &mut Decision) -> Flow {
    if !situation.view.is_formed() {
        return Flow::Next;
    }
    let view = &situation.view;
    if view.serving().next().is_none() && view.current().all(|pod| pod.loss().is_some()) {
        let lost = "no pod of any member is left".to_owned();
        decision.wait(Waiting::blocked(Reason::DataLost { lost }));
        decision.lost = true;
        return Flow::Stop;
    }
    let (healthy, voters) = (view.serving().count(), view.voters());
    if healthy == 0 {
        decision.wait(Waiting::passing(Reason::WaitingForQuorum { healthy: answering(situation), voters }));
    }
    for (member, why) in losses(situation) {
        decision.wait(Waiting::blocked(Reason::ReplacementNotYetSupported { member, why }));
    }
    changes(situation, decision);
    Flow::Next
}

/// How many members answer at all.
fn answering(situation: &Situation<'_>) -> usize {
    situation.view.current().filter(|pod| situation.observed.answer(&pod.name).is_some()).count()
}

/// The members that are lost: those whose pod cannot come back, and those that etcd lists and that have no pod.
fn losses(situation: &Situation<'_>) -> Vec<(String, String)> {
    let view = &situation.view;
    let ruined = view.current().filter_map(|pod| Some((pod.name.clone(), pod.loss()?)));
    let listed = view.member_list().into_iter().flat_map(|list| &list.members);
    let gone = listed
        .filter_map(|member| member.name.clone())
        .filter(|name| view.current().all(|pod| pod.name != *name))
        .map(|name| (name, "it has no pod".to_owned()));
    let known: Vec<_> = ruined.chain(gone).collect();
    let unnamed = view.voters().saturating_sub(view.current().count());
    if known.is_empty() && unnamed > 0 {
        return vec![(
            "of an unknown name".to_owned(),
            format!("{unnamed} of {} have no pod", view.voters()),
        )];
    }
    known
}

/// What the spec asks for and the cluster is not.
fn changes(situation: &Situation<'_>, decision: &mut Decision) {
    let (desired, view) = (situation.desired, &situation.view);
    let size = view.voters();
    let other = view.current().find_map(|pod| version_of(pod).filter(|version| *version != desired.version));
    if size != desired.size && size > 0 {
        decision.wait(Waiting::blocked(Reason::ResizeNotYetSupported { from: size, to: desired.size }));
    }
    if let Some(version) = other {
        let (from, to) = (version.to_string(), desired.version.to_string());
        decision.wait(Waiting::blocked(Reason::UpgradeNotYetSupported { from, to }));
    }
    let inputs = desired.inputs();
    let changed = view.current().find(|pod| pod.inputs.as_ref() != Some(&inputs));
    if let Some(pod) = changed.filter(|_| size == desired.size && other.is_none()) {
        decision.wait(Waiting::blocked(Reason::ChangeNotYetSupported { pod: pod.name.clone() }));
    }
}

/// The version that a member was ordered to run, which its launcher has checked.
pub(crate) fn version_of(pod: &SeenPod) -> Option<launch::EtcdVersion> {
    match &pod.order {
        OrderSeen::Order(order) => Some(order.version),
        OrderSeen::Missing | OrderSeen::Unreadable => None,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use crate::fixture::{World, desired_of};

    type Change = fn(&mut World);

    #[test]
    fn what_is_not_done_yet_is_said_and_not_done() {
        let table: [(&str, Change, &str); 8] = [
            ("resize", |w| w.desired = desired_of(r#"{"size": 5}"#), "ResizeNotYetSupported"),
            (
                "upgrade",
                |w| w.desired = desired_of(r#"{"size": 3, "version": "3.7.1"}"#),
                "UpgradeNotYetSupported",
            ),
            (
                "other edit",
                |w| w.desired = desired_of(r#"{"size": 3, "pod": {"labels": {"a": "b"}}}"#),
                "ChangeNotYetSupported",
            ),
            ("lost pod", |w| drop(w.observed.pods.remove(1)), "ReplacementNotYetSupported"),
            ("pod on its way out", |w| w.pod(1).deleting = true, "ReplacementNotYetSupported"),
            ("evicted pod", |w| w.pod(1).phase = crate::PodPhase::Failed, "ReplacementNotYetSupported"),
            (
                "no quorum",
                |w| (0..3).for_each(|ordinal| w.silence(ordinal, Duration::from_secs(9))),
                "WaitingForQuorum",
            ),
            (
                "nothing left",
                |w| {
                    w.observed.pods.clear();
                    w.observed.members.clear();
                },
                "DataLost",
            ),
        ];
        for (title, change, word) in table {
            let mut world = World::formed();
            change(&mut world);
            assert!(world.waits().contains(&word), "{title}: {:?}", world.waits());
            assert_eq!(world.steps(), [""; 0], "{title}");
        }
    }

    #[test]
    fn a_formed_cluster_that_is_as_wanted_waits_for_nothing_and_is_looked_at_again() {
        let plan = World::formed().plan();
        assert_eq!((plan.steps, plan.waiting, plan.events), (vec![], vec![], vec![]));
        assert_eq!(plan.wake_at.unwrap().to_string(), "2026-01-01T00:10:10Z");
    }
}
