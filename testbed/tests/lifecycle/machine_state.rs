//! What a machine looks like from outside a cluster: all that a cluster could leave behind.

use std::{
    collections::BTreeSet,
    fs,
    path::Path,
    process::Command,
    thread,
    time::{Duration, Instant},
};

use testbed::{cluster, instance::Instance, machine::Machine};

/// One line for each thing that is there, told by its kind.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct MachineState(BTreeSet<String>);

impl MachineState {
    /// The machine as it is now.
    pub(crate) fn now() -> Self {
        let mut seen = BTreeSet::new();
        seen.extend(processes());
        seen.extend(namespaces());
        seen.extend(mounts());
        seen.extend(cgroups());
        for (kind, argv) in [
            ("link", vec!["ip", "-o", "-br", "link"]),
            ("address", vec!["ip", "-o", "-br", "address"]),
            ("route", vec!["ip", "-o", "route", "show", "table", "all"]),
            ("rule", vec!["ip", "-o", "rule"]),
            ("iptables", vec!["iptables-save"]),
            ("ip6tables", vec!["ip6tables-save"]),
            ("nft", vec!["nft", "list", "ruleset"]),
            ("loop device", vec!["losetup", "--list", "--noheadings", "--output", "BACK-FILE"]),
        ] {
            seen.extend(printed(kind, &argv));
        }
        for folder in
            ["/run", "/run/netns", "/run/containerd", "/var/lib", "/var/log", "/etc/cni", "/var/lib/cni"]
        {
            seen.extend(files(Path::new(folder)));
        }
        Self(seen)
    }

    /// Fails unless the machine is again as it was, within the moment that the kernel and this machine's own first
    /// process need to take away what has ended.
    pub(crate) fn is_back(&self) {
        let begun = Instant::now();
        loop {
            let changes = Self::now().changes_since(self);
            if changes.is_empty() {
                return;
            }
            assert!(begun.elapsed() < Duration::from_mins(1), "left on the machine: {changes:#?}");
            thread::sleep(Duration::from_millis(100));
        }
    }

    /// What came since then. What went was somebody else's: other people's things come and go.
    pub(crate) fn changes_since(&self, before: &Self) -> Vec<String> {
        self.0.difference(&before.0).cloned().collect()
    }
}

fn pids() -> impl Iterator<Item = String> {
    fs::read_dir("/proc")
        .expect("/proc can be read")
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter(|name| name.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Processes that name the spare testbed in their arguments. (Whatever else it runs is in a namespace of its own.)
fn processes() -> Vec<String> {
    pids()
        .filter_map(|pid| {
            let arguments = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
            let arguments = String::from_utf8_lossy(&arguments).replace('\0', " ");
            arguments.contains("etcd-operator-testbed/spare").then(|| format!("process {pid} {arguments}"))
        })
        .collect()
}

/// The namespaces that any process is in, except for those of the main testbed: its pods come and go.
fn namespaces() -> Vec<String> {
    let seen: Vec<_> = pids()
        // What has ended and was not taken away yet: this machine's first process does that when it likes.
        .filter(|pid| {
            fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| !stat.contains(") Z "))
        })
        .flat_map(|pid| ["mnt", "net", "pid", "uts", "ipc"].map(|kind| (pid.clone(), kind)))
        .filter_map(|(pid, kind)| {
            let namespace = fs::read_link(format!("/proc/{pid}/ns/{kind}")).ok()?;
            Some((pid, format!("namespace {}", namespace.display())))
        })
        .collect();
    // Only now: what began meanwhile would otherwise be nobody's.
    let main: BTreeSet<_> = cluster::machines(Instance::Main)
        .iter()
        .flat_map(Machine::processes)
        .map(|(pid, _)| pid.to_string())
        .collect();
    // A process that has ended since then cannot be told apart any more.
    let is_others = |pid: &String| !main.contains(pid) && Path::new("/proc").join(pid).exists();
    seen.into_iter().filter(|(pid, _)| is_others(pid)).map(|(_, namespace)| namespace).collect()
}

fn mounts() -> Vec<String> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").expect("mounts can be read");
    mounts.lines().filter_map(|line| Some(format!("mount {}", line.split(' ').nth(4)?))).collect()
}

fn cgroups() -> Vec<String> {
    fn below(path: &Path, depth: usize, found: &mut Vec<String>) {
        for entry in fs::read_dir(path).into_iter().flatten().flatten() {
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                found.push(format!("cgroup {}", entry.path().display()));
                if depth > 0 {
                    below(&entry.path(), depth - 1, found);
                }
            }
        }
    }
    let mut found = Vec::new();
    // Hierarchies and their top groups: deeper ones of other people come and go.
    below(Path::new("/sys/fs/cgroup"), 1, &mut found);
    found
}

fn printed(kind: &str, argv: &[&str]) -> Vec<String> {
    let output =
        Command::new(argv[0]).args(&argv[1..]).output().unwrap_or_else(|error| panic!("{argv:?}: {error}"));
    assert!(output.status.success(), "{argv:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout)
        .lines()
        // Comments carry the time, counters carry the traffic.
        .filter(|line| !line.starts_with('#'))
        .map(|line| format!("{kind} {}", line.split('[').next().unwrap_or(line).trim()))
        .collect()
}

fn files(folder: &Path) -> Vec<String> {
    fs::read_dir(folder)
        .into_iter()
        .flatten()
        .flatten()
        // The folder of all instances and the lock stay: the one may hold the main testbed, the other may be held.
        .filter(|entry| !entry.file_name().to_string_lossy().starts_with("etcd-operator-testbed"))
        .map(|entry| format!("file {}", entry.path().display()))
        .collect()
}
