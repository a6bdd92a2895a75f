//! A process in a pod can be frozen, thawed and killed, and nobody else is meant.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use k8s_openapi::api::core::v1::Pod;
use testbed::{
    faults::Ground,
    kit::{PodSecurity, TestCase, TestNamespace, until_it_succeeds, wait_for},
};

use crate::{SOON, script_pod};

async fn count(ns: &TestNamespace) -> anyhow::Result<usize> {
    let lines = ns.logs("counts", None).await?;
    Ok(lines.lines().count())
}

async fn counts_on(ns: &TestNamespace) -> anyhow::Result<()> {
    let before = count(ns).await?;
    for _ in 0..600 {
        if count(ns).await? > before + 3 {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    anyhow::bail!("it stays at {before}")
}

fn restarts(pod: &Pod) -> Option<i32> {
    Some(pod.status.as_ref()?.container_statuses.as_ref()?.first()?.restart_count)
}

#[tokio::test]
async fn a_process_stands_still_goes_on_and_is_killed() -> anyhow::Result<()> {
    let case = TestCase::of("a_process_stands_still_goes_on_and_is_killed");
    case.pod_security(PodSecurity::Restricted)
        .run(async |ns| {
            let script = "while :; do echo tick; sleep 0.1; done";
            ns.apply(&script_pod("counts", script).replace("restartPolicy: Never", "restartPolicy: Always"))
                .await?;
            ns.pod_ready("counts").await?;
            counts_on(&ns).await?;
            let ground = Ground::here()?;
            let place = ground.place(ns.name(), "counts").await?;

            for heal in [true, false] {
                let frozen = place.freeze("shell")?;
                // What it said before is on its way for a moment.
                until_it_succeeds(SOON, async || {
                    let before = count(&ns).await?;
                    tokio::time::sleep(Duration::from_secs(2)).await;
                    ensure!(count(&ns).await? == before, "it goes on");
                    Ok(())
                })
                .await?;
                if heal {
                    frozen.heal().await?;
                } else {
                    drop(frozen);
                }
                counts_on(&ns).await?;
            }

            let before = ns.api::<Pod>().get("counts").await?;
            ensure!(restarts(&before) == Some(0), "nobody was to be killed yet");
            let killed = place.kill("shell")?;
            ensure!(killed.wait_gone(SOON), "it lives");
            let again =
                wait_for(&ns.api::<Pod>(), "counts", SOON, "to be started again", |pod: Option<&Pod>| {
                    let pod = pod.ok_or("it is gone")?;
                    if restarts(pod) == Some(1) {
                        Ok(pod.clone())
                    } else {
                        Err(format!("{:?}", restarts(pod)))
                    }
                })
                .await?;
            ns.pod_ready("counts").await?;
            ensure!(again.metadata.uid == before.metadata.uid, "it is another pod");
            let new = ground.place(ns.name(), "counts").await?.process("shell").context("the new process")?;
            ensure!(new != killed && new.is_alive());
            Ok(())
        })
        .await
}
