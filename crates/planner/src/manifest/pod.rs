//! A member's pod.

use std::collections::BTreeMap;

use api::names::{ANNOTATION_INPUTS, ANNOTATION_VERSION, CLIENT_PORT, LABEL_MEMBER, PEER_PORT};
use k8s_openapi::{
    api::core::v1::{
        Container, ContainerPort, EmptyDirVolumeSource, EnvVar, EnvVarSource, ExecAction,
        ObjectFieldSelector, Pod, PodSpec, Probe, Toleration, TopologySpreadConstraint, Volume, VolumeMount,
    },
    apimachinery::pkg::apis::meta::v1::LabelSelector,
};
use launch::{EtcdVersion, InvalidMember, LaunchOrder, MemberName, ORDER_ANNOTATION, ORDER_ENV};

use super::{attempt_labels, member, metadata, security};
use crate::{attempt::Attempt, desired::Desired, effect::SeenList, observed};

/// Where the launcher's copy lies, for the init container that writes it and for the container that runs it.
const LAUNCHER_DIR: &str = "/opt/etcd-launcher";
/// The copy itself.
const LAUNCHER: &str = "/opt/etcd-launcher/etcd-launcher";
/// Where the launcher's marker lies: its own default.
const MARKER_DIR: &str = "/var/run/etcd-launcher";
/// What etcd's data directory lies in. It must not be the volume itself, whose owner and mode are not etcd's to choose.
const DATA_MOUNT: &str = "/var/etcd";
/// etcd hands its leadership over when it is asked to end, and may have to write a snapshot.
const GRACE_SECONDS: i64 = 30;

/// The pod of one of the first members of an attempt.
pub fn pod(desired: &Desired, attempt: &Attempt, member: &MemberName) -> Result<Pod, InvalidMember> {
    Ok(assemble(desired, attempt, member, &member::first(desired, attempt, member)?))
}

/// The pod of a member that joins the cluster with this member list, and runs this version.
pub fn joining_pod(
    desired: &Desired,
    attempt: &Attempt,
    member: &MemberName,
    version: EtcdVersion,
    list: &SeenList,
) -> Result<Pod, InvalidMember> {
    Ok(assemble(desired, attempt, member, &member::joining(desired, attempt, member, version, list)?))
}

/// The labels that a member's pod has to carry.
pub(crate) fn member_labels(cluster: &str, attempt: &Attempt, member: &str) -> BTreeMap<String, String> {
    let mut labels = attempt_labels(cluster, attempt);
    labels.insert(LABEL_MEMBER.to_owned(), member.to_owned());
    labels
}

fn assemble(desired: &Desired, attempt: &Attempt, member: &MemberName, order: &LaunchOrder) -> Pod {
    let mut labels = member_labels(&desired.name, attempt, member.as_str());
    for (key, value) in desired.pod.labels.iter().flatten() {
        labels.entry(key.clone()).or_insert_with(|| value.clone());
    }
    let mut metadata = metadata(desired, member.as_str(), "member", labels);
    metadata.annotations = Some(annotations(desired, order));
    Pod { metadata, spec: Some(spec(desired, attempt, member, order.version)), status: None }
}

/// The user's annotations and ours, which win.
fn annotations(desired: &Desired, order: &LaunchOrder) -> BTreeMap<String, String> {
    let mut annotations = desired.pod.annotations.clone().unwrap_or_default();
    annotations.insert(ANNOTATION_VERSION.to_owned(), order.version.to_string());
    annotations.insert(ANNOTATION_INPUTS.to_owned(), desired.inputs(order.version));
    annotations.insert(ORDER_ANNOTATION.to_owned(), order.to_annotation());
    annotations
}

fn spec(desired: &Desired, attempt: &Attempt, member: &MemberName, version: EtcdVersion) -> PodSpec {
    let policy = &desired.pod;
    PodSpec {
        hostname: Some(member.to_string()),
        subdomain: Some(desired.name.clone()),
        init_containers: Some(vec![install_container(desired)]),
        containers: vec![etcd_container(desired, version)],
        volumes: Some(["etcd-data", "launcher-marker", "launcher"].map(scratch).to_vec()),
        restart_policy: Some("Always".to_owned()),
        termination_grace_period_seconds: Some(GRACE_SECONDS),
        automount_service_account_token: Some(false),
        enable_service_links: Some(false),
        security_context: Some(security::of_pod(policy, desired.member_user)),
        node_selector: policy.node_selector.clone().filter(|selector| !selector.is_empty()),
        affinity: policy.affinity_for(&desired.name),
        tolerations: Some(tolerations(policy.tolerations.as_deref().unwrap_or_default())),
        topology_spread_constraints: Some(spread(desired, attempt)),
        priority_class_name: policy.priority_class_name.clone().filter(|name| !name.is_empty()),
        image_pull_secrets: policy.image_pull_secrets.clone().filter(|secrets| !secrets.is_empty()),
        ..Default::default()
    }
}

