//! What is wanted: a resource, checked and in our own words. Whoever holds a [`Desired`] can make every object of the cluster.

use std::{fmt, time::Duration};

use api::{Bootstrap, EtcdCluster, PodPolicy, Reason, not_yet, not_yet::Unhonoured, validate};
use launch::{ClientUrl, EtcdVersion, InvalidMember, MemberName, PeerUrl, Scheme};

use crate::{attempt::Attempt, digest};

/// What the operator knows of itself and puts into the objects that it makes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OperatorIdentity {
    /// The image with the launcher in it, for the members' init containers.
    pub launcher_image: String,
}

/// Something that is wrong with a resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Where, such as `spec.version`; empty for the object as a whole.
    pub path: String,
    /// What is wrong and what to write instead.
    pub message: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let separator = if self.path.is_empty() { "" } else { ": " };
        write!(f, "{}{separator}{}", self.path, self.message)
    }
}

impl From<validate::Problem> for Problem {
    fn from(problem: validate::Problem) -> Self {
        Self { path: problem.path, message: problem.message.to_owned() }
    }
}

/// The cluster that is wanted.
#[derive(Clone, Debug, PartialEq)]
pub struct Desired {
    /// The resource's namespace.
    pub namespace: String,
    /// The resource's name.
    pub name: String,
    /// The resource's UID: what owns the objects that are made.
    pub uid: String,
    /// The resource's generation.
    pub generation: i64,
    /// How many members.
    pub size: usize,
    /// Which etcd.
    pub version: EtcdVersion,
    /// Where its image comes from.
    pub repository: String,
    /// How a new cluster starts.
    pub bootstrap: Bootstrap,
    /// How pods are made.
    pub pod: PodPolicy,
    /// Whether to do nothing.
    pub paused: bool,
    /// How long a member that may come back is waited for.
    pub grace: Duration,
    /// Fields that this operator does not carry out, and without which no pod is made.
    pub held_back: Vec<Unhonoured>,
    /// Fields that are set and do nothing.
    pub without_effect: Vec<Unhonoured>,
    /// What a person may want to know about this spec.
    pub advice: Vec<Reason>,
    /// The image with the launcher in it.
    pub launcher_image: String,
}

impl Desired {
    /// What a resource asks for, or all that is wrong with it.
    pub fn from_resource(resource: &EtcdCluster, operator: &OperatorIdentity) -> Result<Self, Vec<Problem>> {
        let (metadata, spec) = (&resource.metadata, &resource.spec);
        let mut problems: Vec<Problem> = validate::cluster(resource).into_iter().map(Problem::from).collect();
        let version = version_of(resource).map_err(|problem| problems.extend(problem)).ok();
        let (held_back, without_effect) =
            not_yet::unhonoured(spec).into_iter().partition(|field| field.holds_pods);
        let size = spec.size.and_then(|size| usize::try_from(size).ok());
        let (Some(version), Some(size), Some(bootstrap)) = (version, size, spec.bootstrap()) else {
            return Err(problems);
        };
        let desired = Self {
            namespace: metadata.namespace.clone().unwrap_or_default(),
            name: metadata.name.clone().unwrap_or_default(),
            uid: metadata.uid.clone().unwrap_or_default(),
            generation: metadata.generation.unwrap_or_default(),
            size,
            version,
            repository: spec.repository().to_owned(),
            bootstrap,
            pod: spec.pod.clone().unwrap_or_default(),
            paused: spec.is_paused(),
            grace: spec.grace(),
            held_back,
            without_effect,
            advice: api::advice::advice(spec),
            launcher_image: operator.launcher_image.clone(),
        };
        if problems.is_empty() {
            problems.extend(desired.unaddressable());
        }
        if problems.is_empty() { Ok(desired) } else { Err(problems) }
    }

    /// What keeps a member from having an address: members' names differ in letters, not in length, so one speaks for all.
    fn unaddressable(&self) -> Option<Problem> {
        let any = self.name.parse::<MemberName>().and_then(|_| format!("{}-bcdfghjklm", self.name).parse());
        let error = any.and_then(|member| self.peer_url(&member)).err()?;
        Some(Problem { path: String::new(), message: error.to_string() })
    }

    /// The image of the wanted version.
    #[must_use]
    pub fn image(&self) -> String {
        self.image_of(self.version)
    }

    /// The image of another version.
    #[must_use]
    pub fn image_of(&self, version: EtcdVersion) -> String {
        format!("{}:{}", self.repository, version.image_tag())
    }

    /// A member's host name.
    #[must_use]
    pub fn host(&self, member: &MemberName) -> String {
        format!("{member}.{}.{}.svc{}", self.name, self.namespace, self.pod.cluster_domain())
    }

    /// Where the others reach a member.
    pub fn peer_url(&self, member: &MemberName) -> Result<PeerUrl, InvalidMember> {
        PeerUrl::on(Scheme::Http, &self.host(member))
    }

