//! Beside the loop: how the operator is installed, in the book's files, in the classic script, and in one file.

use std::collections::BTreeMap;

use anyhow::Result;
use api::names::operator_labels;
use k8s_openapi::{
    api::{
        apps::v1::{Deployment, DeploymentSpec},
        core::v1::{
            Capabilities, Container, ContainerPort, EnvVar, EnvVarSource, HTTPGetAction, ObjectFieldSelector,
            PodSpec, PodTemplateSpec, Probe, ResourceRequirements, SeccompProfile, SecurityContext,
            ServiceAccount,
        },
        rbac::v1::{PolicyRule, Role, RoleBinding, RoleRef, Subject},
        scheduling::v1::PriorityClass,
    },
    apimachinery::pkg::{
        api::resource::Quantity,
        apis::meta::v1::{LabelSelector, ObjectMeta},
        util::intstr::IntOrString,
    },
};
use operator::rbac::{RULES, Rule, Used};
use serde_json::Value;

use super::{protection, yaml};
use crate::image;

const OPERATOR: &str = "etcd-operator";
const ACCOUNT: &str = "etcd-operator-sa";
const ROLE: &str = "etcd-operator-role";

/// The operator's account.
pub(super) fn account() -> ServiceAccount {
    ServiceAccount { metadata: named(ACCOUNT), ..ServiceAccount::default() }
}

/// What the operator may do in its namespace: exactly what it does.
pub(super) fn role() -> Role {
    Role { metadata: named(ROLE), rules: Some(policy(|rule| rule.used == Used::Always)) }
}

/// Gives the account the role. The namespace is the book's; whoever works in another one changes it, as the book says.
pub(super) fn role_binding() -> RoleBinding {
    RoleBinding {
        metadata: named("etcd-operator-rolebinding"),
        role_ref: RoleRef {
            api_group: "rbac.authorization.k8s.io".to_owned(),
            kind: "Role".to_owned(),
            name: ROLE.to_owned(),
        },
        subjects: Some(vec![Subject {
            kind: "ServiceAccount".to_owned(),
            name: ACCOUNT.to_owned(),
            namespace: Some("default".to_owned()),
            ..Subject::default()
        }]),
    }
}

/// The book's Deployment: CRDs are made by hand, and it has an account of its own.
pub(super) fn deployment() -> Deployment {
    let mut deployment = plain_deployment();
    deployment.metadata.labels.get_or_insert_default().extend(labels("etcdoperator"));
    if let Some(pod) = deployment.spec.as_mut().and_then(|spec| spec.template.spec.as_mut()) {
        pod.service_account_name = Some(ACCOUNT.to_owned());
        for container in &mut pod.containers {
            container.command = Some(vec![OPERATOR.to_owned(), "--create-crd=false".to_owned()]);
        }
    }
    deployment
}

/// The classic Deployment: it makes the CRDs itself, with the namespace's default account.
pub(super) fn plain_deployment() -> Deployment {
    Deployment {
        metadata: named(OPERATOR),
        spec: Some(DeploymentSpec {
            replicas: Some(1),
            selector: LabelSelector { match_labels: Some(labels(OPERATOR)), ..LabelSelector::default() },
            template: PodTemplateSpec {
                metadata: Some(pod_metadata()),
                spec: Some(PodSpec { containers: vec![container()], ..PodSpec::default() }),
            },
            ..DeploymentSpec::default()
        }),
        status: None,
    }
}

/// The labels of the operator's pod: the classic one, which the Deployment selects by, and those that are recommended.
fn pod_metadata() -> ObjectMeta {
    let all = labels(OPERATOR).into_iter().chain(operator_labels());
    ObjectMeta { labels: Some(all.collect()), ..ObjectMeta::default() }
}