/// The container that copies the launcher to where etcd's container finds it, whose image has no shell and is not ours.
fn install_container(desired: &Desired) -> Container {
    Container {
        name: "install-launcher".to_owned(),
        image: Some(desired.launcher_image.clone()),
        image_pull_policy: Some("IfNotPresent".to_owned()),
        command: Some(words(&["etcd-launcher", "install", LAUNCHER])),
        resources: desired.pod.resources.clone(),
        security_context: Some(security::of_container()),
        volume_mounts: Some(vec![mount("launcher", LAUNCHER_DIR, false)]),
        ..Default::default()
    }
}

fn etcd_container(desired: &Desired, version: EtcdVersion) -> Container {
    let mut env = vec![order_variable()];
    env.extend(desired.pod.etcd_env.iter().flatten().cloned());
    Container {
        name: observed::ETCD.to_owned(),
        image: Some(desired.image_of(version)),
        image_pull_policy: Some(pull_policy(desired)),
        command: Some(words(&[LAUNCHER, "run"])),
        env: Some(env),
        ports: Some(vec![container_port("server", PEER_PORT), container_port("client", CLIENT_PORT)]),
        resources: desired.pod.resources.clone(),
        security_context: Some(security::of_container()),
        volume_mounts: Some(vec![
            mount("etcd-data", DATA_MOUNT, false),
            mount("launcher-marker", MARKER_DIR, false),
            mount("launcher", LAUNCHER_DIR, true),
        ]),
        // No startup probe: the launcher knows itself whether etcd still reads its data, and the kubelet would ask the others only after
        // it, up to a second later.
        // Each question is a process of its own, which costs some 40 ms of a core: asked every two seconds, that was two hundredths of a core
        // for each member at rest. So it is asked seldom, and waits itself: all but one second of the time for a member that is not ready
        // yet, and long enough for a single no to be believed. The kubelet waits longer than that, so that it can say what it waited for.
        readiness_probe: Some(probe("readiness", 5, 1, 10)),
        // Only for a process that is really stuck: it never asks through the quorum, and a busy machine may take its time to ask.
        liveness_probe: Some(probe("liveness", 20, 4, 15)),
        ..Default::default()
    }
}

/// The order reaches the container through the environment, which the kubelet evaluates at every start of the container.
fn order_variable() -> EnvVar {
    let annotation = ObjectFieldSelector {
        field_path: format!("metadata.annotations['{ORDER_ANNOTATION}']"),
        api_version: Some("v1".to_owned()),
    };
    EnvVar {
        name: ORDER_ENV.to_owned(),
        value_from: Some(EnvVarSource { field_ref: Some(annotation), ..Default::default() }),
        ..Default::default()
    }
}

fn probe(question: &str, period: i32, failures: i32, patience: i32) -> Probe {
    Probe {
        exec: Some(ExecAction { command: Some(words(&[LAUNCHER, "probe", question])) }),
        period_seconds: Some(period),
        failure_threshold: Some(failures),
        timeout_seconds: Some(patience),
        ..Default::default()
    }
}

/// The user's tolerations, and ours: a node that is not ready or not reachable is no reason to delete a member, which without a
/// claim is to lose it. The operator decides that.
fn tolerations(asked: &[Toleration]) -> Vec<Toleration> {
    let keys = ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"];
    let ours = keys.map(|key| Toleration {
        key: Some(key.to_owned()),
        operator: Some("Exists".to_owned()),
        effect: Some("NoExecute".to_owned()),
        ..Default::default()
    });
    asked.iter().cloned().chain(ours).collect()
}

/// A tag can be moved, and what runs must not change because a container restarted: unless somebody asks for just that.
fn pull_policy(desired: &Desired) -> String {
    let asked = desired.pod.image_pull_policy.clone().filter(|policy| !policy.is_empty());
    asked.unwrap_or_else(|| "IfNotPresent".to_owned())
}

