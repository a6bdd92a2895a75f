//! LEADERSHIP beside older releases: those had one Lease for both scopes. Who holds that one and does not say of which scope it is may look
//! after all namespaces, so a cluster-wide operator does not lead beside it.
//!
//! An upgrade has no moment with two leaders: the new one waits until the old one has given its Lease back, or was silent for its whole
//! duration. A rollback has one of at most [`super::RETRY_PERIOD`] and a look: the old one asks for nobody but its own Lease. Until the new one
//! sees it, each of them re-checks what it decided on when it acts, as two leaders of one Lease do that is late to run out.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use tokio::time::{Instant, timeout};

use super::{LEASE_DURATION, LEASE_NAMESPACED, View, is_older, record_of};
use crate::gate::Failure;

/// How long reading that Lease may take.
const LIMIT: Duration = Duration::from_secs(5);

/// What is known of a leader of an older release.
pub(super) struct Older {
    api: Api<Lease>,
    view: View,
}

impl Older {
    pub(super) fn new(api: Api<Lease>) -> Self {
        Self { api, view: View::new(Instant::now()) }
    }

    /// Reads its Lease.
    pub(super) async fn look(&mut self) -> Result<(), Failure> {
        let lease = timeout(LIMIT, self.api.get_opt(LEASE_NAMESPACED)).await;
        let lease = lease.map_err(|_| Failure::NoAnswer(LIMIT))?.map_err(Failure::Api)?;
        self.view.saw(lease.as_ref().map(record_of), Instant::now());
        Ok(())
    }

    /// Who of an older release may lead.
    pub(super) fn leader(&self) -> Option<&str> {
        self.view.other("", Instant::now(), LEASE_DURATION).filter(|holder| is_older(holder))
    }
}
