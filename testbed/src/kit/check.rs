//! Ready-made checks for `wait`: what is wanted, or in words what is there instead.

use k8s_openapi::api::{
    apps::v1::Deployment,
    core::v1::{ContainerState, ContainerStatus, Node, Pod},
};
use kube::{Resource, ResourceExt};

/// The pod is Ready (and not on its way out).
pub fn pod_ready(pod: Option<&Pod>) -> Result<Pod, String> {
    match pod {
        Some(pod) if is_ready(pod) => Ok(pod.clone()),
        Some(pod) => Err(describe_pod(pod)),
        None => Err("no such pod".into()),
    }
}

/// There are exactly this many pods, and all are Ready.
pub fn pods_ready(count: usize) -> impl Fn(&[Pod]) -> Result<Vec<Pod>, String> {
    move |pods| {
        if pods.len() == count && pods.iter().all(is_ready) {
            return Ok(pods.to_vec());
        }
        let ready = pods.iter().filter(|pod| is_ready(pod)).count();
        let others: Vec<_> = pods
            .iter()
            .filter(|pod| !is_ready(pod))
            .map(|pod| format!("{}: {}", pod.name_any(), describe_pod(pod)))
            .collect();
        let others = if others.is_empty() { String::new() } else { format!(" ({})", others.join("; ")) };
        Err(format!("{ready} Ready of {} pods, {count} wanted{others}", pods.len()))
    }
}

/// All containers of the pod have ended well.
pub fn pod_succeeded(pod: Option<&Pod>) -> Result<Pod, String> {
    match pod {
        Some(pod) if phase(pod) == "Succeeded" => Ok(pod.clone()),
        Some(pod) => Err(describe_pod(pod)),
        None => Err("no such pod".into()),
    }
}

/// The node is Ready, by what its kubelet last said and the API server still believes.
pub fn node_ready(node: Option<&Node>) -> Result<(), String> {
    let Some(node) = node else { return Err("there is no such node".to_owned()) };
    let conditions = node.status.as_ref().and_then(|status| status.conditions.as_ref());
    match conditions.into_iter().flatten().find(|condition| condition.type_ == "Ready") {
        Some(ready) if ready.status == "True" => Ok(()),
        Some(ready) => {
            Err(format!("not Ready: {}", ready.message.as_deref().unwrap_or("no reason is given")))
        }
        None => Err("not Ready: its kubelet has said nothing yet".to_owned()),
    }
}

/// The deployment's newest form is available with all its replicas.
pub fn deployment_available(deployment: Option<&Deployment>) -> Result<Deployment, String> {
    let deployment = deployment.ok_or("no such deployment")?;
    let status = deployment.status.clone().unwrap_or_default();
    let wanted = deployment.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1);
    let (updated, available) = (status.updated_replicas.unwrap_or(0), status.available_replicas.unwrap_or(0));
    if status.observed_generation < deployment.metadata.generation {
        return Err("its newest form has not been taken up yet".into());
    }
    if updated == wanted && available == wanted && status.replicas == Some(wanted) {
        return Ok(deployment.clone());
    }
    let conditions: Vec<_> = status
        .conditions
        .iter()
        .flatten()
        .map(|it| format!("{}={}: {}", it.type_, it.status, it.message.as_deref().unwrap_or_default()))
        .collect();
    Err(format!(
        "{available} available and {updated} updated of {wanted} replicas; {}",
        conditions.join("; ")
    ))
}

/// There is no such object.
pub fn gone<K: Resource>(object: Option<&K>) -> Result<(), String> {
    object.map_or(Ok(()), |object| Err(describe_remains(object.meta())))
}

/// None of them is there.
pub fn none_left<K>(left: &[K]) -> Result<(), String> {
    if left.is_empty() { Ok(()) } else { Err(format!("{} are left", left.len())) }
}

/// This very object is gone; another one of the same name may be there.
pub fn this_gone<K: Resource>(uid: &str) -> impl Fn(Option<&K>) -> Result<(), String> {
    move |object| match object {
        Some(object) if object.meta().uid.as_deref() == Some(uid) => Err(describe_remains(object.meta())),
        _ => Ok(()),
    }
}

fn describe_remains(meta: &kube::core::ObjectMeta) -> String {
    let finalizers = meta.finalizers.as_deref().unwrap_or_default();
    match (&meta.deletion_timestamp, finalizers) {
        (None, _) => "it is there, and nobody has deleted it".into(),
        (Some(since), []) => format!("it is there, being deleted since {}", since.0),
        (Some(since), held) => {
            format!("it is there, being deleted since {}, held by {}", since.0, held.join(", "))
        }
    }
}

fn phase(pod: &Pod) -> &str {
    pod.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or("without phase")
}

/// Ready as the Endpoints controller has it: a pod that is being deleted is not counted.
fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default();
    pod.metadata.deletion_timestamp.is_none()
        && conditions.iter().any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

/// What a person would want to know about a pod that is not what it should be.
#[must_use]
pub fn describe_pod(pod: &Pod) -> String {
    let mut said = vec![phase(pod).to_owned()];
    if pod.metadata.deletion_timestamp.is_some() {
        said.push("being deleted".into());
    }
    let status = pod.status.clone().unwrap_or_default();
    said.extend([status.reason, status.message].into_iter().flatten());
    let unscheduled =
        |it: &&k8s_openapi::api::core::v1::PodCondition| it.type_ == "PodScheduled" && it.status != "True";
    if let Some(condition) = status.conditions.iter().flatten().find(unscheduled) {
        said.push(format!("not scheduled: {}", condition.message.as_deref().unwrap_or("no reason given")));
    }
    let containers =
        status.init_container_statuses.iter().flatten().chain(status.container_statuses.iter().flatten());
    said.extend(containers.filter_map(describe_container));
    said.join(", ")
}

