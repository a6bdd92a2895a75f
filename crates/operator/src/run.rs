//! The loop's beginning and end: starts every part, and stops them in the right order.

use std::{sync::Arc, time::Duration};

use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use tokio::{sync::oneshot, task::JoinSet, time::timeout};
use tracing::{info, warn};

use crate::{
    clients::{self, ClientError},
    crds,
    flags::Flags,
    gate::Gate,
    health::Health,
    http::{self, HttpError},
    identity::{Identity, IdentityError},
    kinds::NOT_YET,
    leader::{Elector, LEASE_DURATION, Leadership},
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
    let leadership = Leadership::new(LEASE_DURATION);
    let gate = Gate::new(leadership.clone(), Arc::clone(&metrics));
    let context = Arc::new(Context {
        client: client.clone(),
        gate: gate.clone(),
        leadership: leadership.clone(),
        scope: flags.scope(),
        operator: identity.operator.clone(),
        memories: Memories::default(),
        observer: Observer::new(client.clone(), Arc::clone(&metrics)),
        reporter: Reporter::new(client.clone(), gate.clone(), identity.name.clone()),
        metrics: Arc::clone(&metrics),
    });

    let (elections_end, end) = oneshot::channel::<()>();
    let elector = elector(&identity, client.clone(), gate.clone(), leadership.clone());
    let elections = tokio::spawn(elector.run(async { drop(end.await) }));
    let mut background = JoinSet::new();
    background.spawn(tell_leadership(leadership.clone(), Arc::clone(&metrics)));
    if flags.create_crd {
        background.spawn(create_crds(client.clone(), gate, leadership));
    }

    let place = Where { client, scope: flags.scope(), namespace: identity.namespace };
    let mut watches = JoinSet::new();
    watches.spawn(watch::clusters(place.clone(), Arc::clone(&context), Arc::clone(&health), stop.clone()));
    for kind in NOT_YET {
        watches.spawn(watch::not_yet(
            place.clone(),
            kind,
            Arc::clone(&context),
            Arc::clone(&health),
            stop.clone(),
        ));
    }
    stop.await;
    info!("stopping: rounds under way are finished first");
    end_all(watches).await;
    // Only now: who takes over must not meet a write of ours.
    drop(elections_end);
    if timeout(GRACE, elections).await.is_err() {
        warn!("the Lease could not be given back in time");
    }
    background.abort_all();
    match timeout(Duration::from_secs(1), server).await {
        Ok(Ok(ended)) => ended.map_err(RunError::Http),
        _ => Ok(()),
    }
}

async fn end_all(mut tasks: JoinSet<()>) {
    let all = async { while tasks.join_next().await.is_some() {} };
    if timeout(GRACE, all).await.is_err() {
        warn!("rounds did not end in time");
    }
}

fn elector(identity: &Identity, client: kube::Client, gate: Gate, leadership: Leadership) -> Elector {
    let leases: Api<Lease> = Api::namespaced(client, &identity.namespace);
    let me = format!("{}_{:016x}", identity.name, rand::random::<u64>());
    Elector::new(leases, gate, leadership, me, identity.owner.clone())
}

async fn create_crds(client: kube::Client, gate: Gate, leadership: Leadership) {
    leadership.changes().leads().await;
    crds::ensure(client, gate).await;
}

async fn tell_leadership(leadership: Leadership, metrics: Arc<Metrics>) {
    let mut changes = leadership.changes();
    while let Some(leads) = changes.next().await {
        metrics.leads(leads);
    }
}
