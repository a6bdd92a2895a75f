//! What is seen of a pod: the few facts that decisions are made on.

use std::collections::{BTreeMap, BTreeSet};

use api::names::{ANNOTATION_RELAUNCHED, LABEL_ZONE};
use k8s_openapi::api::core::v1::{ContainerStateTerminated, ContainerStatus, Pod, PodStatus};
use launch::{EtcdVersion, LaunchOrder, ORDER_ANNOTATION, OrderError, Reason, Refused};

use crate::{Desired, Timestamp, inputs::Facet};

/// The name of the container that runs etcd.
pub const ETCD: &str = "etcd";

/// A pod with the cluster's labels.
#[derive(Clone, Debug, PartialEq)]
pub struct SeenPod {
    /// Its name, which is its member's.
    pub name: String,
    /// Its UID.
    pub uid: String,
    /// Its version in the API server.
    pub resource_version: String,
    /// The UID of its controller.
    pub owner_uid: Option<String>,
    /// When it was made, by the API server's clock: what tells the older member from the newer.
    pub created: Option<Timestamp>,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Its annotations, the order apart.
    pub annotations: BTreeMap<String, String>,
    /// The label that names the attempt it was made in.
    pub attempt: Option<String>,
    /// The digest of what it was made from.
    pub inputs: Option<String>,
    /// The order that the launcher reads at the container's next start; it says whether that start may find no data.
    pub order: OrderSeen,
    /// Its node.
    pub node: Option<String>,
    /// Its address.
    pub ip: Option<String>,
    /// Its phase.
    pub phase: PodPhase,
    /// Whether Kubernetes holds it ready.
    pub ready: Readiness,
    /// What happens in its containers, init containers first.
    pub containers: Vec<SeenContainer>,
    /// Why no node takes it.
    pub unschedulable: Option<String>,
    /// Why the kubelet ended it (evicted, node shut down), if it did.
    pub ended: Option<String>,
    /// Whether it is being deleted.
    pub deleting: bool,
}

/// The order in a pod's annotation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OrderSeen {
    /// There is no annotation, or what stands there is no order.
    Missing,
    /// It is an order in the form of a later operator.
    Unreadable,
    /// There is one.
    Order(LaunchOrder),
}

/// A pod's phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PodPhase {
    /// Not all containers have started.
    Pending,
    /// They have.
    Running,
    /// It is over, and went well.
    Succeeded,
    /// It is over, and did not.
    Failed,
    /// Not told.
    Unknown,
}

/// Whether a pod is ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Readiness {
    /// It is.
    Ready,
    /// It is not.
    NotReady,
    /// Not told.
    Unknown,
}

/// A container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeenContainer {
    /// Its name.
    pub name: String,
    /// Its ID in the container runtime: another one for each start. None before its first.
    pub id: Option<String>,
    /// The image that it runs, as the kubelet names it: that may be another tag of the same image.
    pub image: String,
    /// What it does now.
    pub state: ContainerState,
    /// How its last run ended.
    pub last_end: Option<Ended>,
    /// How often it was restarted.
    pub restarts: i32,
}

/// What a container does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ContainerState {
    /// It waits to be started.
    Waiting {
        /// Kubernetes' word for why, such as `ImagePullBackOff`.
        reason: String,
        /// More words.
        message: String,
    },
    /// It runs.
    Running,
    /// It has ended.
    Terminated(Ended),
    /// Not told.
    Unknown,
}

/// How a run of a container ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    /// Its exit code.
    pub exit_code: i32,
    /// Kubernetes' word, such as `Error` or `OOMKilled`.
    pub reason: String,
    /// The termination message.
    pub message: String,
}

