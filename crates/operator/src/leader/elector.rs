//! LEADERSHIP, the part that talks to the API server: reads and writes the Lease, always with the version that was read.

use std::{future::Future, time::Duration};

use k8s_openapi::{
    api::coordination::v1::{Lease, LeaseSpec},
    apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta, OwnerReference},
    jiff::Timestamp,
};
use kube::{Api, api::PostParams};
use tokio::time::{Instant, sleep, timeout};
use tracing::{info, warn};

use super::{LEASE_DURATION, LEASE_NAME, Leadership, Next, RENEW_DEADLINE, RETRY_PERIOD, Record, View};
use crate::gate::{Failure, Gate};

/// How long a call about the Lease may take: an API server that is slow, or whose answer is lost once, costs nobody the lead.
const LIMIT: Duration = Duration::from_secs(5);
/// For how long it is tried to give the Lease back.
const FAREWELL: Duration = Duration::from_secs(5);

/// Runs for office, and stays in it.
pub struct Elector {
    api: Api<Lease>,
    gate: Gate,
    leadership: Leadership,
    /// Who we are: a pod's name and a random part, because a pod's name can come twice.
    me: String,
    /// What the Lease belongs to while we hold it, so that it goes when the operator is uninstalled.
    owner: Option<OwnerReference>,
    view: View,
    held: Option<Lease>,
    /// When the Lease became ours for the time of leading that goes on, as it says itself. Another moment is another time.
    acquired: Option<MicroTime>,
}

impl Elector {
    /// Runs under this name.
    #[must_use]
    pub fn new(
        api: Api<Lease>,
        gate: Gate,
        leadership: Leadership,
        me: String,
        owner: Option<OwnerReference>,
    ) -> Self {
        Self { api, gate, leadership, me, owner, view: View::new(Instant::now()), held: None, acquired: None }
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
        if let Err(failure) = self.step().await {
            // Of a write without an answer nobody knows whether it happened: the Lease is read again.
            self.held = None;
            warn!(%failure, "the Lease could not be read or written");
        }
        let leading = self.leadership.unrenewed_for();
        if leading.is_some_and(|unrenewed| unrenewed >= RENEW_DEADLINE) {
            warn!("the Lease could not be renewed in time: this process does not lead any more");
            self.leadership.lost();
        }
    }

    async fn step(&mut self) -> Result<(), Failure> {
        let current = self.current().await?;
        match self.view.next(&self.me, Instant::now(), LEASE_DURATION) {
            Next::Follow => {
                self.leadership.lost();
                Ok(())
            }
            Next::Create => self.write(None).await,
            Next::Take | Next::Renew => self.write(current).await,
        }
    }

    /// The Lease as it is: read, unless it is as we left it.
    async fn current(&mut self) -> Result<Option<Lease>, Failure> {
        if self.held.is_none() {
            let lease = timeout(LIMIT, self.api.get_opt(LEASE_NAME)).await;
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
            let call = self.api.replace(LEASE_NAME, &params, &lease);
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
                    info!(identity = %self.me, "this process leads");
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
        let ours = spec.holder_identity.as_deref() == Some(self.me.as_str());
        let transitions = spec.lease_transitions.unwrap_or(0);
        let seconds = i32::try_from(LEASE_DURATION.as_secs()).unwrap_or(i32::MAX);
        let mut metadata = current.map_or_else(ObjectMeta::default, |lease| lease.metadata.clone());
        metadata.name = Some(LEASE_NAME.to_owned());
        if !ours {
            metadata.owner_references = self.owner.clone().map(|owner| vec![owner]);
        }
        Lease {
            metadata,
            spec: Some(LeaseSpec {
                holder_identity: Some(self.me.clone()),
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
        if spec.holder_identity.as_deref() != Some(self.me.as_str()) {
            return Ok(());
        }
        spec.holder_identity = Some(String::new());
        spec.lease_duration_seconds = Some(1);
        spec.renew_time = Some(MicroTime(Timestamp::now()));
        let params = PostParams::default();
        let call = self.api.replace(LEASE_NAME, &params, &lease);
        self.gate.write_lease("ReleaseLease", LIMIT, call).await?;
        info!("the Lease is given back");
        Ok(())
    }
}

fn record_of(lease: &Lease) -> Record {
    let spec = lease.spec.clone().unwrap_or_default();
    Record {
        holder: spec.holder_identity,
        transitions: spec.lease_transitions.unwrap_or(0),
        version: lease.metadata.resource_version.clone().unwrap_or_default(),
    }
}
