//! S14, S15 under load: members are brought to another version one after another, on their own data: over several minors in one edit, and
//! down again. A version that cannot be had, or cannot be reached, costs nothing; a paused cluster stops, and goes on.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use anyhow::{Context as _, ensure};
use api::EtcdCluster;
use e2e::{
    LONG, SOON,
    client::{Retrying, loaded, verdict},
    etcd_cluster,
    members::{identities, leader, one_cluster, replaced},
    operator_replicas,
    pods::{living, restarts, which},
    running, says_that, told,
};
use k8s_openapi::api::core::v1::{Event, Pod};
use kube::{ResourceExt as _, api::ListParams};
use testbed::kit::{TestCase, TestNamespace, audit::Mark, wait_for};
use tokio::time::sleep;

async fn ask_for(ns: &TestNamespace, change: &str) -> anyhow::Result<()> {
    let patch = format!(r#"{{"spec": {change}}}"#);
    ns.kubectl(&["patch", "etcdcluster", "c", "--type=merge", "-p", &patch]).await?.success()?;
    Ok(())
}

/// Waits until all members run this version by their own word, and nothing is left to be done.
async fn at(ns: &TestNamespace, version: &str) -> anyhow::Result<()> {
    let there = |cluster: Option<&EtcdCluster>| {
        let status = cluster.and_then(|cluster| cluster.status.clone()).ok_or("there is no status")?;
        let over = status.target_version.is_none() && status.stop_over.is_none();
        if over && status.current_version.as_deref() == Some(version) {
            Ok(())
        } else {
            Err(format!("{:?}, on the way to {:?}", status.current_version, status.target_version))
        }
    };
    wait_for(&ns.api(), "c", LONG, &format!("to run etcd {version}"), there).await?;
    one_cluster(ns, "c").await?;
    Ok(())
}

/// How often each pod's image was changed since then: a change of its labels or annotations alone is none.
fn relaunches(ns: &TestNamespace, since: Mark) -> anyhow::Result<BTreeMap<String, usize>> {
    let log = ns.cluster().audit_log()?;
    let patches = log.since(since).namespace(ns.name()).resource("pods").verb("patch");
    let patches = patches.that(|entry| entry.code == 200 && entry.user_agent.starts_with("etcd-operator/"));
    let mut counts = BTreeMap::new();
    for entry in patches.entries()? {
        *counts.entry(entry.name).or_default() += 1;
    }
    Ok(counts)
}

/// What was told of upgrades, each with how often.
async fn upgrades_told(ns: &TestNamespace) -> anyhow::Result<BTreeMap<String, usize>> {
    let mut told = BTreeMap::new();
    for event in ns.api::<Event>().list(&ListParams::default()).await?.items {
        if event.reason.as_deref() == Some("Member Upgraded") {
            *told.entry(event.message.unwrap_or_default()).or_default() += 1;
        }
    }
    Ok(told)
}

/// Brings a cluster under load from one version to another in one edit, by way of these versions.
async fn walked(ns: &TestNamespace, from: &str, by_way_of: &[&str]) -> anyhow::Result<()> {
    let to = by_way_of.last().context("no way")?;
    let load = loaded(ns, &etcd_cluster("c", 3, from)).await?;
    let retrying = Retrying::start(ns, "c").await?;
    let (pods, members) = (which(ns, "c").await?, identities(ns, "c").await?);
    let (first, mark) = (leader(ns, "c", None).await?.term, ns.cluster().audit_log()?.mark()?);
    ask_for(ns, &format!(r#"{{"version": "{to}"}}"#)).await?;
    // Until the last one runs it, also before anybody has seen the edit.
    let upgrading = says_that(ns, "c", "Upgrading", "to be upgraded", |seen| seen.status == "True").await?;
    ensure!(upgrading.reason == "Cluster upgrading", "{upgrading:?}");
    ensure!(upgrading.message == format!("upgrading to {to}"), "{upgrading:?}");
    ns.kubectl(&["wait", "--for=condition=Ready", "etcdcluster/c", "--timeout=15m"]).await?.success()?;
    let status = ns.api::<EtcdCluster>().get("c").await?.status.unwrap_or_default();
    ensure!(status.current_version.as_deref() == Some(*to), "ready, and at {:?}", status.current_version);
    at(ns, to).await?;
    ensure!(which(ns, "c").await? == pods, "pods were made anew");
    ensure!(identities(ns, "c").await? == members, "members have other IDs");
    let images: BTreeSet<String> = images(ns).await?.into_values().collect();
    ensure!(images == BTreeSet::from([format!("quay.io/coreos/etcd:v{to}")]), "{images:?}");

    let stops = by_way_of.len();
    let relaunches = relaunches(ns, mark)?;
    ensure!(relaunches.len() == 3 && relaunches.values().all(|count| *count == stops), "{relaunches:?}");
    let mut before = from;
    for version in by_way_of {
        for (name, _) in &pods {
            let text = format!("Member {name} upgraded from {before} to {version}");
            told(ns, "Member Upgraded", &text).await?;
        }
        before = version;
    }
    let told = upgrades_told(ns).await?;
    ensure!(told.len() == 3 * stops && told.values().all(|count| *count == 1), "{told:?}");
    // The leader is asked to hand over once at each stop. What a busy machine adds has a little room.
    let terms = leader(ns, "c", None).await?.term.saturating_sub(first);
    ensure!(usize::try_from(terms)? <= stops + 2, "{terms} terms for {stops} stops");
    println!("{terms} terms, {:?}", retrying.finish().await?);
    verdict(load).await?;
    Ok(())
}

/// The image of each member, by its pod.
async fn images(ns: &TestNamespace) -> anyhow::Result<BTreeMap<String, String>> {
    let image = |pod: &Pod| Some((pod.name_any(), pod.spec.as_ref()?.containers.first()?.image.clone()?));
    Ok(living(ns, "c").await?.iter().filter_map(image).collect())
}

#[tokio::test]
async fn etcd_3_4_becomes_3_7_in_one_edit_under_load() -> anyhow::Result<()> {
    let case = TestCase::of("upgrade_line").deadline(LONG);
    case.run(async |ns| walked(&ns, "3.4.23", &["3.5.33", "3.6.14", "3.7.1"]).await).await
}

#[tokio::test]
async fn etcd_3_7_becomes_3_5_again_in_one_edit_under_load() -> anyhow::Result<()> {
    let case = TestCase::of("downgrade").deadline(LONG);
    case.run(async |ns| walked(&ns, "3.7.1", &["3.6.14", "3.5.33"]).await).await
}

#[tokio::test]
async fn a_version_that_is_in_no_registry_stops_at_one_member_which_keeps_its_data_and_comes_back()
-> anyhow::Result<()> {
    TestCase::of("missing_tag")
        .deadline(LONG)
        .run(async |ns| {
            let manifest = etcd_cluster("c", 3, "3.5.33")
                .replace("spec: {", "spec: {memberReplacement: {graceSeconds: 30}, ");
            let load = loaded(&ns, &manifest).await?;
            let (pods, members) = (which(&ns, "c").await?, identities(&ns, "c").await?);
            ask_for(&ns, r#"{"version": "3.6.99"}"#).await?;
            let stuck = |seen: &e2e::Seen| seen.message.contains("was given etcd 3.6.99 and does not run it");
            says_that(&ns, "c", "Progressing", "to say that it stops", stuck).await?;
            // Longer than a member that is down is given otherwise, and over a restart of the operator.
            sleep(Duration::from_secs(20)).await;
            operator_replicas(&ns, 0).await?;
            operator_replicas(&ns, 1).await?;
            sleep(Duration::from_secs(40)).await;
            let touched = images(&ns).await?.into_values().filter(|image| image.ends_with("3.6.99")).count();
            ensure!(touched == 1, "{touched} members were given a version that there is not");
            ensure!(which(&ns, "c").await? == pods, "a member was replaced");
            says_that(&ns, "c", "Progressing", "to say it still", stuck).await?;
            says_that(&ns, "c", "Available", "to be available", |seen| seen.status == "True").await?;

            ask_for(&ns, r#"{"version": "3.5.33"}"#).await?;
            at(&ns, "3.5.33").await?;
            ensure!(which(&ns, "c").await? == pods, "a member was replaced");
            ensure!(identities(&ns, "c").await? == members, "members have other IDs");
            ensure!(upgrades_told(&ns).await?.is_empty(), "nobody was upgraded");
            verdict(load).await?;
            Ok(())
        })
        .await
}

#[tokio::test]
async fn a_version_that_cannot_be_had_costs_nothing_else_and_names_what_can() -> anyhow::Result<()> {
    TestCase::of("impossible_version")
        .deadline(LONG)
        .run(async |ns| {
            let load = loaded(&ns, &etcd_cluster("c", 3, "3.5.33")).await?;
            // Of one apply, the size is done and the version is not.
            ns.apply(&etcd_cluster("c", 4, "3.9.0")).await?;
            let refused = |words: &'static str| {
                move |seen: &e2e::Seen| seen.status == "False" && seen.message.contains(words)
            };
            says_that(&ns, "c", "SpecAccepted", "to refuse it", refused("it runs 3.1 to 3.7")).await?;
            one_cluster(&ns, "c").await?;
            let lost = living(&ns, "c").await?.first().context("no members")?.name_any();
            ns.kubectl(&["delete", "pod", &lost, "--wait=false"]).await?.success()?;
            replaced(&ns, "c", &lost).await?;
            for (version, words) in
                [("3.6.2", "3.6.14 is the newest known here"), ("3.4.23", "restore a snapshot")]
            {
                ask_for(&ns, &format!(r#"{{"version": "{version}"}}"#)).await?;
                says_that(&ns, "c", "SpecAccepted", "to refuse it", refused(words)).await?;
            }
            ask_for(&ns, r#"{"version": "3.5.33"}"#).await?;
            says_that(&ns, "c", "SpecAccepted", "to be accepted again", |seen| seen.status == "True").await?;
            ensure!(living(&ns, "c").await?.iter().all(|pod| restarts(pod) == 0), "somebody was restarted");
            verdict(load).await?;
            Ok(())
        })
        .await
}

#[tokio::test]
async fn a_paused_cluster_stops_in_the_middle_of_an_upgrade_heals_first_and_goes_on() -> anyhow::Result<()> {
    TestCase::of("paused_upgrade")
        .deadline(LONG)
        .run(async |ns| {
            let load = loaded(&ns, &etcd_cluster("c", 3, "3.5.33")).await?;
            ask_for(&ns, r#"{"version": "3.6.14"}"#).await?;
            let begun = |cluster: Option<&EtcdCluster>| {
                let status = cluster.and_then(|cluster| cluster.status.clone()).unwrap_or_default();
                status.target_version.map(drop).ok_or_else(|| "nothing has begun".to_owned())
            };
            wait_for(&ns.api(), "c", SOON, "to begin", begun).await?;
            ask_for(&ns, r#"{"paused": true}"#).await?;
            let paused = |cluster: Option<&EtcdCluster>| {
                let status = cluster.and_then(|cluster| cluster.status.clone()).unwrap_or_default();
                status
                    .control_paused
                    .filter(|paused| *paused)
                    .map(drop)
                    .ok_or_else(|| "it is not paused".to_owned())
            };
            wait_for(&ns.api(), "c", SOON, "to be paused", paused).await?;
            // What was sent a moment before may still land.
            sleep(Duration::from_secs(5)).await;
            let mark = ns.cluster().audit_log()?.mark()?;
            let lost = living(&ns, "c").await?.first().context("no members")?.name_any();
            ns.kubectl(&["delete", "pod", &lost]).await?.success()?;
            ask_for(&ns, r#"{"size": 5}"#).await?;
            operator_replicas(&ns, 0).await?;
            operator_replicas(&ns, 1).await?;
            sleep(Duration::from_mins(1)).await;
            ensure!(relaunches(&ns, mark)?.is_empty(), "a paused cluster was touched");
            ensure!(living(&ns, "c").await?.len() == 2, "a paused cluster was touched");
            let status = ns.api::<EtcdCluster>().get("c").await?.status.unwrap_or_default();
            ensure!(status.ready.as_deref() == Some("2/5"), "{:?}", status.ready);

            ask_for(&ns, r#"{"paused": false}"#).await?;
            at(&ns, "3.6.14").await?;
            ensure!(living(&ns, "c").await?.len() == 5, "it has not grown");
            running(&ns, "c").await?;
            verdict(load).await?;
            Ok(())
        })
        .await
}
