//! ACT: carries out the planned steps, effect by effect, through the gate. What was decided on is in each effect as a precondition.

mod membership;

use std::collections::BTreeMap;

use api::{Birth, EtcdCluster, EtcdClusterStatus};
use etcd_admin::Member;
use futures::future::join_all;
use k8s_openapi::api::{
    core::v1::{Pod, Service},
    policy::v1::PodDisruptionBudget,
};
use kube::{
    Api, Client,
    api::{DeleteParams, ObjectMeta, Patch, PatchParams, PostParams, Preconditions},
};
use launch::MemberName;
use planner::{Desired, ETCD, Effect, MemberChange, RefusalClass, Step, owner_unless};
use serde_json::{Value, json};
use tokio::time::Instant;
use tracing::{info, warn};

use crate::{
    clock::Clock,
    gate::{Failure, Gate},
    memory::Memory,
    refusal::{Verdict, verdict},
};

/// The name that our fields are written under.
pub const FIELD_MANAGER: &str = "etcd-operator";

/// What became of an effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is done, now or before.
    Done,
    /// It was refused.
    Refused(RefusalClass, String),
    /// The facts had moved, and nothing happened.
    Moved(String),
    /// It may have happened.
    Unknown(String),
    /// It was not sent.
    NotSent,
}

/// What became of the steps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Acted {
    /// There were none.
    Nothing,
    /// All are done, and nothing that another look would have to follow at once.
    Done,
    /// All are done, one of them risky: the world is another one.
    DoneRisky,
    /// One of them met a world other than the one it was decided on, or was refused.
    Stopped,
    /// This process does not lead any more.
    NotLeading,
}

/// Carries out effects on the objects of one resource.
pub struct Actor<'a> {
    /// The way to the API server.
    pub client: &'a Client,
    /// The door that every write passes.
    pub gate: &'a Gate,
    /// The resource as it was read in this round.
    pub resource: &'a EtcdCluster,
    /// The way to each member that answered in this round.
    pub members: &'a BTreeMap<MemberName, Member>,
    /// What time it is.
    pub clock: Clock,
}

