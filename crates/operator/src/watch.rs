//! WATCH: wakes a cluster's round when something happens to it, and does nothing more. What it hands on is never what is decided on.

use std::{convert::Infallible, future::Future, panic::AssertUnwindSafe, sync::Arc, time::Duration};

use api::{EtcdCluster, Reason, names, scope::Scope};
use futures::{FutureExt, StreamExt, future::BoxFuture, stream};
use k8s_openapi::api::{
    core::v1::{Pod, Service},
    policy::v1::PodDisruptionBudget,
};
use kube::{
    Api, Client, Resource, ResourceExt,
    core::{DeserializeGuard, PartialObjectMeta},
    runtime::{
        Controller,
        controller::{Action, Config, Error},
        reflector::{ObjectRef, Store},
        utils::Backoff,
        watcher,
    },
};
use tokio::{
    sync::Notify,
    time::{Instant, timeout},
};
use tracing::{debug, error, warn};

use crate::{
    clients::WATCH_SECONDS,
    crds,
    health::{CLUSTERS, Health, Watched},
    kinds::{self, CLUSTER, Kind},
    leader::Leadership,
    memory::Key,
    round::Context,
};

/// How many clusters are taken care of at once.
const CONCURRENCY: u16 = 32;
/// How often clusters that are gone are forgotten.
const SWEEP: Duration = Duration::from_secs(30);
/// After this time something that could not be written is tried again.
const RETRY: Duration = Duration::from_secs(10);

/// How long watches rest after a failure: at first, and at the longest.
const REST: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(2));
/// How long no watch must have failed before they rest only shortly again.
const CALM: Duration = Duration::from_secs(30);

/// A resource that may not be readable.
type Guarded = DeserializeGuard<EtcdCluster>;
type GuardedObject = DeserializeGuard<kube::api::DynamicObject>;

/// A signal to stop, as often as it is asked for.
pub type Stop = futures::future::Shared<BoxFuture<'static, ()>>;

/// What is watched: one namespace, or all.
#[derive(Clone)]
pub struct Where {
    /// The way to the API server.
    pub client: Client,
    /// Which resources are ours.
    pub scope: Scope,
    /// The operator's own namespace.
    pub namespace: String,
}

impl Where {
    fn api<K>(&self) -> Api<K>
    where
        K: Resource<Scope = k8s_openapi::NamespaceResourceScope, DynamicType = ()>,
    {
        match self.scope {
            Scope::Namespaced => Api::namespaced(self.client.clone(), &self.namespace),
            Scope::ClusterWide => Api::all(self.client.clone()),
        }
    }
}

/// Watches clusters and what was made for them until it is stopped. When the kind goes, it is waited for again.
pub async fn clusters(place: Where, context: Arc<Context>, health: Arc<Health>, stop: Stop) {
    while unless_stopped(&stop, crds::served(&place.client, &health, CLUSTERS, CLUSTER.plural)).await {
        watch_clusters(&place, &context, &health, &stop).await;
    }
}

async fn watch_clusters(place: &Where, context: &Arc<Context>, health: &Health, stop: &Stop) {
    let controller = Controller::new(place.api::<Guarded>(), config());
    let store = controller.store();
    let (pods, services) = (place.api::<PartialObjectMeta<Pod>>(), place.api::<PartialObjectMeta<Service>>());
    let labelled = config().labels(&format!("{}={}", names::LABEL_APP, names::LABEL_APP_VALUE));
    let of_pod = Waker { context: Arc::clone(context), store: store.clone() };
    let (of_service, of_budget) = (of_pod.clone(), of_pod.clone());
    let budgets = place.api::<PartialObjectMeta<PodDisruptionBudget>>();
    let (gone, ended) = gone_or_stopped(stop);
    let rounds = controller
        .with_config(Config::default().concurrency(CONCURRENCY))
        .trigger_backoff(Rest::default())
        .watches(pods, labelled, move |pod| of_pod.wake(&pod, clusters_of_pod(&pod)))
        // Without a selector: who has a name that we need does not carry our labels.
        .watches(services, config(), move |service| of_service.wake(&service, clusters_of_service(&service)))
        .watches(budgets, config(), move |budget| of_budget.wake(&budget, vec![budget.name_any()]))
        .reconcile_all_on(terms(&context.leadership))
        .graceful_shutdown_on(ended.clone())
        .run(wake, |_, never: &Infallible, _| match *never {}, Arc::clone(context))
        .for_each(|outcome| {
            tell(&outcome, &gone);
            std::future::ready(())
        });
    tokio::join!(rounds, unless_stopped(&ended, keep_house(&store, context, health)));
}

