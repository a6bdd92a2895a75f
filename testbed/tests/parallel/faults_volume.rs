//! A volume can be wiped, put back to an older copy, and taken away: an emptyDir, and a node's disk.

use anyhow::ensure;
use k8s_openapi::api::core::v1::{Event, Pod};
use testbed::{
    faults::{Ground, volume::Volume},
    kit::{PodSecurity, TestCase, TestNamespace, wait_for, wait_for_all},
};

use crate::{SOON, script_pod};

const CLAIM: &str = "
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: disk}
spec:
  accessModes: [ReadWriteOnce]
  resources: {requests: {storage: 16Mi}}
";

fn keeper() -> String {
    script_pod("keeper", "sleep 3600").replace("restartPolicy: Never", "restartPolicy: Always").replace(
        "name: shell",
        "name: shell\n    volumeMounts: [{name: empty, mountPath: /empty}, {name: disk, mountPath: /disk}]",
    ) + "  volumes: [{name: empty, emptyDir: {}}, {name: disk, persistentVolumeClaim: {claimName: disk}}]\n"
}

async fn write(ns: &TestNamespace, at: &str, what: &str) -> anyhow::Result<()> {
    ns.exec("keeper", &["sh", "-c", &format!("echo {what} > {at}/file; sync")]).await?.success()?;
    Ok(())
}

/// What is in the folder: the file's content, or nothing.
async fn read(ns: &TestNamespace, at: &str) -> anyhow::Result<String> {
    let script = format!("[ ! -e {at}/file ] || cat {at}/file");
    Ok(ns.exec("keeper", &["sh", "-c", &script]).await?.success()?.trim().to_owned())
}

/// Ends the container, and waits until there is a new one.
async fn next_container(ns: &TestNamespace, ground: &Ground) -> anyhow::Result<()> {
    let restarts =
        |pod: &Pod| pod.status.as_ref()?.container_statuses.as_ref()?.first().map(|it| it.restart_count);
    let before = ns.api::<Pod>().get("keeper").await?;
    let count = restarts(&before);
    ground.place_of(before)?.kill("shell")?;
    wait_for(&ns.api::<Pod>(), "keeper", SOON, "to be started again", |pod: Option<&Pod>| {
        if pod.and_then(restarts) > count { Ok(()) } else { Err("not yet".to_owned()) }
    })
    .await?;
    ns.pod_ready("keeper").await?;
    Ok(())
}

async fn wiped_and_put_back(ns: &TestNamespace, volume: &Volume, at: &str) -> anyhow::Result<()> {
    write(ns, at, "old").await?;
    let copy = volume.copy()?;
    write(ns, at, "new").await?;
    volume.wipe()?;
    ensure!(read(ns, at).await?.is_empty(), "{at} is not wiped");
    volume.put_back(&copy)?;
    ensure!(read(ns, at).await? == "old", "{at} is not what it was");
    write(ns, at, "newest").await?;
    ensure!(read(ns, at).await? == "newest", "{at} cannot be written any more");
    Ok(())
}

#[tokio::test]
async fn a_volume_is_wiped_put_back_and_taken_away() -> anyhow::Result<()> {
    let case = TestCase::of("a_volume_is_wiped_put_back_and_taken_away");
    case.pod_security(PodSecurity::Restricted)
        .run(async |ns| {
            ns.apply(CLAIM).await?;
            ns.apply(&keeper()).await?;
            ns.pod_ready("keeper").await?;
            let ground = Ground::here()?;
            let place = ground.place(ns.name(), "keeper").await?;
            let (empty, disk) = (place.volume("empty").await?, place.volume("disk").await?);
            wiped_and_put_back(&ns, &empty, "/empty").await?;
            wiped_and_put_back(&ns, &disk, "/disk").await?;

            let gone = empty.delete()?;
            next_container(&ns, &ground).await?;
            ensure!(read(&ns, "/empty").await?.is_empty(), "the emptyDir is still there");
            gone.heal().await?;
            next_container(&ns, &ground).await?;
            ensure!(read(&ns, "/empty").await? == "newest", "the emptyDir is not back");

            let gone = disk.delete()?;
            ns.remove::<Pod>("keeper").await?;
            ns.apply(&keeper()).await?;
            wait_for_all(
                &ns.api::<Event>(),
                "",
                SOON,
                "to tell of a volume that is not there",
                |events: &[Event]| {
                    let told = |event: &Event| {
                        event.reason.as_deref() == Some("FailedMount")
                            && event
                                .message
                                .as_deref()
                                .is_some_and(|message| message.contains("does not exist"))
                    };
                    if events.iter().any(told) { Ok(()) } else { Err("none does".to_owned()) }
                },
            )
            .await?;
            gone.heal().await?;
            ns.pod_ready("keeper").await?;
            ensure!(read(&ns, "/disk").await? == "newest", "the disk is not back");
            Ok(())
        })
        .await
}
