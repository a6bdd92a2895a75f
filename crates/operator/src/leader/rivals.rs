//! LEADERSHIP, what no Lease keeps apart: cluster-wide operators in different namespaces. Each holds the Lease of its own namespace and
//! leads over the same resources. That is told, and not acted on: whoever may write a Lease in any namespace could stop the operator otherwise.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use k8s_openapi::{
    api::{
        coordination::v1::Lease,
        core::v1::{Event, EventSource, ObjectReference},
    },
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time},
    jiff::Timestamp,
};
use kube::{
    Api, Client,
    api::{ListParams, PostParams},
};
use tokio::time::sleep;
use tracing::{info, warn};

use super::{LEASE_CLUSTER_WIDE, Leadership, Record, record_of};
use crate::{
    clients::deadline,
    gate::Gate,
    health::{Health, RIVALS},
    metrics::Metrics,
    report::event_name,
};

/// How often it is looked for others. Whoever leads renews several times in between.
const LOOK: Duration = Duration::from_secs(20);
/// How often this process looks whether it leads by now: others are looked for as soon as it does.
const STANDBY: Duration = Duration::from_secs(1);
/// How long writing an Event may take.
const LIMIT: Duration = Duration::from_secs(3);

/// Looks for other cluster-wide operators, while this process leads.
pub struct Rivals {
    /// The way to the API server.
    pub client: Client,
    /// The door that every write passes.
    pub gate: Gate,
    /// Whether this process leads.
    pub leadership: Leadership,
    /// Where it is told.
    pub health: Arc<Health>,
    /// Where it is counted.
    pub metrics: Arc<Metrics>,
    /// The operator's own namespace.
    pub namespace: String,
    /// The operator pod's name, which Events are signed with.
    pub me: String,
}

impl Rivals {
    /// Looks for them for ever.
    pub async fn run(self) {
        let mut seen = BTreeMap::new();
        let mut said = String::new();
        loop {
            let leads = self.leadership.term().is_some();
            if leads {
                let api: Api<Lease> = Api::all(self.client.clone());
                let params = ListParams::default().fields(&format!("metadata.name={LEASE_CLUSTER_WIDE}"));
                match deadline(api.list(&params)).await {
                    Ok(leases) => self.saw(&leases.items, &mut seen).await,
                    Err(message) if message != said => {
                        warn!(message, "other cluster-wide operators cannot be seen");
                        said = message;
                    }
                    Err(_) => {}
                }
            } else {
                // What changed meanwhile says nothing of who leads now.
                seen.clear();
            }
            sleep(if leads { LOOK } else { STANDBY }).await;
        }
    }

    async fn saw(&self, leases: &[Lease], seen: &mut BTreeMap<String, Record>) {
        let now = records(leases);
        let rivals: Vec<String> = renewed(seen, &now)
            .filter(|(namespace, _)| **namespace != self.namespace)
            .map(|(namespace, holder)| format!("{holder} in the namespace {namespace}"))
            .collect();
        *seen = now;
        self.metrics.other_leaders(rivals.len());
        let words = if rivals.is_empty() {
            String::new()
        } else {
            format!(
                "another cluster-wide operator leads as well: {}. Both look after the same clusters: uninstall one of them",
                rivals.join(", ")
            )
        };
        if !self.health.remark(RIVALS, words.clone()) {
            return;
        }
        if words.is_empty() {
            info!("no other cluster-wide operator leads any more");
            return;
        }
        warn!("{words}");
        let own = leases.iter().find(|lease| lease.metadata.namespace.as_ref() == Some(&self.namespace));
        let event = self.event(own, &words, Timestamp::now());
        let api: Api<Event> = Api::namespaced(self.client.clone(), &self.namespace);
        let params = PostParams::default();
        if let Err(failure) = self.gate.write("CreateEvent", LIMIT, api.create(&params, &event)).await {
            warn!(%failure, "an Event could not be written");
        }
    }

    /// An Event about our own Lease: it is what stands for leading.
    fn event(&self, lease: Option<&Lease>, message: &str, now: Timestamp) -> Event {
        Event {
            metadata: ObjectMeta {
                name: Some(event_name(LEASE_CLUSTER_WIDE, now)),
                namespace: Some(self.namespace.clone()),
                ..Default::default()
            },
            involved_object: ObjectReference {
                api_version: Some("coordination.k8s.io/v1".to_owned()),
                kind: Some("Lease".to_owned()),
                name: Some(LEASE_CLUSTER_WIDE.to_owned()),
                namespace: Some(self.namespace.clone()),
                uid: lease.and_then(|lease| lease.metadata.uid.clone()),
                ..Default::default()
            },
            reason: Some("OtherOperatorLeads".to_owned()),
            message: Some(message.chars().take(1024).collect()),
            type_: Some("Warning".to_owned()),
            source: Some(EventSource { component: Some(self.me.clone()), host: None }),
            reporting_component: Some(self.me.clone()),
            reporting_instance: Some(self.me.clone()),
            first_timestamp: Some(Time(now)),
            last_timestamp: Some(Time(now)),
            count: Some(1),
            ..Default::default()
        }
    }
}

/// What the Leases say, by namespace.
fn records(leases: &[Lease]) -> BTreeMap<String, Record> {
    let each =
        leases.iter().map(|lease| (lease.metadata.namespace.clone().unwrap_or_default(), record_of(lease)));
    each.collect()
}

/// Who holds a Lease that was renewed between two looks: one that stands still is of nobody who lives.
fn renewed<'a>(
    before: &'a BTreeMap<String, Record>,
    now: &'a BTreeMap<String, Record>,
) -> impl Iterator<Item = (&'a String, &'a String)> {
    now.iter().filter_map(|(namespace, record)| {
        let holder = record.holder.as_ref().filter(|holder| !holder.is_empty())?;
        let moved = before.get(namespace).is_some_and(|before| before != record);
        moved.then_some((namespace, holder))
    })
}
