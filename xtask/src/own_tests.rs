//! The testbed's own tests: they show that the ground is firm on which all others stand. They are run where the testbed or a recipe has
//! changed since they last passed on this machine.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use anyhow::Context as _;
use testbed::cache::{Cache, Fingerprint};

use crate::{
    members::{Member, members},
    report::Test,
};

/// The package.
const PACKAGE: &str = "testbed";
/// The record of what they last passed with, in the cache folder.
const RECORD: &str = "testbed-passed";

/// What is said where they are not run.
pub(crate) const SKIPPED: &str = "the testbed's own tests: neither it nor a recipe has changed since they passed on this machine \
                                  (`make test-all` runs them)";

/// All that their outcome depends on.
pub(crate) struct Ground {
    record: PathBuf,
    fingerprint: String,
}

impl Ground {
    /// As it is now.
    pub(crate) fn of_this_repository(cache: &Cache) -> anyhow::Result<Self> {
        let root = crate::image::repository()?;
        let mut files =
            vec![root.join("Cargo.lock"), root.join("Cargo.toml"), root.join("rust-toolchain.toml")];
        for folder in packages(&members()?)? {
            files_in(&folder, &mut files)?;
        }
        files.sort();
        // Another kernel may be another ground.
        let mut parts = vec![fs::read("/proc/sys/kernel/osrelease").context("no kernel's release")?];
        for file in files {
            parts.push(file.strip_prefix(&root).unwrap_or(&file).to_string_lossy().into_owned().into_bytes());
            parts.push(fs::read(&file).with_context(|| file.display().to_string())?);
        }
        Ok(Self { record: cache.root().join(RECORD), fingerprint: Fingerprint::of(parts).to_string() })
    }

    /// Whether they have passed with exactly this on this machine.
    pub(crate) fn is_firm(&self) -> bool {
        fs::read_to_string(&self.record).is_ok_and(|record| record == self.fingerprint)
    }

    /// They have been run, all that were asked for, and the run was good. One that passed only when it was run once more is not enough.
    pub(crate) fn passed(&self, tests: &[Test]) -> anyhow::Result<()> {
        let own = || tests.iter().filter(|test| test.is_of(PACKAGE));
        if own().count() == 0 || own().any(|test| !test.passed || test.failed_before) {
            return Ok(());
        }
        // In one step: half a record would be none, and none is no harm.
        let new = self.record.with_extension("new");
        fs::write(&new, &self.fingerprint).with_context(|| new.display().to_string())?;
        fs::rename(&new, &self.record).with_context(|| self.record.display().to_string())
    }
}

/// The folder of the testbed, and those of our packages that it is made from.
fn packages(all: &[Member]) -> anyhow::Result<BTreeSet<PathBuf>> {
    let start = all.iter().find(|member| member.name == PACKAGE).context("there is no testbed")?;
    let mut folders = BTreeSet::new();
    let mut next = vec![start.folder()];
    while let Some(folder) = next.pop() {
        if folders.insert(folder.to_owned()) {
            let member = all.iter().find(|member| member.folder() == folder);
            let dependencies = member.into_iter().flat_map(|member| &member.dependencies);
            next.extend(dependencies.filter_map(|dependency| dependency.path.as_deref()));
        }
    }
    Ok(folders)
}

fn files_in(folder: &Path, files: &mut Vec<PathBuf>) -> anyhow::Result<()> {
    for entry in fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let entry = entry?;
        // `target` is not ours, wherever somebody has put one.
        if entry.file_type()?.is_dir() {
            if entry.file_name() != "target" {
                files_in(&entry.path(), files)?;
            }
        } else {
            files.push(entry.path());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::members::Dependency;

    fn test(binary: &str, passed: bool, failed_before: bool) -> Test {
        Test {
            binary: binary.to_owned(),
            name: "a".to_owned(),
            took: Duration::ZERO,
            passed,
            said: String::new(),
            failed_before,
        }
    }

    #[test]
    fn only_a_good_run_of_its_own_tests_is_recorded_and_only_for_these_sources() {
        let table = [
            (vec![], false),
            (vec![test("e2e::parallel", true, false)], false),
            (vec![test("testbed::parallel", true, false), test("testbed::exclusive", false, false)], false),
            (vec![test("testbed::parallel", true, true)], false),
            (vec![test("testbed::parallel", true, false), test("e2e::parallel", true, true)], true),
        ];
        for (tests, firm) in table {
            let folder = tempfile::tempdir().unwrap();
            let ground = |fingerprint: &str| Ground {
                record: folder.path().join(RECORD),
                fingerprint: fingerprint.to_owned(),
            };
            assert!(!ground("a").is_firm(), "there is no record");
            ground("a").passed(&tests).unwrap();
            assert_eq!(ground("a").is_firm(), firm);
            assert!(!ground("b").is_firm(), "something has changed");
        }
    }

    #[test]
    fn what_the_testbed_is_made_from_counts_and_nothing_else() {
        let member = |name: &str, uses: &[&str]| Member {
            name: name.to_owned(),
            manifest_path: format!("/w/{name}/Cargo.toml").into(),
            dependencies: [None]
                .into_iter()
                .chain(uses.iter().map(|path| Some(path.into())))
                .map(|path| Dependency { path })
                .collect(),
        };
        let all = [
            member("testbed", &["/w/admin", "/w/loop"]),
            member("admin", &[]),
            member("loop", &["/w/launch", "/w/admin"]),
            member("launch", &["/w/loop"]),
            member("planner", &["/w/launch"]),
        ];
        let folders: Vec<_> = packages(&all).unwrap().into_iter().collect();
        assert_eq!(folders, ["/w/admin", "/w/launch", "/w/loop", "/w/testbed"].map(PathBuf::from));
    }
}
