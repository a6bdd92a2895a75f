//! FOR PROOF: who appears in the small world: two operators, the attempts that they may begin, and each attempt's three pods.
//!
//! The planner works with real names and tokens; the world counts. This is where the two are translated.

use std::{collections::BTreeMap, fmt};

use api::Birth;
use launch::{ClusterToken, MemberName};
use planner::{Attempt, ClusterId, Desired, MemberId, MemberUser, OperatorIdentity, Problem};

/// How many members the cluster has.
pub const SIZE: u8 = 3;
/// How many attempts there is room for. An attempt ends by a fault, so there is one more than faults.
pub const INCARNATIONS: u8 = 4;
/// How many tokens there are: each operator brings its own to each attempt.
pub const ATTEMPTS: u8 = INCARNATIONS * 2;
/// How many pods there can ever be.
pub const PODS: usize = 24;

const RESOURCE: &str = r#"{"apiVersion": "etcd.database.coreos.com/v1beta2", "kind": "EtcdCluster",
    "metadata": {"name": "example", "namespace": "default", "uid": "uid-1", "resourceVersion": "seen", "generation": 1},
    "spec": {"size": 3}}"#;

/// One of the two operators.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Who {
    /// The one that leads at first.
    A,
    /// The one that may take over.
    B,
}

impl Who {
    /// Both.
    pub const ALL: [Self; 2] = [Self::A, Self::B];

    /// The other one.
    #[must_use]
    pub const fn other(self) -> Self {
        match self {
            Self::A => Self::B,
            Self::B => Self::A,
        }
    }
}

/// An attempt, by its number and by whose token it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AttemptId(u8);

impl AttemptId {
    /// The attempt of this number with this operator's token, if there is room for it.
    #[must_use]
    pub fn new(incarnation: u8, who: Who) -> Option<Self> {
        let place = match who {
            Who::A => 0,
            Who::B => 1,
        };
        (1..=INCARNATIONS).contains(&incarnation).then(|| Self((incarnation - 1) * 2 + place))
    }

    /// All there is room for.
    pub fn all() -> impl Iterator<Item = Self> {
        (0..ATTEMPTS).map(Self)
    }

    /// Its number, from 1.
    #[must_use]
    pub const fn incarnation(self) -> u8 {
        self.0 / 2 + 1
    }

    /// Whose token it has.
    #[must_use]
    pub const fn proposer(self) -> Who {
        if self.0.is_multiple_of(2) { Who::A } else { Who::B }
    }

    /// Its pods.
    pub fn pods(self) -> impl Iterator<Item = PodId> {
        (0..SIZE).map(move |ordinal| PodId(self.0 * SIZE + ordinal))
    }

    pub(crate) const fn bit(self) -> u8 {
        1 << self.0
    }

    pub(crate) fn cluster_id(self) -> ClusterId {
        ClusterId(0xc0 + u64::from(self.0))
    }
}

impl fmt::Display for AttemptId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{:?}", self.incarnation(), self.proposer())
    }
}

/// A pod, which is a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PodId(u8);

impl PodId {
    /// All there is room for.
    pub fn all() -> impl Iterator<Item = Self> {
        (0..ATTEMPTS * SIZE).map(Self)
    }

    /// Its attempt.
    #[must_use]
    pub const fn attempt(self) -> AttemptId {
        AttemptId(self.0 / SIZE)
    }

    pub(crate) fn index(self) -> usize {
        usize::from(self.0)
    }

    pub(crate) const fn bit(self) -> u32 {
        1 << self.0
    }

    pub(crate) fn member_id(self) -> MemberId {
        MemberId(u64::from(self.0) + 1)
    }
}

impl fmt::Display for PodId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "pod {}-{}", self.attempt(), self.0 % SIZE)
    }
}