fn describe_container(container: &ContainerStatus) -> Option<String> {
    let state = container.state.as_ref().and_then(describe_state);
    let text = match state {
        Some(state) => state,
        None if container.ready => return None,
        None => "is not ready".into(),
    };
    let before = container.last_state.as_ref().and_then(describe_state);
    let before = before.map_or(String::new(), |state| format!(" (before: {state})"));
    Some(format!("container {} {text}, restarted {} times{before}", container.name, container.restart_count))
}

fn describe_state(state: &ContainerState) -> Option<String> {
    if let Some(waiting) = &state.waiting {
        let reason = waiting.reason.as_deref().unwrap_or("no reason given");
        let message = waiting.message.as_deref().map_or(String::new(), |message| format!(": {message}"));
        return Some(format!("waits: {reason}{message}"));
    }
    let ended = state.terminated.as_ref()?;
    let reason = ended.reason.as_deref().unwrap_or("no reason given");
    let message = ended.message.as_deref().map_or(String::new(), |message| format!(": {message}"));
    Some(format!("ended with {} ({reason}){message}", ended.exit_code))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn pod(status: &Value) -> Pod {
        serde_json::from_value(json!({ "metadata": { "name": "etcd-0" }, "status": status })).unwrap()
    }

    fn ready(is: &str) -> Value {
        json!([{ "type": "Ready", "status": is }])
    }

    #[test]
    fn a_pod_that_waits_says_for_what() {
        let waiting = pod(&json!({
            "phase": "Pending",
            "conditions": ready("False"),
            "containerStatuses": [{ "name": "etcd", "ready": false, "restartCount": 0, "image": "", "imageID": "",
                "state": { "waiting": { "reason": "ImagePullBackOff", "message": "v0: not found" } } }],
        }));
        assert_eq!(
            pod_ready(Some(&waiting)).unwrap_err(),
            "Pending, container etcd waits: ImagePullBackOff: v0: not found, restarted 0 times"
        );
    }

    #[test]
    fn a_pod_that_crashes_says_how_it_ended_before() {
        let crashing = pod(&json!({
            "phase": "Running",
            "containerStatuses": [{ "name": "etcd", "ready": false, "restartCount": 3, "image": "", "imageID": "",
                "state": { "waiting": { "reason": "CrashLoopBackOff" } },
                "lastState": { "terminated": { "exitCode": 2, "reason": "Error", "message": "no data dir" } } }],
        }));
        assert_eq!(
            pod_ready(Some(&crashing)).unwrap_err(),
            "Running, container etcd waits: CrashLoopBackOff, restarted 3 times (before: ended with 2 (Error): no data dir)"
        );
    }

    #[test]
    fn a_pod_without_a_node_says_why() {
        let unscheduled = pod(&json!({
            "phase": "Pending",
            "conditions": [{ "type": "PodScheduled", "status": "False", "message": "0/3 nodes are available" }],
        }));
        assert_eq!(
            pod_succeeded(Some(&unscheduled)).unwrap_err(),
            "Pending, not scheduled: 0/3 nodes are available"
        );
    }

    #[test]
    fn a_ready_pod_that_is_being_deleted_is_not_ready() {
        let mut leaving = pod(&json!({ "phase": "Running", "conditions": ready("True") }));
        assert!(pod_ready(Some(&leaving)).is_ok());
        leaving.metadata.deletion_timestamp =
            Some(serde_json::from_value(json!("2026-11-15T12:00:00Z")).unwrap());
        assert_eq!(pod_ready(Some(&leaving)).unwrap_err(), "Running, being deleted");
    }

    #[test]
    fn pods_are_counted_and_the_others_described() {
        let ready = pod(&json!({ "phase": "Running", "conditions": ready("True") }));
        let pending = pod(&json!({ "phase": "Pending" }));
        assert_eq!(pods_ready(1)(std::slice::from_ref(&ready)).unwrap().len(), 1);
        assert_eq!(
            pods_ready(3)(&[ready, pending]).unwrap_err(),
            "1 Ready of 2 pods, 3 wanted (etcd-0: Pending)"
        );
        assert_eq!(pods_ready(1)(&[]).unwrap_err(), "0 Ready of 0 pods, 1 wanted");
    }

    #[test]
    fn an_old_status_does_not_make_a_new_deployment_available() {
        let mut deployment: Deployment = serde_json::from_value(json!({
            "metadata": { "generation": 2 },
            "spec": { "replicas": 1, "selector": {}, "template": {} },
            "status": { "observedGeneration": 2, "replicas": 1, "updatedReplicas": 1, "availableReplicas": 1 },
        }))
        .unwrap();
        assert!(deployment_available(Some(&deployment)).is_ok());
        deployment.metadata.generation = Some(3);
        assert!(deployment_available(Some(&deployment)).is_err());
    }

    #[test]
    fn another_object_of_the_same_name_is_not_this_one() {
        let mut other = pod(&json!({}));
        other.metadata.uid = Some("new".into());
        assert!(this_gone("old")(Some(&other)).is_ok());
        assert!(this_gone("new")(Some(&other)).is_err());
        assert!(gone(Some(&other)).is_err());
        assert!(gone::<Pod>(None).is_ok());
    }
}
