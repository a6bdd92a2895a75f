//! FOR PROOF: the names and versions behind the numbers of a roll, and what is wanted at each version.

use api::Birth;
use launch::{EtcdVersion, MemberName, Minor};
use planner::{Attempt, ClusterId, Desired, MemberId, MemberUser, OperatorIdentity, Problem};

use super::Roll;
use crate::cast::CastError;

/// The names, and what is wanted.
pub(crate) struct Cast {
    pub(crate) attempt: Attempt,
    pub(crate) names: Vec<MemberName>,
    pub(crate) urls: Vec<String>,
    /// The name for a member that would be added.
    pub(crate) fresh: MemberName,
    pub(crate) versions: Vec<EtcdVersion>,
    /// By version, and whether it is paused.
    wanted: Vec<[Result<Desired, Vec<Problem>>; 2]>,
    first: Desired,
}

impl Cast {
    pub(crate) fn new(world: &Roll) -> Result<Self, CastError> {
        let attempt = Attempt { incarnation: 1, token: "t-1".parse()? };
        let (mut wanted, mut versions) = (Vec::new(), Vec::new());
        for version in world.versions {
            let running = desired(world, version, false)?;
            versions.push(running.version);
            wanted.push([Ok(running), Ok(desired(world, version, true)?)]);
        }
        let from = world.versions.get(usize::from(world.from)).copied().unwrap_or_default();
        let first = desired(world, from, false)?;
        let names = attempt.members(&first.name, usize::from(world.members));
        let mut urls = Vec::new();
        for name in &names {
            urls.push(first.peer_url(name)?.to_string());
        }
        Ok(Self { attempt, names, urls, fresh: "example-fresh00000".parse()?, versions, wanted, first })
    }

    pub(crate) fn wanted(&self, version: u8, paused: bool) -> Option<&Result<Desired, Vec<Problem>>> {
        self.wanted.get(usize::from(version))?.get(usize::from(paused))
    }

    /// What was wanted at the beginning.
    pub(crate) fn first(&self) -> &Desired {
        &self.first
    }

    pub(crate) fn birth(&self) -> Birth {
        let (incarnation, token) = (self.attempt.incarnation, self.attempt.token.to_string());
        Birth { incarnation, token, cluster_id: Some(cluster_id().to_string()), formed: true }
    }

    pub(crate) fn members(&self) -> impl Iterator<Item = (u8, &MemberName)> {
        (0..).zip(&self.names)
    }

    pub(crate) fn slot_named(&self, name: &str) -> Option<u8> {
        self.members().find(|(_, member)| member.as_str() == name).map(|(index, _)| index)
    }

    pub(crate) fn version(&self, number: u8) -> EtcdVersion {
        self.versions.get(usize::from(number)).copied().unwrap_or(self.first.version)
    }

    pub(crate) fn minor(&self, number: u8) -> Minor {
        self.version(number).minor()
    }

    pub(crate) fn number(&self, holds: impl Fn(EtcdVersion) -> bool) -> Option<u8> {
        (0..).zip(&self.versions).find(|(_, version)| holds(**version)).map(|(number, _)| number)
    }
}

pub(crate) fn member_id(index: u8) -> MemberId {
    MemberId(u64::from(index) + 1)
}

pub(crate) fn slot_of(id: MemberId) -> Option<u8> {
    u8::try_from(id.0.checked_sub(1)?).ok()
}

pub(crate) fn cluster_id() -> ClusterId {
    ClusterId(0xc1)
}

fn desired(world: &Roll, version: &str, paused: bool) -> Result<Desired, CastError> {
    let resource: api::EtcdCluster = serde_json::from_value(serde_json::json!({
        "apiVersion": "etcd.database.coreos.com/v1beta2", "kind": "EtcdCluster",
        "metadata": {"name": "example", "namespace": "default", "uid": "uid-1", "resourceVersion": "seen", "generation": 1},
        "spec": {"size": world.members, "version": version, "paused": paused},
    }))?;
    let operator = OperatorIdentity {
        launcher_image: "registry.example/etcd-operator:1".to_owned(),
        member_user: MemberUser::default(),
    };
    Desired::from_resource(&resource, &operator).map_err(|problems| {
        CastError::Refused(problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))
    })
}
