//! Starting a cluster, step by step.

use std::{
    fs,
    path::PathBuf,
    time::{Duration, Instant},
};

use futures::future::try_join_all;
use jiff::Timestamp;
use k8s_openapi::api::core::v1;
use kube::Api;

use super::{
    ClusterError, Settings, down, lock,
    record::{CONTROL, Found, NODES, Record, belongs_to_another, look},
};
use crate::{
    addons,
    cache::{Cache, Recipe},
    cgroup,
    control_plane::{self, Binaries, Layout},
    host,
    images::{self, EtcdVersion},
    kit::{Cluster, check, wait_for},
    machine::Machine,
    network, node,
    node::Node,
    progress::Steps,
    push::push,
    recipe::GoModule,
};

/// How long each part may take to come up on a machine that is busy with other things.
const PATIENCE: Duration = Duration::from_mins(2);
/// What the state of a running cluster and its pods need on the disk.
const ROOM_TO_RUN_MIB: u64 = 4 << 10;
/// What the Go builds need beside, for their own caches.
const ROOM_TO_BUILD_MIB: u64 = 10 << 10;

pub(super) async fn up(settings: &Settings) -> Result<(), ClusterError> {
    host::check_root()?;
    let _lock = lock(settings.instance)?;
    let layout = Layout::of(settings.instance);
    match look(&layout) {
        Found::Running { record, .. } if belongs_to_another(&record, &settings.checkout) => {
            return Err(ClusterError::Foreign { owner: record.checkout });
        }
        Found::Running { dead, .. } => match ailment(&layout, &dead).await {
            None => return refresh(settings, &layout).await,
            Some(what) => println!("{what}: the cluster is started anew"),
        },
        Found::Remains { why } => println!("what is left of an earlier cluster is removed first: {why}"),
        Found::Nothing => {}
    }
    let mut steps = Steps::of(9 + build_steps(settings).len());
    let cache = Cache::for_this_user()?;
    let binaries = prepare(settings, &layout, &cache, &mut steps)?;
    start(settings, &layout, &binaries, &cache, &mut steps).await?;
    println!("\nthree nodes are Ready after {}. Next:", steps.elapsed());
    println!("  make kubectl ARGS='get nodes -o wide'");
    println!("  export KUBECONFIG=$(make -s kubeconfig)");
    println!("  make cluster-status, make cluster-down");
    Ok(())
}

/// What is wrong with a cluster that seems to be up.
async fn ailment(layout: &Layout, dead: &[String]) -> Option<String> {
    if !dead.is_empty() {
        return Some(format!("{} does not run any more", dead.join(", ")));
    }
    for machine in super::machines(layout.instance) {
        match machine.programs() {
            Err(error) => return Some(error.to_string()),
            Ok(programs) => {
                if let Some(ended) = programs.iter().find(|program| program.ended.is_some()) {
                    return Some(format!("{} on {} has ended", ended.name, machine.name()));
                }
            }
        }
    }
    let cluster = match Cluster::connect_with(&layout.kubeconfig("admin")).await {
        Ok(cluster) => cluster,
        Err(error) => return Some(error.to_string()),
    };
    if let Err(error) = cluster.readyz().await {
        return Some(error.to_string());
    }
    nodes_ready(&cluster).await.err().map(|error| error.to_string())
}

/// A cluster that is up already: only the images that were asked for and are not there yet are added.
async fn refresh(settings: &Settings, layout: &Layout) -> Result<(), ClusterError> {
    let cache = Cache::for_this_user()?;
    let mut steps = Steps::of(build_steps(settings).len() + 3);
    for recipe in build_steps(settings) {
        build(&cache, &mut steps, recipe.as_ref())?;
    }
    steps.step("images in the registry", push_images(settings, layout, &cache)).await?;
    let cluster = Cluster::connect_with(&layout.kubeconfig("admin")).await?;
    steps.step("DNS and volumes", addons::apply(layout, &cluster, settings.dns)).await?;
    steps.step("DNS answers", addons::dns_available(&cluster)).await?;
    println!("the cluster is up already");
    Ok(())
}

/// All that is built, in the order in which a person waits for it.
fn build_steps(settings: &Settings) -> Vec<Box<dyn Recipe>> {
    let mut recipes: Vec<Box<dyn Recipe>> = vec![
        Box::new(GoModule::kubernetes()),
        Box::new(GoModule::registry()),
        Box::new(GoModule::coredns()),
        Box::new(crate::recipe::Pause),
        Box::new(crate::recipe::DebianShell),
    ];
    // Those of the two client images are always needed.
    let clients = [EtcdVersion::DEFAULT, EtcdVersion::V3_3];
    let others = settings.etcd.iter().copied().filter(|version| !clients.contains(version));
    recipes.extend(clients.into_iter().chain(others).map(EtcdVersion::recipe));
    recipes
}

