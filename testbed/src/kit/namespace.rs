//! A namespace per test: fresh, gone afterwards, and kept with all that can be known about it when the test fails.

use std::{
    any::Any,
    collections::BTreeMap,
    fmt::Debug,
    panic::AssertUnwindSafe,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::anyhow;
use futures::FutureExt;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Pod, ServiceAccount};
use kube::{
    Api, Client, Resource, ResourceExt,
    api::{DeleteParams, Patch, PatchParams, PostParams},
    core::{NamespaceResourceScope, ObjectMeta},
};

use super::{
    Cluster, KitError, call, check, evidence,
    wait::{WaitError, wait_for, wait_for_all},
};

/// Says which test a namespace belongs to.
pub const TEST_LABEL: &str = "etcd-operator.testbed/test";

/// How long a pod may take to become Ready: mostly a second or two, but two cores are shared by many.
pub const READY_DEADLINE: Duration = Duration::from_mins(5);

const TEST_DEADLINE: Duration = Duration::from_mins(10);
const NAMESPACE_DEADLINE: Duration = Duration::from_mins(3);
const REMOVAL_DEADLINE: Duration = Duration::from_mins(5);

/// What a namespace or what is in it did not come to.
#[derive(Debug, thiserror::Error)]
pub enum NamespaceError {
    /// A call to the API server.
    #[error(transparent)]
    Call(#[from] KitError),
    /// Something was waited for in vain.
    #[error(transparent)]
    Wait(#[from] WaitError),
}

/// The Pod Security Standard that a namespace enforces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PodSecurity {
    /// Everything is allowed.
    Privileged,
    /// The worst is refused.
    Baseline,
    /// Only pods that follow today's best practice.
    Restricted,
}

impl PodSecurity {
    fn level(self) -> &'static str {
        match self {
            Self::Privileged => "privileged",
            Self::Baseline => "baseline",
            Self::Restricted => "restricted",
        }
    }
}

/// A test that is about to get its namespace.
#[must_use]
pub struct TestCase {
    what: String,
    cluster: Option<Cluster>,
    pod_security: Option<PodSecurity>,
    deadline: Duration,
    evidence: Option<PathBuf>,
}

/// Runs a test in a namespace of its own. What is tested is the test's name, as it is written in the code.
pub async fn in_namespace<F>(what: &str, test: F) -> anyhow::Result<()>
where
    F: AsyncFnOnce(TestNamespace) -> anyhow::Result<()>,
{
    TestCase::of(what).run(test).await
}

impl TestCase {
    /// What is tested: the test's name, as it is written in the code.
    pub fn of(what: &str) -> Self {
        Self {
            what: what.to_owned(),
            cluster: None,
            pod_security: None,
            deadline: TEST_DEADLINE,
            evidence: None,
        }
    }

    /// On this cluster, instead of the one that [`Cluster::connect`] finds.
    pub fn on(mut self, cluster: Cluster) -> Self {
        self.cluster = Some(cluster);
        self
    }

    /// The namespace enforces this Pod Security Standard; without it, it has no such label.
    pub fn pod_security(mut self, level: PodSecurity) -> Self {
        self.pod_security = Some(level);
        self
    }

    /// How long the test may take (ten minutes, if it is not said): then it has failed as others do.
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    /// Where the folder with all about a failure is made, instead of `TESTBED_FAILURES` or `target/test-failures`.
    pub fn evidence_in(mut self, folder: &Path) -> Self {
        self.evidence = Some(folder.to_owned());
        self
    }

    /// Runs the test. Its namespace is deleted if it succeeds; if it fails or panics, the namespace is kept, and the
    /// error names the folder that objects, logs and Events were written to.
    pub async fn run<F>(self, test: F) -> anyhow::Result<()>
    where
        F: AsyncFnOnce(TestNamespace) -> anyhow::Result<()>,
    {
        let cluster = match self.cluster {
            Some(cluster) => cluster,
            None => Box::pin(Cluster::connect()).await?,
        };
        // Boxed, as the other large futures here: a test's own would not fit on a thread's stack together with them.
        let ns = Box::pin(TestNamespace::create(&cluster, &self.what, self.pod_security)).await?;
        let test = Box::pin(test(ns.clone()));
        let running = AssertUnwindSafe(tokio::time::timeout(self.deadline, test)).catch_unwind();
        let failure = match running.await {
            Ok(Ok(Ok(()))) => return Ok(ns.delete_namespace().await?),
            Ok(Ok(Err(error))) => error,
            Ok(Err(_)) => anyhow!("{} was not done within {:?}", self.what, self.deadline),
            Err(panic) => anyhow!("{} panicked: {}", self.what, message(panic.as_ref())),
        };
        let kept = format!("the namespace {} is kept", ns.name());
        let folder = self.evidence.unwrap_or_else(evidence::folder).join(ns.name());
        let context = match Box::pin(evidence::write(&ns, &folder, &failure)).await {
            Ok(()) => format!("{kept}; its objects, logs and Events are in {}", folder.display()),
            Err(error) => format!("{kept}; nothing could be written about it: {:#}", anyhow!(error)),
        };
        Err(failure.context(context))
    }
}

