//! The launcher with real etcd binaries of the supported minors.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test's functions may panic too"
)]

mod pod;

use std::{
    collections::BTreeMap,
    path::PathBuf,
    process::{Command, Output},
    time::Duration,
};

use etcd_admin::{Cause, Role};
use launch::{ClientUrl, CorruptionChecks, EtcdVersion, Intent, MemberLaunch, PeerUrl, Scheme, argv};
use loopback::{Cluster, VERSIONS, etcd, free_port, own_address};
use nix::sys::signal::Signal;
use pod::{Pod, eventually};

/// A member's two ports on the loopback, and its probes.
struct Ports {
    client: u16,
    peer: u16,
    /// Where the probes look for what the launcher has noted; nowhere, unless it is said.
    marker: PathBuf,
}

impl Ports {
    fn new() -> Self {
        Self { client: free_port(), peer: free_port(), marker: PathBuf::from("/nowhere") }
    }

    /// Flags for a member whose peers have these ports.
    fn flags(&self, others: &[u16]) -> Vec<String> {
        let url = |port: u16| format!("http://{}:{port}", own_address());
        let member = |port: u16| format!("m{port}={}", url(port));
        let mut cluster = member(self.peer);
        for port in others {
            cluster = format!("{cluster},{}", member(*port));
        }
        vec![
            format!("--name=m{}", self.peer),
            format!("--listen-client-urls={}", url(self.client)),
            format!("--advertise-client-urls={}", url(self.client)),
            format!("--listen-peer-urls={}", url(self.peer)),
            format!("--initial-advertise-peer-urls={}", url(self.peer)),
            format!("--initial-cluster={cluster}"),
        ]
    }

    fn probe(&self, question: &str) -> Output {
        Command::new(env!("CARGO_BIN_EXE_etcd-launcher"))
            .args(["probe", question])
            .arg(format!("--client=http://{}:{}", own_address(), self.client))
            .arg(format!("--peer={}:{}", own_address(), self.peer))
            .arg(format!("--marker-dir={}", self.marker.display()))
            .output()
            .unwrap()
    }

    fn says_yes(&self, question: &str) -> bool {
        self.probe(question).status.success()
    }
}

#[test]
fn a_member_starts_serves_restarts_on_its_data_and_is_refused_without_it() {
    for version in VERSIONS {
        let pod = Pod::with(&etcd(version));
        let ports = Ports::new();
        let order = pod.order(version, Intent::NewCluster, &ports.flags(&[]));
        for round in ["first", "second"] {
            assert!(!ports.says_yes("liveness") && !ports.says_yes("readiness"));
            let mut container = pod.start(&order);
            let what = format!("etcd {version} is ready for the {round} time");
            eventually(&what, || pod.log(), || ports.says_yes("readiness"));
            assert!(ports.says_yes("liveness"));
            if round == "first" {
                container.kill();
            } else {
                container.signal(Signal::SIGTERM);
                container.wait();
                assert!(pod.said_nothing_at_the_end());
            }
        }
        pod.wipe_data();
        assert_eq!(pod.refusal(Some(&order.to_annotation())), "DataLost", "{version}");
    }
}

#[test]
fn without_a_quorum_a_member_is_alive_but_not_ready() {
    for version in VERSIONS {
        let pod = Pod::with(&etcd(version));
        let ports = Ports::new();
        let order = pod.order(version, Intent::NewCluster, &ports.flags(&[free_port(), free_port()]));
        let _container = pod.start(&order);
        let what = format!("{version}: it would be killed for having no peers");
        eventually(&what, || pod.log(), || ports.says_yes("liveness"));
        let answer = ports.probe("readiness");
        assert!(!answer.status.success());
        assert!(String::from_utf8_lossy(&answer.stdout).starts_with("not ready: "), "{answer:?}");
    }
}

#[test]
fn a_member_that_loses_its_quorum_is_ready_no_more_but_lives_on() {
    for version in VERSIONS {
        let pods = [Pod::with(&etcd(version)), Pod::with(&etcd(version))];
        let ports = [Ports::new(), Ports::new()];
        let start = |own: usize, other: usize| {
            let flags = ports[own].flags(&[ports[other].peer]);
            pods[own].start(&pods[own].order(version, Intent::NewCluster, &flags))
        };
        let (_survivor, mut other) = (start(0, 1), start(1, 0));
        for (pod, ports) in pods.iter().zip(&ports) {
            eventually("both members are ready", || pod.log(), || ports.says_yes("readiness"));
        }
        other.kill();
        eventually("the survivor is not ready", || pods[0].log(), || !ports[0].says_yes("readiness"));
        assert!(ports[0].says_yes("liveness"), "{version}");
        other = start(1, 0);
        eventually("the survivor is ready again", || pods[0].log(), || ports[0].says_yes("readiness"));
        drop(other);
    }
}

