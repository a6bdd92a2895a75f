//! The floor: etcd in bare pods with static bootstrap, without an operator. Times end with the watch event that shows it.

use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube::api::{Patch, PatchParams};
use serde_json::json;
use testbed::kit::{TestNamespace, check, handmade::HandMade, wait_for};
use tokio::time::Instant;

/// The etcd that is measured.
pub(crate) const ETCD: &str = "3.6.14";
/// The one that members are brought to.
pub(crate) const NEXT: &str = "3.7.1";
/// How long a member may take to run that, on a busy machine.
const PATIENCE: Duration = Duration::from_mins(3);

/// A cluster of this size, from its `apply` until all its members are Ready; it is gone again afterwards.
pub(crate) async fn apply_to_ready(ns: &TestNamespace, run: u32, size: usize) -> anyhow::Result<Duration> {
    // A new name each time: DNS and the scheduler remember.
    let name = format!("floor-{size}-{run}");
    let etcd = cluster(ns, &name, size);
    let started = Instant::now();
    let ready = async {
        ns.pods_ready(&etcd.labels(), size).await?;
        Ok(started.elapsed())
    };
    let applied = async { anyhow::Ok(ns.apply(&etcd.manifest()).await?) };
    let (applied, took) = tokio::try_join!(applied, ready)?;
    ns.remove_all(&applied).await?;
    Ok(took)
}

/// How long the end of a pod took, and how long all took until the one in its place was Ready.
pub(crate) struct Again {
    pub(crate) gone: Duration,
    pub(crate) ready: Duration,
}

/// The pod of a cluster of one, from its deletion until it is gone, and until the pod that is made then is Ready.
pub(crate) async fn delete_to_ready(ns: &TestNamespace, run: u32) -> anyhow::Result<Again> {
    let name = format!("again-{run}");
    let etcd = cluster(ns, &name, 1);
    let member = format!("{name}-0");
    let applied = ns.apply(&etcd.manifest()).await?;
    ns.pod_ready(&member).await?;

    let started = Instant::now();
    ns.remove::<Pod>(&member).await?;
    let gone = started.elapsed();
    ns.apply(&etcd.pod(&member)).await?;
    ns.pod_ready(&member).await?;
    let ready = started.elapsed();
    ns.remove_all(&applied).await?;
    Ok(Again { gone, ready })
}

/// Three pods that are brought to the next minor by hand, one after another, each until it is Ready again.
pub(crate) async fn roll(ns: &TestNamespace, run: u32) -> anyhow::Result<Duration> {
    let name = format!("roll-{run}");
    let etcd = cluster(ns, &name, 3);
    let applied = ns.apply(&etcd.manifest()).await?;
    ns.pods_ready(&etcd.labels(), 3).await?;
    let (pods, image) = (ns.api::<Pod>(), format!("quay.io/coreos/etcd:v{NEXT}"));
    let patch = json!({"spec": {"containers": [{"name": "etcd", "image": image}]}});
    let started = Instant::now();
    for member in etcd.members() {
        pods.patch(&member, &PatchParams::default(), &Patch::Strategic(&patch)).await?;
        let runs = |pod: Option<&Pod>| pod.map_or(Err("it is gone".to_owned()), |pod| runs(pod, NEXT));
        wait_for(&pods, &member, PATIENCE, "to run the next minor", runs).await?;
    }
    let took = started.elapsed();
    ns.remove_all(&applied).await?;
    Ok(took)
}

/// Whether etcd was started again in a pod with this version, and is Ready.
pub(crate) fn runs(pod: &Pod, version: &str) -> Result<(), String> {
    let containers = pod.status.iter().flat_map(|status| status.container_statuses.iter().flatten());
    let again = containers.map(|container| container.restart_count).sum::<i32>() > 0;
    let asked = pod.spec.iter().flat_map(|spec| &spec.containers).filter_map(|it| it.image.as_deref());
    let is_next = asked.into_iter().any(|image| image.ends_with(&format!(":v{version}")));
    if again && is_next {
        check::pod_ready(Some(pod)).map(drop)
    } else {
        Err("it was not started again".to_owned())
    }
}

fn cluster<'a>(ns: &'a TestNamespace, name: &'a str, size: usize) -> HandMade<'a> {
    HandMade { name, namespace: ns.name(), version: ETCD, size }
}
