//! An API server that is slow, that wants to be left alone, or that fails, for a while in the middle of a workflow.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use axum::http::Method;
use fakes::{
    kubernetes::{
        Asked, Refuse, Slow,
        answer::{self, Answer},
        kinds,
    },
    wire::LATE,
};
use serde_json::Value;
use tokio::time::{Instant, sleep};

use crate::{
    goal::{changes, twice},
    workflow::{CREATE, GROW_BY_ONE, HEAL, Workflow},
    world::{PERSON, World},
};

/// How long it lasts: longer than a Lease.
const TROUBLE: Duration = Duration::from_secs(25);

/// What is wrong with the API server.
#[derive(Clone, Copy, Debug)]
enum Trouble {
    /// Every answer takes long, and comes in time.
    Slow,
    /// Writes take longer than anybody waits for them, and land all the same.
    SlowWrites,
    /// It refuses, and says when to come back. The Lease is let through, as the real one's priorities do.
    Busy,
    /// It is not there.
    Away,
    /// It fails.
    Failing,
}

const ALL: [Trouble; 5] =
    [Trouble::Slow, Trouble::SlowWrites, Trouble::Busy, Trouble::Away, Trouble::Failing];

impl Trouble {
    fn slow(self) -> Option<Slow> {
        match self {
            Self::Slow => Some(Arc::new(|_| Duration::from_secs(2))),
            Self::SlowWrites => {
                Some(Arc::new(|asked| if asked.is_write() { Duration::from_secs(8) } else { Duration::ZERO }))
            }
            Self::Busy | Self::Away | Self::Failing => None,
        }
    }

    fn answer(self) -> Option<Answer> {
        let failure = |code, reason, words| Some(answer::failure(code, reason, words, Value::Null));
        match self {
            Self::Slow | Self::SlowWrites => None,
            Self::Busy => Some(answer::busy(7)),
            Self::Away => {
                failure(503, "ServiceUnavailable", "the server is currently unable to handle the request")
            }
            Self::Failing => failure(500, "InternalError", "etcdserver: request timed out"),
        }
    }

    fn refuse(self) -> Option<Refuse> {
        let refused = self.answer()?;
        Some(Arc::new(move |asked| {
            let lease = asked.target().is_some_and(|target| target.kind == kinds::LEASES);
            let spared = asked.query == PERSON || lease && matches!(self, Self::Busy);
            (!spared).then(|| refused.clone())
        }))
    }
}

/// Runs a workflow during which the API server is in trouble from the moment that so many writes were made.
async fn run(workflow: Workflow, trouble: Trouble, after: usize) {
    let mut world = World::new();
    world.operate(None, |client| client);
    let (server, record) = (world.server.clone(), world.record.clone());
    let come_and_go = async {
        while record.writes().iter().filter(|write| write.number.is_some()).count() < after {
            sleep(Duration::from_millis(10)).await;
        }
        server.slow(trouble.slow());
        server.refuse(trouble.refuse());
        sleep(TROUBLE).await;
        server.slow(None);
        server.refuse(None);
    };
    tokio::join!((workflow.script)(&world), come_and_go);
    sleep(LATE).await;
    (workflow.goal)(&world)
        .unwrap_or_else(|why| panic!("{trouble:?} after {after}: {why}\n{}", world.story()));
    assert_eq!(world.record.broken(), Vec::<String>::new(), "{trouble:?} after {after}\n{}", world.story());
    assert_eq!(twice(&world), Vec::<String>::new(), "{trouble:?} after {after}\n{}", world.story());
}

#[tokio::test(start_paused = true)]
async fn an_api_server_in_trouble_delays_every_workflow_and_has_nothing_done_twice() {
    let mut runs = 0;
    // At its beginning, and before each of what it is about: pods, a birth, additions, removals.
    let table: [(Workflow, &[usize]); 3] = [(CREATE, &[1, 6, 12]), (GROW_BY_ONE, &[13]), (HEAL, &[19])];
    for (workflow, afters) in table {
        for trouble in ALL {
            for after in afters {
                run(workflow, trouble, *after).await;
                runs += 1;
            }
        }
    }
    println!("an API server in trouble: {runs} runs");
}

/// How many requests come in while it wants to be left alone, the Lease and watches apart.
#[tokio::test(start_paused = true)]
async fn who_says_when_to_come_back_is_left_alone_until_then() {
    let mut world = World::new();
    world.operate(None, |client| client);
    (CREATE.script)(&world).await;
    sleep(LATE).await;
    let asked: Arc<std::sync::Mutex<Vec<Instant>>> = Arc::default();
    let heard = Arc::clone(&asked);
    let busy: Refuse = Arc::new(move |asked| {
        let target = asked.target()?;
        if target.kind == kinds::LEASES || asked.is_on("watch") {
            return None;
        }
        heard.lock().unwrap().push(Instant::now());
        Some(answer::busy(7))
    });
    world.server.refuse(Some(busy));
    let pod = world.delete_a_pod_behind_its_back();
    sleep(Duration::from_mins(1)).await;
    let times = asked.lock().unwrap().clone();
    let rounds = times.iter().zip(times.iter().skip(1)).filter(|(a, b)| **b - **a > Duration::ZERO);
    let gaps: Vec<Duration> = rounds.map(|(a, b)| *b - *a).collect();
    assert!(!gaps.is_empty() && gaps.iter().all(|gap| *gap >= Duration::from_secs(7)), "{gaps:?}");
    world.server.refuse(None);
    world
        .until("another member in its place", |world| {
            (HEAL.goal)(world)?;
            if world.has_pod(&pod) { Err(format!("{pod} is there")) } else { Ok(()) }
        })
        .await;
}

