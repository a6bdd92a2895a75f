//! FOR PROOF: the names behind the slots of a formed cluster, and what is wanted of it at each size.

use std::collections::BTreeMap;

use api::Birth;
use launch::{LaunchOrder, MemberName};
use planner::{Attempt, ClusterId, Desired, MemberId, MemberUser, OperatorIdentity, Problem};

use super::state::{FOUNDERS, NAMES, SlotId};
use crate::cast::CastError;

/// The sizes that a spec may ask for here.
pub(crate) const SIZES: [u8; 4] = [1, 2, 3, 5];

/// The names, and what is wanted.
pub(crate) struct Cast {
    pub(crate) attempt: Attempt,
    pub(crate) label: String,
    wanted: BTreeMap<u8, Result<Desired, Vec<Problem>>>,
    first: Desired,
    names: Vec<MemberName>,
    urls: Vec<String>,
    by_name: BTreeMap<String, SlotId>,
    beyond: MemberName,
    pub(crate) learners: bool,
}

/// The last version without learners.
const WITHOUT_LEARNERS: &str = "3.3.27";

impl Cast {
    pub(crate) fn new(bootstrap: &str, learners: bool) -> Result<Self, CastError> {
        let version = if learners { api::defaults::VERSION } else { WITHOUT_LEARNERS };
        let attempt = Attempt { incarnation: 1, token: "t-1".parse()? };
        let mut wanted = BTreeMap::new();
        for size in SIZES {
            wanted.insert(size, Ok(desired(size, bootstrap, version)?));
        }
        let first = desired(FOUNDERS, bootstrap, version)?;
        let mut names = attempt.members(&first.name, usize::from(FOUNDERS));
        for n in FOUNDERS..NAMES {
            names.push(format!("example-joiner{n:04}").parse()?);
        }
        let mut urls = Vec::new();
        for name in &names {
            urls.push(first.peer_url(name)?.to_string());
        }
        urls.push("http://stranger.example:2380".to_owned());
        let by_name = SlotId::named().zip(&names).map(|(id, name)| (name.to_string(), id)).collect();
        let label = attempt.label();
        Ok(Self {
            attempt,
            label,
            wanted,
            first,
            names,
            urls,
            by_name,
            beyond: "example-beyond0000".parse()?,
            learners,
        })
    }

    pub(crate) fn wanted(&self, size: u8) -> Option<&Result<Desired, Vec<Problem>>> {
        self.wanted.get(&size)
    }

    pub(crate) fn first(&self) -> &Desired {
        &self.first
    }

    pub(crate) fn birth(&self) -> Birth {
        let (incarnation, token) = (self.attempt.incarnation, self.attempt.token.to_string());
        Birth { incarnation, token, cluster_id: Some(cluster_id().to_string()), formed: true }
    }

    pub(crate) fn member(&self, id: SlotId) -> Option<&MemberName> {
        self.names.get(id.index())
    }

    pub(crate) fn name(&self, id: SlotId) -> String {
        self.member(id).map_or_else(|| "stranger".to_owned(), ToString::to_string)
    }

    pub(crate) fn url(&self, id: SlotId) -> String {
        self.urls.get(id.index()).cloned().unwrap_or_default()
    }

    pub(crate) fn slot_named(&self, name: &str) -> Option<SlotId> {
        self.by_name.get(name).copied()
    }

    /// The name that stands for one there is no room for.
    pub(crate) fn beyond(&self) -> MemberName {
        self.beyond.clone()
    }

    pub(crate) fn is_beyond(&self, name: &MemberName) -> bool {
        *name == self.beyond
    }

    /// The slots in an order's initial cluster.
    pub(crate) fn told(&self, order: &LaunchOrder) -> u16 {
        let lists = order.argv.iter().filter_map(|flag| flag.strip_prefix("--initial-cluster="));
        let urls: Vec<&str> =
            lists.flat_map(|list| list.split(',')).filter_map(|e| Some(e.split_once('=')?.1)).collect();
        SlotId::all().filter(|id| urls.contains(&self.url(*id).as_str())).fold(0, |set, id| set | id.bit())
    }

    /// Writes these members into an order.
    pub(crate) fn tell(&self, order: &mut LaunchOrder, told: u16) {
        let members = SlotId::all().filter(|id| told & id.bit() != 0);
        let list: Vec<String> = members.map(|id| format!("{}={}", self.name(id), self.url(id))).collect();
        for flag in order.argv.iter_mut().filter(|flag| flag.starts_with("--initial-cluster=")) {
            *flag = format!("--initial-cluster={}", list.join(","));
        }
    }
}

pub(crate) fn member_id(id: SlotId) -> MemberId {
    MemberId(u64::from(id.0) + 1)
}

pub(crate) fn slot_of(id: MemberId) -> Option<SlotId> {
    SlotId::all().find(|slot| member_id(*slot) == id)
}

pub(crate) fn cluster_id() -> ClusterId {
    ClusterId(0xc1)
}

fn desired(size: u8, bootstrap: &str, version: &str) -> Result<Desired, CastError> {
    let resource: api::EtcdCluster = serde_json::from_value(serde_json::json!({
        "apiVersion": "etcd.database.coreos.com/v1beta2", "kind": "EtcdCluster",
        "metadata": {"name": "example", "namespace": "default", "uid": "uid-1", "resourceVersion": "seen", "generation": 1},
        "spec": {"size": size, "bootstrap": bootstrap, "version": version},
    }))?;
    let operator = OperatorIdentity {
        launcher_image: "registry.example/etcd-operator:1".to_owned(),
        member_user: MemberUser::default(),
    };
    Desired::from_resource(&resource, &operator).map_err(|problems| {
        CastError::Refused(problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))
    })
}
