//! `audit` against lines as the API server writes them.

use std::io::Write;

use super::*;

const LIST: &str = r#"{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"Metadata","auditID":"1","stage":"ResponseComplete","requestURI":"/api/v1/namespaces/t-x/pods?limit=500","verb":"list","user":{"username":"system:serviceaccount:t-x:reader","uid":"u","groups":["system:serviceaccounts","system:authenticated"]},"sourceIPs":["127.0.0.1"],"userAgent":"kubectl/v1.35.8","objectRef":{"resource":"pods","namespace":"t-x","apiVersion":"v1"},"responseStatus":{"metadata":{},"code":200},"requestReceivedTimestamp":"2026-11-15T12:00:00.100000Z","stageTimestamp":"2026-11-15T12:00:00.200000Z","annotations":{"authorization.k8s.io/decision":"allow"}}"#;
const DENIED: &str = r#"{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"Metadata","auditID":"2","stage":"ResponseComplete","requestURI":"/api/v1/namespaces/t-x/pods/a/status","verb":"patch","user":{"username":"system:serviceaccount:t-x:reader","extra":{"authentication.kubernetes.io/pod-name":["reader-0"]}},"sourceIPs":["127.0.0.1"],"objectRef":{"resource":"pods","namespace":"t-x","name":"a","subresource":"status"},"responseStatus":{"status":"Failure","reason":"Forbidden","code":403},"requestReceivedTimestamp":"2026-11-15T12:00:01.000000Z","stageTimestamp":"2026-11-15T12:00:01.000000Z","annotations":{"authorization.k8s.io/decision":"forbid","pod-security.kubernetes.io/audit-violations":"would violate"}}"#;
const HEALTH: &str = r#"{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"Metadata","auditID":"3","stage":"ResponseComplete","requestURI":"/readyz","verb":"get","user":{"username":"admin"},"sourceIPs":["127.0.0.1"],"responseStatus":{"metadata":{},"code":200},"requestReceivedTimestamp":"2026-11-15T12:00:02.000000Z","stageTimestamp":"2026-11-15T12:00:02.000000Z"}"#;
const WATCH: &str = r#"{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"Metadata","auditID":"4","stage":"STAGE","requestURI":"/api/v1/nodes?watch=true","verb":"watch","user":{"username":"admin"},"impersonatedUser":{"username":"somebody"},"sourceIPs":["127.0.0.1"],"objectRef":{"resource":"nodes","apiVersion":"v1"},"responseStatus":{"metadata":{},"code":200},"requestReceivedTimestamp":"2026-11-15T12:00:03.000000Z","stageTimestamp":"2026-11-15T12:00:03.000000Z"}"#;

fn log(text: &str) -> (AuditLog, tempfile::NamedTempFile) {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(text.as_bytes()).unwrap();
    (AuditLog::at(file.path()), file)
}

#[test]
fn an_entry_says_who_did_what_to_which_object() {
    let (log, _file) = log(&format!("{LIST}\n{DENIED}\n"));
    let entries = log.all().entries().unwrap();
    assert_eq!(
        entries[1],
        AuditEntry {
            user: "system:serviceaccount:t-x:reader".into(),
            impersonator: None,
            pod: "reader-0".into(),
            verb: "patch".into(),
            namespace: "t-x".into(),
            group: String::new(),
            resource: "pods".into(),
            subresource: "status".into(),
            name: "a".into(),
            code: 403,
            stage: "ResponseComplete".into(),
            at: "2026-11-15T12:00:01Z".parse().unwrap(),
            user_agent: String::new(),
            annotations: BTreeMap::from([
                ("authorization.k8s.io/decision".into(), "forbid".into()),
                ("pod-security.kubernetes.io/audit-violations".into(), "would violate".into()),
            ]),
        }
    );
    assert_eq!(entries[0].user_agent, "kubectl/v1.35.8");
    assert!(entries[1].is_forbidden() && !entries[0].is_forbidden());
    assert_eq!((entries[0].violations(), entries[1].violations()), (None, Some("would violate")));
    assert_eq!(entries[0].annotations["authorization.k8s.io/decision"], "allow");
}

