//! The API server is killed in the middle of a creation and comes back: exactly one cluster forms, and no member is made twice.

use std::time::Duration;

use api::EtcdCluster;
use e2e::{
    LONG, SOON, etcd_cluster,
    members::{no_member_twice, one_cluster},
    operator,
};
use k8s_openapi::api::core::v1::Pod;
use testbed::{
    faults::{Ground, control::Part},
    kit::{TestCase, wait_for, wait_for_all},
};

#[tokio::test]
async fn a_cluster_forms_although_the_api_server_is_killed_meanwhile() -> anyhow::Result<()> {
    let ground = Ground::alone().await?;
    TestCase::of("api_server_restarted")
        .deadline(LONG)
        .run(async |ns| {
            let mark = ns.cluster().audit_log()?.mark()?;
            operator(&ns).await?;

            // Right after the first thing that is written down, before the first pod or while they are made.
            ns.apply(&etcd_cluster("early", 3, "3.6.14")).await?;
            let born = |cluster: Option<&EtcdCluster>| {
                let birth = cluster.and_then(|cluster| cluster.status.as_ref()?.birth.clone());
                birth.map(drop).ok_or_else(|| "it has no record of birth".to_owned())
            };
            wait_for(&ns.api::<EtcdCluster>(), "early", SOON, "to be begun", born).await?;
            ground.restart(Part::ApiServer).await?;
            one_cluster(&ns, "early").await?;

            // While members start; and it is away for some seconds, so that they form without anybody who could say so.
            ns.apply(&etcd_cluster("late", 3, "3.6.14")).await?;
            let all_made =
                |pods: &[Pod]| if pods.len() == 3 { Ok(()) } else { Err(format!("{}", pods.len())) };
            wait_for_all(&ns.api::<Pod>(), "etcd_cluster=late", SOON, "to be made", all_made).await?;
            let stopped = ground.stop(Part::ApiServer)?;
            tokio::time::sleep(Duration::from_secs(5)).await;
            stopped.heal().await?;
            one_cluster(&ns, "late").await?;
            no_member_twice(&ns, mark)
        })
        .await
}
