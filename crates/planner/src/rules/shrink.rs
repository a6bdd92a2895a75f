//! A cluster that is larger than its spec asks for loses one member after another: one on its way in first, then one that is not
//! healthy, then the one in the fullest zone, then the newest. The leader hands over before it goes, and nobody goes whom the rest could not do without.

use std::cmp::Reverse;

use api::Reason;

use super::{Decision, Flow, Situation, leave};
use crate::{
    Waiting,
    membership::{Fate, Membership, Seat},
    step::Leaving,
};

pub(super) fn ask(situation: &Situation<'_>, decision: &mut Decision) -> Flow {
    let Some(membership) = &situation.membership else { return Flow::Next };
    let (voters, size) = (membership.voters().count(), situation.desired.size);
    let joining = membership.joining();
    let surplus = voters > size || (voters == size && joining.is_some_and(|seat| !seat.is_voter()));
    // Whoever is not ours makes the count wrong: then nobody of ours goes.
    let is_other = |fate: &Fate| matches!(fate, Fate::Unknown | Fate::Foreign | Fate::Disowned(_));
    let others = membership.seats.iter().any(|seat| is_other(&seat.fate));
    if !decision.may_act() || !surplus || others {
        return Flow::Next;
    }
    let Some(victim) = joining.or_else(|| victim(membership)) else { return Flow::Next };
    if victim.is_voter() && !membership.can_lose(victim) {
        let (member, why) = (victim.title(), format!("the spec asks for {size} members"));
        decision.wait(Waiting::passing(Reason::RemovalRisky { member, why }));
    } else if !leave::paused_by_etcd(situation, decision) {
        match membership.hand_over(victim, |_| true) {
            Some(step) => decision.act = vec![step],
            None => leave::remove(situation, membership, victim, Leaving::Surplus, decision),
        }
    }
    Flow::Next
}

/// Who goes. Before 3.3 the leader cannot hand over, so it stays. Of those that are as healthy, the one in the fullest place, so that the
/// others stand in as many as they can; then the newest.
fn victim<'a>(membership: &'a Membership<'_>) -> Option<&'a Seat<'a>> {
    let moves = membership.moves_leader();
    let place = |seat: &'a Seat<'_>| seat.pod.and_then(crate::SeenPod::place);
    let beside = |seat: &'a Seat<'_>| {
        let same = |other: &&Seat<'_>| {
            place(seat).is_some() && other.pod.and_then(crate::SeenPod::place) == place(seat)
        };
        membership.voters().filter(same).count()
    };
    membership.voters().filter(|seat| moves || !membership.is_leader(seat)).min_by_key(|seat| {
        let newest = Reverse(seat.pod.and_then(|pod| pod.created));
        (seat.is_healthy(), Reverse(beside(seat)), newest, seat.title())
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use crate::{
        MemberId, Step,
        fixture::{World, desired_of},
    };

    fn shrunk(from: usize, to: usize) -> World {
        let mut world = World::formed_of(from);
        world.desired = desired_of(&format!(r#"{{"size": {to}}}"#));
        world
    }

    fn step(world: &World) -> Option<Step> {
        world.plan().steps.into_iter().find(Step::is_risky)
    }

    fn removed(world: &World) -> Option<MemberId> {
        match step(world) {
            Some(Step::RemoveMember { id, .. }) => Some(id),
            _ => None,
        }
    }

    #[test]
    fn the_newest_goes_first_and_whoever_is_not_healthy_before_it() {
        let mut world = shrunk(5, 3);
        assert_eq!(removed(&world), Some(MemberId(5)));
        assert_eq!(world.plan().events.len(), 1, "nobody is replaced");
        world.silence(2, Duration::ZERO);
        assert_eq!(removed(&world), Some(MemberId(3)));
        let mut by_age = shrunk(3, 1);
        by_age.pod(1).created = Some("2026-02-01T00:00:00Z".parse().unwrap());
        assert_eq!(removed(&by_age), Some(MemberId(2)));
    }

    #[test]
    fn the_leader_hands_over_before_it_goes() {
        let mut world = shrunk(3, 1);
        world.change_all(|answer| answer.leader = Some(MemberId(3)));
        let Some(Step::MoveLeader { basis, to }) = step(&world) else { panic!("{:?}", world.steps()) };
        assert_eq!((basis.through_id, to), (MemberId(3), MemberId(1)));
        world.change_all(|answer| answer.version = Some("3.2.32".parse().unwrap()));
        assert_eq!(removed(&world), Some(MemberId(2)), "before 3.3 it cannot, so another one goes");
    }

    #[test]
    fn nobody_of_ours_goes_for_a_member_that_somebody_else_added() {
        for name in [None, Some("theirs")] {
            let mut world = shrunk(3, 3);
            world.list(9, name, "http://elsewhere:2380", false);
            assert_eq!(step(&world), None, "{name:?}");
        }
    }

    #[test]
    fn one_on_its_way_in_goes_before_all_others() {
        let mut world = shrunk(3, 3);
        world.join("http://example-newnewnew1.example.default.svc:2380", true);
        assert_eq!(removed(&world), Some(MemberId(9)));
    }

    #[test]
    fn a_cluster_of_the_right_size_loses_nobody() {
        for size in 1..=7 {
            assert_eq!(step(&shrunk(size, size)), None, "{size}");
        }
    }
}
