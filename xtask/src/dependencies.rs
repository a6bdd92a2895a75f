//! What was compiled of the registries' crates, kept in the cache folder for the next fresh clone (`xtask/seed-target` takes it from there).
//!
//! Exactly what the builds of `make test` use is kept, by Cargo's own word: asked to say what it builds, it lists every unit, also those
//! that are there already. So nothing old of a long-lived clone gets in, and nothing of this repository, whose units know their path.

use std::{
    collections::BTreeSet,
    fs,
    io::{BufRead as _, BufReader},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context as _, ensure};
use serde::Deserialize;
use testbed::{
    cache::{Bench, Cache, Fingerprint, Recipe},
    recipe::BuildError,
};

use crate::{
    image,
    members::members,
    phase::{cargo, cargo_program, target},
};

/// How many are kept: of this branch, and of the one that somebody else works on.
const KEPT: usize = 2;
const NAME: &str = "dependencies";

/// The parts of one toolchain and one set of manifests.
struct Dependencies {
    toolchain: String,
    fingerprint: Fingerprint,
}

/// Keeps them, if they are not kept yet. To be called when everything is built.
pub(crate) fn keep(cache: &Cache) -> anyhow::Result<()> {
    let dependencies = Dependencies::of_this_repository()?;
    if !cache.has(&dependencies) {
        println!("kept in {}", cache.get(&dependencies)?.path.display());
    }
    Ok(cache.prune(NAME, KEPT)?)
}

impl Dependencies {
    fn of_this_repository() -> anyhow::Result<Self> {
        let output = Command::new("rustc").arg("-vV").output().context("rustc could not be run")?;
        let toolchain = String::from_utf8_lossy(&output.stdout).into_owned();
        let release = toolchain.lines().find_map(|line| line.strip_prefix("release: "));
        let release = release.context("rustc does not say its release")?.to_owned();
        // Profiles and features are in the manifests, versions in the lock file.
        let mut files: BTreeSet<PathBuf> =
            members()?.iter().map(|member| member.manifest_path.clone()).collect();
        let root = image::repository()?;
        files.extend(["Cargo.toml", "Cargo.lock", ".cargo/config.toml"].map(|file| root.join(file)));
        let mut parts = vec![toolchain.into_bytes()];
        for file in &files {
            parts.push(fs::read(file).with_context(|| file.display().to_string())?);
        }
        Ok(Self { toolchain: release, fingerprint: Fingerprint::of(parts) })
    }
}

impl Recipe for Dependencies {
    fn name(&self) -> &'static str {
        NAME
    }

    fn version(&self) -> &str {
        &self.toolchain
    }

    fn fingerprint(&self) -> Fingerprint {
        self.fingerprint.clone()
    }

    fn usual(&self) -> std::time::Duration {
        std::time::Duration::from_secs(30)
    }

    fn build(&self, bench: &Bench) -> Result<(), BuildError> {
        let copied = units().and_then(|units| copy(&units, &bench.into));
        // The log is where a builder of the cache says why it failed.
        copied.map_err(|error| {
            let _ = fs::write(&bench.log, format!("{error:#}\n"));
            BuildError::failed("the copy of what cargo has built", &bench.log)
        })
    }
}

/// What all phases of `make test` build, with the same words: told to lint otherwise, cargo would begin anew.
fn builds() -> anyhow::Result<Vec<Command>> {
    const LISTED: [&str; 2] = ["--message-format", "json"];
    let listed = |verb: &str, rest: &[&str]| cargo(&[&[verb, "--locked"], &LISTED[..], rest].concat());
    let mut programs = image::static_build(Command::new(cargo_program()), &image::host_triple()?);
    programs.args(LISTED);
    Ok(vec![
        listed("build", &["--package", "xtask"]),
        listed("clippy", &["--workspace", "--all-targets", "--", "-D", "warnings"]),
        listed("test", &["--workspace", "--no-run"]),
        listed("build", &["--package", "testbed", "--bin", "testbed"]),
        listed("build", &["--package", "etcd-admin-codegen"]),
        programs,
    ])
}

/// One unit of work of cargo's: the folder of its profile, and the hash in its files' names.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Unit {
    profile: PathBuf,
    hash: String,
}

/// Every unit of a registry's crate in the builds.
fn units() -> anyhow::Result<BTreeSet<Unit>> {
    let mut units = BTreeSet::new();
    for mut build in builds()? {
        build.stdout(Stdio::piped()).stderr(Stdio::null());
        let mut running = build.spawn().context("cargo could not be run")?;
        let lines = BufReader::new(running.stdout.take().context("cargo has no output")?).lines();
        for line in lines {
            units.extend(units_of(&line?));
        }
        ensure!(running.wait()?.success(), "{build:?} failed");
    }
    ensure!(!units.is_empty(), "cargo names no crate of a registry");
    Ok(units)
}

