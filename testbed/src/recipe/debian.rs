//! Beside the loop: programs out of Debian's packages, unpacked into the cache and never installed on this machine.
//!
//! etcd 3.4 has no Go module that builds it at a release, and a client image wants a shell; Debian has both, built against its
//! C library. So an entry holds the programs in `bin/` and the loader with the libraries in `lib/`.
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::{BuildError, Tool, create_dir, file, output_of, write};
use crate::cache::{Bench, Fingerprint, Recipe};

const APT: Tool = Tool {
    program: "apt-get",
    install: "etcd 3.4 and the client image come from Debian packages and need a Debian 12 machine",
    remote: "the Debian mirror",
};
const DPKG: Tool = Tool { program: "dpkg", install: APT.install, remote: "the Debian mirror" };

/// The program interpreter, by the name under which the binaries ask for it in `/lib64`.
pub(crate) const LOADER: &str = "ld-linux-x86-64.so.2";
/// What Debian's programs here need of libc6, including what the C library itself loads when it looks up a host.
pub(crate) const LIBRARIES: &[&str] = &[
    "libc.so.6",
    "libdl.so.2",
    "libm.so.6",
    "libnss_dns.so.2",
    "libnss_files.so.2",
    "libpthread.so.0",
    "libresolv.so.2",
    "librt.so.1",
];
/// Where Debian's packages keep programs and libraries, before and after the merge into `/usr`.
const PROGRAM_FOLDERS: &[&str] = &["usr/bin", "bin", "usr/sbin", "sbin"];
const LIBRARY_FOLDERS: &[&str] = &["lib/x86_64-linux-gnu", "usr/lib/x86_64-linux-gnu"];

/// etcd 3.4: `etcd` and `etcdctl`.
#[derive(Debug)]
pub struct DebianEtcd;

/// A shell and small programs for a person in a client pod: `dash`, `busybox` and `getent`. The file `applets` lists busybox's.
#[derive(Debug)]
pub struct DebianShell;

const ETCD_PACKAGES: &[&str] = &["etcd-server", "etcd-client", "libc6"];
const ETCD_PROGRAMS: &[&str] = &["etcd", "etcdctl"];
// Not busybox-static: its `nslookup` ignores the search list, and its `wget` crashes.
const SHELL_PACKAGES: &[&str] = &["busybox", "dash", "libc-bin", "libc6"];
const SHELL_PROGRAMS: &[&str] = &["busybox", "dash", "getent"];

impl Recipe for DebianEtcd {
    fn name(&self) -> &'static str {
        "etcd"
    }

    fn version(&self) -> &'static str {
        "3.4.23"
    }

    fn fingerprint(&self) -> Fingerprint {
        fingerprint(ETCD_PACKAGES, ETCD_PROGRAMS)
    }

    fn usual(&self) -> Duration {
        Duration::from_secs(10)
    }

    fn build(&self, bench: &Bench) -> Result<(), BuildError> {
        take(bench, ETCD_PACKAGES, ETCD_PROGRAMS)?;
        let output = output_of(program(bench, "etcd").arg("--version"))?;
        expect_version(&String::from_utf8_lossy(&output.stdout), self.version())
    }
}

impl Recipe for DebianShell {
    fn name(&self) -> &'static str {
        "shell"
    }

    /// Which version of each package it is, is up to the machine's package lists.
    fn version(&self) -> &'static str {
        "debian"
    }

    fn fingerprint(&self) -> Fingerprint {
        fingerprint(SHELL_PACKAGES, SHELL_PROGRAMS)
    }

    fn usual(&self) -> Duration {
        Duration::from_secs(5)
    }

    fn build(&self, bench: &Bench) -> Result<(), BuildError> {
        take(bench, SHELL_PACKAGES, SHELL_PROGRAMS)?;
        let output = output_of(program(bench, "busybox").arg("--list"))?;
        let applets = String::from_utf8_lossy(&output.stdout).into_owned();
        if !applets.lines().any(|applet| applet == "ls") {
            return Err(BuildError::Unexpected {
                expected: "a list of applets from busybox".to_owned(),
                found: format!("{applets:?}"),
                advice: "run it again on a Debian 12 machine",
            });
        }
        write(&bench.into.join("applets"), &applets)
    }
}

