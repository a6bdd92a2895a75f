//! Each invariant is broken once, and kept once.

use super::*;
use crate::{
    SeenList,
    fixture::{World, attempt, birth, desired},
    manifest,
};

fn pod(of: &Attempt, ordinal: usize) -> Pod {
    let desired = desired();
    manifest::pod(&desired, of, &desired.founders(of)[ordinal]).unwrap()
}

fn create(of: &Attempt, ordinal: usize) -> Effect {
    Effect::CreatePod(Box::new(pod(of, ordinal)))
}

fn facts(birth: Option<Birth>) -> Facts {
    Facts { uid: "uid-1".to_owned(), birth, ..Facts::default() }
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

/// One of them tells that it holds what a client wrote.
fn telling(mut facts: Facts) -> Facts {
    for made in facts.made.values_mut() {
        made.written = true;
    }
    if let Some(mut last) = facts.made.last_entry() {
        last.get_mut().told = true;
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
    Effect::CreatePod(Box::new(manifest::pod(&desired, of, &desired.founders(of)[4]).unwrap()))
}

/// A formed cluster of these members: a voter is its number, a learner is negative; one above ten has never started.
fn cluster(members: &[i64]) -> Facts {
    let mut facts = with_pods(facts(Some(formed(1))), &attempt(1), 3);
    facts.members = members
        .iter()
        .map(|number| MemberFact {
            id: MemberId(number.unsigned_abs()),
            name: format!("example-{}", number.unsigned_abs()),
            learner: *number < 0,
            started: number.abs() < 10,
            caught_up: number.abs() < 9,
        })
        .collect();
    facts.added.insert("example-used".to_owned());
    facts
}

fn change(healthy: &[u64], change: MemberChange) -> Effect {
    let healthy = healthy.iter().copied().map(MemberId).collect();
    let list = SeenList { cluster_id: ClusterId(0xcc), members: vec![] };
    let basis = Basis { through: "example-1".parse().unwrap(), through_id: MemberId(1), list, healthy };
    Effect::ChangeMembership { basis, change }
}

/// A relaunch of a member, decided while these were healthy, or because it is down.
fn relaunch(id: u64, healthy: Option<&[u64]>, intent: Intent) -> Effect {
    let world = World::up();
    let OrderSeen::Order(order) = &world.observed.pods[0].order else { panic!("no order") };
    let order = LaunchOrder { intent, ..order.clone() };
    let basis = healthy.map(|healthy| match change(healthy, remove(9)) {
        Effect::ChangeMembership { basis, .. } => basis,
        other => panic!("{other:?}"),
    });
    Effect::RelaunchPod {
        name: format!("example-{id}"),
        uid: "u".to_owned(),
        resource_version: "1".to_owned(),
        basis,
        image: "i".to_owned(),
        annotations: BTreeMap::from([(launch::ORDER_ANNOTATION.to_owned(), order.to_annotation())]),
    }
}

/// A relaunch of a member to this version.
fn relaunch_to(id: u64, version: &str) -> Effect {
    let mut effect = relaunch(id, Some(&[1, 2, 3]), Intent::Restart);
    let Effect::RelaunchPod { annotations, .. } = &mut effect else { panic!("{effect:?}") };
    let order = LaunchOrder::read(&annotations[launch::ORDER_ANNOTATION]).unwrap();
    let order = LaunchOrder { version: version.parse().unwrap(), ..order };
    annotations.insert(launch::ORDER_ANNOTATION.to_owned(), order.to_annotation());
    effect
}

/// Three members that run these versions, of which the first leads; none stands for one that was restarted and does not serve yet.
fn rolling(versions: [&str; 3]) -> Facts {
    let mut facts = cluster(&[1, 2, 3]);
    for (id, version) in (1..).map(MemberId).zip(versions) {
        match version.parse() {
            Ok(version) => drop(facts.running.serving.insert(id, version)),
            Err(_) => drop(facts.running.resting.insert(id)),
        }
    }
    facts.running.leader = Some(MemberId(1));
    facts.running.agreed = facts.running.serving.values().map(|version| version.minor()).min();
    facts
}

fn add(name: &str, learner: bool) -> MemberChange {
    let member = name.parse().unwrap();
    let peer_url = desired().peer_url(&member).unwrap();
    MemberChange::Add { member, peer_url, learner }
}

fn remove(id: u64) -> MemberChange {
    MemberChange::Remove { id: MemberId(id) }
}

fn promote(id: u64) -> MemberChange {
    MemberChange::Promote { id: MemberId(id) }
}

fn joining(name: &str) -> Effect {
    let list = SeenList { cluster_id: ClusterId(0xcc), members: vec![] };
    let (desired, name) = (desired(), name.parse().unwrap());
    let pod = manifest::joining_pod(&desired, &attempt(1), &name, desired.version, &list).unwrap();
    Effect::CreatePod(Box::new(pod))
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
        (telling(with_pods(born(), &one, 2)), latch(birth(2)), Violation::DataAbandoned),
        (telling(with_pods(facts(Some(birth(2))), &one, 2)), delete(&one), Violation::DataAbandoned),
        (born(), grant(false), Violation::EmptyStartGranted),
        (with_pods(born(), &one, 1), delete(&one), Violation::LivePodDeleted),
        (born(), delete(&one), Violation::LivePodDeleted),
        (born(), client(Some(&one)), Violation::TrafficBeforeFormed),
        (facts(Some(formed(2))), client(Some(&one)), Violation::TrafficBeforeFormed),
        (born(), orphan(), Violation::NotOwned),
        (cluster(&[1, 2, 3]), joining("example-new"), Violation::PodBeforeMember),
        (cluster(&[1, 2, 3]), change(&[1, 2], remove(1)), Violation::QuorumRisked),
        (cluster(&[1, 2, 3]), change(&[1], remove(3)), Violation::QuorumRisked),
        (cluster(&[1]), change(&[1], remove(1)), Violation::QuorumRisked),
        (cluster(&[1, 2, 3]), change(&[1, 2], add("example-new", false)), Violation::QuorumRisked),
        (cluster(&[1, 2, 3, -4]), change(&[1], promote(4)), Violation::QuorumRisked),
        (cluster(&[1, 2, 3]), relaunch(1, Some(&[1, 2]), Intent::Restart), Violation::RestedWithoutQuorum),
        (cluster(&[1, 2, 3]), relaunch(1, Some(&[1, 2, 3]), Intent::Join), Violation::EmptyStartGranted),
        (rolling(["3.5.33", "3.5.33", ""]), relaunch_to(2, "3.6.14"), Violation::SecondAtRest),
        (rolling(["3.5.33", "3.5.33", "3.6.14"]), relaunch_to(1, "3.6.14"), Violation::LeaderRested),
        (rolling(["3.5.33", "3.5.33", "3.5.33"]), relaunch_to(2, "3.7.1"), Violation::MinorSkipped),
        (rolling(["3.6.14", "3.6.14", "3.6.14"]), relaunch_to(2, "3.5.33"), Violation::BelowClusterVersion),
        (cluster(&[1, 2, -3]), change(&[1, 2], add("example-new", true)), Violation::SecondChange),
        (cluster(&[1, 2, 11]), change(&[1, 2], add("example-new", true)), Violation::SecondChange),
        (cluster(&[1, 2]), change(&[1, 2], add("example-used", true)), Violation::NameAddedTwice),
        (cluster(&[1, 2, -9]), change(&[1, 2], promote(9)), Violation::PromotedBehind),
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
fn what_the_rules_do_breaks_none_also_when_it_lands_late() {
    let (one, two) = (attempt(1), attempt(2));
    let used = |name: &str| {
        let mut facts = cluster(&[1, 2, 3]);
        facts.added.insert(name.to_owned());
        facts
    };
    let table = [
        ("the first birth", facts(None), latch(birth(1))),
        ("the next birth", with_pods(facts(Some(birth(1))), &one, 3), latch(birth(2))),
        ("a pod of the birth", with_pods(facts(Some(birth(1))), &one, 2), create(&one, 2)),
        ("a late pod of an abandoned attempt", with_pods(facts(Some(formed(2))), &two, 3), create(&one, 2)),
        ("the end of forming", with_pods(facts(Some(birth(1))), &one, 3), latch(formed(1))),
        (
            "the end of forming for what a client wrote",
            telling(with_pods(facts(Some(birth(1))), &one, 2)),
            latch(formed(1)),
        ),
        (
            "a late pod of a cluster that was called formed for it",
            telling(with_pods(facts(Some(formed(1))), &one, 2)),
            create(&one, 2),
        ),
        ("a withdrawn permission", facts(Some(birth(1))), grant(true)),
        ("an abandoned pod", with_pods(facts(Some(birth(2))), &one, 3), delete(&one)),
        ("a client Service without members", facts(None), client(None)),
        ("a client Service with them", facts(Some(formed(1))), client(Some(&one))),
        ("a learner", cluster(&[1, 2, 3]), change(&[1, 2], add("example-new", true))),
        ("a voter from one to two", cluster(&[1]), change(&[1], add("example-new", false))),
        ("a voter beside healthy ones", cluster(&[1, 2, 3]), change(&[1, 2, 3], add("example-new", false))),
        ("the pod of a new member", used("example-new"), joining("example-new")),
        ("a dead voter of three", cluster(&[1, 2, 3]), change(&[1, 2], remove(3))),
        ("a surplus voter of two", cluster(&[1, 2]), change(&[1, 2], remove(2))),
        ("a learner that did not come up", cluster(&[1, -2]), change(&[1], remove(2))),
        ("a member that somebody removed before", cluster(&[1, 2]), change(&[1, 2], remove(3))),
        ("a learner that has caught up", cluster(&[1, -2]), change(&[1], promote(2))),
        ("the pod of a removed member", cluster(&[1, 2]), delete(&one)),
        ("one of three, relaunched", cluster(&[1, 2, 3]), relaunch(1, Some(&[2, 3]), Intent::Restart)),
        ("the only one, relaunched", cluster(&[1]), relaunch(1, Some(&[1]), Intent::Restart)),
        ("one at a time", rolling(["3.5.33", "3.6.14", "3.5.33"]), relaunch_to(3, "3.6.14")),
        (
            "the leader of a version without hand-over",
            rolling(["3.2.32", "3.3.27", "3.3.27"]),
            relaunch_to(1, "3.3.27"),
        ),
        ("one that is at rest, once more", rolling(["3.5.33", "3.5.33", ""]), relaunch_to(3, "3.5.33")),
        ("one that is down, relaunched", cluster(&[1, 2, 3]), relaunch(1, None, Intent::Restart)),
    ];
    for (title, facts, effect) in table {
        assert_eq!(check(&facts, &effect), [], "{title}");
    }
}