impl Actor<'_> {
    /// Carries out the steps. What is harmless comes first and is sent together; the first that fails ends the round.
    pub async fn carry_out(&self, steps: &[Step], desired: &Desired, memory: &mut Memory) -> Acted {
        let harmless = steps.iter().take_while(|step| step.is_ensure()).count();
        let (ensures, rest) = steps.split_at_checked(harmless).unwrap_or((steps, &[]));
        let together: Vec<Effect> = ensures.iter().flat_map(|step| step.lower(desired)).collect();
        let mut groups = vec![together];
        for step in rest {
            groups.extend(in_order(step.lower(desired)));
        }
        for group in &groups {
            let outcomes = join_all(group.iter().map(|effect| self.send(effect))).await;
            for (effect, outcome) in group.iter().zip(&outcomes) {
                self.remember(effect, outcome, memory);
            }
            if outcomes.contains(&Outcome::NotSent) {
                return Acted::NotLeading;
            }
            if outcomes.iter().any(|outcome| *outcome != Outcome::Done) {
                return Acted::Stopped;
            }
        }
        match steps {
            [] => Acted::Nothing,
            steps if steps.iter().any(Step::is_risky) => Acted::DoneRisky,
            _ => Acted::Done,
        }
    }

    fn remember(&self, effect: &Effect, outcome: &Outcome, memory: &mut Memory) {
        let may_be_done = matches!(outcome, Outcome::Done | Outcome::Unknown(_));
        if let (Effect::ChangeMembership { change, .. }, Outcome::Done) = (effect, outcome) {
            memory.changed.extend(membership::counted(change));
        }
        match effect {
            Effect::ChangeMembership { change: MemberChange::Add { member, .. }, .. } if may_be_done => {
                memory.added(member);
            }
            Effect::CreatePod(_) if may_be_done || matches!(outcome, Outcome::Moved(_)) => {
                memory.made(effect.object().1);
                if matches!(outcome, Outcome::Unknown(_)) {
                    memory.not_answered(effect.object().1, Instant::now());
                }
            }
            Effect::RelaunchPod { name, .. } if may_be_done => {
                if let Ok(member) = name.parse() {
                    memory.silences.forget(&member);
                }
            }
            _ => {}
        }
        let (kind, name) = effect.object();
        let name = if name.is_empty() { self.name() } else { name };
        let refused_as = effect.refused_as();
        match outcome {
            Outcome::Done => info!(effect = effect.name(), kind, name, "done"),
            other => warn!(effect = effect.name(), kind, name, outcome = ?other, "not done"),
        }
        match outcome {
            Outcome::Refused(class, message) => {
                memory.refused(refused_as, name, *class, message.clone(), self.clock.now());
            }
            Outcome::NotSent => {}
            Outcome::Done | Outcome::Moved(_) | Outcome::Unknown(_) => memory.not_refused(refused_as, name),
        }
        if *outcome == Outcome::Done
            && let Some(what) = effect.puts_right()
        {
            memory.put_right(refused_as, name, what, Instant::now(), self.clock.now());
        }
    }

    /// Sends one effect.
    pub async fn send(&self, effect: &Effect) -> Outcome {
        match effect {
            Effect::ReplaceStatusBirth { resource_version, birth } => {
                self.replace_birth(effect, resource_version, birth).await
            }
            Effect::CreatePod(pod) => self.create(effect, self.pods(), pod.as_ref()).await,
            Effect::CreateService(service) => self.create(effect, self.services(), service.as_ref()).await,
            Effect::ApplyService { uid, resource_version, service } => {
                let mut service = service.as_ref().clone();
                service.metadata.uid = Some(uid.clone());
                service.metadata.resource_version = Some(resource_version.clone());
                self.apply(effect, self.services(), &service).await
            }
            Effect::PatchPodAnnotation { name, uid, resource_version, key, value } => {
                let metadata = json!({
                    "uid": uid, "resourceVersion": resource_version, "annotations": {*key: value},
                });
                self.patch_pod(effect, name, metadata).await
            }
            Effect::PatchPodMetadata { name, uid, resource_version, labels, annotations } => {
                let metadata = json!({
                    "uid": uid, "resourceVersion": resource_version, "labels": labels, "annotations": annotations,
                });
                self.patch_pod(effect, name, metadata).await
            }
            Effect::DeletePod { name, uid } => self.delete_pod(effect, name, uid).await,
            Effect::CreateBudget(budget) => self.create(effect, self.budgets(), budget.as_ref()).await,
            Effect::ApplyBudget { uid, resource_version, budget } => {
                let mut budget = budget.as_ref().clone();
                budget.metadata.uid = Some(uid.clone());
                budget.metadata.resource_version = Some(resource_version.clone());
                self.apply(effect, self.budgets(), &budget).await
            }
            Effect::RelaunchPod { name, uid, resource_version, basis, image, annotations } => {
                if let Some(basis) = basis
                    && let Err(why) = self.still(basis, effect.deadline().limit()).await
                {
                    return Outcome::Moved(why);
                }
                let patch = json!({
                    "metadata": {"uid": uid, "resourceVersion": resource_version, "annotations": annotations},
                    "spec": {"containers": [{"name": ETCD, "image": image}]},
                });
                self.relaunch(effect, name, &patch).await
            }
            Effect::ChangeMembership { basis, change } => self.change_membership(effect, basis, change).await,
        }
    }

    /// A strategic patch finds the container by its name, whatever others stand beside it.
    async fn relaunch(&self, effect: &Effect, name: &str, patch: &Value) -> Outcome {
        let (pods, patch) = (self.pods(), Patch::Strategic(patch));
        let params = PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..Default::default() };
        let call = pods.patch(name, &params, &patch);
        self.settle(self.gate.write(effect.name(), effect.deadline().limit(), call).await)
    }

    async fn patch_pod(&self, effect: &Effect, name: &str, metadata: Value) -> Outcome {
        let (pods, params) = (self.pods(), PatchParams::default());
        let patch = json!({"metadata": metadata});
        let patch = Patch::Merge(&patch);
        let call = pods.patch_metadata(name, &params, &patch);
        self.settle(self.gate.write(effect.name(), effect.deadline().limit(), call).await)
    }

    async fn replace_birth(&self, effect: &Effect, resource_version: &str, birth: &Birth) -> Outcome {
        let clusters: Api<EtcdCluster> = Api::namespaced(self.client.clone(), self.namespace());
        let mut resource = self.resource.clone();
        resource.metadata.resource_version = Some(resource_version.to_owned());
        resource.metadata.managed_fields = None;
        let status = resource.status.take().unwrap_or_default();
        resource.status = Some(EtcdClusterStatus { birth: Some(birth.clone()), ..status });
        let params = PostParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..Default::default() };
        let call = clusters.replace_status(self.name(), &params, &resource);
        let outdated = || Outcome::Refused(RefusalClass::CrdOutdated, crd_name());
        match self.gate.write(effect.name(), effect.deadline().limit(), call).await {
            // A CRD without the field drops it and says nothing.
            Ok(written) if written.status.as_ref().and_then(|s| s.birth.as_ref()) != Some(birth) => {
                outdated()
            }
            // A CRD without a status subresource has no such path; the resource itself would be named.
            Err(Failure::Api(kube::Error::Api(status)))
                if status.code == 404 && status.details.as_ref().is_none_or(|d| d.name.is_empty()) =>
            {
                outdated()
            }
            answer => self.settle(answer),
        }
    }

    async fn create<K>(&self, effect: &Effect, api: Api<K>, object: &K) -> Outcome
    where
        K: kube::Resource<DynamicType = ()>
            + Clone
            + serde::Serialize
            + serde::de::DeserializeOwned
            + std::fmt::Debug,
    {
        let params = PostParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..Default::default() };
        let answer =
            self.gate.write(effect.name(), effect.deadline().limit(), api.create(&params, object)).await;
        match self.settle(answer) {
            Outcome::Moved(_) => {
                match crate::clients::deadline(api.get_metadata_opt(effect.object().1)).await {
                    Ok(Some(found)) => self.existing(&found.metadata),
                    Ok(None) => Outcome::Moved("it was there and is gone".to_owned()),
                    Err(error) => Outcome::Unknown(error),
                }
            }
            outcome => outcome,
        }
    }

    /// What an object that exists already means: an earlier creation of ours landed, or somebody else has the name.
    fn existing(&self, metadata: &ObjectMeta) -> Outcome {
        let uid = self.resource.metadata.uid.as_deref().unwrap_or_default();
        match owner_unless(metadata, uid) {
            None => Outcome::Moved("it exists already".to_owned()),
            Some(owner) => Outcome::Refused(RefusalClass::NameTaken, owner),
        }
    }

    /// Applies an object, which has the UID and the version that it is to meet in itself. What others have added stays, unless the
    /// object cannot be with it: a budget has one of two numbers, and a Service one port of each name. Then ours take its place.
    async fn apply<K>(&self, effect: &Effect, api: Api<K>, object: &K) -> Outcome
    where
        K: Clone + serde::Serialize + serde::de::DeserializeOwned + std::fmt::Debug,
    {
        let (name, limit) = (effect.object().1, effect.deadline().limit());
        let params = PatchParams::apply(FIELD_MANAGER).force();
        let patch = Patch::Apply(object);
        let applied =
            self.settle(self.gate.write(effect.name(), limit, api.patch(name, &params, &patch)).await);
        if !matches!(applied, Outcome::Refused(RefusalClass::Rejected, _)) {
            return applied;
        }
        let params = PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..Default::default() };
        let patch = Patch::Merge(in_place_of_others(object));
        self.settle(self.gate.write(effect.name(), limit, api.patch(name, &params, &patch)).await)
    }

    async fn delete_pod(&self, effect: &Effect, name: &str, uid: &str) -> Outcome {
        let params = DeleteParams {
            preconditions: Some(Preconditions { uid: Some(uid.to_owned()), resource_version: None }),
            ..Default::default()
        };
        let (pods, limit) = (self.pods(), effect.deadline().limit());
        match self.gate.write(effect.name(), limit, pods.delete(name, &params)).await {
            Err(Failure::Api(kube::Error::Api(status))) if status.code == 404 => Outcome::Done,
            answer => self.settle(answer),
        }
    }

    fn settle<T>(&self, answer: Result<T, Failure>) -> Outcome {
        match answer.map_err(|failure| verdict(&failure, self.namespace())) {
            Ok(_) => Outcome::Done,
            Err(Verdict::Refused(class, message)) => Outcome::Refused(class, message),
            Err(Verdict::Exists) => Outcome::Moved("it exists already".to_owned()),
            Err(Verdict::Moved(why)) => Outcome::Moved(why),
            Err(Verdict::Unknown(why)) => Outcome::Unknown(why),
            Err(Verdict::NotSent) => Outcome::NotSent,
        }
    }

    fn pods(&self) -> Api<Pod> {
        Api::namespaced(self.client.clone(), self.namespace())
    }

    fn services(&self) -> Api<Service> {
        Api::namespaced(self.client.clone(), self.namespace())
    }

    fn budgets(&self) -> Api<PodDisruptionBudget> {
        Api::namespaced(self.client.clone(), self.namespace())
    }

    fn namespace(&self) -> &str {
        self.resource.metadata.namespace.as_deref().unwrap_or_default()
    }

    fn name(&self) -> &str {
        self.resource.metadata.name.as_deref().unwrap_or_default()
    }
}

