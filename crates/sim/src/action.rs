//! FOR PROOF: what can happen in the world, as values that can be counted and told.

use std::fmt;

use crate::{
    cast::{AttemptId, PodId, Who},
    state::Role,
    write::Change,
};

/// What kind of thing happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// The course of things: it goes on happening when nothing goes wrong any more.
    Course,
    /// A fault: paths are ordered by how many of them they have.
    Fault,
    /// Somebody's decision, or luck: it costs nothing, and nobody may rely on it.
    Chance,
}

/// Something that happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// An operator reads the resource, and everything else only later.
    ReadResource(Who),
    /// An operator lists pods and Services, and everything else only later.
    ListObjects(Who),
    /// An operator looks at everything, and plans.
    Observe(Who),
    /// The same, without an answer from any member.
    ObserveBlind(Who),
    /// An operator sends a write, and it lands.
    Send(Who, Change),
    /// An operator sends a write whose precondition does not hold any more.
    Conflict(Who, Change),
    /// The API server refuses a creation.
    Refuse(Who, PodId),
    /// An operator sends a write and never hears of it again.
    LoseAnswer(Who, Change),
    /// A write whose answer was lost lands after all.
    Land(Who, Change),
    /// A write whose answer was lost never lands.
    Vanish(Who, Change),
    /// An operator process ends, and starts again without memory.
    Crash(Who),
    /// The other operator leads from now on.
    TakeOver(Who),
    /// Much time passes for an operator.
    TimePasses(Who),
    /// A container is started.
    Start(PodId),
    /// A pod that is being deleted goes.
    Finish(PodId),
    /// A container is killed.
    Kill(PodId),
    /// The data directory is lost.
    LoseData(PodId),
    /// The data directory and the marker are lost.
    LoseVolumes(PodId),
    /// The kubelet evicts a pod.
    Evict(PodId),
    /// Somebody deletes a pod.
    DeletePod(PodId),
    /// A pod's node is lost.
    LoseNode(PodId),
    /// The node comes back.
    NodeReturns(PodId),
    /// The node is removed from the cluster, and its pods with it.
    ForgetNode(PodId),
    /// A client that no Service of ours led there writes to the members of this attempt, which has not formed.
    ClientWrites(AttemptId),
    /// Somebody deletes a Service.
    DeleteService(Role),
    /// The resource is deleted in the background: it is gone at once.
    DeleteResource,
    /// The resource is deleted in the foreground: it goes after all that it owns.
    DeleteInForeground,
    /// The garbage collector deletes what the resource owns.
    Collect,
    /// Nothing is left of what the resource owned, so it goes.
    ResourceGoes,
}

impl Action {
    /// What kind of thing it is.
    #[must_use]
    pub const fn kind(self) -> Kind {
        match self {
            Self::Observe(_)
            | Self::Send(..)
            | Self::Conflict(..)
            | Self::Land(..)
            | Self::Vanish(..)
            | Self::TimePasses(_)
            | Self::Start(_)
            | Self::Finish(_)
            | Self::Collect
            | Self::ResourceGoes => Kind::Course,
            Self::ReadResource(_)
            | Self::ListObjects(_)
            | Self::ObserveBlind(_)
            | Self::Refuse(..)
            | Self::LoseAnswer(..)
            | Self::Crash(_)
            | Self::TakeOver(_)
            | Self::Kill(_)
            | Self::LoseData(_)
            | Self::LoseVolumes(_)
            | Self::Evict(_)
            | Self::DeletePod(_)
            | Self::LoseNode(_)
            | Self::DeleteService(_) => Kind::Fault,
            Self::NodeReturns(_)
            | Self::ForgetNode(_)
            | Self::ClientWrites(_)
            | Self::DeleteResource
            | Self::DeleteInForeground => Kind::Chance,
        }
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ReadResource(who) => {
                write!(f, "operator {who:?} reads the resource, and is slow to read the rest")
            }
            Self::ListObjects(who) => {
                write!(f, "operator {who:?} lists pods and Services, and is slow to read the rest")
            }
            Self::Observe(who) => write!(f, "operator {who:?} looks and plans"),
            Self::ObserveBlind(who) => write!(f, "operator {who:?} looks, reaches no member, and plans"),
            Self::Send(who, change) => write!(f, "operator {who:?}: {change}"),
            Self::Conflict(who, change) => write!(f, "operator {who:?} fails to {change}"),
            Self::Refuse(who, pod) => write!(f, "a quota refuses operator {who:?} to create {pod}"),
            Self::LoseAnswer(who, change) => {
                write!(f, "operator {who:?} asks to {change}, and the answer is lost")
            }
            Self::Land(who, change) => write!(f, "what operator {who:?} asked for lands late: {change}"),
            Self::Vanish(who, change) => write!(f, "what operator {who:?} asked for never happens: {change}"),
            Self::Crash(who) => write!(f, "operator {who:?} crashes and starts again"),
            Self::TakeOver(who) => write!(f, "operator {who:?} takes over"),
            Self::TimePasses(who) => write!(f, "time passes for operator {who:?}"),
            Self::Start(pod) => write!(f, "the container of {pod} starts"),
            Self::Finish(pod) => write!(f, "{pod} is gone"),
            Self::Kill(pod) => write!(f, "the container of {pod} is killed"),
            Self::LoseData(pod) => write!(f, "{pod} loses its data directory"),
            Self::LoseVolumes(pod) => write!(f, "{pod} loses its data directory and its marker"),
            Self::Evict(pod) => write!(f, "{pod} is evicted"),
            Self::DeletePod(pod) => write!(f, "somebody deletes {pod}"),
            Self::LoseNode(pod) => write!(f, "the node of {pod} is lost"),
            Self::NodeReturns(pod) => write!(f, "the node of {pod} comes back"),
            Self::ForgetNode(pod) => write!(f, "the node of {pod} is removed, and the pod with it"),
            Self::ClientWrites(attempt) => {
                write!(f, "a client writes to attempt {attempt}, which has not formed")
            }
            Self::DeleteService(role) => write!(f, "somebody deletes the {role:?} Service"),
            Self::DeleteResource => write!(f, "the resource is deleted"),
            Self::DeleteInForeground => write!(f, "the resource is deleted in the foreground"),
            Self::Collect => write!(f, "the garbage collector deletes what the resource owned"),
            Self::ResourceGoes => write!(f, "the resource is gone"),
        }
    }
}
