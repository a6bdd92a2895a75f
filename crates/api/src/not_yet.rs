//! What users write, and what does nothing: fields that are part of the API and that this operator does not carry out, or not
//! yet. They are told in a condition instead of being ignored in silence. A row leaves the table when its field works.

use crate::{
    cluster::{EtcdCluster, EtcdClusterSpec},
    names,
};

/// A field that is set and does nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unhonoured {
    /// Where the field is, such as `spec.TLS`.
    pub path: &'static str,
    /// What does not happen.
    pub sentence: &'static str,
    /// Whether making a pod without it would be worse than making none.
    pub holds_pods: bool,
}

struct Row {
    path: &'static str,
    sentence: &'static str,
    holds_pods: bool,
    is_set: fn(&EtcdClusterSpec) -> bool,
}

/// The annotation that is set and does nothing.
const RESTARTED_AT: Unhonoured = Unhonoured {
    path: "metadata.annotations['etcd.database.coreos.com/restartedAt']",
    sentence: "members are not restarted on request yet",
    holds_pods: false,
};

const TABLE: &[Row] = &[
    Row {
        path: "spec.TLS",
        sentence: "TLS is not supported yet; no member is started in plain text where TLS was asked for",
        holds_pods: true,
        is_set: |spec| spec.tls.as_ref().is_some_and(super::tls::TlsPolicy::is_asked_for),
    },
    Row {
        path: "spec.pod.persistentVolumeClaimSpec",
        sentence: "claims are not supported yet; no member is started on a volume that dies with its pod where a claim was asked for",
        holds_pods: true,
        is_set: |spec| spec.pod.as_ref().is_some_and(|pod| pod.persistent_volume_claim_spec.is_some()),
    },
    Row {
        path: "spec.pod.busyboxImage",
        sentence: "the init container is the operator's own and runs no busybox",
        holds_pods: false,
        is_set: |spec| spec.pod.as_ref().is_some_and(super::pod::PodPolicy::chooses_busybox),
    },
    Row {
        path: "spec.pod.DNSTimeoutInSecond",
        sentence: "members wait for DNS only with TLS, which is not supported yet",
        holds_pods: false,
        is_set: |spec| spec.pod.as_ref().is_some_and(|pod| pod.dns_timeout_in_second.is_some_and(|t| t != 0)),
    },
];

/// What is set on this resource and does nothing.
#[must_use]
pub fn unhonoured(resource: &EtcdCluster) -> Vec<Unhonoured> {
    let asks_for_restart = resource
        .metadata
        .annotations
        .as_ref()
        .is_some_and(|annotations| annotations.contains_key(names::ANNOTATION_RESTARTED_AT));
    let fields = TABLE.iter().filter(|row| (row.is_set)(&resource.spec)).map(|row| Unhonoured {
        path: row.path,
        sentence: row.sentence,
        holds_pods: row.holds_pods,
    });
    fields.chain(asks_for_restart.then_some(RESTARTED_AT)).collect()
}

/// The fields as one text for a condition.
#[must_use]
pub fn as_text<'a>(fields: impl IntoIterator<Item = &'a Unhonoured>) -> String {
    let texts: Vec<String> =
        fields.into_iter().map(|field| format!("{}: {}", field.path, field.sentence)).collect();
    texts.join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(spec: serde_json::Value) -> Vec<(&'static str, bool)> {
        let spec: EtcdClusterSpec = serde_json::from_value(spec).unwrap();
        paths(&EtcdCluster::new("a", spec))
    }

    fn paths(resource: &EtcdCluster) -> Vec<(&'static str, bool)> {
        unhonoured(resource).into_iter().map(|field| (field.path, field.holds_pods)).collect()
    }

    #[test]
    fn a_restart_that_is_asked_for_is_told_to_do_nothing() {
        let mut resource = EtcdCluster::new("a", EtcdClusterSpec::default());
        let annotation = (names::ANNOTATION_RESTARTED_AT.to_owned(), "2026-01-01T00:00:00Z".to_owned());
        resource.metadata.annotations = Some([annotation].into());
        let [(path, holds_pods)] = paths(&resource)[..] else { panic!("not one") };
        assert!(path.contains(names::ANNOTATION_RESTARTED_AT) && !holds_pods, "{path}");
    }

    #[test]
    fn only_fields_that_someone_set_are_told() {
        use serde_json::json;
        let table = [
            (json!({"size": 3}), vec![]),
            (json!({"size": 3, "TLS": {}, "pod": {"ClusterDomain": "", "resources": {}}}), vec![]),
            (json!({"TLS": {"static": {"member": {"peerSecret": "p"}}}}), vec![("spec.TLS", true)]),
            (
                json!({"pod": {"persistentVolumeClaimSpec": {}}}),
                vec![("spec.pod.persistentVolumeClaimSpec", true)],
            ),
            (json!({"pod": {"busyboxImage": "busybox:1.28.0-glibc", "DNSTimeoutInSecond": 0}}), vec![]),
            (
                json!({"pod": {"busyboxImage": "mirror/busybox:1", "DNSTimeoutInSecond": 5}}),
                vec![("spec.pod.busyboxImage", false), ("spec.pod.DNSTimeoutInSecond", false)],
            ),
        ];
        for (spec, expected) in table {
            assert_eq!(of(spec.clone()), expected, "{spec}");
        }
    }
}
