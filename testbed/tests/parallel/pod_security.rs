//! Pod Security admission goes by the namespace's label, and there is no enforcing default.

use anyhow::ensure;
use testbed::kit::{PodSecurity, TestCase, TestNamespace, in_namespace};

use crate::script_pod;

const PRIVILEGED: &str = "
apiVersion: v1
kind: Pod
metadata: {name: privileged}
spec: {containers: [{name: x, image: x, securityContext: {privileged: true}}]}
";

#[tokio::test]
async fn a_restricted_namespace_refuses_a_privileged_pod_and_takes_a_modest_one() -> anyhow::Result<()> {
    TestCase::of("a_restricted_namespace_refuses_a_privileged_pod_and_takes_a_modest_one")
        .pod_security(PodSecurity::Restricted)
        .run(async |ns| {
            let refusal = judged(&ns, PRIVILEGED).await;
            let said = refusal.err().unwrap_or_default();
            ensure!(said.contains("violates PodSecurity \"restricted:latest\""), "{said}");
            ensure!(judged(&ns, &script_pod("modest", "true")).await == Ok(()));
            Ok(())
        })
        .await
}

#[tokio::test]
async fn a_namespace_without_a_label_takes_a_privileged_pod() -> anyhow::Result<()> {
    in_namespace("a_namespace_without_a_label_takes_a_privileged_pod", async |ns| {
        ensure!(judged(&ns, PRIVILEGED).await == Ok(()));
        Ok(())
    })
    .await
}

async fn judged(ns: &TestNamespace, manifest: &str) -> Result<(), String> {
    ns.dry_run(manifest).await.map(|_| ()).map_err(|error| format!("{:#}", anyhow::Error::from(error)))
}
