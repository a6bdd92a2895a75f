//! FOR PROOF: the planner's effects, as a formed cluster's life counts them. Each keeps the real effect beside it.

use std::{collections::HashMap, fmt};

use indexmap::IndexSet;
use launch::{Intent, LaunchOrder, ORDER_ANNOTATION};
use planner::{Basis, Effect, MemberChange};

use super::{
    cast::{Cast, slot_of},
    state::{ListId, Listed, Mark, SlotId, Slots, State},
};
use crate::state::{ScriptId, WriteId};

/// A member list: two bits for each slot for what it is, and one for whether its name is known.
pub(crate) type MemberList = u32;

/// The member list of a state.
pub(crate) fn member_list(state: &State) -> MemberList {
    SlotId::all().fold(0, |list, id| {
        let slot = state.slot(id);
        list | entry(id, slot.listed, slot.has(Mark::Published))
    })
}

fn entry(id: SlotId, listed: Listed, published: bool) -> MemberList {
    let code = match listed {
        Listed::Never | Listed::Removed => return 0,
        Listed::Learner => 1,
        Listed::Voter => 2,
    };
    (code | u32::from(published) << 2) << (3 * id.0)
}

/// What a change of the membership was decided on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Ground {
    pub(crate) through: SlotId,
    pub(crate) list: MemberList,
}

/// What a write does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Change {
    Add {
        slot: SlotId,
        learner: bool,
        on: Ground,
    },
    Promote {
        slot: SlotId,
        on: Ground,
    },
    Remove {
        slot: SlotId,
        on: Ground,
    },
    MoveLeader {
        slot: SlotId,
        on: Ground,
    },
    /// Creates a pod that is told this initial cluster.
    CreatePod {
        slot: SlotId,
        new: bool,
        told: u16,
    },
    DeletePod(SlotId),
    /// Writes a pod's order, guarded by its version or not.
    Order {
        slot: SlotId,
        may_start_empty: bool,
        guarded: bool,
    },
    /// Adds a member for which the world has no name.
    Beyond,
    /// Writes a record of birth.
    Birth,
    /// Writes something that is not part of this world.
    Unknown,
}

impl Change {
    /// What it was decided on, if etcd is to change.
    pub(crate) const fn ground(self) -> Option<Ground> {
        match self {
            Self::Add { on, .. }
            | Self::Promote { on, .. }
            | Self::Remove { on, .. }
            | Self::MoveLeader { on, .. } => Some(on),
            _ => None,
        }
    }

    /// The slots that it means.
    pub(crate) fn named(self) -> u16 {
        match self {
            Self::Add { slot, on, .. }
            | Self::Promote { slot, on }
            | Self::Remove { slot, on }
            | Self::MoveLeader { slot, on } => slot.bit() | on.through.bit() | listed_in(on.list),
            Self::CreatePod { slot, told, .. } => slot.bit() | told,
            Self::DeletePod(slot) | Self::Order { slot, .. } => slot.bit(),
            Self::Beyond | Self::Birth | Self::Unknown => 0,
        }
    }

    /// The pod whose version guards it.
    pub(crate) const fn guard(self) -> Option<SlotId> {
        match self {
            Self::Order { slot, guarded: true, .. } => Some(slot),
            _ => None,
        }
    }

    /// The pod that it writes.
    pub(crate) const fn pod(self) -> Option<SlotId> {
        match self {
            Self::CreatePod { slot, .. } | Self::DeletePod(slot) | Self::Order { slot, .. } => Some(slot),
            _ => None,
        }
    }
}

fn listed_in(list: MemberList) -> u16 {
    SlotId::all().filter(|id| list >> (3 * id.0) & 3 != 0).fold(0, |set, id| set | id.bit())
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Add { slot, learner: true, .. } => write!(f, "add {slot} as a learner"),
            Self::Add { slot, .. } => write!(f, "add {slot} as a voter"),
            Self::Promote { slot, .. } => write!(f, "promote {slot}"),
            Self::Remove { slot, .. } => write!(f, "remove {slot}"),
            Self::MoveLeader { slot, .. } => write!(f, "make {slot} the leader"),
            Self::CreatePod { slot, new: false, .. } => write!(f, "create the pod of {slot}"),
            Self::CreatePod { slot, .. } => write!(f, "create the pod of {slot}, as a new cluster"),
            Self::DeletePod(slot) => write!(f, "delete the pod of {slot}"),
            Self::Order { slot, may_start_empty: false, .. } => {
                write!(f, "withdraw from {slot} the permission to start without data")
            }
            Self::Order { slot, .. } => write!(f, "permit {slot} to start without data"),
            Self::Beyond => write!(f, "add a member too many for this world"),
            Self::Birth => write!(f, "write a record of birth"),
            Self::Unknown => write!(f, "write something that this world does not know"),
        }
    }
}

