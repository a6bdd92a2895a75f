//! `cargo xtask`: what the Makefile asks for beyond one command.

mod again;
mod demo;
mod dependencies;
mod deploy;
mod generate;
mod image;
mod members;
mod own_tests;
mod phase;
mod proof;
mod report;
mod test;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::test::Extent;

#[derive(Parser)]
#[command(about = "Tasks of this repository that are written in Rust")]
struct Cli {
    #[command(subcommand)]
    command: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Format, lints, generated files, unit tests and small worlds: a few minutes.
    Check,
    /// Run everything that CI runs.
    Test {
        /// Also what takes long and seldom tells anything new.
        #[arg(long)]
        all: bool,
    },
    /// Build our image, and write it as an OCI archive.
    Image,
    /// Build our image, put it into the testbed's registry, and install the operator.
    Deploy,
    /// Put our image into the testbed's registry, and nothing else.
    Push,
    /// Take the operator away.
    Undeploy,
    /// Tell the seeds' story on a real cluster.
    Demo,
    /// Check that what is said to be shown is shown by a test that exists, and count.
    Proof,
    /// Write the CRDs and roles that follow from the types.
    Generate {
        /// Write nothing, and fail where a file is not what would be written.
        #[arg(long)]
        check: bool,
    },
}

fn main() -> ExitCode {
    match run(&Cli::parse().command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // A sentence with its causes: sixty frames of a runtime, wherever RUST_BACKTRACE is set, would bury it.
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(verb: &Verb) -> anyhow::Result<()> {
    match verb {
        Verb::Check => test::run(Extent::Check),
        Verb::Test { all } => test::run(if *all { Extent::All } else { Extent::Test }),
        Verb::Image => image::run(),
        Verb::Deploy => in_runtime(deploy::deploy()),
        Verb::Push => in_runtime(deploy::push_image()),
        Verb::Undeploy => in_runtime(deploy::undeploy()),
        Verb::Demo => in_runtime(demo::run()),
        Verb::Proof => proof::run(),
        Verb::Generate { check } => generate::run(*check),
    }
}

fn in_runtime(work: impl Future<Output = anyhow::Result<()>>) -> anyhow::Result<()> {
    tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(work)
}