/// Every creation of a pod takes longer than anybody waits for it, as with a slow webhook, and for ever.
#[tokio::test(start_paused = true)]
async fn pods_that_come_later_than_anybody_waits_for_are_those_of_their_members() {
    for workflow in [CREATE, GROW_BY_ONE, HEAL] {
        let mut world = World::new();
        world.operate(None, |client| client);
        world.server.slow(Some(Arc::new(|asked| {
            let creates = asked.method == Method::POST;
            let pods = asked.target().is_some_and(|target| target.kind == kinds::PODS);
            if creates && pods { Duration::from_secs(12) } else { Duration::ZERO }
        })));
        (workflow.script)(&world).await;
        sleep(LATE).await;
        (workflow.goal)(&world).unwrap_or_else(|why| panic!("{}: {why}\n{}", workflow.name, world.story()));
        assert_eq!(twice(&world), Vec::<String>::new(), "{}\n{}", workflow.name, world.story());
        assert_eq!(changes(&world, "remove"), usize::from(workflow.name == HEAL.name), "{}", world.story());
    }
}

/// Events that come too late, or fail, or may not be written: what happened is told all the same, once, or nobody is kept from anything.
#[tokio::test(start_paused = true)]
async fn what_could_not_be_told_is_told_later_and_once() {
    let events = |asked: &Asked| {
        asked.method == Method::POST && asked.target().is_some_and(|target| target.kind == kinds::EVENTS)
    };
    let late: Slow =
        Arc::new(move |asked| if events(asked) { Duration::from_secs(8) } else { Duration::ZERO });
    let refuse = |code, reason: &'static str| -> Refuse {
        Arc::new(move |asked| events(asked).then(|| answer::failure(code, reason, "no", Value::Null)))
    };
    let failing = refuse(500, "InternalError");
    let forbidden = refuse(403, "Forbidden");
    for (title, slow, refuse, told) in [
        ("late", Some(late), None, 1),
        ("failing", None, Some(failing), 1),
        ("forbidden", None, Some(forbidden), 0),
    ] {
        let mut world = World::new();
        world.operate(None, |client| client);
        (CREATE.script)(&world).await;
        sleep(LATE).await;
        world.server.slow(slow);
        world.server.refuse(refuse);
        let lost = world.delete_a_pod_behind_its_back();
        sleep(TROUBLE).await;
        (HEAL.goal)(&world).unwrap_or_else(|why| panic!("{title}: {why}\n{}", world.story()));
        world.server.slow(None);
        world.server.refuse(None);
        sleep(LATE).await;
        let reasons: Vec<String> = world
            .server
            .store()
            .lock()
            .of(kinds::EVENTS)
            .map(|(_, event)| {
                let about = event["message"].as_str().is_some_and(|message| message.contains(&lost));
                format!("{} {about}", event["reason"].as_str().unwrap_or_default())
            })
            .collect();
        for reason in ["Replacing Dead Member true", "Member Removed true"] {
            let times = reasons.iter().filter(|seen| *seen == reason).count();
            assert_eq!(times, told, "{title}: {reason} in {reasons:?}\n{}", world.story());
        }
        assert_eq!(twice(&world), Vec::<String>::new(), "{title}\n{}", world.story());
    }
}

/// A status that may not be written is tried less and less often.
#[tokio::test(start_paused = true)]
async fn a_status_that_is_refused_is_no_reason_to_ask_all_the_time() {
    let mut world = World::new();
    world.operate(None, |client| client);
    (CREATE.script)(&world).await;
    let tried: Arc<AtomicUsize> = Arc::default();
    let counted = Arc::clone(&tried);
    world.server.refuse(Some(Arc::new(move |asked| {
        let target = asked.target().filter(|_| asked.method == Method::PATCH)?;
        (target.kind == kinds::CLUSTERS && target.part == "status").then(|| {
            counted.fetch_add(1, Ordering::SeqCst);
            answer::failure(403, "Forbidden", "not allowed", Value::Null)
        })
    })));
    world.delete_a_pod_behind_its_back();
    sleep(Duration::from_mins(10)).await;
    let tried = tried.load(Ordering::SeqCst);
    assert!((2..60).contains(&tried), "tried {tried} times in ten minutes");
}

/// A Lease that is renewed at the very last, after rounds were not allowed to write any more: nobody loses it, so nobody is told that a
/// time of leading begins.
#[tokio::test(start_paused = true)]
async fn what_could_not_be_written_near_the_end_of_a_lease_is_written_when_it_is_renewed() {
    for half_seconds in 14..32 {
        let mut world = World::new();
        world.operate(None, |client| client);
        (CREATE.script)(&world).await;
        sleep(LATE).await;
        let refusals = AtomicUsize::new(1);
        let is_lease = |asked: &Asked| asked.target().is_some_and(|target| target.kind == kinds::LEASES);
        world.server.slow(Some(Arc::new(move |asked| {
            if is_lease(asked) { Duration::from_millis(2900) } else { Duration::ZERO }
        })));
        world.server.refuse(Some(Arc::new(move |asked| {
            let refused = is_lease(asked) && asked.is_write();
            let fails = |left: usize| left.checked_sub(1);
            let fails = refused && refusals.fetch_update(Ordering::SeqCst, Ordering::SeqCst, fails).is_ok();
            fails.then(|| answer::failure(500, "InternalError", "etcdserver: request timed out", Value::Null))
        })));
        sleep(Duration::from_millis(500) * half_seconds).await;
        let lost = world.delete_a_pod_behind_its_back();
        sleep(Duration::from_mins(2)).await;
        let healed = (HEAL.goal)(&world)
            .and_then(|()| if world.has_pod(&lost) { Err(format!("{lost} is there")) } else { Ok(()) });
        healed.unwrap_or_else(|why| panic!("{half_seconds} half seconds: {why}\n{}", world.story()));
    }
}