fn fingerprint(packages: &[&str], programs: &[&str]) -> Fingerprint {
    Fingerprint::of([packages, programs, &[LOADER], LIBRARIES].concat())
}

/// Downloads the packages, unpacks them, and puts what is wanted into the entry.
fn take(bench: &Bench, packages: &[&str], programs: &[&str]) -> Result<(), BuildError> {
    let downloads = bench.scratch.join("packages");
    let root = bench.scratch.join("root");
    create_dir(&downloads)?;
    create_dir(&root)?;
    let download = || APT.run(bench, APT.command().current_dir(&downloads).arg("download").args(packages));
    if download().is_err() {
        // A new machine has no lists of packages yet, and an old one has lists of packages that are gone.
        APT.run(bench, APT.command().args(["-o", "DPkg::Lock::Timeout=300", "update"]))?;
        download()?;
    }
    for found in fs::read_dir(&downloads).map_err(file("list", &downloads))? {
        let package = found.map_err(file("list", &downloads))?.path();
        DPKG.run(bench, DPKG.command().arg("-x").arg(&package).arg(&root))?;
    }
    pick(&root, PROGRAM_FOLDERS, programs, &bench.into.join("bin"))?;
    pick(&root, LIBRARY_FOLDERS, &[&[LOADER], LIBRARIES].concat(), &bench.into.join("lib"))
}

/// Copies files by name from whichever of the folders has them.
fn pick(root: &Path, folders: &[&str], names: &[&str], into: &Path) -> Result<(), BuildError> {
    create_dir(into)?;
    for name in names {
        let candidates: Vec<PathBuf> = folders.iter().map(|folder| root.join(folder).join(name)).collect();
        let from = candidates.iter().find(|path| path.is_file()).ok_or_else(|| BuildError::Unexpected {
            expected: format!("a file {name} in the packages"),
            found: "none".to_owned(),
            advice: "run it on a Debian 12 machine, whose packages have it",
        })?;
        fs::copy(from, into.join(name)).map_err(file("copy", from))?;
    }
    Ok(())
}

/// A program of the entry, run with the entry's own C library, which need not be this machine's.
fn program(bench: &Bench, name: &str) -> Command {
    let lib = bench.into.join("lib");
    let mut command = Command::new(lib.join(LOADER));
    command.arg("--library-path").arg(&lib).arg(bench.into.join("bin").join(name));
    command
}

fn expect_version(printed: &str, version: &str) -> Result<(), BuildError> {
    let found = printed.lines().find_map(|line| line.strip_prefix("etcd Version: ")).map(str::trim);
    if found == Some(version) {
        return Ok(());
    }
    Err(BuildError::Unexpected {
        expected: format!("etcd {version} in the package etcd-server"),
        found: found.map_or_else(|| format!("{printed:?}"), |found| format!("etcd {found}")),
        advice: "Debian 12 has it; on another system leave this version out",
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_version_than_the_expected_one_is_named() {
        assert!(expect_version("etcd Version: 3.4.23\nGit SHA: none\n", "3.4.23").is_ok());
        let other = expect_version("etcd Version: 3.5.16\n", "3.4.23").unwrap_err().to_string();
        assert!(other.contains("etcd 3.4.23") && other.contains("found etcd 3.5.16"), "{other}");
        let silent = expect_version("", "3.4.23").unwrap_err().to_string();
        assert!(silent.contains("found \"\""), "{silent}");
    }

    #[test]
    fn a_file_is_picked_from_the_folder_that_has_it() {
        let root = tempfile::tempdir().unwrap();
        let into = root.path().join("into");
        fs::create_dir_all(root.path().join("usr/bin")).unwrap();
        fs::write(root.path().join("usr/bin/dash"), "x").unwrap();
        pick(root.path(), &["bin", "usr/bin"], &["dash"], &into).unwrap();
        assert_eq!(fs::read_to_string(into.join("dash")).unwrap(), "x");
        let missing = pick(root.path(), &["bin", "usr/bin"], &["getent"], &into).unwrap_err();
        assert!(missing.to_string().contains("getent"), "{missing}");
    }
}
