//! OBSERVE: the facts of one round, read afresh from the API server and from every member. What cannot be read is unknown, not absent.

mod members;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use api::{EtcdCluster, names};
use etcd_admin::Connect;
use futures::future::try_join_all;
use k8s_openapi::api::{
    core::v1::{Pod, Service},
    policy::v1::PodDisruptionBudget,
};
use kube::{
    Api, Client,
    api::{ListParams, ObjectMeta},
};
use launch::MemberName;
use planner::{
    Observed, RefusalClass, RefusedObject, SeenBudget, SeenPod, SeenResource, SeenService, SquattedName,
    owner_unless,
};
use rand::seq::IndexedRandom;
use tokio::time::Instant;

pub use members::handles;

use crate::{
    clients::{ReadError, read},
    clock::Clock,
    memory::{Key, Memory},
    metrics::Metrics,
};

/// What members' names are made of: no letter that makes words, and none that is taken for a digit.
const LETTERS: &[u8] = b"bcdfghjkmnpqrstvwxz2456789";

/// What was seen of a cluster.
#[derive(Clone)]
pub struct Observation {
    /// The resource, as it was read.
    pub resource: EtcdCluster,
    /// The facts that decisions are made on.
    pub observed: Observed,
}

/// Reads the world.
#[derive(Clone)]
pub struct Observer {
    client: Client,
    metrics: Arc<Metrics>,
    connect: Connect,
    clock: Clock,
}

/// Why there is nothing to decide on.
#[derive(Debug, thiserror::Error)]
pub enum ObserveError {
    /// The API server did not tell.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// A token or a name could not be made.
    #[error("making up a name")]
    Name(#[source] launch::InvalidMember),
}

impl Observer {
    /// Reads through this client, and reaches members like this.
    #[must_use]
    pub fn new(client: Client, metrics: Arc<Metrics>, connect: Connect, clock: Clock) -> Self {
        Self { client, metrics, connect, clock }
    }

    /// Looks at everything. Nothing if the resource is gone.
    pub async fn look(
        &self,
        key: &Key,
        term: u64,
        memory: &mut Memory,
    ) -> Result<Option<Observation>, ObserveError> {
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), &key.namespace);
        let services: Api<Service> = Api::namespaced(self.client.clone(), &key.namespace);
        let (peer, client) = (names::peer_service(&key.name), names::client_service(&key.name));
        // Without a resourceVersion in the parameters these are answered from etcd, not from a cache of the API server.
        let labelled = ListParams::default().labels(&names::selector(&key.name));
        let budgets: Api<PodDisruptionBudget> = Api::namespaced(self.client.clone(), &key.namespace);
        let budget = names::budget(&key.name);
        let (resource, pods, peer, client, budget) = tokio::join!(
            self.resource(key),
            read(&self.metrics, "list Pods", pods.list(&labelled)),
            read(&self.metrics, "get Service", services.get_opt(&peer)),
            read(&self.metrics, "get Service", services.get_opt(&client)),
            read(&self.metrics, "get PodDisruptionBudget", budgets.get_opt(&budget)),
        );
        let Some(resource) = resource? else { return Ok(None) };
        let pods = pods?.items;
        let seen = SeenResource::from_resource(&resource);
        memory.enter(&seen.uid, term);
        let mut observed = Observed {
            now: self.clock.now(),
            token: fresh_token()?,
            fresh_name: fresh_name(&key.name)?,
            birth_known_for: memory.birth_known_for(seen.birth(), Instant::now()),
            pods: pods.iter().map(SeenPod::from_pod).collect(),
            squatted: Vec::new(),
            peer_service: service(peer, &seen.uid),
            client_service: service(client, &seen.uid),
            budget: budget_of(budget, &seen.uid),
            members: BTreeMap::new(),
            stalled: BTreeMap::new(),
            unmade: memory.unmade(),
            awaited: memory.awaited(Instant::now()),
            refusals: memory.refusals(&key.name, seen.birth()),
            resource: seen,
        };
        let reported = reported(&observed.resource);
        observed.pods.extend(self.unlabelled(key, &observed, &reported).await?);
        let (squatted, members) = tokio::join!(
            self.squatters(key, &observed),
            members::ask(&observed, &resource.spec, &memory.connections, &self.connect)
        );
        observed.squatted = squatted?;
        observed.pods.extend(self.unlabelled(key, &observed, &members.listed_hosts()).await?);
        members.remember(&mut observed, memory);
        Ok(Some(Observation { resource, observed }))
    }

    /// The resource itself.
    pub async fn resource(&self, key: &Key) -> Result<Option<EtcdCluster>, ReadError> {
        let clusters: Api<EtcdCluster> = Api::namespaced(self.client.clone(), &key.namespace);
        read(&self.metrics, "get EtcdCluster", clusters.get_opt(&key.name)).await
    }

    /// The pods of members that the status or etcd names and whose labels somebody took away, so that they are in no list by labels. A
    /// member whose pod is not seen counts as lost: so it is asked for by name first.
    async fn unlabelled(
        &self,
        key: &Key,
        observed: &Observed,
        named: &BTreeSet<String>,
    ) -> Result<Vec<SeenPod>, ReadError> {
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), &key.namespace);
        let prefix = format!("{}-", key.name);
        let unseen = named
            .iter()
            .filter(|name| name.starts_with(&prefix) && name.parse::<MemberName>().is_ok())
            .filter(|name| observed.pods.iter().all(|pod| pod.name != **name));
        let reads = unseen.map(|name| async { read(&self.metrics, "get Pod", pods.get_opt(name)).await });
        let found = try_join_all(reads).await?;
        Ok(found.into_iter().flatten().map(|pod| SeenPod::from_pod(&pod)).collect())
    }

    /// Looks at etcd only, with everything else as it was seen before.
    pub async fn glance(
        &self,
        before: &Observation,
        memory: &mut Memory,
    ) -> Result<Observation, ObserveError> {
        let mut observed = before.observed.clone();
        observed.now = self.clock.now();
        observed.token = fresh_token()?;
        observed.fresh_name = fresh_name(&before.observed.resource.name)?;
        observed.birth_known_for = memory.birth_known_for(observed.resource.birth(), Instant::now());
        let spec = &before.resource.spec;
        let members = members::ask(&observed, spec, &memory.connections, &self.connect).await;
        members.remember(&mut observed, memory);
        Ok(Observation { resource: before.resource.clone(), observed })
    }

    /// Who holds the names of pods that were refused for it. They need not carry our labels, so they are asked for by name.
    async fn squatters(&self, key: &Key, observed: &Observed) -> Result<Vec<SquattedName>, ReadError> {
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), &key.namespace);
        let taken =
            |refused: &&RefusedObject| refused.kind == "Pod" && refused.class == RefusalClass::NameTaken;
        let reads = observed.refusals.iter().filter(taken).map(|refused| {
            let call = pods.get_metadata_opt(&refused.name);
            async { read(&self.metrics, "get Pod", call).await }
        });
        let found = try_join_all(reads).await?;
        let uid = &observed.resource.uid;
        Ok(found.into_iter().flatten().filter_map(|pod| squatter(&pod.metadata, uid)).collect())
    }
}

