//! FOR PROOF: one state of a cluster whose members are brought to another version.

use crate::state::{ScriptId, WriteId};

/// With how many members a cluster begins at the most.
pub(crate) const SLOTS: usize = 3;

/// What a member's container does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) enum Stage {
    /// etcd runs.
    #[default]
    Up,
    /// It was killed, and comes back by itself.
    Killed,
    /// It was ended for another image.
    Ended,
    /// That image cannot be pulled.
    PullFails,
    /// It was started with it, and etcd ended at once: it is below what the cluster has agreed on.
    Refused,
}

/// A member. Versions are numbers into the world's list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Slot {
    pub(crate) stage: Stage,
    /// What its pod's order and image say.
    pub(crate) ordered: u8,
    /// What ran last.
    pub(crate) ran: u8,
    /// Whether it runs and has not caught up with the others yet.
    pub(crate) behind: bool,
    /// Whether it was ever relaunched.
    pub(crate) relaunched: bool,
    /// Whether the container that is there is still the one that was to be gone.
    pub(crate) same_container: bool,
    /// What it was last seen to run, as it was written down.
    pub(crate) told: Option<u8>,
}

impl Slot {
    pub(crate) fn is_up(self) -> bool {
        self.stage == Stage::Up
    }

    /// Whether it serves as the others do.
    pub(crate) fn is_well(self) -> bool {
        self.is_up() && !self.behind
    }
}

/// Where the operator is in its round.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) enum Round {
    #[default]
    Idle,
    /// It has planned, and sends one write after another.
    Acting { script: ScriptId, doubt: Doubt },
}

/// What has happened since a write was planned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Doubt {
    /// The members whose pods were written since.
    pub(crate) written: u8,
    /// Whether a fault has hit anybody since: then what a write does is no decision any more.
    pub(crate) disturbed: bool,
    /// Whether the spec asks for something else since: whoever decides now decides on another member.
    pub(crate) edited: bool,
    /// Whether nobody waits for it any more.
    pub(crate) late: bool,
}

impl Doubt {
    /// Whether nobody decided on what it meets.
    pub(crate) const fn excuses(self) -> bool {
        self.disturbed || (self.late && self.edited)
    }
}

/// One state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct State {
    /// What the spec asks for.
    pub(crate) spec: u8,
    pub(crate) paused: bool,
    /// What the cluster has agreed on.
    pub(crate) agreed: u8,
    /// In the form of which version its data is.
    pub(crate) stored: u8,
    /// To what etcd lets it go down.
    pub(crate) allowed: Option<u8>,
    pub(crate) leader: Option<u8>,
    /// `status.currentVersion`.
    pub(crate) current: u8,
    pub(crate) slots: [Slot; SLOTS],
    pub(crate) round: Round,
    /// A write whose answer was lost.
    pub(crate) flying: Option<(WriteId, Doubt)>,
}

impl State {
    pub(crate) fn slot(&self, index: u8) -> Slot {
        self.slots.get(usize::from(index)).copied().unwrap_or_default()
    }

    pub(crate) fn set(&mut self, index: u8, slot: Slot) {
        if let Some(place) = self.slots.get_mut(usize::from(index)) {
            *place = slot;
        }
    }

    /// The same without the operator: what there is to see.
    pub(crate) const fn seen(mut self) -> Self {
        (self.round, self.flying) = (Round::Idle, None);
        self
    }

    /// The spec asks for another version.
    pub(crate) const fn edit(mut self, version: u8) -> Self {
        self.spec = version;
        if let Round::Acting { doubt, .. } = &mut self.round {
            doubt.edited = true;
        }
        if let Some((_, doubt)) = &mut self.flying {
            doubt.edited = true;
        }
        self
    }

    /// Something is not any more as it was when writes were planned.
    pub(crate) const fn doubt(&mut self, written: Option<u8>, disturbed: bool) {
        let bit = match written {
            Some(index) => 1 << index,
            None => 0,
        };
        if let Round::Acting { doubt, .. } = &mut self.round {
            doubt.written |= bit;
            doubt.disturbed |= disturbed;
        }
        if let Some((_, doubt)) = &mut self.flying {
            doubt.written |= bit;
            doubt.disturbed |= disturbed;
        }
    }
}
