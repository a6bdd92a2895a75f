//! What tests on the cluster stand on: a connection, a namespace per test, and ways to act, to wait and to look.
//!
//! A test reads as the thing that it shows:
//!
//! ```no_run
//! # async fn a_pod_becomes_ready() -> anyhow::Result<()> {
//! use testbed::kit::in_namespace;
//!
//! in_namespace("a_pod_becomes_ready", async |ns| {
//!     ns.apply("{apiVersion: v1, kind: Pod, metadata: {name: x}, spec: {containers: [{name: x, image: x}]}}").await?;
//!     ns.pod_ready("x").await?;
//!     Ok(())
//! })
//! .await
//! # }
//! ```

pub mod apply;
pub mod audit;
pub mod check;
pub mod dial;
mod evidence;
pub mod exec;
mod grave;
pub mod handmade;
pub mod identity;
pub mod kubectl;
pub mod namespace;
pub mod operator;
pub mod output;
pub mod pty;
pub mod wait;

use std::{
    env,
    ffi::OsString,
    future::Future,
    path::{Path, PathBuf},
    time::Duration,
};

use kube::{
    Client, Config,
    client::ClientBuilder,
    config::{KubeConfigOptions, Kubeconfig, KubeconfigError},
    core::Status,
};
use tower::timeout::TimeoutLayer;

use crate::{
    cluster,
    instance::{Instance, UnknownInstance},
};

pub use self::{
    audit::AuditLog,
    exec::Exec,
    grave::GRAVE,
    namespace::{PodSecurity, TestCase, TestNamespace, in_namespace},
    output::Output,
    wait::{until_it_succeeds, wait_for, wait_for_all},
};

/// How long one call to the API server may take.
///
/// Generous, because a test machine with two cores is sometimes busy with a compiler: it is there so that nothing
/// hangs.
pub const CALL_DEADLINE: Duration = Duration::from_secs(30);

/// What can go wrong between a test and the API server.
#[derive(Debug, thiserror::Error)]
pub enum KitError {
    /// Nothing names a cluster, and none was started on this machine.
    #[error(
        "there is no cluster to test on: start one with `make cluster-up`, or name the kubeconfig of one that you \
         have in TESTBED_KUBECONFIG (KUBECONFIG alone is never acted on)"
    )]
    NoCluster,
    /// The cluster has no audit log that this machine can read.
    #[error("no audit log of this cluster is known: name its file in TESTBED_AUDIT_LOG")]
    NoAuditLog,
    /// The kubeconfig could not be read or understood.
    #[error("cannot use the kubeconfig {}", path.display())]
    Kubeconfig {
        /// Which file.
        path: PathBuf,
        /// What kube says about it.
        source: Box<KubeconfigError>,
    },
    /// No client could be made from a kubeconfig that reads well.
    #[error("cannot make a client from the kubeconfig {}", path.display())]
    Client {
        /// Which file.
        path: PathBuf,
        /// What kube says about it.
        source: Box<kube::Error>,
    },
    /// Credentials that do not fit into a kubeconfig.
    #[error("cannot make credentials")]
    Credentials(#[source] serde_json::Error),
    /// The API server answered, and the answer is no.
    #[error("{attempt}: the API server refuses")]
    Refused {
        /// What was attempted.
        attempt: String,
        /// The API server's answer.
        source: Box<Status>,
    },
    /// `TESTBED_INSTANCE` names none.
    #[error(transparent)]
    Instance(#[from] UnknownInstance),
    /// The call failed before there was an answer, or the answer could not be read.
    #[error("{attempt}: no usable answer")]
    Failed {
        /// What was attempted.
        attempt: String,
        /// What kube says about it.
        source: Box<kube::Error>,
    },
    /// There was no answer in time.
    #[error("{attempt}: no answer within {deadline:?}")]
    Deadline {
        /// What was attempted.
        attempt: String,
        /// How long it was waited for.
        deadline: Duration,
    },
}

impl KitError {
    /// The HTTP status code of the API server's answer, if there was one.
    #[must_use]
    pub fn code(&self) -> Option<u16> {
        match self {
            Self::Refused { source, .. } => Some(source.code),
            _ => None,
        }
    }

    fn from_call(attempt: &str, source: kube::Error) -> Self {
        let attempt = attempt.to_owned();
        match source {
            kube::Error::Api(source) => Self::Refused { attempt, source },
            source => Self::Failed { attempt, source: Box::new(source) },
        }
    }
}

/// Makes one call to the API server, with a deadline; `attempt` says what the call is for ("list the pods of t-x").
pub async fn call<T>(
    attempt: &str,
    call: impl Future<Output = Result<T, kube::Error>>,
) -> Result<T, KitError> {
    match tokio::time::timeout(CALL_DEADLINE, call).await {
        Ok(answer) => answer.map_err(|source| KitError::from_call(attempt, source)),
        Err(_) => Err(KitError::Deadline { attempt: attempt.to_owned(), deadline: CALL_DEADLINE }),
    }
}

/// A connection to one cluster, as one user.
#[derive(Clone)]
pub struct Cluster {
    client: Client,
    config: Config,
    places: Places,
}

/// Where the parts of a cluster that a test uses are found on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Places {
    /// Who and where the API server is.
    pub kubeconfig: PathBuf,
    /// The kubectl that speaks to it.
    pub kubectl: PathBuf,
    /// What the API server's `--audit-log-path` writes, if it is on this machine.
    pub audit_log: Option<PathBuf>,
}

