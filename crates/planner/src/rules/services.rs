//! Both Services exist, and select the members of the attempt that counts; without them no attempt begins. The client Service selects
//! nobody until the cluster has formed. A Service of somebody else's is named and left alone.

use api::Reason;
use k8s_openapi::api::core::v1::Service;

use super::{Decision, Flow, Situation, after};
use crate::{
    Waiting, manifest,
    observed::SeenService,
    status::FRESH,
    step::{SeenObject, Step},
};

/// What there is to do about a Service.
enum Need {
    Nothing,
    /// And what to say meanwhile.
    Write(Option<SeenObject>, Option<Waiting>),
    Wait(Waiting),
}

pub(super) fn ask(situation: &Situation<'_>, decision: &mut Decision) -> Flow {
    let (desired, view, observed) = (situation.desired, &situation.view, situation.observed);
    let Some(attempt) = decision.begins().or_else(|| view.attempt.clone()) else { return Flow::Next };
    let formed = Some(attempt.clone()).filter(|_| view.is_formed());
    let peer = need(situation, &observed.peer_service, &manifest::peer_service(desired, &attempt));
    let client =
        need(situation, &observed.client_service, &manifest::client_service(desired, formed.as_ref()));
    let mut steps = Vec::new();
    let mut blocked = false;
    let mut take = |need, step: &dyn Fn(Option<SeenObject>) -> Step| match need {
        Need::Nothing => {}
        Need::Write(seen, disputed) => {
            decision.wait(disputed);
            steps.push(step(seen));
        }
        Need::Wait(waiting) => {
            decision.wait(waiting);
            blocked = true;
        }
    };
    take(peer, &|seen| Step::EnsurePeerService { attempt: attempt.clone(), seen });
    take(client, &|seen| Step::EnsureClientService { formed: formed.clone(), seen });
    if decision.begins().is_none() {
        decision.ensures.extend(steps);
    } else if blocked {
        decision.act.clear();
        decision.events.clear();
    } else if view.birth.is_none() {
        // Before the record: a Service that is refused then costs no attempt.
        decision.ensures.extend(steps);
    } else {
        // After the record: were that refused, the members that are there would have lost their names for nothing.
        decision.act.splice(1..1, steps);
    }
    Flow::Next
}

fn need(situation: &Situation<'_>, seen: &SeenService, wanted: &Service) -> Need {
    let now = situation.observed.now;
    let name = wanted.metadata.name.clone().unwrap_or_default();
    let kind = || "Service".to_owned();
    let looked_at_again = |waiting: Waiting| Need::Wait(waiting.until(after(now, FRESH)));
    let found = match seen {
        SeenService::Unknown(message) => {
            let message = message.clone();
            return looked_at_again(Waiting::passing(Reason::ApiUnavailable { message }));
        }
        SeenService::Squatted(owner) => {
            let owner = owner.clone();
            return looked_at_again(Waiting::blocked(Reason::NameTaken { kind: kind(), name, owner }));
        }
        // It will be missing soon; what is written to it now goes with it.
        SeenService::Ours { deleting: true, .. } => return Need::Nothing,
        SeenService::Ours { .. } if manifest::is_as_wanted(seen, wanted) => return Need::Nothing,
        SeenService::Ours { uid, resource_version, .. } => {
            Some(SeenObject { uid: uid.clone(), resource_version: resource_version.clone() })
        }
        SeenService::Missing => None,
    };
    let disputed = situation.disputed("Service", &name);
    situation.too_soon("Service", &name).map_or(Need::Write(found, disputed), Need::Wait)
}

#[cfg(test)]
mod tests {
    use crate::{
        Effect, RefusalClass, RefusedObject, SeenService, Step,
        fixture::{World, attempt, birth, desired},
        manifest,
    };

    fn selector(effect: &Effect) -> Option<String> {
        let (Effect::CreateService(service) | Effect::ApplyService { service, .. }) = effect else {
            return None;
        };
        let selector = service.spec.clone().unwrap().selector.unwrap_or_default();
        Some(selector.get(api::names::LABEL_ATTEMPT).cloned().unwrap_or_default())
    }

    fn selectors(world: &World) -> Vec<(&'static str, String)> {
        let plan = world.plan();
        let effects: Vec<Effect> = plan.steps.iter().flat_map(|step| step.lower(&desired())).collect();
        effects.iter().filter_map(|effect| Some((effect.name(), selector(effect)?))).collect()
    }

    #[test]
    fn clients_are_let_in_when_the_cluster_has_formed_and_not_before() {
        let mut world = World::up();
        world.observed.client_service = SeenService::Missing;
        assert_eq!(selectors(&world), [("CreateService", String::new())]);
        let forming = World::up().observed.client_service;
        let mut world = World::formed();
        world.observed.client_service = forming;
        assert_eq!(selectors(&world), [("ApplyService", attempt(1).label())]);
    }

    #[test]
    fn a_service_that_someone_deleted_or_changed_is_put_right() {
        for mut world in [World::forming(), World::formed()] {
            world.observed.peer_service = SeenService::Missing;
            assert_eq!(selectors(&world), [("CreateService", attempt(1).label())]);
        }
    }

    #[test]
    fn members_of_the_next_attempt_have_the_names_before_they_exist() {
        let mut world = World::forming();
        world.observed.pods.clear();
        let next = crate::Attempt { incarnation: 2, token: "fresh".parse().unwrap() };
        assert_eq!(selectors(&world), [("ApplyService", next.label())]);
        assert_eq!(world.steps(), ["LatchBirth", "EnsurePeerService", "CreateMembers"]);
    }

    #[test]
    fn no_attempt_begins_without_its_services() {
        let squatted = SeenService::Squatted("Deployment web".to_owned());
        let unknown = SeenService::Unknown("timeout".to_owned());
        for (service, word) in [(squatted, "NameTaken"), (unknown, "ApiUnavailable")] {
            for which in 0..2 {
                let mut world = World::new(r#"{"size": 3}"#);
                let place = if which == 0 {
                    &mut world.observed.peer_service
                } else {
                    &mut world.observed.client_service
                };
                *place = service.clone();
                assert_eq!((world.steps(), world.waits()), (vec![], vec![word]));
                assert!(world.plan().wake_at.is_some());
            }
        }
        let mut refused = World::new(r#"{"size": 3}"#);
        let at = "2026-01-01T00:09:59Z".parse().unwrap();
        let (name, message, class) = ("example-client".to_owned(), "full".to_owned(), RefusalClass::Quota);
        refused.observed.refusals.push(RefusedObject { kind: "Service", name, class, message, at });
        assert_eq!((refused.steps(), refused.waits()), (vec![], vec!["QuotaExceeded"]));
    }

    #[test]
    fn a_running_cluster_goes_on_beside_a_squatted_service() {
        let mut world = World::up();
        world.observed.client_service = SeenService::Squatted("nobody".to_owned());
        assert!(world.steps().contains(&"LatchFormed"));
        assert_eq!(world.waits()[0], "NameTaken");
    }

    #[test]
    fn services_of_another_attempt_are_brought_to_this_one() {
        let mut world = World::forming();
        let old = manifest::peer_service(&desired(), &attempt(1));
        world.observed.pods.clear();
        world.born(birth(2));
        world.observed.peer_service = SeenService::from_service(&old, "uid-1");
        for name in attempt(2).members("example", 3) {
            world.add_pod(&attempt(2), &name);
        }
        let plan = world.plan();
        assert!(
            matches!(plan.steps.as_slice(), [Step::EnsurePeerService { seen: Some(_), .. }]),
            "{:?}",
            plan.steps
        );
    }
}
