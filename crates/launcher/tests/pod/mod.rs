//! A pod of the poor: the launcher's binary, two folders for its two volumes, and a file for its last words.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test's functions may panic too")]
#![allow(dead_code, reason = "each test file uses its own part")]

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Output, Stdio},
    time::{Duration, Instant},
};

use launch::{Intent, LaunchOrder, ORDER_ENV, Refused, Seal};
use tempfile::TempDir;

pub(crate) struct Pod {
    dir: TempDir,
    pub(crate) etcd: PathBuf,
}

impl Pod {
    /// A pod with this etcd.
    pub(crate) fn with(etcd: &Path) -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("marker")).unwrap();
        Self { dir, etcd: etcd.to_owned() }
    }

    /// A pod whose etcd is a shell script.
    pub(crate) fn with_script(script: &str) -> Self {
        let mut pod = Self::with(Path::new(""));
        pod.etcd = pod.path("etcd");
        fs::write(&pod.etcd, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&pod.etcd, fs::Permissions::from_mode(0o755)).unwrap();
        pod
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(crate) fn data(&self) -> PathBuf {
        self.path("etcd-volume/data")
    }

    /// The data volume is lost.
    pub(crate) fn wipe_data(&self) {
        fs::remove_dir_all(self.path("etcd-volume")).unwrap();
    }

    /// The pod is made again: everything that lives as long as a pod is gone.
    pub(crate) fn remake(&self) {
        fs::remove_dir_all(self.path("marker")).unwrap();
        fs::create_dir(self.path("marker")).unwrap();
    }

    pub(crate) fn order(&self, version: &str, intent: Intent, flags: &[String]) -> LaunchOrder {
        let mut argv = vec![format!("--data-dir={}", self.data().display())];
        argv.extend_from_slice(flags);
        let seal = Seal { member: "a-bcdfghjk24".parse().unwrap(), token: "t-1".parse().unwrap() };
        LaunchOrder { seal, version: version.parse().unwrap(), intent, argv }
    }

    fn command(&self, order: Option<&str>) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_etcd-launcher"));
        let flag = |name: &str, path: PathBuf| format!("--{name}={}", path.display());
        command
            .arg("run")
            .arg(flag("etcd", self.etcd.clone()))
            .arg(flag("data-dir", self.data()))
            .arg(flag("marker-dir", self.path("marker")))
            .arg(flag("termination-log", self.path("termination-log")))
            .env_remove(ORDER_ENV)
            .stdin(Stdio::null());
        if let Some(order) = order {
            command.env(ORDER_ENV, order);
        }
        command
    }

    /// Runs the container to its end.
    pub(crate) fn run(&self, order: Option<&str>) -> Output {
        let _ = fs::remove_file(self.path("termination-log"));
        self.command(order).output().unwrap()
    }

    /// Runs the container, which has to refuse; the reason's word.
    pub(crate) fn refusal(&self, order: Option<&str>) -> String {
        let output = self.run(order);
        assert_eq!(output.status.code(), Some(78), "{output:?}");
        let refused: Refused = fs::read_to_string(self.path("termination-log")).unwrap().parse().unwrap();
        assert!(String::from_utf8_lossy(&output.stderr).contains(&refused.sentence), "the log says it too");
        refused.reason.to_string()
    }

    /// Starts the container and lets it run.
    pub(crate) fn start(&self, order: &LaunchOrder) -> Container {
        let log = fs::File::options().create(true).append(true).open(self.path("log")).unwrap();
        let _ = fs::remove_file(self.path("termination-log"));
        let child = self
            .command(Some(&order.to_annotation()))
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap();
        Container(child)
    }

    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.path("log")).unwrap_or_default()
    }

    pub(crate) fn said_nothing_at_the_end(&self) -> bool {
        !self.path("termination-log").exists()
    }
}

/// A container that runs. It ends with its handle.
pub(crate) struct Container(Child);

impl Container {
    pub(crate) fn signal(&self, signal: nix::sys::signal::Signal) {
        let id = nix::unistd::Pid::from_raw(i32::try_from(self.0.id()).unwrap());
        nix::sys::signal::kill(id, signal).unwrap();
    }

    pub(crate) fn wait(&mut self) -> ExitStatus {
        self.0.wait().unwrap()
    }

    pub(crate) fn kill(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Drop for Container {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Waits until something is so.
pub(crate) fn eventually(what: &str, log: impl Fn() -> String, look: impl Fn() -> bool) {
    let end = Instant::now() + Duration::from_secs(30);
    while !look() {
        assert!(Instant::now() < end, "not within 30 s: {what}\n{}", log());
        std::thread::sleep(Duration::from_millis(50));
    }
}
