//! What is wanted: a resource, checked and in our own words. Whoever holds a [`Desired`] can make every object of the cluster.

use std::{fmt, str::FromStr, time::Duration};

use api::{Bootstrap, EtcdCluster, PodPolicy, Reason, not_yet, not_yet::Unhonoured, validate};
use launch::{ClientUrl, EtcdVersion, InvalidMember, MemberName, PeerUrl, Scheme};

use crate::{attempt::Attempt, inputs::Inputs, view::MAX_SIZE};

/// What the operator knows of itself and puts into the objects that it makes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OperatorIdentity {
    /// The image with the launcher in it, for the members' init containers.
    pub launcher_image: String,
    /// Whom members run as, where the spec says nothing.
    pub member_user: MemberUser,
}

/// Whom members run as, where the spec says nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemberUser {
    /// This user and group.
    Fixed(i64),
    /// Whomever the platform chooses: `OpenShift` gives each namespace users of its own, and refuses all others.
    Platform,
}

impl Default for MemberUser {
    /// The images' own user is root, which restricted namespaces refuse; the classic operator ran members under this one.
    fn default() -> Self {
        Self::Fixed(9000)
    }
}

impl fmt::Display for MemberUser {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fixed(user) => user.fmt(f),
            Self::Platform => f.write_str("none"),
        }
    }
}

/// What is no member's user.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it must be a number from 1 to 2147483647, or none")]
pub struct InvalidMemberUser;

impl FromStr for MemberUser {
    type Err = InvalidMemberUser;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text == "none" {
            return Ok(Self::Platform);
        }
        // Kubernetes takes no more than 31 bits.
        let user: i32 = text.parse().map_err(|_| InvalidMemberUser)?;
        if user > 0 { Ok(Self::Fixed(i64::from(user))) } else { Err(InvalidMemberUser) }
    }
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
    /// What members are made from, as it is recorded in their pods.
    pub inputs: Inputs,
    /// What is wrong with the spec. In place of each field named here stands what the cluster goes on with, so that a cluster that has
    /// formed can be kept up: a problem in one field is no reason to leave a lost member unreplaced. Nothing is started from such a spec.
    pub problems: Vec<Problem>,
    /// Whom members run as, where the spec says nothing.
    pub member_user: MemberUser,
}

