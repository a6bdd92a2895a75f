//! The loop's beginning and end: starts every part, and stops them in the right order.

use std::{sync::Arc, time::Duration};

use api::scope::Scope;
use etcd_admin::Connect;
use k8s_openapi::api::coordination::v1::Lease;
use kube::{Api, Client};
use tokio::{sync::oneshot, task::JoinSet, time::timeout};
use tracing::{error, info, warn};

use crate::{
    busy::Busy,
    clients::{self, ClientError},
    clock::Clock,
    crds,
    flags::Flags,
    gate::Gate,
    health::Health,
    http::{self, HttpError},
    identity::{Identity, IdentityError},
    kinds::NOT_YET,
    kubernetes,
    leader::{Candidate, Elector, LEASE_DURATION, Leadership, Rivals},
    memory::Memories,
    metrics::Metrics,
    observe::Observer,
    report::Reporter,
    round::Context,
    watch::{self, Stop, Where},
};

/// How long rounds under way may take to end. Kubernetes gives a pod 30 s.
const GRACE: Duration = Duration::from_secs(20);

/// Why the operator does not run.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// There is no way to the API server.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// It does not know who it is.
    #[error(transparent)]
    Identity(#[from] IdentityError),
    /// It cannot be asked.
    #[error(transparent)]
    Http(#[from] HttpError),
    /// A part of it has panicked.
    #[error("a part of the operator has ended by itself: only a new process can be trusted")]
    Ended,
}

/// Runs until it is stopped.
pub async fn run(flags: Flags, stop: Stop) -> Result<(), RunError> {
    let client = clients::client(clients::config(flags.kubeconfig.as_deref()).await?)?;
    // First: while the API server is waited for, this process lives, and says so.
    let (metrics, health) = (Arc::new(Metrics::new()), Arc::new(Health::default()));
    let listener = http::listen(flags.listen_addr).await?;
    let server = tokio::spawn(http::serve(listener, Arc::clone(&metrics), Arc::clone(&health), stop.clone()));
    let identity = tokio::select! {
        identity = Identity::find(&flags, &client) => identity?,
        () = stop.clone() => return Ok(()),
    };
    info!(
        version = env!("CARGO_PKG_VERSION"), namespace = identity.namespace, name = identity.name, scope = ?flags.scope(),
        launcher_image = identity.operator.launcher_image, "starting"
    );
    let (scope, create_crd) = (flags.scope(), flags.create_crd);
    let (connect, clock) = (Connect::default(), Clock::default());
    Operator { client, identity, scope, create_crd, connect, clock, metrics, health }.run(stop).await?;
    match timeout(Duration::from_secs(1), server).await {
        Ok(Ok(ended)) => ended.map_err(RunError::Http),
        _ => Ok(()),
    }
}

/// An operator that knows who it is and how everything is reached.
pub struct Operator {
    /// The way to the API server.
    pub client: Client,
    /// Who it is.
    pub identity: Identity,
    /// Which resources are its own.
    pub scope: Scope,
    /// Whether it writes the CRDs.
    pub create_crd: bool,
    /// The way to members.
    pub connect: Connect,
    /// What time it is.
    pub clock: Clock,
    /// What it counts.
    pub metrics: Arc<Metrics>,
    /// What it tells of itself.
    pub health: Arc<Health>,
}

impl Operator {
    /// Runs until it is stopped, and gives the Lease back.
    pub async fn run(mut self, stop: Stop) -> Result<(), RunError> {
        let busy = Busy::default();
        self.client = busy.listen(self.client);
        let leadership = Leadership::new(LEASE_DURATION);
        let gate = Gate::new(leadership.clone(), Arc::clone(&self.metrics));
        let context = Arc::new(self.context(&gate, &leadership, busy));
        let (elections_end, end) = oneshot::channel::<()>();
        let elector = self.elector(&gate, &leadership);
        // Tasks of this future, not of the runtime: who drops it ends everything, as the end of a process would.
        let mut elections = JoinSet::new();
        elections.spawn(elector.run(async { drop(end.await) }));
        let mut background = JoinSet::new();
        background.spawn(tell_leadership(leadership.clone(), Arc::clone(&self.metrics)));
        background.spawn(kubernetes::check(self.client.clone(), Arc::clone(&self.health)));
        if self.scope == Scope::ClusterWide {
            background.spawn(self.rivals(&gate, &leadership).run());
        }
        let mut crds = JoinSet::new();
        if self.create_crd {
            let health = Arc::clone(&self.health);
            crds.spawn(create_crds(self.client.clone(), gate, leadership, health, stop.clone()));
        }
        let mut watches = self.watches(&context, &stop);
        let outcome = tokio::select! {
            biased;
            () = stop => Ok(()),
            _ = watches.join_next() => Err(RunError::Ended),
            _ = elections.join_next() => Err(RunError::Ended),
        };
        if let Err(ended) = &outcome {
            // Writes that end here in the middle may still land, so the Lease is left to run out.
            error!("{ended}");
            return outcome;
        }
        info!("stopping: rounds under way are finished first");
        let (rounds, writers) = tokio::join!(ended(watches), ended(crds));
        // Only now: who takes over must not meet a write of ours.
        if rounds && writers {
            drop(elections_end);
            if !ended(elections).await {
                warn!("the Lease could not be given back in time");
            }
        } else {
            warn!(
                "rounds did not end in time: what they have sent may still land, so the Lease is left to run out"
            );
        }
        outcome
    }

    fn context(&self, gate: &Gate, leadership: &Leadership, busy: Busy) -> Context {
        let (client, metrics) = (self.client.clone(), Arc::clone(&self.metrics));
        Context {
            client: client.clone(),
            gate: gate.clone(),
            leadership: leadership.clone(),
            busy,
            scope: self.scope,
            operator: self.identity.operator.clone(),
            memories: Memories::default(),
            clock: self.clock,
            observer: Observer::new(client.clone(), Arc::clone(&metrics), self.connect.clone(), self.clock),
            reporter: Reporter::new(client, gate.clone(), self.identity.name.clone()),
            metrics,
        }
    }

    fn elector(&self, gate: &Gate, leadership: &Leadership) -> Elector {
        let leases: Api<Lease> = Api::namespaced(self.client.clone(), &self.identity.namespace);
        let me = Candidate::new(&self.identity.name, self.scope, self.identity.owner.clone());
        Elector::new(leases, gate.clone(), leadership.clone(), me, Arc::clone(&self.health))
    }

    fn rivals(&self, gate: &Gate, leadership: &Leadership) -> Rivals {
        Rivals {
            client: self.client.clone(),
            gate: gate.clone(),
            leadership: leadership.clone(),
            health: Arc::clone(&self.health),
            metrics: Arc::clone(&self.metrics),
            namespace: self.identity.namespace.clone(),
            me: self.identity.name.clone(),
        }
    }

    fn watches(&self, context: &Arc<Context>, stop: &Stop) -> JoinSet<()> {
        let place = Where {
            client: self.client.clone(),
            scope: self.scope,
            namespace: self.identity.namespace.clone(),
        };
        let of = || (place.clone(), Arc::clone(context), Arc::clone(&self.health), stop.clone());
        let mut watches = JoinSet::new();
        let (place, context, health, stop) = of();
        watches.spawn(watch::clusters(place, context, health, stop));
        for kind in NOT_YET {
            let (place, context, health, stop) = of();
            watches.spawn(watch::not_yet(place, kind, context, health, stop));
        }
        watches
    }
}

/// Waits for tasks that were told to end, and ends those that do not. Whether all did by themselves.
async fn ended(mut tasks: JoinSet<()>) -> bool {
    let all = async { while tasks.join_next().await.is_some() {} };
    timeout(GRACE, all).await.is_ok()
}

async fn create_crds(client: Client, gate: Gate, leadership: Leadership, health: Arc<Health>, stop: Stop) {
    let mut changes = leadership.changes();
    tokio::select! {
        () = changes.leads() => crds::ensure(client, gate, health, stop).await,
        () = stop.clone() => {}
    }
}

async fn tell_leadership(leadership: Leadership, metrics: Arc<Metrics>) {
    let mut changes = leadership.changes();
    // It may lead already: the first election is not waited for, and a change from before is not told.
    metrics.leads(leadership.is_held());
    while let Some(leads) = changes.next().await {
        metrics.leads(leads);
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn who_leads_before_anybody_listens_is_said_to_lead() {
        let leadership = Leadership::new(Duration::from_secs(15));
        leadership.renewed(Instant::now(), false);
        let metrics = Arc::new(Metrics::new());
        let telling = tell_leadership(leadership.clone(), Arc::clone(&metrics));
        assert!(timeout(Duration::from_secs(1), telling).await.is_err(), "it goes on telling");
        assert!(metrics.text().contains("etcd_operator_leader 1"), "{}", metrics.text());
    }
}
