//! FOR PROOF: what tests with real processes on the loopback share. Nothing but tests depends on it.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test's functions may panic too"
)]
#![allow(clippy::missing_panics_doc, reason = "each one panics where its test cannot go on")]

mod cluster;

use std::{
    collections::BTreeSet,
    net::{Ipv4Addr, SocketAddr, TcpListener},
    path::{Path, PathBuf},
    sync::Mutex,
};

pub use cluster::{Cluster, Process, VERSIONS, cause, eventually, id_of, leader};

/// The etcd binary of a version, from the folder that `ETCD_BINARIES` names. A missing one fails the test: a test that did not
/// run has shown nothing.
#[must_use]
pub fn etcd(version: &str) -> PathBuf {
    let folder = std::env::var_os("ETCD_BINARIES").unwrap_or_else(|| {
        panic!("ETCD_BINARIES is not set: it has to name a folder with etcd {version} at {version}/etcd")
    });
    let path = Path::new(&folder).join(version).join("etcd");
    assert!(path.is_file(), "there is no etcd {version} at {}", path.display());
    path
}

/// A loopback address of this process's own. On the shared one, a port that is free now may be taken a moment later as the
/// near end of somebody's connection; these always begin at 127.0.0.1.
#[must_use]
pub fn own_address() -> Ipv4Addr {
    let [_, high, middle, low] = std::process::id().to_be_bytes();
    Ipv4Addr::new(127, 1 + high % 254, middle, low)
}

/// A port of that address that is free now.
#[must_use]
pub fn free_port() -> u16 {
    free_address().port()
}

/// That address, with a port that is free now and was not asked for before: the kernel gives the same one twice, now and then.
#[must_use]
pub fn free_address() -> SocketAddr {
    static GIVEN: Mutex<BTreeSet<u16>> = Mutex::new(BTreeSet::new());
    loop {
        let address = TcpListener::bind((own_address(), 0)).unwrap().local_addr().unwrap();
        if GIVEN.lock().unwrap().insert(address.port()) {
            return address;
        }
    }
}
