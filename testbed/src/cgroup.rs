//! The cgroups below which a node's pods run, in each hierarchy that this machine has.

use std::{
    fs, io,
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

/// What went wrong with a cgroup.
#[derive(Debug, thiserror::Error)]
pub enum CgroupError {
    /// It could not be made.
    #[error("the cgroup {path} could not be made: {source}")]
    Make {
        /// Where.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It could not be removed.
    #[error("the cgroup {path} could not be removed: {source}")]
    Remove {
        /// Where.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// Makes `name` (a path relative to the root) in every hierarchy.
pub fn make(name: &str) -> Result<(), CgroupError> {
    for hierarchy in hierarchies() {
        let path = hierarchy.root.join(name);
        let failed = |source| CgroupError::Make { path: path.clone(), source };
        fs::create_dir_all(&path).map_err(failed)?;
        match hierarchy.kind {
            // A new cpuset has neither processors nor memory, and nothing can run in it.
            Kind::Cpuset => inherit_cpuset(&hierarchy.root, name).map_err(failed)?,
            Kind::Unified => enable_controllers(&hierarchy.root, name).map_err(failed)?,
            Kind::Other => {}
        }
    }
    Ok(())
}

/// Removes `name` and all below it in every hierarchy. Its processes are gone; the kernel may need a moment to notice.
pub fn remove(name: &str) -> Result<(), CgroupError> {
    for hierarchy in hierarchies() {
        remove_tree(&hierarchy.root.join(name))?;
    }
    Ok(())
}

/// The processes in the group `last`, wherever it is below `name`, and in those below it, as this machine counts them.
#[must_use]
pub fn processes(name: &str, last: &str) -> Vec<i32> {
    // Each hierarchy has them, except one of version 2 beside others that is not used.
    let groups = hierarchies().into_iter().filter_map(|hierarchy| find(&hierarchy.root.join(name), last));
    groups.map(|group| members(&group)).find(|members| !members.is_empty()).unwrap_or_default()
}

/// Lets the processes in the group `last`, wherever it is below `name`, and in those below it use this much memory together; without a
/// number as much as they like.
pub fn limit_memory(name: &str, last: &str, bytes: Option<u64>) -> io::Result<()> {
    let groups = hierarchies().into_iter().filter_map(|hierarchy| find(&hierarchy.root.join(name), last));
    // The file of version 1, and that of version 2, with their words for "as much as they like".
    let files = [("memory.limit_in_bytes", "-1"), ("memory.max", "max")];
    let mut limits = groups.flat_map(|group| files.map(|(file, none)| (group.join(file), none)));
    let (file, none) = limits.find(|(file, _)| file.exists()).ok_or(io::ErrorKind::NotFound)?;
    fs::write(file, bytes.map_or_else(|| none.to_owned(), |bytes| bytes.to_string()))
}

fn below(path: &Path) -> impl Iterator<Item = PathBuf> {
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())).map(|entry| entry.path())
}

fn find(path: &Path, last: &str) -> Option<PathBuf> {
    if path.file_name().is_some_and(|name| name == last) {
        return Some(path.to_owned());
    }
    below(path).find_map(|group| find(&group, last))
}

fn members(group: &Path) -> Vec<i32> {
    let listed = fs::read_to_string(group.join("cgroup.procs")).unwrap_or_default();
    let mut pids: Vec<_> = listed.lines().filter_map(|pid| pid.parse().ok()).collect();
    pids.extend(below(group).flat_map(|group| members(&group)));
    pids
}

struct Hierarchy {
    root: PathBuf,
    kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// cgroup v2, alone or beside the others.
    Unified,
    Cpuset,
    Other,
}

fn hierarchies() -> Vec<Hierarchy> {
    parse_hierarchies(&fs::read_to_string("/proc/self/mountinfo").unwrap_or_default())
}

/// Mount point and kind of each line of mountinfo that is a cgroup file system.
fn parse_hierarchies(mountinfo: &str) -> Vec<Hierarchy> {
    mountinfo
        .lines()
        .filter_map(|line| {
            let (mount, filesystem) = line.split_once(" - ")?;
            let root = PathBuf::from(mount.split(' ').nth(4)?);
            let mut fields = filesystem.split(' ');
            let kind = match (fields.next()?, fields.nth(1)?) {
                ("cgroup2", _) => Kind::Unified,
                ("cgroup", options) if options.split(',').any(|option| option == "cpuset") => Kind::Cpuset,
                ("cgroup", _) => Kind::Other,
                _ => return None,
            };
            Some(Hierarchy { root, kind })
        })
        .collect()
}

fn inherit_cpuset(root: &Path, name: &str) -> io::Result<()> {
    let mut at = root.to_owned();
    for part in Path::new(name) {
        let parent = at.clone();
        at.push(part);
        for file in ["cpuset.cpus", "cpuset.mems"] {
            if fs::read_to_string(at.join(file))?.trim().is_empty() {
                fs::write(at.join(file), fs::read(parent.join(file))?)?;
            }
        }
    }
    Ok(())
}

fn enable_controllers(root: &Path, name: &str) -> io::Result<()> {
    let mut at = root.to_owned();
    for part in Path::new(name) {
        for controller in fs::read_to_string(at.join("cgroup.controllers"))?.split_ascii_whitespace() {
            fs::write(at.join("cgroup.subtree_control"), format!("+{controller}"))?;
        }
        at.push(part);
    }
    Ok(())
}

fn remove_tree(path: &Path) -> Result<(), CgroupError> {
    let Ok(entries) = fs::read_dir(path) else { return Ok(()) };
    for entry in entries.flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            remove_tree(&entry.path())?;
        }
    }
    let started = Instant::now();
    loop {
        match fs::remove_dir(path) {
            Ok(()) => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(_) if started.elapsed() < Duration::from_secs(10) => thread::sleep(Duration::from_millis(20)),
            Err(source) => return Err(CgroupError::Remove { path: path.to_owned(), source }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hierarchies_of_both_versions_are_found() {
        let mountinfo = "\
32 31 0:29 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu
34 31 0:31 / /sys/fs/cgroup/cpuset rw,relatime - cgroup cgroup rw,cpuset
40 31 0:37 / /sys/fs/cgroup/systemd rw,relatime - cgroup cgroup rw,name=systemd
41 31 0:38 / /sys/fs/cgroup/unified rw,relatime shared:9 - cgroup2 cgroup2 rw
27 1 254:0 / / rw,relatime - ext4 /dev/vda rw,discard
";
        let found: Vec<_> = parse_hierarchies(mountinfo)
            .into_iter()
            .map(|h| (h.root.file_name().unwrap().to_str().unwrap().to_owned(), h.kind))
            .collect();
        let expected = [
            ("cpu", Kind::Other),
            ("cpuset", Kind::Cpuset),
            ("systemd", Kind::Other),
            ("unified", Kind::Unified),
        ];
        assert_eq!(found, expected.map(|(name, kind)| (name.to_owned(), kind)));
    }
}
