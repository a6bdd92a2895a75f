//! What a pod was made from: a recorded list of digests, one for each part of the user's inputs that is changed by a means of its own.
//!
//! The record is written into the pod's annotation when the pod is made or changed. It speaks of what users ask for, never of our own
//! builders: upgrading the operator must not touch anybody's members. A part that a later release adds is, for an older record, as if
//! nobody had asked for anything: nobody could have.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use api::{PodPolicy, quantity};
use k8s_openapi::{api::core::v1::ResourceRequirements, apimachinery::pkg::api::resource::Quantity};
use launch::EtcdVersion;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::digest;

/// The form of the record that this release writes.
const FORMAT: u32 = 1;
/// How long a digest is.
const DIGEST: usize = 16;

/// A part of a user's inputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Facet {
    /// The image: repository and version.
    Image,
    /// What etcd is started with: its environment.
    Launch,
    /// Labels and annotations.
    Metadata,
    /// CPU and memory.
    Resources,
    /// The taints that members put up with.
    Tolerations,
    /// Where members run: node selector, affinity, spread.
    Placement,
    /// How images are pulled.
    Pull,
    /// What a pod cannot change: security context, priority class, DNS domain.
    Pod,
}

impl fmt::Display for Facet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Image => "image",
            Self::Launch => "environment",
            Self::Metadata => "labels and annotations",
            Self::Resources => "resources",
            Self::Tolerations => "tolerations",
            Self::Placement => "placement",
            Self::Pull => "pull settings",
            Self::Pod => "pod settings",
        })
    }
}

/// What the user asks for, as far as a pod is made from it: what records are compared with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inputs {
    repository: String,
    /// The digest of each part, the image apart, which depends on the version.
    policy: BTreeMap<Facet, String>,
    /// The keys of the labels that are asked for: what has to go when they are asked for no more.
    labels: BTreeSet<String>,
    /// The keys of the annotations, likewise.
    annotations: BTreeSet<String>,
    /// The policy as releases before this one took it into their one digest.
    before_facets: String,
}

/// A record, as it stands in an annotation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Record {
    format: u32,
    /// The digest of each part; none where it is not known what the pod was made from.
    facets: BTreeMap<String, Option<String>>,
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    labels: BTreeSet<String>,
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    annotations: BTreeSet<String>,
}

impl Inputs {
    /// The inputs of a spec for this cluster.
    #[must_use]
    pub(crate) fn of(cluster: &str, repository: &str, policy: &PodPolicy) -> Self {
        let keys = |pairs: &Option<BTreeMap<String, String>>| {
            pairs.iter().flatten().map(|(key, _)| key.clone()).collect()
        };
        let before = PodPolicy { busybox_image: None, dns_timeout_in_second: None, ..policy.clone() };
        Self {
            repository: repository.to_owned(),
            policy: parts(cluster, policy)
                .into_iter()
                .map(|(facet, part)| (facet, digest_of(facet, &part)))
                .collect(),
            labels: keys(&policy.labels),
            annotations: keys(&policy.annotations),
            // A policy came from JSON, so it goes back into it; were that ever to fail, all policies would count as one.
            before_facets: serde_json::to_string(&before).unwrap_or_default(),
        }
    }

    /// The record of a pod that is made from these with this version.
    #[must_use]
    pub(crate) fn record(&self, version: EtcdVersion) -> String {
        let facets = self.digests(version).map(|(facet, digest)| (name_of(facet), Some(digest))).collect();
        let (labels, annotations) = (self.labels.clone(), self.annotations.clone());
        Record { format: FORMAT, facets, labels, annotations }.to_annotation()
    }