/// How everything is watched.
fn config() -> watcher::Config {
    watcher::Config::default().any_semantic().timeout(WATCH_SECONDS)
}

/// Takes care of a cluster that something happened to.
async fn wake(cluster: Arc<Guarded>, context: Arc<Context>) -> Result<Action, Infallible> {
    let key = Key { namespace: cluster.namespace().unwrap_or_default(), name: cluster.name_any() };
    if !context.scope.manages(cluster.meta().annotations.as_ref()) {
        return Ok(Action::await_change());
    }
    if context.leadership.term().is_none() {
        return Ok(again(context.when_not_leading()));
    }
    if let Err(unreadable) = &cluster.0 {
        let reason = Reason::InvalidSpec { problems: unreadable.error.clone() };
        let said =
            kinds::say(&context.client, &context.gate, CLUSTER, &key.namespace, &key.name, &reason).await;
        return Ok(if said { Action::await_change() } else { Action::requeue(RETRY) });
    }
    // The library passes a panic on to whoever runs the Controller: what goes wrong with one cluster must end with it.
    let care = AssertUnwindSafe(context.take_care(&key, cluster.meta().resource_version.as_deref()));
    let Ok(wait) = care.catch_unwind().await else {
        error!(cluster = %format_args!("{}/{}", key.namespace, key.name), "a round panicked; the others go on");
        return Ok(Action::requeue(context.recover(&key).await));
    };
    Ok(again(wait))
}

fn again(wait: Option<Duration>) -> Action {
    wait.map_or_else(Action::await_change, Action::requeue)
}

/// Wakes the clusters that an object concerns.
#[derive(Clone)]
struct Waker {
    context: Arc<Context>,
    store: Store<Guarded>,
}

impl Waker {
    /// The clusters of these names, among those that exist; it is noted that something happened to them.
    fn wake(&self, object: &impl Resource<DynamicType = ()>, names: Vec<String>) -> Vec<ObjectRef<Guarded>> {
        let namespace = object.meta().namespace.clone().unwrap_or_default();
        let references = names.into_iter().map(|name| ObjectRef::new(&name).within(&namespace));
        let concerned: Vec<ObjectRef<Guarded>> =
            references.filter(|reference| self.store.get(reference).is_some()).collect();
        for reference in &concerned {
            self.context.memories.touch(&Key { namespace: namespace.clone(), name: reference.name.clone() });
        }
        concerned
    }
}

/// The cluster that a pod belongs to, by its owner or by its label.
fn clusters_of_pod(pod: &PartialObjectMeta<Pod>) -> Vec<String> {
    let label = pod.labels().get(names::LABEL_CLUSTER).cloned();
    let mut clusters: Vec<String> = owners(pod.owner_references()).chain(label).collect();
    clusters.sort_unstable();
    clusters.dedup();
    clusters
}

/// The clusters that a Service belongs to, or whose name it has.
fn clusters_of_service(service: &PartialObjectMeta<Service>) -> Vec<String> {
    let name = service.name_any();
    let client = name.strip_suffix("-client").map(str::to_owned);
    let mut clusters: Vec<String> = owners(service.owner_references()).chain(client).chain([name]).collect();
    clusters.sort_unstable();
    clusters.dedup();
    clusters
}

fn owners(
    references: &[k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference],
) -> impl Iterator<Item = String> + '_ {
    references.iter().filter(|owner| owner.kind == CLUSTER.name).map(|owner| owner.name.clone())
}

/// A signal for each time that this process begins to lead.
fn terms(leadership: &Leadership) -> impl futures::Stream<Item = ()> + Send + use<> {
    stream::unfold(leadership.changes(), async |mut changes| {
        loop {
            if changes.next().await? {
                return Some(((), changes));
            }
        }
    })
}

