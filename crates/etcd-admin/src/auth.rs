//! TALKING TO ETCD: logging in.

use tokio::sync::Mutex;
use tonic::{Code, Request, Status, metadata::AsciiMetadataValue, transport::Channel};

use crate::{
    error::{AUTH_NOT_ENABLED, INVALID_TOKEN, OLD_AUTH_REVISION},
    rpc::{self, auth_client::AuthClient},
};

/// A user of etcd's. The token of the last login is kept, because etcd makes each login slow on purpose.
pub struct Credentials {
    user: String,
    password: String,
    token: Mutex<Option<AsciiMetadataValue>>,
}

impl Credentials {
    /// A user and a password.
    #[must_use]
    pub fn new(user: &str, password: &str) -> Self {
        Self { user: user.to_owned(), password: password.to_owned(), token: Mutex::new(None) }
    }

    /// Puts a token on the request, logging in if there is none yet. A cluster without authentication needs none.
    pub(crate) async fn sign<T>(&self, request: &mut Request<T>, channel: &Channel) -> Result<(), Status> {
        let mut token = self.token.lock().await;
        if token.is_none() {
            *token = self.log_in(channel).await?;
        }
        if let Some(value) = &*token {
            request.metadata_mut().insert("token", value.clone());
        }
        Ok(())
    }

    async fn log_in(&self, channel: &Channel) -> Result<Option<AsciiMetadataValue>, Status> {
        let message = rpc::AuthenticateRequest { name: self.user.clone(), password: self.password.clone() };
        match AuthClient::new(channel.clone()).authenticate(message).await {
            Ok(answer) => answer
                .into_inner()
                .token
                .parse()
                .map(Some)
                .map_err(|_| Status::internal("the token is no header value")),
            Err(status) if status.message() == AUTH_NOT_ENABLED => Ok(None),
            Err(status) => Err(status),
        }
    }

    /// Whether the call failed only because the token is old. If so it is forgotten, and the call did nothing.
    pub(crate) async fn forget_if_stale(&self, status: &Status) -> bool {
        let stale = status.code() == Code::Unauthenticated && status.message() == INVALID_TOKEN
            || status.message() == OLD_AUTH_REVISION;
        if stale {
            *self.token.lock().await = None;
        }
        stale
    }
}

impl std::fmt::Debug for Credentials {
    // Neither password nor token may reach a log.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Credentials").field("user", &self.user).finish_non_exhaustive()
    }
}
