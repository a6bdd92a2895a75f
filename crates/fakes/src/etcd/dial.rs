//! FAKES: the way from an operator to a member, without a socket.

use std::{io, sync::Arc};

use etcd_admin::{
    Dial, Fetched,
    rpc::{cluster_server::ClusterServer, kv_server::KvServer, maintenance_server::MaintenanceServer},
};
use futures::stream;
use http::Uri;
use hyper_util::rt::TokioIo;
use tokio::io::{DuplexStream, copy_bidirectional, duplex};
use tonic::transport::{Endpoint, Server};
use tower::service_fn;

use super::{Etcd, Judge, server::Node};
use crate::wire::Wire;

/// How much may be under way.
const ROOM: usize = 64 * 1024;

impl Etcd {
    /// How an operator with this wire reaches members. `judge` says, at the moment a change lands, which laws it breaks.
    #[must_use]
    pub fn dial(&self, wire: &Wire, judge: &Judge) -> Dial {
        let (etcd, wire, judge) = (self.clone(), wire.clone(), Arc::clone(judge));
        let told = self.clone();
        let channel = move |endpoint: &Endpoint| {
            let (etcd, wire, judge) = (etcd.clone(), wire.clone(), Arc::clone(&judge));
            endpoint.connect_with_connector_lazy(service_fn(move |uri: Uri| {
                let opened = etcd.open(uri.host().unwrap_or_default(), &wire, &judge);
                async { opened.map(TokioIo::new) }
            }))
        };
        let fetch = move |endpoint: String, path| -> Fetched {
            let host = endpoint.parse::<Uri>().ok().and_then(|uri| uri.host().map(str::to_owned));
            let versions = host.filter(|_| path == "/version").and_then(|host| told.versions(&host));
            Box::pin(async move { versions.map(|versions| versions.to_string().into_bytes()) })
        };
        Dial::by(channel, fetch)
    }

    /// A connection to the process at an address. It lasts as long as the process does.
    fn open(&self, address: &str, wire: &Wire, judge: &Judge) -> io::Result<DuplexStream> {
        let refused = || io::Error::from(io::ErrorKind::ConnectionRefused);
        let mut alive = self.opens(address).ok_or_else(refused)?;
        let (etcd, wire, judge) = (self.clone(), wire.clone(), Arc::clone(judge));
        let node = Node { etcd, address: address.to_owned(), wire, judge };
        let (theirs, mut far) = duplex(ROOM);
        let (mut near, ours) = duplex(ROOM);
        let served = Server::builder()
            .add_service(KvServer::new(node.clone()))
            .add_service(ClusterServer::new(node.clone()))
            .add_service(MaintenanceServer::new(node))
            .serve_with_incoming(stream::iter([io::Result::Ok(ours)]));
        tokio::spawn(served);
        tokio::spawn(async move {
            tokio::select! {
                _ = copy_bidirectional(&mut far, &mut near) => {}
                // It is never told anything but that the process is gone.
                _ = alive.changed() => {}
            }
        });
        Ok(theirs)
    }
}