fn container() -> Container {
    let probe = |path: &str| {
        let ask = HTTPGetAction {
            path: Some(path.to_owned()),
            port: IntOrString::String("http".to_owned()),
            ..HTTPGetAction::default()
        };
        Some(Probe { http_get: Some(ask), period_seconds: Some(3), ..Probe::default() })
    };
    Container {
        name: OPERATOR.to_owned(),
        image: Some(image::NAME.to_owned()),
        image_pull_policy: Some("IfNotPresent".to_owned()),
        command: Some(vec![OPERATOR.to_owned()]),
        env: Some(vec![
            own_field("MY_POD_NAMESPACE", "metadata.namespace"),
            own_field("MY_POD_NAME", "metadata.name"),
        ]),
        ports: Some(vec![ContainerPort {
            name: Some("http".to_owned()),
            container_port: 8080,
            ..ContainerPort::default()
        }]),
        readiness_probe: probe("/readyz"),
        liveness_probe: probe("/healthz").map(|probe| Probe {
            failure_threshold: Some(10),
            timeout_seconds: Some(10),
            ..probe
        }),
        resources: Some(resources()),
        security_context: Some(SecurityContext {
            allow_privilege_escalation: Some(false),
            capabilities: Some(Capabilities { drop: Some(vec!["ALL".to_owned()]), add: None }),
            read_only_root_filesystem: Some(true),
            run_as_non_root: Some(true),
            seccomp_profile: Some(SeccompProfile {
                type_: "RuntimeDefault".to_owned(),
                ..SeccompProfile::default()
            }),
            ..SecurityContext::default()
        }),
        ..Container::default()
    }
}

/// What is asked for is what it needs: a pod that asks for nothing is the first that a node without memory ends. Fifty clusters take 32 MiB,
/// and the limit is eight times that. There is none for the processor: who is throttled renews no Lease.
fn resources() -> ResourceRequirements {
    let quantities = |all: &[(&str, &str)]| {
        let each = all.iter().map(|(what, much)| ((*what).to_owned(), Quantity((*much).to_owned())));
        Some(each.collect::<BTreeMap<_, _>>())
    };
    ResourceRequirements {
        requests: quantities(&[("cpu", "50m"), ("memory", "64Mi")]),
        limits: quantities(&[("memory", "256Mi")]),
        ..ResourceRequirements::default()
    }
}

/// Above all pods that nobody gave a class, so that who heals the others finds a place first; below those that the cluster itself needs.
/// The files of the tutorials do without it: a Deployment that names a class which is not there makes no pod.
fn priority() -> PriorityClass {
    PriorityClass {
        metadata: named(OPERATOR),
        value: 1_000_000,
        description: Some("Operators that keep databases running.".to_owned()),
        ..PriorityClass::default()
    }
}

fn own_field(name: &str, path: &str) -> EnvVar {
    let field = ObjectFieldSelector { field_path: path.to_owned(), ..ObjectFieldSelector::default() };
    EnvVar {
        name: name.to_owned(),
        value_from: Some(EnvVarSource { field_ref: Some(field), ..EnvVarSource::default() }),
        ..EnvVar::default()
    }
}

/// Everything in one file, for the namespace `default`.
pub(super) fn everything() -> Result<String> {
    let mut objects: Vec<Value> = Vec::new();
    for crd in api::crd::all() {
        objects.push(serde_json::to_value(crd)?);
    }
    for role in super::roles::for_users() {
        objects.push(serde_json::to_value(role)?);
    }
    objects.push(serde_json::to_value(protection::policy())?);
    objects.push(serde_json::to_value(protection::binding())?);
    objects.push(serde_json::to_value(account())?);
    objects.push(serde_json::to_value(role())?);
    objects.push(serde_json::to_value(role_binding())?);
    objects.push(serde_json::to_value(priority())?);
    let mut deployment = deployment();
    if let Some(pod) = deployment.spec.as_mut().and_then(|spec| spec.template.spec.as_mut()) {
        pod.priority_class_name = Some(OPERATOR.to_owned());
    }
    objects.push(serde_json::to_value(deployment)?);
    yaml::documents(&objects)
}

