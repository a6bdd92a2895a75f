//! A pod that gets less memory than it needs is killed whenever it starts, and stays when it has enough again.

use anyhow::ensure;
use k8s_openapi::api::core::v1::Pod;
use testbed::{
    faults::Ground,
    kit::{PodSecurity, TestCase, wait_for},
};

use crate::{SOON, script_pod};

/// Needs some 60 MiB, says that it has them, and waits.
const GREEDY: &str = "all=$(head -c 30000000 /dev/zero | tr '\\0' x); echo ${#all}; sleep 3600";
/// Enough for a shell, and not for that one.
const TOO_LITTLE: u64 = 12 << 20;

/// How often its container was started again, and how its last run ended.
fn ends(pod: Option<&Pod>) -> Option<(i32, i32)> {
    let shell = pod?.status.as_ref()?.container_statuses.as_ref()?.first()?;
    Some((shell.restart_count, shell.last_state.as_ref()?.terminated.as_ref()?.exit_code))
}

#[tokio::test]
async fn a_pod_without_memory_is_killed_again_and_again_until_it_has_enough() -> anyhow::Result<()> {
    TestCase::of("a_pod_without_memory_is_killed_again_and_again_until_it_has_enough")
        .pod_security(PodSecurity::Restricted)
        .run(async |ns| {
            ns.apply(&script_pod("greedy", GREEDY).replace("restartPolicy: Never", "restartPolicy: Always"))
                .await?;
            ns.pod_ready("greedy").await?;
            let starved =
                Ground::here()?.place(ns.name(), "greedy").await?.starve("shell", TOO_LITTLE).await?;
            // The first time it was killed by us.
            let again = |pod: Option<&Pod>| match ends(pod) {
                Some((2.., 137)) => Ok(()),
                other => Err(format!("{other:?}")),
            };
            wait_for(&ns.api::<Pod>(), "greedy", SOON, "to be killed again", again).await?;
            starved.heal().await?;
            let begun = tokio::time::Instant::now();
            while !ns.logs("greedy", None).await.is_ok_and(|said| said.contains("30000000")) {
                ensure!(begun.elapsed() < SOON, "it does not get what it needs");
                tokio::time::sleep(std::time::Duration::from_millis(500)).await;
            }
            Ok(())
        })
        .await
}
