//! Two operators and one Lease, or two, on an API server that keeps versions as the real one does.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use crate::fake::{Asked, failure, server};
use api::scope::Scope;
use http::Method;
use k8s_openapi::api::coordination::v1::Lease;
use kube::{Api, Client};
use operator::{
    gate::Gate,
    health::Health,
    leader::{Candidate, Elector, LEASE_CLUSTER_WIDE, LEASE_DURATION, LEASE_NAMESPACED, Leadership},
    metrics::Metrics,
};
use serde_json::{Value, json};
use tokio::{sync::oneshot, task::JoinHandle, time::advance};

/// Leases by name.
type Stored = Arc<Mutex<BTreeMap<String, Value>>>;

/// What is wrong with the way to the API server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Trouble {
    #[default]
    None,
    /// Nothing gets through.
    Away,
    /// What is written gets through, and nobody hears of it.
    AnswersLost,
}

type Way = Arc<Mutex<Trouble>>;

/// An API server that has Leases.
fn lease_server(stored: &Stored, way: &Way) -> Client {
    let (stored, way) = (Arc::clone(stored), Arc::clone(way));
    server(move |asked: &Asked| {
        let trouble = *way.lock().unwrap();
        if trouble == Trouble::Away {
            return failure(500, "InternalError", "away");
        }
        let mut stored = stored.lock().unwrap();
        let named = asked.body["metadata"]["name"].as_str().or(asked.path.rsplit('/').next());
        let name = named.unwrap().to_owned();
        let version = |lease: &Value| lease["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
        let known = stored.get(&name).map(version);
        let next = known.as_ref().map_or(1, |version| version.parse::<u32>().unwrap() + 1);
        let mut written = asked.body.clone();
        match (&asked.method, &known) {
            (&Method::GET, None) => return failure(404, "NotFound", "leases not found"),
            (&Method::GET, Some(_)) => return (200, stored[&name].clone()),
            (&Method::POST, Some(_)) => return failure(409, "AlreadyExists", "there"),
            (&Method::PUT, Some(known)) if asked.body["metadata"]["resourceVersion"] != json!(known) => {
                return failure(409, "Conflict", "moved");
            }
            _ => {}
        }
        written["metadata"]["resourceVersion"] = json!(next.to_string());
        stored.insert(name, written.clone());
        if trouble == Trouble::AnswersLost { failure(500, "InternalError", "lost") } else { (200, written) }
    })
    .0
}

struct Running {
    leadership: Leadership,
    health: Arc<Health>,
    way: Way,
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

fn run(name: &str, stored: &Stored) -> Running {
    start(Candidate { identity: name.to_owned(), scope: Scope::Namespaced, owner: None }, stored)
}

fn start(candidate: Candidate, stored: &Stored) -> Running {
    let (way, health) = (Way::default(), Arc::new(Health::default()));
    let api: Api<Lease> = Api::namespaced(lease_server(stored, &way), "n");
    let leadership = Leadership::new(LEASE_DURATION);
    let gate = Gate::new(leadership.clone(), Arc::new(Metrics::new()));
    let (stop, stopped) = oneshot::channel();
    let elector = Elector::new(api, gate, leadership.clone(), candidate, Arc::clone(&health));
    let task = tokio::spawn(elector.run(async { drop(stopped.await) }));
    Running { leadership, health, way, stop, task }
}

impl Running {
    fn leads(&self) -> bool {
        self.leadership.term().is_some()
    }
}

async fn pass(seconds: u64) {
    for _ in 0..seconds * 10 {
        advance(Duration::from_millis(100)).await;
        for _ in 0..20 {
            tokio::task::yield_now().await;
        }
    }
}

fn holder(stored: &Stored) -> String {
    holder_of(LEASE_NAMESPACED, stored)
}

fn holder_of(lease: &str, stored: &Stored) -> String {
    stored.lock().unwrap()[lease]["spec"]["holderIdentity"].as_str().unwrap().to_owned()
}

#[tokio::test(start_paused = true)]
async fn one_leads_and_stays_and_gives_the_lease_back_to_the_other() {
    let stored = Stored::default();
    let first = run("first", &stored);
    pass(1).await;
    let second = run("second", &stored);
    for _ in 0..30 {
        pass(1).await;
        assert!(first.leadership.term().is_some() && second.leadership.term().is_none());
    }
    first.stop.send(()).unwrap();
    first.task.await.unwrap();
    assert_eq!(holder(&stored), "", "given back");
    pass(3).await;
    assert!(first.leadership.term().is_none() && second.leadership.term().is_some());
    drop(second.stop);
}

#[tokio::test(start_paused = true)]
async fn a_holder_that_dies_is_followed_only_after_the_lease_has_run_out() {
    let stored = Stored::default();
    let first = run("first", &stored);
    pass(1).await;
    let second = run("second", &stored);
    pass(3).await;
    first.task.abort();
    pass(12).await;
    assert!(second.leadership.term().is_none());
    pass(6).await;
    assert!(second.leadership.term().is_some());
    assert!(first.leadership.term().is_none(), "by its own clock, without hearing of it");
    assert_eq!(holder(&stored), "second");
    assert_eq!(stored.lock().unwrap()[LEASE_NAMESPACED]["spec"]["leaseTransitions"], 1);
    drop((first.stop, second.stop));
}

#[tokio::test(start_paused = true)]
async fn of_two_that_start_together_one_leads() {
    let stored = Stored::default();
    let both = [run("first", &stored), run("second", &stored)];
    for _ in 0..20 {
        pass(1).await;
        assert_eq!(both.iter().filter(|one| one.leadership.term().is_some()).count(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_was_cut_off_goes_on_with_its_time_if_nobody_led_meanwhile_and_begins_another_if_somebody_did()
 {
    let stored = Stored::default();
    let first = run("first", &stored);
    pass(1).await;
    assert_eq!(first.leadership.term(), Some(1));
    *first.way.lock().unwrap() = Trouble::Away;
    pass(14).await;
    assert!(!first.leadership.is_held(), "it gave itself up");
    *first.way.lock().unwrap() = Trouble::None;
    pass(4).await;
    assert_eq!(first.leadership.term(), Some(1), "nobody else has led");

    let second = run("second", &stored);
    *first.way.lock().unwrap() = Trouble::Away;
    pass(20).await;
    assert_eq!((holder(&stored).as_str(), second.leadership.term()), ("second", Some(1)));
    second.task.abort();
    // Its own claim gets through, and it hears of it only when it looks again.
    *first.way.lock().unwrap() = Trouble::AnswersLost;
    while holder(&stored) != "first" {
        pass(1).await;
    }
    *first.way.lock().unwrap() = Trouble::None;
    pass(4).await;
    assert_eq!(first.leadership.term(), Some(2), "somebody else has led");
    drop((first.stop, second.stop));
}

#[tokio::test(start_paused = true)]
async fn the_lease_is_given_back_also_if_the_first_answer_is_lost() {
    for trouble in [Trouble::AnswersLost, Trouble::Away] {
        let stored = Stored::default();
        let first = run("first", &stored);
        pass(1).await;
        *first.way.lock().unwrap() = trouble;
        first.stop.send(()).unwrap();
        pass(1).await;
        *first.way.lock().unwrap() = Trouble::None;
        pass(5).await;
        assert_eq!(holder(&stored), "", "{trouble:?}");
        assert!(first.task.is_finished());
    }
}

#[tokio::test(start_paused = true)]
async fn in_one_namespace_an_operator_of_each_scope_leads() {
    let stored = Stored::default();
    let all = start(Candidate::new("op-1", Scope::ClusterWide, None), &stored);
    let one = start(Candidate::new("op-2", Scope::Namespaced, None), &stored);
    let standby = start(Candidate::new("op-3", Scope::ClusterWide, None), &stored);
    pass(1).await;
    for _ in 0..30 {
        pass(1).await;
        assert!(all.leads() && one.leads() && !standby.leads());
    }
    assert_eq!(holder_of(LEASE_CLUSTER_WIDE, &stored).split('_').next(), Some("op-1"));
    assert_eq!(holder_of(LEASE_NAMESPACED, &stored).split('_').next(), Some("op-2"));
    assert!(all.health.ready().1.contains("Lease: this process leads"));
    let waits = standby.health.ready().1;
    assert!(waits.contains("stands by for op-1_"), "{waits}");
    drop((all.stop, one.stop, standby.stop));
}

/// As releases had it that knew one Lease for both scopes.
fn of_an_older_release(stored: &Stored) -> Running {
    run("old_0123456789abcdef", stored)
}

#[tokio::test(start_paused = true)]
async fn a_cluster_wide_operator_waits_for_a_leader_of_an_older_release_and_says_so() {
    for gives_back in [true, false] {
        let stored = Stored::default();
        let old = of_an_older_release(&stored);
        pass(1).await;
        let new = start(Candidate::new("new", Scope::ClusterWide, None), &stored);
        for _ in 0..40 {
            pass(1).await;
            assert!(old.leads() && !new.leads());
        }
        let waits = new.health.ready().1;
        assert!(waits.contains("stands by for old_") && waits.contains("older release"), "{waits}");
        if gives_back {
            old.stop.send(()).unwrap();
            pass(3).await;
        } else {
            old.task.abort();
            pass(12).await;
            assert!(!new.leads(), "it may only be silent");
            pass(6).await;
        }
        assert!(new.leads(), "{gives_back}");
        assert!(new.health.ready().1.contains("Lease: this process leads"));
    }
}

#[tokio::test(start_paused = true)]
async fn a_cluster_wide_operator_makes_way_for_one_of_an_older_release_and_then_begins_another_time_of_leading()
 {
    let stored = Stored::default();
    let new = start(Candidate::new("new", Scope::ClusterWide, None), &stored);
    pass(5).await;
    assert_eq!(new.leadership.term(), Some(1));
    let old = of_an_older_release(&stored);
    pass(3).await;
    assert!(old.leads() && !new.leads());
    old.stop.send(()).unwrap();
    pass(3).await;
    assert_eq!(new.leadership.term(), Some(2), "somebody else has led");
    drop(new.stop);
}

#[tokio::test(start_paused = true)]
async fn nobody_begins_to_lead_over_all_namespaces_who_cannot_read_the_lease_of_older_releases() {
    let stored = Stored::default();
    let new = start(Candidate::new("new", Scope::ClusterWide, None), &stored);
    *new.way.lock().unwrap() = Trouble::Away;
    pass(5).await;
    assert!(!new.leads());
    *new.way.lock().unwrap() = Trouble::None;
    pass(3).await;
    assert!(new.leads());
    drop(new.stop);
}
