//! How long DNS lets its answers be believed is realistic, and tests can turn it.

use std::{
    io::ErrorKind,
    net::{Ipv4Addr, UdpSocket},
    time::{Duration, Instant},
};

use testbed::{
    addons::{self, DnsAnswers},
    cluster,
    control_plane::Layout,
    instance::Instance,
    kit::{Cluster, TestCase},
};

/// What DNS says of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Said {
    Address { address: Ipv4Addr, ttl: u32 },
    NoSuchName,
}

/// Asks for the address of a name. By hand, because resolvers hide the time to live, and this is one question of one kind.
fn ask(server: Ipv4Addr, name: &str) -> Said {
    send(server, name).expect("DNS answers")
}

/// Whether DNS answers at all.
pub(crate) fn answers(server: Ipv4Addr) -> bool {
    send(server, "kubernetes.default.svc.cluster.local").is_some()
}

fn send(server: Ipv4Addr, name: &str) -> Option<Said> {
    let mut question = vec![0x12, 0x34, 0x01, 0x00, 0, 1, 0, 0, 0, 0, 0, 0];
    for label in name.split('.').chain([""]) {
        question.push(u8::try_from(label.len()).unwrap());
        question.extend(label.bytes());
    }
    question.extend([0, 1, 0, 1]);
    // A socket for each question: the Service leads it to any of the servers.
    let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
    socket.connect((server, 53)).unwrap();
    let mut answer = [0; 512];
    let length = (0..10).find_map(|_| {
        let said = socket.send(&question).and_then(|_| socket.recv(&mut answer));
        if said.as_ref().is_err_and(|error| error.kind() == ErrorKind::ConnectionRefused) {
            // Where no server is Ready it is refused at once, and the socket says so.
            std::thread::sleep(Duration::from_millis(500));
        }
        said.ok()
    })?;
    assert_eq!(&answer[..2], &[0x12, 0x34]);
    match answer[3] & 0x0f {
        0 => {}
        3 => return Some(Said::NoSuchName),
        other => panic!("DNS refuses with code {other}"),
    }
    // The answer repeats the question, and goes on with one record: name, type and class, then what is wanted.
    let record = &answer[question.len()..length];
    let name = record.iter().position(|byte| *byte == 0).unwrap();
    let name = if record[0] & 0xc0 == 0xc0 { 2 } else { name + 1 };
    let ttl = u32::from_be_bytes(record[name + 4..name + 8].try_into().unwrap());
    let address = <[u8; 4]>::try_from(&record[name + 10..name + 14]).unwrap();
    Some(Said::Address { address: address.into(), ttl })
}

/// Asks so often that every server has been asked.
fn ask_all(server: Ipv4Addr, name: &str) -> Vec<Said> {
    (0..20).map(|_| ask(server, name)).collect()
}

/// The testbed whose DNS is turned.
fn instance() -> Instance {
    Instance::chosen().unwrap()
}

/// Sets how DNS answers, and waits until all servers do.
async fn turn(cluster: &Cluster, answers: DnsAnswers) {
    let layout = Layout::of(instance());
    let network = layout.instance.network();
    addons::apply(&layout, cluster, answers).await.unwrap();
    addons::dns_available(cluster).await.unwrap();
    let api_server = "kubernetes.default.svc.cluster.local";
    let as_told = |said: &Said| match said {
        Said::Address { address, ttl } => {
            *address == network.api_service() && *ttl <= answers.ttl && *ttl + 5 >= answers.ttl && *ttl > 0
        }
        Said::NoSuchName => false,
    };
    // Old servers may still be answering until they are gone from the Service.
    for _ in 0..100 {
        if ask_all(network.dns_service(), api_server).iter().all(as_told) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("DNS does not answer as {answers:?} says: {:?}", ask_all(network.dns_service(), api_server));
}

/// Whether DNS knows a name within this time that was asked for before there was such a name.
async fn known_within(patience: Duration, cluster: &Cluster) -> bool {
    let known = |said: &[Said]| said.iter().all(|said| matches!(said, Said::Address { .. }));
    let server = instance().network().dns_service();
    let mut as_wanted = false;
    TestCase::of("asked_too_early")
        .on(cluster.clone())
        .run(async |ns| {
            let name = format!("late.{}.svc.cluster.local", ns.name());
            let begun = Instant::now();
            anyhow::ensure!(ask_all(server, &name).iter().all(|said| *said == Said::NoSuchName));
            ns.apply("{apiVersion: v1, kind: Service, metadata: {name: late}, spec: {ports: [{port: 80}]}}")
                .await?;
            while !as_wanted {
                let said = ask_all(server, &name);
                if begun.elapsed() > patience {
                    break;
                }
                as_wanted = known(&said);
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
            Ok(())
        })
        .await
        .unwrap();
    as_wanted
}

#[tokio::test]
async fn dns_answers_as_kubeadm_sets_it_up_unless_a_test_says_otherwise() {
    // Never a cluster that somebody has named: its DNS is not ours to turn.
    let cluster = Cluster::connect_to(cluster::places(instance()).unwrap()).await.unwrap();
    turn(&cluster, DnsAnswers { ttl: 20, cache: 20 }).await;
    let found_soon = known_within(Duration::from_secs(10), &cluster).await;
    turn(&cluster, DnsAnswers::default()).await;
    assert!(!found_soon, "a server that keeps its answers for 20 s knew a new name within 10 s");
    // Longer than a quiet machine needs, and less than answers are kept elsewhere.
    let found = known_within(Duration::from_secs(15), &cluster).await;
    assert!(found, "a server that keeps no answers does not know a new name");
}