/// Every write, every list of writes and every older list of pods, once.
#[derive(Default)]
pub(crate) struct Book {
    writes: Vec<(Change, Effect)>,
    by_change: HashMap<Change, Vec<WriteId>>,
    scripts: IndexSet<Vec<WriteId>>,
    lists: IndexSet<Slots>,
}

impl Book {
    pub(crate) fn note(&mut self, change: Change, effect: Effect) -> WriteId {
        let known = self.by_change.entry(change).or_default();
        let same =
            |id: &&WriteId| self.writes.get(usize::from(id.0)).is_some_and(|(_, other)| *other == effect);
        if let Some(id) = known.iter().find(same) {
            return *id;
        }
        let id = WriteId(u16::try_from(self.writes.len()).unwrap_or(u16::MAX));
        self.writes.push((change, effect));
        known.push(id);
        id
    }

    pub(crate) fn script(&mut self, writes: Vec<WriteId>) -> ScriptId {
        let (index, _) = self.scripts.insert_full(writes);
        ScriptId(u32::try_from(index).unwrap_or(u32::MAX))
    }

    pub(crate) fn change(&self, id: WriteId) -> Change {
        self.writes.get(usize::from(id.0)).map_or(Change::Unknown, |(change, _)| *change)
    }

    pub(crate) fn effect(&self, id: WriteId) -> Option<&Effect> {
        self.writes.get(usize::from(id.0)).map(|(_, effect)| effect)
    }

    pub(crate) fn writes_of(&self, script: ScriptId) -> &[WriteId] {
        let index = usize::try_from(script.0).ok();
        index.and_then(|index| self.scripts.get_index(index)).map_or(&[], Vec::as_slice)
    }

    pub(crate) fn list(&mut self, slots: Slots) -> ListId {
        let (index, _) = self.lists.insert_full(slots);
        ListId(u32::try_from(index).unwrap_or(u32::MAX))
    }

    pub(crate) fn list_of(&self, id: ListId) -> Slots {
        let index = usize::try_from(id.0).ok();
        index.and_then(|index| self.lists.get_index(index)).copied().unwrap_or_default()
    }
}

/// What an effect does to the world; nothing where it is about an object that is always as it should be here.
pub(crate) fn change_of(cast: &Cast, effect: &Effect) -> Option<Change> {
    let change = match effect {
        Effect::ChangeMembership { basis, change } => membership(cast, basis, change),
        Effect::CreatePod(pod) => {
            let name = pod.metadata.name.as_deref().unwrap_or_default();
            let annotations = pod.metadata.annotations.as_ref();
            let order =
                annotations.and_then(|all| all.get(ORDER_ANNOTATION)).map(|text| LaunchOrder::read(text));
            let order = order.and_then(Result::ok);
            cast.slot_named(name).zip(order).map(|(slot, order)| Change::CreatePod {
                slot,
                new: order.intent == Intent::NewCluster,
                told: cast.told(&order),
            })
        }
        Effect::DeletePod { name, .. } => cast.slot_named(name).map(Change::DeletePod),
        Effect::PatchPodAnnotation { name, resource_version, value, .. } => {
            let order = LaunchOrder::read(value).ok();
            cast.slot_named(name).zip(order).map(|(slot, order)| Change::Order {
                slot,
                may_start_empty: order.intent.may_start_empty(),
                guarded: !resource_version.is_empty(),
            })
        }
        Effect::ReplaceStatusBirth { .. } => Some(Change::Birth),
        // Here all members run one version: a planner that relaunches one is stopped by `Law::UnknownWrite`.
        Effect::RelaunchPod { .. } => None,
        Effect::CreateService(_)
        | Effect::ApplyService { .. }
        | Effect::CreateBudget(_)
        | Effect::ApplyBudget { .. }
        | Effect::PatchPodMetadata { .. } => return None,
    };
    Some(change.unwrap_or(Change::Unknown))
}

fn membership(cast: &Cast, basis: &Basis, change: &MemberChange) -> Option<Change> {
    let through = cast.slot_named(basis.through.as_str())?;
    let mut list = 0;
    for member in &basis.list.members {
        let listed = if member.learner { Listed::Learner } else { Listed::Voter };
        list |= entry(slot_of(member.id)?, listed, member.name.is_some());
    }
    let on = Ground { through, list };
    Some(match change {
        MemberChange::Add { member, .. } if cast.is_beyond(member) => Change::Beyond,
        MemberChange::Add { member, learner, .. } => {
            Change::Add { slot: cast.slot_named(member.as_str())?, learner: *learner, on }
        }
        MemberChange::Promote { id } => Change::Promote { slot: slot_of(*id)?, on },
        MemberChange::Remove { id } => Change::Remove { slot: slot_of(*id)?, on },
        MemberChange::Downgrade { .. } => return None,
        MemberChange::MoveLeader { to } => Change::MoveLeader { slot: slot_of(*to)?, on },
    })
}
