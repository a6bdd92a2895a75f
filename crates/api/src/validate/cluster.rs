//! What users write, checked: the rules on an `EtcdCluster`.

use std::collections::BTreeMap;

use k8s_openapi::{
    api::core::v1::{EnvVar, EnvVarSource, PersistentVolumeClaimSpec, ResourceRequirements},
    apimachinery::pkg::api::resource::Quantity,
};

use super::Findings;
use crate::{
    EtcdCluster, grammar,
    names::{ANNOTATION_VERSION, LABEL_APP, MAX_CLUSTER_NAME_LENGTH, RESERVED_DOMAIN, RESERVED_LABEL_PREFIX},
    pod::PodPolicy,
    quantity, rules,
    tls::{StaticTls, TlsPolicy},
    version,
};

/// Variables of the operator's own, those of etcd that decide who a member is, where its data lies and whom it trusts, and those
/// of every Go program that lead its traffic elsewhere or switch checks off.
const RESERVED_ENV: &[&str] = &[
    "ETCD_NAME",
    "ETCD_DATA_DIR",
    "ETCD_WAL_DIR",
    "ETCD_CONFIG_FILE",
    "ETCD_STRICT_RECONFIG_CHECK",
    "ETCD_AUTO_TLS",
    "ETCD_HOST_WHITELIST",
    "ETCD_LOG_OUTPUT",
    "ETCD_LOG_OUTPUTS",
    "ETCD_LOGGER",
    "ETCD_FEATURE_GATES",
    "ETCD_EXPERIMENTAL_INITIAL_CORRUPT_CHECK",
    "ETCD_EXPERIMENTAL_COMPACT_HASH_CHECK_ENABLED",
    "ETCD_CIPHER_SUITES",
    "ETCD_ENABLE_PPROF",
    "GODEBUG",
    "GOTRACEBACK",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "ALL_PROXY",
    "NO_PROXY",
    "http_proxy",
    "https_proxy",
    "all_proxy",
    "no_proxy",
];
const RESERVED_ENV_PREFIXES: &[&str] = &[
    "LD_",
    "LAUNCH",
    "SSL_CERT_",
    "ETCD_FORCE_NEW_CLUSTER",
    "ETCD_UNSAFE_",
    "ETCD_INITIAL_ADVERTISE",
    "ETCD_INITIAL_CLUSTER",
    "ETCD_LISTEN_CLIENT_",
    "ETCD_LISTEN_PEER_",
    "ETCD_ADVERTISE_",
    "ETCD_DISCOVERY",
    "ETCD_PROXY",
    "ETCD_CERT_",
    "ETCD_KEY_",
    "ETCD_CA_",
    "ETCD_TRUSTED_",
    "ETCD_CLIENT_",
    "ETCD_PEER_",
    "ETCD_SELF_SIGNED",
    "ETCD_TLS_",
    "ETCD_EXPERIMENTAL_PEER_",
];

pub(super) fn check(object: &EtcdCluster, findings: &mut Findings) {
    let name = object.metadata.name.as_deref().unwrap_or_default();
    findings.check(name.len() <= MAX_CLUSTER_NAME_LENGTH, "", rules::CLUSTER_NAME_LENGTH);
    let well_named = grammar::is_service_name(name) || name.len() > MAX_CLUSTER_NAME_LENGTH;
    findings.check(well_named, "", rules::CLUSTER_NAME);

    let spec = &object.spec;
    findings.check(spec.size.is_some_and(|size| (1..=7).contains(&size)), "spec.size", rules::SIZE);
    findings.field(spec.repository.as_deref(), "spec.repository", rules::REPOSITORY, |text| {
        text.is_empty() || grammar::is_repository(text)
    });
    findings.field(spec.version.as_deref(), "spec.version", rules::VERSION, |text| {
        text.is_empty() || version::normalise(text).is_ok()
    });
    findings.check(spec.bootstrap().is_some(), "spec.bootstrap", rules::BOOTSTRAP);
    let grace = spec.member_replacement.as_ref().and_then(|replacement| replacement.grace_seconds);
    let path = "spec.memberReplacement.graceSeconds";
    findings.check(grace.is_none_or(|grace| (30..=86400).contains(&grace)), path, rules::GRACE_SECONDS);
    if let Some(pod) = &spec.pod {
        check_pod(pod, findings);
    }
    if let Some(tls) = &spec.tls {
        check_tls(tls, findings);
    }
    if let Some(birth) = object.status.as_ref().and_then(|status| status.birth.as_ref()) {
        findings.0.extend(super::birth(None, Some(birth)));
    }
}

