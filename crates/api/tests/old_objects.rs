//! Objects as the classic operator's Go types wrote them are read, and mean what they meant.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a failed test is what a panic is for"
)]

mod common;

use api::{EtcdBackup, EtcdCluster, EtcdRestore, Phase, condition};
use common::fixtures;
use serde::de::DeserializeOwned;

fn read<T: DeserializeOwned>(name: &str) -> T {
    let all = fixtures("good");
    let fixture = all.iter().find(|fixture| fixture.name == format!("good/{name}")).unwrap();
    serde_json::from_value(fixture.documents[0].clone()).unwrap()
}

#[test]
fn a_running_cluster_keeps_its_status() {
    let cluster: EtcdCluster = read("old-cluster-running");
    assert_eq!(cluster.spec.size, Some(3));
    assert_eq!(cluster.spec.image(), Ok("quay.io/coreos/etcd:v3.2.13".to_owned()));
    let status = cluster.status.unwrap();
    assert_eq!(status.phase(), Phase::Running);
    assert_eq!(status.client_port, Some(2379));
    assert_eq!(status.members.unwrap().ready.unwrap().len(), 3);
    let available = status.conditions.unwrap();
    let available = condition::find(&available, api::ConditionType::Available).unwrap();
    assert_eq!(available.reason.as_deref(), Some("Cluster available"));
    assert_eq!(available.last_update_time, available.last_transition_time, "two spellings of one moment");
    assert_eq!(status.birth, None, "the classic operator recorded none");
}

#[test]
fn nulls_and_empty_blocks_mean_nothing() {
    let cluster: EtcdCluster = read("old-cluster-fresh");
    assert_eq!(cluster.spec.repository(), api::defaults::REPOSITORY);
    assert_eq!(cluster.spec.version(), Ok(api::defaults::VERSION));
    assert!(!cluster.spec.tls.unwrap().is_asked_for());
    assert_eq!(cluster.spec.pod.unwrap().cluster_domain(), "");
    assert_eq!(cluster.status.unwrap().phase(), Phase::None);
}

#[test]
fn a_failed_cluster_keeps_its_reason() {
    let cluster: EtcdCluster = read("old-cluster-claims");
    let status = cluster.status.unwrap();
    assert_eq!(status.phase(), Phase::Failed);
    assert_eq!(status.reason.as_deref(), Some("cluster failed to be created"));
}

#[test]
fn every_classic_field_lands_in_the_type() {
    let cluster: EtcdCluster = read("classic-pod-policy");
    let tls = cluster.spec.tls.as_ref().unwrap();
    assert_eq!(tls.peer_secret(), Some("etcd-peer-tls"));
    assert_eq!(tls.server_secret(), Some("etcd-server-tls"));
    assert_eq!(tls.operator_secret(), Some("etcd-client-tls"));
    let pod = cluster.spec.pod.as_ref().unwrap();
    assert_eq!(pod.dns_timeout_in_second, Some(30));
    assert_eq!(pod.cluster_domain(), ".cluster.local");

    // Written back it is the same document: nothing was dropped, renamed or added.
    let all = fixtures("good");
    let fixture = all.iter().find(|fixture| fixture.name == "good/classic-pod-policy").unwrap();
    assert_eq!(serde_json::to_value(&cluster).unwrap()["spec"], fixture.documents[0]["spec"]);
}

#[test]
fn a_backup_says_why_it_failed_with_a_capital_letter() {
    let backup: EtcdBackup = read("old-backup-failed");
    let status = backup.status.unwrap();
    assert_eq!(status.reason.as_deref(), Some("failed to save snapshot"));
    assert_eq!(status.last_success_date, None);
    assert_eq!(serde_json::to_value(&status).unwrap()["Reason"], "failed to save snapshot");

    let periodic: EtcdBackup = read("old-backup-periodic");
    assert_eq!(periodic.status.unwrap().etcd_revision, Some(42));
}

#[test]
fn a_restore_is_read() {
    let restore: EtcdRestore = read("old-restore");
    assert_eq!(restore.spec.etcd_cluster.unwrap().name.as_deref(), Some("example-etcd-cluster"));
    assert_eq!(restore.status.unwrap().succeeded, Some(true));
}
