//! BEFORE ETCD: which etcd the image holds, and becoming it.

use std::{
    os::unix::process::CommandExt as _,
    path::Path,
    process::{Command, Stdio},
    time::Duration,
};

use launch::{EtcdVersion, LaunchOrder, ORDER_ENV, Refusal};

/// How long `etcd --version` may take. On a node under load it takes seconds; it does nothing that could hang.
const PATIENCE: Duration = Duration::from_mins(1);

/// What stands before the version in etcd's answer, in every minor.
const VERSION_LINE: &str = "etcd Version: ";

/// Asks the binary for its version, and refuses another one than the order's.
///
/// A tag can be moved, and an image can be changed without its order: flags of one minor stop another from starting, and a
/// newer binary changes the data for good.
pub(crate) async fn check_version(program: &Path, expected: EtcdVersion) -> Result<(), Refusal> {
    let not_runnable = |why: String| Refusal::EtcdNotRunnable { program: program.display().to_string(), why };
    let answer = tokio::process::Command::new(program)
        .arg("--version")
        .env_remove(ORDER_ENV)
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output();
    let output = tokio::time::timeout(PATIENCE, answer)
        .await
        .map_err(|_| not_runnable(format!("no answer to --version within {} s", PATIENCE.as_secs())))?
        .map_err(|error| not_runnable(error.to_string()))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let found = text
        .lines()
        .find_map(|line| line.strip_prefix(VERSION_LINE))
        .ok_or_else(|| not_runnable(format!("its answer to --version names none ({})", output.status)))?
        .trim();
    if found.parse::<EtcdVersion>().is_ok_and(|version| version == expected) {
        return Ok(());
    }
    Err(Refusal::VersionMismatch { expected, found: found.chars().take(40).collect() })
}

/// Becomes etcd: same process, same ID, so that the kubelet's signals reach it. Returns only if that failed.
pub(crate) fn become_etcd(program: &Path, order: &LaunchOrder) -> Refusal {
    let error = Command::new(program).args(&order.argv).env_remove(ORDER_ENV).exec();
    Refusal::EtcdNotRunnable { program: program.display().to_string(), why: error.to_string() }
}
