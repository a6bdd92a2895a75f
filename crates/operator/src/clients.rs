//! OBSERVE's and ACT's way to the API server: how it is reached, and a deadline for every read.

use std::{future::Future, path::Path, sync::Arc, time::Duration};

use axum::http::{HeaderValue, header::USER_AGENT};
use kube::{
    Client, Config,
    config::{KubeConfigOptions, Kubeconfig},
};
use tokio::time::timeout;

use crate::{gate::words, metrics::Metrics};

/// How long a read may take.
pub const READ_LIMIT: Duration = Duration::from_secs(5);

/// For how many seconds the API server is asked to go on with a watch. Then it ends it, and the next one goes on from there: what ends
/// at a known time can be missed. A machine that dies says nothing to those who watch, and nobody would heal meanwhile.
pub const WATCH_SECONDS: u32 = 30;

/// How long a connection may be silent: longer than a watch may last.
const SILENCE_LIMIT: Duration = Duration::from_secs(40);

/// Why there is no way to the API server.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// A kubeconfig cannot be used.
    #[error("reading the kubeconfig {path}")]
    Kubeconfig {
        /// Which.
        path: String,
        /// Why.
        #[source]
        source: kube::config::KubeconfigError,
    },
    /// There is neither a kubeconfig nor a service account.
    #[error(
        "there is no Kubernetes to talk to: neither a service account (in a pod) nor a kubeconfig (--kubeconfig, KUBECONFIG)"
    )]
    Nothing(#[source] kube::config::InferConfigError),
    /// The client cannot be made.
    #[error("making a client for the Kubernetes API")]
    Client(#[source] kube::Error),
}

/// Why a read has no good answer.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// It took too long.
    #[error("{what}: no answer within {} s", READ_LIMIT.as_secs())]
    NoAnswer {
        /// What was read.
        what: &'static str,
    },
    /// The API server answered with an error, or could not be reached.
    #[error("{what}: {}", words(source))]
    Api {
        /// What was read.
        what: &'static str,
        /// Why.
        #[source]
        source: kube::Error,
    },
}

impl ReadError {
    /// Whether the API server said that it has no such thing.
    #[must_use]
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::Api { source: kube::Error::Api(status), .. } if status.code == 404)
    }
}

/// How the API server is reached. Without the client's own retries: they repeat any call for minutes, creations too, and whether
/// to ask again is decided by looking again.
pub async fn config(kubeconfig: Option<&Path>) -> Result<Config, ClientError> {
    let mut config = match kubeconfig {
        Some(path) => {
            let failed = |source| ClientError::Kubeconfig { path: path.display().to_string(), source };
            let file = Kubeconfig::read_from(path).map_err(failed)?;
            Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await.map_err(failed)?
        }
        None => Config::infer().await.map_err(ClientError::Nothing)?,
    };
    config.default_retry = false;
    config.connect_timeout = Some(READ_LIMIT);
    config.read_timeout = Some(SILENCE_LIMIT);
    // Who reads the audit log can tell us from everybody else.
    let agent = HeaderValue::from_static(concat!("etcd-operator/", env!("CARGO_PKG_VERSION")));
    config.headers.push((USER_AGENT, agent));
    Ok(config)
}

/// A client of that API server.
pub fn client(config: Config) -> Result<Client, ClientError> {
    Client::try_from(config).map_err(ClientError::Client)
}

/// A read with a deadline, with words for what went wrong.
pub async fn deadline<T>(call: impl Future<Output = Result<T, kube::Error>>) -> Result<T, String> {
    match timeout(READ_LIMIT, call).await {
        Ok(answer) => answer.map_err(|error| words(&error)),
        Err(_) => Err(format!("no answer within {} s", READ_LIMIT.as_secs())),
    }
}

/// A read with a deadline, counted.
pub async fn read<T>(
    metrics: &Arc<Metrics>,
    what: &'static str,
    call: impl Future<Output = Result<T, kube::Error>>,
) -> Result<T, ReadError> {
    let answer = match timeout(READ_LIMIT, call).await {
        Ok(answer) => answer.map_err(|source| ReadError::Api { what, source }),
        Err(_) => Err(ReadError::NoAnswer { what }),
    };
    metrics.call(
        "read",
        what,
        match &answer {
            Ok(_) => "done",
            Err(ReadError::NoAnswer { .. }) => "no answer",
            Err(ReadError::Api { .. }) => "failed",
        },
    );
    answer
}