    /// The record of a pod whose image becomes that of this version. All else of it stays what it was made from. `made` is the version
    /// that it was made with or changed to before.
    #[must_use]
    pub(crate) fn record_with_image(
        &self,
        recorded: Option<&str>,
        made: EtcdVersion,
        version: EtcdVersion,
    ) -> String {
        let differs = self.differences(recorded, Some(made), made);
        let mut record = recorded.and_then(Record::read).unwrap_or_else(|| {
            let known = |facet: Facet, digest: String| Some(digest).filter(|_| !differs.contains(&facet));
            let facets = self.digests(made).map(|(facet, digest)| (name_of(facet), known(facet, digest)));
            Record {
                format: FORMAT,
                facets: facets.collect(),
                labels: BTreeSet::new(),
                annotations: BTreeSet::new(),
            }
        });
        record.facets.insert(name_of(Facet::Image), Some(self.image(version)));
        record.to_annotation()
    }

    /// In which parts a pod with this record is not as it would be made now, with this version. `made` is the version that it was made
    /// with or changed to.
    #[must_use]
    pub(crate) fn differences(
        &self,
        recorded: Option<&str>,
        made: Option<EtcdVersion>,
        version: EtcdVersion,
    ) -> BTreeSet<Facet> {
        let Some(record) = recorded.and_then(Record::read) else {
            // One digest for all does not tell which part is another one; but the version that went into it is known.
            return match made.filter(|made| recorded == Some(self.before_facets(*made).as_str())) {
                Some(made) if made == version => BTreeSet::new(),
                Some(_) => BTreeSet::from([Facet::Image]),
                None => self.digests(version).map(|(facet, _)| facet).collect(),
            };
        };
        let is_other = |facet: Facet, digest: &str| match record.facets.get(&name_of(facet)) {
            Some(recorded) => recorded.as_deref() != Some(digest),
            None => digest != nothing_asked(facet),
        };
        self.digests(version)
            .filter(|(facet, digest)| is_other(*facet, digest))
            .map(|(facet, _)| facet)
            .collect()
    }

    fn digests(&self, version: EtcdVersion) -> impl Iterator<Item = (Facet, String)> {
        let policy = self.policy.iter().map(|(facet, digest)| (*facet, digest.clone()));
        [(Facet::Image, self.image(version))].into_iter().chain(policy)
    }

    fn image(&self, version: EtcdVersion) -> String {
        digest_of(Facet::Image, &json!([self.repository, version.to_string()]))
    }

    /// The one digest that releases before this one recorded. Their pods are still there.
    fn before_facets(&self, version: EtcdVersion) -> String {
        digest::short(&["inputs", &version.to_string(), &self.repository, &self.before_facets], DIGEST)
    }
}

impl Record {
    /// The record in an annotation, if one stands there. A later form is read as far as this release knows its parts.
    fn read(text: &str) -> Option<Self> {
        serde_json::from_str(text).ok()
    }

    fn to_annotation(&self) -> String {
        // Maps of text go into JSON; were that ever to fail, the pod would count as made from something unknown.
        serde_json::to_string(self).unwrap_or_default()
    }
}

fn name_of(facet: Facet) -> String {
    serde_json::to_value(facet).ok().and_then(|name| name.as_str().map(str::to_owned)).unwrap_or_default()
}

fn digest_of(facet: Facet, part: &Value) -> String {
    digest::short(&["facet", &name_of(facet), &canonical(part)], DIGEST)
}

/// The digest of a part in which nobody asked for anything.
fn nothing_asked(facet: Facet) -> String {
    parts("", &PodPolicy::default())
        .into_iter()
        .find(|(other, _)| *other == facet)
        .map(|(facet, part)| digest_of(facet, &part))
        .unwrap_or_default()
}

