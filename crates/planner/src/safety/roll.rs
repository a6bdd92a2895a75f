//! SAFETY of members that are restarted to run another version or image.

use std::collections::{BTreeMap, BTreeSet};

use launch::{EtcdVersion, LaunchOrder, Minor, ORDER_ANNOTATION};

use super::{Facts, MemberFact, Violation, grants};
use crate::{effect::Basis, id::MemberId, quorum};

/// What the members of a cluster run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Running {
    /// The members that serve, with the version that each runs.
    pub serving: BTreeMap<MemberId, EtcdVersion>,
    /// The members that were restarted for another version or image, and have not served since.
    pub resting: BTreeSet<MemberId>,
    /// Who leads.
    pub leader: Option<MemberId>,
    /// The minor that the cluster has agreed on.
    pub agreed: Option<Minor>,
}

/// The invariants that a relaunch of this member would break.
pub(super) fn check(
    facts: &Facts,
    name: &str,
    basis: Option<&Basis>,
    annotations: &BTreeMap<String, String>,
) -> Vec<Violation> {
    let order = annotations.get(ORDER_ANNOTATION);
    let to = order.and_then(|order| LaunchOrder::read(order).ok()).map(|order| order.version);
    let voters: Vec<&MemberFact> = facts.members.iter().filter(|member| !member.learner).collect();
    let id = facts.members.iter().find(|member| member.name == name).map(|member| member.id);
    let healthy = |basis: &Basis| {
        let others = basis.healthy.iter().filter(|healthy| Some(**healthy) != id);
        others.filter(|healthy| voters.iter().any(|voter| voter.id == **healthy)).count()
    };
    // Up to two voters, nobody can be done without: that is announced, and the data is kept.
    let risked = voters.len() > 2 && basis.is_some_and(|basis| healthy(basis) < quorum(voters.len()));
    let running = &facts.running;
    let serves = id.is_some_and(|id| running.serving.contains_key(&id));
    let another = serves && running.resting.iter().any(|other| Some(*other) != id);
    let (skipped, below) = match (to.map(EtcdVersion::minor), running.agreed) {
        (Some(to), Some(agreed)) => (to > agreed && Some(to) != agreed.next(), to < agreed),
        _ => (false, false),
    };
    let rows = [
        (order.is_some_and(|order| grants(order)), Violation::EmptyStartGranted),
        (risked, Violation::RestedWithoutQuorum),
        (another, Violation::SecondAtRest),
        (is_leader_first(facts, &voters, id, to), Violation::LeaderRested),
        (skipped, Violation::MinorSkipped),
        (below, Violation::BelowClusterVersion),
    ];
    rows.into_iter().filter(|(broken, _)| *broken).map(|(_, violation)| violation).collect()
}

/// Whether this is the leader, and another voter that runs the new version already could lead in its place.
fn is_leader_first(
    facts: &Facts,
    voters: &[&MemberFact],
    id: Option<MemberId>,
    to: Option<EtcdVersion>,
) -> bool {
    let running = &facts.running;
    let moves = running.serving.values().all(|version| version.minor().moves_leader());
    let rolled = |voter: &&&MemberFact| {
        Some(voter.id) != id && to.is_some() && running.serving.get(&voter.id).copied() == to
    };
    id.is_some() && id == running.leader && moves && voters.iter().any(|voter| rolled(&voter))
}
