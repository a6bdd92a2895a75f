//! The launcher with a shell script in etcd's place: what it starts, what it refuses, and how it ends.

#![allow(clippy::unwrap_used, reason = "a test's functions may panic too")]

mod pod;

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    process::Command,
    time::{Duration, Instant},
};

use launch::{Intent, LaunchOrder, ORDER_ENV};
use nix::sys::signal::Signal;
use pod::{Pod, eventually};

/// Answers as etcd 3.6.14, and writes a log where it is told to keep its data.
const ETCD: &str = r#"
case "$1" in
--version) echo "etcd Version: 3.6.14"; echo "Git SHA: 0"; exit 0 ;;
--data-dir=*) mkdir -p "${1#--data-dir=}/member/wal" && : > "${1#--data-dir=}/member/wal/0.wal" ;;
esac
echo "args: $*"
echo "order: ${LAUNCH_ORDER-gone}""#;

/// The same, but it exits before it has written anything.
const ETCD_THAT_GIVES_UP: &str = r#"[ "$1" = --version ] && echo "etcd Version: 3.6.14" && exit 0; exit 1"#;

fn order(pod: &Pod, intent: Intent) -> String {
    pod.order("3.6.14", intent, &["--name=a b".to_owned()]).to_annotation()
}

#[test]
fn etcd_gets_its_arguments_as_they_are_and_nothing_of_the_launchers() {
    let pod = Pod::with_script(ETCD);
    let output = pod.run(Some(&order(&pod, Intent::NewCluster)));
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains(&format!("args: --data-dir={} --name=a b\n", pod.data().display())), "{text}");
    assert!(text.contains("order: gone\n"), "{text}");
    assert!(pod.said_nothing_at_the_end());
    let mode = fs::metadata(pod.data()).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o700, "as etcd itself makes it");
}

#[test]
fn a_container_restarts_on_its_data_and_never_without_it() {
    let pod = Pod::with_script(ETCD);
    let first = order(&pod, Intent::Join);
    for _ in 0..3 {
        assert!(pod.run(Some(&first)).status.success());
    }
    // The operator has not changed its order yet: only the marker remembers.
    pod.wipe_data();
    assert_eq!(pod.refusal(Some(&first)), "DataLost");
    assert_eq!(pod.refusal(Some(&first)), "DataLost", "refusing changes nothing");
    // A new pod has no marker: only the operator remembers.
    pod.remake();
    assert_eq!(pod.refusal(Some(&order(&pod, Intent::Restart))), "DataLost");
    assert!(pod.run(Some(&first)).status.success(), "with neither, it is a first start");
}

#[test]
fn a_member_that_lost_only_etcds_part_of_its_data_is_not_started_either() {
    let pod = Pod::with_script(ETCD);
    let first = order(&pod, Intent::Join);
    assert!(pod.run(Some(&first)).status.success());
    fs::remove_dir_all(pod.data().join("member")).unwrap();
    // The seal beside it is still there, and the operator has not changed its order yet.
    assert!(pod.data().join("launcher-seal.json").exists());
    assert_eq!(pod.refusal(Some(&first)), "DataLost");
}

#[test]
fn a_first_start_that_came_to_nothing_is_tried_again() {
    let pod = Pod::with_script(ETCD_THAT_GIVES_UP);
    let first = order(&pod, Intent::Join);
    for _ in 0..3 {
        let output = pod.run(Some(&first));
        assert_eq!(output.status.code(), Some(1), "etcd's own exit code: {output:?}");
        assert!(pod.said_nothing_at_the_end());
    }
    pod.wipe_data();
    assert_eq!(pod.refusal(Some(&first)), "DataLost");
}

#[test]
fn data_of_somebody_else_is_refused() {
    let pod = Pod::with_script(ETCD);
    assert!(pod.run(Some(&order(&pod, Intent::NewCluster))).status.success());
    pod.remake();
    for (from, to) in [("a-bcdfghjk24", "a-vwxz278999"), ("t-1", "t-2")] {
        for intent in [Intent::NewCluster, Intent::Join, Intent::Restart] {
            let other = order(&pod, intent).replace(from, to);
            assert_eq!(pod.refusal(Some(&other)), "DataForeign", "{to} {intent:?}");
        }
    }
    fs::remove_file(pod.data().join("launcher-seal.json")).unwrap();
    assert_eq!(pod.refusal(Some(&order(&pod, Intent::Restart))), "DataForeign", "data that nobody sealed");
}

