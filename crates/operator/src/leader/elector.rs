//! LEADERSHIP, the part that talks to the API server: reads and writes the Lease, always with the version that was read.

use std::{future::Future, sync::Arc, time::Duration};

use api::scope::Scope;
use k8s_openapi::{
    api::coordination::v1::{Lease, LeaseSpec},
    apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta},
    jiff::Timestamp,
};
use kube::{Api, api::PostParams};
use tokio::time::{Instant, sleep, timeout};
use tracing::{info, warn};

use super::{
    Candidate, LEASE_DURATION, Leadership, Next, RENEW_DEADLINE, RETRY_PERIOD, View, lease_name,
    older::Older, record_of,
};
use crate::{
    gate::{Failure, Gate},
    health::{Health, LEASE},
};

/// How long a call about the Lease may take: an API server that is slow, or whose answer is lost once, costs nobody the lead.
const LIMIT: Duration = Duration::from_secs(5);
/// For how long it is tried to give the Lease back.
const FAREWELL: Duration = Duration::from_secs(5);

/// Runs for office, and stays in it.
pub struct Elector {
    api: Api<Lease>,
    gate: Gate,
    leadership: Leadership,
    me: Candidate,
    health: Arc<Health>,
    view: View,
    /// Whoever of an older release would lead over the same resources with another Lease.
    older: Option<Older>,
    held: Option<Lease>,
    /// When the Lease became ours for the time of leading that goes on, as it says itself. Another moment is another time.
    acquired: Option<MicroTime>,
}

impl Elector {
    /// Runs for the Lease of its scope, among these.
    #[must_use]
    pub fn new(
        api: Api<Lease>,
        gate: Gate,
        leadership: Leadership,
        me: Candidate,
        health: Arc<Health>,
    ) -> Self {
        let older = (me.scope == Scope::ClusterWide).then(|| Older::new(api.clone()));
        let view = View::new(Instant::now());
        Self { api, gate, leadership, me, health, view, older, held: None, acquired: None }
    }

    /// Runs until it is stopped, and then gives the Lease back, so that the next leader need not wait.
    pub async fn run(mut self, stop: impl Future<Output = ()>) {
        tokio::pin!(stop);
        loop {
            self.look().await;
            tokio::select! {
                () = &mut stop => break,
                () = sleep(RETRY_PERIOD) => {}
            }
        }
        self.release().await;
    }

    async fn look(&mut self) {
        let mut older = self.older.take();
        self.step_beside(older.as_mut()).await;
        self.older = older;
        let leading = self.leadership.unrenewed_for();
        if leading.is_some_and(|unrenewed| unrenewed >= RENEW_DEADLINE) {
            warn!("the Lease could not be renewed in time: this process does not lead any more");
            self.leadership.lost();
        }
    }

    /// Looks at the Lease, unless somebody of an older release leads.
    async fn step_beside(&mut self, older: Option<&mut Older>) {
        let Some(older) = older else {
            let tried = self.step().await;
            return self.tried(tried);
        };
        if self.leadership.term().is_some() {
            // A renewal does not wait for the other answer: an API server that is slow costs nobody the lead.
            let (seen, tried) = tokio::join!(older.look(), self.step());
            self.tried(tried);
            tell_failed(&seen);
        } else {
            let seen = older.look().await;
            tell_failed(&seen);
            if seen.is_ok() && older.leader().is_none() {
                let tried = self.step().await;
                self.tried(tried);
            }
        }
        let Some(holder) = older.leader() else { return };
        self.leadership.lost();
        // It leads from now on: what comes after it is another time of leading.
        self.acquired = None;
        self.stand_by(&format!(
            "stands by for {holder}, which holds the Lease {} and is of an older release: whether it looks after one namespace or after all cannot be told. It ends when that one is upgraded",
            lease_name(Scope::Namespaced)
        ));
    }

    fn tried(&mut self, step: Result<(), Failure>) {
        if let Err(failure) = step {
            // Of a write without an answer nobody knows whether it happened: the Lease is read again.
            self.held = None;
            warn!(%failure, "the Lease could not be read or written");
        }
    }

    /// Says why this process does nothing.
    fn stand_by(&self, why: &str) {
        if self.health.remark(LEASE, why.to_owned()) {
            info!("{why}");
        }
    }

    async fn step(&mut self) -> Result<(), Failure> {
        let current = self.current().await?;
        match self.view.next(&self.me.identity, Instant::now(), LEASE_DURATION) {
            Next::Follow => {
                self.leadership.lost();
                let holder = self.view.last().and_then(|record| record.holder.clone()).unwrap_or_default();
                self.stand_by(&format!("stands by for {holder}, which holds the Lease {}", self.lease()));
                Ok(())
            }
            Next::Create => self.write(None).await,
            Next::Take | Next::Renew => self.write(current).await,
        }
    }