    /// Where clients reach a member.
    pub fn client_url(&self, member: &MemberName) -> Result<ClientUrl, InvalidMember> {
        ClientUrl::on(Scheme::Http, &self.host(member))
    }

    /// The members with which an attempt begins: all of them, or the seed alone.
    #[must_use]
    pub fn founders(&self, attempt: &Attempt) -> Vec<MemberName> {
        let count = match self.bootstrap {
            Bootstrap::Parallel => self.size,
            Bootstrap::Seed => 1,
        };
        attempt.members(&self.name, count)
    }

    /// A digest of what the user asked for that a pod of this version is made from. It says whether a pod is as the spec wants it; the
    /// version need not be the spec's, because one that joins runs what the others run. How many members there are is no part of it: members
    /// come and go one by one, and the others stay as they are. Our own builders and the launcher's image are no part of it: upgrading the
    /// operator must not touch anybody's members.
    #[must_use]
    pub fn inputs(&self, version: EtcdVersion) -> String {
        let policy = PodPolicy { busybox_image: None, dns_timeout_in_second: None, ..self.pod.clone() };
        // A policy came from JSON, so it goes back into it; were that ever to fail, all policies would count as one.
        let policy = serde_json::to_string(&policy).unwrap_or_default();
        digest::short(&["inputs", &version.to_string(), &self.repository, &policy], 16)
    }
}

/// The version, if it is one that can be started; what is malformed was told by the API's own rules already.
fn version_of(resource: &EtcdCluster) -> Result<EtcdVersion, Option<Problem>> {
    let text = resource.spec.version().map_err(|_| None)?;
    let problem = |message| Some(Problem { path: "spec.version".to_owned(), message });
    let version: EtcdVersion =
        text.parse().map_err(|error: launch::InvalidVersion| problem(error.to_string()))?;
    match launch::known_bad(version) {
        Some(bad) => Err(problem(bad.to_string())),
        None => Ok(version),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    fn problems(spec: &str) -> Vec<String> {
        let all = fixture::desired_of(spec).err().unwrap_or_default();
        all.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_plain_resource_becomes_what_the_book_expects() {
        let desired = fixture::desired();
        assert_eq!(desired.image(), "quay.io/coreos/etcd:v3.6.14");
        assert_eq!(desired.host(&"a-b".parse().unwrap()), "a-b.example.default.svc");
        assert_eq!((desired.size, desired.paused, desired.bootstrap), (3, false, Bootstrap::Parallel));
    }

    #[test]
    fn every_problem_is_told_with_its_place() {
        let table = [
            (r#"{"size": 9}"#, "spec.size: "),
            (r#"{"size": 3, "version": "3.6"}"#, "spec.version: "),
            (r#"{"size": 3, "version": "3.9.0"}"#, "spec.version: "),
            (r#"{"size": 3, "version": "3.5.1"}"#, "spec.version: etcd 3.5.1 is not used"),
            (r#"{"size": 3, "bootstrap": "Magic"}"#, "spec.bootstrap: "),
        ];
        for (spec, expected) in table {
            let problems = problems(spec);
            assert_eq!(problems.len(), 1, "{spec} {problems:?}");
            assert!(problems[0].starts_with(expected), "{problems:?}");
        }
        assert_eq!(problems(r#"{"size": 0, "version": "latest"}"#).len(), 2);
    }

    #[test]
    fn inputs_change_with_what_a_pod_is_made_from_and_with_nothing_else() {
        let inputs_of = |desired: &Desired| desired.inputs(desired.version);
        let inputs = |spec: &str| inputs_of(&fixture::desired_of(spec).unwrap());
        let plain = inputs(r#"{"size": 3}"#);
        for same in [
            r#"{"size": 1}"#,
            r#"{"size": 3, "paused": true}"#,
            r#"{"size": 3, "pod": {"DNSTimeoutInSecond": 5}}"#,
        ] {
            assert_eq!(inputs(same), plain, "{same}");
        }
        for other in [
            r#"{"size": 3, "version": "3.5.33"}"#,
            r#"{"size": 3, "repository": "mirror/etcd"}"#,
            r#"{"size": 3, "pod": {"nodeSelector": {"a": "b"}}}"#,
        ] {
            assert_ne!(inputs(other), plain, "{other}");
        }
        let upgraded = Desired { launcher_image: "new".to_owned(), ..fixture::desired() };
        assert_eq!(inputs_of(&upgraded), plain);
    }

    #[test]
    fn a_field_that_holds_pods_is_kept_apart_from_one_that_does_nothing() {
        let spec = r#"{"size": 3, "TLS": {"static": {"member": {"peerSecret": "p"}}}, "pod": {"busyboxImage": "b:1"}}"#;
        let desired = fixture::desired_of(spec).unwrap();
        assert_eq!(desired.held_back[0].path, "spec.TLS");
        assert_eq!(desired.without_effect[0].path, "spec.pod.busyboxImage");
    }
}
