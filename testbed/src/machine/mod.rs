//! A machine of the testbed: processes in their own PID, mount, network, host-name and IPC namespaces.
//!
//! The control plane runs in one, each node in one of its own. To lose a node is to kill its PID 1; to remove the
//! testbed is to kill them all.

mod init;
mod process;
mod protocol;

use std::{
    fs, io,
    path::{Path, PathBuf},
    process::{Command, Output},
    thread,
    time::{Duration, Instant},
};

use nix::sys::signal::Signal;

pub use init::{boot as boot_here, run as run_init};
pub use process::ProcessId;
pub use protocol::{Program, ProgramStatus};
use protocol::{Request, Response};

/// Where programs are looked for inside a machine.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/// The file by which a machine is found again: written by its PID 1 itself.
const RECORD: &str = "machine.json";
/// Where its PID 1 listens.
const SOCKET: &str = "machine.sock";

/// What went wrong with a machine.
#[derive(Debug, thiserror::Error)]
pub enum MachineError {
    /// PID 1 could not be started.
    #[error("the machine {name} could not be started: {source}")]
    Boot {
        /// Which machine.
        name: String,
        /// Why.
        source: io::Error,
    },
    /// PID 1 was started and did not come to listen.
    #[error("the machine {name} did not come up within {patience:?}; its PID 1 says: {log}")]
    Silent {
        /// Which machine.
        name: String,
        /// How long it was waited for.
        patience: Duration,
        /// What PID 1 wrote.
        log: String,
    },
    /// PID 1 could not be asked.
    #[error("the machine {name} could not be asked: {source}")]
    Ask {
        /// Which machine.
        name: String,
        /// Why.
        source: io::Error,
    },
    /// PID 1 said no.
    #[error("on the machine {name}, {reason}")]
    Refused {
        /// Which machine.
        name: String,
        /// In its own words.
        reason: String,
    },
    /// A command inside the machine failed.
    #[error("on the machine {name}, `{command}` failed: {reason}")]
    Command {
        /// Which machine.
        name: String,
        /// The command.
        command: String,
        /// What it said.
        reason: String,
    },
    /// It did not end.
    #[error("the machine {name} (PID {pid}) did not end within {patience:?}")]
    Immortal {
        /// Which machine.
        name: String,
        /// Its PID 1, as seen from here.
        pid: i32,
        /// How long it was waited for.
        patience: Duration,
    },
}

/// A machine that was started.
#[derive(Clone, Debug)]
pub struct Machine {
    name: String,
    dir: PathBuf,
    init: ProcessId,
}

impl Machine {
    /// Starts a machine whose files lie in `dir`, and waits until its PID 1 listens. `binary` is the testbed's own.
    pub fn boot(binary: &Path, name: &str, dir: &Path) -> Result<Self, MachineError> {
        let failed = |source| MachineError::Boot { name: name.to_owned(), source };
        fs::create_dir_all(dir).map_err(failed)?;
        for stale in [RECORD, SOCKET] {
            match fs::remove_file(dir.join(stale)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
                _ => {}
            }
        }
        let output =
            Command::new(binary).args(["machine", "boot", name]).arg(dir).output().map_err(failed)?;
        if !output.status.success() {
            return Err(failed(io::Error::other(String::from_utf8_lossy(&output.stderr).trim().to_owned())));
        }
        let patience = Duration::from_secs(20);
        let started = Instant::now();
        while started.elapsed() < patience {
            if let Some(machine) = Self::find(name, dir)
                && dir.join(SOCKET).exists()
                && machine.programs().is_ok()
            {
                return Ok(machine);
            }
            thread::sleep(Duration::from_millis(10));
        }
        let log = fs::read_to_string(dir.join("init.log")).unwrap_or_default();
        Err(MachineError::Silent { name: name.to_owned(), patience, log: log.trim().to_owned() })
    }

