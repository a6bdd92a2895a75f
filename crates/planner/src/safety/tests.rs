//! Each invariant is broken once, and kept once.

use super::*;
use crate::{
    fixture::{World, attempt, birth, desired},
    manifest,
};

fn pod(of: &Attempt, ordinal: usize) -> Pod {
    let desired = desired();
    manifest::pod(&desired, of, &desired.members(of)[ordinal]).unwrap()
}

fn create(of: &Attempt, ordinal: usize) -> Effect {
    Effect::CreatePod(Box::new(pod(of, ordinal)))
}

fn facts(birth: Option<Birth>) -> Facts {
    Facts { uid: "uid-1".to_owned(), birth, made: BTreeMap::new() }
}

/// The facts with pods of an attempt, each of which served.
fn with_pods(mut facts: Facts, of: &Attempt, count: usize) -> Facts {
    for ordinal in 0..count {
        let object = pod(of, ordinal);
        let name = object.metadata.name.clone().unwrap();
        let uid = format!("uid-of-{name}");
        let served = Some(ClusterId(0xcc));
        facts.made.insert(name, MadePod { uid, started: true, served, ..MadePod::from_pod(&object) });
    }
    facts
}

fn latch(birth: Birth) -> Effect {
    Effect::ReplaceStatusBirth { resource_version: "1".to_owned(), birth }
}

fn formed(incarnation: i64) -> Birth {
    birth(incarnation).formed("cc".to_owned())
}

fn delete(of: &Attempt) -> Effect {
    let name = pod(of, 0).metadata.name.unwrap();
    Effect::DeletePod { uid: format!("uid-of-{name}"), name }
}

fn client(of: Option<&Attempt>) -> Effect {
    Effect::CreateService(Box::new(manifest::client_service(&desired(), of)))
}

fn orphan() -> Effect {
    let mut object = pod(&attempt(1), 0);
    object.metadata.owner_references = None;
    Effect::CreatePod(Box::new(object))
}

fn grant(restart: bool) -> Effect {
    let world = World::up();
    let order = match &world.observed.pods[0].order {
        OrderSeen::Order(order) if restart => manifest::restarted(order),
        OrderSeen::Order(order) => order.clone(),
        other => panic!("{other:?}"),
    };
    let (name, uid, resource_version) = ("a".to_owned(), "u".to_owned(), "1".to_owned());
    let (key, value) = (launch::ORDER_ANNOTATION, order.to_annotation());
    Effect::PatchPodAnnotation { name, uid, resource_version, key, value }
}

fn other_size(of: &Attempt) -> Effect {
    let desired = crate::fixture::desired_of(r#"{"size": 5}"#).unwrap();
    Effect::CreatePod(Box::new(manifest::pod(&desired, of, &desired.members(of)[4]).unwrap()))
}

#[test]
fn what_breaks_an_invariant_is_caught_and_named() {
    let (one, two) = (attempt(1), attempt(2));
    let born = || facts(Some(birth(1)));
    let table = [
        (facts(None), create(&one, 0), Violation::PodBeforeLatch),
        (born(), create(&two, 0), Violation::PodBeforeLatch),
        (facts(Some(formed(1))), create(&one, 0), Violation::BornAgain),
        (facts(Some(formed(1))), latch(birth(2)), Violation::BornAgain),
        (with_pods(born(), &one, 1), create(&one, 0), Violation::NameUsedTwice),
        (with_pods(born(), &one, 1), other_size(&one), Violation::AnotherInitialCluster),
        (born(), latch(birth(3)), Violation::BirthRewritten),
        (born(), latch(Birth::first("other".to_owned())), Violation::BirthRewritten),
        (born(), latch(formed(1)), Violation::FormedTooEarly),
        (with_pods(born(), &one, 2), latch(formed(1)), Violation::FormedTooEarly),
        (with_pods(born(), &one, 3), latch(birth(1).formed("dd".to_owned())), Violation::FormedTooEarly),
        (born(), grant(false), Violation::EmptyStartGranted),
        (with_pods(born(), &one, 1), delete(&one), Violation::LivePodDeleted),
        (born(), delete(&one), Violation::LivePodDeleted),
        (born(), client(Some(&one)), Violation::TrafficBeforeFormed),
        (facts(Some(formed(2))), client(Some(&one)), Violation::TrafficBeforeFormed),
        (born(), orphan(), Violation::NotOwned),
    ];
    let mut seen = BTreeSet::new();
    for (facts, effect, violation) in table {
        let broken = check(&facts, &effect);
        assert!(broken.contains(&violation), "{violation}: {broken:?} {effect:?}");
        seen.extend(broken);
    }
    assert_eq!(seen.into_iter().collect::<Vec<_>>(), Violation::ALL, "an invariant that nothing breaks");
}

#[test]
fn what_creation_does_breaks_none_also_when_it_lands_late() {
    let (one, two) = (attempt(1), attempt(2));
    let table = [
        ("the first birth", facts(None), latch(birth(1))),
        ("the next birth", with_pods(facts(Some(birth(1))), &one, 3), latch(birth(2))),
        ("a pod of the birth", with_pods(facts(Some(birth(1))), &one, 2), create(&one, 2)),
        ("a late pod of an abandoned attempt", with_pods(facts(Some(formed(2))), &two, 3), create(&one, 2)),
        ("the end of forming", with_pods(facts(Some(birth(1))), &one, 3), latch(formed(1))),
        ("a withdrawn permission", facts(Some(birth(1))), grant(true)),
        ("an abandoned pod", with_pods(facts(Some(birth(2))), &one, 3), delete(&one)),
        ("a client Service without members", facts(None), client(None)),
        ("a client Service with them", facts(Some(formed(1))), client(Some(&one))),
    ];
    for (title, facts, effect) in table {
        assert_eq!(check(&facts, &effect), [], "{title}");
    }
}