impl Desired {
    /// What a resource asks for; or all that is wrong with it, where nothing can be made of it.
    pub fn from_resource(resource: &EtcdCluster, operator: &OperatorIdentity) -> Result<Self, Vec<Problem>> {
        let (metadata, spec) = (&resource.metadata, &resource.spec);
        let mut problems: Vec<Problem> = validate::cluster(resource).into_iter().map(Problem::from).collect();
        problems.extend(not_at_once(resource));
        let version = version_of(resource).map_err(|problem| problems.extend(problem)).ok();
        let (held_back, without_effect) =
            not_yet::unhonoured(resource).into_iter().partition(|field| field.holds_pods);
        let size = spec
            .size
            .and_then(|size| usize::try_from(size).ok())
            .filter(|size| (1..=MAX_SIZE).contains(size));
        let version = version.or_else(|| resource.status.as_ref()?.current_version.as_deref()?.parse().ok());
        let size = size.or_else(|| resource.status.as_ref()?.wanted());
        let (Some(version), Some(size), Some(bootstrap)) = (version, size, spec.bootstrap()) else {
            return Err(problems);
        };
        if problems.iter().any(|problem| WHOLE.contains(&problem.path.as_str())) {
            return Err(problems);
        }
        let name = metadata.name.clone().unwrap_or_default();
        let pod = without(spec.pod.clone().unwrap_or_default(), &problems);
        let mut desired = Self {
            namespace: metadata.namespace.clone().unwrap_or_default(),
            uid: metadata.uid.clone().unwrap_or_default(),
            generation: metadata.generation.unwrap_or_default(),
            size,
            version,
            repository: spec.repository().to_owned(),
            bootstrap,
            paused: spec.is_paused(),
            grace: spec.grace(),
            held_back,
            without_effect,
            advice: api::advice::advice(spec),
            launcher_image: operator.launcher_image.clone(),
            inputs: Inputs::of(&name, spec.repository(), &pod),
            name,
            pod,
            problems,
            member_user: operator.member_user,
        };
        if let Some(problem) = desired.unaddressable() {
            desired.problems.push(problem);
            return Err(desired.problems);
        }
        Ok(desired)
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

    /// The record of what a pod of this version is made from. The version need not be the spec's, because one that joins runs what the
    /// others run. How many members there are is no part of it: members come and go one by one, and the others stay as they are.
    #[must_use]
    pub fn inputs(&self, version: EtcdVersion) -> String {
        self.inputs.record(version)
    }

    /// Whether the spec names a version that the members can be brought to, as far as the spec alone tells.
    #[must_use]
    pub fn is_version_accepted(&self) -> bool {
        self.problems.iter().all(|problem| problem.path != VERSION)
    }
}

/// Where the version stands.
const VERSION: &str = "spec.version";
/// What no cluster can do without: the object as a whole, which has no path, and where images come from.
const WHOLE: [&str; 2] = ["", "spec.repository"];

/// A policy without the fields that cannot be carried out: members that run have none of them either, or the API server would have
/// refused their pods.
fn without(policy: PodPolicy, problems: &[Problem]) -> PodPolicy {
    let refused = |field: &str| problems.iter().any(|problem| is_within(&problem.path, field));
    let mut policy = policy;
    macro_rules! drop_refused {
        ($($field:ident: $path:literal),* $(,)?) => {
            $(if refused(concat!("spec.pod.", $path)) { policy.$field = None; })*
        };
    }
    drop_refused! {
        labels: "labels", annotations: "annotations", node_selector: "nodeSelector", affinity: "affinity",
        resources: "resources", tolerations: "tolerations", topology_spread_constraints: "topologySpreadConstraints",
        priority_class_name: "priorityClassName", image_pull_secrets: "imagePullSecrets",
        image_pull_policy: "imagePullPolicy", etcd_env: "etcdEnv", security_context: "securityContext",
        cluster_domain: "ClusterDomain",
    }
    policy
}

/// Whether a path is this field or something in it.
fn is_within(path: &str, field: &str) -> bool {
    path.strip_prefix(field).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
}

/// What the fields ask for that cannot be had together, beyond what the API's own rules see. etcd 3.7 has no experimental flags any more and
/// passes over their variables with a warning: what somebody set would silently be off.
fn not_at_once(resource: &EtcdCluster) -> Option<Problem> {
    let version: EtcdVersion = resource.spec.version().ok()?.parse().ok()?;
    let variables = resource.spec.pod.as_ref()?.etcd_env.as_ref()?;
    let gone = variables.iter().find(|variable| variable.name.starts_with("ETCD_EXPERIMENTAL_"))?;
    let message = format!(
        "etcd {version} does not know {} any more and would ignore it: from 3.6 on it is {}, or a feature gate",
        gone.name,
        gone.name.replacen("EXPERIMENTAL_", "", 1)
    );
    (version.minor() >= launch::Minor::V3_7).then(|| Problem { path: VERSION.to_owned(), message })
}

/// The version, if it is one that can be started; what is malformed was told by the API's own rules already.
fn version_of(resource: &EtcdCluster) -> Result<EtcdVersion, Option<Problem>> {
    let text = resource.spec.version().map_err(|_| None)?;
    let problem = |message| Some(Problem { path: VERSION.to_owned(), message });
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
        let all = fixture::desired_of(spec).map_or_else(|problems| problems, |desired| desired.problems);
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
            (r#"{"size": 3, "repository": "a b"}"#, "spec.repository: "),
        ];
        for (spec, expected) in table {
            let problems = problems(spec);
            assert_eq!(problems.len(), 1, "{spec} {problems:?}");
            assert!(problems[0].starts_with(expected), "{problems:?}");
        }
        assert_eq!(problems(r#"{"size": 0, "version": "latest"}"#).len(), 2);
    }

    #[test]
    fn in_place_of_what_cannot_be_carried_out_stands_what_the_cluster_goes_on_with() {
        let of = |spec: &str| {
            let mut resource = fixture::resource(spec);
            resource.status = Some(api::EtcdClusterStatus {
                current_version: Some("3.5.33".to_owned()),
                ready: Some("2/5".to_owned()),
                ..Default::default()
            });
            let operator =
                OperatorIdentity { launcher_image: "l".to_owned(), member_user: MemberUser::default() };
            Desired::from_resource(&resource, &operator).unwrap()
        };
        let table = [
            (r#"{"size": 3, "version": "3.9.0"}"#, 3, "3.5.33", "spec.version"),
            (r#"{"size": 4, "version": "3.5.1"}"#, 4, "3.5.33", "spec.version"),
            (r#"{"size": 9, "version": "3.6.14"}"#, 5, "3.6.14", "spec.size"),
        ];
        for (spec, size, version, path) in table {
            let desired = of(spec);
            assert_eq!((desired.size, desired.version.to_string().as_str()), (size, version), "{spec}");
            assert_eq!(desired.problems[0].path, path);
            assert_eq!(desired.is_version_accepted(), path != "spec.version");
        }
        let bad = of(r#"{"size": 3, "pod": {"nodeSelector": {"a": "b"},
            "resources": {"requests": {"cpu": 2}, "limits": {"cpu": 1}}}}"#);
        assert_eq!((bad.pod.resources, bad.problems.len()), (None, 1), "{:?}", bad.problems);
        assert!(bad.pod.node_selector.is_some());
    }

    #[test]
    fn an_experimental_variable_keeps_its_effect_or_the_version_is_refused() {
        let spec = |version: &str| {
            format!(
                r#"{{"size": 3, "version": "{version}", "pod": {{"etcdEnv": [
                    {{"name": "ETCD_EXPERIMENTAL_WATCH_PROGRESS_NOTIFY_INTERVAL", "value": "5s"}}]}}}}"#
            )
        };
        assert_eq!(problems(&spec("3.6.14")), [""; 0]);
        let problems = problems(&spec("3.7.1"));
        assert!(problems[0].contains("ETCD_WATCH_PROGRESS_NOTIFY_INTERVAL"), "{problems:?}");
    }

    #[test]
    fn a_field_that_holds_pods_is_kept_apart_from_one_that_does_nothing() {
        let spec = r#"{"size": 3, "TLS": {"static": {"member": {"peerSecret": "p"}}}, "pod": {"busyboxImage": "b:1"}}"#;
        let desired = fixture::desired_of(spec).unwrap();
        assert_eq!(desired.held_back[0].path, "spec.TLS");
        assert_eq!(desired.without_effect[0].path, "spec.pod.busyboxImage");
    }
}
