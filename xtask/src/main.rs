//! `cargo xtask`: what the Makefile asks for beyond one command.

mod report;
mod test;

use clap::{Parser, Subcommand};

#[derive(Parser)]
struct Cli {
    #[command(subcommand)]
    command: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Run everything that CI runs.
    Test,
}

fn main() -> anyhow::Result<()> {
    match Cli::parse().command {
        Verb::Test => test::run(),
    }
}
