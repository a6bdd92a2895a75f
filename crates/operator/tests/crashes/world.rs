//! A world in one process: an API server, a kubelet, etcd, and operators that can die.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use api::scope::Scope;
use etcd_admin::Connect;
use fakes::{
    etcd::{self, Etcd},
    kubelet::Kubelet,
    kubernetes::{ApiServer, Asked, Judge, kinds, store::Key},
    wire::{Breaking, Record, Wire, Write},
};
use futures::future::pending;
use http::Method;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::Client;
use operator::{
    clock::Clock,
    health::Health,
    identity::Identity,
    metrics::Metrics,
    run::Operator,
    watch::{Stop, shared},
};
use planner::{MemberUser, OperatorIdentity, Timestamp};
use serde_json::{Value, json};
use tokio::{
    task::{AbortHandle, JoinSet},
    time::sleep,
};

use crate::judge;

pub(crate) const NAMESPACE: &str = "n";
pub(crate) const NAME: &str = "a";
/// By what a person's requests are told from an operator's.
pub(crate) const PERSON: &str = "fieldManager=person";
/// Longer than a sound operator takes, whatever goes wrong once: an edit of which it is never told is found after five minutes.
const PATIENCE: Duration = Duration::from_mins(10);
/// How often the world is looked at.
const LOOK: Duration = Duration::from_millis(100);

/// How an operator is set up.
pub(crate) struct Settings {
    pub(crate) namespace: &'static str,
    pub(crate) scope: Scope,
    pub(crate) owner: Option<OwnerReference>,
    pub(crate) stop: Stop,
    /// What is wrong with it.
    pub(crate) bend: fn(Client) -> Client,
    /// Whether its writes are judged: the judge knows one cluster.
    pub(crate) judged: bool,
    /// What it counts.
    pub(crate) metrics: Arc<Metrics>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            namespace: NAMESPACE,
            scope: Scope::Namespaced,
            owner: None,
            stop: shared(pending()),
            bend: |client| client,
            judged: true,
            metrics: Arc::new(Metrics::new()),
        }
    }
}

pub(crate) struct World {
    pub(crate) server: ApiServer,
    pub(crate) etcd: Etcd,
    pub(crate) kubelet: Kubelet,
    pub(crate) record: Record,
    clock: Clock,
    background: JoinSet<()>,
    operators: u32,
    begun: AtomicU64,
}

impl World {
    pub(crate) fn new() -> Self {
        let time: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let (server, etcd) = (ApiServer::new(time), Etcd::default());
        let kubelet = Kubelet::new(&server, &etcd);
        let mut background = JoinSet::new();
        background.spawn(server.background());
        background.spawn(kubelet.clone().run());
        Self {
            server,
            etcd,
            kubelet,
            record: Record::default(),
            clock: Clock::showing(time),
            background,
            operators: 0,
            begun: AtomicU64::new(0),
        }
    }

    /// An operator that runs, and after its death another one, for ever; the first one's wire has this fault.
    pub(crate) fn operate(&mut self, fault: Option<Breaking>, bend: fn(Client) -> Client) -> Wire {
        self.operators += 1;
        let name = format!("op-{}", self.operators);
        let first = Wire::new(&name, &self.record, fault);
        let then = Wire::new(&format!("{name}-again"), &self.record, None);
        let life = |wire: &Wire| self.operator(wire, Settings { bend, ..Settings::default() });
        let (life, next) = (life(&first), life(&then));
        let wire = first.clone();
        self.background.spawn(async move {
            tokio::select! {
                () = life => return,
                () = wire.death() => {}
            }
            next.await;
        });
        first
    }

    /// An operator of this name, by itself: who aborts it kills it.
    pub(crate) fn start(&mut self, name: &str, settings: Settings) -> AbortHandle {
        let wire = Wire::new(name, &self.record, None);
        let life = self.operator(&wire, settings);
        self.background.spawn(life)
    }

    /// The operator's whole life, over a wire. Who drops it kills it.
    fn operator(&self, wire: &Wire, settings: Settings) -> impl Future<Output = ()> + Send + use<> {
        let (server, etcd, clock, wire) = (self.server.clone(), self.etcd.clone(), self.clock, wire.clone());
        let record = self.record.clone();
        let (judge, of_members): (Judge, etcd::Judge) = if settings.judged {
            (
                judge::judge(&self.server, &self.kubelet, &self.etcd),
                judge::of_members(&self.server, &self.kubelet, &self.etcd),
            )
        } else {
            (Arc::new(|_| Vec::new()), Arc::new(|_| Vec::new()))
        };
        async move {
            let operator = Operator {
                client: (settings.bend)(server.client_over(settings.namespace, &wire, &judge)),
                identity: Identity {
                    namespace: settings.namespace.to_owned(),
                    name: "etcd-operator".to_owned(),
                    owner: settings.owner,
                    operator: OperatorIdentity {
                        launcher_image: "l:1".to_owned(),
                        member_user: MemberUser::default(),
                    },
                },
                scope: settings.scope,
                create_crd: false,
                connect: Connect { dial: etcd.dial(&wire, &of_members), ..Connect::default() },
                clock,
                metrics: settings.metrics,
                health: Arc::new(Health::default()),
            };
            if let Err(error) = operator.run(settings.stop).await {
                record.note([error.to_string()]);
            }
        }
    }

    /// What a person does with the cluster.
    pub(crate) fn person(&self, method: Method, body: &Value) {
        self.person_with(NAMESPACE, NAME, method, body);
    }