/// The parts of a policy. Two spellings of one wish are one part: what is empty is as if it were not there, and `1000m` is 1.
fn parts(cluster: &str, policy: &PodPolicy) -> Vec<(Facet, Value)> {
    vec![
        (Facet::Launch, json!({"env": policy.etcd_env})),
        (Facet::Metadata, json!({"labels": policy.labels, "annotations": policy.annotations})),
        (Facet::Resources, resources(policy.resources.as_ref())),
        (Facet::Tolerations, json!({"tolerations": policy.tolerations})),
        (
            Facet::Placement,
            json!({
                "nodeSelector": policy.node_selector,
                "affinity": policy.affinity_for(cluster),
                "spread": policy.topology_spread_constraints,
            }),
        ),
        (Facet::Pull, json!({"policy": policy.image_pull_policy, "secrets": policy.image_pull_secrets})),
        (
            Facet::Pod,
            json!({
                "security": policy.security_context,
                "priority": policy.priority_class_name,
                "domain": policy.cluster_domain,
            }),
        ),
    ]
}

fn resources(asked: Option<&ResourceRequirements>) -> Value {
    let amounts = |amounts: &Option<BTreeMap<String, Quantity>>| {
        let amounts = amounts.iter().flatten();
        amounts
            .map(|(name, amount)| (name.clone(), Value::from(quantity::normalised(amount))))
            .collect::<serde_json::Map<_, _>>()
    };
    json!({
        "limits": asked.map(|asked| amounts(&asked.limits)),
        "requests": asked.map(|asked| amounts(&asked.requests)),
        "claims": asked.map(|asked| &asked.claims),
    })
}

/// One text for all ways to write the same: keys in order, and nothing that is empty.
fn canonical(value: &Value) -> String {
    pruned(value).map(|value| sorted(&value)).unwrap_or_default()
}

fn pruned(value: &Value) -> Option<Value> {
    match value {
        Value::Null => None,
        Value::String(text) => (!text.is_empty()).then(|| value.clone()),
        Value::Array(items) => {
            // A place in a list means something, also that of an empty entry.
            let items: Vec<Value> = items.iter().map(|item| pruned(item).unwrap_or(Value::Null)).collect();
            (!items.is_empty()).then_some(Value::Array(items))
        }
        Value::Object(fields) => {
            let fields: serde_json::Map<_, _> =
                fields.iter().filter_map(|(key, value)| Some((key.clone(), pruned(value)?))).collect();
            (!fields.is_empty()).then_some(Value::Object(fields))
        }
        Value::Bool(_) | Value::Number(_) => Some(value.clone()),
    }
}

