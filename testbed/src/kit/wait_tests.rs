//! `wait` against scripted watches, in paused time.

use futures::stream;
use k8s_openapi::api::core::v1::ConfigMap;

use super::*;

fn map(name: &str, value: &str) -> ConfigMap {
    let object = serde_json::json!({
        "metadata": { "name": name, "namespace": "t-x", "resourceVersion": "1" }, "data": { "v": value }
    });
    serde_json::from_value(object).unwrap()
}

fn value(map: &ConfigMap) -> &str {
    map.data.as_ref().map_or("", |data| data["v"].as_str())
}

fn broken() -> watcher::Result<Event<ConfigMap>> {
    Err(watcher::Error::NoResourceVersion)
}

/// Waits over these events, and then over a watch on which nothing happens any more.
async fn over<T>(
    events: Vec<watcher::Result<Event<ConfigMap>>>,
    check: impl FnMut(&[ConfigMap]) -> Result<T, String>,
) -> Result<T, WaitError> {
    let wait =
        Wait { subject: "configmaps of t-x".into(), what: "to change", deadline: Duration::from_secs(20) };
    wait.over(stream::iter(events).chain(stream::pending()), check).await
}

/// Notes every view that it is shown, and is never content.
fn noting(views: &mut Vec<String>) -> impl FnMut(&[ConfigMap]) -> Result<(), String> {
    |maps| {
        let names: Vec<_> = maps.iter().map(|map| format!("{}={}", map.name_any(), value(map))).collect();
        views.push(names.join(" "));
        Err(names.join(" "))
    }
}

#[tokio::test(start_paused = true)]
async fn a_list_is_judged_when_it_is_complete_and_then_after_every_event() {
    let mut views = Vec::new();
    let events = vec![
        Ok(Event::Init),
        Ok(Event::InitApply(map("b", "1"))),
        Ok(Event::InitApply(map("a", "1"))),
        Ok(Event::InitDone),
        Ok(Event::Apply(map("b", "2"))),
        Ok(Event::Apply(map("c", "1"))),
        Ok(Event::Delete(map("a", "1"))),
    ];
    over(events, noting(&mut views)).await.unwrap_err();
    assert_eq!(views, ["a=1 b=1", "a=1 b=2", "a=1 b=2 c=1", "b=2 c=1"]);
}

#[tokio::test(start_paused = true)]
async fn what_a_second_list_does_not_bring_is_gone() {
    let mut views = Vec::new();
    let events = vec![
        Ok(Event::Init),
        Ok(Event::InitApply(map("a", "1"))),
        Ok(Event::InitDone),
        broken(),
        Ok(Event::Init),
        Ok(Event::InitApply(map("b", "1"))),
        Ok(Event::InitDone),
    ];
    over(events, noting(&mut views)).await.unwrap_err();
    assert_eq!(views, ["a=1", "b=1"]);
}

#[tokio::test(start_paused = true)]
async fn it_ends_with_what_the_check_found() {
    let events = vec![Ok(Event::Init), Ok(Event::InitDone), Ok(Event::Apply(map("a", "7")))];
    let found = over(events, |maps| maps.first().map(|map| value(map).to_owned()).ok_or("none".into())).await;
    assert_eq!(found.unwrap(), "7");
}

#[tokio::test(start_paused = true)]
async fn a_broken_watch_is_taken_up_again_until_the_deadline() {
    let mut events = vec![Ok(Event::Init), Ok(Event::InitDone)];
    events.extend((0..50).map(|_| broken()));
    events.push(Ok(Event::Apply(map("a", "1"))));
    let started = Instant::now();
    over(events, |maps| if maps.is_empty() { Err("none".into()) } else { Ok(()) }).await.unwrap();
    assert_eq!(started.elapsed(), 50 * PAUSE);
}

#[tokio::test(start_paused = true)]
async fn a_failure_says_what_for_how_long_and_what_was_seen_last() {
    let events = vec![Ok(Event::Init), Ok(Event::InitDone), Ok(Event::Apply(map("a", "1")))];
    let error = over(events, noting(&mut Vec::new())).await.unwrap_err();
    assert_eq!(error.to_string(), "waited 20.0s for configmaps of t-x to change; last seen: a=1");
}

#[tokio::test(start_paused = true)]
async fn a_failure_of_a_watch_that_never_worked_says_why() {
    let events = (0..200).map(|_| broken()).collect();
    let error = over(events, noting(&mut Vec::new())).await.unwrap_err();
    assert_eq!(
        format!("{:#}", anyhow::Error::from(error)),
        "waited 20.0s for configmaps of t-x to change; nothing was ever seen; the watch was broken then: \
         no metadata.resourceVersion in watch result (does resource support watch?)"
    );
}

#[test]
fn the_subject_is_named_as_kubectl_would() {
    let table = [
        ("/api/v1/namespaces/t-x/pods", Some("etcd-0"), "pods/etcd-0 of t-x"),
        ("/api/v1/namespaces/t-x/pods", None, "pods of t-x"),
        ("/api/v1/nodes", Some("node1"), "nodes/node1"),
        ("/api/v1/namespaces", Some("t-x"), "namespaces/t-x"),
        ("/apis/apps/v1/namespaces/t-x/deployments", Some("d"), "deployments/d of t-x"),
        ("/apis/storage.k8s.io/v1/storageclasses", None, "storageclasses"),
    ];
    for (url, name, expected) in table {
        assert_eq!(subject(url, name), expected);
    }
}
