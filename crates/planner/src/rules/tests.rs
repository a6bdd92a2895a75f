//! What holds of every plan: many worlds, good and odd, and the same questions to each.

use std::time::Duration;

use crate::{
    ClusterId, Effect, MemberChange, OrderSeen, PodPhase, RefusalClass, RefusedObject, SeenService, Step,
    fixture::{World, attempt, birth, container, desired_of, waiting},
    observed::ContainerState,
    safety::{self, Facts, MadePod, MemberFact},
};

type Change = fn(&mut World);

/// Things that happen to a cluster, each possible beside each other.
const HAPPENINGS: &[Change] = &[
    |w| w.observed.pods.truncate(2),
    |w| w.observed.pods.clear(),
    |w| w.observed.members.clear(),
    |w| w.observed.pods.iter_mut().take(1).for_each(|pod| pod.deleting = true),
    |w| w.observed.pods.iter_mut().take(1).for_each(|pod| pod.phase = PodPhase::Failed),
    |w| w.observed.pods.iter_mut().for_each(|pod| pod.order = OrderSeen::Unreadable),
    |w| w.observed.pods.iter_mut().for_each(|pod| pod.attempt = None),
    |w| w.observed.pods.iter_mut().for_each(|pod| pod.owner_uid = None),
    |w| {
        w.observed
            .pods
            .iter_mut()
            .for_each(|pod| pod.containers = vec![container(waiting("ErrImagePull", ""))]);
    },
    |w| w.observed.pods.iter_mut().for_each(|pod| pod.containers = vec![container(ContainerState::Unknown)]),
    |w| w.add_pod(&attempt(0), &attempt(0).member("example", 0).unwrap()),
    |w| w.observed.peer_service = SeenService::Missing,
    |w| w.observed.client_service = SeenService::Squatted("nobody".to_owned()),
    |w| w.observed.client_service = SeenService::Unknown("timeout".to_owned()),
    |w| w.observed.resource.deleting = true,
    |w| w.observed.resource.status.birth = None,
    |w| w.observed.resource.status.phase = None,
    |w| w.observed.resource.name = "NOT A NAME".to_owned(),
    |w| w.observed.birth_known_for = Duration::ZERO,
    |w| w.unlist(2),
    |w| w.list(9, None, "http://elsewhere:2380", false),
    |w| w.list(9, None, "http://example-newnewnew1.example.default.svc:2380", true),
    |w| w.change_answer(0, |answer| answer.cluster_id = ClusterId(1)),
    |w| w.change_answer(0, |answer| answer.members.clear()),
    |w| w.change_answer(1, |answer| answer.linearizable = false),
    |w| w.change_answer(1, |answer| answer.revision += 1),
    |w| w.change_answer(1, |answer| answer.members.truncate(1)),
    |w| w.desired = desired_of(r#"{"size": 1}"#),
    |w| w.desired = desired_of(r#"{"size": 7, "version": "3.4.45"}"#),
    |w| w.desired = desired_of(r#"{"size": 99}"#),
    |w| w.desired = desired_of(r#"{"size": 3, "paused": true}"#),
    |w| w.desired = desired_of(r#"{"size": 3, "bootstrap": "Seed"}"#),
    |w| {
        let name = w.name(2).to_string();
        let (class, at) = (RefusalClass::Quota, "2026-01-01T00:00:00Z".parse().unwrap());
        w.observed.refusals.push(RefusedObject { kind: "Pod", name, class, message: String::new(), at });
    },
];

fn worlds() -> Vec<World> {
    let starts: [fn() -> World; 5] = [
        || World::new(r#"{"size": 3}"#),
        World::forming,
        World::up,
        World::formed,
        || {
            let mut world = World::forming();
            world.born(birth(i64::MAX));
            world
        },
    ];
    let mut worlds = Vec::new();
    for start in starts {
        for (at, first) in HAPPENINGS.iter().enumerate() {
            for second in &HAPPENINGS[at..] {
                let mut world = start();
                first(&mut world);
                second(&mut world);
                worlds.push(world);
            }
        }
    }
    worlds
}

/// The world as it is, which is as it was seen: every pod there is was made once.
fn facts(world: &World) -> Facts {
    let mut facts = Facts {
        uid: world.observed.resource.uid.clone(),
        birth: world.observed.resource.birth().cloned(),
        ..Facts::default()
    };
    let desired = crate::fixture::desired();
    for pod in world.observed.own_pods() {
        let member = pod.name.parse().unwrap();
        let made = [0, 1]
            .map(attempt)
            .into_iter()
            .find(|attempt| desired.founders(attempt).contains(&member))
            .unwrap();
        let object = crate::manifest::pod(&desired, &made, &member).unwrap();
        let served =
            world.observed.answer(&pod.name).filter(|a| a.linearizable).map(|answer| answer.cluster_id);
        let told = world.observed.answer(&pod.name).is_some_and(crate::Answer::holds_data);
        let written = told;
        let (uid, started) = (pod.uid.clone(), true);
        let made = MadePod { uid, started, served, written, told, ..MadePod::from_pod(&object) };
        facts.made.insert(pod.name.clone(), made);
    }
    let list = crate::view::View::of(&world.observed).member_list().map(|list| list.members.clone());
    facts.members = list
        .into_iter()
        .flatten()
        .map(|listed| MemberFact {
            id: listed.id,
            name: listed.name.clone().unwrap_or_default(),
            learner: listed.learner,
            started: listed.name.is_some(),
            caught_up: true,
        })
        .collect();
    facts
}

/// What the facts are after an effect.
fn after_effect(facts: &mut Facts, effect: &Effect) {
    match effect {
        Effect::ReplaceStatusBirth { birth, .. } => facts.birth = Some(birth.clone()),
        Effect::CreatePod(pod) => {
            facts.made.insert(pod.metadata.name.clone().unwrap(), MadePod::from_pod(pod));
        }
        Effect::ChangeMembership { change: MemberChange::Add { member, .. }, .. } => {
            facts.added.insert(member.to_string());
        }
        _ => {}
    }
}

#[test]
fn at_most_one_step_is_risky_and_harmless_ones_come_first() {
    for world in worlds() {
        let plan = world.plan();
        let risky: Vec<usize> =
            plan.steps.iter().enumerate().filter(|(_, step)| step.is_risky()).map(|(at, _)| at).collect();
        assert!(risky.len() <= 1, "{:?}", plan.steps);
        if let Some(at) = risky.first() {
            let (before, after) = plan.steps.split_at(*at);
            assert!(
                after[1..].iter().all(|_| after[0].name() == "LatchBirth"),
                "only a birth has consequences"
            );
            assert!(before.iter().all(Step::is_ensure));
        }
    }
}

#[test]
fn no_effect_of_any_plan_breaks_an_invariant() {
    let mut effects = 0;
    for world in worlds() {
        let Ok(desired) = &world.desired else { continue };
        let mut facts = facts(&world);
        for step in world.plan().steps {
            for effect in step.lower(desired) {
                effects += 1;
                let broken = safety::check(&facts, &effect);
                assert_eq!(broken, [], "{} by {}\n{:#?}", effect.name(), step.name(), world.observed);
                after_effect(&mut facts, &effect);
            }
        }
    }
    assert!(effects > 1000, "{effects}");
}

#[test]
fn whoever_does_nothing_says_why() {
    for world in worlds() {
        let plan = world.plan();
        let well = world.observed.resource.birth().is_some_and(|birth| birth.formed);
        assert!(!plan.steps.is_empty() || !plan.waiting.is_empty() || well, "{:#?}", world.observed);
    }
}

#[test]
fn the_same_world_has_the_same_plan() {
    for world in worlds().iter().step_by(7) {
        assert_eq!(world.plan(), world.plan());
    }
}