fn build(cache: &Cache, steps: &mut Steps, recipe: &dyn Recipe) -> Result<(), ClusterError> {
    let there = cache.has(recipe);
    let what = format!("{} {}", recipe.name(), recipe.version());
    let begun = steps.begin(&what, (!there).then(|| recipe.usual()));
    let entry = cache.get(recipe);
    steps.end(begun, entry.is_ok(), if there { "in the cache" } else { "built" });
    entry?;
    Ok(())
}

/// Everything that a cluster needs, and that is not there yet.
pub(super) fn build_all(settings: &Settings) -> Result<(), ClusterError> {
    host::check_root()?;
    let cache = Cache::for_this_user()?;
    let mut steps = Steps::of(1 + build_steps(settings).len());
    steps.work("this machine: disk, programs", || check_to_build(&cache))?;
    for recipe in build_steps(settings) {
        build(&cache, &mut steps, recipe.as_ref())?;
    }
    Ok(())
}

fn check_to_build(cache: &Cache) -> Result<(), ClusterError> {
    host::check_cache(cache.root())?;
    if !cache.has(&GoModule::kubernetes()) {
        host::check_room(
            cache.root(),
            ROOM_TO_BUILD_MIB,
            "make room, or name another folder in TESTBED_CACHE",
        )?;
    }
    host::install_packages()?;
    Ok(())
}

/// Everything before the first process is started.
fn prepare(
    settings: &Settings,
    layout: &Layout,
    cache: &Cache,
    steps: &mut Steps,
) -> Result<Binaries, ClusterError> {
    steps.work("this machine: disk, addresses, programs", || {
        host::check_room(&layout.instance.dir(), ROOM_TO_RUN_MIB, "make room")?;
        check_to_build(cache)?;
        network::check_free(layout.instance)?;
        Ok::<_, ClusterError>(())
    })?;
    for recipe in build_steps(settings) {
        build(cache, steps, recipe.as_ref())?;
    }
    steps.work("remains of an earlier cluster", || down::remove(layout))?;
    binaries_in(layout, cache)
}

fn binaries_in(layout: &Layout, cache: &Cache) -> Result<Binaries, ClusterError> {
    let path = |recipe: &dyn Recipe| cache.get(recipe).map(|entry| entry.path.join("bin"));
    Ok(Binaries {
        kubernetes: path(&GoModule::kubernetes())?,
        etcd: path(EtcdVersion::DEFAULT.recipe().as_ref())?,
        registry: path(&GoModule::registry())?,
        testbed: layout.machine("bin").join("testbed"),
    })
}

/// The programs of a cluster that was started by this checkout.
pub(crate) fn binaries(layout: &Layout) -> Result<Binaries, ClusterError> {
    binaries_in(layout, &Cache::for_this_user()?)
}

async fn start(
    settings: &Settings,
    layout: &Layout,
    binaries: &Binaries,
    cache: &Cache,
    steps: &mut Steps,
) -> Result<(), ClusterError> {
    let mut record = Record {
        checkout: settings.checkout.clone(),
        since: Timestamp::now(),
        kubernetes: binaries.kubernetes.clone(),
        complete: false,
    };
    let recorded = |record: &Record| {
        record.write(layout).map_err(|source| ClusterError::File { path: layout.instance.dir(), source })
    };
    recorded(&record)?;
    let control = steps.work("certificates, control machine, network", || boot_control(layout, binaries))?;
    let cluster = steps.step("the control plane", start_control_plane(layout, binaries, &control)).await?;
    steps.step("images in the registry", push_images(settings, layout, cache)).await?;
    steps.work("three nodes", || start_nodes(layout, binaries, &control))?;
    steps.step("DNS and volumes", addons::apply(layout, &cluster, settings.dns)).await?;
    steps.step("nodes Ready", nodes_ready(&cluster)).await?;
    steps.step("DNS answers", addons::dns_available(&cluster)).await?;
    record.complete = true;
    recorded(&record)
}

