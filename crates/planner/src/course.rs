//! Where the members of a formed cluster are on their way to the version that the spec asks for: which version is next, and what etcd has
//! to agree on first.

use launch::{EtcdVersion, Minor, newest_known, upgrade_path};

use crate::{
    desired::Desired,
    inputs::Facet,
    membership::{Membership, Seat, pods_of_members},
    observed::SeenPod,
    view::View,
};

/// The lowest minor whose members etcd can bring down by one.
const LOWEST_TO_LEAVE_DOWNWARDS: Minor = Minor::V3_6;

/// The way to the version that the spec asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Course {
    /// Members run this next, or do already.
    To(EtcdVersion),
    /// They run this next, once the cluster as a whole has agreed on the minor that they are at.
    AfterClusterVersion { next: EtcdVersion, at: Minor },
    /// They run this next, and etcd has to let them go down first.
    AfterDowngradeEnabled { next: EtcdVersion },
    /// They run this next, once their data is in the form of that minor.
    AfterStorageVersion { next: EtcdVersion },
    /// It cannot be reached, and this says why and what can be.
    Refused(String),
    /// Nobody tells what the members run.
    Unknown,
}

impl Course {
    pub(crate) fn of(view: &View<'_>, membership: Option<&Membership<'_>>, desired: &Desired) -> Self {
        let running = membership.into_iter().flat_map(Membership::running);
        // Who is on its way to another version has to come as far as the others before they go any further.
        let held = pods_of_members(view, membership)
            .filter(|pod| is_held_by_relaunch(view, pod))
            .filter_map(|pod| last_seen_version(view, &pod.name));
        let told = view.observed.resource.status.current_version.as_deref();
        let lowest = running.chain(held).min().or_else(|| told?.parse().ok());
        let Some(lowest) = lowest else { return Self::Unknown };
        if !desired.is_version_accepted() {
            return Self::To(lowest);
        }
        let to = desired.version;
        match upgrade_path(lowest, to) {
            Ok(path) => match path.first() {
                Some(&next) if next.minor() > lowest.minor() => match membership {
                    Some(membership) if membership.cluster_version() == Some(lowest.minor()) => {
                        Self::To(next)
                    }
                    _ => Self::AfterClusterVersion { next, at: lowest.minor() },
                },
                Some(&next) => Self::To(next),
                None => Self::To(to),
            },
            Err(launch::NoPath::BelowEveryMember { .. }) => down(membership, lowest, to),
            Err(refused) => Self::Refused(refused.to_string()),
        }
    }

    /// The version that members run next, if one is known.
    pub(crate) fn next(&self) -> Option<EtcdVersion> {
        match self {
            Self::To(next)
            | Self::AfterClusterVersion { next, .. }
            | Self::AfterDowngradeEnabled { next }
            | Self::AfterStorageVersion { next } => Some(*next),
            Self::Refused(_) | Self::Unknown => None,
        }
    }

    /// Whether a member that is ordered to run this version may be given the next one while it is down. What etcd has to agree on first, it
    /// has to here as well; within a minor there is nothing to agree on.
    pub(crate) fn is_open_to(&self, ordered: EtcdVersion) -> bool {
        matches!(self, Self::To(_)) || self.next().is_some_and(|next| next.minor() == ordered.minor())
    }

    /// Whether members are on their way to another version or image than they run.
    pub(crate) fn is_under_way(
        &self,
        view: &View<'_>,
        membership: Option<&Membership<'_>>,
        desired: &Desired,
    ) -> bool {
        let Some(next) = self.next() else { return false };
        let running = || membership.into_iter().flat_map(Membership::running);
        let mut pods = pods_of_members(view, membership);
        (desired.is_version_accepted() && next != desired.version)
            || running().any(|version| version != next)
            || pods.any(|pod| needs_relaunch(pod, desired, next) || pod.is_relaunching())
    }
}

/// Down by one minor, as far as etcd's own procedure has come.
fn down(membership: Option<&Membership<'_>>, lowest: EtcdVersion, to: EtcdVersion) -> Course {
    let below = Minor::ALL.into_iter().rev().find(|minor| *minor < lowest.minor());
    let (Some(below), Some(membership)) = (below, membership) else { return Course::Unknown };
    // A stop on the way down is finished before the next begins.
    if membership.running().any(|version| version.minor() > lowest.minor()) {
        return Course::To(lowest);
    }
    if lowest.minor() < LOWEST_TO_LEAVE_DOWNWARDS {
        return Course::Refused(format!(
            "etcd {lowest} cannot go down to {to}: etcd goes down from {LOWEST_TO_LEAVE_DOWNWARDS} on, by one minor at a time; to run an older version, restore a snapshot that was taken with it into another cluster"
        ));
    }
    let next = if to.minor() == below { to } else { newest_known(below) };
    if let Some(bad) = launch::known_bad(next) {
        return Course::Refused(bad.to_string());
    }
    if membership.cluster_version() != Some(lowest.minor()) && membership.downgrade() != Some(below) {
        return Course::AfterClusterVersion { next, at: lowest.minor() };
    }
    if membership.downgrade() != Some(below) {
        return Course::AfterDowngradeEnabled { next };
    }
    let rewritten = |seat: &Seat<'_>| seat.answer.is_some_and(|answer| answer.storage_version == Some(below));
    if membership.voters().all(rewritten) { Course::To(next) } else { Course::AfterStorageVersion { next } }
}

/// Whether a member has to be relaunched to run this version from the image that the spec asks for.
pub(crate) fn needs_relaunch(pod: &SeenPod, desired: &Desired, next: EtcdVersion) -> bool {
    // Without an order it is not known what it runs; one of a later operator is not ours to replace.
    pod.version()
        .is_some_and(|ordered| ordered != next || pod.differences(desired, next).contains(&Facet::Image))
}

/// Whether a member does not run because of what it was last given: its container was ended for another image or version, and it has not
/// been seen to run that.
pub(crate) fn is_held_by_relaunch(view: &View<'_>, pod: &SeenPod) -> bool {
    pod.was_relaunched() && pod.is_down() && (pod.is_relaunching() || was_seen_otherwise(view, pod))
}

/// Whether a member was given another version and has never been seen to run it, though the kubelet has started it: what it was given may be
/// what keeps it from serving, also in the moments in which it runs.
pub(crate) fn is_unproven(view: &View<'_>, pod: &SeenPod) -> bool {
    pod.was_relaunched() && !pod.is_relaunching() && was_seen_otherwise(view, pod)
}

/// Whether a member was last seen to run another version than it is ordered to.
fn was_seen_otherwise(view: &View<'_>, pod: &SeenPod) -> bool {
    last_seen_version(view, &pod.name).is_some_and(|seen| Some(seen) != pod.version())
}

/// The version that a member was last seen to run: a fact that is written down with each round, and outlives this process.
pub(crate) fn last_seen_version(view: &View<'_>, member: &str) -> Option<EtcdVersion> {
    let details = view.observed.resource.status.member_details.as_deref().unwrap_or_default();
    details.iter().find(|details| details.name == member)?.version.as_deref()?.parse().ok()
}