/// Why the world cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum CastError {
    /// The resource is not one.
    #[error("the world's resource cannot be read: {0}")]
    Resource(#[from] serde_json::Error),
    /// The resource is not valid.
    #[error("the world's resource is refused: {0}")]
    Refused(String),
    /// A name or a token is not one.
    #[error("the world has a bad name: {0}")]
    Name(#[from] launch::InvalidMember),
}

/// The translation between the world's numbers and the planner's names.
pub(crate) struct Cast {
    pub(crate) desired: Result<Desired, Vec<Problem>>,
    pub(crate) wanted: Desired,
    attempts: Vec<(AttemptId, Attempt)>,
    members: Vec<(PodId, MemberName)>,
    urls: Vec<String>,
    by_name: BTreeMap<String, PodId>,
    by_token: BTreeMap<String, AttemptId>,
    by_label: BTreeMap<String, AttemptId>,
    beyond: ClusterToken,
    fresh_names: [MemberName; 2],
    room: u8,
}

impl Cast {
    pub(crate) fn new(room: u8) -> Result<Self, CastError> {
        let resource: api::EtcdCluster = serde_json::from_str(RESOURCE)?;
        let operator = OperatorIdentity {
            launcher_image: "registry.example/etcd-operator:1".to_owned(),
            member_user: MemberUser::default(),
        };
        let wanted = Desired::from_resource(&resource, &operator).map_err(|problems| {
            CastError::Refused(problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))
        })?;
        let mut attempts = Vec::new();
        let mut members = Vec::new();
        for id in AttemptId::all() {
            let token: ClusterToken = format!("t-{id}").parse()?;
            let attempt = Attempt { incarnation: i64::from(id.incarnation()), token };
            members.extend(id.pods().zip(wanted.founders(&attempt)));
            attempts.push((id, attempt));
        }
        let url = |(_, name): &(PodId, MemberName)| wanted.peer_url(name).map(String::from);
        Ok(Self {
            urls: members.iter().map(url).collect::<Result<_, _>>()?,
            by_name: members.iter().map(|(id, name)| (name.to_string(), *id)).collect(),
            by_token: attempts.iter().map(|(id, attempt)| (attempt.token.to_string(), *id)).collect(),
            by_label: attempts.iter().flat_map(|(id, attempt)| labels(*id, attempt)).collect(),
            beyond: "beyond".parse()?,
            fresh_names: ["example-ffffffffaa".parse()?, "example-ffffffffbb".parse()?],
            room: room.min(INCARNATIONS),
            desired: Ok(wanted.clone()),
            wanted,
            attempts,
            members,
        })
    }

    pub(crate) fn attempt(&self, id: AttemptId) -> Option<&Attempt> {
        self.attempts.iter().find(|(other, _)| *other == id).map(|(_, attempt)| attempt)
    }

    pub(crate) fn member(&self, id: PodId) -> Option<&MemberName> {
        self.members.get(id.index()).map(|(_, name)| name)
    }

    pub(crate) fn name(&self, id: PodId) -> String {
        self.member(id).map(ToString::to_string).unwrap_or_default()
    }

    pub(crate) fn pod_named(&self, name: &str) -> Option<PodId> {
        self.by_name.get(name).copied()
    }

    pub(crate) fn attempt_of_token(&self, token: &str) -> Option<AttemptId> {
        self.by_token.get(token).copied()
    }

    pub(crate) fn attempt_of_label(&self, label: &str) -> Option<AttemptId> {
        self.by_label.get(label).copied()
    }

    /// The token that this operator would begin the next attempt with.
    pub(crate) fn fresh_token(&self, next: u8, who: Who) -> ClusterToken {
        let attempt = AttemptId::new(next, who).filter(|_| next <= self.room).and_then(|id| self.attempt(id));
        attempt.map_or_else(|| self.beyond.clone(), |attempt| attempt.token.clone())
    }

    /// The name that this operator would give a new member. Nobody is added in this world.
    pub(crate) fn fresh_name(&self, who: Who) -> MemberName {
        let [a, b] = &self.fresh_names;
        match who {
            Who::A => a.clone(),
            Who::B => b.clone(),
        }
    }

    /// Where the others reach a member.
    pub(crate) fn peer_url(&self, id: PodId) -> Option<String> {
        self.urls.get(id.index()).cloned()
    }

    /// Whether this is the token for which there is no room.
    pub(crate) fn is_beyond(&self, token: &str) -> bool {
        self.beyond.as_str() == token
    }

    /// A record of birth in the API's words.
    pub(crate) fn birth(&self, id: AttemptId, formed: bool) -> Birth {
        Birth {
            incarnation: i64::from(id.incarnation()),
            token: self.attempt(id).map(|attempt| attempt.token.to_string()).unwrap_or_default(),
            cluster_id: formed.then(|| id.cluster_id().to_string()),
            formed,
        }
    }
}

/// The labels with an attempt's token. A broken planner may count wrongly, and its pods and Services are still of that token.
fn labels(id: AttemptId, attempt: &Attempt) -> impl Iterator<Item = (String, AttemptId)> {
    (1..=INCARNATIONS).map(move |number| {
        let attempt = Attempt { incarnation: i64::from(number), ..attempt.clone() };
        (attempt.label(), id)
    })
}

/// The UID of a pod. A name is used once, so it says which.
pub(crate) fn uid_of(name: &str) -> String {
    format!("uid-of-{name}")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_pod_has_a_name_of_its_own_and_is_known_by_it() {
        let cast = Cast::new(INCARNATIONS).unwrap();
        let names: BTreeSet<String> = PodId::all().map(|id| cast.name(id)).collect();
        assert_eq!(names.len(), PODS);
        assert!(PodId::all().all(|id| cast.pod_named(&cast.name(id)) == Some(id)));
        for id in AttemptId::all() {
            assert_eq!(AttemptId::new(id.incarnation(), id.proposer()), Some(id));
            assert_eq!(cast.attempt_of_label(&cast.attempt(id).unwrap().label()), Some(id));
            assert_eq!(cast.attempt_of_token(&cast.birth(id, true).token), Some(id));
            assert!(id.pods().all(|pod| pod.attempt() == id));
        }
    }

    #[test]
    fn a_token_beyond_the_room_is_told_from_all_others() {
        let cast = Cast::new(2).unwrap();
        assert!(!cast.is_beyond(cast.fresh_token(2, Who::B).as_str()));
        assert!(cast.is_beyond(cast.fresh_token(3, Who::A).as_str()));
    }
}
