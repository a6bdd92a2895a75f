//! TALKING TO ETCD: how a member is reached.

use std::{future::Future, pin::Pin, sync::Arc, time::Duration};

use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Identity};

use crate::auth::Credentials;

/// A connection that does not come about within this time counts as unreachable.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// etcd hangs up on clients that ping more often than every 5 s.
const KEEP_ALIVE: Duration = Duration::from_secs(10);
/// A ping without an answer for this long ends the connection, and every call that waits on it.
const KEEP_ALIVE_TIMEOUT: Duration = Duration::from_secs(5);

/// How a certificate begins.
const PEM_CERTIFICATE: &[u8] = b"-----BEGIN CERTIFICATE-----";

/// Certificates for a connection, in PEM.
#[derive(Clone)]
pub struct Tls {
    /// The authorities that may have signed the member's certificate.
    pub ca: Vec<u8>,
    /// Our own certificate and key, where members ask for one.
    pub identity: Option<(Vec<u8>, Vec<u8>)>,
    /// The name to look for in the member's certificate, where it is not the host of the endpoint.
    pub server_name: Option<String>,
}

impl std::fmt::Debug for Tls {
    // The key must not reach a log.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tls").field("server_name", &self.server_name).finish_non_exhaustive()
    }
}

/// How the connections come about: the channel for etcd's RPC, and a single request over HTTP.
#[derive(Clone)]
pub struct Dial {
    channel: Arc<dyn Fn(&Endpoint) -> Channel + Send + Sync>,
    fetch: Fetch,
}

/// Gets what stands under a path of an endpoint.
type Fetch = Arc<dyn Fn(String, &'static str) -> Fetched + Send + Sync>;
/// What stands there; nothing where nobody says.
pub type Fetched = Pin<Box<dyn Future<Output = Option<Vec<u8>>> + Send>>;

impl Dial {
    /// Other ways than TCP: for tests, whose clock stands still while a real socket would be waited for.
    #[must_use]
    pub fn by(
        channel: impl Fn(&Endpoint) -> Channel + Send + Sync + 'static,
        fetch: impl Fn(String, &'static str) -> Fetched + Send + Sync + 'static,
    ) -> Self {
        Self { channel: Arc::new(channel), fetch: Arc::new(fetch) }
    }

    pub(crate) fn fetch(&self, endpoint: &str, path: &'static str) -> Fetched {
        (self.fetch)(endpoint.to_owned(), path)
    }
}

impl Default for Dial {
    fn default() -> Self {
        Self::by(Endpoint::connect_lazy, |endpoint, path| Box::pin(crate::version::get(endpoint, path)))
    }
}

impl std::fmt::Debug for Dial {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Dial").finish_non_exhaustive()
    }
}

/// How members of a cluster are reached.
#[derive(Debug, Clone)]
pub struct Connect {
    /// How long a call may take, connecting and logging in included, unless [`crate::Member::within`] says otherwise.
    pub deadline: Duration,
    /// Certificates, for `https` endpoints.
    pub tls: Option<Tls>,
    /// Who we are, where the cluster asks.
    pub credentials: Option<Arc<Credentials>>,
    /// How the connection itself comes about.
    pub dial: Dial,
}

impl Default for Connect {
    fn default() -> Self {
        Self { deadline: Duration::from_secs(5), tls: None, credentials: None, dial: Dial::default() }
    }
}

/// Why no handle can be made.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The endpoint is not a URL.
    #[error("\"{endpoint}\" is not an endpoint")]
    Endpoint {
        /// The text.
        endpoint: String,
        /// What is wrong with it.
        #[source]
        source: tonic::transport::Error,
    },
    /// The authorities hold no certificate. Left alone, nobody would be trusted and every member look unreachable.
    #[error("there is no certificate among the authorities for {endpoint}")]
    NoAuthority {
        /// The endpoint.
        endpoint: String,
    },
    /// The certificates cannot be used.
    #[error("using the certificates for {endpoint}")]
    Certificates {
        /// The endpoint.
        endpoint: String,
        /// What is wrong with them.
        #[source]
        source: tonic::transport::Error,
    },
}

/// A channel that connects when it is first used, and again when the connection breaks.
pub(crate) fn channel(endpoint: &str, connect: &Connect) -> Result<Channel, ConnectError> {
    let mut builder = Endpoint::from_shared(endpoint.to_owned())
        .map_err(|source| ConnectError::Endpoint { endpoint: endpoint.to_owned(), source })?
        .connect_timeout(CONNECT_TIMEOUT)
        .tcp_nodelay(true)
        .http2_keep_alive_interval(KEEP_ALIVE)
        .keep_alive_timeout(KEEP_ALIVE_TIMEOUT);
    if let Some(tls) = &connect.tls {
        if !tls.ca.windows(PEM_CERTIFICATE.len()).any(|part| part == PEM_CERTIFICATE) {
            return Err(ConnectError::NoAuthority { endpoint: endpoint.to_owned() });
        }
        let mut config = ClientTlsConfig::new().ca_certificate(Certificate::from_pem(&tls.ca));
        if let Some((certificate, key)) = &tls.identity {
            config = config.identity(Identity::from_pem(certificate, key));
        }
        if let Some(name) = &tls.server_name {
            config = config.domain_name(name);
        }
        builder = builder
            .tls_config(config)
            .map_err(|source| ConnectError::Certificates { endpoint: endpoint.to_owned(), source })?;
    }
    Ok((connect.dial.channel)(&builder))
}
