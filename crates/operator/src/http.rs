//! REPORT, over HTTP: `/metrics`, `/healthz` and `/readyz`.

use std::{future::Future, net::SocketAddr, sync::Arc};

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

/// Takes the address, so that a wrong one is said at the start.
pub async fn listen(address: SocketAddr) -> Result<TcpListener, HttpError> {
    TcpListener::bind(address).await.map_err(|source| HttpError::Listen { address, source })
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
