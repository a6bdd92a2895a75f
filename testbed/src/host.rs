//! What this machine must have before anything is started, and one sentence for each thing that is missing.

use std::{
    fs, io,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::Command,
};

use nix::{sys::statvfs::statvfs, unistd::geteuid};

/// What the machine lacks.
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    /// Not root.
    #[error(
        "the testbed makes namespaces, mounts and cgroups, and needs root: run the same command as root, or with \
         `sudo -E env \"PATH=$PATH\"` before it"
    )]
    NotRoot,
    /// Programs are missing, and this is not a Debian that could install them.
    #[error("these programs are missing and there is no apt-get to install them with: {}", .0.join(", "))]
    Missing(Vec<String>),
    /// Debian's packages could not be installed.
    #[error(
        "Debian's packages {packages} could not be installed: {reason}; check the network, or install them by hand"
    )]
    Packages {
        /// Which.
        packages: String,
        /// What apt-get said last.
        reason: String,
    },
    /// apt-get was content, and something is missing all the same.
    #[error("Debian's packages were installed, but these programs are still missing: {}", .0.join(", "))]
    StillMissing(Vec<String>),
    /// No room.
    #[error("{path} has {free} MiB left on its disk, and the testbed needs {needed} MiB there: {instead}")]
    Full {
        /// Where.
        path: PathBuf,
        /// What is left.
        free: u64,
        /// What is needed.
        needed: u64,
        /// What else can be done.
        instead: &'static str,
    },
    /// The cache is where the machines cannot see it.
    #[error(
        "the cache is in {0}, which every machine of the testbed has its own of: name another folder in TESTBED_CACHE"
    )]
    Hidden(PathBuf),
    /// A disk could not be asked.
    #[error("the room on the disk of {path} could not be found out: {source}")]
    Disk {
        /// Where.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// Programs that a node and the testbed run, and the Debian package of each.
const PROGRAMS: [(&str, &str); 13] = [
    ("containerd", "containerd"),
    ("containerd-shim-runc-v2", "containerd"),
    ("runc", "runc"),
    ("iptables", "iptables"),
    ("conntrack", "conntrack"),
    ("nft", "nftables"),
    ("ip", "iproute2"),
    ("nsenter", "util-linux"),
    ("mount", "mount"),
    ("mkfs.ext4", "e2fsprogs"),
    ("sysctl", "procps"),
    ("cc", "gcc"),
    ("/usr/lib/cni/bridge", "containernetworking-plugins"),
];

/// Refuses to go on as anybody but root.
pub fn check_root() -> Result<(), HostError> {
    if geteuid().is_root() { Ok(()) } else { Err(HostError::NotRoot) }
}

/// Installs the Debian packages of the programs that are missing. Nothing is done where nothing is missing.
pub fn install_packages() -> Result<(), HostError> {
    let missing = missing_programs();
    if missing.is_empty() {
        return Ok(());
    }
    if find("apt-get").is_none() {
        return Err(HostError::Missing(missing.iter().map(|(program, _)| (*program).to_owned()).collect()));
    }
    let mut packages: Vec<_> = missing.iter().map(|(_, package)| *package).collect();
    packages.sort_unstable();
    packages.dedup();
    let failed = |reason: String| HostError::Packages { packages: packages.join(" "), reason };
    // Debian starts the services that it installs; a containerd of this machine is not wanted.
    let _quiet = NoServices::ask();
    for arguments in
        [vec!["update", "-q"], [vec!["install", "-qy", "--no-install-recommends"], packages.clone()].concat()]
    {
        let output = Command::new("apt-get")
            // Somebody else may be installing something just now.
            .args(["-o", "DPkg::Lock::Timeout=300"])
            .args(arguments)
            .env("DEBIAN_FRONTEND", "noninteractive")
            .output()
            .map_err(|error| failed(error.to_string()))?;
        if !output.status.success() {
            let text = String::from_utf8_lossy(&output.stderr);
            return Err(failed(text.lines().last().unwrap_or("it did not say why").to_owned()));
        }
    }
    let missing = missing_programs();
    if missing.is_empty() {
        Ok(())
    } else {
        Err(HostError::StillMissing(missing.iter().map(|(program, _)| (*program).to_owned()).collect()))
    }
}

/// While it lives, packages that are installed do not start services. Somebody else's word on that is left alone.
struct NoServices(Option<&'static Path>);

impl NoServices {
    fn ask() -> Self {
        let policy = Path::new("/usr/sbin/policy-rc.d");
        let ours = !policy.exists()
            && fs::write(policy, "#!/bin/sh\nexit 101\n").is_ok()
            && fs::set_permissions(policy, fs::Permissions::from_mode(0o755)).is_ok();
        Self(ours.then_some(policy))
    }
}

impl Drop for NoServices {
    fn drop(&mut self) {
        if let Some(policy) = self.0 {
            let _ = fs::remove_file(policy);
        }
    }
}

fn missing_programs() -> Vec<(&'static str, &'static str)> {
    PROGRAMS
        .into_iter()
        .filter(|(program, _)| {
            // CNI plugins are not on the PATH, and have a second usual place.
            let elsewhere =
                program.strip_prefix("/usr/lib/cni/").map(|name| Path::new("/opt/cni/bin").join(name));
            find(program).is_none() && !elsewhere.is_some_and(|path| path.exists())
        })
        .collect()
}

/// Where a program is, on root's usual path too: `sudo` may have left `sbin` out.
#[must_use]
pub fn find(program: &str) -> Option<PathBuf> {
    if program.contains('/') {
        return Path::new(program).exists().then(|| PathBuf::from(program));
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(["/usr/sbin", "/sbin", "/usr/bin", "/bin"].map(PathBuf::from))
        .map(|folder| folder.join(program))
        .find(|file| file.is_file())
}

/// Refuses a cache below a folder that every machine has its own of: nothing in it could be started there.
pub fn check_cache(folder: &Path) -> Result<(), HostError> {
    if ["/run", "/var/lib", "/var/log"].iter().any(|own| folder.starts_with(own)) {
        return Err(HostError::Hidden(folder.to_owned()));
    }
    Ok(())
}

/// Refuses a disk without enough room. The folder need not be there yet.
pub fn check_room(folder: &Path, needed_mib: u64, instead: &'static str) -> Result<(), HostError> {
    let there = folder.ancestors().find(|at| at.exists()).unwrap_or(Path::new("/"));
    let disk =
        statvfs(there).map_err(|error| HostError::Disk { path: folder.to_owned(), source: error.into() })?;
    let free = disk.blocks_available().saturating_mul(disk.fragment_size()) >> 20;
    if free < needed_mib {
        return Err(HostError::Full { path: folder.to_owned(), free, needed: needed_mib, instead });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_is_said_with_its_path_and_what_to_do() {
        let error =
            check_room(Path::new("/nowhere/at/all"), u64::MAX >> 20, "set TESTBED_CACHE").unwrap_err();
        let text = error.to_string();
        assert!(text.contains("/nowhere/at/all") && text.contains("set TESTBED_CACHE"), "{text}");
        check_room(Path::new("/"), 0, "").unwrap();
    }

    #[test]
    fn a_cache_that_the_machines_could_not_see_is_refused() {
        assert!(check_cache(Path::new("/var/lib/jenkins/.cache")).is_err());
        assert!(check_cache(Path::new("/home/somebody/.cache")).is_ok());
        assert!(check_cache(Path::new("/var/library")).is_ok());
    }

    #[test]
    fn a_program_is_found_by_name_and_by_path() {
        assert!(find("sh").is_some());
        assert!(find("/bin/sh").is_some());
        assert!(find("no-such-program-here").is_none());
    }
}
