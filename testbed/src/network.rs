//! The cables: a switch on the control machine, a link from it to each node and one to this machine.
//!
//! No machine has a route to anywhere else, so no packet of the cluster can leave. This machine has routes to the
//! machines, the pods and the Services, so that `kubectl`, tests and an operator in a shell reach them.

use std::{net::Ipv4Addr, path::Path, process::Command};

use serde::Deserialize;

use crate::{
    instance::{Instance, Network, Subnet},
    machine::{Machine, MachineError},
};

/// What went wrong with the network.
#[derive(Debug, thiserror::Error)]
pub enum NetworkError {
    /// A command inside a machine failed.
    #[error(transparent)]
    Machine(#[from] MachineError),
    /// A command on this machine failed.
    #[error("`{command}` failed: {reason}")]
    Here {
        /// The command.
        command: String,
        /// What it said.
        reason: String,
    },
    /// The kernel lacks a part.
    #[error(
        "the kernel does not filter what bridges pass on ({BRIDGES_FILTERED} is missing), and Services would not work: \
         load the module br_netfilter"
    )]
    BridgesUnfiltered,
    /// Somebody else uses an address range that the testbed needs.
    #[error(
        "the addresses {wanted} are needed for the testbed, but {used} is in use here on {device}; remove that \
         interface or route, or use a cluster that you already have by naming its kubeconfig in TESTBED_KUBECONFIG"
    )]
    Taken {
        /// What the testbed needs.
        wanted: Subnet,
        /// What is there.
        used: Subnet,
        /// On which interface.
        device: String,
    },
}

/// Says whether packets that a bridge passes on are filtered: a Service's answer from a pod of the same node needs it.
const BRIDGES_FILTERED: &str = "/proc/sys/net/bridge/bridge-nf-call-iptables";
/// A route that counts only where there is no other: what the cluster does not have is nowhere, and is not sent elsewhere.
const LAST: &str = "4278198272";

fn ranges(network: Network) -> [Subnet; 3] {
    [network.machines(), network.pods(), network.services()]
}

/// The name of this machine's end of its link to the switch.
fn host_link(instance: Instance) -> String {
    format!("etb-{instance}")
}

/// Refuses address ranges that somebody else uses on this machine.
pub fn check_free(instance: Instance) -> Result<(), NetworkError> {
    if !Path::new(BRIDGES_FILTERED).exists() {
        // Not everywhere is it a module; where it is, this loads it.
        let _ = here(&["modprobe", "br_netfilter"]);
        if !Path::new(BRIDGES_FILTERED).exists() {
            return Err(NetworkError::BridgesUnfiltered);
        }
    }
    let wanted = ranges(instance.network());
    let routes = here(&["ip", "-4", "-j", "route", "show", "table", "all"])?;
    let routes: Vec<Route> = serde_json::from_str(&routes)
        .map_err(|error| NetworkError::Here { command: "ip route".to_owned(), reason: error.to_string() })?;
    conflict(&wanted, &routes, &host_link(instance)).map_or(Ok(()), Err)
}

#[derive(Debug, Deserialize)]
struct Route {
    #[serde(default)]
    dst: String,
    #[serde(default)]
    dev: String,
    /// `unreachable`, for one, in the place of an interface.
    #[serde(default, rename = "type")]
    kind: String,
}

fn conflict(wanted: &[Subnet], routes: &[Route], own_link: &str) -> Option<NetworkError> {
    let others = routes.iter().filter(|route| route.dev != own_link && route.kind != "unreachable");
    others.filter(|route| route.dst != "default").find_map(|route| {
        let used = subnet(&route.dst)?;
        let wanted = *wanted.iter().find(|wanted| wanted.overlaps(used))?;
        Some(NetworkError::Taken { wanted, used, device: route.dev.clone() })
    })
}

fn subnet(text: &str) -> Option<Subnet> {
    let (base, prefix) = text.split_once('/').unwrap_or((text, "32"));
    Some(Subnet { base: base.parse::<Ipv4Addr>().ok()?, prefix: prefix.parse().ok()? })
}

/// Makes the switch, and this machine's link and routes to it.
pub fn connect_host(instance: Instance, control: &Machine, nodes: u8) -> Result<(), NetworkError> {
    let network = instance.network();
    let link = host_link(instance);
    disconnect_host(instance)?;
    control.run(&["ip", "link", "add", "switch", "type", "bridge"])?;
    control.run(&[
        "ip",
        "address",
        "add",
        &with_prefix(network.control(), network.machines()),
        "dev",
        "switch",
    ])?;
    control.run(&["ip", "link", "set", "switch", "up"])?;
    let pid = control.init().pid.to_string();
    here(&["ip", "link", "add", &link, "type", "veth", "peer", "name", "uplink", "netns", &pid])?;
    control.run(&["ip", "link", "set", "uplink", "master", "switch", "up"])?;
    here(&["ip", "address", "add", &with_prefix(network.host(), network.machines()), "dev", &link])?;
    here(&["ip", "link", "set", &link, "up"])?;
    for range in ranges(network) {
        here(&["ip", "route", "replace", "unreachable", &range.to_string(), "metric", LAST])?;
    }
    for (destination, via) in routes_to_pods(network, nodes, None) {
        let route = ["ip", "route", "replace", &destination.to_string(), "via", &via.to_string()];
        here(&route)?;
        control.run(&route)?;
    }
    Ok(())
}

