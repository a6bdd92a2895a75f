//! The client against ends of a connection that misbehave. No etcd is needed.

#![allow(clippy::unwrap_used, reason = "a test's functions may panic too")]

use std::time::{Duration, Instant};

use etcd_admin::{Cause, Connect, ConnectError, Error, Member, Role, Tls};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpListener,
};

const DEADLINE: Duration = Duration::from_millis(500);

/// An empty HTTP/2 SETTINGS frame: enough for a client to believe in the other end.
const SETTINGS: [u8; 9] = [0, 0, 0, 4, 0, 0, 0, 0, 0];

fn handle(port: u16) -> Member {
    let connect = Connect { deadline: DEADLINE, ..Connect::default() };
    Member::new(&format!("http://127.0.0.1:{port}"), &connect).unwrap()
}

/// How the other end behaves once a connection is there.
#[derive(Clone, Copy)]
enum End {
    /// It takes all that comes and says nothing.
    Silent,
    /// It greets, takes a request, and hangs up.
    HangsUp,
}

async fn end(behaviour: End) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            tokio::spawn(async move {
                if matches!(behaviour, End::HangsUp) {
                    stream.write_all(&SETTINGS).await.unwrap();
                    // The greeting and the request, whose name is told in plain text or not at all: both have come
                    // when nothing more comes for a moment.
                    let mut buffer = [0; 4096];
                    while let Ok(Ok(1..)) =
                        tokio::time::timeout(Duration::from_millis(100), stream.read(&mut buffer)).await
                    {
                    }
                    return;
                }
                let mut sink = Vec::new();
                let _ = stream.read_to_end(&mut sink).await;
            });
        }
    });
    port
}

/// A read and a change, with what each one came to.
async fn read_and_change(member: &Member) -> [Error; 2] {
    let urls = ["http://127.0.0.1:1".to_owned()];
    [member.status().await.unwrap_err(), member.add_member(&urls, Role::Learner).await.unwrap_err()]
}

#[tokio::test]
async fn a_member_that_nobody_listens_for_is_unreachable_and_nothing_happened() {
    let port = {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        listener.local_addr().unwrap().port()
    };
    for error in read_and_change(&handle(port)).await {
        // And not that there was no answer in time: a refused connection is known at once.
        assert_eq!(error.cause, Cause::Unreachable, "{error}");
        assert!(!error.maybe_done());
    }
}

#[tokio::test]
async fn a_silent_member_costs_no_more_than_the_deadline_and_a_change_may_have_happened() {
    let member = handle(end(End::Silent).await);
    let begun = Instant::now();
    let [read, change] = read_and_change(&member).await;
    assert_eq!(read.cause, Cause::Timeout { maybe_done: false }, "{read}");
    assert_eq!(change.cause, Cause::Timeout { maybe_done: true }, "{change}");
    assert!(begun.elapsed() >= DEADLINE, "it was given its time");
    // Its own deadline holds, and not the one of the handle that it is from.
    let patient = member.within(Duration::from_hours(1));
    assert!(patient.within(DEADLINE).ping().await.is_err());
}

#[tokio::test]
async fn a_connection_that_breaks_after_the_request_leaves_a_change_in_doubt() {
    let [read, change] = read_and_change(&handle(end(End::HangsUp).await)).await;
    assert_eq!(read.cause, Cause::ConnectionLost { maybe_done: false }, "{read}");
    assert_eq!(change.cause, Cause::ConnectionLost { maybe_done: true }, "{change}");
}

#[tokio::test]
async fn a_handle_is_not_made_of_nonsense() {
    let made = |endpoint: &str, ca: &[u8], key: &[u8]| {
        let identity = Some((b"-----BEGIN CERTIFICATE-----".to_vec(), key.to_vec()));
        let tls = Tls { ca: ca.to_vec(), identity, server_name: None };
        Member::new(endpoint, &Connect { tls: Some(tls), ..Connect::default() }).map(drop)
    };
    let endpoint = "https://127.0.0.1:1";
    assert!(matches!(made("not an endpoint", b"", b""), Err(ConnectError::Endpoint { .. })));
    assert!(matches!(made(endpoint, b"not a certificate", b""), Err(ConnectError::NoAuthority { .. })));
    let ca = b"-----BEGIN CERTIFICATE-----";
    assert!(matches!(made(endpoint, ca, b"not a key"), Err(ConnectError::Certificates { .. })));
}
