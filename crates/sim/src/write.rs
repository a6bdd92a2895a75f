//! FOR PROOF: the planner's effects, as the world counts them. Each keeps the real effect beside it, for the safety predicates.

use std::{collections::HashMap, fmt, hash::BuildHasherDefault};

use api::names;
use indexmap::IndexSet;
use k8s_openapi::api::core::v1::Service as RealService;
use launch::{LaunchOrder, ORDER_ANNOTATION};
use planner::Effect;

use crate::{
    cast::{AttemptId, Cast, PodId},
    hash::Quick,
    state::{List, ListId, Reported, Role, ScriptId, WriteId},
};

/// The resourceVersion of everything that is seen. A write that carries it is let through only while the object is unchanged.
pub(crate) const SEEN: &str = "seen";

/// What a write does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Change {
    /// Replaces `status.birth`.
    Birth {
        /// By this attempt.
        attempt: AttemptId,
        /// Whether it is called formed.
        formed: bool,
        /// Whether a resourceVersion guards it.
        guarded: bool,
    },
    /// Begins an attempt for which the world has no room.
    Beyond,
    /// Creates a pod.
    CreatePod(PodId),
    /// Deletes a pod.
    DeletePod(PodId),
    /// Writes a pod's order.
    Order {
        /// The pod.
        pod: PodId,
        /// Whether it may start without data from now on.
        may_start_empty: bool,
        /// Whether a resourceVersion guards it.
        guarded: bool,
    },
    /// Creates a Service.
    CreateService {
        /// Which.
        role: Role,
        /// Whom it selects.
        selects: Option<AttemptId>,
    },
    /// Changes a Service.
    ApplyService {
        /// Which.
        role: Role,
        /// Whom it selects.
        selects: Option<AttemptId>,
        /// Whether a resourceVersion guards it.
        guarded: bool,
    },
    /// Reports the status.
    Report(Reported),
    /// Writes something that is not part of this world.
    Unknown,
}

/// An object that writes are guarded by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Object {
    Resource,
    Service(Role),
    Pod(PodId),
}

impl Change {
    /// The object whose version guards this write.
    pub(crate) fn guard(self) -> Option<Object> {
        match self {
            Self::Birth { guarded: true, .. } | Self::Report(_) => Some(Object::Resource),
            Self::Order { pod, guarded: true, .. } => Some(Object::Pod(pod)),
            Self::ApplyService { role, guarded: true, .. } => Some(Object::Service(role)),
            _ => None,
        }
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let whom = |selects: &Option<AttemptId>| {
            selects.map_or_else(|| "nobody".to_owned(), |attempt| format!("attempt {attempt}"))
        };
        match self {
            Self::Birth { attempt, formed: false, .. } => write!(f, "latch the birth of attempt {attempt}"),
            Self::Birth { attempt, formed: true, .. } => write!(f, "latch attempt {attempt} as formed"),
            Self::Beyond => write!(f, "begin an attempt too many for this world"),
            Self::CreatePod(pod) => write!(f, "create {pod}"),
            Self::DeletePod(pod) => write!(f, "delete {pod}"),
            Self::Order { pod, may_start_empty: false, .. } => {
                write!(f, "withdraw from {pod} the permission to start without data")
            }
            Self::Order { pod, .. } => write!(f, "permit {pod} to start without data"),
            Self::CreateService { role, selects } => {
                write!(f, "create the {role:?} Service, selecting {}", whom(selects))
            }
            Self::ApplyService { role, selects, .. } => {
                write!(f, "make the {role:?} Service select {}", whom(selects))
            }
            Self::Report(reported) => write!(f, "report phase {:?}", reported.phase.as_str()),
            Self::Unknown => write!(f, "write something that this world does not know"),
        }
    }
}

/// A write, with the effect that it came from. A report is none.
#[derive(Clone, Debug)]
pub(crate) struct Write {
    pub(crate) change: Change,
    pub(crate) effect: Option<Effect>,
}

/// Every write and every list of writes that was ever planned, and every list of objects that became old, once.
#[derive(Default)]
pub(crate) struct Book {
    writes: Vec<Write>,
    by_change: HashMap<Change, Vec<WriteId>>,
    scripts: IndexSet<Vec<WriteId>>,
    shorter: HashMap<(ScriptId, usize), Option<ScriptId>, BuildHasherDefault<Quick>>,
    lists: IndexSet<List>,
}

