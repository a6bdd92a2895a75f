//! Where two members each read through a quorum and list different members, no member and no pod of a member is touched: one of them was
//! started as a cluster of its own (`--force-new-cluster` keeps the cluster's ID), or does not tell the truth, and the pods of all others
//! would be deleted on its word.
//!
//! Two lists may differ for a moment with nothing wrong: members are asked at the same time but answer one after another, and a change may
//! land in between. Nobody has to tell the two cases apart. A read through a quorum does not lag behind (before etcd 3.5, whose list does,
//! such a read goes first), so a change that landed is in every list of the next look. That look comes soon, and nothing is remembered: who
//! merely answered earlier agrees then, and only what is really two clusters goes on being held. Neither terms nor indexes would tell better:
//! those of a cluster that was started anew go on from the same log.

use std::time::Duration;

use api::Reason;

use super::{Decision, Flow, Situation, after};
use crate::{Waiting, view::View};

/// How soon they are asked again.
const SOON: Duration = Duration::from_secs(1);

pub(super) fn ask(situation: &Situation<'_>, decision: &mut Decision) -> Flow {
    let view = &situation.view;
    let Some((first, list)) = view.serving().next().filter(|_| view.is_formed()) else { return Flow::Next };
    let ids = View::listed_ids(list);
    let Some((other, _)) = view.serving().find(|(_, answer)| View::listed_ids(answer) != ids) else {
        return Flow::Next;
    };
    let reason = Reason::MembersDisagree { one: first.name.clone(), other: other.name.clone() };
    let soon = after(situation.observed.now, SOON);
    decision.hold(situation.observed, Waiting::blocked(reason).until(soon))
}

#[cfg(test)]
mod tests {
    use crate::{ListedMember, MemberId, fixture::World};

    /// The member at this place was started with --force-new-cluster: it is the only one in its list, and its quorum.
    fn alone(world: &mut World, ordinal: usize) {
        world.change_answer(ordinal, |answer| {
            let own = answer.member_id;
            answer.members.retain(|member| member.id == own);
            answer.raft_index += 1000;
        });
    }

    #[test]
    fn lists_that_differ_hold_everything_and_are_named_until_they_agree() {
        let mut world = World::formed();
        alone(&mut world, 1);
        world.drop_pod(2);
        let plan = world.plan();
        assert_eq!(
            world.steps(),
            [""; 0],
            "neither the others' pods nor the lost member go on one member's word"
        );
        assert_eq!(plan.waiting[0].reason.as_str(), "MembersDisagree");
        let said = plan.waiting[0].reason.to_string();
        assert!([0, 1].iter().all(|n| said.contains(world.name(*n).as_str())), "{said}");
        assert_eq!(plan.wake_at.unwrap().to_string(), "2026-01-01T00:10:01Z");
        let list = World::formed().observed.answer(world.name(0).as_str()).unwrap().members.clone();
        world.change_answer(1, |answer| answer.members = list);
        assert_eq!(world.steps(), ["RemoveMember"], "who merely answered a moment earlier agrees now");
    }

    #[test]
    fn what_members_say_of_each_other_beside_their_ids_is_no_disagreement() {
        let mut world = World::formed();
        world.change_answer(1, |answer| {
            answer.members[0].name = None;
            answer.members.reverse();
        });
        assert_eq!((world.steps(), world.waits()), (vec![], vec![]));
    }

    #[test]
    fn a_list_that_no_quorum_confirmed_disagrees_with_nobody() {
        let mut world = World::formed();
        alone(&mut world, 1);
        world.change_answer(1, |answer| answer.linearizable = false);
        assert!(!world.waits().contains(&"MembersDisagree"), "{:?}", world.waits());
    }

    #[test]
    fn an_added_member_that_only_one_list_has_is_waited_for() {
        let mut world = World::formed();
        let (name, peer_urls) = (None, vec!["http://elsewhere:2380".to_owned()]);
        let added = ListedMember { id: MemberId(9), name, peer_urls, learner: true };
        world.change_answer(0, |answer| answer.members.push(added));
        assert_eq!((world.steps(), world.waits()), (vec![], vec!["MembersDisagree"]));
    }
}
