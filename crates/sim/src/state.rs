//! FOR PROOF: one state of the small world, as small as it can be: everything here is compared and kept a million times over.
//!
//! Resource versions are not counted. What matters of them is whether an object was written since an operator looked, so every
//! planned write carries that one bit.

use std::hash::{Hash, Hasher};

use crate::cast::{AttemptId, PODS, PodId, Who};

/// Whether the resource is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Presence {
    /// It is.
    Present,
    /// It is being deleted, and waits for what it owns (foreground deletion).
    Deleting,
    /// It is gone.
    Gone,
}

/// `status.birth`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BirthRecord {
    /// The attempt.
    pub attempt: AttemptId,
    /// Whether it is latched as formed.
    pub formed: bool,
}

/// What is kept of the reported status: only what a planner reads again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Reported {
    /// `status.phase`.
    pub phase: api::Phase,
    /// `status.size`.
    pub size: Option<u8>,
}

/// The resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Resource {
    /// Whether it is there.
    pub presence: Presence,
    /// Its record of birth.
    pub birth: Option<BirthRecord>,
    /// What was reported last.
    pub reported: Reported,
}

/// Where a pod is in its life.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Stage {
    /// It was never made.
    #[default]
    Unmade,
    /// It is made, and nothing has run.
    Pending,
    /// etcd runs.
    Up,
    /// The container has ended and will be started again.
    Down,
    /// The launcher does not start etcd.
    Refused,
    /// The kubelet has ended the pod.
    Failed,
    /// It was deleted.
    Gone,
}

/// What lies on a pod's two volumes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Data {
    /// Nothing yet.
    #[default]
    Fresh,
    /// The launcher's seals; etcd has written nothing.
    Sealed,
    /// The seals and etcd's log.
    Log,
    /// The data directory was lost; the marker is there.
    DataLost,
    /// Both were lost.
    AllLost,
}

/// A yes-or-no fact of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// It has a deletion timestamp.
    Deleting,
    /// Its node is lost: nothing moves, nobody answers.
    NodeLost,
    /// Its permission to start without data was withdrawn.
    Withdrawn,
    /// It was once part of a quorum of its attempt.
    Served,
    /// etcd has once written its log.
    Started,
    /// Its container was once started.
    Ran,
    /// It holds what a client wrote before the cluster had formed.
    Written,
}

/// A pod.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Pod {
    /// Where it is in its life.
    pub stage: Stage,
    /// What lies on its volumes.
    pub data: Data,
    /// How often its container was restarted; more than two counts as two.
    pub restarts: u8,
    pub(crate) marks: u8,
}

impl Pod {
    /// All of it in one number.
    fn packed(self) -> u64 {
        u64::from(self.marks)
            | u64::from(self.restarts) << 8
            | (self.data as u64) << 10
            | (self.stage as u64) << 13
    }

    /// Whether this holds.
    #[must_use]
    pub const fn has(self, mark: Mark) -> bool {
        self.marks & (1 << mark as u8) != 0
    }

    /// The same pod, with this.
    #[must_use]
    pub const fn with(mut self, mark: Mark) -> Self {
        self.marks |= 1 << mark as u8;
        self
    }

    /// The same pod, without this.
    #[must_use]
    pub const fn without(mut self, mark: Mark) -> Self {
        self.marks &= !(1 << mark as u8);
        self
    }

    /// Whether the API server has it.
    #[must_use]
    pub const fn exists(self) -> bool {
        !matches!(self.stage, Stage::Unmade | Stage::Gone)
    }

    /// Whether etcd runs in it and can be reached.
    #[must_use]
    pub const fn is_up(self) -> bool {
        matches!(self.stage, Stage::Up) && !self.has(Mark::NodeLost)
    }

    /// What is left of it when it is gone: that its name was used, and what it did.
    #[must_use]
    pub const fn gone(self) -> Self {
        let kept = (1 << Mark::Served as u8) | (1 << Mark::Started as u8);
        Self { stage: Stage::Gone, data: Data::Fresh, restarts: 0, marks: self.marks & kept }
    }
}

/// Pods are most of a state, and states are hashed ten million times: four pods are one word.
impl Hash for Pod {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        hasher.write_u64(self.packed());
    }

    fn hash_slice<H: Hasher>(pods: &[Self], hasher: &mut H) {
        for four in pods.chunks(4) {
            hasher.write_u64(four.iter().fold(0, |word, pod| word << 16 | pod.packed()));
        }
    }
}

/// A Service.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Service {
    /// There is none.
    #[default]
    Missing,
    /// It selects the pods of an attempt, or nobody.
    Selects(Option<AttemptId>),
}

/// Which Service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// The one that gives members their names.
    Peer,
    /// The one for clients.
    Client,
}

/// What an operator process remembers between rounds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Memory {
    /// The record of birth that it saw last.
    pub birth: Option<BirthRecord>,
    /// Whether that was long ago.
    pub birth_aged: bool,
    /// The pods whose creation was refused, as a set.
    pub refused: u32,
    /// Whether that was long ago.
    pub refused_aged: bool,
    /// The members that did not answer, as a set.
    pub silent: u32,
    /// Whether that was long ago.
    pub silent_aged: bool,
}

/// A list of writes that is kept in the model's book.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ScriptId(pub(crate) u32);

/// A list of pods and Services that is kept in the model's book.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ListId(pub(crate) u32);

/// A write that is kept in the model's book.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct WriteId(pub(crate) u16);

