//! What a member's pod may do: nothing that the restricted Pod Security Standard forbids.

use api::PodPolicy;
use k8s_openapi::api::core::v1::{Capabilities, PodSecurityContext, SeccompProfile, SecurityContext};

use crate::desired::MemberUser;

/// The pod's context: what the user asked for, and ours where nothing was asked.
pub(super) fn of_pod(policy: &PodPolicy, member_user: MemberUser) -> PodSecurityContext {
    let asked = policy.security_context.clone().unwrap_or_default();
    let ours = match member_user {
        MemberUser::Fixed(user) => Some(user),
        MemberUser::Platform => None,
    };
    let user = asked.run_as_user.or(ours);
    PodSecurityContext {
        run_as_user: user,
        run_as_group: asked.run_as_group.or(user),
        // Who asks for root gets it, or an error from the namespace; the two together would never start.
        run_as_non_root: asked.run_as_non_root.or(Some(user != Some(0))),
        fs_group: asked.fs_group.or(user),
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
        let of = |user| {
            let context = PodSecurityContext { run_as_user: Some(user), ..Default::default() };
            let policy = PodPolicy { security_context: Some(context), ..Default::default() };
            of_pod(&policy, MemberUser::default())
        };
        let asked = of(1000);
        assert_eq!(
            (asked.run_as_user, asked.fs_group, asked.run_as_non_root),
            (Some(1000), Some(1000), Some(true))
        );
        assert_eq!(asked.seccomp_profile.unwrap().type_, "RuntimeDefault");
        assert_eq!(of(0).run_as_non_root, Some(false));
    }

    #[test]
    fn where_the_platform_chooses_the_user_nothing_is_fixed_but_what_was_asked_for() {
        let users =
            |context: &PodSecurityContext| (context.run_as_user, context.run_as_group, context.fs_group);
        let left = of_pod(&PodPolicy::default(), MemberUser::Platform);
        assert_eq!((users(&left), left.run_as_non_root), ((None, None, None), Some(true)));
        assert_eq!(left.seccomp_profile.unwrap().type_, "RuntimeDefault");
        let context = PodSecurityContext { fs_group: Some(7), ..Default::default() };
        let policy = PodPolicy { security_context: Some(context), ..Default::default() };
        assert_eq!(users(&of_pod(&policy, MemberUser::Platform)), (None, None, Some(7)));
        let fixed = of_pod(&PodPolicy::default(), MemberUser::Fixed(9000));
        assert_eq!(users(&fixed), (Some(9000), Some(9000), Some(9000)));
    }
}
