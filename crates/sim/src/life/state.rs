//! FOR PROOF: one state of a formed cluster's life: members, pods and disks in one slot each, and two operators.

use std::fmt;

use crate::{
    cast::Who,
    state::{Data, ScriptId, Stage, WriteId},
};

/// With how many members a `Parallel` cluster begins.
pub(crate) const FOUNDERS: u8 = 3;
/// How many names there are. A name that nobody has or means any more stands for a fresh one again.
pub(crate) const NAMES: u8 = 8;
/// All slots: the names, and somebody's member that has no pod of ours.
pub(crate) const SLOTS: usize = 9;

/// A member's name, and everything that goes by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct SlotId(pub(crate) u8);

impl SlotId {
    /// The slot of the member that a stranger adds.
    pub(crate) const STRANGER: Self = Self(NAMES);

    pub(crate) fn all() -> impl Iterator<Item = Self> {
        (0..=NAMES).map(Self)
    }

    /// Those that can have a pod.
    pub(crate) fn named() -> impl Iterator<Item = Self> {
        (0..NAMES).map(Self)
    }

    pub(crate) const fn is_founder(self) -> bool {
        self.0 < FOUNDERS
    }

    pub(crate) fn index(self) -> usize {
        usize::from(self.0)
    }

    pub(crate) const fn bit(self) -> u16 {
        1 << self.0
    }
}

impl fmt::Display for SlotId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Self::STRANGER {
            write!(f, "the stranger's member")
        } else {
            write!(f, "member {}", self.0)
        }
    }
}

/// What a member is to etcd.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Listed {
    #[default]
    Never,
    Learner,
    Voter,
    /// Its ID was removed, and never comes back.
    Removed,
}

/// A yes-or-no fact of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mark {
    /// The pod has a deletion timestamp.
    Deleting,
    /// The pod's node is lost.
    NodeLost,
    /// The permission to start without data was withdrawn.
    Withdrawn,
    /// etcd has once written its log.
    Started,
    /// The member has told the others its name.
    Published,
    /// Its disk holds every write that was acknowledged.
    Current,
    /// It once had all that the leader had: what etcd asks before it promotes.
    Caught,
    /// Its container was once started.
    Ran,
}

/// A member with its pod and its disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Slot {
    pub(crate) stage: Stage,
    pub(crate) data: Data,
    pub(crate) listed: Listed,
    pub(crate) marks: u8,
    /// Whom it was told as its initial cluster, until its first start.
    pub(crate) told: u16,
}

impl Slot {
    pub(crate) const fn has(self, mark: Mark) -> bool {
        self.marks & (1 << mark as u8) != 0
    }

    pub(crate) const fn with(mut self, mark: Mark) -> Self {
        self.marks |= 1 << mark as u8;
        self
    }

    pub(crate) const fn without(mut self, mark: Mark) -> Self {
        self.marks &= !(1 << mark as u8);
        self
    }

    pub(crate) const fn pod_exists(self) -> bool {
        !matches!(self.stage, Stage::Unmade | Stage::Gone)
    }

    pub(crate) const fn is_listed(self) -> bool {
        matches!(self.listed, Listed::Learner | Listed::Voter)
    }

    pub(crate) fn is_voter(self) -> bool {
        self.listed == Listed::Voter
    }

    /// Whether etcd runs, belongs to the cluster and can be reached.
    pub(crate) fn is_up(self) -> bool {
        self.stage == Stage::Up && !self.has(Mark::NodeLost) && self.is_listed()
    }

    /// Whether its data is there, so that it can come back without anybody's doing.
    pub(crate) fn may_return(self) -> bool {
        let runs = matches!(self.stage, Stage::Up | Stage::Down);
        runs && self.data == Data::Log && !self.has(Mark::Deleting)
    }

    /// The slot when the pod is gone.
    pub(crate) fn pod_gone(self) -> Self {
        let kept = [Mark::Started, Mark::Published, Mark::Caught];
        let gone = Self { stage: Stage::Gone, listed: self.listed, ..Self::default() };
        kept.into_iter().filter(|mark| self.has(*mark)).fold(gone, Self::with)
    }
}

/// Whether an operator's last change was refused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) enum Refused {
    #[default]
    No,
    JustNow,
    LongAgo,
}