fn check_pod(pod: &PodPolicy, findings: &mut Findings) {
    findings.field(pod.labels.as_ref(), "spec.pod.labels", rules::LABELS_RESERVED, |labels| {
        !labels.keys().any(|key| {
            key == LABEL_APP || key.starts_with(RESERVED_LABEL_PREFIX) || key.contains(RESERVED_DOMAIN)
        })
    });
    findings.field(pod.labels.as_ref(), "spec.pod.labels", rules::LABELS_VALID, are_labels);
    findings.field(
        pod.annotations.as_ref(),
        "spec.pod.annotations",
        rules::ANNOTATIONS_RESERVED,
        |annotations| {
            !annotations.keys().any(|key| key == ANNOTATION_VERSION || key.contains(RESERVED_DOMAIN))
        },
    );
    findings.field(
        pod.annotations.as_ref(),
        "spec.pod.annotations",
        rules::ANNOTATIONS_VALID,
        |annotations| annotations.keys().all(|key| is_annotation_key(key)),
    );
    findings.field(
        pod.annotations.as_ref(),
        "spec.pod.annotations",
        rules::ANNOTATIONS_SIZE,
        |annotations| {
            let characters = |text: &str| text.chars().count();
            annotations.iter().map(|(key, value)| characters(key) + characters(value)).sum::<usize>()
                <= 65_536
        },
    );
    findings.field(pod.node_selector.as_ref(), "spec.pod.nodeSelector", rules::NODE_SELECTOR, are_labels);
    if let Some(resources) = &pod.resources {
        check_resources(resources, findings);
    }
    let (class, policy) = (pod.priority_class_name.as_deref(), pod.image_pull_policy.as_deref());
    findings.field(class, "spec.pod.priorityClassName", rules::PRIORITY_CLASS, |text| {
        text.is_empty() || grammar::is_object_name(text)
    });
    findings.field(policy, "spec.pod.imagePullPolicy", rules::PULL_POLICY, |text| {
        matches!(text, "" | "Always" | "IfNotPresent" | "Never")
    });
    findings.field(pod.etcd_env.as_ref(), "spec.pod.etcdEnv", rules::ENV_NAMES, |env| {
        env.iter().all(|variable| grammar::is_env_name(&variable.name))
    });
    findings.field(pod.etcd_env.as_ref(), "spec.pod.etcdEnv", rules::ENV_RESERVED, |env| {
        !env.iter().any(is_reserved)
    });
    findings.field(pod.etcd_env.as_ref(), "spec.pod.etcdEnv", rules::ENV_SOURCES, |env| {
        env.iter().filter_map(|variable| variable.value_from.as_ref()).all(is_the_pods_own)
    });
    if let Some(claim) = &pod.persistent_volume_claim_spec {
        check_claim(claim, findings);
    }
    findings.field(pod.busybox_image.as_deref(), "spec.pod.busyboxImage", rules::BUSYBOX_IMAGE, |text| {
        text.is_empty() || grammar::is_image(text)
    });
    findings.field(
        pod.dns_timeout_in_second.as_ref(),
        "spec.pod.DNSTimeoutInSecond",
        rules::DNS_TIMEOUT,
        |time| *time >= 0,
    );
    findings.field(
        pod.cluster_domain.as_deref(),
        "spec.pod.ClusterDomain",
        rules::CLUSTER_DOMAIN,
        grammar::is_cluster_domain,
    );
}

fn are_labels(labels: &BTreeMap<String, String>) -> bool {
    labels.iter().all(|(key, value)| grammar::is_label_key(key) && grammar::is_label_value(value))
}

