//! No acknowledged write is lost, and none is read out of order, while a member's process is killed.

use std::{fs, time::Duration};

use anyhow::{Context as _, ensure};
use e2e::{SOON, etcd_cluster, operator, running};
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, ResourceExt as _, api::ListParams};
use testbed::{
    history::{Load, Running},
    kit::{TestNamespace, in_namespace, wait_for},
};

/// Waits until this many more operations have been answered.
async fn answered(load: &Running, more: usize) -> anyhow::Result<()> {
    let target = load.answered() + more;
    let counted = async {
        while load.answered() < target {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    tokio::time::timeout(SOON, counted)
        .await
        .with_context(|| format!("no {more} answers: {}", load.progress()))
}

fn restarts(pod: &Pod) -> i32 {
    let containers = pod.status.iter().flat_map(|status| status.container_statuses.iter().flatten());
    containers.filter(|it| it.name == "etcd").map(|it| it.restart_count).sum()
}

/// Kills etcd as a lack of memory would, from outside of its container: it is process 1 in there, and no signal that it does not
/// handle reaches it from inside.
async fn kill(ns: &TestNamespace, pod: &str) -> anyhow::Result<()> {
    let status = ns.api::<Pod>().get(pod).await?.status.unwrap_or_default();
    let etcd = status.container_statuses.into_iter().flatten().find(|it| it.name == "etcd");
    let id = etcd.and_then(|it| it.container_id).context("etcd does not run")?;
    let id = id.trim_start_matches("containerd://");
    let mut killed = 0;
    for process in fs::read_dir("/proc")?.flatten() {
        let cgroup = fs::read_to_string(process.path().join("cgroup")).unwrap_or_default();
        let name = fs::read_to_string(process.path().join("comm")).unwrap_or_default();
        if cgroup.contains(id) && name.trim() == "etcd" {
            let pid = process.file_name().to_string_lossy().parse()?;
            nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), nix::sys::signal::Signal::SIGKILL)?;
            killed += 1;
        }
    }
    ensure!(killed == 1, "{killed} processes of {pod} were killed");
    Ok(())
}

async fn restarted_and_ready(ns: &TestNamespace, pod: &str) -> anyhow::Result<()> {
    let check = |pod: Option<&Pod>| match pod {
        Some(it) if restarts(it) > 0 => testbed::kit::check::pod_ready(Some(it)).map(drop),
        Some(it) => Err(format!("{} restarts", restarts(it))),
        None => Err("it is gone".to_owned()),
    };
    wait_for(&ns.api::<Pod>(), pod, SOON, "to be restarted and Ready", check).await?;
    Ok(())
}

#[tokio::test]
async fn a_killed_member_restarts_on_its_data_and_no_acknowledged_write_is_lost() -> anyhow::Result<()> {
    in_namespace("killed_under_load", async |ns| {
        operator(&ns).await?;
        ns.apply(&etcd_cluster("c", 3, "3.6.14")).await?;
        running(&ns, "c").await?;
        let load = Load::default().start(ns.cluster(), ns.name(), "c").await?;
        answered(&load, 100).await?;
        let pods: Api<Pod> = ns.api();
        let members = pods.list(&ListParams::default().labels("etcd_cluster=c")).await?.items;
        let victim = members.first().context("there are no members")?.name_any();
        kill(&ns, &victim).await?;
        answered(&load, 100).await?;
        restarted_and_ready(&ns, &victim).await?;
        answered(&load, 100).await?;
        let verdict = load.finish().await?;
        println!("{verdict}");
        ensure!(verdict.checked() >= 300 && verdict.writes > 0 && verdict.reads > 0, "{verdict}");
        running(&ns, "c").await?;
        Ok(())
    })
    .await
}