impl Places {
    /// The cluster that somebody has and names in `TESTBED_KUBECONFIG`.
    #[must_use]
    pub fn named() -> Option<Self> {
        named(|name| env::var_os(name))
    }

    /// Only the kubeconfig is known; kubectl is the one in `PATH`.
    #[must_use]
    pub fn from_kubeconfig(kubeconfig: &Path) -> Self {
        Self { kubeconfig: kubeconfig.to_owned(), kubectl: PathBuf::from("kubectl"), audit_log: None }
    }
}

impl Cluster {
    /// Connects to the cluster that `TESTBED_KUBECONFIG` names (with `TESTBED_KUBECTL` and `TESTBED_AUDIT_LOG`
    /// beside it), else to the one that `make cluster-up` started on this machine (the instance that `TESTBED_INSTANCE` names).
    pub async fn connect() -> Result<Self, KitError> {
        Self::connect_to(choose(|name| env::var_os(name), cluster::places(Instance::chosen()?))?).await
    }

    /// Connects to the cluster of this kubeconfig.
    pub async fn connect_with(kubeconfig: &Path) -> Result<Self, KitError> {
        Self::connect_to(Places::from_kubeconfig(kubeconfig)).await
    }

    /// Connects to the cluster that is found at these places.
    pub async fn connect_to(places: Places) -> Result<Self, KitError> {
        let config = read_config(&places.kubeconfig).await?;
        Self::with_config(config, places)
    }

    fn with_config(config: Config, places: Places) -> Result<Self, KitError> {
        let client = ClientBuilder::try_from(config.clone())
            .map_err(|source| KitError::Client { path: places.kubeconfig.clone(), source: Box::new(source) })?
            // Covers every call until its answer begins, also those that tests make through `Api` themselves. A watch
            // or an exec stream goes on beyond it: `wait` and `exec` have deadlines of their own.
            .with_layer(&TimeoutLayer::new(CALL_DEADLINE))
            .build();
        Ok(Self { client, config, places })
    }

    /// Whether the API server says that it is ready.
    pub async fn readyz(&self) -> Result<(), KitError> {
        let attempt = "ask the API server whether it is ready";
        let request = http::Request::get("/readyz")
            .body(Vec::new())
            .map_err(|source| KitError::from_call(attempt, kube::Error::HttpError(source)))?;
        call(attempt, self.client.request_text(request)).await.map(drop)
    }

    /// The client, for everything that the kit has no word for.
    #[must_use]
    pub fn client(&self) -> Client {
        self.client.clone()
    }