    const fn lease(&self) -> &'static str {
        lease_name(self.me.scope)
    }

    /// The Lease as it is: read, unless it is as we left it.
    async fn current(&mut self) -> Result<Option<Lease>, Failure> {
        if self.held.is_none() {
            let lease = timeout(LIMIT, self.api.get_opt(self.lease())).await;
            let lease = lease.map_err(|_| Failure::NoAnswer(LIMIT))?.map_err(Failure::Api)?;
            self.view.saw(lease.as_ref().map(record_of), Instant::now());
            self.held = lease;
        }
        Ok(self.held.take())
    }

    async fn write(&mut self, current: Option<Lease>) -> Result<(), Failure> {
        let lease = self.claim(current.as_ref(), Timestamp::now());
        let sent = Instant::now();
        let params = PostParams::default();
        let answer = if current.is_some() {
            let call = self.api.replace(self.lease(), &params, &lease);
            self.gate.write_lease("RenewLease", LIMIT, call).await
        } else {
            self.gate.write_lease("CreateLease", LIMIT, self.api.create(&params, &lease)).await
        };
        match answer {
            Ok(lease) => {
                self.view.saw(Some(record_of(&lease)), Instant::now());
                let acquired = lease.spec.as_ref().and_then(|spec| spec.acquire_time.clone());
                // A claim whose answer was lost is found our own, too, but somebody else led before it.
                let ours = acquired.is_some() && acquired == self.acquired;
                self.acquired = acquired;
                self.held = Some(lease);
                if self.leadership.unrenewed_for().is_none() {
                    info!(identity = %self.me.identity, "this process leads");
                    self.health.remark(LEASE, "this process leads".to_owned());
                }
                self.leadership.renewed(sent, ours);
                Ok(())
            }
            // Somebody was faster: what they wrote is read next time.
            Err(Failure::Api(kube::Error::Api(status))) if status.code == 409 => Ok(()),
            Err(failure) => Err(failure),
        }
    }

    /// The Lease with us as its holder.
    fn claim(&self, current: Option<&Lease>, now: Timestamp) -> Lease {
        let spec = current.and_then(|lease| lease.spec.clone()).unwrap_or_default();
        let ours = spec.holder_identity.as_deref() == Some(self.me.identity.as_str());
        let transitions = spec.lease_transitions.unwrap_or(0);
        let seconds = i32::try_from(LEASE_DURATION.as_secs()).unwrap_or(i32::MAX);
        let mut metadata = current.map_or_else(ObjectMeta::default, |lease| lease.metadata.clone());
        metadata.name = Some(self.lease().to_owned());
        if !ours {
            metadata.owner_references = self.me.owner.clone().map(|owner| vec![owner]);
        }
        Lease {
            metadata,
            spec: Some(LeaseSpec {
                holder_identity: Some(self.me.identity.clone()),
                lease_duration_seconds: Some(seconds),
                acquire_time: if ours { spec.acquire_time } else { Some(MicroTime(now)) },
                renew_time: Some(MicroTime(now)),
                lease_transitions: Some(transitions.saturating_add(i32::from(!ours && current.is_some()))),
                ..Default::default()
            }),
        }
    }

    async fn release(&mut self) {
        let leads = self.leadership.term().is_some();
        self.leadership.lost();
        if !leads {
            return;
        }
        let given_back = async {
            // The answer may be all that was lost: the Lease is read again.
            while let Err(failure) = self.give_back().await {
                warn!(%failure, "the Lease could not be given back");
                sleep(FAREWELL / 10).await;
            }
        };
        if timeout(FAREWELL, given_back).await.is_err() {
            warn!("the Lease is left to run out");
        }
    }

    /// Gives the Lease back, if it is ours.
    async fn give_back(&mut self) -> Result<(), Failure> {
        let Some(mut lease) = self.current().await? else { return Ok(()) };
        let Some(spec) = lease.spec.as_mut() else { return Ok(()) };
        if spec.holder_identity.as_deref() != Some(self.me.identity.as_str()) {
            return Ok(());
        }
        spec.holder_identity = Some(String::new());
        spec.lease_duration_seconds = Some(1);
        spec.renew_time = Some(MicroTime(Timestamp::now()));
        let params = PostParams::default();
        let call = self.api.replace(self.lease(), &params, &lease);
        self.gate.write_lease("ReleaseLease", LIMIT, call).await?;
        info!("the Lease is given back");
        Ok(())
    }
}

fn tell_failed(seen: &Result<(), Failure>) {
    if let Err(failure) = seen {
        warn!(%failure, "the Lease of older releases could not be read");
    }
}