impl SeenPod {
    /// The facts of a pod.
    #[must_use]
    pub fn from_pod(pod: &Pod) -> Self {
        let metadata = &pod.metadata;
        let status = pod.status.clone().unwrap_or_default();
        let annotation = |key: &str| metadata.annotations.as_ref().and_then(|all| all.get(key)).cloned();
        let owner = metadata.owner_references.iter().flatten().find(|owner| owner.controller == Some(true));
        Self {
            name: metadata.name.clone().unwrap_or_default(),
            uid: metadata.uid.clone().unwrap_or_default(),
            resource_version: metadata.resource_version.clone().unwrap_or_default(),
            owner_uid: owner.map(|owner| owner.uid.clone()),
            created: metadata.creation_timestamp.as_ref().map(|time| time.0),
            labels: metadata.labels.clone().unwrap_or_default(),
            annotations: without_order(metadata.annotations.as_ref()),
            attempt: metadata.labels.as_ref().and_then(|all| all.get(api::names::LABEL_ATTEMPT)).cloned(),
            inputs: annotation(api::names::ANNOTATION_INPUTS),
            order: match annotation(ORDER_ANNOTATION).as_deref().map(LaunchOrder::read) {
                None | Some(Err(OrderError::Unreadable(_))) => OrderSeen::Missing,
                Some(Err(OrderError::TooNew { .. })) => OrderSeen::Unreadable,
                Some(Ok(order)) => OrderSeen::Order(order),
            },
            node: pod.spec.as_ref().and_then(|spec| spec.node_name.clone()),
            ip: status.pod_ip.clone().filter(|ip| !ip.is_empty()),
            phase: phase(status.phase.as_deref()),
            ready: readiness(&status),
            containers: containers(&status),
            unschedulable: condition(&status, "PodScheduled", "False"),
            ended: words(status.reason.as_deref(), status.message.as_deref()),
            deleting: metadata.deletion_timestamp.is_some(),
        }
    }

    /// The container that runs etcd, once it has a status.
    #[must_use]
    pub fn etcd(&self) -> Option<&SeenContainer> {
        self.containers.iter().find(|container| container.name == ETCD)
    }

    /// The version that its member is ordered to run. What it does run is its own answer: the two differ while it is relaunched, and as
    /// long as it cannot be.
    #[must_use]
    pub fn version(&self) -> Option<EtcdVersion> {
        match &self.order {
            OrderSeen::Order(order) => Some(order.version),
            OrderSeen::Missing | OrderSeen::Unreadable => None,
        }
    }

    /// Whether it was made from this spec, in all but the version.
    #[must_use]
    pub fn is_made_from(&self, desired: &Desired) -> bool {
        self.differences(desired, self.version().unwrap_or(desired.version)).is_empty()
    }

    /// In which parts it is not as it would be made now, with this version.
    #[must_use]
    pub fn differences(&self, desired: &Desired, version: EtcdVersion) -> BTreeSet<Facet> {
        desired.inputs.differences(self.inputs.as_deref(), self.version(), version)
    }

    /// Whether its image was changed and the container that ran before the change is still the one that is there.
    #[must_use]
    pub fn is_relaunching(&self) -> bool {
        let before = self.annotations.get(ANNOTATION_RELAUNCHED);
        before.is_some_and(|before| {
            self.etcd().and_then(|etcd| etcd.id.as_deref()).unwrap_or_default() == before
        })
    }

    /// Whether its image was ever changed.
    #[must_use]
    pub fn was_relaunched(&self) -> bool {
        self.annotations.contains_key(ANNOTATION_RELAUNCHED)
    }

    /// Whether the kubelet says that etcd does not run in it.
    #[must_use]
    pub fn is_down(&self) -> bool {
        let state = self.etcd().map(|etcd| &etcd.state);
        matches!(state, Some(ContainerState::Waiting { .. } | ContainerState::Terminated(_)))
    }

    /// Where it stands, as far as it says so: its zone, or its node where nobody tells of zones.
    #[must_use]
    pub fn place(&self) -> Option<&str> {
        self.labels.get(LABEL_ZONE).or(self.node.as_ref()).map(String::as_str)
    }

    /// Who controls it, for people.
    #[must_use]
    pub fn owner_in_words(&self) -> String {
        self.owner_uid
            .as_ref()
            .map_or_else(|| "nobody".to_owned(), |uid| format!("somebody else (UID {uid})"))
    }

