//! Beside the loop: the policy with which the API server keeps clusters that must not be deleted.

use api::protection::{ALLOWED, POLICY, REFUSAL};
use k8s_openapi::api::admissionregistration::v1::{
    MatchResources, NamedRuleWithOperations, ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding,
    ValidatingAdmissionPolicyBindingSpec, ValidatingAdmissionPolicySpec, Validation,
};

use super::install::named;

/// Refuses to delete a cluster whose spec says so.
pub(super) fn policy() -> ValidatingAdmissionPolicy {
    let owned = |word: &str| Some(vec![word.to_owned()]);
    let deletions = NamedRuleWithOperations {
        api_groups: owned(api::GROUP),
        api_versions: owned(api::VERSION),
        operations: owned("DELETE"),
        resources: owned("etcdclusters"),
        ..NamedRuleWithOperations::default()
    };
    let validation = Validation {
        expression: ALLOWED.to_owned(),
        message: Some(REFUSAL.to_owned()),
        ..Validation::default()
    };
    ValidatingAdmissionPolicy {
        metadata: named(POLICY),
        spec: Some(ValidatingAdmissionPolicySpec {
            failure_policy: Some("Fail".to_owned()),
            match_constraints: Some(MatchResources {
                resource_rules: Some(vec![deletions]),
                ..MatchResources::default()
            }),
            validations: Some(vec![validation]),
            ..ValidatingAdmissionPolicySpec::default()
        }),
        status: None,
    }
}

/// Puts it in force everywhere.
pub(super) fn binding() -> ValidatingAdmissionPolicyBinding {
    ValidatingAdmissionPolicyBinding {
        metadata: named(POLICY),
        spec: Some(ValidatingAdmissionPolicyBindingSpec {
            policy_name: Some(POLICY.to_owned()),
            validation_actions: Some(vec!["Deny".to_owned()]),
            ..ValidatingAdmissionPolicyBindingSpec::default()
        }),
    }
}
