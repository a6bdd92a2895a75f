//! `make demo`: the seeds' story on a real cluster, told as it happens. It can be run twice.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use anyhow::{Context as _, ensure};
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, ResourceExt, api::ListParams};
use testbed::{
    history::Load,
    images::EtcdVersion,
    kit::{Cluster, Places, check, operator, wait_for_all},
};

use crate::{deploy, image, phase};

const NAMESPACE: &str = "default";
const CLUSTER: &str = "example-etcd-cluster";
/// What the book creates, in its order.
const OPERATOR: [&str; 5] = [
    "etcd-operator-crd.yaml",
    "etcd-operator-sa.yaml",
    "etcd-operator-role.yaml",
    "etcd-operator-rolebinding.yaml",
    "etcd-operator-deployment.yaml",
];
const RESOURCE: &str = "etcd-cluster-cr.yaml";

/// Tells the story.
pub(crate) async fn run() -> anyhow::Result<()> {
    let begun = Instant::now();
    if Places::named().is_none() {
        heading("A Kubernetes with three nodes");
        // Not from here: what a machine's first process is made of is the testbed's own binary.
        let etcd = [EtcdVersion::DEFAULT, EtcdVersion::V3_7].map(|version| version.to_string()).join(",");
        let up = tokio::process::Command::from(phase::testbed(&["up", "--etcd", &etcd])).status().await?;
        ensure!(up.success(), "there is no Kubernetes to show it on");
    }
    heading("Our image");
    deploy::push_image().await?;

    heading("The operator, from the files of the book");
    let cluster = Cluster::connect().await?;
    for file in OPERATOR {
        apply(&cluster, file).await?;
    }
    operator::available_in(&cluster, NAMESPACE).await?;
    println!("the operator runs");

    heading("An EtcdCluster");
    let applied = Instant::now();
    apply(&cluster, RESOURCE).await?;
    members_ready(&cluster, applied, 3, None).await?;
    // After an earlier demo it runs a later version, and goes down again first.
    wait_until_ready(&cluster).await?;
    what_there_is(&cluster).await?;
    client(&cluster).await?;
    let load = Load::default().start(&cluster, NAMESPACE, CLUSTER).await?;
    grow_and_heal(&cluster).await?;
    upgrade(&cluster).await?;
    // An error here is a write that was acknowledged and is gone, or an answer that cannot be.
    println!("the client's history is in order: {}", load.finish().await?);
    closing(begun, &cluster.places().kubectl);
    Ok(())
}

fn heading(text: &str) {
    println!("\n== {text}");
}

async fn apply(cluster: &Cluster, file: &str) -> anyhow::Result<()> {
    let path: PathBuf = image::repository()?.join("example").join(file);
    println!("$ kubectl apply --server-side --force-conflicts -f example/{file}");
    // Server-side, as `make deploy` does, and by force: the demo may come after it, and be run twice.
    let arguments =
        ["-n", NAMESPACE, "apply", "--server-side", "--force-conflicts", "-f", &path.to_string_lossy()];
    println!("{}", cluster.kubectl(&arguments).await?.success()?);
    Ok(())
}

/// Tells each change of each member's pod, until so many are Ready, and this one is not among them.
async fn members_ready(
    cluster: &Cluster,
    since: Instant,
    size: usize,
    gone: Option<&str>,
) -> anyhow::Result<()> {
    let pods: Api<Pod> = Api::namespaced(cluster.client(), NAMESPACE);
    let labels = format!("etcd_cluster={CLUSTER}");
    let mut told = BTreeMap::new();
    let wanted = format!("to be {size} and Ready");
    wait_for_all(&pods, &labels, Duration::from_mins(5), &wanted, |pods| {
        for pod in pods {
            let state = state(pod);
            if told.insert(pod.name_any(), state) != Some(state) {
                println!("{:>6.1} s  {} {state}", since.elapsed().as_secs_f64(), pod.name_any());
            }
        }
        match pods.iter().map(ResourceExt::name_any).find(|name| Some(name.as_str()) == gone) {
            Some(name) => Err(format!("{name} is still there")),
            None => check::pods_ready(size)(pods).map(drop),
        }
    })
    .await?;
    println!("{:>6.1} s  all {size} members are Ready\n", since.elapsed().as_secs_f64());
    Ok(())
}

/// The cluster and its Services, as kubectl shows them.
async fn what_there_is(cluster: &Cluster) -> anyhow::Result<()> {
    kubectl(cluster, &["get", "etcdcluster", CLUSTER]).await?;
    kubectl(cluster, &["get", "services", "--selector", &format!("etcd_cluster={CLUSTER}")]).await
}

/// Runs kubectl, and shows what was typed and printed.
async fn kubectl(cluster: &Cluster, arguments: &[&str]) -> anyhow::Result<()> {
    println!("$ kubectl {}", arguments.join(" "));
    let here = [&["-n", NAMESPACE], arguments].concat();
    println!("{}\n", cluster.kubectl(&here).await?.success()?);
    Ok(())
}

