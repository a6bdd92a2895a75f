//! Beside the loop: how each real part of the testbed is obtained, and what a person is told when that fails.
mod cargo_tool;
mod debian;
mod go;
mod pause;

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

pub use cargo_tool::CargoTool;
pub use debian::{DebianEtcd, DebianShell};
pub(crate) use debian::{LIBRARIES, LOADER};
pub use go::GoModule;
pub use pause::Pause;

use crate::cache::Bench;

/// Why a build failed, each as one sentence with what to do about it.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// A program that the recipe runs is not installed.
    #[error("the program `{program}` is not installed; {install}")]
    NoProgram {
        /// The program.
        program: String,
        /// How to get it.
        install: &'static str,
    },
    /// A program is there but could not be started.
    #[error("could not start `{program}`")]
    Start {
        /// The program.
        program: String,
        /// Why it failed.
        source: io::Error,
    },
    /// Something has to be fetched, and the other side did not answer.
    #[error("{remote} did not answer ({line}); check the network and run it again (full log: {})", log.display())]
    NoAnswer {
        /// Who did not answer.
        remote: &'static str,
        /// The line of the log that says so.
        line: String,
        /// The log.
        log: PathBuf,
    },
    /// The package lists of this machine are old, or of another system.
    #[error(
        "this machine's package lists do not have what is asked for ({line}); run `apt-get update` and run it again (full log: {})",
        log.display()
    )]
    NoPackage {
        /// The line of the log that says so.
        line: String,
        /// The log.
        log: PathBuf,
    },
    /// No space is left.
    #[error("the disk is full; free some space and run it again (full log: {})", log.display())]
    DiskFull {
        /// The log.
        log: PathBuf,
    },
    /// The build failed for a reason that only its output tells.
    #[error("`{command}` failed; its last lines are below, the full log is {}\n{tail}", log.display())]
    Failed {
        /// What was run.
        command: String,
        /// The last lines of the log.
        tail: String,
        /// The log.
        log: PathBuf,
    },
    /// What was built is not what was asked for.
    #[error("expected {expected}, but found {found}; {advice}")]
    Unexpected {
        /// What was asked for.
        expected: String,
        /// What is there.
        found: String,
        /// What to do.
        advice: &'static str,
    },
    /// A file of the build could not be handled.
    #[error("could not {attempt} {}", path.display())]
    File {
        /// What was attempted.
        attempt: &'static str,
        /// On which path.
        path: PathBuf,
        /// Why it failed.
        source: io::Error,
    },
}

impl BuildError {
    /// The failure of a command whose output is in this log, as specific as the log allows.
    #[must_use]
    pub fn failed(command: impl Into<String>, log: &Path) -> Self {
        Self::told_by(&end_of(log), command.into(), "the other side", log)
    }

    fn told_by(text: &str, command: String, remote: &'static str, log: &Path) -> Self {
        let log = log.to_owned();
        let said = |signs: &[&str]| {
            text.lines()
                .find(|line| {
                    let line = line.to_lowercase();
                    signs.iter().any(|sign| line.contains(sign))
                })
                .map(|line| line.trim().to_owned())
        };
        if said(DISK_FULL).is_some() {
            return Self::DiskFull { log };
        }
        if let Some(line) = said(NO_PACKAGE) {
            return Self::NoPackage { line, log };
        }
        if let Some(line) = said(NO_ANSWER) {
            return Self::NoAnswer { remote, line, log };
        }
        let lines: Vec<_> = text.lines().collect();
        let tail = lines.get(lines.len().saturating_sub(TAIL_LINES)..).unwrap_or_default().join("\n");
        Self::Failed { command, tail, log }
    }
}

const TAIL_LINES: usize = 15;
/// How much of a log's end is looked at. The reason is in the last lines; a whole build's log is megabytes.
const TAIL_BYTES: u64 = 32 * 1024;

