//! Two operators and one Lease, on an API server that keeps versions as the real one does.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use crate::fake::{Asked, failure, server};
use http::Method;
use k8s_openapi::api::coordination::v1::Lease;
use kube::{Api, Client};
use operator::{
    gate::Gate,
    leader::{Elector, LEASE_DURATION, Leadership},
    metrics::Metrics,
};
use serde_json::{Value, json};
use tokio::{sync::oneshot, task::JoinHandle, time::advance};

type Stored = Arc<Mutex<Option<Value>>>;

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

/// An API server with room for one Lease.
fn lease_server(stored: &Stored, way: &Way) -> Client {
    let (stored, way) = (Arc::clone(stored), Arc::clone(way));
    server(move |asked: &Asked| {
        let trouble = *way.lock().unwrap();
        if trouble == Trouble::Away {
            return failure(500, "InternalError", "away");
        }
        let mut stored = stored.lock().unwrap();
        let version = |value: &Option<Value>| {
            value.as_ref().map(|lease| lease["metadata"]["resourceVersion"].as_str().unwrap().to_owned())
        };
        let known = version(&stored);
        let next = known.as_ref().map_or(1, |version| version.parse::<u32>().unwrap() + 1);
        let mut written = asked.body.clone();
        match (&asked.method, &known) {
            (&Method::GET, None) => return failure(404, "NotFound", "leases \"etcd-operator\" not found"),
            (&Method::GET, Some(_)) => return (200, stored.clone().unwrap()),
            (&Method::POST, Some(_)) => return failure(409, "AlreadyExists", "there"),
            (&Method::PUT, Some(known)) if asked.body["metadata"]["resourceVersion"] != json!(known) => {
                return failure(409, "Conflict", "moved");
            }
            _ => {}
        }
        written["metadata"]["resourceVersion"] = json!(next.to_string());
        *stored = Some(written.clone());
        if trouble == Trouble::AnswersLost { failure(500, "InternalError", "lost") } else { (200, written) }
    })
    .0
}

struct Candidate {
    leadership: Leadership,
    way: Way,
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

fn run(name: &str, stored: &Stored) -> Candidate {
    let way = Way::default();
    let api: Api<Lease> = Api::namespaced(lease_server(stored, &way), "n");
    let leadership = Leadership::new(LEASE_DURATION);
    let gate = Gate::new(leadership.clone(), Arc::new(Metrics::new()));
    let (stop, stopped) = oneshot::channel();
    let elector = Elector::new(api, gate, leadership.clone(), name.to_owned(), None);
    Candidate { leadership, way, stop, task: tokio::spawn(elector.run(async { drop(stopped.await) })) }
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
    stored.lock().unwrap().as_ref().unwrap()["spec"]["holderIdentity"].as_str().unwrap().to_owned()
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
    assert_eq!(stored.lock().unwrap().as_ref().unwrap()["spec"]["leaseTransitions"], 1);
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
