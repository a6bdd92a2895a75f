//! The spare testbed, driven as a person drives the main one: by its command.

use std::{
    fs::File,
    path::Path,
    process::{Child, Command, Output, Stdio},
};

use testbed::{cluster, control_plane::Layout, instance::Instance, machine::Machine};

/// The spare testbed in the hands of one test, and free of clusters when the test begins and when it ends, however it ends.
pub(crate) struct Spare {
    /// Another checkout may be running the same tests.
    _alone: File,
}

impl Spare {
    /// A machine without a spare cluster.
    pub(crate) fn none() -> Self {
        let alone = File::create("/run/etcd-operator-testbed-spare-tests.lock").unwrap();
        alone.lock().unwrap();
        remove();
        Self { _alone: alone }
    }
}

impl Drop for Spare {
    fn drop(&mut self) {
        remove();
    }
}

/// Removes the cluster in the name of whoever started it.
fn remove() {
    let record = Layout::of(Instance::Spare).machine("cluster.json");
    let owner = std::fs::read(record)
        .ok()
        .and_then(|text| serde_json::from_slice::<serde_json::Value>(&text).ok())
        .and_then(|record| Some(record.get("checkout")?.as_str()?.to_owned()))
        .unwrap_or_else(|| "/".to_owned());
    let done = run(&mut command(Path::new(&owner), &["down"]));
    assert!(done.status.success(), "{}", text(&done));
}

/// The testbed's command for the spare cluster, as the given checkout.
pub(crate) fn command(checkout: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_testbed"));
    command
        .args(arguments)
        .env("TESTBED_INSTANCE", "spare")
        .env("TESTBED_CHECKOUT", checkout)
        // One version is enough for what is shown here.
        .env("TESTBED_ETCD", "3.6.14")
        .env_remove("TESTBED_KUBECONFIG")
        .stdin(Stdio::null());
    command
}

pub(crate) fn run(command: &mut Command) -> Output {
    command.output().expect("the testbed's command can be run")
}

pub(crate) fn start(command: &mut Command) -> Child {
    command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("the testbed's command can be run")
}

pub(crate) fn up(checkout: &Path) {
    let done = run(&mut command(checkout, &["up"]));
    assert!(done.status.success(), "{}", text(&done));
}

pub(crate) fn down(checkout: &Path) {
    let done = run(&mut command(checkout, &["down"]));
    assert!(done.status.success(), "{}", text(&done));
}

/// What a command said, on both channels.
pub(crate) fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// The spare machines that were ever started and are not removed.
pub(crate) fn machines() -> Vec<Machine> {
    cluster::machines(Instance::Spare)
}

/// How many nodes the API server calls Ready.
pub(crate) fn ready_nodes(checkout: &Path) -> usize {
    let nodes = run(&mut command(checkout, &["kubectl", "--", "get", "nodes", "--no-headers"]));
    assert!(nodes.status.success(), "{}", text(&nodes));
    String::from_utf8_lossy(&nodes.stdout).lines().filter(|line| line.contains(" Ready ")).count()
}