impl Refused {
    /// The same after a long time.
    pub(crate) const fn aged(self) -> Self {
        match self {
            Self::No => Self::No,
            Self::JustNow | Self::LongAgo => Self::LongAgo,
        }
    }
}

/// What an operator process remembers between rounds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Memory {
    /// Who has been silent for long.
    pub(crate) silent: u16,
    /// Who has come no further for long.
    pub(crate) stalled: u16,
    /// The names that it has added, and made no pod for.
    pub(crate) unmade: u16,
    /// Whether etcd has refused the last change.
    pub(crate) refused: Refused,
    /// Whether the API server has refused the pods of those names.
    pub(crate) no_room: Refused,
}

/// A list of pods that is kept in the model's book.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ListId(pub(crate) u32);

/// Where an operator is in its round.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) enum Round {
    #[default]
    Idle,
    /// It has listed the pods and asked nobody yet; which were written since.
    Listing { list: ListId, touched: u16 },
    /// It has planned, and sends one write after another; whether each one's object was written since, and whether a fault has hit
    /// anybody since: then what a write does is no decision any more.
    Acting { script: ScriptId, outdated: u8, disturbed: bool },
}

/// A write whose answer was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Flying {
    pub(crate) write: WriteId,
    /// Whether its object was written since it was seen.
    pub(crate) outdated: bool,
    /// Whether a fault has hit anybody since it was planned.
    pub(crate) disturbed: bool,
}

/// An operator process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Operator {
    pub(crate) memory: Memory,
    pub(crate) round: Round,
    pub(crate) flying: Option<Flying>,
}

/// All slots of one moment.
pub(crate) type Slots = [Slot; SLOTS];

/// One state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct State {
    /// How many members are wanted.
    pub(crate) size: u8,
    /// Whether the spec says that nothing is to be done.
    pub(crate) paused: bool,
    /// `status.size`.
    pub(crate) reported: u8,
    /// etcd's leader.
    pub(crate) leader: Option<SlotId>,
    /// The operator that leads.
    pub(crate) lead: Who,
    pub(crate) a: Operator,
    pub(crate) b: Operator,
    pub(crate) slots: Slots,
}

impl State {
    /// A cluster that has just formed with so many members, all of which hold a write that was acknowledged.
    pub(crate) fn formed(members: u8, size: u8) -> Self {
        let mut slots = Slots::default();
        let marks = [Mark::Started, Mark::Published, Mark::Current, Mark::Caught, Mark::Ran];
        let member = Slot { stage: Stage::Up, data: Data::Log, listed: Listed::Voter, ..Slot::default() };
        for slot in slots.iter_mut().take(usize::from(members)) {
            *slot = marks.into_iter().fold(member, Slot::with);
        }
        let (a, b) = (Operator::default(), Operator::default());
        Self { size, paused: false, reported: members, leader: Some(SlotId(0)), lead: Who::A, a, b, slots }
    }

    pub(crate) fn slot(&self, id: SlotId) -> Slot {
        self.slots.get(id.index()).copied().unwrap_or_default()
    }

    pub(crate) fn set(&mut self, id: SlotId, slot: Slot) {
        if let Some(place) = self.slots.get_mut(id.index()) {
            *place = slot;
        }
    }

    pub(crate) const fn operator(&self, who: Who) -> &Operator {
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

    /// The slots of which this holds, as a set.
    pub(crate) fn set_of(&self, holds: impl Fn(Slot) -> bool) -> u16 {
        SlotId::all().filter(|id| holds(self.slot(*id))).fold(0, |set, id| set | id.bit())
    }

    pub(crate) fn count(&self, holds: impl Fn(Slot) -> bool) -> usize {
        self.slots.iter().filter(|slot| holds(**slot)).count()
    }

    pub(crate) fn voters(&self) -> usize {
        self.count(Slot::is_voter)
    }

    /// The voters that run.
    pub(crate) fn active(&self) -> usize {
        self.count(|slot| slot.is_up() && slot.is_voter())
    }

    /// Whether a quorum of the voters runs: then etcd has a leader, and serves.
    pub(crate) fn has_quorum(&self) -> bool {
        self.active() > self.voters() / 2
    }
}