/// Where an operator is in its round.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Round {
    /// Between rounds.
    #[default]
    Idle,
    /// It has read the resource, and nothing else yet.
    Read {
        /// What it read.
        seen: Resource,
        /// Whether the resource was written since.
        outdated: bool,
    },
    /// It has listed pods and Services, and read nothing else yet.
    Listed {
        /// What it found.
        list: ListId,
        /// The pods that were written since, as a set.
        pods: u32,
        /// Whether the Services were written since, the members' one first.
        services: [bool; 2],
    },
    /// It has planned, and sends one write after another.
    Acting {
        /// What is left to send.
        script: ScriptId,
        /// For each write, whether its object was written since it was seen.
        outdated: u16,
    },
}

/// A write whose answer was lost: it may still happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Flying {
    /// The write.
    pub write: WriteId,
    /// Whether its object was written since it was seen.
    pub outdated: bool,
}

/// An operator process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Operator {
    /// What it remembers.
    pub memory: Memory,
    /// Where it is.
    pub round: Round,
    /// What of it is under way without its knowledge.
    pub flying: Option<Flying>,
}

/// The pods and Services of one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct List {
    pub(crate) peer: Service,
    pub(crate) client: Service,
    pods: [Pod; PODS],
}

impl List {
    pub(crate) fn pod(&self, id: PodId) -> Pod {
        self.pods.get(id.index()).copied().unwrap_or_default()
    }

    /// Whether a quorum of an attempt's members was up: then etcd had a leader, and served.
    pub(crate) fn has_quorum(&self, attempt: AttemptId) -> bool {
        has_quorum(&self.pods, attempt)
    }

    /// The pods that existed.
    pub(crate) fn existing(&self) -> impl Iterator<Item = PodId> {
        PodId::all().filter(|id| self.pod(*id).exists())
    }
}

fn has_quorum(pods: &[Pod; PODS], attempt: AttemptId) -> bool {
    attempt.pods().filter(|id| pods.get(id.index()).is_some_and(|pod| pod.is_up())).count() >= 2
}

/// One state of the world.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct State {
    /// The resource.
    pub resource: Resource,
    /// The Service that gives members their names.
    pub peer: Service,
    /// The Service for clients.
    pub client: Service,
    /// The cluster in which a client's write was acknowledged.
    pub acknowledged: Option<AttemptId>,
    /// Who leads.
    pub leader: Who,
    /// The first operator.
    pub a: Operator,
    /// The second operator.
    pub b: Operator,
    /// All attempts that were ever latched, as a set.
    pub latched: u8,
    /// All attempts to which a client ever wrote before they had formed, as a set.
    pub written: u8,
    pods: [Pod; PODS],
}

impl State {
    /// A resource that was just created, and nothing else.
    #[must_use]
    pub fn new() -> Self {
        Self {
            resource: Resource {
                presence: Presence::Present,
                birth: None,
                reported: Reported { phase: api::Phase::None, size: None },
            },
            peer: Service::Missing,
            client: Service::Missing,
            acknowledged: None,
            leader: Who::A,
            a: Operator::default(),
            b: Operator::default(),
            latched: 0,
            written: 0,
            pods: [Pod::default(); PODS],
        }
    }

    /// A pod.
    #[must_use]
    pub fn pod(&self, id: PodId) -> Pod {
        self.pods.get(id.index()).copied().unwrap_or_default()
    }

    pub(crate) const fn pods(&self) -> [Pod; PODS] {
        self.pods
    }

    /// What an operator finds that lists pods and Services now.
    pub(crate) const fn list(&self) -> List {
        List { peer: self.peer, client: self.client, pods: self.pods }
    }

    pub(crate) fn set_pod(&mut self, id: PodId, pod: Pod) {
        if let Some(place) = self.pods.get_mut(id.index()) {
            *place = pod;
        }
    }

    /// An operator.
    #[must_use]
    pub const fn operator(&self, who: Who) -> &Operator {
        match who {
            Who::A => &self.a,
            Who::B => &self.b,
        }
    }

    pub(crate) const fn operator_mut(&mut self, who: Who) -> &mut Operator {
        match who {
            Who::A => &mut self.a,
            Who::B => &mut self.b,
        }
    }

    /// A Service.
    #[must_use]
    pub const fn service(&self, role: Role) -> Service {
        match role {
            Role::Peer => self.peer,
            Role::Client => self.client,
        }
    }

    pub(crate) const fn set_service(&mut self, role: Role, service: Service) {
        match role {
            Role::Peer => self.peer = service,
            Role::Client => self.client = service,
        }
    }

    /// Whether a quorum of an attempt's members is up: then etcd has a leader, and serves.
    #[must_use]
    pub fn has_quorum(&self, attempt: AttemptId) -> bool {
        has_quorum(&self.pods, attempt)
    }

    /// Whether this attempt has a pod that holds what a client wrote before the cluster had formed.
    #[must_use]
    pub fn holds_writes(&self, attempt: AttemptId) -> bool {
        attempt.pods().any(|id| self.pod(id).exists() && self.pod(id).has(Mark::Written))
    }

    /// The pods that exist.
    pub fn existing(&self) -> impl Iterator<Item = PodId> {
        PodId::all().filter(|id| self.pod(*id).exists())
    }

    /// Whether a pod is of the attempt that counts.
    #[must_use]
    pub fn counts(&self, id: PodId) -> bool {
        self.resource.birth.is_some_and(|birth| birth.attempt == id.attempt())
    }
}

impl Default for State {
    fn default() -> Self {
        Self::new()
    }
}