/// The classic script, with its flags: a cluster role and its binding for the namespace's default account.
pub(super) fn create_role_script() -> Result<String> {
    let rules = yaml::fragment(&policy(|_| true))?;
    Ok(format!(
        r#"#!/usr/bin/env bash
# Generated from the operator's rules by `cargo xtask generate`. Do not edit.
# Lets the operator do its work with the default account of a namespace, and make its CRDs.
set -o errexit -o nounset -o pipefail

ROLE_NAME="${{ROLE_NAME:-etcd-operator}}"
ROLE_BINDING_NAME="${{ROLE_BINDING_NAME:-etcd-operator}}"
NAMESPACE="${{NAMESPACE:-default}}"

usage() {{
  echo "usage: $0 [--role-name=NAME] [--role-binding-name=NAME] [--namespace=NAMESPACE]"
  echo "The same can be said in ROLE_NAME, ROLE_BINDING_NAME and NAMESPACE."
}}

for argument in "$@"; do
  case "$argument" in
    --role-name=?*) ROLE_NAME="${{argument#*=}}" ;;
    --role-binding-name=?*) ROLE_BINDING_NAME="${{argument#*=}}" ;;
    --namespace=?*) NAMESPACE="${{argument#*=}}" ;;
    -h | --help) usage; exit 0 ;;
    *) echo "unknown argument: $argument" >&2; usage >&2; exit 2 ;;
  esac
done

# create fails where the name is in use: a role of somebody else is not taken over.
kubectl create -f - <<ROLE
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: ${{ROLE_NAME}}
rules:
{rules}ROLE

kubectl create -f - <<BINDING
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata:
  name: ${{ROLE_BINDING_NAME}}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: ClusterRole
  name: ${{ROLE_NAME}}
subjects:
- kind: ServiceAccount
  name: default
  namespace: ${{NAMESPACE}}
BINDING
"#
    ))
}

fn policy(wanted: impl Fn(&Rule) -> bool) -> Vec<PolicyRule> {
    let owned = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect::<Vec<_>>();
    RULES
        .iter()
        .filter(|rule| wanted(rule))
        .map(|rule| PolicyRule {
            api_groups: Some(vec![rule.group.to_owned()]),
            resources: Some(owned(rule.resources)),
            resource_names: Some(owned(rule.names)).filter(|names| !names.is_empty()),
            verbs: owned(rule.verbs),
            ..PolicyRule::default()
        })
        .collect()
}

/// A name, and the labels that Kubernetes recommends: what is installed with the operator is found by them.
pub(super) fn named(name: &str) -> ObjectMeta {
    ObjectMeta { name: Some(name.to_owned()), labels: Some(operator_labels()), ..ObjectMeta::default() }
}

fn labels(name: &str) -> BTreeMap<String, String> {
    BTreeMap::from([("name".to_owned(), name.to_owned())])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_operator_asks_for_what_it_needs_and_names_a_priority_only_where_that_is_installed_with_it() {
        for deployment in [plain_deployment(), deployment()] {
            let pod = deployment.spec.and_then(|spec| spec.template.spec).unwrap_or_default();
            assert_eq!(pod.priority_class_name, None);
            for container in pod.containers {
                let resources = container.resources.unwrap_or_default();
                assert!(resources.requests.is_some_and(|asked| asked.contains_key("memory")));
                assert!(resources.limits.is_some_and(|limits| !limits.contains_key("cpu")));
            }
        }
        let all = everything().unwrap_or_default();
        assert!(all.contains("kind: PriorityClass") && all.contains("priorityClassName: etcd-operator"));
    }

    #[test]
    fn the_namespaced_role_names_its_lease_and_has_nothing_of_the_cluster_wide_one() {
        let role = yaml::fragment(&role().rules).unwrap_or_default();
        assert!(role.contains("resourceNames:\n  - etcd-operator\n"), "{role}");
        assert!(!role.contains("cluster-wide") && !role.contains("customresourcedefinitions"), "{role}");
        let script = create_role_script().unwrap_or_default();
        assert!(script.contains("- etcd-operator-cluster-wide\n"), "{script}");
    }
}