const DISK_FULL: &[&str] = &["no space left on device", "os error 28"];

const NO_PACKAGE: &[&str] =
    &["unable to locate package", "has no installation candidate", "can't select candidate version"];

/// What Go, apt and cargo print when the other side is not reached; in lower case.
const NO_ANSWER: &[&str] = &[
    "dial tcp",
    "no such host",
    "i/o timeout",
    "tls handshake timeout",
    "tls: failed to verify",
    "x509: certificate",
    "connection refused",
    "connection reset",
    "connection timed out",
    "network is unreachable",
    "temporary failure resolving",
    "temporary failure in name resolution",
    "could not resolve host",
    "failed to fetch http",
    "unable to connect to",
    "spurious network error",
    "timeout was reached",
    "operation timed out",
    "ssl connect error",
    "bad gateway",
    "service unavailable",
    "gateway timeout",
];

/// A program that recipes run.
struct Tool {
    program: &'static str,
    /// What to do if it is missing.
    install: &'static str,
    /// From where it fetches.
    remote: &'static str,
}

impl Tool {
    fn command(&self) -> Command {
        let mut command = Command::new(self.program);
        // The signs above are English.
        command.env("LC_ALL", "C");
        command
    }

    /// Runs the command with its output in the bench's log.
    fn run(&self, bench: &Bench, command: &mut Command) -> Result<(), BuildError> {
        let log =
            OpenOptions::new().append(true).open(&bench.log).map_err(file("open the log", &bench.log))?;
        let errors = log.try_clone().map_err(file("open the log", &bench.log))?;
        let lock = bench.lock.try_clone().map_err(file("share the lock of", &bench.into))?;
        let status = command
            .stdin(lock)
            .stdout(log)
            .stderr(errors)
            .status()
            .map_err(|source| self.not_started(source))?;
        if status.success() {
            return Ok(());
        }
        let shown = format!("{} {}", self.program, first_arguments(command));
        Err(BuildError::told_by(&end_of(&bench.log), shown, self.remote, &bench.log))
    }

    fn not_started(&self, source: io::Error) -> BuildError {
        let program = self.program.to_owned();
        if source.kind() == io::ErrorKind::NotFound {
            BuildError::NoProgram { program, install: self.install }
        } else {
            BuildError::Start { program, source }
        }
    }
}

/// What a built program prints.
fn output_of(command: &mut Command) -> Result<Output, BuildError> {
    let program = command.get_program().to_string_lossy().into_owned();
    command
        .stdin(std::process::Stdio::null())
        .output()
        .map_err(|source| BuildError::Start { program, source })
}

/// Enough of a command to know it: a whole `go build` is many lines.
fn first_arguments(command: &Command) -> String {
    let arguments: Vec<_> = command.get_args().map(|argument| argument.to_string_lossy()).collect();
    match arguments.get(..3) {
        Some(first) if arguments.len() > 3 => format!("{} …", first.join(" ")),
        _ => arguments.join(" "),
    }
}

/// The end of a log. A log that cannot be read must not hide the failure it was to explain, so it is empty then.
fn end_of(log: &Path) -> String {
    let read = || -> io::Result<Vec<u8>> {
        let mut file = File::open(log)?;
        let size = file.metadata()?.len();
        file.seek(SeekFrom::Start(size.saturating_sub(TAIL_BYTES)))?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    String::from_utf8_lossy(&read().unwrap_or_default()).into_owned()
}

fn write(path: &Path, content: &str) -> Result<(), BuildError> {
    fs::write(path, content).map_err(file("write", path))
}

fn create_dir(path: &Path) -> Result<(), BuildError> {
    fs::create_dir_all(path).map_err(file("create", path))
}

fn file(attempt: &'static str, path: &Path) -> impl FnOnce(io::Error) -> BuildError + use<> {
    let path = path.to_owned();
    move |source| BuildError::File { attempt, path, source }
}

#[cfg(test)]
mod tests;
