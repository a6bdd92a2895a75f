//! Clients of a cluster: how far a load has come.

use std::time::Duration;

use anyhow::Context as _;
use testbed::history::Running;
use tokio::time::{sleep, timeout};

use crate::SOON;

/// Between two looks.
const PAUSE: Duration = Duration::from_millis(100);

/// Waits until this many more operations of a load have been answered.
pub async fn answered(load: &Running, more: usize) -> anyhow::Result<()> {
    let target = load.answered() + more;
    let counted = async {
        while load.answered() < target {
            sleep(PAUSE).await;
        }
    };
    timeout(SOON, counted).await.with_context(|| format!("no {more} answers: {}", load.progress()))
}
