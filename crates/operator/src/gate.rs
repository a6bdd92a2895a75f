//! ACT's one door: every write to Kubernetes or etcd passes here. It has a deadline, it is sent only while this process leads for
//! at least that long, and it is counted. Tests break what it sends on the wire (`crates/fakes`).

use std::{future::Future, sync::Arc, time::Duration};

use tokio::time::timeout;

use crate::{leader::Leadership, metrics::Metrics};

/// Why a write has no good answer.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// It was not sent.
    #[error("not sent: this process does not lead for long enough")]
    NotLeading,
    /// It was sent, and nobody knows what became of it.
    #[error("no answer within {} s; it may have happened all the same", .0.as_secs())]
    NoAnswer(Duration),
    /// The API server answered with an error, or could not be reached.
    #[error("{}", words(.0))]
    Api(#[source] kube::Error),
    /// etcd answered with an error, or could not be reached.
    #[error(transparent)]
    Etcd(etcd_admin::Error),
}

/// What the API server said, or why it said nothing, without the type names of the client.
#[must_use]
pub fn words(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) if !status.message.is_empty() => status.message.clone(),
        other => other.to_string(),
    }
}

/// The door.
#[derive(Clone)]
pub struct Gate {
    leadership: Leadership,
    metrics: Arc<Metrics>,
}

impl Gate {
    /// A door that is open while this leadership lasts.
    #[must_use]
    pub fn new(leadership: Leadership, metrics: Arc<Metrics>) -> Self {
        Self { leadership, metrics }
    }

    /// Sends a write that only the leader may send.
    pub async fn write<T>(
        &self,
        name: &'static str,
        limit: Duration,
        call: impl Future<Output = Result<T, kube::Error>>,
    ) -> Result<T, Failure> {
        self.lead(name, limit, call, Failure::Api).await
    }

    /// Sends a change to etcd, which only the leader may send. A Lease cannot fence etcd: that is what the deadline is for.
    pub async fn change<T>(
        &self,
        name: &'static str,
        limit: Duration,
        call: impl Future<Output = Result<T, etcd_admin::Error>>,
    ) -> Result<T, Failure> {
        self.lead(name, limit, call, Failure::Etcd).await
    }

    async fn lead<T, E>(
        &self,
        name: &'static str,
        limit: Duration,
        call: impl Future<Output = Result<T, E>>,
        failure: impl FnOnce(E) -> Failure,
    ) -> Result<T, Failure> {
        let outcome = if self.leadership.lasts(limit) {
            Self::send(limit, call, failure).await
        } else {
            Err(Failure::NotLeading)
        };
        self.count(name, &outcome);
        outcome
    }

    /// Sends a write to the Lease: that is how leadership comes about, so it cannot depend on it.
    pub async fn write_lease<T>(
        &self,
        name: &'static str,
        limit: Duration,
        call: impl Future<Output = Result<T, kube::Error>>,
    ) -> Result<T, Failure> {
        let outcome = Self::send(limit, call, Failure::Api).await;
        self.count(name, &outcome);
        outcome
    }

    async fn send<T, E>(
        limit: Duration,
        call: impl Future<Output = Result<T, E>>,
        failure: impl FnOnce(E) -> Failure,
    ) -> Result<T, Failure> {
        match timeout(limit, call).await {
            Ok(answer) => answer.map_err(failure),
            Err(_) => Err(Failure::NoAnswer(limit)),
        }
    }

    fn count<T>(&self, name: &'static str, outcome: &Result<T, Failure>) {
        self.metrics.call(
            "write",
            name,
            match outcome {
                Ok(_) => "done",
                Err(Failure::NotLeading) => "not sent",
                Err(Failure::NoAnswer(_)) => "no answer",
                Err(Failure::Api(_) | Failure::Etcd(_)) => "failed",
            },
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_secs(3);

    fn gate(leadership: &Leadership) -> Gate {
        Gate::new(leadership.clone(), Arc::new(Metrics::new()))
    }

    fn ok() -> impl Future<Output = Result<(), kube::Error>> {
        std::future::ready(Ok(()))
    }

    #[tokio::test(start_paused = true)]
    async fn a_write_is_sent_only_while_leadership_outlasts_its_deadline() {
        let leadership = Leadership::new(Duration::from_secs(15));
        let gate = gate(&leadership);
        assert!(matches!(gate.write("x", LIMIT, ok()).await, Err(Failure::NotLeading)));
        leadership.renewed(tokio::time::Instant::now(), false);
        assert!(gate.write("x", LIMIT, ok()).await.is_ok());
        tokio::time::advance(Duration::from_secs(12)).await;
        assert!(matches!(gate.write("x", LIMIT, ok()).await, Err(Failure::NotLeading)));
        assert!(gate.write("x", Duration::from_secs(2), ok()).await.is_ok());
        assert!(gate.write_lease("x", LIMIT, ok()).await.is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn a_write_without_an_answer_ends_at_its_deadline() {
        let leadership = Leadership::new(Duration::from_secs(15));
        leadership.renewed(tokio::time::Instant::now(), false);
        let never = std::future::pending::<Result<(), kube::Error>>();
        assert!(matches!(gate(&leadership).write("x", LIMIT, never).await, Err(Failure::NoAnswer(_))));
    }
}