#[tokio::test]
async fn a_learner_is_ready_at_the_moment_of_its_promotion() {
    for version in VERSIONS {
        let mut cluster = Cluster::start(version, 1).await;
        let old = cluster.members[0].handle();
        let index = cluster.push();
        let added = old.add_member(&[cluster.members[index].peer_url.clone()], Role::Learner).await.unwrap();
        cluster.run(index, "existing");
        let log = || cluster.members[index].log();
        let new = cluster.members[index].handle();
        loopback::eventually("the learner answers", log, async || new.status().await.ok()).await;

        let mut asked = Command::new(env!("CARGO_BIN_EXE_etcd-launcher"))
            .args(["probe", "readiness", "--timeout-ms=60000", "--marker-dir=/nowhere"])
            .arg(format!("--client={}", cluster.members[index].client_url))
            .spawn()
            .unwrap();
        // It would have said no long before.
        tokio::time::sleep(Duration::from_millis(500)).await;
        assert!(asked.try_wait().unwrap().is_none(), "{version}: it did not wait");
        let promoted = async || match old.promote_member(added.id).await {
            Ok(_) => Some(()),
            Err(error) => (error.cause == Cause::NotALearner).then_some(()),
        };
        loopback::eventually("the learner is promoted", log, promoted).await;
        assert!(asked.wait().unwrap().success(), "{version}");
    }
}

#[test]
fn a_process_that_is_stuck_is_not_alive_unless_it_has_not_come_to_answer_yet() {
    let version = VERSIONS[2];
    let pod = Pod::with(&etcd(version));
    let ports = Ports { marker: pod.path("marker"), ..Ports::new() };
    let starting = pod.path("marker/starting");
    let order = pod.order(version, Intent::NewCluster, &ports.flags(&[]));
    for _ in ["first", "again, on what the first has left"] {
        let container = pod.start(&order);
        eventually("the start is noted", || pod.log(), || starting.exists());
        container.signal(Signal::SIGSTOP);
        assert!(ports.says_yes("liveness"), "it would be killed while it reads its data");
        container.signal(Signal::SIGCONT);
        eventually("etcd has answered", || pod.log(), || ports.says_yes("liveness") && !starting.exists());
    }
    let container = pod.start(&order);
    eventually("etcd is ready", || pod.log(), || ports.says_yes("readiness"));
    assert!(!starting.exists(), "being ready is an answer too");
    container.signal(Signal::SIGSTOP);
    let answer = ports.probe("liveness");
    assert!(!answer.status.success());
    assert!(String::from_utf8_lossy(&answer.stdout).contains("no answer from the peer port"), "{answer:?}");
    container.signal(Signal::SIGCONT);
    eventually("etcd is alive again", || pod.log(), || ports.says_yes("liveness"));
}

#[test]
fn the_wrong_image_is_refused_before_it_touches_the_data() {
    let pod = Pod::with(&etcd("3.6.14"));
    let order = pod.order("3.5.33", Intent::NewCluster, &[]);
    assert_eq!(pod.refusal(Some(&order.to_annotation())), "VersionMismatch");
    assert!(!pod.data().exists());
}

#[test]
fn every_flag_of_the_golden_tables_is_known_to_the_real_binary() {
    for text in VERSIONS {
        let version: EtcdVersion = text.parse().unwrap();
        let launch = MemberLaunch {
            name: "a".parse().unwrap(),
            peer_url: PeerUrl::on(Scheme::Http, "a.b.svc").unwrap(),
            client_url: ClientUrl::on(Scheme::Http, "a.b.svc").unwrap(),
            peers: BTreeMap::new(),
            token: "t-1".parse().unwrap(),
            intent: Intent::NewCluster,
            checks: CorruptionChecks { at_start: true, on_compaction: true },
        };
        // `--version` comes last: etcd reads every flag before it, and exits on one that it does not know.
        let output = Command::new(etcd(text)).args(argv(&launch, version)).arg("--version").output().unwrap();
        let answer =
            format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success() && answer.contains(&format!("etcd Version: {text}")), "{answer}");
        let unknown = Command::new(etcd(text)).args(["--no-such-flag=1", "--version"]).output().unwrap();
        assert!(!unknown.status.success(), "the check above would not notice an unknown flag");
    }
}
