//! `cargo xtask`: what the Makefile asks for beyond one command.

mod demo;
mod deploy;
mod generate;
mod image;
mod proof;
mod report;
mod test;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(about = "Tasks of this repository that are written in Rust")]
struct Cli {
    #[command(subcommand)]
    command: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Run everything that CI runs.
    Test,
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
    match run(Cli::parse().command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // A sentence with its causes: sixty frames of a runtime, wherever RUST_BACKTRACE is set, would bury it.
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(verb: Verb) -> anyhow::Result<()> {
    match verb {
        Verb::Test => test::run(),
        Verb::Image => image::run(),
        Verb::Deploy => in_runtime(deploy::deploy()),
        Verb::Push => in_runtime(deploy::push_image()),
        Verb::Undeploy => in_runtime(deploy::undeploy()),
        Verb::Demo => in_runtime(demo::run()),
        Verb::Proof => proof::run(),
        Verb::Generate { check } => generate::run(check),
    }
}

fn in_runtime(work: impl Future<Output = anyhow::Result<()>>) -> anyhow::Result<()> {
    tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(work)
}
