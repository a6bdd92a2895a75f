//! The audit log says who did what, and where.

use anyhow::ensure;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, api::PostParams};
use testbed::kit::in_namespace;

use crate::{SOON, code};

#[tokio::test]
async fn the_audit_log_shows_who_did_what_in_which_namespace() -> anyhow::Result<()> {
    in_namespace("the_audit_log_shows_who_did_what_in_which_namespace", async |ns| {
        let log = ns.cluster().audit_log()?;
        ns.apply("{apiVersion: v1, kind: ServiceAccount, metadata: {name: writer}}").await?;
        let writer = ns.as_service_account("writer").await?;

        let mark = log.mark()?;
        let maps: Api<ConfigMap> = Api::namespaced(writer, ns.name());
        let mut map = ConfigMap::default();
        map.metadata.name = Some("x".into());
        // What is refused is logged as well; so this needs no Role.
        ensure!(code(&maps.create(&PostParams::default(), &map).await) == 403);
        ensure!(code(&maps.get("x").await) == 403);

        let user = format!("system:serviceaccount:{}:writer", ns.name());
        let both = |entries: &[testbed::kit::audit::AuditEntry]| entries.len() == 2;
        log.since(mark).user(&user).wait_for(SOON, "to show both requests", both).await?;

        let created = log.since(mark).user(&user).verb("create").namespace(ns.name()).entries()?;
        ensure!(created.len() == 1, "{created:?}");
        let entry = &created[0];
        ensure!((entry.resource.as_str(), entry.code) == ("configmaps", 403));
        let got = log.since(mark).user(&user).verb("get").entries()?;
        ensure!(got.iter().map(|entry| entry.name.as_str()).eq(["x"]), "{got:?}");
        ensure!(log.since(mark).user(&user).writes().entries()? == created);
        ensure!(log.since(mark).user(&user).namespace("default").entries()?.is_empty());
        ensure!(log.since(mark).user(&user).resource("pods").entries()?.is_empty());
        Ok(())
    })
    .await
}
