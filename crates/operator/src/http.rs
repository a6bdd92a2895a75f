//! REPORT, over HTTP: `/metrics`, `/healthz` and `/readyz`.

use std::{
    future::Future,
    io::ErrorKind,
    net::{Ipv4Addr, Ipv6Addr, SocketAddr},
    sync::Arc,
};

use axum::{
    Router,
    extract::State,
    http::{StatusCode, header},
    response::IntoResponse,
    routing::get,
};
use tokio::net::TcpListener;

use crate::{health::Health, metrics::Metrics};

/// Why nothing is served.
#[derive(Debug, thiserror::Error)]
pub enum HttpError {
    /// The address cannot be used.
    #[error("listening on {address} (--listen-addr)")]
    Listen {
        /// Which.
        address: SocketAddr,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// Serving ended.
    #[error("serving HTTP")]
    Serve(#[source] std::io::Error),
}

#[derive(Clone)]
struct Served {
    metrics: Arc<Metrics>,
    health: Arc<Health>,
}

/// Takes the address, so that a wrong one is said at the start. `[::]` is every address of the machine, those of IPv4 too; a machine without
/// IPv6 has only those.
pub async fn listen(address: SocketAddr) -> Result<TcpListener, HttpError> {
    let refused = |source| HttpError::Listen { address, source };
    match TcpListener::bind(address).await {
        Err(error) if address.ip() == Ipv6Addr::UNSPECIFIED && is_without_ipv6(&error) => {
            TcpListener::bind((Ipv4Addr::UNSPECIFIED, address.port())).await.map_err(refused)
        }
        bound => bound.map_err(refused),
    }
}

/// Whether the machine has no such addresses (`EAFNOSUPPORT`), or has switched them off.
fn is_without_ipv6(error: &std::io::Error) -> bool {
    const NO_SUCH_FAMILY: i32 = 97;
    error.raw_os_error() == Some(NO_SUCH_FAMILY) || error.kind() == ErrorKind::AddrNotAvailable
}

/// Serves until it is stopped.
pub async fn serve(
    listener: TcpListener,
    metrics: Arc<Metrics>,
    health: Arc<Health>,
    stop: impl Future<Output = ()> + Send + 'static,
) -> Result<(), HttpError> {
    let router = Router::new()
        .route("/metrics", get(metrics_text))
        .route("/healthz", get(async || "ok\n"))
        .route("/readyz", get(readiness))
        .with_state(Served { metrics, health });
    axum::serve(listener, router).with_graceful_shutdown(stop).await.map_err(HttpError::Serve)
}

async fn metrics_text(State(served): State<Served>) -> impl IntoResponse {
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    ([(header::CONTENT_TYPE, kind)], served.metrics.text())
}

async fn readiness(State(served): State<Served>) -> impl IntoResponse {
    let (ready, text) = served.health.ready();
    (if ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE }, text)
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpStream;

    use super::*;

    #[tokio::test]
    async fn by_default_every_address_is_listened_on() {
        let listener = listen("[::]:0".parse().unwrap()).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await.unwrap();
        if listener.local_addr().unwrap().is_ipv6() {
            TcpStream::connect((Ipv6Addr::LOCALHOST, port)).await.unwrap();
        }
        assert!(is_without_ipv6(&std::io::Error::from_raw_os_error(97)));
        assert!(!is_without_ipv6(&std::io::Error::from(ErrorKind::AddrInUse)));
    }
}
