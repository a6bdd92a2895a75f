//! One phase of a run: a command, its minutes, and what its tests left.

use std::{
    env,
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
    process::{Command, ExitStatus},
    time::Instant,
};

use anyhow::{Context as _, ensure};
use testbed::instance::Instance;

use crate::report::Report;

/// What a phase runs: a command, and the nextest profile under which it leaves results if it is one of its.
pub(crate) struct Phase {
    pub(crate) name: &'static str,
    pub(crate) command: Command,
    profile: Option<&'static str>,
}

impl Phase {
    pub(crate) fn of(name: &'static str, command: Command) -> Self {
        Self { name, command, profile: None }
    }

    /// Runs it. A failure ends the run.
    pub(crate) fn run(mut self, report: &mut Report) -> anyhow::Result<()> {
        let (status, results) = self.see(report)?;
        if let Some(results) = results {
            report.tests(&results)?;
        }
        self.succeeded(status)
    }

    /// Runs it, and says how it ended and where the results of its tests are.
    pub(crate) fn see(&mut self, report: &mut Report) -> anyhow::Result<(ExitStatus, Option<PathBuf>)> {
        println!("\n== {}", self.name);
        let results = self.profile.map(results_of);
        if let Some(old) = &results {
            // Results of an earlier run must not be taken for this one's.
            let _ = fs::remove_file(old);
        }
        let begun = Instant::now();
        let status = self
            .command
            // Which one is not a matter of taste here: the tests are for the main one.
            .env("TESTBED_INSTANCE", Instance::Main.to_string())
            .status()
            .with_context(|| format!("{} could not be run", self.command.get_program().display()))?;
        report.phase(self.name, begun.elapsed());
        Ok((status, results))
    }

    pub(crate) fn succeeded(&self, status: ExitStatus) -> anyhow::Result<()> {
        ensure!(status.success(), "{} failed: {:?} ended with {status}", self.name, self.command);
        Ok(())
    }
}

/// The runner of tests.
pub(crate) struct Nextest {
    /// Its program.
    pub(crate) program: PathBuf,
    /// The folder in which tests find real etcd, if they are to.
    pub(crate) etcd: Option<PathBuf>,
}

impl Nextest {
    /// The tests that a filter selects.
    pub(crate) fn tests(&self, name: &'static str, profile: &'static str, filter: &str) -> Phase {
        let mut command = Command::new(&self.program);
        command.args(["nextest", "run", "--workspace", "--locked", "--profile", profile, "-E", filter]);
        command.envs(self.etcd.iter().map(|folder| ("ETCD_BINARIES", folder)));
        Phase { name, command, profile: Some(profile) }
    }
}

/// Where nextest leaves its results: below the workspace, wherever cargo puts what it builds.
fn results_of(profile: &str) -> PathBuf {
    Path::new("target/nextest").join(profile).join("junit.xml")
}

/// Cargo with these arguments.
pub(crate) fn cargo(arguments: &[&str]) -> Command {
    let mut command = Command::new(cargo_program());
    command.args(arguments);
    command
}

/// The cargo that runs this, or the one on the path.
pub(crate) fn cargo_program() -> OsString {
    env::var_os("CARGO").unwrap_or_else(|| "cargo".into())
}

/// A program of this repository.
pub(crate) fn cargo_run(package: &str, arguments: &[&str]) -> Command {
    let mut command = cargo(&["run", "--quiet", "--locked", "--package", package, "--"]);
    command.args(arguments);
    command
}

/// The testbed's own command.
pub(crate) fn testbed(arguments: &[&str]) -> Command {
    let mut command =
        cargo(&["run", "--quiet", "--locked", "--package", "testbed", "--bin", "testbed", "--"]);
    command.args(arguments);
    command
}

/// Where cargo puts what it builds.
pub(crate) fn target() -> PathBuf {
    env::var_os("CARGO_TARGET_DIR").map_or_else(|| PathBuf::from("target"), PathBuf::from)
}
