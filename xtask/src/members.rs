//! The packages of this repository, as cargo knows them.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use serde::Deserialize;

use crate::phase::cargo;

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Member>,
}

/// One of our packages.
#[derive(Deserialize)]
pub(crate) struct Member {
    pub(crate) name: String,
    pub(crate) manifest_path: PathBuf,
    pub(crate) dependencies: Vec<Dependency>,
}

/// What a package is made from.
#[derive(Deserialize)]
pub(crate) struct Dependency {
    /// Its folder, if it is ours.
    pub(crate) path: Option<PathBuf>,
}

impl Member {
    pub(crate) fn folder(&self) -> &Path {
        self.manifest_path.parent().unwrap_or(Path::new("/"))
    }
}

/// All of them.
pub(crate) fn members() -> anyhow::Result<Vec<Member>> {
    let mut command = cargo(&["metadata", "--locked", "--no-deps", "--format-version", "1"]);
    let output = command.output().context("cargo could not be run")?;
    let metadata: Metadata = serde_json::from_slice(&output.stdout).context("cargo names no packages")?;
    Ok(metadata.packages)
}
