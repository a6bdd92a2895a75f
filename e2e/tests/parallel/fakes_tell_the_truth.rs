//! The API server that the loop's own tests run against is a fake. What it answers is what the real one answers: one table, run on both.

use anyhow::{anyhow, ensure};
use e2e::crds;
use fakes::truth;
use testbed::kit::in_namespace;

#[tokio::test]
async fn the_real_api_server_answers_as_the_table_says() -> anyhow::Result<()> {
    in_namespace("truth", async |ns| {
        crds(ns.cluster()).await?;
        let rows = truth::kubernetes::check(&ns.client(), ns.name()).await.map_err(|why| anyhow!(why))?;
        ensure!(rows > 40, "only {rows} rows were run");
        Ok(())
    })
    .await
}