#[test]
fn an_order_that_cannot_be_followed_is_refused() {
    let pod = Pod::with_script(ETCD);
    let good = order(&pod, Intent::NewCluster);
    let elsewhere =
        LaunchOrder { argv: vec!["--data-dir=/elsewhere".to_owned()], ..LaunchOrder::read(&good).unwrap() };
    let table = [
        (None, "OrderMissing"),
        (Some(String::new()), "OrderMissing"),
        (Some("{".to_owned()), "OrderUnreadable"),
        (Some(elsewhere.to_annotation()), "OrderUnreadable"),
        (Some(good.replace(r#""format":1"#, r#""format":2"#)), "OrderTooNew"),
        (Some(good.replace("3.6.14", "3.6.13")), "VersionMismatch"),
    ];
    for (text, expected) in table {
        assert_eq!(pod.refusal(text.as_deref()), expected, "{text:?}");
        assert!(!pod.data().exists(), "a refusal leaves the volume as it was");
    }
}

#[test]
fn an_image_without_a_working_etcd_is_refused() {
    for script in ["exit 3", "echo something else", "echo etcd Version:"] {
        let pod = Pod::with_script(script);
        assert_eq!(pod.refusal(Some(&order(&pod, Intent::NewCluster))), "EtcdNotRunnable", "{script}");
    }
    let pod = Pod::with_script(ETCD);
    fs::remove_file(&pod.etcd).unwrap();
    assert_eq!(pod.refusal(Some(&order(&pod, Intent::NewCluster))), "EtcdNotRunnable");
    let pod = Pod::with_script("echo etcd Version: 9.9.9");
    assert_eq!(pod.refusal(Some(&order(&pod, Intent::NewCluster))), "VersionMismatch");
}

#[test]
fn a_volume_that_fails_is_refused_and_not_taken_for_an_empty_one() {
    let pod = Pod::with_script(ETCD);
    fs::write(pod.path("etcd-volume"), "not a folder").unwrap();
    assert_eq!(pod.refusal(Some(&order(&pod, Intent::NewCluster))), "StorageFailed");
}

#[test]
fn sigterm_ends_the_wait_for_etcds_answer_at_once() {
    let pod = Pod::with_script("touch \"$(dirname \"$0\")/asked\"; exec sleep 30");
    let begun = Instant::now();
    let mut container = pod.start(&pod.order("3.6.14", Intent::NewCluster, &[]));
    eventually("the launcher asks for the version", || pod.log(), || pod.path("asked").exists());
    container.signal(Signal::SIGTERM);
    assert_eq!(container.wait().code(), Some(143));
    assert!(begun.elapsed() < Duration::from_secs(20));
    assert!(pod.said_nothing_at_the_end(), "being told to end is no refusal");
}

#[test]
fn install_puts_a_copy_that_runs_where_it_is_told_and_may_be_repeated() {
    let folder = tempfile::tempdir().unwrap();
    let copy = folder.path().join("etcd-launcher");
    for _ in 0..2 {
        let status =
            Command::new(env!("CARGO_BIN_EXE_etcd-launcher")).arg("install").arg(&copy).status().unwrap();
        assert!(status.success());
    }
    let output = Command::new(&copy)
        .arg("run")
        .arg("--termination-log=/dev/null")
        .env_remove(ORDER_ENV)
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(78), "{output:?}");
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 1);
    let nowhere = folder.path().join("missing/etcd-launcher");
    let output =
        Command::new(env!("CARGO_BIN_EXE_etcd-launcher")).arg("install").arg(&nowhere).output().unwrap();
    assert!(
        !output.status.success() && String::from_utf8_lossy(&output.stdout).contains("copying this program")
    );
}
