//! The loop, as a program: flags, logs, signals.

use anyhow::{Context, Result, anyhow};
use clap::Parser;
use operator::{flags::Flags, logs, run, watch};
use tokio::signal::unix::{SignalKind, signal};

#[tokio::main]
async fn main() -> Result<()> {
    let flags = Flags::parse();
    logs::start(flags.log_format);
    // One provider is compiled in; who asks for "the default one" must find it all the same.
    rustls::crypto::aws_lc_rs::default_provider()
        .install_default()
        .map_err(|_| anyhow!("another crypto provider is installed already"))?;
    let mut terminate = signal(SignalKind::terminate()).context("listening for SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("listening for SIGINT")?;
    let stop = watch::shared(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    });
    Ok(run::run(flags, stop).await?)
}