#[test]
fn questions_narrow_down() {
    let (log, _file) =
        log(&format!("{LIST}\n{DENIED}\n{HEALTH}\n{}\n", WATCH.replace("STAGE", "ResponseStarted")));
    let count = |query: AuditQuery<'_>| query.entries().unwrap().len();
    assert_eq!(count(log.all()), 4);
    assert_eq!(count(log.all().user("system:serviceaccount:t-x:reader")), 2);
    assert_eq!(count(log.all().user("system:serviceaccount:t-x:reader").verb("list")), 1);
    assert_eq!(count(log.all().writes()), 1);
    assert_eq!(count(log.all().namespace("t-x")), 2);
    assert_eq!(count(log.all().namespace("t-y")), 0);
    assert_eq!(count(log.all().resource("nodes")), 1);
    assert_eq!(count(log.all().after("2026-11-15T12:00:01Z".parse().unwrap())), 2);
}

#[test]
fn an_impersonated_user_is_the_one_who_did_it() {
    let (log, _file) = log(&format!("{}\n", WATCH.replace("STAGE", "ResponseStarted")));
    let entries = log.all().user("somebody").entries().unwrap();
    assert_eq!(entries[0].impersonator.as_deref(), Some("admin"));
}

#[test]
fn a_request_is_counted_once_whatever_its_stages() {
    let stages = ["RequestReceived", "ResponseStarted", "ResponseComplete"];
    let lines: Vec<_> = stages.iter().map(|stage| WATCH.replace("STAGE", stage)).collect();
    let (log, _file) = log(&format!("{}\n{HEALTH}\n{}\n{}\n", lines[0], lines[1], lines[2]));
    let entries = log.all().entries().unwrap();
    assert_eq!(entries.len(), 2);
    assert_eq!((entries[0].verb.as_str(), entries[0].stage.as_str()), ("watch", "ResponseComplete"));
}

#[test]
fn only_what_is_behind_the_mark_counts() {
    let (log, mut file) = log(&format!("{LIST}\n"));
    let mark = log.mark().unwrap();
    assert!(log.since(mark).entries().unwrap().is_empty());
    writeln!(file, "{DENIED}").unwrap();
    let entries = log.since(mark).entries().unwrap();
    assert_eq!(entries.iter().map(|it| it.code).collect::<Vec<_>>(), [403]);
}

#[test]
fn a_mark_inside_of_a_line_leaves_that_line_to_the_time_before() {
    let (head, tail) = LIST.split_at(100);
    let (log, mut file) = log(head);
    let mark = log.mark().unwrap();
    writeln!(file, "{tail}").unwrap();
    writeln!(file, "{DENIED}").unwrap();
    let entries = log.since(mark).entries().unwrap();
    assert_eq!(entries.iter().map(|it| it.code).collect::<Vec<_>>(), [403]);
}

#[test]
fn a_line_that_is_still_being_written_is_left_for_later() {
    let (head, tail) = DENIED.split_at(100);
    let (log, mut file) = log(&format!("{LIST}\n{head}"));
    assert_eq!(log.all().entries().unwrap().len(), 1);
    writeln!(file, "{tail}").unwrap();
    assert_eq!(log.all().entries().unwrap().len(), 2);
}

#[test]
fn a_rotated_log_is_an_error_and_not_an_empty_answer() {
    let (log, file) = log(&format!("{LIST}\n"));
    let mark = log.mark().unwrap();
    let rotated = |log: &AuditLog| matches!(log.since(mark).entries(), Err(AuditError::Rotated { .. }));
    file.as_file().set_len(0).unwrap();
    assert!(rotated(&log));
    // The new file has grown beyond the mark, and is another one all the same.
    let new = file.path().with_extension("new");
    std::fs::write(&new, format!("{LIST}\n{DENIED}\n")).unwrap();
    std::fs::rename(&new, file.path()).unwrap();
    assert!(rotated(&log));
}

#[test]
fn a_line_that_is_no_event_is_named_by_its_place() {
    let (log, _file) = log(&format!("{LIST}\nnonsense\n"));
    let Err(AuditError::NoEvent { at, .. }) = log.all().entries() else { panic!("took nonsense") };
    assert_eq!(at, LIST.len() as u64 + 1);
}

#[tokio::test(start_paused = true)]
async fn a_wait_in_vain_says_what_was_there() {
    let (log, _file) = log(&format!("{LIST}\n"));
    let wait =
        log.all().wait_for(Duration::from_secs(5), "to show two requests", |seen| seen.len() == 2).await;
    let error = wait.unwrap_err().to_string();
    assert!(error.contains("to show two requests"), "{error}");
    assert!(error.contains("system:serviceaccount:t-x:reader list pods t-x/ 200"), "{error}");
}
