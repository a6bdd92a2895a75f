//! LEADERSHIP: who may act. A Lease cannot fence etcd, so the gate asks [`Leadership`] before each write, by the monotonic clock.

mod elector;
mod older;
mod rivals;
mod step;

use std::time::Duration;

use api::scope::Scope;
use k8s_openapi::{api::coordination::v1::Lease, apimachinery::pkg::apis::meta::v1::OwnerReference};
use tokio::{sync::watch, time::Instant};

pub use elector::Elector;
pub use rivals::Rivals;
pub use step::{Next, Record, View};

/// For how long the others leave a silent holder in place.
pub const LEASE_DURATION: Duration = Duration::from_secs(15);
/// For how long a holder that cannot renew still holds itself for the leader.
pub const RENEW_DEADLINE: Duration = Duration::from_secs(10);
/// How often the Lease is looked at, or renewed.
pub const RETRY_PERIOD: Duration = Duration::from_secs(2);
/// The Lease of who looks after one namespace. Older releases had this one name for both scopes (`older.rs`).
pub const LEASE_NAMESPACED: &str = "etcd-operator";
/// The Lease of who looks after all namespaces.
pub const LEASE_CLUSTER_WIDE: &str = "etcd-operator-cluster-wide";

/// The Lease of the operators of this scope. A namespaced and a cluster-wide one look after different resources: in one namespace, neither
/// waits for the other.
#[must_use]
pub const fn lease_name(scope: Scope) -> &'static str {
    match scope {
        Scope::Namespaced => LEASE_NAMESPACED,
        Scope::ClusterWide => LEASE_CLUSTER_WIDE,
    }
}

/// Who runs, for what.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// What it is called in the Lease.
    pub identity: String,
    /// Which resources it would look after.
    pub scope: Scope,
    /// What the Lease belongs to while it is held, so that it goes when the operator is uninstalled.
    pub owner: Option<OwnerReference>,
}

impl Candidate {
    /// Under the name of its pod; with a random part, because a pod's name can come twice, and its scope, which older releases do not have.
    #[must_use]
    pub fn new(pod: &str, scope: Scope, owner: Option<OwnerReference>) -> Self {
        let identity = format!("{pod}_{:016x}_{}", rand::random::<u64>(), word(scope));
        Self { identity, scope, owner }
    }
}

const fn word(scope: Scope) -> &'static str {
    match scope {
        Scope::Namespaced => "namespaced",
        Scope::ClusterWide => "cluster-wide",
    }
}

/// Whether a holder of the Lease is of an older release: it does not say of which scope it is.
fn is_older(holder: &str) -> bool {
    let last = holder.rsplit('_').next();
    ![Scope::Namespaced, Scope::ClusterWide].into_iter().any(|scope| last == Some(word(scope)))
}

fn record_of(lease: &Lease) -> Record {
    let spec = lease.spec.clone().unwrap_or_default();
    Record {
        holder: spec.holder_identity,
        transitions: spec.lease_transitions.unwrap_or(0),
        version: lease.metadata.resource_version.clone().unwrap_or_default(),
    }
}

/// Whether this process leads, and since when that is certain. All clones are one.
#[derive(Clone, Debug)]
pub struct Leadership {
    duration: Duration,
    term: watch::Sender<Term>,
}

/// A time of leading or of following. Each has a number of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Term {
    number: u64,
    /// When the last renewal that succeeded was sent.
    renewed: Option<Instant>,
}

impl Leadership {
    /// Nobody's yet.
    #[must_use]
    pub fn new(duration: Duration) -> Self {
        Self { duration, term: watch::Sender::new(Term { number: 0, renewed: None }) }
    }

    /// Whether a write that may be under way for this long is over before anybody else can lead.
    #[must_use]
    pub fn lasts(&self, limit: Duration) -> bool {
        self.term.borrow().renewed.is_some_and(|renewed| renewed.elapsed() + limit < self.duration)
    }

    /// The number of this time of leading; none while somebody else leads. What was remembered in another one is worth nothing.
    #[must_use]
    pub fn term(&self) -> Option<u64> {
        let term = *self.term.borrow();
        term.renewed.filter(|renewed| renewed.elapsed() < self.duration).map(|_| term.number)
    }