/// The members that the status names: a hint on what to look for.
fn reported(resource: &SeenResource) -> BTreeSet<String> {
    let members = resource.status.members.clone().unwrap_or_default();
    [members.ready, members.unready].into_iter().flatten().flatten().collect()
}

/// This pod as a squatter, unless it is ours.
fn squatter(metadata: &ObjectMeta, uid: &str) -> Option<SquattedName> {
    let owner = owner_unless(metadata, uid)?;
    Some(SquattedName { kind: "Pod", name: metadata.name.clone().unwrap_or_default(), owner })
}

fn service(answer: Result<Option<Service>, ReadError>, uid: &str) -> SeenService {
    match answer {
        Ok(Some(service)) => SeenService::from_service(&service, uid),
        Ok(None) => SeenService::Missing,
        Err(error) => SeenService::Unknown(error.to_string()),
    }
}

fn budget_of(answer: Result<Option<PodDisruptionBudget>, ReadError>, uid: &str) -> SeenBudget {
    match answer {
        Ok(Some(budget)) => SeenBudget::from_budget(&budget, uid),
        Ok(None) => SeenBudget::Missing,
        Err(error) => SeenBudget::Unknown(error.to_string()),
    }
}

fn fresh_token() -> Result<launch::ClusterToken, ObserveError> {
    format!("{:032x}", rand::random::<u128>()).parse().map_err(ObserveError::Name)
}

/// A name for a member. Of 26^10 possible ones; that one comes twice in a cluster's life is less likely than a broken disk.
fn fresh_name(cluster: &str) -> Result<MemberName, ObserveError> {
    let mut random = rand::rng();
    let suffix: String = (0..names::MEMBER_SUFFIX_LENGTH)
        .filter_map(|_| LETTERS.choose(&mut random))
        .map(|l| char::from(*l))
        .collect();
    format!("{cluster}-{suffix}").parse().map_err(ObserveError::Name)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn no_token_and_no_name_comes_twice() {
        assert_ne!(fresh_token().unwrap(), fresh_token().unwrap());
        assert_ne!(fresh_name("a").unwrap(), fresh_name("a").unwrap());
        assert_eq!(fresh_name("a").unwrap().as_str().len(), "a-".len() + names::MEMBER_SUFFIX_LENGTH);
    }

    #[test]
    fn an_object_without_our_controller_belongs_to_somebody_else() {
        let table = [
            (json!({}), Some("nobody")),
            (json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": "c", "uid": "u-1"}]), Some("nobody")),
            (
                json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "u-2", "controller": true}]),
                Some("ReplicaSet r (UID u-2)"),
            ),
            (
                json!([{"apiVersion": "v1", "kind": "EtcdCluster", "name": "e", "uid": "u-1", "controller": true}]),
                None,
            ),
        ];
        for (owners, expected) in table {
            let owners = if owners.is_array() { owners } else { json!([]) };
            let metadata: ObjectMeta =
                serde_json::from_value(json!({"name": "x", "ownerReferences": owners})).unwrap();
            assert_eq!(owner_unless(&metadata, "u-1").as_deref(), expected);
            assert_eq!(squatter(&metadata, "u-1").map(|s| s.owner).as_deref(), expected);
        }
    }

    #[test]
    fn a_service_that_could_not_be_read_is_unknown_and_not_missing() {
        assert_eq!(service(Ok(None), "u"), SeenService::Missing);
        let failed = service(Err(ReadError::NoAnswer { what: "get Service" }), "u");
        assert!(matches!(failed, SeenService::Unknown(why) if why.contains("get Service")));
    }
}
