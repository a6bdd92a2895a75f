//! `cargo xtask`: what the Makefile asks for beyond one command.

mod generate;
mod report;
mod test;

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
    /// Write the CRDs and roles that follow from the types.
    Generate {
        /// Write nothing, and fail where a file is not what would be written.
        #[arg(long)]
        check: bool,
    },
}

fn main() -> anyhow::Result<()> {
    match Cli::parse().command {
        Verb::Test => test::run(),
        Verb::Generate { check } => generate::run(check),
    }
}
