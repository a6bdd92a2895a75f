//! BEFORE ETCD: from the order to etcd, or to a refusal.

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::Args;
use launch::{LaunchOrder, ORDER_ENV, OrderError, Refusal, guard};
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::{etcd, volume};

/// The exit code of a refusal, for those who see no message.
const REFUSED: u8 = 78;
/// The exit code of a process that SIGTERM ended.
const TERMINATED: u8 = 128 + 15;

/// Where things are in the container.
#[derive(Args)]
pub(crate) struct Places {
    /// The program to become.
    #[arg(long, default_value = "/usr/local/bin/etcd")]
    etcd: PathBuf,
    /// The member's data directory.
    #[arg(long, default_value = launch::DATA_DIR)]
    data_dir: PathBuf,
    /// A volume that lives as long as the pod, and is not the data's.
    #[arg(long, default_value = volume::MARKER_DIR)]
    marker_dir: PathBuf,
    /// Where the reason for a refusal goes.
    #[arg(long, default_value = "/dev/termination-log")]
    termination_log: PathBuf,
}

/// Becomes etcd. Whoever gets an exit code back did not.
pub(crate) async fn run(places: &Places) -> ExitCode {
    // As process 1 of a container, SIGTERM is passed over unless there is a handler: the pod would wait out its grace period.
    let Ok(mut terminate) = signal(SignalKind::terminate()) else {
        let why = "this process cannot be told to end".to_owned();
        return refuse(&Refusal::EtcdNotRunnable { program: places.etcd.display().to_string(), why }, places);
    };
    let prepared = tokio::select! {
        biased;
        _ = terminate.recv() => return ExitCode::from(TERMINATED),
        prepared = prepare(places) => prepared,
    };
    let order = match prepared {
        Ok(order) => order,
        Err(refusal) => return refuse(&refusal, places),
    };
    if came(&mut terminate).await {
        return ExitCode::from(TERMINATED);
    }
    refuse(&etcd::become_etcd(&places.etcd, &order), places)
}

/// Whether the signal came meanwhile.
async fn came(signal: &mut Signal) -> bool {
    tokio::select! {
        biased;
        _ = signal.recv() => true,
        () = std::future::ready(()) => false,
    }
}

/// All that is checked and done before etcd: the order, the version, the data, the seals.
async fn prepare(places: &Places) -> Result<LaunchOrder, Refusal> {
    let order = read_order(std::env::var(ORDER_ENV).unwrap_or_default().as_str(), &places.data_dir)?;
    etcd::check_version(&places.etcd, order.version).await?;
    let found = volume::look(&places.data_dir, &places.marker_dir)?;
    let start = guard::judge(&order, &found)?;
    volume::seal(&order, start, &places.data_dir, &places.marker_dir)?;
    volume::note_start(&places.marker_dir)?;
    Ok(order)
}

/// The order, if it can be followed and speaks of the directory that is guarded here.
fn read_order(text: &str, data_dir: &Path) -> Result<LaunchOrder, Refusal> {
    if text.trim().is_empty() {
        return Err(Refusal::OrderMissing);
    }
    let order = LaunchOrder::read(text).map_err(|error| match error {
        OrderError::TooNew { .. } => Refusal::OrderTooNew { why: error.to_string() },
        OrderError::Unreadable(_) => Refusal::OrderUnreadable { why: error.to_string() },
    })?;
    let data_flags = order.argv.iter().filter(|flag| flag.starts_with("--data-dir"));
    if data_flags.collect::<Vec<_>>() == [&format!("--data-dir={}", data_dir.display())] {
        return Ok(order);
    }
    let why = format!("the launch order does not have etcd's data in {}", data_dir.display());
    Err(Refusal::OrderUnreadable { why })
}

/// Says why etcd is not started: to the kubelet, and to whoever reads the log.
fn refuse(refusal: &Refusal, places: &Places) -> ExitCode {
    let message = refusal.to_termination_message();
    eprintln!("{message}");
    if let Err(error) = std::fs::write(&places.termination_log, &message) {
        eprintln!("writing {}: {error}", places.termination_log.display());
    }
    ExitCode::from(REFUSED)
}
