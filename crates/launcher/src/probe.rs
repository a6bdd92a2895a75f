//! BEFORE ETCD, and beside it: the kubelet's questions.
//!
//! Readiness asks through the quorum. Liveness must not: a member that restarts without a quorum does not
//! answer clients at all, not even for its own status (seen with 3.5.33, 3.6.14 and 3.7.1), and killing it for that would
//! keep the quorum from ever coming back. Its peer port answers as soon as the data is read.
//!
//! A startup probe would say when that is, but the kubelet asks it once a second by a clock of its own, and everything else only
//! after it: half a second to one of every start. So liveness itself knows whether etcd has answered since it was started.
//! Readiness is asked by the kubelet at the moment when it sees the container run; it waits a little for what is about to come.

use std::{
    io,
    path::Path,
    time::{Duration, Instant},
};

use etcd_admin::{Cause, Connect, Member};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::sleep,
};

use crate::volume;

/// Between two attempts at a read.
const PAUSE: Duration = Duration::from_millis(20);

/// The same for what is not of a start's first moments: a learner may have much to catch up with.
const PAUSE_LONGER: Duration = Duration::from_millis(100);

/// etcd answers this on its peer port in every minor.
const REQUEST: &[u8] = b"GET /version HTTP/1.0\r\n\r\n";

/// The answer has some hundred bytes; a longer one is not etcd's.
const LONGEST_ANSWER: usize = 16_384;

/// Why a probe says no.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ProbeError {
    /// The endpoint is wrong.
    #[error("no member can be asked")]
    Endpoint(#[from] etcd_admin::ConnectError),
    /// No read came through. Its source, gRPC's own words, is too long for an Event and adds nothing.
    #[error("not ready: {0}")]
    NotReady(etcd_admin::Error),
    /// The peer port gave no answer in time.
    #[error("no answer from the peer port {address} within {} ms", timeout.as_millis())]
    Silent {
        /// Who was asked.
        address: String,
        /// How long.
        timeout: Duration,
    },
    /// The peer port cannot be talked to.
    #[error("asking the peer port {address}")]
    Peer {
        /// Who was asked.
        address: String,
        /// What happened.
        #[source]
        source: io::Error,
    },
    /// The peer port gave another answer than etcd's.
    #[error("the peer port {address} does not answer like etcd")]
    NotEtcd {
        /// Who was asked.
        address: String,
    },
}

/// Whether the member reads through a quorum, now or a moment later. A learner refuses such a read, so it is never ready; but it is
/// about to be promoted, and ready then, which would be seen seconds later if it was not waited for.
pub(crate) async fn ready(endpoint: &str, timeout: Duration, marker: &Path) -> Result<(), ProbeError> {
    let end = Instant::now() + timeout;
    loop {
        let left = end.saturating_duration_since(Instant::now());
        let member = Member::new(endpoint, &Connect { deadline: left, ..Connect::default() })?;
        let Err(error) = member.ping().await else {
            volume::note_answer(marker);
            return Ok(());
        };
        match when_to_ask_again(&error.cause) {
            Some(pause) if Instant::now() + pause * 2 < end => sleep(pause).await,
            _ => return Err(ProbeError::NotReady(error)),
        }
    }
}

/// For all that may pass by itself. What took the whole time has been waited for already, and wrong data does not pass.
fn when_to_ask_again(cause: &Cause) -> Option<Duration> {
    match cause {
        Cause::Unreachable | Cause::ConnectionLost { .. } | Cause::NoQuorum | Cause::LeaderChanged => {
            Some(PAUSE)
        }
        Cause::Timeout { .. } | Cause::Corrupt => None,
        _ => Some(PAUSE_LONGER),
    }
}

/// Whether the process works: a stopped or stuck one still lets the kernel take connections, but says nothing. One that has
/// said nothing yet since it was started reads its data.
pub(crate) async fn alive(peer: &str, timeout: Duration, marker: &Path) -> Result<(), ProbeError> {
    let answer = answers(peer, timeout).await;
    if answer.is_ok() {
        volume::note_answer(marker);
    } else if volume::is_starting(marker) {
        return Ok(());
    }
    answer
}

async fn answers(peer: &str, timeout: Duration) -> Result<(), ProbeError> {
    let address = || peer.to_owned();
    let is_etcd = tokio::time::timeout(timeout, ask(peer))
        .await
        .map_err(|_| ProbeError::Silent { address: address(), timeout })?
        .map_err(|source| ProbeError::Peer { address: address(), source })?;
    if is_etcd {
        return Ok(());
    }
    Err(ProbeError::NotEtcd { address: address() })
}

/// Whether the answer is etcd's. It is known before the connection ends, and etcd does not always end it.
async fn ask(peer: &str) -> io::Result<bool> {
    let mut stream = TcpStream::connect(peer).await?;
    stream.write_all(REQUEST).await?;
    let mut answer = Vec::new();
    while answer.len() < LONGEST_ANSWER && stream.read_buf(&mut answer).await? > 0 {
        let text = String::from_utf8_lossy(&answer);
        if text.starts_with("HTTP/1.0 200 ") && text.contains("etcdserver") {
            return Ok(true);
        }
    }
    Ok(false)
}