/// A step's effects, creations that follow each other in one group: they are sent together, and all of them even if one is refused.
fn in_order(effects: Vec<Effect>) -> Vec<Vec<Effect>> {
    let mut groups: Vec<Vec<Effect>> = Vec::new();
    for effect in effects {
        match groups.last_mut() {
            Some(group) if is_creation(&effect) && group.iter().all(is_creation) => group.push(effect),
            _ => groups.push(vec![effect]),
        }
    }
    groups
}

/// An object as a merge patch that leaves no number of others in a budget, and no port of others in a Service.
fn in_place_of_others(object: &impl serde::Serialize) -> Value {
    // What is written here was made here, so it goes into JSON; were that ever to fail, nothing would be changed.
    let mut patch = serde_json::to_value(object).unwrap_or_default();
    let spec = patch.get_mut("spec").and_then(Value::as_object_mut);
    if let Some(spec) = spec.filter(|spec| spec.contains_key("minAvailable")) {
        spec.insert("maxUnavailable".to_owned(), Value::Null);
    }
    patch
}

fn is_creation(effect: &Effect) -> bool {
    matches!(effect, Effect::CreatePod(_) | Effect::CreateService(_))
}

/// The name of the clusters' CRD.
fn crd_name() -> String {
    format!("etcdclusters.{}", api::GROUP)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(groups: &[Vec<Effect>]) -> Vec<Vec<&'static str>> {
        groups.iter().map(|group| group.iter().map(Effect::name).collect()).collect()
    }

    #[test]
    fn what_cannot_be_beside_ours_goes() {
        let budget = json!({"spec": {"minAvailable": 2}});
        assert_eq!(in_place_of_others(&budget), json!({"spec": {"minAvailable": 2, "maxUnavailable": null}}));
        let service = json!({"spec": {"ports": []}});
        assert_eq!(in_place_of_others(&service), service);
    }

    #[test]
    fn creations_are_sent_together_and_everything_else_one_after_another() {
        let pod = || Effect::CreatePod(Box::default());
        let delete = || Effect::DeletePod { name: "a".to_owned(), uid: "u".to_owned() };
        assert_eq!(names(&in_order(vec![pod(), pod(), pod()])), [["CreatePod"; 3].to_vec()]);
        assert_eq!(
            names(&in_order(vec![delete(), delete(), pod(), pod(), delete()])),
            [vec!["DeletePod"], vec!["DeletePod"], vec!["CreatePod"; 2], vec!["DeletePod"]]
        );
    }
}
