//! A pod's network can be cut in one direction or both, to one peer or to all, and is whole again afterwards.

use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use k8s_openapi::api::core::v1::{Pod, Service};
use testbed::{
    faults::{
        Ground,
        network::{Line, Peer, Way},
        place::Place,
    },
    kit::{Exec, PodSecurity, TestCase, TestNamespace, check, until_it_succeeds, wait_for},
};

use crate::{SOON, script_pod};

/// Repeats what it hears on two ports, so that what one part of the test leaves behind is not seen by the other.
const LISTEN: &str = "nc -ll -p 5001 -e cat & nc -ll -p 5002 -e cat & wait";

fn talker(name: &str) -> String {
    let labelled = format!("{{name: {name}, labels: {{who: {name}}}}}");
    script_pod(name, LISTEN).replace(&format!("{{name: {name}}}"), &labelled)
        + "    readinessProbe: {tcpSocket: {port: 5001}, periodSeconds: 1, failureThreshold: 2}\n"
}

/// Whether a pod gets an answer from an address.
async fn talks(ns: &TestNamespace, from: &str, to: &str, port: u16) -> anyhow::Result<bool> {
    let said = ns.exec(from, &["sh", "-c", &format!("echo hello | nc -w 3 {to} {port}")]).await?;
    Ok(said.stdout == "hello\n")
}

/// Whether what a pod sends arrives, though it is not answered: the beginning of a connection is known at the other end for a
/// moment. It is looked for while it is tried.
async fn arrives(ns: &TestNamespace, from: &Place, to: &Place, port: u16) -> anyhow::Result<bool> {
    let name = |place: &Place| place.pod.metadata.name.clone().unwrap_or_default();
    let address: std::net::Ipv4Addr = from.address()?.parse()?;
    // In the kernel's words: ports and addresses in hexadecimal, those backwards, and 03 for what only began.
    let begun = format!(":{port:04X} .*{:08X}:.... 03 ", address.to_bits().swap_bytes());
    let look = format!(
        "for i in $(seq 40); do grep -q '{begun}' /proc/net/tcp /proc/net/tcp6 && exit 0; sleep 0.1; done; exit 1"
    );
    let (from, to, address) = (name(from), name(to), to.address()?);
    let look = ["sh", "-c", &look];
    let (answered, seen) = tokio::join!(talks(ns, &from, &address, port), ns.exec(&to, &look));
    ensure!(!answered?, "{from} is answered");
    Ok(seen?.code == 0)
}

/// Talks sooner or later: a busy machine is late with an answer, and with what a Service leads to.
async fn comes_to_talk(ns: &TestNamespace, from: &str, to: &str, port: u16) -> anyhow::Result<()> {
    let attempt = async || {
        ensure!(talks(ns, from, to, port).await?, "{from} does not talk to {to}:{port}");
        Ok(())
    };
    until_it_succeeds(SOON, attempt).await
}

/// As often as a busy machine needs to try and to look at the same time.
async fn arrives_sometime(ns: &TestNamespace, from: &Place, to: &Place, port: u16) -> anyhow::Result<bool> {
    for _ in 0..10 {
        if arrives(ns, from, to, port).await? {
            return Ok(true);
        }
    }
    Ok(false)
}

#[tokio::test]
async fn packets_are_dropped_in_the_direction_that_was_cut_and_pass_when_it_heals() -> anyhow::Result<()> {
    let case = TestCase::of("packets_are_dropped_in_the_direction_that_was_cut_and_pass_when_it_heals");
    case.pod_security(PodSecurity::Restricted)
        .run(async |ns| {
            let (ground, a, b) = two_talkers(&ns).await?;
            let service: Service = ns.api().get("b").await?;
            let service = service.spec.and_then(|spec| spec.cluster_ip).context("no address")?;
            for to in [&b.address()?, &service] {
                comes_to_talk(&ns, "a", to, 5001).await.with_context(|| format!("by {to} at all"))?;
            }

            let cut = a.cut(Way::Both, Peer::Pod(&b))?;
            for to in [&b.address()?, &service] {
                ensure!(!talks(&ns, "a", to, 5001).await?, "a talks to b by {to} through the cut");
            }
            ensure!(!talks(&ns, "b", &a.address()?, 5001).await?, "b talks to a through the cut");
            comes_to_talk(&ns, "a", &a.address()?, 5001).await.context("to itself")?;
            cut.heal().await?;
            for to in [&b.address()?, &service] {
                comes_to_talk(&ns, "a", to, 5001).await.with_context(|| format!("by {to} again"))?;
            }

            let cut = a.cut(Way::Out, Peer::Pod(&b))?;
            ensure!(!arrives(&ns, &a, &b, 5001).await?, "what a sends arrives");
            ensure!(arrives_sometime(&ns, &b, &a, 5001).await?, "what b sends does not arrive");
            cut.heal().await?;
            let cut = a.cut(Way::In, Peer::Pod(&b))?;
            ensure!(arrives_sometime(&ns, &a, &b, 5002).await?, "what a sends does not arrive");
            ensure!(!arrives(&ns, &b, &a, 5002).await?, "what b sends arrives");
            drop(cut);
            comes_to_talk(&ns, "b", &a.address()?, 5002)
                .await
                .context("a cut that was dropped has not healed")?;

            let cut = a.cut(Way::In, Peer::Port(5001))?;
            ensure!(!talks(&ns, "b", &a.address()?, 5001).await?, "the port that was cut answers");
            comes_to_talk(&ns, "b", &a.address()?, 5002).await.context("another port does not answer")?;
            cut.heal().await?;
            comes_to_talk(&ns, "b", &a.address()?, 5001).await.context("the port does not answer again")?;

            all_of_it(&ns, &ground, &a).await
        })
        .await
}

