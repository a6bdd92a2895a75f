//! A process that cannot be mistaken for another: pid, start time and boot.

use std::{
    fs, io,
    path::Path,
    thread,
    time::{Duration, Instant},
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use serde::{Deserialize, Serialize};

/// A process of this machine, by what stays unique after its pid was given to another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessId {
    /// The pid as this machine's own namespace counts it.
    pub pid: i32,
    /// Clock ticks between boot and the process's start.
    pub started: u64,
    /// Which boot: after another one, no process of this one lives.
    pub boot: String,
}

impl ProcessId {
    /// The process that has this pid now.
    pub fn of(pid: i32) -> io::Result<Self> {
        Self::read(Path::new(&format!("/proc/{pid}/stat")))
    }

    /// The calling process. Read through `/proc` as it is mounted: a process that is PID 1 of a new namespace, with the
    /// old `/proc` still in place, learns its pid outside.
    pub fn own() -> io::Result<Self> {
        Self::read(Path::new("/proc/self/stat"))
    }

    fn read(stat: &Path) -> io::Result<Self> {
        let text = fs::read_to_string(stat)?;
        let (pid, started) = parse_stat(&text).ok_or_else(|| {
            io::Error::new(io::ErrorKind::InvalidData, format!("{}: {text}", stat.display()))
        })?;
        Ok(Self { pid, started, boot: boot_id()? })
    }

    /// Whether this very process still runs. A zombie does not, unless one of its threads does: the last thread of a machine's PID 1
    /// takes all processes of the machine with it, and until then they run.
    #[must_use]
    pub fn is_alive(&self) -> bool {
        let tasks = fs::read_dir(format!("/proc/{}/task", self.pid)).into_iter().flatten().flatten();
        let runs = |stat: &str| {
            stat.rsplit(')').next().is_some_and(|rest| !rest.trim_start().starts_with(['Z', 'X']))
        };
        tasks
            .into_iter()
            .any(|task| fs::read_to_string(task.path().join("stat")).is_ok_and(|stat| runs(&stat)))
            && Self::of(self.pid).is_ok_and(|now| now == *self)
    }

    /// Sends a signal, but only to this very process.
    pub fn signal(&self, signal: Signal) -> io::Result<()> {
        if self.is_alive() { kill(Pid::from_raw(self.pid), signal).map_err(io::Error::from) } else { Ok(()) }
    }

    /// Waits until it is gone; false when it outlives the patience.
    #[must_use]
    pub fn wait_gone(&self, patience: Duration) -> bool {
        let started = Instant::now();
        while self.is_alive() {
            if started.elapsed() > patience {
                return false;
            }
            thread::sleep(Duration::from_millis(10));
        }
        true
    }
}

/// The kernel's name for the time since this machine was started.
fn boot_id() -> io::Result<String> {
    Ok(fs::read_to_string("/proc/sys/kernel/random/boot_id")?.trim().to_owned())
}

/// Pid and start time from a line of `/proc/PID/stat`. The command's name may hold blanks and brackets, so fields are
/// counted behind its last bracket.
fn parse_stat(text: &str) -> Option<(i32, u64)> {
    let (pid, _) = text.split_once(' ')?;
    let (_, rest) = text.rsplit_once(')')?;
    // Field 22 of the line; the state behind the bracket is field 3.
    let started = rest.split_ascii_whitespace().nth(22 - 3)?;
    Some((pid.parse().ok()?, started.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn a_name_with_brackets_does_not_shift_the_fields() {
        let line = "42 (a) b (c) S 1 42 42 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 777 1 1";
        assert_eq!(parse_stat(line), Some((42, 777)));
        assert_eq!(parse_stat("42 nonsense"), None);
    }

    #[test]
    fn a_process_of_another_boot_is_another_process_and_gets_no_signal() {
        // The very pid and start time of this test: only the boot tells that it is not meant.
        let mistaken = ProcessId { boot: "an earlier one".to_owned(), ..ProcessId::own().unwrap() };
        assert!(!mistaken.is_alive());
        mistaken.signal(Signal::SIGKILL).unwrap();
    }

    #[test]
    fn a_pid_with_another_start_time_is_another_process_and_gets_no_signal() {
        let mut child = Command::new("sleep").arg("60").stdin(Stdio::null()).spawn().unwrap();
        let it = ProcessId::of(child.id().cast_signed()).unwrap();
        let mistaken = ProcessId { started: it.started + 1, ..it.clone() };
        assert!(it.is_alive());
        assert!(!mistaken.is_alive());
        mistaken.signal(Signal::SIGKILL).unwrap();
        assert!(child.try_wait().unwrap().is_none(), "the signal went to a process that was not meant");
        it.signal(Signal::SIGKILL).unwrap();
        assert!(!child.wait().unwrap().success());
        assert!(it.wait_gone(Duration::from_secs(5)));
    }
}