fn boot_control(layout: &Layout, binaries: &Binaries) -> Result<Machine, ClusterError> {
    let failed = |path: PathBuf| move |source| ClusterError::File { path, source };
    // A copy, so that a rebuilt or deleted checkout does not pull the file from under the machines. Not by its name: the first `up` takes
    // a quarter of an hour to come here, and somebody may have built another one in the meantime.
    let own = "/proc/self/exe";
    let bin = layout.machine("bin");
    fs::create_dir_all(&bin).map_err(failed(bin.clone()))?;
    fs::copy(own, &binaries.testbed).map_err(failed(binaries.testbed.clone()))?;
    control_plane::write_credentials(layout, NODES)?;
    control_plane::write_configuration(layout).map_err(failed(layout.machine(CONTROL)))?;
    let control = Machine::boot(&binaries.testbed, CONTROL, &layout.machine(CONTROL))?;
    network::connect_host(layout.instance, &control, NODES)?;
    Ok(control)
}

async fn start_control_plane(
    layout: &Layout,
    binaries: &Binaries,
    control: &Machine,
) -> Result<Cluster, ClusterError> {
    control.start(control_plane::etcd(layout, binaries))?;
    control.start(control_plane::registry(layout, binaries))?;
    control.start(control_plane::api_server(layout, binaries))?;
    let cluster = Cluster::connect_with(&layout.kubeconfig("admin")).await?;
    api_ready(layout, control, &cluster).await?;
    control.start(control_plane::controller_manager(layout, binaries))?;
    control.start(control_plane::scheduler(layout, binaries))?;
    Ok(cluster)
}

/// Asks again and again, because there is nothing yet that could be watched.
async fn api_ready(layout: &Layout, control: &Machine, cluster: &Cluster) -> Result<(), ClusterError> {
    let started = Instant::now();
    let mut answer = String::new();
    while started.elapsed() < PATIENCE {
        match cluster.readyz().await {
            Ok(()) => return Ok(()),
            Err(error) => answer = error.to_string(),
        }
        if let Some(program) = control.programs()?.into_iter().find(|program| program.ended.is_some()) {
            let text = fs::read_to_string(&program.log).unwrap_or_default();
            let lines: Vec<_> = text.lines().collect();
            return Err(ClusterError::Ended {
                program: program.name,
                how: program.ended.unwrap_or_default(),
                log: program.log,
                last: lines.iter().rev().take(5).rev().copied().collect::<Vec<_>>().join("\n"),
            });
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let log = layout.machine(CONTROL).join("log/kube-apiserver.log");
    Err(ClusterError::NotReady { seconds: PATIENCE.as_secs(), log, answer })
}

/// Makes and pushes what is not in the registry yet.
async fn push_images(settings: &Settings, layout: &Layout, cache: &Cache) -> Result<(), ClusterError> {
    let mut wanted = vec![
        images::pause(cache)?,
        images::coredns(cache)?,
        images::client(cache)?,
        images::seeds_client(cache)?,
    ];
    for version in &settings.etcd {
        wanted.push(images::etcd(cache, *version)?);
    }
    for image in wanted {
        push(&image.build()?, &layout.registry()).await?;
    }
    Ok(())
}

fn start_nodes(layout: &Layout, binaries: &Binaries, control: &Machine) -> Result<(), ClusterError> {
    for number in 1..=NODES {
        start_node(layout, binaries, control, Node(number))?;
    }
    Ok(())
}

/// Starts a node on whatever its disks hold.
pub(crate) fn start_node(
    layout: &Layout,
    binaries: &Binaries,
    control: &Machine,
    node: Node,
) -> Result<(), ClusterError> {
    let dir = layout.machine(&node.name());
    cgroup::make(&node.cgroup(layout))?;
    node::write_configuration(layout, node)
        .map_err(|source| ClusterError::File { path: dir.clone(), source })?;
    let machine = Machine::boot(&binaries.testbed, &node.name(), &dir)?;
    network::connect_node(layout.instance, control, &machine, node.0, NODES)?;
    machine.start(node::containerd(layout, node).kept())?;
    machine.start(node::provisioner(layout, binaries, node).kept())?;
    machine.start(node::kubelet(layout, binaries, node).kept())?;
    machine.start(node::proxy(layout, binaries, node).kept())?;
    Ok(())
}

async fn nodes_ready(cluster: &Cluster) -> Result<(), ClusterError> {
    let nodes: Api<v1::Node> = Api::all(cluster.client().clone());
    let names = (1..=NODES).map(|number| Node(number).name());
    try_join_all(names.map(|name| {
        let nodes = nodes.clone();
        async move { wait_for(&nodes, &name, PATIENCE, "to be Ready", check::node_ready).await }
    }))
    .await?;
    Ok(())
}
