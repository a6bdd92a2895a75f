//! The report, state by state.

use std::time::Duration;

use super::*;
use crate::fixture::{World, container, desired_of, waiting};

fn status(world: &World) -> EtcdClusterStatus {
    world.plan().report.status
}

/// Status and reason of a condition, as one text; empty if there is none.
fn said(world: &World, type_: ConditionType) -> String {
    let status = status(world);
    let found = condition::find(status.conditions.as_deref().unwrap_or_default(), type_);
    found.map(|found| is(&found.status, found.reason.as_deref().unwrap_or_default())).unwrap_or_default()
}

fn is(status: &str, reason: &str) -> String {
    format!("{status}: {reason}")
}

#[test]
fn members_that_lost_their_owner_are_still_named_so_that_they_are_found_again() {
    let mut world = World::formed();
    for ordinal in 0..3 {
        world.pod(ordinal).owner_uid = None;
    }
    let unready = status(&world).members.unwrap().unready.unwrap_or_default();
    assert_eq!(unready.len(), 3, "{unready:?}");
}

#[test]
fn a_formed_cluster_reads_as_in_the_book() {
    let world = World::formed();
    let status = status(&world);
    let mut names: Vec<String> = (0..3).map(|ordinal| world.name(ordinal).to_string()).collect();
    names.sort_unstable();
    assert_eq!(status.client_port, Some(2379));
    assert_eq!(status.current_version.as_deref(), Some("3.6.14"));
    assert_eq!(status.members, Some(MembersStatus { ready: Some(names), unready: None }));
    assert_eq!(status.phase.as_deref(), Some("Running"));
    assert_eq!(status.service_name.as_deref(), Some("example-client"));
    assert_eq!((status.size, status.target_version, status.ready.as_deref()), (Some(3), None, Some("3/3")));
    assert_eq!(said(&world, ConditionType::Available), is("True", "Cluster available"));
    assert_eq!(said(&world, ConditionType::Progressing), is("False", "Settled"));
    assert_eq!(said(&world, ConditionType::Scaling), "");
    assert_eq!(status.birth, None);
}

#[test]
fn who_is_not_listed_any_more_is_no_member_however_ready_its_pod_still_is() {
    let mut world = World::formed();
    world.unlist(2);
    let mut names: Vec<String> = (0..2).map(|ordinal| world.name(ordinal).to_string()).collect();
    names.sort_unstable();
    let status = status(&world);
    assert_eq!(status.members, Some(MembersStatus { ready: Some(names), unready: None }));
    assert_eq!((status.size, status.ready.as_deref()), (Some(2), Some("2/3")));
}

#[test]
fn a_cluster_that_cannot_be_looked_at_is_not_called_available_and_keeps_the_rest() {
    let mut world = World::formed();
    world.observed.resource.status = status(&world);
    let now = world.observed.now;
    let report = blind(&world.observed.resource, now, "list Pods: pods is forbidden");
    assert!(report.is_news(&world.observed.resource.status));
    let conditions = report.status.conditions.clone().unwrap();
    let said: Vec<_> = conditions.iter().map(|it| (it.type_.as_str(), it.status.as_str())).collect();
    assert_eq!(said, [("Available", "Unknown"), ("Progressing", "False"), ("SpecAccepted", "True")]);
    assert!(conditions[0].message.as_ref().unwrap().contains("list Pods: pods is forbidden"));
    assert_eq!(report.status.members, world.observed.resource.status.members);
    world.observed.resource.status = report.status.clone();
    let later = now.checked_add(Duration::from_secs(9)).unwrap();
    let again = blind(&world.observed.resource, later, "list Pods: pods is forbidden");
    assert!(!again.is_news(&report.status), "it is said once");
}

type Change = fn(&mut World);
/// Title, world, what happens to it, phase, Available, Progressing.
type Row = (
    &'static str,
    fn() -> World,
    Change,
    Option<&'static str>,
    (&'static str, &'static str),
    (&'static str, &'static str),
);