/// How long it takes `a` to send so many bytes and to hear them again.
async fn repeated(ns: &TestNamespace, to: &str, bytes: usize) -> anyhow::Result<Duration> {
    let send = format!("head -c {bytes} /dev/zero | nc -w 100 {to} 5001 | head -c {bytes} | wc -c");
    let (begun, how) = (Instant::now(), Exec { deadline: 2 * SOON, ..Exec::default() });
    let heard = ns.exec_with("a", &["sh", "-c", &send], how).await?;
    ensure!(heard.stdout.trim() == bytes.to_string(), "{heard:?}");
    Ok(begun.elapsed())
}

/// How many packets `a` had to send a second time.
async fn sent_again(ns: &TestNamespace) -> anyhow::Result<u64> {
    let count = "grep ^Tcp: /proc/net/snmp | tail -n 1 | cut -d ' ' -f 13";
    Ok(ns.exec("a", &["sh", "-c", count]).await?.success()?.trim().parse()?)
}

#[tokio::test]
async fn a_bad_line_loses_and_delays_and_is_a_good_one_when_it_heals() -> anyhow::Result<()> {
    TestCase::of("a_bad_line_loses_and_delays_and_is_a_good_one_when_it_heals")
        .pod_security(PodSecurity::Restricted)
        .run(async |ns| {
            let (_, a, b) = two_talkers(&ns).await?;
            let line = a.worsen(Line { lost: 99, kilobits: 1_000_000 })?;
            ensure!(!talks(&ns, "a", &b.address()?, 5001).await?, "nothing is lost");
            line.heal().await?;
            let line = a.worsen(Line { lost: 0, kilobits: 200 })?;
            let slow = repeated(&ns, &b.address()?, 100_000).await?;
            ensure!(slow > Duration::from_secs(3), "eight hundred thousand bits came in {slow:?}");
            line.heal().await?;
            comes_to_talk(&ns, "a", &b.address()?, 5001).await.context("again")?;
            let (line, before) = (a.worsen(Line { lost: 30, kilobits: 100_000 })?, sent_again(&ns).await?);
            let mut tries = 0;
            while sent_again(&ns).await? == before {
                tries += 1;
                ensure!(tries < 50, "nothing is lost");
                repeated(&ns, &b.address()?, 2000).await?;
            }
            Ok(line.heal().await?)
        })
        .await
}

/// Cut from everybody else, a pod is still Ready for its node; cut from all, it is not.
async fn all_of_it(ns: &TestNamespace, ground: &Ground, a: &Place) -> anyhow::Result<()> {
    let control = ground.layout().instance.network().control().into();
    let reaches = async || {
        ensure!(control_talks(ns, control).await?, "a does not reach the API server");
        anyhow::Ok(())
    };
    until_it_succeeds(SOON, reaches).await.context("at all")?;
    let cut = a.cut(Way::Out, Peer::Address(control))?;
    ensure!(!control_talks(ns, control).await?, "a reaches the API server through the cut");
    cut.heal().await?;
    until_it_succeeds(SOON, reaches).await.context("again")?;

    let cut = a.cut(Way::Both, Peer::OtherMachines)?;
    ensure!(!control_talks(ns, control).await?, "a reaches another machine through the cut");
    // Longer than the probe is patient with it.
    tokio::time::sleep(Duration::from_secs(4)).await;
    ns.pod_ready("a").await?;
    cut.heal().await?;

    let cut = a.cut(Way::Both, Peer::All)?;
    let unready = |pod: Option<&Pod>| match check::pod_ready(pod) {
        Ok(_) => Err("it is Ready".to_owned()),
        Err(_) => Ok(()),
    };
    wait_for(&ns.api::<Pod>(), "a", SOON, "not to be Ready", unready).await?;
    cut.heal().await?;
    ns.pod_ready("a").await?;
    Ok(())
}

/// Whether the API server's machine takes a connection from the pod `a`.
async fn control_talks(ns: &TestNamespace, control: std::net::IpAddr) -> anyhow::Result<bool> {
    let command = format!("nc -w 3 {control} 6443 < /dev/null");
    Ok(ns.exec("a", &["timeout", "5", "sh", "-c", &command]).await?.code == 0)
}

async fn two_talkers(ns: &TestNamespace) -> anyhow::Result<(Ground, Place, Place)> {
    ns.apply("{apiVersion: v1, kind: Service, metadata: {name: b}, spec: {selector: {who: b}, ports: [{port: 5001}]}}")
        .await?;
    ns.apply(&talker("a")).await?;
    ns.apply(&talker("b")).await?;
    ns.pod_ready("a").await?;
    ns.pod_ready("b").await?;
    let ground = Ground::here()?;
    let (a, b) = (ground.place(ns.name(), "a").await?, ground.place(ns.name(), "b").await?);
    Ok((ground, a, b))
}