/// Kubernetes takes capital letters in the domain of an annotation's key, and in that of a label's not.
fn is_annotation_key(key: &str) -> bool {
    grammar::is_label_key(&key.to_ascii_lowercase())
}

fn is_reserved(variable: &EnvVar) -> bool {
    let name = variable.name.as_str();
    RESERVED_ENV.contains(&name) || RESERVED_ENV_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

/// Whether a variable's value comes from the pod itself. Every source is named, so that one that Kubernetes adds does not slip through.
fn is_the_pods_own(source: &EnvVarSource) -> bool {
    let EnvVarSource { field_ref, resource_field_ref, secret_key_ref, config_map_key_ref, file_key_ref } =
        source;
    (field_ref.is_some() || resource_field_ref.is_some())
        && secret_key_ref.is_none()
        && config_map_key_ref.is_none()
        && file_key_ref.is_none()
}

fn check_resources(resources: &ResourceRequirements, findings: &mut Findings) {
    let path = "spec.pod.resources";
    let empty = BTreeMap::new();
    let limits = resources.limits.as_ref().unwrap_or(&empty);
    let requests = resources.requests.as_ref().unwrap_or(&empty);
    let sizes = || limits.values().chain(requests.values()).map(quantity::nano);
    findings.check(sizes().all(|size| size.is_some()), path, rules::RESOURCES_QUANTITIES);
    findings.check(sizes().flatten().all(|size| size >= 0), path, rules::RESOURCES_NEGATIVE);
    let ordered = requests.iter().all(|(key, request)| {
        let limit = limits.get(key).and_then(quantity::nano);
        limit.zip(quantity::nano(request)).is_none_or(|(limit, request)| request <= limit)
    });
    findings.check(ordered, path, rules::RESOURCES_ORDER);
    let memory = limits.get("memory").and_then(quantity::nano);
    let enough =
        memory.is_none_or(|limit| limit <= 0 || Some(limit) >= quantity::nano(&Quantity("16Mi".to_owned())));
    findings.check(enough, path, rules::RESOURCES_MEMORY);
}

fn check_claim(claim: &PersistentVolumeClaimSpec, findings: &mut Findings) {
    let path = "spec.pod.persistentVolumeClaimSpec";
    let requests = claim.resources.as_ref().and_then(|resources| resources.requests.as_ref());
    let storage = requests.and_then(|requests| requests.get("storage")).and_then(quantity::nano);
    let enough = storage.is_some() && storage >= quantity::nano(&Quantity("1Mi".to_owned()));
    findings.check(enough, path, rules::CLAIM_STORAGE);
    let mode = claim.volume_mode.as_deref().unwrap_or_default();
    findings.check(mode.is_empty() || mode == "Filesystem", path, rules::CLAIM_MODE);
    let elsewhere = claim.data_source_ref.as_ref().and_then(|source| source.namespace.as_deref());
    findings.check(elsewhere.is_none_or(str::is_empty), path, rules::CLAIM_NAMESPACE);
}

fn check_tls(tls: &TlsPolicy, findings: &mut Findings) {
    let Some(StaticTls { member, operator_secret }) = tls.static_.as_ref() else {
        return;
    };
    let path = "spec.TLS.static";
    let (server, operator) = (tls.server_secret().is_some(), tls.operator_secret().is_some());
    findings.check(server || !operator, path, rules::TLS_SERVER_MISSING);
    findings.check(operator || !server, path, rules::TLS_OPERATOR_MISSING);
    let member = member.as_ref();
    let secrets = [
        ("spec.TLS.static.operatorSecret", operator_secret.as_ref()),
        ("spec.TLS.static.member.peerSecret", member.and_then(|member| member.peer_secret.as_ref())),
        ("spec.TLS.static.member.serverSecret", member.and_then(|member| member.server_secret.as_ref())),
    ];
    for (path, secret) in secrets {
        findings
            .field(secret, path, rules::SECRET_NAME, |name| name.is_empty() || grammar::is_object_name(name));
    }
}
