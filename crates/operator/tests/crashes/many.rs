//! Many clusters and one operator: a thousand cost what a thousand times one costs, and one that is broken is alone with it.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use fakes::kubernetes::{Asked, kinds};
use http::{Method, Request};
use kube::{Client, client::Body};
use operator::metrics::Metrics;
use serde_json::json;
use tokio::time::{Instant, sleep};

use crate::{
    broken::bent,
    world::{NAMESPACE, Settings, World},
};

/// An operator whose figures can be read.
fn operate(world: &mut World, bend: fn(Client) -> Client) -> Arc<Metrics> {
    let metrics = Arc::new(Metrics::new());
    // The judge knows one cluster.
    let settings = Settings { judged: false, bend, metrics: Arc::clone(&metrics), ..Settings::default() };
    world.start("op-1", settings);
    metrics
}

/// A figure of the operator; all its lines with these words together.
pub(crate) fn figure(metrics: &Metrics, words: &str) -> u64 {
    let text = metrics.text();
    let lines = text.lines().filter(|line| line.starts_with("etcd_operator_") && line.contains(words));
    lines.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).sum()
}

/// How many clusters run.
fn running(world: &World) -> usize {
    let objects = world.server.store().lock();
    objects.of(kinds::CLUSTERS).filter(|(_, cluster)| cluster["status"]["phase"] == "Running").count()
}

fn all_run(world: &World, count: usize) -> Result<(), String> {
    let running = running(world);
    if running == count { Ok(()) } else { Err(format!("{running} of {count} run")) }
}

/// The numbered writes for each cluster, whose names are of one length and no beginning of each other.
fn writes_by_cluster(world: &World, names: &[String]) -> BTreeMap<String, usize> {
    let mut counts: BTreeMap<String, usize> = names.iter().map(|name| (name.clone(), 0)).collect();
    for write in world.record.writes().into_iter().filter(|write| write.number.is_some()) {
        let object = write.object.split_once('/').map_or(write.object.as_str(), |(_, name)| name);
        if let Some(count) = names.first().and_then(|name| counts.get_mut(object.get(..name.len())?)) {
            *count += 1;
        }
    }
    counts
}

#[tokio::test(start_paused = true)]
async fn a_thousand_clusters_cost_a_thousand_times_what_one_costs_and_nothing_when_idle() {
    const CLUSTERS: usize = 1000;
    let mut world = World::new();
    operate(&mut world, |client| client);
    world.create_named("c-0000", &json!({"size": 1}));
    world.until("one runs", |world| all_run(world, 1)).await;
    sleep(Duration::from_secs(30)).await;
    let alone = writes_by_cluster(&world, &["c-0000".to_owned()])["c-0000"];

    let mut world = World::new();
    let metrics = operate(&mut world, |client| client);
    let names: Vec<String> = (0..CLUSTERS).map(|n| format!("c-{n:04}")).collect();
    for name in &names {
        world.create_named(name, &json!({"size": 1}));
    }
    world.until("all run", |world| all_run(world, CLUSTERS)).await;
    sleep(Duration::from_secs(30)).await;
    let writes = writes_by_cluster(&world, &names);
    let (fewest, most) = (writes.values().min().unwrap(), writes.values().max().unwrap());
    println!("{CLUSTERS} clusters: {fewest} to {most} writes each, {alone} for one alone");
    // One report more or less, as it happens to look before or after something became ready.
    assert!(*fewest + 2 >= alone && *most <= alone + 2, "{fewest} to {most}, and {alone} for one alone");
    assert_eq!(world.etcd.opened(), CLUSTERS, "one connection for each member, and it is kept");

    let (written, rounds) = (world.written(), figure(&metrics, "rounds_total"));
    sleep(Duration::from_secs(15)).await;
    let rounds = figure(&metrics, "rounds_total") - rounds;
    assert_eq!(world.written(), written, "idle clusters cost no writes");
    println!("{CLUSTERS} idle clusters: {rounds} rounds in 15 s");
    assert!(rounds <= 5 * CLUSTERS as u64, "{rounds} rounds in 15 s");
    assert_eq!(world.etcd.opened(), CLUSTERS);

    for name in &names {
        world.person_with(NAMESPACE, name, Method::DELETE, &json!({}));
    }
    world
        .until("nothing is left", |world| match world.etcd.processes() {
            0 => Ok(()),
            left => Err(format!("{left} members are left")),
        })
        .await;
    // What is gone is forgotten at the next sweep.
    sleep(Duration::from_mins(1)).await;
    assert!(!metrics.text().contains("cluster=\""), "what is gone is not remembered");
}

static POISONED: AtomicBool = AtomicBool::new(true);

