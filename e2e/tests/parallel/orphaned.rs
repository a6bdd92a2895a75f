//! The operator's connections with the API server are gone at the other end, and nobody told it: it notices by itself that nothing comes
//! any more, and does what was asked for meanwhile.

use anyhow::ensure;
use e2e::{etcd_cluster, operator, operator_pod, pods::restarts, running};
use kube::ResourceExt as _;
use testbed::{faults::Ground, kit::in_namespace};

#[tokio::test]
async fn watches_that_die_without_a_word_are_noticed_and_what_was_asked_for_is_done() -> anyhow::Result<()> {
    in_namespace("orphaned", async |ns| {
        operator(&ns).await?;
        ns.apply(&etcd_cluster("before", 1, "3.6.14")).await?;
        running(&ns, "before").await?;
        let before = operator_pod(&ns).await?;
        Ground::here()?.place_of(before.clone())?.orphan_connections().await?;
        // Nothing but the watch tells of these: a cluster that is known is also looked at now and then.
        ns.apply(&etcd_cluster("after", 1, "3.6.14")).await?;
        running(&ns, "after").await?;
        let after = operator_pod(&ns).await?;
        ensure!(after.uid() == before.uid() && restarts(&after) == 0, "another operator has done it");
        Ok(())
    })
    .await
}
