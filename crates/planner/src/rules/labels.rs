//! A pod that has lost the labels by which it is found gets them back: without them it has no DNS name, no traffic and no budget.

use std::collections::BTreeMap;

use super::{Decision, Flow, Situation};
use crate::{
    manifest,
    step::{SeenObject, Step},
};

pub(super) fn ask(situation: &Situation<'_>, decision: &mut Decision) -> Flow {
    let view = &situation.view;
    let Some(attempt) = &view.attempt else { return Flow::Next };
    for pod in view.current().filter(|pod| !pod.deleting) {
        let wanted = manifest::member_labels(&situation.desired.name, attempt, &pod.name);
        let labels: BTreeMap<String, String> =
            wanted.into_iter().filter(|(key, value)| pod.labels.get(key) != Some(value)).collect();
        if !labels.is_empty() {
            let seen = SeenObject { uid: pod.uid.clone(), resource_version: pod.resource_version.clone() };
            decision.ensures.push(Step::RestoreLabels { pod: pod.name.clone(), seen, labels });
        }
    }
    Flow::Next
}

#[cfg(test)]
mod tests {
    use crate::{Effect, fixture::World};

    #[test]
    fn labels_that_somebody_changed_or_took_away_come_back_and_others_are_left_alone() {
        let mut world = World::formed();
        world.pod(0).labels.insert("theirs".to_owned(), "1".to_owned());
        assert_eq!(world.steps(), [""; 0]);
        world.pod(1).labels.remove("etcd_cluster");
        world.pod(1).labels.insert("etcd_attempt".to_owned(), "9-x".to_owned());
        let plan = world.plan();
        let effects: Vec<Effect> =
            plan.steps.iter().flat_map(|step| step.lower(&crate::fixture::desired())).collect();
        let [Effect::PatchPodLabels { labels, .. }] = effects.as_slice() else { panic!("{effects:?}") };
        assert_eq!(labels.keys().collect::<Vec<_>>(), ["etcd_attempt", "etcd_cluster"]);
    }
}
