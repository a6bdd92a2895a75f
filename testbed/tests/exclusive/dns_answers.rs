//! How long DNS lets its answers be believed is realistic, and tests can turn it.

use std::{
    net::{Ipv4Addr, UdpSocket},
    time::Duration,
};

use testbed::{
    addons::{self, DnsAnswers},
    control_plane::Layout,
    instance::Instance,
    kit::Cluster,
};

/// Asks for the address of the API server's Service and returns address and time to live of the answer. By hand,
/// because resolvers hide the time to live, and this is one question of one kind.
fn ask(server: Ipv4Addr) -> (Ipv4Addr, u32) {
    let mut question = vec![0x12, 0x34, 0x01, 0x00, 0, 1, 0, 0, 0, 0, 0, 0];
    for label in ["kubernetes", "default", "svc", "cluster", "local", ""] {
        question.push(u8::try_from(label.len()).unwrap());
        question.extend(label.bytes());
    }
    question.extend([0, 1, 0, 1]);
    let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
    socket.connect((server, 53)).unwrap();
    let mut answer = [0; 512];
    let length = (0..10)
        .find_map(|_| {
            socket.send(&question).unwrap();
            socket.recv(&mut answer).ok()
        })
        .expect("DNS answers");
    // The answer repeats the question, and ends with one record: name, type and class, then what is wanted.
    let record = &answer[question.len()..length];
    assert_eq!(&answer[..2], &[0x12, 0x34]);
    let name = record.iter().position(|byte| *byte == 0).unwrap();
    let name = if record[0] & 0xc0 == 0xc0 { 2 } else { name + 1 };
    let ttl = u32::from_be_bytes(record[name + 4..name + 8].try_into().unwrap());
    let address = <[u8; 4]>::try_from(&record[name + 10..name + 14]).unwrap();
    (address.into(), ttl)
}

#[tokio::test]
async fn dns_answers_are_believed_for_half_a_minute_unless_a_test_says_otherwise() {
    let layout = Layout::of(Instance::Main);
    let network = layout.instance.network();
    let cluster = Cluster::connect().await.unwrap();
    let turn = async |answers: DnsAnswers| {
        addons::apply(&layout, &cluster, answers).await.unwrap();
        addons::dns_available(&cluster).await.unwrap();
        // Old instances may still be answering until they are gone from the Service.
        for _ in 0..100 {
            let seen = (0..5).map(|_| ask(network.dns_service())).collect::<Vec<_>>();
            if seen.iter().all(|(_, ttl)| *ttl <= answers.ttl && *ttl + 5 >= answers.ttl) {
                return seen;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        panic!("DNS does not answer as {answers:?} says: {:?}", ask(network.dns_service()));
    };
    let quick = turn(DnsAnswers { ttl: 3, cache: 1 }).await;
    let usual = turn(DnsAnswers::default()).await;
    for (address, _) in quick.into_iter().chain(usual) {
        assert_eq!(address, network.api_service());
    }
}