    /// Whether Kubernetes holds the pod ready.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.ready == Readiness::Ready && !self.deleting
    }

    /// Why the launcher does not start etcd, if its last word was that.
    #[must_use]
    pub fn refusal(&self) -> Option<Refused> {
        let etcd = self.etcd()?;
        let message = match &etcd.state {
            ContainerState::Terminated(ended) => &ended.message,
            ContainerState::Waiting { .. } => &etcd.last_end.as_ref()?.message,
            ContainerState::Running | ContainerState::Unknown => return None,
        };
        message.parse().ok()
    }

    /// Whether etcd may have run in this pod. The launcher alone does not count, where it said that it refused every time.
    #[must_use]
    pub fn may_have_started(&self) -> bool {
        let Some(etcd) = self.etcd() else { return false };
        match &etcd.state {
            ContainerState::Running => true,
            ContainerState::Terminated(_) | ContainerState::Waiting { .. } | ContainerState::Unknown => {
                let ran = etcd.restarts > 0
                    || etcd.last_end.is_some()
                    || matches!(etcd.state, ContainerState::Terminated(_));
                ran && (etcd.restarts > 1 || self.refusal().is_none())
            }
        }
    }

    /// Why this member is lost for good, if it is: without a claim its data goes with the pod.
    #[must_use]
    pub fn loss(&self) -> Option<String> {
        if self.deleting {
            return Some("its pod is being deleted".to_owned());
        }
        if matches!(self.phase, PodPhase::Failed | PodPhase::Succeeded) {
            let why = self.ended.as_ref().map(|why| format!(": {why}")).unwrap_or_default();
            return Some(format!("its pod has ended{why}"));
        }
        self.refusal()
            .filter(|refused| matches!(refused.reason, Reason::DataLost | Reason::DataForeign))
            .map(|refused| refused.sentence)
    }

    /// What the launcher said when its data was gone, if that was its last word before it was started once more.
    #[must_use]
    pub fn refused_before(&self) -> Option<Refused> {
        let refused: Refused = self.etcd()?.last_end.as_ref()?.message.parse().ok()?;
        Some(refused).filter(|refused| refused.reason == Reason::DataLost)
    }

    /// Whether there is data in it that its launcher takes for somebody else's, and that stays where it is.
    #[must_use]
    pub fn holds_other_data(&self) -> bool {
        let stays = !self.deleting && !matches!(self.phase, PodPhase::Failed | PodPhase::Succeeded);
        stays && self.refusal().is_some_and(|refused| refused.reason == Reason::DataForeign)
    }
}

fn without_order(annotations: Option<&BTreeMap<String, String>>) -> BTreeMap<String, String> {
    let others = annotations.into_iter().flatten().filter(|(key, _)| *key != ORDER_ANNOTATION);
    others.map(|(key, value)| (key.clone(), value.clone())).collect()
}

fn phase(text: Option<&str>) -> PodPhase {
    match text {
        Some("Pending") => PodPhase::Pending,
        Some("Running") => PodPhase::Running,
        Some("Succeeded") => PodPhase::Succeeded,
        Some("Failed") => PodPhase::Failed,
        _ => PodPhase::Unknown,
    }
}

fn readiness(status: &PodStatus) -> Readiness {
    let ready = status.conditions.iter().flatten().find(|condition| condition.type_ == "Ready");
    match ready.map(|condition| condition.status.as_str()) {
        Some("True") => Readiness::Ready,
        Some("False") => Readiness::NotReady,
        _ => Readiness::Unknown,
    }
}

/// The words of a condition, while it has this status.
fn condition(status: &PodStatus, type_: &str, value: &str) -> Option<String> {
    let found = status.conditions.iter().flatten().find(|c| c.type_ == type_ && c.status == value)?;
    words(found.reason.as_deref(), found.message.as_deref())
}

fn words(reason: Option<&str>, message: Option<&str>) -> Option<String> {
    let parts: Vec<&str> = [message, reason].into_iter().flatten().filter(|part| !part.is_empty()).collect();
    parts.first().map(|first| (*first).to_owned())
}

fn containers(status: &PodStatus) -> Vec<SeenContainer> {
    let all = status.init_container_statuses.iter().chain(&status.container_statuses).flatten();
    all.map(container).collect()
}

fn container(status: &ContainerStatus) -> SeenContainer {
    let state = status.state.clone().unwrap_or_default();
    let now = if let Some(waiting) = state.waiting {
        ContainerState::Waiting {
            reason: waiting.reason.unwrap_or_default(),
            message: waiting.message.unwrap_or_default(),
        }
    } else if state.running.is_some() {
        ContainerState::Running
    } else {
        state
            .terminated
            .as_ref()
            .map_or(ContainerState::Unknown, |end| ContainerState::Terminated(ended(end)))
    };
    SeenContainer {
        name: status.name.clone(),
        id: status.container_id.clone().filter(|id| !id.is_empty()),
        image: status.image.clone(),
        state: now,
        last_end: status.last_state.as_ref().and_then(|last| last.terminated.as_ref()).map(ended),
        restarts: status.restart_count,
    }
}