/// A loop with a fault that one cluster brings out.
fn panics_on_poison(client: Client) -> Client {
    bent(client, async |client: Client, asked: Request<Body>| {
        let poison = asked.uri().path().ends_with("/etcdclusters/poison");
        assert!(!poison || !POISONED.load(Ordering::SeqCst), "a panic in the rounds of one cluster");
        client.send(asked).await
    })
}

#[tokio::test(start_paused = true)]
async fn a_cluster_whose_rounds_panic_is_alone_with_it() {
    let mut world = World::new();
    let metrics = operate(&mut world, panics_on_poison);
    for name in ["a", "poison", "b"] {
        world.create_named(name, &json!({"size": 1}));
    }
    world.until("the others run", |world| all_run(world, 2)).await;
    world.person_with(NAMESPACE, "b", Method::PATCH, &json!({"spec": {"size": 2}}));
    world
        .until("another one grows", |world| {
            match world.resource_named("b").unwrap()["status"]["size"].as_i64() {
                Some(2) => Ok(()),
                size => Err(format!("{size:?}")),
            }
        })
        .await;
    sleep(Duration::from_mins(5)).await;
    assert_eq!((world.phase("poison").as_str(), world.record.broken()), ("", vec![]));
    let panicked = figure(&metrics, "outcome=\"panicked\"");
    assert!((5..=20).contains(&panicked), "{panicked} rounds in five minutes");
    POISONED.store(false, Ordering::SeqCst);
    world.until("all run", |world| all_run(world, 3)).await;
}

/// A loop with a fault outside of all rounds.
fn panics_while_it_watches(client: Client) -> Client {
    bent(client, async |client: Client, asked: Request<Body>| {
        assert!(!asked.uri().path().ends_with("/etcdbackups"), "a panic in a watch");
        client.send(asked).await
    })
}

#[tokio::test(start_paused = true)]
async fn an_operator_of_which_a_part_has_died_ends_and_leaves_the_rest_to_the_next() {
    let mut world = World::new();
    operate(&mut world, panics_while_it_watches);
    sleep(Duration::from_secs(30)).await;
    let ended = world.record.broken();
    assert!(ended.len() == 1 && ended[0].contains("ended by itself"), "{ended:?}");
    operate(&mut world, |client| client);
    world.create(&json!({"size": 1}));
    sleep(Duration::from_mins(1)).await;
    assert_eq!(running(&world), 1, "{}", world.story());
}

/// How long it takes until all of these run, by the world's clock, beside clusters that are broken in these ways.
async fn until_all_run(names: &[String], broken: bool) -> (Duration, usize, World) {
    let mut world = World::new();
    operate(&mut world, |client| client);
    let asked = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&asked);
    // Of one the API server tells nothing for longer than anybody waits; another one is changed ten times a second.
    world.server.slow(Some(Arc::new(move |asked: &Asked| {
        let silent = asked.path.ends_with("/etcdclusters/silent") && asked.method == Method::GET;
        counted.fetch_add(usize::from(silent), Ordering::SeqCst);
        if silent { Duration::from_mins(1) } else { Duration::ZERO }
    })));
    let begun = Instant::now();
    if broken {
        world.create_named("silent", &json!({"size": 3}));
        world.create_named("restless", &json!({"size": 1, "paused": true}));
    }
    for name in names {
        world.create_named(name, &json!({"size": 1}));
    }
    let mut changes = 0;
    while let Err(why) = all_run(&world, names.len()) {
        assert!(begun.elapsed() < Duration::from_mins(5), "{why}");
        if broken {
            let annotations = json!({"metadata": {"annotations": {"changed": format!("{changes} times")}}});
            world.person_with(NAMESPACE, "restless", Method::PATCH, &annotations);
            changes += 1;
        }
        sleep(Duration::from_millis(100)).await;
    }
    let took = begun.elapsed();
    sleep(Duration::from_mins(10)).await;
    (took, asked.load(Ordering::SeqCst), world)
}

#[tokio::test(start_paused = true)]
async fn one_broken_cluster_among_many_costs_the_others_nothing() {
    // More than are looked after at once.
    let names: Vec<String> = (0..50).map(|n| format!("c-{n:02}")).collect();
    let (alone, nobody, quiet) = until_all_run(&names, false).await;
    let (beside, asked, world) = until_all_run(&names, true).await;
    println!(
        "all run after {alone:?}, and after {beside:?} beside broken ones, of which one is asked {asked} times"
    );
    // A moment for another order of the same things.
    assert!(beside <= alone + Duration::from_secs(1), "{beside:?} instead of {alone:?}");
    assert_eq!((nobody, world.phase("silent").as_str()), (0, ""));
    assert!((10..=60).contains(&asked), "{asked} rounds in ten minutes");
    let (before, after) = (writes_by_cluster(&quiet, &names), writes_by_cluster(&world, &names));
    let more = names.iter().filter(|name| after[*name] > before[*name] + 2).count();
    assert_eq!(more, 0, "{before:?} {after:?}");
}