/// A fourth member, and one that is lost and replaced, while somebody writes and reads all the time.
async fn grow_and_heal(cluster: &Cluster) -> anyhow::Result<()> {
    heading("A fourth member, while a client writes and reads");
    let since = Instant::now();
    kubectl(cluster, &["scale", &format!("etcdcluster/{CLUSTER}"), "--replicas=4"]).await?;
    members_ready(cluster, since, 4, None).await?;

    heading("A member is lost");
    let pods: Api<Pod> = Api::namespaced(cluster.client(), NAMESPACE);
    let members = pods.list(&ListParams::default().labels(&format!("etcd_cluster={CLUSTER}"))).await?;
    let victim = members.items.first().map(ResourceExt::name_any).context("there is no member")?;
    let since = Instant::now();
    kubectl(cluster, &["delete", "pod", &victim, "--wait=false"]).await?;
    members_ready(cluster, since, 4, Some(&victim)).await?;
    Ok(())
}

/// The book's way to another version: one patch, and the members follow one after another on their own data.
async fn upgrade(cluster: &Cluster) -> anyhow::Result<()> {
    heading("An upgrade, while the client goes on");
    let patch = format!(r#"[{{"op": "replace", "path": "/spec/version", "value": {}}}]"#, EtcdVersion::V3_7);
    kubectl(cluster, &["patch", "etcdcluster", CLUSTER, "--type=json", "-p", &patch]).await?;
    wait_until_ready(cluster).await?;
    kubectl(cluster, &["get", "etcdcluster", CLUSTER]).await?;
    kubectl(cluster, &["get", "events", "--field-selector", "involvedObject.kind=EtcdCluster"]).await
}

/// Waits until all that the spec asks for is carried out.
async fn wait_until_ready(cluster: &Cluster) -> anyhow::Result<()> {
    let resource = format!("etcdcluster/{CLUSTER}");
    kubectl(cluster, &["wait", "--for=condition=Ready", &resource, "--timeout=10m"]).await
}

/// How far a member's pod is, in the words of `kubectl get pods` as far as it has some.
fn state(pod: &Pod) -> &'static str {
    let status = pod.status.as_ref();
    let scheduled = pod.spec.as_ref().is_some_and(|spec| spec.node_name.is_some());
    let initialised = status.and_then(|status| status.init_container_statuses.as_ref()).is_some_and(|all| {
        all.iter().all(|container| container.state.as_ref().is_some_and(|state| state.terminated.is_some()))
    });
    match status.and_then(|status| status.phase.as_deref()) {
        Some("Running") if check::pod_ready(Some(pod)).is_ok() => "Ready",
        Some("Running") => "Running",
        _ if initialised => "PodInitializing",
        _ if scheduled => "Init:0/1",
        _ => "Pending",
    }
}

/// The book's client: a pod that puts and gets through the client Service.
async fn client(cluster: &Cluster) -> anyhow::Result<()> {
    heading("A client");
    let script = format!(
        "export ETCDCTL_API=3\nexport ETCDCSVC=http://{CLUSTER}-client:2379\n\
         etcdctl --endpoints $ETCDCSVC put foo bar\netcdctl --endpoints $ETCDCSVC get foo\n\
         etcdctl --endpoints $ETCDCSVC endpoint status --cluster --write-out=table\n"
    );
    println!("$ kubectl run --rm -i etcdctl --image quay.io/coreos/etcd --restart=Never -- /bin/sh");
    for line in script.lines() {
        println!("  {line}");
    }
    // One that an interrupted demo left would be in the way.
    cluster.kubectl(&["-n", NAMESPACE, "delete", "pod", "etcdctl", "--ignore-not-found", "--now"]).await?;
    let run = [
        "-n",
        NAMESPACE,
        "run",
        "--rm",
        "-i",
        "etcdctl",
        "--image",
        "quay.io/coreos/etcd",
        "--restart=Never",
    ];
    // Typed, as in the book: what a shell prints before kubectl is attached to it is not seen.
    let shell = [&run[..], &["--quiet", "--", "/bin/sh"]].concat();
    let said = cluster.kubectl_with(&shell, script.as_bytes(), Duration::from_mins(2)).await?.success()?;
    println!("{said}");
    ensure!(said.contains("foo\nbar"), "foo was not read back as bar");
    Ok(())
}

fn closing(begun: Instant, kubectl: &Path) {
    println!(
        "\nfoo was read back as bar, a member joined, one was replaced, and all were upgraded: {} after the demo began. It is all still running. Next:",
        took(begun)
    );
    println!("  export KUBECONFIG=$(make -s kubeconfig)");
    if let Some(folder) = kubectl.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        println!("  export PATH=$PATH:{}    # if you have no kubectl", folder.display());
    }
    println!("  kubectl describe etcdcluster/{CLUSTER}");
    println!("  kubectl get pods -l etcd_cluster={CLUSTER} -o wide");
    println!("  kubectl scale etcdcluster/{CLUSTER} --replicas=3");
    println!("  make load CLUSTER={CLUSTER} DURATION=60    # writes and reads, and checks what it was told");
    println!("  kubectl run --rm -i --tty etcdctl --image quay.io/coreos/etcd --restart=Never -- /bin/sh");
    println!("  kubectl logs deployment/etcd-operator");
    println!("To clean up:");
    println!("  kubectl delete -f example/{RESOURCE}    # the etcd cluster and its data");
    println!("  make undeploy                               # the operator, and all etcd clusters with it");
    println!("  make cluster-down                           # the Kubernetes itself");
}

fn took(begun: Instant) -> String {
    testbed::progress::in_words(begun.elapsed())
}