const NOTHING: Change = |_| ();
const NEW: fn() -> World = || World::new(r#"{"size": 3}"#);
const STATES: &[Row] = &[
    ("new", NEW, NOTHING, None, ("False", "RecordingBirth"), ("True", "RecordingBirth")),
    (
        "forming",
        World::forming,
        NOTHING,
        Some("Creating"),
        ("False", "Forming"),
        ("True", "WaitingForPodStarted"),
    ),
    ("all up, not latched", World::up, NOTHING, Some("Creating"), ("False", "Forming"), ("True", "Forming")),
    (
        "image missing",
        World::forming,
        |w| w.pod(0).containers = vec![container(waiting("ErrImagePull", "no"))],
        Some("Creating"),
        ("False", "ImagePullFailing"),
        ("False", "ImagePullFailing"),
    ),
    ("formed", World::formed, NOTHING, Some("Running"), ("True", "Cluster available"), ("False", "Settled")),
    (
        "one member down",
        World::formed,
        |w| w.silence(1, Duration::ZERO),
        Some("Running"),
        ("True", "Cluster available"),
        ("True", "WaitingForMemberBack"),
    ),
    (
        "no quorum",
        World::formed,
        |w| (0..3).for_each(|ordinal| w.silence(ordinal, Duration::ZERO)),
        Some("Running"),
        ("False", "WaitingForQuorum"),
        ("True", "WaitingForQuorum"),
    ),
    (
        "ready pods that we cannot ask",
        World::formed,
        |w| w.observed.members.clear(),
        Some("Running"),
        ("Unknown", "MembersUnknown"),
        ("True", "MembersUnknown"),
    ),
    (
        "everything lost",
        World::formed,
        |w| {
            w.observed.pods.clear();
            w.observed.members.clear();
        },
        Some("Failed"),
        ("False", "DataLost"),
        ("False", "DataLost"),
    ),
    (
        "bad spec on a running cluster",
        World::formed,
        |w| w.desired = desired_of(r#"{"size": 0}"#),
        Some("Running"),
        ("True", "Cluster available"),
        ("False", "InvalidSpec"),
    ),
    (
        "bad spec on a new one",
        || World::new(r#"{"size": 0}"#),
        NOTHING,
        None,
        ("False", "InvalidSpec"),
        ("False", "InvalidSpec"),
    ),
];

#[test]
fn each_state_has_its_phase_and_its_conditions() {
    for (title, start, change, phase, available, progressing) in STATES {
        let mut world = start();
        change(&mut world);
        assert_eq!(status(&world).phase.as_deref(), *phase, "{title}");
        assert_eq!(said(&world, ConditionType::Available), is(available.0, available.1), "{title}");
        assert_eq!(said(&world, ConditionType::Progressing), is(progressing.0, progressing.1), "{title}");
    }
}

#[test]
fn members_that_come_and_go_are_told_in_the_classic_words_and_lost_ones_in_a_condition_of_their_own() {
    let sized = |from: usize, to: usize| {
        let mut world = World::formed_of(from);
        world.desired = desired_of(&format!(r#"{{"size": {to}}}"#));
        world
    };
    let message = |world: &World, type_| {
        let status = status(world);
        condition::find(status.conditions.as_deref().unwrap(), type_).and_then(|found| found.message.clone())
    };
    assert_eq!(said(&sized(3, 5), ConditionType::Scaling), is("True", "Scaling up"));
    assert_eq!(
        message(&sized(3, 5), ConditionType::Scaling).as_deref(),
        Some("Current cluster size: 3, desired cluster size: 5")
    );
    assert_eq!(said(&sized(5, 3), ConditionType::Scaling), is("True", "Scaling down"));
    assert_eq!(said(&sized(3, 3), ConditionType::Scaling), "");
    let mut lost = sized(3, 3);
    assert_eq!(said(&lost, ConditionType::Recovering), "");
    lost.drop_pod(1);
    assert_eq!(said(&lost, ConditionType::Recovering), is("True", "MemberLost"));
}

#[test]
fn a_cluster_that_is_left_as_it_is_goes_on_being_told_of() {
    let holds = [
        r#"{"size": 5, "paused": true}"#,
        r#"{"size": 5, "paused": true, "TLS": {"static": {"member": {"peerSecret": "p"}}}}"#,
        r#"{"size": 5, "repository": "a b"}"#,
    ];
    for spec in holds {
        let mut world = World::formed();
        (world.observed.resource.status.ready, world.desired) = (Some("3/3".to_owned()), desired_of(spec));
        assert_eq!(said(&world, ConditionType::Scaling), "", "{spec}: nothing is done");
        (1..3).for_each(|ordinal| world.silence(ordinal, Duration::ZERO));
        let ready = status(&world).ready.unwrap_or_default();
        assert!(ready.starts_with("1/"), "{spec}: {ready}");
        assert_eq!(world.plan().wake_at.unwrap().to_string(), "2026-01-01T00:10:10Z", "{spec}");
        world.observed.pods.clear();
        world.observed.members.clear();
        let status = status(&world);
        assert_eq!(status.phase.as_deref(), Some("Failed"), "{spec}");
        assert!(status.reason.is_some_and(|reason| reason.contains("is gone")), "{spec}");
        assert_eq!(said(&world, ConditionType::Available), is("False", "DataLost"), "{spec}");
    }
}

#[test]
fn what_is_lost_stays_said_when_nobody_tells_any_more_and_while_the_resource_goes() {
    let mut world = World::formed();
    for lost in [2, 1] {
        world.drop_pod(lost);
    }
    world.change_all(|answer| answer.linearizable = false);
    let told = status(&world);
    assert_eq!(told.phase.as_deref(), Some("Failed"));
    assert!(told.reason.as_ref().is_some_and(|reason| reason.contains(world.name(1).as_str())));
    let birth = world.observed.resource.status.birth.clone();
    world.observed.resource.status = EtcdClusterStatus { birth, ..told.clone() };
    world.silence(0, Duration::ZERO);
    let silent = status(&world);
    assert_eq!((&silent.phase, &silent.reason), (&told.phase, &told.reason));
    world.observed.resource.deleting = true;
    let deleted = status(&world);
    assert_eq!((&deleted.phase, &deleted.reason), (&told.phase, &told.reason));
    assert_eq!(said(&world, ConditionType::Available), is("False", "BeingDeleted"));
}

#[test]
fn of_somebody_elses_cluster_nothing_is_claimed() {
    let mut world = World::forming();
    world.observed.resource.status = EtcdClusterStatus {
        phase: Some("Running".to_owned()),
        members: Some(MembersStatus { ready: Some(vec!["a".to_owned(), "b".to_owned()]), unready: None }),
        ..EtcdClusterStatus::default()
    };
    let before = world.observed.resource.status.clone();
    let status = status(&world);
    assert_eq!((status.members, status.phase), (before.members, before.phase));
    assert_eq!(status.ready.as_deref(), Some("2/3"));
    assert_eq!(said(&world, ConditionType::Available), is("Unknown", "AdoptionNeeded"));
}

#[test]
fn a_pod_that_lost_its_owner_is_named_as_long_as_its_member_is_one() {
    let mut world = World::formed();
    world.pod(2).owner_uid = None;
    let name = world.name(2).to_string();
    world.observed.members.remove(&world.name(2));
    assert_eq!(status(&world).members.unwrap().unready, Some(vec![name]));
    world.unlist(2);
    assert_eq!(status(&world).members.unwrap().unready, None);
}

#[test]
fn whom_somebody_else_added_is_no_scaling_and_what_is_tried_is_not_called_settled() {
    let mut world = World::formed();
    world.list(9, None, "http://elsewhere:2380", false);
    assert_eq!(said(&world, ConditionType::Scaling), "");
    assert_eq!(said(&world, ConditionType::Progressing), is("True", "UnknownMember"));
    world.observed.stalled.insert(crate::MemberId(9), Duration::from_mins(1));
    assert_eq!(said(&world, ConditionType::Progressing), is("True", "RemovingMember"));
    let mut alone = World::formed_of(1);
    alone.list(9, None, "http://elsewhere:2380", false);
    alone.change_all(|answer| answer.linearizable = false);
    alone.pod(0).ready = crate::Readiness::NotReady;
    let status = status(&alone);
    let available = condition::find(status.conditions.as_deref().unwrap(), ConditionType::Available).unwrap();
    let message = available.message.clone().unwrap_or_default();
    assert!(message.contains("only 1 of 2"), "{message}");
}

#[test]
fn a_cluster_whose_pods_have_lost_their_owner_is_in_doubt_and_not_lost() {
    let mut world = World::formed();
    world.observed.members.clear();
    world.observed.pods.iter_mut().for_each(|pod| pod.owner_uid = None);
    assert_eq!(said(&world, ConditionType::Available), is("Unknown", "MembersUnknown"));
}

#[test]
fn a_phase_is_never_written_before_the_birth_it_would_be_mistaken_without() {
    for spec in [
        r#"{"size": 3}"#,
        r#"{"size": 0}"#,
        r#"{"size": 3, "paused": true}"#,
        r#"{"size": 3, "bootstrap": "Seed"}"#,
    ] {
        assert_eq!(status(&World::new(spec)).phase, None, "{spec}");
    }
}

#[test]
fn a_quiet_cluster_has_no_news() {
    let mut world = World::formed();
    let first = world.plan().report;
    assert!(first.is_news(&world.observed.resource.status));
    let birth = world.observed.resource.status.birth.clone();
    world.observed.resource.status = EtcdClusterStatus { birth, ..first.status };
    world.observed.now = "2026-01-01T09:00:00Z".parse().unwrap();
    for ordinal in 0..3 {
        world.change_answer(ordinal, |answer| answer.raft_index += 1000);
    }
    assert!(!world.plan().report.is_news(&world.observed.resource.status));
}

#[test]
fn what_is_set_and_does_nothing_and_what_is_unwise_is_said() {
    let world = World::new(r#"{"size": 4, "pod": {"busyboxImage": "b:1"}}"#);
    assert_eq!(said(&world, ConditionType::FieldsIgnored), is("True", "FieldsWithoutEffect"));
    assert_eq!(said(&world, ConditionType::SpecAccepted), is("True", "EvenSize"));
    let held = World::new(r#"{"size": 3, "TLS": {"static": {"member": {"peerSecret": "p"}}}}"#);
    assert_eq!(said(&held, ConditionType::SpecAccepted), is("False", "NotYetSupported"));
    assert_eq!(said(&held, ConditionType::Available), is("False", "NotYetSupported"));
}

#[test]
fn several_reasons_are_told_in_one_condition_and_many_are_counted() {
    let mut world = World::forming();
    for ordinal in 0..3 {
        world.pod(ordinal).unschedulable = Some("0/3 nodes".to_owned());
    }
    let status = status(&world);
    let progressing =
        condition::find(status.conditions.as_deref().unwrap(), ConditionType::Progressing).unwrap();
    for ordinal in 0..3 {
        assert!(progressing.message.as_ref().unwrap().contains(world.name(ordinal).as_str()));
    }
    assert!(join(&[Reason::Paused, Reason::Paused, Reason::Paused, Reason::Paused]).ends_with("and 1 more"));
}

#[test]
fn what_was_true_of_the_members_is_kept_while_nobody_answers() {
    let mut world = World::formed();
    world.observed.resource.status.size = Some(3);
    world.observed.members.clear();
    world.observed.pods.clear();
    let status = status(&world);
    assert_eq!((status.size, status.reason.is_some(), status.ready.as_deref()), (Some(3), true, Some("0/3")));
}