    /// Where the parts of this cluster are found on this machine.
    #[must_use]
    pub fn places(&self) -> &Places {
        &self.places
    }

    /// The API server's audit log.
    pub fn audit_log(&self) -> Result<AuditLog, KitError> {
        self.places.audit_log.as_deref().map(AuditLog::at).ok_or(KitError::NoAuditLog)
    }
}

async fn read_config(path: &Path) -> Result<Config, KitError> {
    let unusable = |source| KitError::Kubeconfig { path: path.to_owned(), source: Box::new(source) };
    let kubeconfig = Kubeconfig::read_from(path).map_err(unusable)?;
    let wants_proxy = kubeconfig
        .clusters
        .iter()
        .any(|named| named.cluster.as_ref().is_some_and(|it| it.proxy_url.is_some()));
    let mut config =
        Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.map_err(unusable)?;
    if !wants_proxy {
        // kube takes HTTPS_PROXY from the environment, whatever NO_PROXY says; the testbed is on this machine.
        config.proxy_url = None;
    }
    // A test wants to see what the API server answers. kube would send a refused POST up to 15 times, for minutes.
    config.default_retry = false;
    Ok(config)
}

fn choose(env: impl Fn(&str) -> Option<OsString>, running: Option<Places>) -> Result<Places, KitError> {
    named(env).or(running).ok_or(KitError::NoCluster)
}

fn named(env: impl Fn(&str) -> Option<OsString>) -> Option<Places> {
    let path = |name| env(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let places = Places::from_kubeconfig(&path("TESTBED_KUBECONFIG")?);
    Some(Places {
        kubectl: path("TESTBED_KUBECTL").unwrap_or(places.kubectl),
        audit_log: path("TESTBED_AUDIT_LOG"),
        ..places
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn env<'a>(set: &'a [(&'a str, &'a str)]) -> impl Fn(&str) -> Option<OsString> + 'a {
        move |asked| set.iter().find(|(name, _)| *name == asked).map(|(_, value)| value.into())
    }

    fn ours() -> Places {
        Places::from_kubeconfig(Path::new("ours"))
    }

    #[test]
    fn kubeconfig_alone_is_never_acted_on() {
        let error = choose(env(&[("KUBECONFIG", "somebody's")]), None).unwrap_err();
        assert!(error.to_string().contains("make cluster-up"), "{error}");
        assert_eq!(choose(env(&[("KUBECONFIG", "somebody's")]), Some(ours())).unwrap(), ours());
    }

    #[test]
    fn a_cluster_that_is_named_is_taken_before_the_one_that_runs() {
        let named = choose(env(&[("TESTBED_KUBECONFIG", "named")]), Some(ours())).unwrap();
        assert_eq!(named, Places::from_kubeconfig(Path::new("named")));
    }

    #[test]
    fn kubectl_and_audit_log_come_with_the_cluster_that_is_named() {
        let set = [("TESTBED_KUBECONFIG", "a"), ("TESTBED_KUBECTL", "b"), ("TESTBED_AUDIT_LOG", "c")];
        let places = choose(env(&set), None).unwrap();
        assert_eq!(places.kubectl, Path::new("b"));
        assert_eq!(places.audit_log.as_deref(), Some(Path::new("c")));
        // Without a cluster that is named they mean nothing.
        assert_eq!(choose(env(&set[1..]), Some(ours())).unwrap(), ours());
    }

    #[test]
    fn an_empty_name_is_no_name() {
        assert!(matches!(choose(env(&[("TESTBED_KUBECONFIG", "")]), None), Err(KitError::NoCluster)));
    }

    #[tokio::test]
    async fn a_kubeconfig_that_is_missing_is_named() {
        let Err(error) = Cluster::connect_with(Path::new("nowhere/kubeconfig")).await else {
            panic!("connected with a kubeconfig that does not exist");
        };
        assert!(error.to_string().contains("nowhere/kubeconfig"), "{error}");
    }
}