/// Notes when all clusters are known, and forgets those that are gone or not ours any more; and all of them when somebody else leads, whose
/// figures they are from then on.
async fn keep_house(store: &Store<Guarded>, context: &Context, health: &Health) {
    let mut changes = context.leadership.changes();
    if store.wait_until_ready().await.is_ok() {
        health.note(CLUSTERS, Watched::Synced);
    }
    loop {
        let leads = timeout(SWEEP, changes.next()).await.map_or(Some(true), |leads| leads);
        let Some(leads) = leads else { return };
        if !leads {
            context.follow().await;
        }
        // Whose resource was given to another operator is that one's to tell of, too.
        let is_ours = |key: &Key| {
            let cluster = store.get(&ObjectRef::new(&key.name).within(&key.namespace));
            cluster.is_some_and(|cluster| context.scope.manages(cluster.meta().annotations.as_ref()))
        };
        context.forget(is_ours).await;
    }
}

/// How long the watches of a Controller rest after one of them failed; they rest together. The library's own rest grows with every
/// failure of any of them to half a minute and as much again, and all of them fail whenever the API server is restarted: a cluster asked
/// for then was not seen for more than a minute.
///
/// One watch that always fails would be begun anew several times a second, if every event of the others ended the rest. So that is over
/// when none has failed for a while.
#[derive(Default)]
struct Rest {
    failures: u32,
    last: Option<Instant>,
}

impl Iterator for Rest {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        let now = Instant::now();
        if self.last.replace(now).is_none_or(|last| now.duration_since(last) >= CALM) {
            self.failures = 0;
        }
        let longest = REST.0.saturating_mul(1 << self.failures.min(10)).min(REST.1);
        self.failures = self.failures.saturating_add(1);
        // Many operators that lost the same API server do not come back as one.
        Some(longest.mul_f64(rand::random_range(0.5..1.0)))
    }
}

impl Backoff for Rest {
    fn reset(&mut self) {}
}

/// A way to say that the kind is gone, and a signal for that and for the end.
fn gone_or_stopped(stop: &Stop) -> (Arc<Notify>, Stop) {
    let gone = Arc::new(Notify::new());
    let (told, stop) = (Arc::clone(&gone), stop.clone());
    let ended = async move {
        tokio::select! {
            () = told.notified() => {}
            () = stop => {}
        }
    };
    (gone, shared(ended))
}

fn tell<K: std::fmt::Debug>(outcome: &Result<K, Error<Infallible, watcher::Error>>, gone: &Notify) {
    match outcome {
        Ok(_) => {}
        Err(Error::ObjectNotFound(object)) => debug!(%object, "gone meanwhile"),
        Err(error) => {
            warn!(%error, "watching");
            if matches!(error, Error::QueueError(error) if is_not_found(error)) {
                gone.notify_one();
            }
        }
    }
}

/// Whether a watch failed because the API server does not serve what is watched.
fn is_not_found(error: &watcher::Error) -> bool {
    match error {
        watcher::Error::InitialListFailed(kube::Error::Api(status))
        | watcher::Error::WatchStartFailed(kube::Error::Api(status))
        | watcher::Error::WatchError(status) => status.code == 404,
        _ => false,
    }
}

/// Watches the resources of a kind whose controller is still to come, and says so in their status.
pub async fn not_yet(place: Where, kind: Kind, context: Arc<Context>, health: Arc<Health>, stop: Stop) {
    while unless_stopped(&stop, crds::served(&place.client, &health, kind.name, kind.plural)).await {
        watch_not_yet(&place, kind, &context, &health, &stop).await;
    }
}