/// Removes this machine's link, and with it the routes over it.
pub fn disconnect_host(instance: Instance) -> Result<(), NetworkError> {
    let link = host_link(instance);
    for range in ranges(instance.network()) {
        // There is none where no cluster was ever started.
        let _ = here(&["ip", "route", "delete", "unreachable", &range.to_string(), "metric", LAST]);
    }
    remove_link(&link, |arguments| here(&[&["ip"], arguments].concat()))
}

/// Removes a link, if there is one. The kernel removes it by itself, a moment after the machine at its other end has gone: maybe now.
fn remove_link(link: &str, ip: impl Fn(&[&str]) -> Result<String, NetworkError>) -> Result<(), NetworkError> {
    let exists = || ip(&["link", "show", "dev", link]).is_ok();
    match ip(&["link", "delete", link]) {
        Err(error) if exists() => Err(error),
        _ => Ok(()),
    }
}

/// Plugs a node into the switch, and gives it its address and its routes.
pub fn connect_node(
    instance: Instance,
    control: &Machine,
    node: &Machine,
    number: u8,
    nodes: u8,
) -> Result<(), NetworkError> {
    let network = instance.network();
    let port = format!("node{number}");
    let (control_pid, node_pid) = (control.init().pid.to_string(), node.init().pid.to_string());
    // Only the network namespace is entered: the other machine's pid must be understood as this machine counts it.
    // A port that is left of an earlier life of the node goes first.
    let on_switch = |arguments: &[&str]| {
        let mut argv = vec!["nsenter", "--net", "--target", &control_pid, "--", "ip"];
        argv.extend(arguments);
        here(&argv)
    };
    remove_link(&port, on_switch)?;
    on_switch(&["link", "add", &port, "type", "veth", "peer", "name", "eth0", "netns", &node_pid])?;
    on_switch(&["link", "set", &port, "master", "switch", "up"])?;

    node.run(&["sysctl", "-qw", "net.ipv4.ip_forward=1"])?;
    node.run(&[
        "ip",
        "address",
        "add",
        &with_prefix(network.node(number), network.machines()),
        "dev",
        "eth0",
    ])?;
    node.run(&["ip", "link", "set", "eth0", "up"])?;
    // The bridge of the node's pods is made before any pod is there: Service addresses that no rule translates are
    // routed to it and end there, and kube-proxy needs a route to them for what the node itself sends.
    let pods = network.pods_of(number);
    let gateway = Ipv4Addr::from_bits(pods.base.to_bits() + 1);
    node.run(&["ip", "link", "add", "cni0", "type", "bridge"])?;
    node.run(&["ip", "address", "add", &with_prefix(gateway, pods), "dev", "cni0"])?;
    node.run(&["ip", "link", "set", "cni0", "up"])?;
    node.run(&["ip", "route", "add", &network.services().to_string(), "dev", "cni0"])?;
    for (destination, via) in routes_to_pods(network, nodes, Some(number)) {
        node.run(&["ip", "route", "add", &destination.to_string(), "via", &via.to_string()])?;
    }
    Ok(())
}

/// Where the pods of each node are found; seen from no node, the first one also leads to the Services.
fn routes_to_pods(network: Network, nodes: u8, seen_from: Option<u8>) -> Vec<(Subnet, Ipv4Addr)> {
    let mut routes: Vec<_> = (1..=nodes)
        .filter(|node| Some(*node) != seen_from)
        .map(|node| (network.pods_of(node), network.node(node)))
        .collect();
    if seen_from.is_none() {
        routes.push((network.services(), network.node(1)));
    }
    routes
}

fn with_prefix(address: Ipv4Addr, subnet: Subnet) -> String {
    format!("{address}/{}", subnet.prefix)
}

fn here(argv: &[&str]) -> Result<String, NetworkError> {
    let failed = |reason: String| NetworkError::Here { command: argv.join(" "), reason };
    let (file, arguments) = argv.split_first().ok_or_else(|| failed("no command".to_owned()))?;
    let output = Command::new(file).args(arguments).output().map_err(|error| failed(error.to_string()))?;
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    } else {
        Err(failed(String::from_utf8_lossy(&output.stderr).trim().to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_that_somebody_else_uses_is_named_with_its_interface() {
        let wanted = [Subnet { base: Ipv4Addr::new(10, 96, 0, 0), prefix: 16 }];
        let route =
            |dst: &str, dev: &str| Route { dst: dst.to_owned(), dev: dev.to_owned(), kind: String::new() };
        for (routes, taken) in [
            (vec![route("default", "eth0")], None),
            (vec![route("192.168.0.0/24", "eth0")], None),
            (vec![route("10.96.0.0/16", "etb-main")], None),
            (vec![route("10.96.4.0/24", "vpn0")], Some("vpn0")),
            (vec![route("10.0.0.0/8", "tun1")], Some("tun1")),
            (vec![route("10.96.0.7", "lo")], Some("lo")),
        ] {
            let found = conflict(&wanted, &routes, "etb-main").map(|error| error.to_string());
            match taken {
                None => assert_eq!(found, None, "{routes:?}"),
                Some(device) => assert!(found.unwrap().contains(device), "{routes:?}"),
            }
        }
    }

    #[test]
    fn every_node_knows_the_way_to_the_pods_of_the_others() {
        let network = Instance::Main.network();
        let from_two = routes_to_pods(network, 3, Some(2));
        assert_eq!(from_two.len(), 2);
        assert!(from_two.iter().all(|(pods, _)| *pods != network.pods_of(2)));
        assert_eq!(routes_to_pods(network, 3, None).len(), 4);
    }
}