/// A message of cargo's about a unit: the files that it wrote, or the folder of its build script's output.
#[derive(Default, Deserialize)]
struct Built {
    #[serde(default)]
    package_id: String,
    #[serde(default)]
    filenames: Vec<PathBuf>,
    out_dir: Option<PathBuf>,
}

/// The units in a message of cargo's: nothing, if it is about a crate of ours, or about something else.
fn units_of(message: &str) -> Vec<Unit> {
    let Built { package_id, filenames, out_dir } = serde_json::from_str(message).unwrap_or_default();
    if !["registry+", "git+", "sparse+"].iter().any(|source| package_id.starts_with(source)) {
        return Vec::new();
    }
    filenames.iter().chain(&out_dir).filter_map(|place| unit_at(place)).collect()
}

/// `PROFILE/deps/libNAME-HASH.rlib`, `PROFILE/build/NAME-HASH/build-script-build` or `PROFILE/build/NAME-HASH/out`.
fn unit_at(place: &Path) -> Option<Unit> {
    let folder = place.parent()?;
    let (kind, name) = if folder.ends_with("deps") { (folder, place) } else { (folder.parent()?, folder) };
    let hash = hash_in(name.file_name()?.to_str()?)?.to_owned();
    Some(Unit { profile: kind.parent()?.to_owned(), hash })
}

/// The hash in a name: `NAME-HASH`, whatever comes after the first dot.
fn hash_in(name: &str) -> Option<&str> {
    Some(name.split('.').next()?.rsplit_once('-')?.1)
}

/// Copies all that belongs to the units, as it lies in the target folder, with its times: cargo compares them.
fn copy(units: &BTreeSet<Unit>, into: &Path) -> anyhow::Result<()> {
    let target = target().canonicalize().context("no target folder")?;
    let mut paths = Vec::new();
    let mut fingerprints = 0;
    for profile in units.iter().map(|unit| &unit.profile).collect::<BTreeSet<_>>() {
        let hashes: BTreeSet<&str> =
            units.iter().filter(|unit| unit.profile == *profile).map(|unit| unit.hash.as_str()).collect();
        for kind in ["deps", "build", ".fingerprint"] {
            let folder = profile.join(kind);
            for entry in fs::read_dir(&folder).with_context(|| folder.display().to_string())? {
                let path = entry?.path();
                let name = path.file_name().and_then(|name| name.to_str());
                if name.and_then(hash_in).is_some_and(|hash| hashes.contains(hash)) {
                    fingerprints += usize::from(kind == ".fingerprint");
                    paths
                        .push(path.strip_prefix(&target).context("outside of the target folder")?.to_owned());
                }
            }
        }
    }
    // Without one, cargo would compile the unit again: then its folders are not as they were when this was written.
    ensure!(fingerprints == units.len(), "{} units, but {fingerprints} fingerprints", units.len());
    // A command line has room for so many.
    for some in paths.chunks(1000) {
        let mut cp = Command::new("cp");
        cp.args(["--archive", "--parents", "--reflink=auto", "--"]).args(some).arg(into);
        let status = cp.current_dir(&target).status().context("cp could not be run")?;
        ensure!(status.success(), "cp ended with {status}");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_unit_is_known_by_its_profile_and_hash_wherever_its_files_are() {
        let unit = |profile: &str, hash: &str| Unit { profile: profile.into(), hash: hash.to_owned() };
        let id = "registry+https://example.org/index#serde@1.0.0";
        let table = [
            (
                json!({"package_id": id, "filenames": ["/t/debug/deps/libserde-0a.rlib", "/t/debug/deps/libserde-0a.rmeta"]}),
                vec![unit("/t/debug", "0a"), unit("/t/debug", "0a")],
            ),
            (
                json!({"package_id": id, "filenames": ["/t/x86_64-unknown-linux-gnu/release/deps/libaws_lc_rs-0b.rmeta"]}),
                vec![unit("/t/x86_64-unknown-linux-gnu/release", "0b")],
            ),
            (
                json!({"package_id": id, "filenames": ["/t/debug/build/aws-lc-rs-0c/build-script-build"]}),
                vec![unit("/t/debug", "0c")],
            ),
            (
                json!({"package_id": id, "out_dir": "/t/release/build/aws-lc-rs-0d/out"}),
                vec![unit("/t/release", "0d")],
            ),
            (
                json!({"package_id": "path+file:///x/crates/api#0.1.0", "filenames": ["/t/debug/deps/libapi-0e.rlib"]}),
                vec![],
            ),
            (json!({"reason": "build-finished", "success": true}), vec![]),
        ];
        for (message, units) in table {
            assert_eq!(units_of(&message.to_string()), units, "{message}");
        }
    }
}
