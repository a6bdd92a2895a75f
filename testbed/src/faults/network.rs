//! Faults: packets of a pod are dropped, in one direction or both, to one peer or to all; or its line is bad, and loses some and delays
//! the others; or its connections are gone at the other end.
//!
//! The rules are in the pods' own network namespaces, and go with them. Between two pods they are at both ends: on its way through
//! a Service a packet has the peer's address only at the peer.

use std::{
    fs::File,
    net::IpAddr,
    os::fd::AsRawFd as _,
    process::{self, Command},
    sync::atomic::{AtomicU32, Ordering},
};

use super::{Broken, Fault, FaultError, here, place::Place};

/// What is dropped, as the pod sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// What comes to the pod.
    In,
    /// What the pod sends.
    Out,
    /// Both.
    Both,
}

/// Whom the pod cannot talk to.
#[derive(Clone, Copy, Debug)]
pub enum Peer<'a> {
    /// Another pod, directly or through a Service.
    Pod(&'a Place),
    /// Whoever has this address: a Service, a node, the API server.
    Address(IpAddr),
    /// Whoever asks at this TCP port of the pod; its other ports go on.
    Port(u16),
    /// Everybody but the pod's own node: the kubelet's probes go on, as when the network between nodes is down.
    OtherMachines,
    /// Everybody.
    All,
}

/// A pod that is cut off.
#[derive(Debug)]
pub struct Cut {
    table: String,
    networks: Vec<File>,
}

/// How bad a line is.
#[derive(Clone, Copy, Debug)]
pub struct Line {
    /// How many of a hundred packets are lost, in each direction.
    pub lost: u8,
    /// How many kilobits leave the pod in a second. The others wait their turn, for half a second at the most: this kernel has no other
    /// way to delay them.
    pub kilobits: u32,
}

/// A pod with a bad line.
#[derive(Debug)]
pub struct BadLine {
    /// The lost ones, and in which network.
    lost: Broken<Cut>,
    network: File,
}

/// What pods call their line.
const DEVICE: &str = "eth0";

/// Names tables of rules that no two cuts share, also of two tests at the same time.
static NEXT: AtomicU32 = AtomicU32::new(0);

impl Place {
    /// Drops packets between this pod and others.
    pub fn cut(&self, way: Way, peer: Peer<'_>) -> Result<Broken<Cut>, FaultError> {
        let mut ends = vec![(self.network()?, way, drops(self, peer)?)];
        if let Peer::Pod(other) = peer {
            ends.push((other.network()?, opposite(way), drops(other, Peer::Pod(self))?));
        }
        drop_at(ends)
    }

    /// Takes the pod's connections away at the control machine's end, and tells the pod nothing: as when a machine dies, and another takes
    /// its address. New ones can be had at once, so there is nothing to heal.
    pub async fn orphan_connections(&self) -> Result<(), FaultError> {
        let control = self.ground.control()?;
        let cut = self.cut(Way::Both, Peer::All)?;
        let killed = control.run(&["ss", "--kill", "--no-header", "--tcp", "dst", &self.address()?])?;
        cut.heal().await?;
        if killed.trim().is_empty() {
            return Err(FaultError::Missing(format!("a connection of {} with the API server", self.name())));
        }
        Ok(())
    }

    /// Gives this pod a bad line.
    pub fn worsen(&self, line: Line) -> Result<Broken<BadLine>, FaultError> {
        let some = |way: &str| format!("{way} != lo numgen random mod 100 < {}", line.lost);
        let lost = drop_at(vec![(self.network()?, Way::Both, [some("iifname"), some("oifname")])])?;
        let bad = BadLine { lost, network: self.network()? };
        let rate = format!("{}kbit", line.kilobits);
        bad.tc(&[
            "replace", "dev", DEVICE, "root", "tbf", "rate", &rate, "burst", "3000", "latency", "500ms",
        ])?;
        Ok(Broken::new(bad))
    }
}

/// Drops packets at these ends, each in its network.
fn drop_at(ends: Vec<(File, Way, [String; 2])>) -> Result<Broken<Cut>, FaultError> {
    let table = format!("fault_{}_{}", process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
    let mut cut = Broken::new(Cut { table: table.clone(), networks: Vec::new() });
    for (network, way, drops) in ends {
        let rules = rules(&table, way, &drops);
        nft(&network, &rules)?;
        if let Some(cut) = &mut cut.0 {
            cut.networks.push(network);
        }
    }
    Ok(cut)
}

impl Fault for Cut {
    async fn heal(&self) -> Result<(), FaultError> {
        for network in &self.networks {
            // Made empty first, so that this works a second time.
            nft(network, &format!("add table inet {0}; delete table inet {0}", self.table))?;
        }
        Ok(())
    }
}

impl BadLine {
    fn tc(&self, arguments: &[&str]) -> Result<(), FaultError> {
        let mut command = within(&self.network);
        here(command.args(["tc", "qdisc"]).args(arguments)).map(drop)
    }
}

impl Fault for BadLine {
    async fn heal(&self) -> Result<(), FaultError> {
        self.lost.heal_again().await?;
        // Without an error where there is none any more.
        self.tc(&["replace", "dev", DEVICE, "root", "pfifo"])
    }
}

fn opposite(way: Way) -> Way {
    match way {
        Way::In => Way::Out,
        Way::Out => Way::In,
        Way::Both => Way::Both,
    }
}

/// What is dropped of that which comes in, and of that which goes out.
fn drops(pod: &Place, peer: Peer<'_>) -> Result<[String; 2], FaultError> {
    let one = |address: &str| {
        let family = if address.contains(':') { "ip6" } else { "ip" };
        [format!("{family} saddr {address}"), format!("{family} daddr {address}")]
    };
    Ok(match peer {
        Peer::Pod(other) => one(&other.address()?),
        Peer::Address(address) => one(&address.to_string()),
        Peer::Port(port) => {
            [format!("iifname != lo tcp dport {port}"), format!("oifname != lo tcp sport {port}")]
        }
        Peer::OtherMachines => {
            let pods = pod.ground.layout.instance.network().pods_of(pod.node.0);
            let own = std::net::Ipv4Addr::from_bits(pods.base.to_bits() + 1);
            [format!("iifname != lo ip saddr != {own}"), format!("oifname != lo ip daddr != {own}")]
        }
        Peer::All => ["iifname != lo".to_owned(), "oifname != lo".to_owned()],
    })
}

fn rules(table: &str, way: Way, [incoming, outgoing]: &[String; 2]) -> String {
    let chain = |hook: &str, dropped: &str| {
        format!(
            "; add chain inet {table} {hook} {{ type filter hook {hook} priority -10; policy accept; }}\
             ; add rule inet {table} {hook} {dropped} drop"
        )
    };
    let (input, output) = (chain("input", incoming), chain("output", outgoing));
    let chains = match way {
        Way::In => input,
        Way::Out => output,
        Way::Both => input + &output,
    };
    format!("add table inet {table}{chains}")
}

/// Runs nft in a network, all of it or nothing.
fn nft(network: &File, script: &str) -> Result<(), FaultError> {
    here(within(network).args(["nft", script])).map(drop)
}

/// A command in a network.
fn within(network: &File) -> Command {
    // Through this process's list of open files: the pod's own may be gone.
    let namespace = format!("--net=/proc/{}/fd/{}", process::id(), network.as_raw_fd());
    let mut command = Command::new("nsenter");
    command.args([&namespace, "--"]);
    command
}