async fn watch_not_yet(place: &Where, kind: Kind, context: &Arc<Context>, health: &Health, stop: &Stop) {
    let resource = kind.resource();
    let api: Api<GuardedObject> = match place.scope {
        Scope::Namespaced => Api::namespaced_with(place.client.clone(), &place.namespace, &resource),
        Scope::ClusterWide => Api::all_with(place.client.clone(), &resource),
    };
    let controller = Controller::new_with(api, config(), resource);
    let (store, (gone, ended)) = (controller.store(), gone_or_stopped(stop));
    let rounds = controller
        .trigger_backoff(Rest::default())
        .reconcile_all_on(terms(&context.leadership))
        .graceful_shutdown_on(ended.clone())
        .run(
            move |object, context| refuse(object, context, kind),
            |_, never: &Infallible, _| match *never {},
            Arc::clone(context),
        )
        .for_each(|outcome| {
            tell(&outcome, &gone);
            std::future::ready(())
        });
    let synced = async {
        if store.wait_until_ready().await.is_ok() {
            health.note(kind.name, Watched::Synced);
        }
    };
    tokio::join!(rounds, unless_stopped(&ended, synced));
}

async fn refuse(object: Arc<GuardedObject>, context: Arc<Context>, kind: Kind) -> Result<Action, Infallible> {
    let metadata = object.meta();
    let ours = context.scope.manages(metadata.annotations.as_ref()) && metadata.deletion_timestamp.is_none();
    if !ours {
        return Ok(Action::await_change());
    }
    if context.leadership.term().is_none() {
        return Ok(again(context.when_not_leading()));
    }
    let (namespace, name) = (metadata.namespace.as_deref(), metadata.name.as_deref());
    let (namespace, name) = (namespace.unwrap_or_default(), name.unwrap_or_default());
    let reason = Reason::KindNotYetSupported { kind: kind.name.to_owned() };
    let said = kinds::say(&context.client, &context.gate, kind, namespace, name, &reason).await;
    Ok(if said { Action::await_change() } else { Action::requeue(RETRY) })
}

/// Whether this came to its end before the signal to stop.
async fn unless_stopped(stop: &Stop, work: impl Future<Output = ()>) -> bool {
    tokio::select! {
        () = work => true,
        () = stop.clone() => false,
    }
}

/// A signal that can be waited for in many places.
pub fn shared(stop: impl Future<Output = ()> + Send + 'static) -> Stop {
    stop.boxed().shared()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_service_concerns_its_owner_and_whoever_needs_its_name() {
        let table = [
            (json!({"name": "a"}), vec!["a"]),
            (json!({"name": "a-client"}), vec!["a", "a-client"]),
            (
                json!({"name": "other", "ownerReferences": [{"apiVersion": "v", "kind": "EtcdCluster", "name": "mine", "uid": "u"}]}),
                vec!["mine", "other"],
            ),
        ];
        for (metadata, expected) in table {
            let service = serde_json::from_value(json!({"metadata": metadata})).unwrap();
            assert_eq!(clusters_of_service(&service), expected, "{metadata}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn watches_rest_longer_with_every_failure_but_never_long_and_begin_anew_when_none_fails_for_a_while()
     {
        let mut rest = Rest::default();
        let between = |rest: &mut Rest, low, high| {
            let millis = rest.next().unwrap().as_millis();
            assert!((low..=high).contains(&millis), "{millis} ms");
        };
        between(&mut rest, 100, 200);
        between(&mut rest, 200, 400);
        for _ in 0..40 {
            rest.next();
        }
        between(&mut rest, 1000, 2000);
        rest.reset();
        between(&mut rest, 1000, 2000);
        tokio::time::advance(CALM).await;
        between(&mut rest, 100, 200);
    }

    #[test]
    fn a_pod_concerns_its_owner_and_the_cluster_in_its_label() {
        let owner = json!([{"apiVersion": "v", "kind": "EtcdCluster", "name": "mine", "uid": "u"}]);
        let table = [
            (json!({"labels": {"etcd_cluster": "a"}}), vec!["a"]),
            (json!({"ownerReferences": owner}), vec!["mine"]),
            (json!({"ownerReferences": owner, "labels": {"etcd_cluster": "mine"}}), vec!["mine"]),
            (json!({}), vec![]),
        ];
        for (metadata, expected) in table {
            let pod = serde_json::from_value(json!({"metadata": metadata})).unwrap();
            assert_eq!(clusters_of_pod(&pod), expected, "{metadata}");
        }
    }
}
