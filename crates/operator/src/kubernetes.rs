//! Before the loop: which Kubernetes this is. An older one than is supported is reported, in the log and to who asks `/readyz`, and worked with
//! all the same: most of what the operator does works there, and refusing would leave its clusters to themselves.

use std::{sync::Arc, time::Duration};

use k8s_openapi::apimachinery::pkg::version::Info;
use kube::Client;
use tokio::time::{sleep, timeout};
use tracing::{info, warn};

use crate::{
    clients::READ_LIMIT,
    gate::words,
    health::{Health, KUBERNETES},
};

/// The first minor of Kubernetes 1 that is supported. Before it, the API server asks every rule of a CRD at every write, also those about
/// fields that the write leaves as they were: where a later operator has a stricter rule, no status of an object that breaks it can be written,
/// the record of birth included.
const OLDEST: u32 = 30;

/// How soon it is asked again.
const RETRY: Duration = Duration::from_secs(10);

/// Asks the API server for its version, and reports one that is not supported.
pub async fn check(client: Client, health: Arc<Health>) {
    loop {
        let why = match timeout(READ_LIMIT, client.apiserver_version()).await {
            Ok(Ok(version)) => return report(&version, &health),
            Ok(Err(kube::Error::Api(status))) if status.code < 429 => {
                warn!(message = status.message, "the API server does not tell its version");
                return;
            }
            Ok(Err(error)) => words(&error),
            Err(_) => format!("no answer within {} s", READ_LIMIT.as_secs()),
        };
        warn!(why, "the API server does not tell its version, and is asked again");
        sleep(RETRY).await;
    }
}

fn report(version: &Info, health: &Health) {
    info!(version = version.git_version, "the version of Kubernetes");
    if let Some(problem) = too_old(version) {
        warn!("{problem}");
        health.remark(KUBERNETES, problem);
    }
}

/// What is to be said of this version; nothing of one that is supported, or that nobody can read.
fn too_old(version: &Info) -> Option<String> {
    // Some providers put a plus behind it.
    let minor = version.minor.trim_end_matches(|c: char| !c.is_ascii_digit()).parse::<u32>().ok()?;
    let old = version.major == "1" && minor < OLDEST;
    old.then(|| {
        format!(
            "version 1.{minor} is older than 1.{OLDEST}, the first that is supported: it refuses every status of an object that breaks a rule, \
             however long the object has been there, so correct what the operator's conditions and log name before you upgrade the CRDs"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(major: &str, minor: &str) -> Info {
        Info { major: major.to_owned(), minor: minor.to_owned(), ..Info::default() }
    }

    #[test]
    fn a_kubernetes_that_is_too_old_is_named_and_one_that_nobody_can_read_is_not() {
        let table = [
            ("1", "29", true),
            ("1", "27+", true),
            ("1", "30", false),
            ("1", "35", false),
            ("2", "0", false),
            ("", "", false),
        ];
        for (major, minor, old) in table {
            let health = Health::default();
            report(&version(major, minor), &health);
            let (ready, text) = health.ready();
            assert_eq!((text.contains("Kubernetes: version 1."), ready), (old, false), "{minor}: {text}");
        }
    }
}
