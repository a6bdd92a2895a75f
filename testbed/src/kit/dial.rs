//! Dialling a pod: a connection to one of its ports through the API server, which works on any cluster.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll},
};

use futures::{FutureExt, future::BoxFuture};
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use tokio::io::{AsyncRead, AsyncWrite, DuplexStream, ReadBuf};

use super::{KitError, TestNamespace, call};

/// Why a pod could not be dialled.
#[derive(Debug, thiserror::Error)]
pub enum DialError {
    /// The API server did not agree.
    #[error(transparent)]
    Call(#[from] KitError),
    /// The connection has no stream for the port that was asked for.
    #[error("dial port {port} of {pod}: the API server opened no stream for it")]
    NoStream {
        /// Which pod.
        pod: String,
        /// Which port.
        port: u16,
    },
}

/// A connection to a port of a pod. It is closed when it is dropped.
///
/// Nobody listening shows at the first read: the API server connects only then, and says so in a channel of its own.
pub struct Dialled {
    stream: DuplexStream,
    refusal: Option<BoxFuture<'static, Option<String>>>,
}

impl TestNamespace {
    /// Connects to a port of a pod.
    pub async fn dial(&self, pod: &str, port: u16) -> Result<Dialled, DialError> {
        self::pod(&self.api(), pod, port).await
    }
}

/// Connects to a port of one of these pods.
pub async fn pod(pods: &Api<Pod>, pod: &str, port: u16) -> Result<Dialled, DialError> {
    let attempt = format!("dial port {port} of {pod}");
    let mut forwarder = call(&attempt, pods.portforward(pod, &[port])).await?;
    let stream =
        forwarder.take_stream(port).ok_or_else(|| DialError::NoStream { pod: pod.to_owned(), port })?;
    let refusal = forwarder.take_error(port).map(FutureExt::boxed);
    Ok(Dialled { stream, refusal })
}

impl AsyncRead for Dialled {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if let Some(refusal) = &mut self.refusal
            && let Poll::Ready(said) = refusal.poll_unpin(cx)
        {
            self.refusal = None;
            if let Some(said) = said {
                return Poll::Ready(Err(io::Error::new(io::ErrorKind::ConnectionRefused, said)));
            }
        }
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for Dialled {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    fn dialled(refusal: Option<&str>) -> (Dialled, DuplexStream) {
        let (stream, pod) = tokio::io::duplex(64);
        let refusal = refusal.map(|said| futures::future::ready(Some(said.to_owned())).boxed());
        (Dialled { stream, refusal }, pod)
    }

    #[tokio::test]
    async fn what_one_side_writes_the_other_reads() {
        let (mut test, mut pod) = dialled(None);
        test.write_all(b"ping").await.unwrap();
        let mut heard = [0; 4];
        pod.read_exact(&mut heard).await.unwrap();
        assert_eq!(&heard, b"ping");
        pod.write_all(b"pong").await.unwrap();
        test.read_exact(&mut heard).await.unwrap();
        assert_eq!(&heard, b"pong");
    }

    #[tokio::test]
    async fn a_port_where_nobody_listens_is_an_error_that_says_so() {
        let (mut test, _pod) = dialled(Some("connect: connection refused"));
        let mut heard = [0; 4];
        let read = tokio::time::timeout(Duration::from_secs(5), test.read(&mut heard));
        let error = read.await.unwrap().unwrap_err();
        assert_eq!(error.to_string(), "connect: connection refused");
    }
}
