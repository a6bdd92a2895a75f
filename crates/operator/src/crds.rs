//! Before the loop: the CRDs. They are written if that is asked for; without, nothing is asked or written about CRDs, and whether a
//! kind is there is told by what the API server serves.

use std::time::Duration;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{
    Api, Client, ResourceExt,
    api::{Patch, PatchParams},
};
use tokio::time::sleep;
use tracing::{info, warn};

use crate::{
    act::FIELD_MANAGER,
    clients::deadline,
    gate::{Failure, Gate},
    health::{Health, Watched},
};

/// How long writing a CRD may take.
const LIMIT: Duration = Duration::from_secs(5);
/// How soon it is tried again.
const RETRY: Duration = Duration::from_secs(5);
/// The shortest and the longest time between two looks for a kind that is missing. Nothing tells us when it appears, short of a permission
/// to watch CRDs that a namespaced operator has not got.
const LOOK: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(5));

/// Writes the CRDs, as often as it takes, while this process leads.
pub async fn ensure(client: Client, gate: Gate) {
    let api: Api<CustomResourceDefinition> = Api::all(client);
    let mut said = String::new();
    for crd in api::crd::all() {
        let (name, params) = (crd.name_any(), PatchParams::apply(FIELD_MANAGER).force());
        let patch = Patch::Apply(&crd);
        loop {
            match gate.write("ApplyCRD", LIMIT, api.patch(&name, &params, &patch)).await {
                Ok(_) => break,
                Err(Failure::NotLeading) => {}
                Err(failure) if said != failure.to_string() => {
                    warn!(%failure, crd = name, "the CRD could not be written; give the operator the permission, or install the CRDs and start it with --create-crd=false");
                    said = failure.to_string();
                }
                Err(_) => {}
            }
            sleep(RETRY).await;
        }
        info!(crd = name, "the CRD is as this operator needs it");
    }
}

/// Waits until the API server serves a kind of ours.
pub async fn served(client: &Client, health: &Health, kind: &'static str, plural: &str) {
    let group_version = format!("{}/{}", api::GROUP, api::VERSION);
    let mut wait = LOOK.0;
    loop {
        let missing = match deadline(client.list_api_group_resources(&group_version)).await {
            Ok(list) if list.resources.iter().any(|resource| resource.name == plural) => break,
            Ok(_) => format!("the CRD {plural}.{} is missing, and is waited for", api::GROUP),
            Err(message) if message.contains("not found") || message.contains("could not find") => {
                format!("the CRD {plural}.{} is missing, and is waited for", api::GROUP)
            }
            Err(message) => format!("the API server does not say whether it has the kind: {message}"),
        };
        if health.note(kind, Watched::Missing(missing.clone())) {
            warn!(kind, "{missing}");
        }
        sleep(wait).await;
        wait = wait.saturating_mul(2).min(LOOK.1);
    }
    if health.note(kind, Watched::Starting) {
        info!(kind, "the kind is there");
    }
}