fn sorted(value: &Value) -> String {
    match value {
        Value::Array(items) => format!("[{}]", items.iter().map(sorted).collect::<Vec<_>>().join(",")),
        Value::Object(fields) => {
            let fields: BTreeMap<_, _> = fields.iter().collect();
            let fields: Vec<String> = fields
                .into_iter()
                .map(|(key, value)| format!("{}:{}", Value::from(key.as_str()), sorted(value)))
                .collect();
            format!("{{{}}}", fields.join(","))
        }
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Desired, fixture};

    const VERSION: &str = "3.6.14";

    fn version(text: &str) -> EtcdVersion {
        text.parse().unwrap()
    }

    fn inputs(spec: &str) -> Inputs {
        fixture::desired_of(spec).unwrap().inputs
    }

    fn changed(from: &str, to: &str) -> Vec<Facet> {
        let record = inputs(from).record(version(VERSION));
        inputs(to).differences(Some(&record), None, version(VERSION)).into_iter().collect()
    }

    /// A change of these literals rolls every member of every cluster.
    #[test]
    fn what_is_recorded_never_changes() {
        let record = |spec: &str, at: &str| inputs(spec).record(version(at));
        assert_eq!(record(r#"{"size": 3}"#, VERSION), PLAIN);
        assert_eq!(record(fixture::EVERY_POLICY, "3.5.33"), EVERY_POLICY);
    }

    const PLAIN: &str = r#"{"format":1,"facets":{"image":"48966l7rz4xnsjqx","launch":"8ffs8lbtsk8flzdl","metadata":"sjnfhb58nfhcrv2b","placement":"gd8fs8r8wqrx2knr","pod":"8hnvsc7hmrds45f6","pull":"ldxwf2j67cgmpnv4","resources":"cgvlsqpxrv7p9bbc","tolerations":"ddzktgx9pvsp2gf6"}}"#;
    const EVERY_POLICY: &str = r#"{"format":1,"facets":{"image":"8fjqtmwtw87gfrq8","launch":"pkd76ctc8hmtkgpb","metadata":"blq7pv9cpg2xzpzv","placement":"8hnxlwpgdnjmnmlm","pod":"k4qmzwbmlvg5qzqr","pull":"ldxwf2j67cgmpnv4","resources":"f2hh74mj6rfqgfhv","tolerations":"p5f5bhtwb649f8wj"},"labels":["team"],"annotations":["note"]}"#;

    /// As the first release with a digest wrote it, into pods that still run.
    #[test]
    fn the_one_digest_of_before_is_still_understood() {
        let plain = inputs(r#"{"size": 3}"#);
        let (now, later) = (version(VERSION), version("3.7.1"));
        let digest = plain.before_facets(now);
        assert_eq!(digest, BEFORE_PLAIN);
        assert_eq!(inputs(fixture::EVERY_POLICY).before_facets(version("3.5.33")), BEFORE_EVERY_POLICY);
        assert_eq!(plain.differences(Some(&digest), Some(now), now), BTreeSet::new());
        assert_eq!(plain.differences(Some(&digest), Some(now), later), BTreeSet::from([Facet::Image]));
        assert_eq!(
            plain.differences(Some(&digest), None, now).len(),
            8,
            "the version that went into it is not known"
        );
        let upgraded = plain.record_with_image(Some(&digest), now, later);
        assert_eq!(
            plain.differences(Some(&upgraded), None, later),
            BTreeSet::new(),
            "that version was the only difference"
        );
        let other = inputs(r#"{"size": 3, "pod": {"labels": {"a": "b"}}}"#);
        let upgraded = other.record_with_image(Some(&digest), now, later);
        let unknown = other.differences(Some(&upgraded), None, later);
        assert_eq!(
            (unknown.len(), unknown.contains(&Facet::Image)),
            (7, false),
            "which of the others is not known"
        );
    }

    const BEFORE_PLAIN: &str = "49qvhvcrnhhtqsb2";
    const BEFORE_EVERY_POLICY: &str = "b655r856w96ggs6p";

    #[test]
    fn each_field_of_the_spec_is_in_the_part_that_is_changed_by_its_own_means() {
        let plain = r#"{"size": 3}"#;
        let table = [
            (r#"{"size": 1, "paused": true, "bootstrap": "Seed"}"#, vec![]),
            (r#"{"size": 3, "repository": "mirror/etcd"}"#, vec![Facet::Image]),
            (r#"{"size": 3, "pod": {"labels": {"a": "b"}}}"#, vec![Facet::Metadata]),
            (r#"{"size": 3, "pod": {"annotations": {"a": "b"}}}"#, vec![Facet::Metadata]),
            (r#"{"size": 3, "pod": {"etcdEnv": [{"name": "A", "value": "b"}]}}"#, vec![Facet::Launch]),
            (r#"{"size": 3, "pod": {"resources": {"limits": {"cpu": 1}}}}"#, vec![Facet::Resources]),
            (r#"{"size": 3, "pod": {"tolerations": [{"operator": "Exists"}]}}"#, vec![Facet::Tolerations]),
            (r#"{"size": 3, "pod": {"nodeSelector": {"a": "b"}}}"#, vec![Facet::Placement]),
            (r#"{"size": 3, "pod": {"antiAffinity": true}}"#, vec![Facet::Placement]),
            (r#"{"size": 3, "pod": {"imagePullPolicy": "Always"}}"#, vec![Facet::Pull]),
            (r#"{"size": 3, "pod": {"ClusterDomain": ".cluster.local"}}"#, vec![Facet::Pod]),
            (r#"{"size": 3, "pod": {"securityContext": {"runAsUser": 5}}}"#, vec![Facet::Pod]),
            (r#"{"size": 3, "pod": {"DNSTimeoutInSecond": 5, "busyboxImage": "b:1"}}"#, vec![]),
        ];
        for (other, expected) in table {
            assert_eq!(changed(plain, other), expected, "{other}");
            assert_eq!(changed(other, plain), expected, "back from {other}");
        }
        let record = inputs(plain).record(version(VERSION));
        assert_eq!(
            inputs(plain).differences(Some(&record), None, version("3.7.1")),
            BTreeSet::from([Facet::Image])
        );
    }

    #[test]
    fn two_spellings_of_one_wish_are_the_same() {
        let table = [
            (r#"{"size": 3}"#, r#"{"size": 3, "pod": {"resources": {}, "labels": {}, "etcdEnv": []}}"#),
            (
                r#"{"size": 3, "pod": {"resources": {"limits": {"cpu": "1000m", "memory": "1Gi"}}}}"#,
                r#"{"size": 3, "pod": {"resources": {"limits": {"memory": "1024Mi", "cpu": 1}, "requests": {}}}}"#,
            ),
            (r#"{"size": 3, "pod": {"imagePullPolicy": ""}}"#, r#"{"size": 3}"#),
        ];
        for (one, other) in table {
            assert_eq!(changed(one, other), [], "{one} {other}");
        }
        assert_eq!(
            changed(
                r#"{"size": 3, "pod": {"resources": {"limits": {"cpu": 1}}}}"#,
                r#"{"size": 3, "pod": {"resources": {"limits": {"cpu": 2}}}}"#
            ),
            [Facet::Resources]
        );
    }

    #[test]
    fn a_part_that_an_older_record_does_not_have_is_as_if_nobody_had_asked_for_it() {
        let mut record = Record::read(&inputs(r#"{"size": 3}"#).record(version(VERSION))).unwrap();
        record.facets.remove("pull");
        let text = record.to_annotation();
        assert_eq!(
            inputs(r#"{"size": 3}"#).differences(Some(&text), None, version(VERSION)),
            BTreeSet::new()
        );
        let asked = inputs(r#"{"size": 3, "pod": {"imagePullPolicy": "Always"}}"#);
        assert_eq!(asked.differences(Some(&text), None, version(VERSION)), BTreeSet::from([Facet::Pull]));
    }

    #[test]
    fn a_pod_without_a_record_was_made_from_something_unknown() {
        for recorded in [None, Some("of another spec"), Some("{}")] {
            let plain = inputs(r#"{"size": 3}"#);
            assert_eq!(plain.differences(recorded, None, version(VERSION)).len(), 8, "{recorded:?}");
            let upgraded = plain.record_with_image(recorded, version(VERSION), version("3.7.1"));
            assert_eq!(plain.differences(Some(&upgraded), None, version("3.7.1")).len(), 7, "{recorded:?}");
        }
    }

    #[test]
    fn a_changed_image_leaves_all_else_as_it_was_made() {
        let (made, later) = (version(VERSION), version("3.7.1"));
        let record = inputs(r#"{"size": 3, "pod": {"labels": {"a": "b"}}}"#).record(made);
        let other = inputs(r#"{"size": 3, "pod": {"imagePullPolicy": "Always"}}"#);
        let upgraded = other.record_with_image(Some(&record), made, later);
        assert_eq!(
            other.differences(Some(&upgraded), None, later),
            BTreeSet::from([Facet::Metadata, Facet::Pull])
        );
        assert!(upgraded.contains(r#""labels":["a"]"#), "{upgraded}");
    }

    #[test]
    fn another_release_of_the_operator_makes_no_difference() {
        let upgraded = Desired { launcher_image: "new".to_owned(), ..fixture::desired() };
        assert_eq!(upgraded.inputs, fixture::desired().inputs);
    }
}
