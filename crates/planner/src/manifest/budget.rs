//! The budget: how many members have to stay when somebody drains nodes.

use api::names;
use k8s_openapi::{
    api::policy::v1::{PodDisruptionBudget, PodDisruptionBudgetSpec},
    apimachinery::pkg::{apis::meta::v1::LabelSelector, util::intstr::IntOrString},
};

use crate::{attempt::Attempt, desired::Desired, manifest, observed::SeenBudget, quorum};

/// The budget for so many voters. The quorum itself as a number: with one or two voters nobody may be evicted at all, and one
/// that joins and is not ready yet neither counts nor is in the way.
#[must_use]
pub fn budget(desired: &Desired, attempt: &Attempt, voters: usize) -> PodDisruptionBudget {
    that_keeps(desired, attempt, quorum(voters))
}

/// The budget while members are restarted one after another: an eviction may be allowed before anybody has noticed that one is down, so
/// all of them have to stay.
#[must_use]
pub fn budget_of_a_roll(desired: &Desired, attempt: &Attempt, voters: usize) -> PodDisruptionBudget {
    that_keeps(desired, attempt, voters)
}

fn that_keeps(desired: &Desired, attempt: &Attempt, members: usize) -> PodDisruptionBudget {
    let selector = LabelSelector {
        match_labels: Some(manifest::attempt_labels(&desired.name, attempt)),
        ..Default::default()
    };
    let name = names::budget(&desired.name);
    PodDisruptionBudget {
        metadata: manifest::metadata(desired, &name, "budget", manifest::labels(&desired.name)),
        spec: Some(PodDisruptionBudgetSpec {
            min_available: i32::try_from(members).ok().map(IntOrString::Int),
            selector: Some(selector),
            // A member that is down may be the one that holds what the others lack: it goes only while the others are enough.
            unhealthy_pod_eviction_policy: Some("IfHealthyBudget".to_owned()),
            ..Default::default()
        }),
        status: None,
    }
}

/// Whether a budget that was seen does what the wanted one should.
pub(crate) fn is_budget_as_wanted(seen: &SeenBudget, wanted: &PodDisruptionBudget) -> bool {
    let SeenBudget::Ours { labels, min_available, selector, unhealthy, .. } = seen else { return false };
    if !manifest::has_labels(labels, &wanted.metadata) {
        return false;
    }
    let wanted = SeenBudget::from_budget(wanted, owner_of(wanted));
    matches!(wanted, SeenBudget::Ours { min_available: m, selector: s, unhealthy: u, .. }
        if m == *min_available && s == *selector && u == *unhealthy)
}

fn owner_of(budget: &PodDisruptionBudget) -> &str {
    let mut owners = budget.metadata.owner_references.iter().flatten();
    owners.next().map_or("", |owner| owner.uid.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    #[test]
    fn so_many_members_have_to_stay_that_they_are_a_quorum() {
        for (voters, stay) in [(1, 1), (2, 2), (3, 2), (4, 3), (5, 3), (6, 4), (7, 4)] {
            let spec = budget(&fixture::desired(), &fixture::attempt(1), voters).spec.unwrap();
            assert_eq!(spec.min_available, Some(IntOrString::Int(stay)), "{voters}");
        }
    }

    #[test]
    fn a_budget_that_was_made_here_is_as_wanted_and_any_other_is_not() {
        let (desired, one, two) = (fixture::desired(), fixture::attempt(1), fixture::attempt(2));
        let all = [budget(&desired, &one, 3), budget(&desired, &one, 5), budget(&desired, &two, 3)];
        for (i, wanted) in all.iter().enumerate() {
            for (j, other) in all.iter().enumerate() {
                let seen = SeenBudget::from_budget(other, &desired.uid);
                assert_eq!(is_budget_as_wanted(&seen, wanted), i == j, "{i} {j}");
            }
        }
        let mut percent = all[0].clone();
        percent.spec.as_mut().unwrap().min_available = Some(IntOrString::String("10%".to_owned()));
        assert!(!is_budget_as_wanted(&SeenBudget::from_budget(&percent, &desired.uid), &all[0]));
        let mut unlabelled = all[0].clone();
        unlabelled.metadata.labels = None;
        assert!(!is_budget_as_wanted(&SeenBudget::from_budget(&unlabelled, &desired.uid), &all[0]));
    }

    #[test]
    fn the_budget_is_as_written_down() {
        fixture::golden("budget", &budget(&fixture::desired(), &fixture::attempt(1), 3));
    }
}