    /// The machine whose files lie in `dir`, if one was ever started there. It may be dead.
    #[must_use]
    pub fn find(name: &str, dir: &Path) -> Option<Self> {
        let record = fs::read(dir.join(RECORD)).ok()?;
        let init = serde_json::from_slice(&record).ok()?;
        Some(Self { name: name.to_owned(), dir: dir.to_owned(), init })
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The folder of its files.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Its PID 1, as seen from here.
    #[must_use]
    pub fn init(&self) -> &ProcessId {
        &self.init
    }

    /// Whether it runs.
    #[must_use]
    pub fn is_alive(&self) -> bool {
        self.init.is_alive()
    }

    /// Starts a program, unless it runs already.
    pub fn start(&self, program: Program) -> Result<(), MachineError> {
        match self.ask(&Request::Start(program))? {
            Response::Refused(reason) => Err(MachineError::Refused { name: self.name.clone(), reason }),
            _ => Ok(()),
        }
    }

    /// Sends a signal to a program and waits until it is gone.
    pub fn stop(&self, program: &str, signal: Signal, patience: Duration) -> Result<(), MachineError> {
        match self.ask(&Request::Stop { name: program.to_owned(), signal: signal as i32, patience })? {
            Response::Refused(reason) => Err(MachineError::Refused { name: self.name.clone(), reason }),
            _ => Ok(()),
        }
    }

    /// What runs in it, with pids as they are seen from here.
    pub fn programs(&self) -> Result<Vec<ProgramStatus>, MachineError> {
        match self.ask(&Request::List)? {
            Response::Programs(mut programs) => {
                let outside = self.processes();
                for program in &mut programs {
                    if let Some((pid, _)) = outside.iter().find(|(_, inside)| *inside == program.pid) {
                        program.pid = *pid;
                    }
                }
                Ok(programs)
            }
            Response::Refused(reason) => Err(MachineError::Refused { name: self.name.clone(), reason }),
            Response::Done => Ok(Vec::new()),
        }
    }

    /// Every process of the machine and of the pods in it: pid as seen from here, and as the machine counts it.
    #[must_use]
    pub fn processes(&self) -> Vec<(i32, i32)> {
        if !self.is_alive() {
            return Vec::new();
        }
        let namespace = |pid: i32| fs::read_link(format!("/proc/{pid}/ns/pid")).ok();
        let Some(own) = namespace(self.init.pid) else { return Vec::new() };
        fs::read_dir("/proc")
            .into_iter()
            .flatten()
            .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<i32>().ok())
            .filter_map(|pid| {
                let pids = nested_pids(&fs::read_to_string(format!("/proc/{pid}/status")).ok()?)?;
                // A pod's processes are in a namespace of their own below the machine's; the first pid counts here, the
                // second in the machine.
                let inside = *pids.get(1)?;
                (namespace(pid) == Some(own.clone()) || self.holds(pid)).then_some((pid, inside))
            })
            .collect()
    }

    /// Whether a process in a deeper PID namespace belongs to this machine: its ancestors end at this PID 1.
    fn holds(&self, pid: i32) -> bool {
        let mut at = pid;
        for _ in 0..64 {
            if at == self.init.pid {
                return true;
            }
            let Some(parent) =
                fs::read_to_string(format!("/proc/{at}/status")).ok().and_then(|s| parent_pid(&s))
            else {
                return false;
            };
            at = parent;
        }
        false
    }

    /// A command that will run inside the machine.
    #[must_use]
    pub fn command<A: AsRef<str>>(&self, argv: &[A]) -> Command {
        let mut command = Command::new("nsenter");
        command
            .args(["--mount", "--uts", "--ipc", "--net", "--pid", "--target"])
            .arg(self.init.pid.to_string())
            .arg("--")
            .args(argv.iter().map(AsRef::as_ref))
            .env("PATH", PATH);
        command
    }

    /// Runs a command inside the machine and returns what it printed.
    pub fn run<A: AsRef<str>>(&self, argv: &[A]) -> Result<String, MachineError> {
        let failed = |reason: String| MachineError::Command {
            name: self.name.clone(),
            command: argv.iter().map(AsRef::as_ref).collect::<Vec<_>>().join(" "),
            reason,
        };
        if !self.is_alive() {
            return Err(failed("the machine does not run".to_owned()));
        }
        let Output { status, stdout, stderr } =
            self.command(argv).output().map_err(|error| failed(error.to_string()))?;
        if status.success() {
            Ok(String::from_utf8_lossy(&stdout).into_owned())
        } else {
            Err(failed(format!("{status}: {}", String::from_utf8_lossy(&stderr).trim())))
        }
    }

    /// Ends the machine as a power cut does: every process at once, and nothing is told of it.
    pub fn power_off(&self) -> Result<(), MachineError> {
        let patience = Duration::from_secs(30);
        self.init
            .signal(Signal::SIGKILL)
            .map_err(|source| MachineError::Ask { name: self.name.clone(), source })?;
        if self.init.wait_gone(patience) {
            Ok(())
        } else {
            Err(MachineError::Immortal { name: self.name.clone(), pid: self.init.pid, patience })
        }
    }

    fn ask(&self, request: &Request) -> Result<Response, MachineError> {
        protocol::ask(&self.dir.join(SOCKET), request)
            .map_err(|source| MachineError::Ask { name: self.name.clone(), source })
    }
}

/// The folder of all instances, given a machine's (`ROOT/INSTANCE/MACHINE`).
fn state_root(machine: &Path) -> &Path {
    machine.ancestors().nth(2).unwrap_or(machine)
}

/// The pids of a process from the outermost namespace to its own.
pub(crate) fn nested_pids(status: &str) -> Option<Vec<i32>> {
    let line = status.lines().find_map(|line| line.strip_prefix("NSpid:"))?;
    line.split_ascii_whitespace().map(|pid| pid.parse().ok()).collect()
}

fn parent_pid(status: &str) -> Option<i32> {
    status.lines().find_map(|line| line.strip_prefix("PPid:"))?.trim().parse().ok().filter(|pid| *pid > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pids_are_listed_from_the_outside_in() {
        let status = "Name:\tetcd\nPPid:\t7\nNSpid:\t4711\t25\t1\n";
        assert_eq!(nested_pids(status), Some(vec![4711, 25, 1]));
        assert_eq!(parent_pid(status), Some(7));
        assert_eq!(nested_pids("Name:\tx\n"), None);
    }

    #[test]
    fn the_state_of_all_instances_is_two_folders_above_a_machine() {
        assert_eq!(state_root(Path::new("/a/b/main/node1")), Path::new("/a/b"));
    }
}
