//! The loop, as a program: flags, logs, signals.

use std::process::ExitCode;

use anyhow::{Context, Result, anyhow};
use operator::{flags::Flags, logs, run, watch};
use tokio::signal::unix::{SignalKind, signal};
use tracing::{error, warn};

#[tokio::main]
async fn main() -> ExitCode {
    let flags = Flags::of(std::env::args_os());
    logs::start(flags.log_format);
    for warning in flags.pointless.warnings() {
        warn!("{warning}");
    }
    match operate(flags).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            // One sentence with its causes: the frames of a runtime, wherever RUST_BACKTRACE is set, would bury it.
            error!("{why:#}");
            ExitCode::FAILURE
        }
    }
}

async fn operate(flags: Flags) -> Result<()> {
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
