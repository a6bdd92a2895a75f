//! Histories on real etcd processes: a good cluster passes, also while a member crashes; one that lost its data is caught.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test's functions may panic too")]

use std::sync::{Arc, Mutex};

use loopback::{Cluster, VERSIONS, eventually, own_address};
use testbed::history::{Load, LoadError, Running, check::Violation};
use tokio::{
    io::copy_bidirectional,
    net::{TcpListener, TcpStream},
    task::JoinSet,
};

/// Stands where a Service would: each connection goes to the next of the addresses that are there at that time.
struct Service {
    address: String,
    members: Arc<Mutex<Vec<String>>>,
    _passing: JoinSet<()>,
}

impl Service {
    async fn to(cluster: &Cluster) -> Self {
        let listener = TcpListener::bind((own_address(), 0)).await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let members = Arc::new(Mutex::new(addresses(cluster)));
        let mut passing = JoinSet::new();
        let known = Arc::clone(&members);
        passing.spawn(async move {
            let mut connections = JoinSet::new();
            for turn in 0.. {
                let (mut client, _) = listener.accept().await.unwrap();
                let member = {
                    let known = known.lock().unwrap();
                    known[turn % known.len()].clone()
                };
                connections.spawn(async move {
                    if let Ok(mut member) = TcpStream::connect(member).await {
                        let _ = copy_bidirectional(&mut client, &mut member).await;
                    }
                });
            }
        });
        Self { address, members, _passing: passing }
    }

    fn turn_to(&self, cluster: &Cluster) {
        *self.members.lock().unwrap() = addresses(cluster);
    }
}

fn addresses(cluster: &Cluster) -> Vec<String> {
    let address = |url: &String| url.trim_start_matches("http://").to_owned();
    cluster.members.iter().map(|member| address(&member.client_url)).collect()
}

/// Waits until this many more operations have been answered.
async fn answered(running: &Running, more: usize) {
    let target = running.answered() + more;
    eventually(
        &format!("{target} answers"),
        || running.progress(),
        async || (running.answered() >= target).then_some(()),
    )
    .await;
}

fn load() -> Load {
    Load { rate: 200, ..Load::default() }
}

#[tokio::test]
async fn every_version_keeps_its_promises_while_a_member_crashes_and_comes_back() {
    for version in VERSIONS {
        let mut cluster = Cluster::start(version, 3).await;
        let service = Service::to(&cluster).await;
        let running = load().start_at(service.address.clone(), None).await.unwrap();
        answered(&running, 100).await;
        cluster.members[0].kill();
        answered(&running, 100).await;
        cluster.run(0, "new");
        answered(&running, 100).await;
        let verdict = running.finish().await.unwrap_or_else(|error| panic!("{version}: {error}"));
        assert!(verdict.checked() >= 300 && verdict.writes > 0 && verdict.reads > 0, "{version}: {verdict}");
    }
}

#[tokio::test]
async fn a_cluster_that_lost_all_its_data_is_caught() {
    let [good, empty] = [Cluster::start("3.6.14", 1).await, Cluster::start("3.6.14", 1).await];
    let service = Service::to(&good).await;
    let running = load().start_at(service.address.clone(), None).await.unwrap();
    answered(&running, 100).await;
    service.turn_to(&empty);
    drop(good);
    answered(&running, 20).await;
    let error = running.finish().await.unwrap_err();
    let LoadError::Violated { violations, .. } = &error else { panic!("{error}") };
    let has = |wanted: fn(&Violation) -> bool| violations.iter().any(wanted);
    assert!(has(|it| matches!(it, Violation::Lost { .. })), "{error}");
    assert!(has(|it| matches!(it, Violation::NotLinearizable(_))), "{error}");
    assert!(has(|it| matches!(it, Violation::RevisionWentBack { .. })), "{error}");
}

#[tokio::test]
async fn a_cluster_that_answers_less_than_was_asked_for_gives_no_verdict() {
    let cluster = Cluster::start("3.6.14", 1).await;
    let service = Service::to(&cluster).await;
    let load = Load { minimum: 1000.0, ..load() };
    let running = load.start_at(service.address.clone(), None).await.unwrap();
    answered(&running, 50).await;
    let error = running.finish().await.unwrap_err();
    assert!(matches!(error, LoadError::TooSlow { .. }), "{error}");
}
