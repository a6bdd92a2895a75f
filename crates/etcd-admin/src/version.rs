//! TALKING TO ETCD: the version of the cluster as a whole, which etcd tells only over HTTP.

use http_body_util::{BodyExt as _, Empty, Limited};
use hyper::{Request, Uri, body::Bytes, header::HOST};
use hyper_util::rt::TokioIo;
use tokio::{net::TcpStream, task::AbortHandle, time::timeout};

use crate::member::Member;

/// Where etcd tells its versions.
const PATH: &str = "/version";
/// More than that is no answer of etcd's.
const LONGEST: usize = 4096;

impl Member {
    /// The version that all members of the cluster have agreed on, such as `3.6.0`; none where nobody tells in time, or they have not
    /// agreed on one yet.
    ///
    /// It is asked over HTTP/1.1, which etcd answers on the port of its RPC: over HTTP/2 everything counts as RPC there.
    pub async fn cluster_version(&self) -> Option<String> {
        let body = timeout(self.deadline, self.dial.fetch(&self.endpoint, PATH)).await.ok()??;
        let told: serde_json::Value = serde_json::from_slice(&body).ok()?;
        let version = told.get("etcdcluster")?.as_str()?;
        // Before they have agreed, "not_decided" stands there.
        version.starts_with(|first: char| first.is_ascii_digit()).then(|| version.to_owned())
    }
}

/// Ends the task that serves a connection together with whoever uses it.
struct Ends(AbortHandle);

impl Drop for Ends {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Gets what stands under a path, over a connection of its own.
pub(crate) async fn get(endpoint: String, path: &'static str) -> Option<Vec<u8>> {
    let uri: Uri = endpoint.parse().ok()?;
    let authority = uri.authority()?.as_str().to_owned();
    let stream = TcpStream::connect(&authority).await.ok()?;
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.ok()?;
    let _ends = Ends(tokio::spawn(connection).abort_handle());
    let request = Request::get(path).header(HOST, authority).body(Empty::<Bytes>::new()).ok()?;
    let answer = sender.send_request(request).await.ok().filter(|answer| answer.status().is_success())?;
    let body = Limited::new(answer.into_body(), LONGEST).collect().await.ok()?;
    Some(body.to_bytes().to_vec())
}