impl Book {
    pub(crate) fn note(&mut self, change: Change, effect: Option<Effect>) -> WriteId {
        let known = self.by_change.entry(change).or_default();
        let same =
            |id: &&WriteId| self.writes.get(usize::from(id.0)).is_some_and(|write| write.effect == effect);
        if let Some(id) = known.iter().find(same) {
            return *id;
        }
        let id = WriteId(u16::try_from(self.writes.len()).unwrap_or(u16::MAX));
        self.writes.push(Write { change, effect });
        known.push(id);
        id
    }

    pub(crate) fn script(&mut self, writes: Vec<WriteId>) -> ScriptId {
        let (index, _) = self.scripts.insert_full(writes);
        ScriptId(u32::try_from(index).unwrap_or(u32::MAX))
    }

    /// A list without the write at this place; nothing if none is left.
    pub(crate) fn without(&mut self, script: ScriptId, place: usize) -> Option<ScriptId> {
        if let Some(known) = self.shorter.get(&(script, place)) {
            return *known;
        }
        let mut left = self.writes_of(script).to_vec();
        left.remove(place);
        let shorter = (!left.is_empty()).then(|| self.script(left));
        self.shorter.insert((script, place), shorter);
        shorter
    }

    pub(crate) fn list(&mut self, list: List) -> ListId {
        let (index, _) = self.lists.insert_full(list);
        ListId(u32::try_from(index).unwrap_or(u32::MAX))
    }

    pub(crate) fn list_of(&self, id: ListId) -> Option<List> {
        usize::try_from(id.0).ok().and_then(|index| self.lists.get_index(index)).copied()
    }

    pub(crate) fn write(&self, id: WriteId) -> Option<&Write> {
        self.writes.get(usize::from(id.0))
    }

    pub(crate) fn change(&self, id: WriteId) -> Change {
        self.write(id).map_or(Change::Unknown, |write| write.change)
    }

    pub(crate) fn writes_of(&self, script: ScriptId) -> &[WriteId] {
        usize::try_from(script.0)
            .ok()
            .and_then(|index| self.scripts.get_index(index))
            .map_or(&[], Vec::as_slice)
    }
}

/// What an effect does to the world.
pub(crate) fn change_of(cast: &Cast, effect: &Effect) -> Change {
    match effect {
        Effect::ReplaceStatusBirth { birth, .. } if cast.is_beyond(&birth.token) => Some(Change::Beyond),
        Effect::ReplaceStatusBirth { resource_version, birth } => {
            cast.attempt_of_token(&birth.token).map(|attempt| Change::Birth {
                attempt,
                formed: birth.formed,
                guarded: guarded(resource_version),
            })
        }
        Effect::CreatePod(pod) => {
            cast.pod_named(pod.metadata.name.as_deref().unwrap_or_default()).map(Change::CreatePod)
        }
        Effect::DeletePod { name, .. } => cast.pod_named(name).map(Change::DeletePod),
        Effect::PatchPodAnnotation { name, resource_version, key, value, .. } => {
            let order = LaunchOrder::read(value).ok().filter(|_| *key == ORDER_ANNOTATION);
            cast.pod_named(name).zip(order).map(|(pod, order)| Change::Order {
                pod,
                may_start_empty: order.intent.may_start_empty(),
                guarded: guarded(resource_version),
            })
        }
        Effect::CreateService(service) => {
            service_of(cast, service).map(|(role, selects)| Change::CreateService { role, selects })
        }
        Effect::ApplyService { resource_version, service, .. } => {
            let guarded = guarded(resource_version);
            service_of(cast, service).map(|(role, selects)| Change::ApplyService { role, selects, guarded })
        }
        // Not part of this world: a planner that does it here is stopped by `Law::UnknownWrite`.
        Effect::CreateBudget(_)
        | Effect::ApplyBudget { .. }
        | Effect::PatchPodMetadata { .. }
        | Effect::RelaunchPod { .. }
        | Effect::ChangeMembership { .. } => None,
    }
    .unwrap_or(Change::Unknown)
}

fn guarded(resource_version: &str) -> bool {
    !resource_version.is_empty()
}

fn service_of(cast: &Cast, service: &RealService) -> Option<(Role, Option<AttemptId>)> {
    let name = service.metadata.name.as_deref()?;
    let role = [Role::Peer, Role::Client].into_iter().find(|role| name == name_of(cast, *role))?;
    let selector =
        service.spec.as_ref().and_then(|spec| spec.selector.as_ref()).filter(|all| !all.is_empty());
    match selector {
        None => Some((role, None)),
        Some(all) => Some((role, Some(cast.attempt_of_label(all.get(names::LABEL_ATTEMPT)?)?))),
    }
}

fn name_of(cast: &Cast, role: Role) -> String {
    match role {
        Role::Peer => names::peer_service(&cast.wanted.name),
        Role::Client => names::client_service(&cast.wanted.name),
    }
}
