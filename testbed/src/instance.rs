//! Which testbed on this machine: names, folders and address ranges, so that two never touch each other.

use std::{env, fmt, net::Ipv4Addr, path::PathBuf, str::FromStr};

/// Everything that all instances keep on the machine lies below this folder.
const STATE: &str = "/var/lib/etcd-operator-testbed";

/// A testbed on this machine. There are several, so that the tests which start, kill and remove a whole cluster do not
/// touch the one that somebody is working with, and so that people with more than one checkout can work in each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Instance {
    /// The cluster of `make cluster-up`.
    #[default]
    Main,
    /// The cluster that the life-cycle tests start and end.
    Spare,
    /// One more, for another checkout.
    Second,
    /// And one more.
    Third,
}

/// The instance's name is not one of the known ones.
#[derive(Debug, thiserror::Error)]
#[error("there is no testbed instance {0:?}: TESTBED_INSTANCE is `main`, `spare`, `second` or `third`")]
pub struct UnknownInstance(String);

impl Instance {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Main, Self::Spare, Self::Second, Self::Third];

    /// The one that `TESTBED_INSTANCE` names; the main one if it names none.
    pub fn chosen() -> Result<Self, UnknownInstance> {
        match env::var("TESTBED_INSTANCE") {
            Ok(name) if !name.is_empty() => name.parse(),
            _ => Ok(Self::default()),
        }
    }

    /// Its folder: state, logs, disks of the nodes.
    #[must_use]
    pub fn dir(self) -> PathBuf {
        PathBuf::from(STATE).join(self.to_string())
    }

    /// The file whose lock is held while the cluster is being started or removed.
    #[must_use]
    pub fn lock_file(self) -> PathBuf {
        PathBuf::from(format!("/run/etcd-operator-testbed-{self}.lock"))
    }

    /// The cgroup below which all its pods run, relative to each hierarchy's root.
    #[must_use]
    pub fn cgroup(self) -> String {
        format!("etcd-operator-testbed-{self}")
    }

    /// Its addresses.
    #[must_use]
    pub fn network(self) -> Network {
        match self {
            Self::Main => Network { index: 0 },
            Self::Spare => Network { index: 1 },
            Self::Second => Network { index: 2 },
            Self::Third => Network { index: 3 },
        }
    }
}

impl fmt::Display for Instance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Main => "main",
            Self::Spare => "spare",
            Self::Second => "second",
            Self::Third => "third",
        })
    }
}

impl FromStr for Instance {
    type Err = UnknownInstance;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        let named = Self::ALL.into_iter().find(|instance| instance.to_string() == name);
        named.ok_or_else(|| UnknownInstance(name.to_owned()))
    }
}

/// The addresses of one instance. The nodes lie outside the pods' range, so that kube-proxy masquerades what this
/// machine sends to a Service and the answer finds its way back.
#[derive(Clone, Copy, Debug)]
pub struct Network {
    index: u8,
}

/// A range of addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Subnet {
    /// The first address.
    pub base: Ipv4Addr,
    /// How many leading bits all its addresses share.
    pub prefix: u8,
}

impl Subnet {
    /// Whether the two ranges share an address.
    #[must_use]
    pub fn overlaps(self, other: Self) -> bool {
        let shared = self.prefix.min(other.prefix);
        let mask = u32::MAX.checked_shl(32 - u32::from(shared)).unwrap_or(0);
        self.base.to_bits() & mask == other.base.to_bits() & mask
    }
}

impl fmt::Display for Subnet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.base, self.prefix)
    }
}

impl Network {
    /// The range of the machines themselves.
    #[must_use]
    pub fn machines(self) -> Subnet {
        Subnet { base: Ipv4Addr::new(10, 240 + self.index, 0, 0), prefix: 24 }
    }

    /// The range of all pods.
    #[must_use]
    pub fn pods(self) -> Subnet {
        Subnet { base: Ipv4Addr::new(10, 244 + self.index, 0, 0), prefix: 16 }
    }

    /// The range of one node's pods.
    #[must_use]
    pub fn pods_of(self, node: u8) -> Subnet {
        Subnet { base: Ipv4Addr::new(10, 244 + self.index, node, 0), prefix: 24 }
    }

    /// The range of Service addresses.
    #[must_use]
    pub fn services(self) -> Subnet {
        Subnet { base: Ipv4Addr::new(10, 96 + self.index, 0, 0), prefix: 16 }
    }

    /// The machine with the control plane and the registry.
    #[must_use]
    pub fn control(self) -> Ipv4Addr {
        Ipv4Addr::new(10, 240 + self.index, 0, 1)
    }

    /// A node.
    #[must_use]
    pub fn node(self, node: u8) -> Ipv4Addr {
        Ipv4Addr::new(10, 240 + self.index, 0, 10 + node)
    }

    /// This machine, as the cluster sees it.
    #[must_use]
    pub fn host(self) -> Ipv4Addr {
        Ipv4Addr::new(10, 240 + self.index, 0, 254)
    }

    /// The Service `kubernetes`.
    #[must_use]
    pub fn api_service(self) -> Ipv4Addr {
        Ipv4Addr::new(10, 96 + self.index, 0, 1)
    }

    /// The Service of the cluster's DNS.
    #[must_use]
    pub fn dns_service(self) -> Ipv4Addr {
        Ipv4Addr::new(10, 96 + self.index, 0, 10)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_overlap_when_one_holds_the_other() {
        let subnet = |text: &str| {
            let (base, prefix) = text.split_once('/').unwrap();
            Subnet { base: base.parse().unwrap(), prefix: prefix.parse().unwrap() }
        };
        for (a, b, expected) in [
            ("10.244.0.0/16", "10.244.3.0/24", true),
            ("10.244.3.0/24", "10.244.0.0/16", true),
            ("10.0.0.0/8", "10.96.0.0/16", true),
            ("0.0.0.0/0", "10.96.0.0/16", true),
            ("10.244.0.0/16", "10.245.0.0/16", false),
            ("192.168.1.7/32", "10.240.0.0/24", false),
        ] {
            assert_eq!(subnet(a).overlaps(subnet(b)), expected, "{a} and {b}");
        }
    }

    #[test]
    fn no_two_instances_share_an_address() {
        let ranges = |i: Instance| [i.network().machines(), i.network().pods(), i.network().services()];
        for one in Instance::ALL {
            for other in Instance::ALL.into_iter().filter(|other| *other != one) {
                for (a, b) in ranges(one).into_iter().flat_map(|a| ranges(other).map(|b| (a, b))) {
                    assert!(!a.overlaps(b), "{a} of {one} and {b} of {other}");
                }
            }
        }
    }

    #[test]
    fn an_instance_is_known_by_its_name() {
        for instance in Instance::ALL {
            assert_eq!(instance.to_string().parse::<Instance>().unwrap(), instance);
        }
        assert!("other".parse::<Instance>().unwrap_err().to_string().contains("`main`, `spare`"));
    }
}
