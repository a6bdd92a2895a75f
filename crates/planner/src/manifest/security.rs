//! What a member's pod may do: nothing that the restricted Pod Security Standard forbids.

use api::PodPolicy;
use k8s_openapi::api::core::v1::{Capabilities, PodSecurityContext, SeccompProfile, SecurityContext};

/// The user of all containers. The images' own is root, which restricted namespaces refuse; the classic operator ran members
/// under this one.
const USER: i64 = 9000;

/// The pod's context: what the user asked for, and ours where nothing was asked.
pub(super) fn of_pod(policy: &PodPolicy) -> PodSecurityContext {
    let asked = policy.security_context.clone().unwrap_or_default();
    let user = asked.run_as_user.unwrap_or(USER);
    PodSecurityContext {
        run_as_user: Some(user),
        run_as_group: asked.run_as_group.or(Some(user)),
        // Who asks for root gets it, or an error from the namespace; the two together would never start.
        run_as_non_root: asked.run_as_non_root.or(Some(user != 0)),
        fs_group: asked.fs_group.or(Some(user)),
        fs_group_change_policy: asked
            .fs_group_change_policy
            .clone()
            .or_else(|| Some("OnRootMismatch".to_owned())),
        seccomp_profile: asked
            .seccomp_profile
            .clone()
            .or_else(|| Some(SeccompProfile { type_: "RuntimeDefault".to_owned(), ..Default::default() })),
        ..asked
    }
}

/// Each container's context.
pub(super) fn of_container() -> SecurityContext {
    SecurityContext {
        allow_privilege_escalation: Some(false),
        capabilities: Some(Capabilities { drop: Some(vec!["ALL".to_owned()]), ..Default::default() }),
        read_only_root_filesystem: Some(true),
        ..Default::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_asked_for_wins_and_the_rest_stays_restricted() {
        let policy = |context| PodPolicy { security_context: Some(context), ..Default::default() };
        let asked = of_pod(&policy(PodSecurityContext { run_as_user: Some(1000), ..Default::default() }));
        assert_eq!(
            (asked.run_as_user, asked.fs_group, asked.run_as_non_root),
            (Some(1000), Some(1000), Some(true))
        );
        assert_eq!(asked.seccomp_profile.unwrap().type_, "RuntimeDefault");
        let root = of_pod(&policy(PodSecurityContext { run_as_user: Some(0), ..Default::default() }));
        assert_eq!(root.run_as_non_root, Some(false));
    }
}