    /// What a person does with a cluster of this namespace and name.
    pub(crate) fn person_with(&self, namespace: &str, name: &str, method: Method, body: &Value) {
        let all = format!("/apis/{}/{}/namespaces/{namespace}/etcdclusters", api::GROUP, api::VERSION);
        let path = if method == Method::POST { all } else { format!("{all}/{name}") };
        let content = "application/merge-patch+json".to_owned();
        let (query, accept, body) = (PERSON.to_owned(), String::new(), body.clone());
        let (code, value) = self.server.handle(&Asked { method, path, query, accept, content, body });
        assert!(code < 300, "{value}");
    }

    /// Asks for a cluster.
    pub(crate) fn create(&self, spec: &Value) {
        self.create_named(NAME, spec);
    }

    /// Asks for a cluster of this name.
    pub(crate) fn create_named(&self, name: &str, spec: &Value) {
        let resource = json!({"apiVersion": "etcd.database.coreos.com/v1beta2", "kind": "EtcdCluster",
            "metadata": {"name": name}, "spec": spec});
        self.person_with(NAMESPACE, name, Method::POST, &resource);
    }

    /// What the story is about begins now: what was before is not.
    pub(crate) fn begin(&self) {
        self.begun.store(self.revision(), Ordering::SeqCst);
    }

    /// The number of the last change before the story began.
    pub(crate) fn begun(&self) -> u64 {
        self.begun.load(Ordering::SeqCst)
    }

    /// The number of the last change of any object.
    pub(crate) fn revision(&self) -> u64 {
        self.server.store().lock().revision()
    }

    /// The resource.
    pub(crate) fn resource(&self) -> Option<Value> {
        self.resource_named(NAME)
    }

    /// The resource of this name.
    pub(crate) fn resource_named(&self, name: &str) -> Option<Value> {
        self.server.store().lock().get(&Key::new(kinds::CLUSTERS, NAMESPACE, name)).cloned()
    }

    /// Where this cluster is in its life, by its own word.
    pub(crate) fn phase(&self, name: &str) -> String {
        let resource = self.resource_named(name).unwrap_or_default();
        resource["status"]["phase"].as_str().unwrap_or_default().to_owned()
    }

    /// What the operator has written so far, renewals of the Lease apart.
    pub(crate) fn written(&self) -> usize {
        self.record.writes().iter().filter(|write| write.number.is_some()).count()
    }

    /// The words in which this cluster's conditions say why it is not as it should be.
    pub(crate) fn reasons(&self) -> Vec<String> {
        let resource = self.resource().unwrap_or_default();
        let conditions = resource["status"]["conditions"].as_array().cloned().unwrap_or_default();
        conditions.iter().filter_map(|condition| condition["reason"].as_str().map(str::to_owned)).collect()
    }

    /// The attempt that the record of birth names, or named last.
    pub(crate) fn incarnation(&self) -> i64 {
        let objects = self.server.store().lock();
        let last = objects.log().iter().rev().find(|change| change.key.plural == kinds::CLUSTERS.plural);
        let resource = last.and_then(|change| change.after.as_ref().or(change.before.as_ref()));
        resource.and_then(|resource| resource["status"]["birth"]["incarnation"].as_i64()).unwrap_or_default()
    }

    /// How many pods there are.
    pub(crate) fn pods(&self) -> usize {
        self.server.store().lock().of(kinds::PODS).count()
    }

    /// Whether there is a pod of this name.
    pub(crate) fn has_pod(&self, name: &str) -> bool {
        self.server.store().lock().get(&Key::new(kinds::PODS, NAMESPACE, name)).is_some()
    }

    /// Deletes one of the pods, as a person would, and says which.
    pub(crate) fn delete_a_pod(&self) -> String {
        let name =
            self.server.store().lock().of(kinds::PODS).map(|(key, _)| key.name.clone()).next().unwrap();
        self.delete_pod(&name);
        name
    }

    /// Deletes this pod, as a person would.
    pub(crate) fn delete_pod(&self, name: &str) {
        let path = format!("/api/v1/namespaces/{NAMESPACE}/pods/{name}");
        let (query, accept, content) = (PERSON.to_owned(), String::new(), String::new());
        let (method, body) = (Method::DELETE, json!({}));
        let (code, value) = self.server.handle(&Asked { method, path, query, accept, content, body });
        assert!(code < 300, "{value}");
    }

    /// One of the pods goes with its node, without anybody asking the API server, and it is said which.
    pub(crate) fn delete_a_pod_behind_its_back(&self) -> String {
        self.server.store().change(|objects| {
            let key = objects.of(kinds::PODS).map(|(key, _)| key.clone()).next().unwrap();
            objects.remove(&key);
            key.name
        })
    }

    /// Waits until something is so.
    pub(crate) async fn until(&self, what: &str, mut is_so: impl FnMut(&Self) -> Result<(), String>) {
        let begun = tokio::time::Instant::now();
        loop {
            let Err(why) = is_so(self) else { return };
            let may_go_on = begun.elapsed() <= PATIENCE && self.record.broken().is_empty();
            assert!(may_go_on, "never {what}: {why}\n{}", self.story());
            sleep(LOOK).await;
        }
    }

    /// What happened, for whoever has to find out why.
    pub(crate) fn story(&self) -> String {
        let writes = self.record.writes().into_iter().filter(|write| write.number.is_some());
        let lines: Vec<String> = writes
            .map(|Write { who, what, object, number, outcome, .. }| {
                format!("{who} {number:?} {what} {object}: {outcome:?}")
            })
            .collect();
        let resource = self.resource().unwrap_or_default();
        format!("{}\n{:#}\n{:?}", lines.join("\n"), resource["status"], self.record.broken())
    }
}