fn ended(state: &ContainerStateTerminated) -> Ended {
    Ended {
        exit_code: state.exit_code,
        reason: state.reason.clone().unwrap_or_default(),
        message: state.message.clone().unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn seen(status: &serde_json::Value) -> SeenPod {
        let pod: Pod = serde_json::from_value(json!({
            "metadata": {"name": "a-1", "uid": "u", "resourceVersion": "5", "labels": {"etcd_attempt": "1-x"},
                "ownerReferences": [
                    {"apiVersion": "v1", "kind": "X", "name": "x", "uid": "not the controller"},
                    {"apiVersion": "v1", "kind": "EtcdCluster", "name": "a", "uid": "owner", "controller": true}]},
            "status": status,
        }))
        .unwrap();
        SeenPod::from_pod(&pod)
    }

    fn etcd(state: &serde_json::Value, last: Option<&str>, restarts: i32) -> SeenPod {
        let last = last.map(|message| json!({"terminated": {"exitCode": 78, "message": message}}));
        seen(
            &json!({"phase": "Running", "containerStatuses": [{"name": "etcd", "image": "i", "imageID": "", "ready": false,
            "restartCount": restarts, "state": state, "lastState": last.unwrap_or_else(|| json!({}))}]}),
        )
    }

    #[test]
    fn a_pod_that_nobody_has_looked_at_is_seen_with_everything_unknown() {
        let pod = seen(&json!({}));
        assert_eq!((pod.phase, pod.ready, pod.ip.as_deref()), (PodPhase::Unknown, Readiness::Unknown, None));
        assert_eq!((pod.owner_uid.as_deref(), pod.attempt.as_deref()), (Some("owner"), Some("1-x")));
        assert_eq!(pod.order, OrderSeen::Missing);
        assert!(!pod.may_have_started() && pod.loss().is_none() && pod.refusal().is_none());
    }

    #[test]
    fn the_words_of_the_scheduler_and_of_the_kubelet_are_kept() {
        let pod = seen(&json!({"phase": "Pending", "conditions": [
            {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes are available"}]}));
        assert_eq!(pod.unschedulable.as_deref(), Some("0/3 nodes are available"));
        let evicted =
            seen(&json!({"phase": "Failed", "reason": "Evicted", "message": "The node was low on memory"}));
        assert!(evicted.loss().unwrap().contains("low on memory"));
        assert!(
            seen(&json!({"phase": "Failed", "reason": "NodeShutdown"}))
                .loss()
                .unwrap()
                .contains("NodeShutdown")
        );
    }

    #[test]
    fn whether_etcd_may_have_run_is_told_by_the_container_and_in_doubt_it_may() {
        let refusal = launch::Refusal::OrderMissing.to_termination_message();
        let back_off = json!({"waiting": {"reason": "CrashLoopBackOff"}});
        let table = [
            ("it is being made", etcd(&json!({"waiting": {"reason": "PodInitializing"}}), None, 0), false),
            ("it runs", etcd(&json!({"running": {}}), None, 0), true),
            ("it ended", etcd(&json!({"terminated": {"exitCode": 1}}), None, 0), true),
            ("it ended before", etcd(&back_off, Some("panic"), 1), true),
            (
                "the launcher refused",
                etcd(&json!({"terminated": {"exitCode": 78, "message": refusal}}), None, 0),
                false,
            ),
            ("the launcher refused, once", etcd(&back_off, Some(&refusal), 1), false),
            (
                "the launcher refused, and earlier ends are forgotten",
                etcd(&back_off, Some(&refusal), 5),
                true,
            ),
            ("nothing is told", etcd(&json!({}), None, 0), false),
        ];
        for (title, pod, started) in table {
            assert_eq!(pod.may_have_started(), started, "{title}");
        }
    }

    #[test]
    fn only_a_refusal_for_the_data_is_a_loss() {
        for (refusal, lost) in [
            (launch::Refusal::DataLost { member: "a-1".to_owned() }, true),
            (launch::Refusal::OrderMissing, false),
            (launch::Refusal::StorageFailed { attempted: "x".to_owned(), why: "y".to_owned() }, false),
        ] {
            let message = refusal.to_termination_message();
            let pod = etcd(&json!({"terminated": {"exitCode": 78, "message": message}}), None, 0);
            assert_eq!(pod.refusal().map(|refused| refused.reason), Some(refusal.reason()));
            assert_eq!(pod.loss().is_some(), lost, "{refusal}");
        }
        let running_again = etcd(&json!({"running": {}}), Some("etcd-launcher refuses (DataLost): x"), 1);
        assert_eq!(running_again.refusal(), None, "what was said before the last start counts no more");
    }
}
