//! Up, down, up: nothing is left, and a second `up` changes nothing.

use std::path::Path;

use testbed::instance::Instance;

use crate::{
    machine_state::MachineState,
    spare::{Spare, command, down, machines, ready_nodes, run, text, up},
};

#[test]
fn a_cluster_that_was_up_twice_leaves_the_machine_as_it_was() {
    let _spare = Spare::none();
    let before = MachineState::now();
    let checkout = tempfile::tempdir().unwrap();

    up(checkout.path());
    assert_eq!(ready_nodes(checkout.path()), 3);
    status_tells_all(checkout.path());
    leave_traces(checkout.path());
    assert!(
        MachineState::now().changes_since(&before).len() > 20,
        "a running cluster can hardly be seen: the comparison would show nothing"
    );
    down(checkout.path());
    before.is_back();
    assert!(!Instance::Spare.dir().exists());

    up(checkout.path());
    assert_eq!(ready_nodes(checkout.path()), 3);
    down(checkout.path());
    before.is_back();
}

/// What runs where, and that it takes less memory than a small machine has to spare.
fn status_tells_all(checkout: &Path) {
    let status = text(&run(&mut command(checkout, &["status"])));
    for part in ["etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "registry"] {
        assert!(status.contains(part), "{part} is not in {status}");
    }
    for part in ["kubelet", "containerd", "kube-proxy", "provisioner", "Ready"] {
        assert_eq!(status.matches(part).count(), 3, "{part} in {status}");
    }
    let memory =
        status.lines().find_map(|line| line.strip_prefix("memory: ")?.split(' ').next()?.parse::<u32>().ok());
    assert!(memory.is_some_and(|mib| mib > 100 && mib <= 1228), "1.2 GiB are the limit: {status}");
}

/// A pod with a volume and a Service: mounts, cgroups, namespaces, links and rules that must go with the cluster.
fn leave_traces(checkout: &Path) {
    let kubectl = |arguments: &[&str]| {
        let done = run(&mut command(checkout, &[&["kubectl", "--"], arguments].concat()));
        assert!(done.status.success(), "{arguments:?}: {}", text(&done));
    };
    let manifest = checkout.join("traces.yaml");
    std::fs::write(&manifest, include_str!("traces.yaml")).unwrap();
    kubectl(&["apply", "-f", manifest.to_str().unwrap()]);
    kubectl(&["wait", "--for=condition=Ready", "pod/traces", "--timeout=120s"]);
}

#[test]
fn a_second_up_changes_nothing_and_a_second_down_is_content() {
    let _spare = Spare::none();
    let checkout = tempfile::tempdir().unwrap();
    up(checkout.path());
    let first: Vec<_> = machines().iter().map(|machine| machine.init().clone()).collect();
    assert_eq!(first.len(), 4);

    let again = run(&mut command(checkout.path(), &["up"]));
    assert!(again.status.success() && text(&again).contains("up already"), "{}", text(&again));
    let second: Vec<_> = machines().iter().map(|machine| machine.init().clone()).collect();
    assert_eq!(first, second);

    let path = run(&mut command(checkout.path(), &["kubeconfig"]));
    let path = String::from_utf8(path.stdout).unwrap();
    assert!(Path::new(path.trim_end()).is_file() && path.lines().count() == 1, "{path:?}");

    down(checkout.path());
    down(checkout.path());
    let gone = run(&mut command(checkout.path(), &["kubeconfig"]));
    assert!(!gone.status.success() && text(&gone).contains("make cluster-up"), "{}", text(&gone));
}
