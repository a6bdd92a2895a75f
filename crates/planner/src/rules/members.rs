//! What each member waits for is said, in a sentence with the pod's name: what somebody has to put right before what passes by itself.

use api::Reason;

use super::{Decision, Flow, Situation};
use crate::{
    Waiting,
    observed::{ContainerState, ETCD, PodPhase, SeenContainer, SeenMember, SeenPod},
};

pub(super) fn ask(situation: &Situation<'_>, decision: &mut Decision) -> Flow {
    for pod in situation.view.current() {
        if let Some(waiting) = waiting_of(pod).or_else(|| unheard(situation, pod)) {
            decision.wait(waiting);
        }
    }
    let view = &situation.view;
    if view.birth.is_some() && !view.is_formed() && decision.waiting.is_empty() && decision.act.is_empty() {
        let ready = view.current().filter(|pod| pod.is_ready()).count();
        decision.wait(Waiting::passing(Reason::Forming { ready, size: situation.desired.size }));
    }
    Flow::Next
}

/// A member that Kubernetes finds ready and that does not answer us.
fn unheard(situation: &Situation<'_>, pod: &SeenPod) -> Option<Waiting> {
    let why = match situation.observed.members.iter().find(|(name, _)| name.as_str() == pod.name) {
        Some((_, SeenMember::Known(answer))) if answer.linearizable => return None,
        Some((_, SeenMember::Known(_))) => "it cannot read through a quorum",
        Some((_, SeenMember::Unknown { why, .. })) => why,
        None => "it was not asked",
    };
    let message = format!("{} is ready, but {why}", pod.name);
    Some(Waiting::passing(Reason::MembersUnknown { message }))
}

/// What this pod waits for; nothing if it is ready.
pub(crate) fn waiting_of(pod: &SeenPod) -> Option<Waiting> {
    let name = || pod.name.clone();
    if pod.deleting {
        return Some(Waiting::passing(Reason::WaitingForPodGone { pod: name() }));
    }
    if pod.is_ready() {
        return None;
    }
    if let Some(refused) = pod.refusal() {
        return Some(Waiting::blocked(Reason::LauncherRefused { pod: name(), message: refused.sentence }));
    }
    if let Some(reason) = pod.containers.iter().find_map(|container| trouble(pod, container)) {
        return Some(Waiting::blocked(reason));
    }
    if let Some(message) = pod.unschedulable.clone() {
        return Some(Waiting::blocked(Reason::WaitingForPodScheduled { pod: name(), message }));
    }
    Some(Waiting::passing(match pod.phase {
        PodPhase::Running => Reason::WaitingForPodReady { pod: name() },
        _ => Reason::WaitingForPodStarted { pod: name() },
    }))
}

/// What keeps a container from running, if it is more than time.
fn trouble(pod: &SeenPod, container: &SeenContainer) -> Option<Reason> {
    let ContainerState::Waiting { reason, message } = &container.state else { return None };
    let said = || if message.is_empty() { reason.clone() } else { message.clone() };
    let pod = pod.name.clone();
    match reason.as_str() {
        "ErrImagePull"
        | "ImagePullBackOff"
        | "InvalidImageName"
        | "ErrImageNeverPull"
        | "ImageInspectError"
        | "RegistryUnavailable" => {
            Some(Reason::ImagePullFailing { pod, image: container.image.clone(), message: said() })
        }
        "CrashLoopBackOff" if container.name != ETCD => {
            Some(Reason::ContainerConfigFailing { pod, message: format!("{}: {}", container.name, said()) })
        }
        "CrashLoopBackOff" => {
            let end = container.last_end.as_ref();
            let message = end.map_or_else(said, |end| {
                format!("{} (exit code {}) {}", end.reason, end.exit_code, end.message).trim_end().to_owned()
            });
            Some(Reason::MemberCrashing { pod, message })
        }
        "CreateContainerConfigError"
        | "CreateContainerError"
        | "RunContainerError"
        | "PreCreateHookError"
        | "PreStartHookError"
        | "PostStartHookError" => Some(Reason::ContainerConfigFailing { pod, message: said() }),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use crate::{
        SeenPod,
        fixture::{World, container, ended, waiting},
        observed::{ContainerState, PodPhase},
    };

    type Change = fn(&mut SeenPod);

    #[test]
    fn each_trouble_has_its_reason_and_names_the_pod() {
        let table: [(Change, &str, &str); 9] = [
            (|_| (), "WaitingForPodStarted", ""),
            (|pod| pod.phase = PodPhase::Running, "WaitingForPodReady", ""),
            (
                |pod| pod.unschedulable = Some("0/3 nodes are available".to_owned()),
                "WaitingForPodScheduled",
                "0/3 nodes",
            ),
            (
                |pod| pod.containers = vec![container(waiting("ImagePullBackOff", "manifest unknown"))],
                "ImagePullFailing",
                "manifest unknown",
            ),
            (
                |pod| pod.containers = vec![container(waiting("ErrImagePull", ""))],
                "ImagePullFailing",
                "ErrImagePull",
            ),
            (
                |pod| {
                    pod.containers =
                        vec![container(waiting("CreateContainerConfigError", "secret not found"))];
                },
                "ContainerConfigFailing",
                "secret not found",
            ),
            (
                |pod| {
                    let mut etcd = container(waiting("CrashLoopBackOff", "back-off"));
                    etcd.last_end = Some(ended("panic: tocommit"));
                    pod.containers = vec![etcd];
                },
                "MemberCrashing",
                "panic: tocommit",
            ),
            (
                |pod| {
                    let mut etcd = container(waiting("CrashLoopBackOff", "back-off"));
                    etcd.last_end = Some(ended(&launch::Refusal::OrderMissing.to_termination_message()));
                    pod.containers = vec![etcd];
                },
                "LauncherRefused",
                "",
            ),
            (|pod| pod.containers = vec![container(ContainerState::Running)], "WaitingForPodStarted", ""),
        ];
        for (change, word, text) in table {
            let mut world = World::forming();
            change(world.pod(1));
            let name = world.pod(1).name.clone();
            let plan = world.plan();
            let mine =
                plan.waiting.iter().find(|waiting| waiting.reason.to_string().contains(&name)).unwrap();
            assert_eq!(mine.reason.as_str(), word);
            assert!(mine.reason.to_string().contains(text), "{}", mine.reason);
        }
    }

    #[test]
    fn what_somebody_has_to_put_right_comes_first() {
        let mut world = World::forming();
        world.pod(2).unschedulable = Some("0/3 nodes".to_owned());
        assert_eq!(world.waits()[0], "WaitingForPodScheduled");
    }

    #[test]
    fn nothing_is_said_of_members_that_serve() {
        assert_eq!(World::formed().waits(), [""; 0]);
    }
}
