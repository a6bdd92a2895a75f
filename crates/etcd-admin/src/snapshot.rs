//! TALKING TO ETCD: a member's data as a stream.

use std::time::Duration;

use prost::bytes::Bytes;
use tonic::Streaming;

use crate::{
    error::{Call, Error},
    rpc,
};

/// A snapshot on its way. The last 32 bytes are a SHA-256 over all before them; whoever keeps the snapshot checks it.
#[derive(Debug)]
pub struct Snapshot {
    stream: Streaming<rpc::SnapshotChunk>,
    endpoint: String,
    stall: Duration,
    remaining: Option<u64>,
    version: Option<String>,
}

impl Snapshot {
    pub(crate) const fn new(
        stream: Streaming<rpc::SnapshotChunk>,
        endpoint: String,
        stall: Duration,
    ) -> Self {
        Self { stream, endpoint, stall, remaining: None, version: None }
    }

    /// The next part, or none at the end. The deadline is one for each part: a large snapshot may take its time, a stalled
    /// one may not.
    pub async fn next(&mut self) -> Result<Option<Bytes>, Error> {
        match tokio::time::timeout(self.stall, self.stream.message()).await {
            Ok(Ok(Some(chunk))) => {
                self.remaining = Some(chunk.remaining_bytes);
                self.version = Some(chunk.version).filter(|version| !version.is_empty());
                Ok(Some(chunk.blob))
            }
            Ok(Ok(None)) => Ok(None),
            Ok(Err(status)) => Err(Error::from_status(Call::Snapshot, &self.endpoint, status)),
            Err(_) => Err(Error::timeout(Call::Snapshot, &self.endpoint)),
        }
    }

    /// How many bytes of data are still to come, the checksum not counted; known once the first part has come.
    ///
    /// What else one would like to know, such as whose data it is and of which revision, etcd leaves out of its answer
    /// although there is a place for it (seen with 3.5.33, 3.6.14 and 3.7.1).
    #[must_use]
    pub const fn remaining(&self) -> Option<u64> {
        self.remaining
    }

    /// The version of the member that the data comes from, as the last part told it; told from 3.6 on.
    #[must_use]
    pub fn version(&self) -> Option<&str> {
        self.version.as_deref()
    }
}
