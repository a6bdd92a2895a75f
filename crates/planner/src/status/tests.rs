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
    assert_eq!(
        said,
        [("Available", "Unknown"), ("Ready", "Unknown"), ("Progressing", "False"), ("SpecAccepted", "True")]
    );
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

/// The answer of kstatus, as far as it reads a resource of ours: <https://github.com/kubernetes-sigs/cli-utils>, `pkg/kstatus`.
fn kstatus(world: &World) -> &'static str {
    let (resource, status) = (&world.observed.resource, status(world));
    let is = |type_: ConditionType, word: &str| {
        let conditions = status.conditions.as_deref().unwrap_or_default();
        condition::find(conditions, type_).map(|found| found.status == word)
    };
    if resource.deleting {
        return "Terminating";
    }
    if status.observed_generation != Some(resource.generation) {
        return "InProgress";
    }
    match (is(ConditionType::Stalled, "True"), is(ConditionType::Ready, "True")) {
        (Some(true), _) => "Failed",
        (_, Some(false)) => "InProgress",
        (_, Some(true) | None) => "Current",
    }
}

/// Title, world, what happens to it, Ready, Stalled, what kstatus makes of it.
type Wanted = (&'static str, fn() -> World, Change, (&'static str, &'static str), &'static str, &'static str);

const WANTED: &[Wanted] = &[
    ("new", NEW, NOTHING, ("False", "RecordingBirth"), "", "InProgress"),
    ("forming", World::forming, NOTHING, ("False", "WaitingForPodStarted"), "", "InProgress"),
    ("all up, not latched", World::up, NOTHING, ("False", "Forming"), "", "InProgress"),
    ("formed", World::formed, NOTHING, ("True", "Settled"), "", "Current"),
    (
        "a member has to join",
        World::formed,
        |w| w.desired = desired_of(r#"{"size": 4}"#),
        ("False", "WaitingForMemberJoined"),
        "",
        "InProgress",
    ),
    (
        "a member is too many",
        World::formed,
        |w| w.desired = desired_of(r#"{"size": 1}"#),
        ("False", "RemovingMember"),
        "",
        "InProgress",
    ),
    (
        "one member down",
        World::formed,
        |w| w.silence(1, Duration::ZERO),
        ("False", "WaitingForMemberBack"),
        "",
        "InProgress",
    ),
    (
        "one that Kubernetes finds not ready",
        World::formed,
        |w| w.pod(1).ready = crate::Readiness::NotReady,
        ("False", "WaitingForPodReady"),
        "",
        "InProgress",
    ),
    (
        "the clients' Service is gone",
        World::formed,
        |w| w.observed.client_service = SeenService::Missing,
        ("False", "Working"),
        "",
        "InProgress",
    ),
    (
        "ready pods that we cannot ask",
        World::formed,
        |w| w.observed.members.clear(),
        ("Unknown", "MembersUnknown"),
        "",
        "InProgress",
    ),
    (
        "everything lost",
        World::formed,
        |w| {
            w.observed.pods.clear();
            w.observed.members.clear();
        },
        ("False", "DataLost"),
        "True: DataLost",
        "Failed",
    ),
    (
        "bad spec",
        World::formed,
        |w| w.desired = desired_of(r#"{"size": 0}"#),
        ("False", "InvalidSpec"),
        "True: InvalidSpec",
        "Failed",
    ),
    (
        "an image that is missing, which may still come",
        World::forming,
        |w| w.pod(0).containers = vec![container(waiting("ErrImagePull", "no"))],
        ("False", "ImagePullFailing"),
        "Unknown: ImagePullFailing",
        "InProgress",
    ),
    (
        "paused with all that was asked for",
        World::formed,
        |w| w.desired = desired_of(r#"{"size": 3, "paused": true}"#),
        ("True", "Settled"),
        "",
        "Current",
    ),
    (
        "paused before the last edit was carried out",
        World::formed,
        |w| w.desired = desired_of(r#"{"size": 5, "paused": true}"#),
        ("False", "Paused"),
        "",
        "InProgress",
    ),
    (
        "paused before another version runs everywhere",
        World::formed,
        |w| w.desired = desired_of(r#"{"size": 3, "version": "3.7.1", "paused": true}"#),
        ("False", "Paused"),
        "",
        "InProgress",
    ),
    (
        "paused, and everything lost",
        World::formed,
        |w| {
            w.desired = desired_of(r#"{"size": 3, "paused": true}"#);
            w.observed.pods.clear();
            w.observed.members.clear();
        },
        ("False", "Paused"),
        "True: DataLost",
        "Failed",
    ),
    (
        "somebody else's cluster",
        || {
            let mut world = World::forming();
            world.observed.resource.status =
                EtcdClusterStatus { phase: Some("Running".to_owned()), ..EtcdClusterStatus::default() };
            world
        },
        NOTHING,
        ("Unknown", "AdoptionNeeded"),
        "True: AdoptionNeeded",
        "Failed",
    ),
];

#[test]
fn tools_that_wait_take_a_cluster_for_done_when_all_is_carried_out_and_for_failed_when_somebody_has_to_act() {
    for (title, start, change, ready, stalled, verdict) in WANTED {
        let mut world = start();
        change(&mut world);
        assert_eq!(said(&world, ConditionType::Ready), is(ready.0, ready.1), "{title}");
        assert_eq!(said(&world, ConditionType::Stalled), *stalled, "{title}");
        assert_eq!(kstatus(&world), *verdict, "{title}");
        let conditions = status(&world).conditions.unwrap();
        assert_eq!(conditions[0].type_, "Available", "{title}: what the book prints comes first");
        assert!(conditions.iter().all(|one| one.observed_generation == Some(2)), "{title}");
    }
}

/// The next round, this much later, with what the last one said in the status.
fn later(world: &mut World, seconds: i64) {
    let birth = world.observed.resource.status.birth.clone();
    world.observed.resource.status = EtcdClusterStatus { birth, ..status(world) };
    let by = Duration::from_secs(seconds.unsigned_abs());
    world.observed.now = world.observed.now.checked_add(by).unwrap();
}

#[test]
fn what_may_pass_by_itself_counts_as_stalled_when_it_has_not_for_five_minutes_and_for_each_generation_anew() {
    let mut world = World::forming();
    world.pod(0).containers = vec![container(waiting("ErrImagePull", "no"))];
    let stalled = |world: &World| said(world, ConditionType::Stalled);
    later(&mut world, 200);
    // Another word for the same trouble.
    world.pod(0).containers = vec![];
    world.pod(0).unschedulable = Some("0/3 nodes".to_owned());
    assert_eq!(stalled(&world), "Unknown: WaitingForPodScheduled");
    later(&mut world, 99);
    assert_eq!(stalled(&world), "Unknown: WaitingForPodScheduled");
    later(&mut world, 1);
    assert_eq!(stalled(&world), "True: WaitingForPodScheduled");
    later(&mut world, 1);
    assert_eq!(stalled(&world), "True: WaitingForPodScheduled");
    world.observed.resource.generation += 1;
    assert_eq!(stalled(&world), "Unknown: WaitingForPodScheduled", "the edit may be what helps");
    later(&mut world, 299);
    assert_eq!(stalled(&world), "Unknown: WaitingForPodScheduled");
    world.observed.resource.generation += 1;
    later(&mut world, 299);
    assert_eq!(stalled(&world), "Unknown: WaitingForPodScheduled");
    later(&mut world, 1);
    assert_eq!(stalled(&world), "True: WaitingForPodScheduled");
    world.pod(0).unschedulable = None;
    assert_eq!(stalled(&world), "");
}

#[test]
fn conditions_that_others_wrote_stay() {
    let mut world = World::formed();
    let theirs: Condition =
        serde_json::from_str(r#"{"type": "example.com/Audited", "status": "True"}"#).unwrap();
    world.observed.resource.status.conditions = Some(vec![theirs.clone()]);
    assert_eq!(status(&world).conditions.unwrap().last(), Some(&theirs));
    assert_eq!(status(&world).conditions.unwrap()[0].type_, "Available");
    let report = blind(&world.observed.resource, world.observed.now, "no answer");
    assert_eq!(report.status.conditions.unwrap().last(), Some(&theirs));
}

fn details(world: &World) -> Vec<[String; 4]> {
    let text = |text: Option<String>| text.unwrap_or_default();
    let all = status(world).member_details.unwrap_or_default();
    all.into_iter().map(|one| [text(one.id), text(one.role), text(one.version), text(one.reason)]).collect()
}

#[test]
fn each_member_is_told_of_by_name_with_what_it_runs_and_why_it_does_not_serve() {
    let mut world = World::formed();
    let status = status(&world);
    let all = status.member_details.unwrap();
    assert!(all.is_sorted_by(|a, b| a.name < b.name) && all.len() == 3, "{all:?}");
    let leader = all.iter().find(|one| one.name == world.name(0).to_string()).unwrap();
    assert_eq!((leader.id.as_deref(), leader.role.as_deref()), (Some("1"), Some("Leader")));
    assert_eq!((leader.version.as_deref(), leader.db_size), (Some("3.6.14"), Some(1 << 20)));
    assert_eq!(
        (&leader.reason, all.iter().filter(|one| one.role.as_deref() == Some("Voter")).count()),
        (&None, 2)
    );

    world.silence(1, Duration::ZERO);
    world.drop_pod(2);
    world.join("http://example-newnewnew1.example.default.svc:2380", true);
    let own =
        |id: &str, role: &str, version: &str, reason: &str| [id, role, version, reason].map(str::to_owned);
    let mut seen = details(&world);
    seen.sort();
    assert_eq!(
        seen,
        [
            own("1", "Leader", "3.6.14", ""),
            own("2", "Voter", "3.6.14", "WaitingForMemberBack"),
            own("3", "Voter", "", "MemberLost"),
            own("9", "Learner", "3.6.14", "WaitingForMemberJoined"),
        ]
    );
    for [_, _, _, reason] in seen.iter().filter(|one| !one[3].is_empty()) {
        assert!(api::reasons::CATALOGUE.iter().any(|(word, _)| word == reason), "{reason}");
    }
}

#[test]
fn what_was_known_of_a_member_is_kept_and_who_leads_is_not_guessed_without_a_quorum() {
    let mut world = World::formed();
    later(&mut world, 1);
    world.silence(1, Duration::ZERO);
    world.silence(2, Duration::ZERO);
    world.change_all(|answer| answer.linearizable = false);
    for one in status(&world).member_details.unwrap() {
        assert_eq!((one.role, one.db_size.is_some(), one.id.is_some()), (None, true, true), "{}", one.name);
    }
    let new = World::new(r#"{"size": 3}"#);
    assert_eq!(status(&new).member_details, None);
    let forming = status(&World::forming()).member_details.unwrap();
    assert!(forming.iter().all(|one| one.reason.as_deref() == Some("WaitingForPodStarted")), "{forming:?}");
}

#[test]
fn a_database_that_grows_a_little_is_no_news() {
    let mut world = World::formed();
    later(&mut world, 1);
    for ordinal in 0..3 {
        world.change_answer(ordinal, |answer| answer.db_bytes = Some((1 << 20) + 4096));
    }
    assert!(!world.plan().report.is_news(&world.observed.resource.status));
    world.change_answer(0, |answer| answer.db_bytes = Some(3 << 20));
    assert!(world.plan().report.is_news(&world.observed.resource.status));
}
