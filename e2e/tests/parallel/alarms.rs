//! What etcd itself raises the alarm about. A database that is full is said, and healing goes on. Members that may hold different data are
//! left as they are, all of them, until somebody has ended the alarm.

use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use e2e::{
    LONG, Seen, client_pod, etcd_cluster, etcdctl,
    members::{leader, member, one_cluster, replaced},
    operator,
    pods::living,
    says, says_that, until_it_succeeds,
};
use etcd_admin::Cause;
use kube::ResourceExt as _;
use testbed::kit::{TestCase, TestNamespace};

/// Writes until etcd takes no more.
async fn fill(ns: &TestNamespace) -> anyhow::Result<()> {
    let value = vec![7; 200_000];
    until_it_succeeds(async || {
        let leads = member(&leader(ns, "c", None).await?.pod)?;
        for _ in 0..100 {
            match leads.put(b"much", &value).await {
                Err(error) if error.cause == Cause::NoSpace => return Ok(()),
                written => drop(written?),
            }
        }
        bail!("it is never full")
    })
    .await
}

/// What the sentence says: compact, defragment each member, end the alarm.
async fn make_room(ns: &TestNamespace) -> anyhow::Result<()> {
    until_it_succeeds(async || {
        let leads = member(&leader(ns, "c", None).await?.pod)?;
        let newest = leads.put(b"one-more", b"").await;
        ensure!(newest.is_err(), "it takes writes");
        let revision = leads.status().await?.revision;
        match leads.compact(revision).await {
            // Done already, if this is the second time.
            Err(error) if error.cause == Cause::Compacted => {}
            compacted => compacted?,
        }
        for pod in living(ns, "c").await? {
            member(&pod)?.defragment().await?;
        }
        Ok(())
    })
    .await?;
    etcdctl(ns, "c", &["alarm", "disarm"]).await?;
    Ok(())
}

#[tokio::test]
async fn a_full_database_is_named_and_healing_goes_on_until_there_is_room_again() -> anyhow::Result<()> {
    TestCase::of("full")
        .deadline(LONG)
        .run(async |ns| {
            operator(&ns).await?;
            client_pod(&ns).await?;
            let little = "spec: {pod: {etcdEnv: [{name: ETCD_QUOTA_BACKEND_BYTES, value: '4194304'}]}, ";
            ns.apply(&etcd_cluster("c", 3, "3.6.14").replace("spec: {", little)).await?;
            one_cluster(&ns, "c").await?;
            fill(&ns).await?;
            says(&ns, "c", "Progressing", "DatabaseFull").await?;
            let lost = living(&ns, "c").await?.first().context("no member")?.name_any();
            ns.kubectl(&["delete", "pod", &lost, "--wait=false"]).await?.success()?;
            replaced(&ns, "c", &lost).await?;
            says(&ns, "c", "Progressing", "DatabaseFull").await?;
            make_room(&ns).await?;
            says(&ns, "c", "Progressing", "Settled").await?;
            one_cluster(&ns, "c").await?;
            etcdctl(&ns, "c", &["put", "again", "yes"]).await?;
            Ok(())
        })
        .await
}

/// How many members etcd lists, by the word of one that is there.
async fn listed(ns: &TestNamespace) -> anyhow::Result<usize> {
    until_it_succeeds(async || {
        let one = living(ns, "c").await?.into_iter().next().context("no member")?;
        Ok(member(&one)?.members_linearizable().await?.members.len())
    })
    .await
}

#[tokio::test]
async fn members_that_may_hold_different_data_are_all_kept_until_the_alarm_is_ended() -> anyhow::Result<()> {
    TestCase::of("corrupt")
        .deadline(LONG)
        .run(async |ns| {
            operator(&ns).await?;
            client_pod(&ns).await?;
            ns.apply(&etcd_cluster("c", 3, "3.6.14")).await?;
            one_cluster(&ns, "c").await?;
            // As etcd's own check does when it cannot tell whose data is wrong. etcdctl has no command for it.
            let (raise, at) = (
                r#"{"action": "ACTIVATE", "memberID": "0", "alarm": "CORRUPT"}"#,
                "http://c-client:2379/v3/maintenance/alarm",
            );
            until_it_succeeds(async || {
                ns.exec("client", &["wget", "-q", "-O", "-", "--post-data", raise, at]).await?.success()?;
                Ok(())
            })
            .await?;
            says(&ns, "c", "Progressing", "DataCorrupt").await?;

            let lost = living(&ns, "c").await?.first().context("no member")?.name_any();
            ns.kubectl(&["delete", "pod", &lost]).await?.success()?;
            let named = |seen: &Seen| seen.reason == "MemberLost" && seen.message.contains(&lost);
            says_that(&ns, "c", "Recovering", "to name the one that is lost", named).await?;
            // Longer than it takes to replace one.
            tokio::time::sleep(Duration::from_secs(20)).await;
            ensure!(listed(&ns).await? == 3 && living(&ns, "c").await?.len() == 2, "somebody came or went");
            says(&ns, "c", "Progressing", "DataCorrupt").await?;

            etcdctl(&ns, "c", &["alarm", "disarm"]).await?;
            replaced(&ns, "c", &lost).await?;
            one_cluster(&ns, "c").await?;
            Ok(())
        })
        .await
}