/// What was asked for; or members are spread over nodes and zones where that is possible, and run all the same where it is not.
fn spread(desired: &Desired, attempt: &Attempt) -> Vec<TopologySpreadConstraint> {
    let members =
        LabelSelector { match_labels: Some(attempt_labels(&desired.name, attempt)), ..Default::default() };
    if let Some(asked) = &desired.pod.topology_spread_constraints {
        let about_members = |constraint: &TopologySpreadConstraint| TopologySpreadConstraint {
            label_selector: constraint.label_selector.clone().or_else(|| Some(members.clone())),
            ..constraint.clone()
        };
        return asked.iter().map(about_members).collect();
    }
    let keys = ["kubernetes.io/hostname", "topology.kubernetes.io/zone"];
    keys.map(|key| TopologySpreadConstraint {
        max_skew: 1,
        topology_key: key.to_owned(),
        when_unsatisfiable: "ScheduleAnyway".to_owned(),
        label_selector: Some(members.clone()),
        ..Default::default()
    })
    .to_vec()
}

/// A volume that lives and dies with the pod, on the node's disk.
fn scratch(name: &str) -> Volume {
    Volume { name: name.to_owned(), empty_dir: Some(EmptyDirVolumeSource::default()), ..Default::default() }
}

fn mount(volume: &str, path: &str, read_only: bool) -> VolumeMount {
    VolumeMount {
        name: volume.to_owned(),
        mount_path: path.to_owned(),
        read_only: read_only.then_some(true),
        ..Default::default()
    }
}

fn container_port(name: &str, number: u16) -> ContainerPort {
    ContainerPort {
        name: Some(name.to_owned()),
        container_port: i32::from(number),
        protocol: Some("TCP".to_owned()),
        ..Default::default()
    }
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    fn pod_of(spec: &str) -> Pod {
        let desired = fixture::desired_of(spec).unwrap();
        let attempt = fixture::attempt(1);
        pod(&desired, &attempt, &desired.founders(&attempt)[0]).unwrap()
    }

    #[test]
    fn a_pod_is_as_written_down() {
        fixture::golden("pod-plain", &pod_of(r#"{"size": 3}"#));
        fixture::golden("pod-with-policy", &pod_of(fixture::EVERY_POLICY));
    }

    #[test]
    fn where_members_run_and_with_what_is_taken_from_the_spec() {
        let spec = pod_of(
            r#"{"size": 3, "pod": {"priorityClassName": "high", "imagePullSecrets": [{"name": "s"}],
                "imagePullPolicy": "Always", "topologySpreadConstraints": [
                    {"maxSkew": 2, "topologyKey": "rack", "whenUnsatisfiable": "DoNotSchedule"}]}}"#,
        )
        .spec
        .unwrap();
        assert_eq!(spec.priority_class_name.as_deref(), Some("high"));
        assert_eq!(spec.image_pull_secrets.unwrap()[0].name, "s");
        assert_eq!(spec.containers[0].image_pull_policy.as_deref(), Some("Always"));
        let [constraint] = &spec.topology_spread_constraints.unwrap()[..] else { panic!("not one") };
        assert_eq!((constraint.max_skew, constraint.topology_key.as_str()), (2, "rack"));
        assert!(
            constraint.label_selector.as_ref().unwrap().match_labels.is_some(),
            "of this cluster's members"
        );
    }

    #[test]
    fn no_annotation_or_label_of_a_user_takes_the_place_of_ours() {
        // Such a spec does not pass validation; this is the second line.
        let mut desired = fixture::desired();
        let theirs = |key: &str| Some(BTreeMap::from([(key.to_owned(), "theirs".to_owned())]));
        for key in
            [ANNOTATION_VERSION, ANNOTATION_INPUTS, ORDER_ANNOTATION, LABEL_MEMBER, api::names::LABEL_ATTEMPT]
        {
            (desired.pod.annotations, desired.pod.labels) = (theirs(key), theirs(key));
            let attempt = fixture::attempt(1);
            let pod = pod(&desired, &attempt, &desired.founders(&attempt)[0]).unwrap();
            let seen = observed::SeenPod::from_pod(&pod);
            assert_eq!(seen.attempt.as_deref(), Some(attempt.label().as_str()));
            assert_eq!(seen.inputs, Some(desired.inputs(desired.version)));
            assert!(matches!(seen.order, observed::OrderSeen::Order(_)));
        }
    }

    #[test]
    fn mounts_and_volumes_are_the_ones_that_the_launcher_expects() {
        assert!(launch::DATA_DIR.starts_with(&format!("{DATA_MOUNT}/")));
        assert!(LAUNCHER.starts_with(&format!("{LAUNCHER_DIR}/")));
        let spec = pod_of(r#"{"size": 1}"#).spec.unwrap();
        let volumes: Vec<String> = spec.volumes.unwrap().into_iter().map(|volume| volume.name).collect();
        let mounted = spec.containers[0].volume_mounts.clone().unwrap();
        assert!(mounted.iter().all(|mount| volumes.contains(&mount.name)) && mounted.len() == volumes.len());
    }
}
