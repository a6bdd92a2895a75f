//! Members lost under load: the leader, two of five at once, and changes that are made while no operator runs.

use std::collections::BTreeSet;

use anyhow::ensure;
use e2e::{
    LONG,
    client::{Retrying, loaded, verdict},
    etcd_cluster,
    members::{leader, one_cluster},
    operator_replicas,
    pods::living,
    told,
};
use kube::ResourceExt;
use testbed::kit::{TestCase, TestNamespace};

async fn names(ns: &TestNamespace) -> anyhow::Result<BTreeSet<String>> {
    Ok(living(ns, "c").await?.iter().map(ResourceExt::name_any).collect())
}

#[tokio::test]
async fn a_lost_leader_costs_at_most_one_term_and_no_write_of_a_client_that_retries() -> anyhow::Result<()> {
    TestCase::of("lost_leader")
        .deadline(LONG)
        .run(async |ns| {
            let load = loaded(&ns, &etcd_cluster("c", 3, "3.6.14")).await?;
            let retrying = Retrying::start(&ns, "c").await?;
            // A machine that is too busy for heartbeats has elections of its own, now and then. What we do wrong we do every time.
            let mut rises = Vec::new();
            while rises.len() < 5 && rises.iter().all(|rise| *rise > 1) {
                let first = leader(&ns, "c", None).await?;
                let lost = first.pod.name_any();
                ns.kubectl(&["delete", "pod", &lost, "--wait=false"]).await?.success()?;
                one_cluster(&ns, "c").await?;
                ensure!(!names(&ns).await?.contains(&lost), "{lost} is still there");
                rises.push(leader(&ns, "c", None).await?.term.saturating_sub(first.term));
                let replacing = format!("The dead member {lost} is being replaced");
                told(&ns, "Replacing Dead Member", &replacing).await?;
            }
            println!("each lost leader raised the term by: {rises:?}");
            ensure!(rises.iter().any(|rise| *rise <= 1), "the term rose by {rises:?}");
            println!("{:?}", retrying.finish().await?);
            verdict(load).await?;
            Ok(())
        })
        .await
}

#[tokio::test]
async fn two_of_five_lost_at_once_are_replaced_and_what_changed_without_an_operator_is_made_up_for()
-> anyhow::Result<()> {
    TestCase::of("two_of_five")
        .deadline(LONG)
        .run(async |ns| {
            let load = loaded(&ns, &etcd_cluster("c", 5, "3.6.14")).await?;
            let leads = leader(&ns, "c", None).await?.pod.name_any();
            let follows = names(&ns).await?.into_iter().find(|name| *name != leads).unwrap_or_default();
            let force = ["delete", "pod", &leads, &follows, "--force", "--grace-period=0", "--wait=false"];
            ns.kubectl(&force).await?.success()?;
            one_cluster(&ns, "c").await?;
            for lost in [&leads, &follows] {
                ensure!(!names(&ns).await?.contains(lost), "{lost} is still there");
                told(&ns, "Member Removed", &format!("Existing member {lost} removed from the cluster"))
                    .await?;
            }

            operator_replicas(&ns, 0).await?;
            ns.kubectl(&["scale", "etcdcluster/c", "--replicas=3"]).await?.success()?;
            let lost = names(&ns).await?.into_iter().next().unwrap_or_default();
            ns.kubectl(&["delete", "pod", &lost]).await?.success()?;
            ensure!(names(&ns).await?.len() == 4, "somebody acts, and no operator runs");
            operator_replicas(&ns, 1).await?;
            one_cluster(&ns, "c").await?;
            verdict(load).await?;
            Ok(())
        })
        .await
}
