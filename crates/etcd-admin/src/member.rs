//! TALKING TO ETCD: the handle on one member.

use std::{sync::Arc, time::Duration};

use tonic::{Request, Response, transport::Channel};

use crate::{
    answer::Reading,
    auth::Credentials,
    connect::{Connect, ConnectError, Dial, channel},
    error::{AuthProblem, Call, Cause, Error},
    id::Revision,
    rpc::{self, kv_client::KvClient},
};

/// The key that [`Member::ping`] reads. It need not exist.
const PING_KEY: &[u8] = b"\0";

type Answer<T> = Result<Response<T>, tonic::Status>;

/// One member, at one endpoint. Cheap to clone; all clones share one connection.
#[derive(Debug, Clone)]
pub struct Member {
    pub(crate) endpoint: Arc<str>,
    channel: Channel,
    pub(crate) dial: Dial,
    pub(crate) deadline: Duration,
    credentials: Option<Arc<Credentials>>,
}

impl Member {
    /// A handle on the member at this endpoint. The connection is made with the first call, and kept.
    ///
    /// Has to be called inside a Tokio runtime.
    pub fn new(endpoint: &str, connect: &Connect) -> Result<Self, ConnectError> {
        Ok(Self {
            endpoint: endpoint.into(),
            channel: channel(endpoint, connect)?,
            dial: connect.dial.clone(),
            deadline: connect.deadline,
            credentials: connect.credentials.clone(),
        })
    }

    /// The endpoint that all calls go to.
    #[must_use]
    pub fn endpoint(&self) -> &str {
        &self.endpoint
    }

    /// The same handle with another deadline for its calls.
    #[must_use]
    pub fn within(&self, deadline: Duration) -> Self {
        Self { deadline, ..self.clone() }
    }

    /// A read that succeeds only if this member hears from a quorum now.
    ///
    /// etcd looks at who asks only after the quorum has answered, so being refused for lack of rights proves as much.
    pub async fn ping(&self) -> Result<(), Error> {
        let message = rpc::RangeRequest { key: PING_KEY.to_vec(), count_only: true, ..Default::default() };
        match self
            .call(Call::Ping, message, async |channel, request| KvClient::new(channel).range(request).await)
            .await
        {
            Ok(_) | Err(Error { cause: Cause::Auth(AuthProblem::Required | AuthProblem::Denied), .. }) => {
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    /// The value of a key, read through a quorum.
    pub async fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        Ok(self.read(key).await?.found.map(|pair| pair.value))
    }

    /// A key, read through a quorum, with the revisions that etcd gives beside it.
    pub async fn read(&self, key: &[u8]) -> Result<Reading, Error> {
        let message = rpc::RangeRequest { key: key.to_vec(), ..Default::default() };
        let answer = self
            .call(Call::Get, message, async |channel, request| KvClient::new(channel).range(request).await)
            .await?;
        Ok(answer.into())
    }

    /// Writes a key, and returns the revision of the write.
    pub async fn put(&self, key: &[u8], value: &[u8]) -> Result<Revision, Error> {
        let message = rpc::PutRequest { key: key.to_vec(), value: value.to_vec() };
        let answer = self
            .call(Call::Put, message, async |channel, request| KvClient::new(channel).put(request).await)
            .await?;
        Ok(Revision(answer.header.unwrap_or_default().revision))
    }

    /// Forgets what was before a revision, and waits until the space is free.
    pub async fn compact(&self, before: Revision) -> Result<(), Error> {
        let message = rpc::CompactRequest { revision: before.0, physical: true };
        self.call(Call::Compact, message, async |channel, request| {
            KvClient::new(channel).compact(request).await
        })
        .await
        .map(drop)
    }
}

/// How a call is made.
impl Member {
    pub(crate) async fn call<T: Clone, R>(
        &self,
        call: Call,
        message: T,
        run: impl AsyncFn(Channel, Request<T>) -> Answer<R>,
    ) -> Result<R, Error> {
        self.begin(call, message, Some(self.deadline), run).await
    }

    /// Makes the call under the handle's deadline. `tell` is the time that etcd itself is told it has.
    pub(crate) async fn begin<T: Clone, R>(
        &self,
        call: Call,
        message: T,
        tell: Option<Duration>,
        run: impl AsyncFn(Channel, Request<T>) -> Answer<R>,
    ) -> Result<R, Error> {
        match tokio::time::timeout(self.deadline, self.attempt(message, tell, run)).await {
            Ok(Ok(response)) => Ok(response.into_inner()),
            Ok(Err(status)) => Err(Error::from_status(call, &self.endpoint, status)),
            Err(_) => Err(Error::timeout(call, &self.endpoint)),
        }
    }

    async fn attempt<T: Clone, R>(
        &self,
        message: T,
        tell: Option<Duration>,
        run: impl AsyncFn(Channel, Request<T>) -> Answer<R>,
    ) -> Answer<R> {
        let request = || {
            let mut request = Request::new(message.clone());
            if let Some(deadline) = tell {
                request.set_timeout(deadline);
            }
            request
        };
        let Some(credentials) = &self.credentials else {
            return run(self.channel.clone(), request()).await;
        };
        let mut first = request();
        credentials.sign(&mut first, &self.channel).await?;
        match run(self.channel.clone(), first).await {
            Err(status) if credentials.forget_if_stale(&status).await => {
                let mut second = request();
                credentials.sign(&mut second, &self.channel).await?;
                run(self.channel.clone(), second).await
            }
            answer => answer,
        }
    }
}
