//! Beside the loop: the program that holds a pod's namespaces, compiled from a few lines of C.
use std::time::Duration;

use super::{BuildError, Tool, create_dir, write};
use crate::cache::{Bench, Fingerprint, Recipe};

const CC: Tool = Tool {
    program: "cc",
    install: "install a C compiler with a static C library (on Debian: gcc and libc6-dev)",
    remote: "the other side",
};

const SOURCE: &str = include_str!("../../images/pause.c");
const FLAGS: &[&str] = &["-static", "-Os", "-s", "-Wall", "-Wextra", "-Werror", "-std=gnu11"];

/// The sandbox's program, static. It is `bin/pause` in the entry.
#[derive(Debug)]
pub struct Pause;

impl Recipe for Pause {
    fn name(&self) -> &'static str {
        "pause"
    }

    /// The version whose place it takes: the one that the sandbox image's tag names.
    fn version(&self) -> &'static str {
        "3.10"
    }

    fn fingerprint(&self) -> Fingerprint {
        Fingerprint::of([SOURCE].iter().chain(FLAGS))
    }

    fn usual(&self) -> Duration {
        Duration::from_secs(1)
    }

    fn build(&self, bench: &Bench) -> Result<(), BuildError> {
        let source = bench.scratch.join("pause.c");
        write(&source, SOURCE)?;
        let bin = bench.into.join("bin");
        create_dir(&bin)?;
        CC.run(bench, CC.command().args(FLAGS).arg("-o").arg(bin.join("pause")).arg(&source))
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;
    use crate::cache::Cache;

    #[test]
    fn it_leaves_when_it_is_told_to() {
        let folder = tempfile::tempdir().unwrap();
        let entry = Cache::at(folder.path()).get(&Pause).unwrap();
        for signal in [nix::sys::signal::SIGTERM, nix::sys::signal::SIGINT] {
            let mut pause = Command::new(entry.path.join("bin/pause")).stdin(Stdio::null()).spawn().unwrap();
            std::thread::sleep(Duration::from_millis(200));
            assert!(pause.try_wait().unwrap().is_none(), "it waits");
            let pid = nix::unistd::Pid::from_raw(i32::try_from(pause.id()).unwrap());
            nix::sys::signal::kill(pid, signal).unwrap();
            assert!(pause.wait().unwrap().success(), "{signal}");
        }
    }
}
