//! Before the loop: the CRDs. They are written if that is asked for; without, nothing is asked or written about CRDs, and whether a
//! kind is there is told by what the API server serves.

use std::{sync::Arc, time::Duration};

use api::crd::{SCHEMA, schema_of};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{
    Api, Client, ResourceExt,
    api::{Patch, PatchParams, PostParams},
};
use tokio::time::{sleep, timeout};
use tracing::{info, warn};

use crate::{
    act::FIELD_MANAGER,
    clients::deadline,
    gate::{Failure, Gate},
    health::{CRDS, Health, Watched},
    watch::Stop,
};

/// How long reading or writing a CRD may take.
const LIMIT: Duration = Duration::from_secs(5);
/// How soon it is tried again.
const RETRY: Duration = Duration::from_secs(5);
/// The shortest and the longest time between two looks for a kind that is missing. Nothing tells us when it appears, short of a permission
/// to watch CRDs that a namespaced operator has not got.
const LOOK: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(5));

/// What became of a CRD.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Installed {
    /// It is ours.
    Ours,
    /// It belongs to schemas with a higher number, or with one that cannot be read.
    Newer(Option<u32>),
}

/// Writes the CRDs, as often as it takes, while this process leads, until it is stopped. A call that is under way then comes to its end.
pub async fn ensure(client: Client, gate: Gate, health: Arc<Health>, stop: Stop) {
    let api: Api<CustomResourceDefinition> = Api::all(client);
    let (mut said, mut newer) = (String::new(), Vec::new());
    for crd in api::crd::all() {
        let name = crd.name_any();
        loop {
            if stop.peek().is_some() {
                return;
            }
            match install(&api, &gate, &crd).await {
                Ok(Installed::Ours) => {
                    info!(crd = name, "the CRD is as this operator needs it");
                    break;
                }
                Ok(Installed::Newer(number)) => {
                    newer.push(left_alone(&name, number));
                    break;
                }
                Err(Failure::NotLeading) => {}
                // Somebody else wrote it since it was read: it is read again.
                Err(Failure::Api(kube::Error::Api(status))) if status.code == 409 => continue,
                Err(failure) if said != failure.to_string() => {
                    warn!(%failure, crd = name, "the CRD could not be written; give the operator the permission, or install the CRDs and start it with --create-crd=false");
                    said = failure.to_string();
                }
                Err(_) => {}
            }
            tokio::select! {
                () = sleep(RETRY) => {}
                () = stop.clone() => return,
            }
        }
    }
    for words in &newer {
        warn!("{words}");
    }
    health.remark(CRDS, newer.join("; "));
}

fn left_alone(name: &str, number: Option<u32>) -> String {
    let number = number.map_or_else(|| "that cannot be read".to_owned(), |number| number.to_string());
    format!(
        "the CRD {name} has a schema with the number {number} and this operator's is {SCHEMA}, so it is left as it is: an older one would drop the newer fields of every object"
    )
}

/// Makes the CRD, or writes ours over an older one: over the very one that was read, so that no newer one is met that came meanwhile.
async fn install(
    api: &Api<CustomResourceDefinition>,
    gate: &Gate,
    crd: &CustomResourceDefinition,
) -> Result<Installed, Failure> {
    let name = crd.name_any();
    let found = timeout(LIMIT, api.get_metadata_opt(&name)).await;
    let Some(found) = found.map_err(|_| Failure::NoAnswer(LIMIT))?.map_err(Failure::Api)? else {
        let params = PostParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..Default::default() };
        return gate.write("CreateCRD", LIMIT, api.create(&params, crd)).await.map(|_| Installed::Ours);
    };
    let number = schema_of(found.metadata.annotations.as_ref());
    if number.is_none_or(|number| number > SCHEMA) {
        return Ok(Installed::Newer(number));
    }
    let mut crd = crd.clone();
    crd.metadata.resource_version.clone_from(&found.metadata.resource_version);
    let (params, patch) = (PatchParams::apply(FIELD_MANAGER).force(), Patch::Apply(&crd));
    // The list of versions is one field to the API server: nothing of the older schema stays, whoever wrote it.
    gate.write("ApplyCRD", LIMIT, api.patch(&name, &params, &patch)).await.map(|_| Installed::Ours)
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