    /// Whether this process may lead again without anybody hearing of it: it is past its time, or near its end, and nobody has said yet that
    /// it lost. Whoever did not act for that reason asks again; all others are woken when a time of leading begins.
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.term.borrow().renewed.is_some()
    }

    /// The Lease was renewed by a write that was sent then. If it was `ours` until then, nobody else has led since this process last did:
    /// that is the same time of leading, even if this process gave itself up in between.
    pub fn renewed(&self, sent: Instant, ours: bool) {
        self.term.send_if_modified(|term| {
            let begins = term.renewed.is_none();
            term.renewed = Some(sent);
            term.number += u64::from(begins && !ours);
            begins
        });
    }

    /// Somebody else may lead.
    pub fn lost(&self) {
        self.term.send_if_modified(|term| term.renewed.take().is_some());
    }

    /// Since when the Lease has not been renewed.
    fn unrenewed_for(&self) -> Option<Duration> {
        self.term.borrow().renewed.map(|renewed| renewed.elapsed())
    }

    /// Tells when a time of leading begins or ends.
    #[must_use]
    pub fn changes(&self) -> Changes {
        Changes(self.term.subscribe())
    }
}

/// Tells when a time of leading begins or ends.
#[derive(Debug)]
pub struct Changes(watch::Receiver<Term>);

impl Changes {
    /// Waits for the next change. Whether this process leads now; nothing once nobody elects any more.
    pub async fn next(&mut self) -> Option<bool> {
        self.0.changed().await.ok()?;
        Some(self.0.borrow_and_update().renewed.is_some())
    }

    /// Waits until this process leads.
    pub async fn leads(&mut self) {
        // The sender lives in every clone of the leadership; were all gone, there would be nobody to lead.
        if self.0.wait_for(|term| term.renewed.is_some()).await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_scope_has_a_lease_of_its_own_and_its_holder_says_of_which_scope_it_is() {
        assert_ne!(lease_name(Scope::Namespaced), lease_name(Scope::ClusterWide));
        for scope in [Scope::Namespaced, Scope::ClusterWide] {
            let candidate = Candidate::new("etcd-operator-7d9", scope, None);
            assert!(candidate.identity.starts_with("etcd-operator-7d9_") && !is_older(&candidate.identity));
        }
        assert!(is_older("etcd-operator-7d9_0123456789abcdef"));
    }

    #[tokio::test(start_paused = true)]
    async fn leading_ends_by_itself_when_nobody_renews() {
        let leadership = Leadership::new(LEASE_DURATION);
        assert_eq!(leadership.term(), None);
        leadership.renewed(Instant::now(), false);
        assert_eq!(leadership.term(), Some(1));
        tokio::time::advance(LEASE_DURATION).await;
        assert_eq!(leadership.term(), None);
        assert!(!leadership.lasts(Duration::ZERO));
        assert!(leadership.is_held(), "a renewal that comes late begins no new term, and wakes nobody");
        leadership.renewed(Instant::now(), false);
        assert_eq!(leadership.term(), Some(1));
        leadership.lost();
        assert!(!leadership.is_held());
    }

    #[tokio::test(start_paused = true)]
    async fn a_renewal_counts_from_when_it_was_sent_and_begins_no_new_term() {
        let leadership = Leadership::new(LEASE_DURATION);
        let sent = Instant::now();
        tokio::time::advance(Duration::from_secs(4)).await;
        leadership.renewed(sent, false);
        assert!(leadership.lasts(Duration::from_secs(10)) && !leadership.lasts(Duration::from_secs(11)));
        leadership.renewed(Instant::now(), false);
        assert_eq!(leadership.term(), Some(1));
        leadership.lost();
        leadership.renewed(Instant::now(), false);
        assert_eq!(leadership.term(), Some(2), "what was remembered before is worth nothing");
    }

    #[tokio::test(start_paused = true)]
    async fn who_gave_itself_up_and_finds_the_lease_its_own_goes_on_with_its_time_and_tells_it() {
        let leadership = Leadership::new(LEASE_DURATION);
        leadership.renewed(Instant::now(), false);
        leadership.lost();
        let mut changes = leadership.changes();
        leadership.renewed(Instant::now(), true);
        assert_eq!((leadership.term(), changes.next().await), (Some(1), Some(true)));
        leadership.lost();
        leadership.renewed(Instant::now(), false);
        assert_eq!(leadership.term(), Some(2), "somebody else may have led");
    }
}