fn message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("without a message")
}

/// The namespace of one test.
#[derive(Clone)]
pub struct TestNamespace {
    cluster: Cluster,
    name: String,
}

impl TestNamespace {
    /// Makes a namespace for a test, and waits until pods can be made in it.
    pub async fn create(
        cluster: &Cluster,
        what: &str,
        pod_security: Option<PodSecurity>,
    ) -> Result<Self, NamespaceError> {
        let namespaces: Api<Namespace> = Api::all(cluster.client());
        let wanted = namespace_for(what, pod_security);
        let made = call("create a namespace", namespaces.create(&PostParams::default(), &wanted)).await?;
        let ns = Self { cluster: cluster.clone(), name: made.name_any() };
        // A pod that is made before its service account is refused, and one that is made before the CA's certificate is
        // there cannot mount it and waits for the kubelet's next attempt.
        let there = |found: bool| {
            if found { Ok(()) } else { Err("it is not there".to_owned()) }
        };
        let accounts = ns.api::<ServiceAccount>();
        let account =
            wait_for(&accounts, "default", NAMESPACE_DEADLINE, "to be made", |it| there(it.is_some()));
        let maps = ns.api::<ConfigMap>();
        let ca =
            wait_for(&maps, "kube-root-ca.crt", NAMESPACE_DEADLINE, "to be made", |it| there(it.is_some()));
        if let Err(error) = tokio::try_join!(account, ca) {
            // No test will delete it.
            ns.delete_namespace().await?;
            return Err(error.into());
        }
        Ok(ns)
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The cluster that it is in.
    #[must_use]
    pub fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// The client, for everything that the kit has no word for.
    #[must_use]
    pub fn client(&self) -> Client {
        self.cluster.client()
    }

    /// The objects of one kind in this namespace.
    #[must_use]
    pub fn api<K>(&self) -> Api<K>
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>,
    {
        Api::namespaced(self.client(), &self.name)
    }

    /// From now on, pods that fall short of this Pod Security Standard are refused in it.
    pub async fn enforce(&self, level: PodSecurity) -> Result<(), KitError> {
        self.cluster.label_pod_security(&self.name, level, &["enforce"]).await
    }

    /// From now on, of pods that fall short of this Pod Security Standard is warned, and the audit log names what they lack.
    pub async fn warn(&self, level: PodSecurity) -> Result<(), KitError> {
        self.cluster.label_pod_security(&self.name, level, &["warn", "audit"]).await
    }

    /// Waits until a pod is Ready.
    pub async fn pod_ready(&self, name: &str) -> Result<Pod, WaitError> {
        wait_for(&self.api(), name, READY_DEADLINE, "to be Ready", check::pod_ready).await
    }

    /// Waits until there are exactly this many pods with these labels, and all are Ready.
    pub async fn pods_ready(&self, labels: &str, count: usize) -> Result<Vec<Pod>, WaitError> {
        wait_for_all(&self.api(), labels, READY_DEADLINE, "to be Ready", check::pods_ready(count)).await
    }

    /// Waits until all containers of a pod have ended well.
    pub async fn pod_succeeded(&self, name: &str) -> Result<Pod, WaitError> {
        wait_for(&self.api(), name, READY_DEADLINE, "to succeed", check::pod_succeeded).await
    }

    /// Requests the deletion of this namespace and of all that is in it.
    pub async fn delete_namespace(&self) -> Result<(), KitError> {
        let namespaces: Api<Namespace> = Api::all(self.client());
        let attempt = format!("delete the namespace {}", self.name);
        match call(&attempt, namespaces.delete(&self.name, &DeleteParams::background())).await {
            Err(error) if error.code() != Some(404) => Err(error),
            _ => Ok(()),
        }
    }

    /// Deletes this namespace, and waits until it and all that was in it are gone.
    pub async fn delete_and_wait(&self) -> Result<(), NamespaceError> {
        self.delete_namespace().await?;
        let namespaces: Api<Namespace> = Api::all(self.client());
        let seen = |namespace: Option<&Namespace>| {
            let Some(namespace) = namespace else { return Ok(()) };
            let conditions = namespace.status.as_ref().and_then(|status| status.conditions.as_deref());
            let said: Vec<_> =
                conditions.unwrap_or_default().iter().filter_map(|it| it.message.as_deref()).collect();
            Err(format!("it is there: {}", said.join("; ")))
        };
        wait_for(&namespaces, &self.name, REMOVAL_DEADLINE, "to be gone", seen).await?;
        Ok(())
    }
}

impl Cluster {
    /// Sets what a namespace does about pods that fall short of a Pod Security Standard: `enforce`, `warn`, `audit`.
    pub async fn label_pod_security(
        &self,
        namespace: &str,
        level: PodSecurity,
        modes: &[&str],
    ) -> Result<(), KitError> {
        let labels: BTreeMap<_, _> = modes.iter().map(|mode| (label_of(mode), level.level())).collect();
        let patch = Patch::Merge(serde_json::json!({ "metadata": { "labels": labels } }));
        let namespaces: Api<Namespace> = Api::all(self.client());
        let attempt = format!("label the namespace {namespace}");
        call(&attempt, namespaces.patch(namespace, &PatchParams::default(), &patch)).await.map(drop)
    }
}

fn label_of(mode: &str) -> String {
    format!("pod-security.kubernetes.io/{mode}")
}

fn namespace_for(what: &str, pod_security: Option<PodSecurity>) -> Namespace {
    let slug = slug(what);
    let mut labels = BTreeMap::from([(TEST_LABEL.to_owned(), slug.clone())]);
    if let Some(level) = pod_security {
        labels.insert(label_of("enforce"), level.level().into());
    }
    // The API server appends five random characters, and takes others if there is such a namespace already.
    let generate_name = Some(format!("t-{slug}-"));
    Namespace {
        metadata: ObjectMeta { generate_name, labels: Some(labels), ..ObjectMeta::default() },
        ..Namespace::default()
    }
}

/// A test's name as part of a namespace's name, and as a label: at most 40 characters.
fn slug(what: &str) -> String {
    let words: Vec<_> = what
        .split(|c: char| !c.is_ascii_alphanumeric())
        .filter(|word| !word.is_empty())
        .map(str::to_ascii_lowercase)
        .collect();
    let slug: String = words.join("-").chars().take(40).collect();
    let slug = slug.trim_end_matches('-');
    if slug.is_empty() { "test".into() } else { slug.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slug_is_a_name_that_kubernetes_takes() {
        let table = [
            ("a_wrong_tag_is_not_found", "a-wrong-tag-is-not-found"),
            ("mod::Test 3.6!", "mod-test-3-6"),
            ("__", "test"),
            (
                "pods_on_three_nodes_talk_by_name_and_through_a_service",
                "pods-on-three-nodes-talk-by-name-and-thr",
            ),
            ("0123456789_0123456789_0123456789_012345_7_x", "0123456789-0123456789-0123456789-012345"),
        ];
        for (what, expected) in table {
            assert_eq!(slug(what), &expected[..expected.len().min(40)], "{what}");
            assert!(slug(what).len() <= 40 && !slug(what).ends_with('-'));
        }
    }

    #[test]
    fn a_namespace_names_its_test_and_enforces_only_what_is_asked_for() {
        let plain = namespace_for("a_b", None);
        assert_eq!(plain.metadata.generate_name.as_deref(), Some("t-a-b-"));
        assert_eq!(plain.labels().keys().map(String::as_str).collect::<Vec<_>>(), [TEST_LABEL]);
        let restricted = namespace_for("a_b", Some(PodSecurity::Restricted));
        assert_eq!(restricted.labels()["pod-security.kubernetes.io/enforce"], "restricted");
    }

    #[test]
    fn a_panic_is_told_in_its_own_words() {
        let caught = std::panic::catch_unwind(|| panic!("{} is wrong", 1)).unwrap_err();
        assert_eq!(message(caught.as_ref()), "1 is wrong");
    }
}
