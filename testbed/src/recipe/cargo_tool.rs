//! Beside the loop: programs for working on this repository that cargo installs, each at one version.
use std::time::Duration;

use super::{BuildError, Tool};
use crate::cache::{Bench, Fingerprint, Recipe};

const CARGO: Tool = Tool {
    program: "cargo",
    install: "install Rust with the toolchain that rust-toolchain.toml names",
    remote: "the crate registry",
};

/// A program of the crate registry, at one version, with the dependencies its own lock file names. It is in `bin/` of the entry.
#[derive(Debug)]
pub struct CargoTool {
    name: &'static str,
    version: &'static str,
    usual: Duration,
}

impl CargoTool {
    /// The test runner.
    #[must_use]
    pub fn nextest() -> Self {
        Self { name: "cargo-nextest", version: "0.9.151", usual: Duration::from_mins(10) }
    }

    /// The checker of licences, sources and banned crates.
    #[must_use]
    pub fn deny() -> Self {
        Self { name: "cargo-deny", version: "0.20.2", usual: Duration::from_mins(8) }
    }

    fn arguments(&self) -> [&str; 5] {
        ["install", "--locked", "--version", self.version, self.name]
    }
}

impl Recipe for CargoTool {
    fn name(&self) -> &str {
        self.name
    }

    fn version(&self) -> &str {
        self.version
    }

    fn fingerprint(&self) -> Fingerprint {
        Fingerprint::of(self.arguments())
    }

    fn usual(&self) -> Duration {
        self.usual
    }

    fn build(&self, bench: &Bench) -> Result<(), BuildError> {
        let mut cargo = CARGO.command();
        cargo
            .args(self.arguments())
            .arg("--root")
            .arg(&bench.into)
            // Hundreds of megabytes that nobody needs afterwards.
            .env("CARGO_TARGET_DIR", bench.scratch.join("target"))
            // A caller's flags (coverage, sanitizers) are for this repository's code.
            .env_remove("RUSTFLAGS")
            .env_remove("CARGO_ENCODED_RUSTFLAGS")
            .env_remove("CARGO_BUILD_TARGET");
        CARGO.run(bench, &mut cargo)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tool_is_installed_at_its_version_with_its_own_lock_file() {
        assert_eq!(
            CargoTool::nextest().arguments(),
            ["install", "--locked", "--version", "0.9.151", "cargo-nextest"]
        );
        assert_ne!(CargoTool::nextest().fingerprint(), CargoTool::deny().fingerprint());
    }
}
