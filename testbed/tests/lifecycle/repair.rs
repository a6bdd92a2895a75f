//! What a crash leaves is repaired by the next `up` or `down`, from any checkout.

use std::{
    fs,
    path::Path,
    thread,
    time::{Duration, Instant},
};

use nix::sys::signal::Signal;
use testbed::{
    control_plane::Layout,
    instance::Instance,
    machine::{Machine, ProcessId},
};

use crate::{
    machine_state::MachineState,
    spare::{Spare, command, down, machines, ready_nodes, run, start, text, up},
};

/// Starts a cluster and kills the command, as soon as the file is there that tells how far it got.
fn killed_when_there_is(checkout: &Path, file: &Path) {
    let mut starting = start(&mut command(checkout, &["up"]));
    let begun = Instant::now();
    while !file.exists() {
        assert!(begun.elapsed() < Duration::from_mins(5), "{} does not appear", file.display());
        assert!(starting.try_wait().unwrap().is_none(), "up ended before it could be killed");
        thread::sleep(Duration::from_millis(2));
    }
    starting.kill().unwrap();
    starting.wait().unwrap();
}

#[test]
fn an_up_that_was_killed_half_way_is_repaired_by_the_next_from_another_checkout() {
    let _spare = Spare::none();
    let before = MachineState::now();
    let layout = Layout::of(Instance::Spare);
    let (one, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());

    killed_when_there_is(one.path(), &layout.machine("control").join("machine.json"));
    killed_when_there_is(other.path(), &layout.machine("control").join("log/kube-scheduler.log"));
    killed_when_there_is(one.path(), &layout.machine("node2").join("log/kubelet.log"));
    assert!(machines().iter().any(Machine::is_alive), "the crash left nothing to repair");
    up(other.path());
    assert_eq!(ready_nodes(other.path()), 3);
    down(other.path());

    killed_when_there_is(one.path(), &layout.machine("node1").join("machine.json"));
    down(other.path());
    before.is_back();
}

/// Kills every process of the cluster and of the pods on it, one by one, as a person with `kill` would.
fn kill_all() {
    let processes: Vec<_> = machines()
        .iter()
        .flat_map(Machine::processes)
        .filter_map(|(pid, _)| ProcessId::of(pid).ok())
        .collect();
    assert!(processes.len() > 20, "{} processes are no cluster", processes.len());
    for process in processes {
        // The end of a machine's first process is the end of all others in it: they may be gone already.
        let _ = process.signal(Signal::SIGKILL);
    }
    let begun = Instant::now();
    while machines().iter().any(Machine::is_alive) {
        assert!(begun.elapsed() < Duration::from_secs(30), "a machine survived");
        thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_cluster_all_of_whose_processes_were_killed_is_repaired_from_another_checkout() {
    let _spare = Spare::none();
    let before = MachineState::now();
    let (one, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());

    up(one.path());
    kill_all();
    up(other.path());
    assert_eq!(ready_nodes(other.path()), 3);

    kill_all();
    down(one.path());
    before.is_back();
}

/// Makes it look as if the machine had been started again: nothing runs, and pids were given to others, here to this test.
fn reboot() {
    kill_all();
    let own = ProcessId::own().unwrap();
    let record = serde_json::json!({"pid": own.pid, "started": own.started, "boot": "an earlier one"});
    for machine in machines() {
        fs::write(machine.dir().join("machine.json"), record.to_string()).unwrap();
    }
}

#[test]
fn after_a_reboot_of_this_machine_the_cluster_is_repaired_and_nobody_else_is_killed() {
    let _spare = Spare::none();
    let before = MachineState::now();
    let (one, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    up(one.path());
    reboot();
    up(other.path());
    assert_eq!(ready_nodes(other.path()), 3);
    reboot();
    down(one.path());
    before.is_back();
}

fn machine(name: &str) -> Machine {
    machines().into_iter().find(|machine| machine.name() == name).unwrap()
}

#[test]
fn a_cluster_that_lost_a_node_or_its_api_server_is_started_anew() {
    let _spare = Spare::none();
    let checkout = tempfile::tempdir().unwrap();
    up(checkout.path());
    machine("node2").power_off().unwrap();
    up(checkout.path());
    assert_eq!(ready_nodes(checkout.path()), 3);

    let programs = machine("control").programs().unwrap();
    let server = programs.iter().find(|program| program.name == "kube-apiserver").unwrap();
    let server = ProcessId::of(server.pid).unwrap();
    server.signal(Signal::SIGKILL).unwrap();
    // A process of many threads is no longer alive before its parent is told: on a busy machine that takes a while.
    let begun = Instant::now();
    loop {
        let status = text(&run(&mut command(checkout.path(), &["status"])));
        if status.contains("kube-apiserver") && status.contains("ended: signal: 9") {
            break;
        }
        assert!(begun.elapsed() < Duration::from_mins(1), "{status}");
        thread::sleep(Duration::from_millis(100));
    }
    up(checkout.path());
    assert_eq!(ready_nodes(checkout.path()), 3);
}
