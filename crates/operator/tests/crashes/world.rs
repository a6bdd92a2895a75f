//! A world in one process: an API server, a kubelet, etcd, and operators that can die.

use std::{sync::Arc, time::Duration};

use api::scope::Scope;
use etcd_admin::Connect;
use fakes::{
    etcd::Etcd,
    kubelet::Kubelet,
    kubernetes::{ApiServer, Asked, kinds, store::Key},
    wire::{Fault, Record, Wire, Write},
};
use futures::future::pending;
use http::Method;
use operator::{
    clock::Clock, health::Health, identity::Identity, metrics::Metrics, run::Operator, watch::shared,
};
use planner::{OperatorIdentity, Timestamp};
use serde_json::{Value, json};
use tokio::{task::JoinSet, time::sleep};

use crate::judge;

pub(crate) const NAMESPACE: &str = "n";
pub(crate) const NAME: &str = "a";
/// Longer than anything that is waited for: by the stopped clock it costs nothing.
const PATIENCE: Duration = Duration::from_mins(30);
/// How often the world is looked at.
const LOOK: Duration = Duration::from_millis(100);

pub(crate) struct World {
    pub(crate) server: ApiServer,
    pub(crate) etcd: Etcd,
    pub(crate) kubelet: Kubelet,
    pub(crate) record: Record,
    clock: Clock,
    background: JoinSet<()>,
    operators: u32,
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
        }
    }

    /// An operator that runs, and after its death another one, for ever; the first one's wire has this fault.
    pub(crate) fn operate(&mut self, fault: Option<(usize, Fault)>) -> Wire {
        self.operators += 1;
        let name = format!("op-{}", self.operators);
        let first = Wire::new(&name, &self.record, fault);
        let then = Wire::new(&format!("{name}-again"), &self.record, None);
        let (life, next) = (self.operator(&first), self.operator(&then));
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

    /// The operator's whole life, over a wire. Who drops it kills it.
    fn operator(&self, wire: &Wire) -> impl Future<Output = ()> + Send + use<> {
        let (server, etcd, clock) = (self.server.clone(), self.etcd.clone(), self.clock);
        let (wire, judge) = (wire.clone(), judge::judge(&self.server, &self.kubelet, &self.etcd));
        let of_members = judge::of_members(&self.server, &self.kubelet, &self.etcd);
        async move {
            let operator = Operator {
                client: server.client_over(NAMESPACE, &wire, &judge),
                identity: Identity {
                    namespace: NAMESPACE.to_owned(),
                    name: "etcd-operator".to_owned(),
                    owner: None,
                    operator: OperatorIdentity { launcher_image: "l:1".to_owned() },
                },
                scope: Scope::Namespaced,
                create_crd: false,
                connect: Connect { dial: etcd.dial(&wire, &of_members), ..Connect::default() },
                clock,
                metrics: Arc::new(Metrics::new()),
                health: Arc::new(Health::default()),
            };
            operator.run(shared(pending())).await;
        }
    }

    /// What a person does with the cluster.
    pub(crate) fn person(&self, method: Method, body: &Value) {
        let all = format!("/apis/{}/{}/namespaces/{NAMESPACE}/etcdclusters", api::GROUP, api::VERSION);
        let path = if method == Method::POST { all } else { format!("{all}/{NAME}") };
        let content = "application/merge-patch+json".to_owned();
        let (query, accept, body) = ("fieldManager=person".to_owned(), String::new(), body.clone());
        let (code, value) = self.server.handle(&Asked { method, path, query, accept, content, body });
        assert!(code < 300, "{value}");
    }

    /// Asks for a cluster.
    pub(crate) fn create(&self, spec: &Value) {
        self.person(
            Method::POST,
            &json!({"apiVersion": "etcd.database.coreos.com/v1beta2", "kind": "EtcdCluster",
                "metadata": {"name": NAME}, "spec": spec}),
        );
    }

    /// The resource.
    pub(crate) fn resource(&self) -> Option<Value> {
        self.server.store().lock().get(&Key::new(kinds::CLUSTERS, NAMESPACE, NAME)).cloned()
    }

    /// Waits until something is so.
    pub(crate) async fn until(&self, what: &str, mut is_so: impl FnMut(&Self) -> Result<(), String>) {
        let begun = tokio::time::Instant::now();
        loop {
            let Err(why) = is_so(self) else { return };
            assert!(begun.elapsed() < PATIENCE, "never {what}: {why}\n{}", self.story());
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
