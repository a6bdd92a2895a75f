//! A formed cluster that nobody reads through a quorum: who is missing, and whether a quorum can come back by itself.
//!
//! Who the members are is told by the list of the one that has come furthest. It is not confirmed by a quorum, so nothing is done on its
//! word; it is good enough to say who is missing.

use api::{Phase, Reason};

use crate::{
    membership::{Fate, Membership, Seat, seats_as_seen},
    observed::SeenPod,
    quorum,
    view::View,
};

/// What is left of a cluster without a quorum.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Outage {
    /// How many vote, as far as can be told.
    voters: usize,
    /// How many of them answer.
    answering: usize,
    /// Those whose data is certainly gone, and why.
    lost: Vec<(String, String)>,
    prospect: Prospect,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Prospect {
    /// Enough of them may come back with their data.
    MayReturn,
    /// Too many are lost for a quorum, and others hold data.
    QuorumLost,
    /// Nobody is left who could hold any.
    DataLost,
}

impl Outage {
    /// What is left, if the cluster has formed and no quorum says who its members are.
    pub(crate) fn of(view: &View<'_>, membership: Option<&Membership<'_>>) -> Option<Self> {
        if !view.is_formed() || view.is_passed_over() || membership.is_some() {
            return None;
        }
        let seats = view.furthest().map(|answer| seats_as_seen(view, answer)).unwrap_or_default();
        let outage = match seats.as_slice() {
            [] => Self::by_pods(view),
            seats => Self::by_seats(view, seats),
        };
        let nobody = view.current().all(|pod| loss(view, pod).is_some()) && view.disowned().next().is_none();
        Some(Self { prospect: if nobody { Prospect::DataLost } else { outage.prospect }, ..outage })
    }

    fn by_seats(view: &View<'_>, seats: &[Seat<'_>]) -> Self {
        let voters = || seats.iter().filter(|seat| seat.is_voter());
        let why = |seat: &Seat<'_>| match (seat.pod, &seat.fate) {
            (Some(pod), _) => loss(view, pod),
            (None, Fate::Lost(why)) => Some(why.clone()),
            (None, _) => None,
        };
        // One that never started held nothing that anybody else does not.
        let started = voters().filter(|seat| seat.listed.name.is_some());
        let lost: Vec<_> = started.filter_map(|seat| Some((seat.title(), why(seat)?))).collect();
        let all = voters().count();
        // One that is ready and not listed came after this list was written, which then says nothing of how many there are now.
        let listed =
            |pod: &SeenPod| seats.iter().any(|seat| seat.pod.is_some_and(|own| own.name == pod.name));
        let outdated = view.current().any(|pod| pod.is_ready() && !listed(pod));
        let gone = all.saturating_sub(lost.len()) < quorum(all) && !outdated;
        let prospect = if gone { Prospect::QuorumLost } else { Prospect::MayReturn };
        Self { voters: all, answering: voters().filter(|seat| seat.answer.is_some()).count(), lost, prospect }
    }

    /// Nobody says who the members are, so it is not known whose pod is missing. What was known before stays true: who was lost for good does
    /// not come back because the others are silent as well. Learners answer, and tell of nobody; where only they are left, no voter is.
    fn by_pods(view: &View<'_>) -> Self {
        let lost: Vec<_> =
            view.current().filter_map(|pod| Some((pod.name.clone(), loss(view, pod)?))).collect();
        let recorded = view.observed.resource.status.size.and_then(|size| usize::try_from(size).ok());
        let voters = recorded.unwrap_or_default().max(view.current().count());
        let known = view.observed.resource.phase() == Phase::Failed;
        let mut left = view.current().filter(|pod| loss(view, pod).is_none());
        let learns = |pod: &SeenPod| view.observed.answer(&pod.name).is_some_and(|answer| answer.learner);
        let only_learners = left.all(learns) && view.disowned().next().is_none();
        let prospect = if known || only_learners { Prospect::QuorumLost } else { Prospect::MayReturn };
        let answering = view.answers().filter(|answer| !answer.learner).count();
        Self { voters, answering, lost, prospect }
    }

    /// Whether nothing that comes back by itself can end it.
    pub(crate) fn is_final(&self) -> bool {
        self.prospect != Prospect::MayReturn
    }

    /// Whether every copy of the data is gone.
    pub(crate) fn is_total(&self) -> bool {
        self.prospect == Prospect::DataLost
    }

    /// Whether it is known from before, and nobody tells any more who is lost.
    pub(crate) fn is_remembered(&self) -> bool {
        self.prospect == Prospect::QuorumLost && self.lost.is_empty()
    }

    /// What to say of the cluster as a whole.
    pub(crate) fn reason(&self) -> Reason {
        let &Self { voters, answering, .. } = self;
        match self.prospect {
            Prospect::DataLost => Reason::DataLost { lost: self.in_words("no pod of any member is left") },
            Prospect::QuorumLost => {
                Reason::QuorumLost { lost: self.in_words("no member that answers tells who") }
            }
            Prospect::MayReturn if answering >= quorum(voters) => {
                Reason::WaitingForPeers { answering, voters }
            }
            Prospect::MayReturn => Reason::WaitingForQuorum { healthy: answering, voters },
        }
    }

    /// What to say of each member that is lost.
    pub(crate) fn lost(&self) -> impl Iterator<Item = Reason> {
        self.lost.iter().map(|(member, why)| Reason::MemberLost { member: member.clone(), why: why.clone() })
    }

    /// Who is lost, and why; or this, if nobody is known by name.
    fn in_words(&self, nobody: &str) -> String {
        let each: Vec<String> = self.lost.iter().map(|(member, why)| format!("{member}: {why}")).collect();
        if each.is_empty() { nobody.to_owned() } else { each.join(", ") }
    }
}

/// Why a pod's data is gone, if it is. Data that its launcher takes for somebody else's is there, and who answers or is ready has its own.
/// A launcher that has refused is started again and again, and looks at the data anew each time: what it said last holds until then.
fn loss(view: &View<'_>, pod: &SeenPod) -> Option<String> {
    if pod.holds_other_data() || view.observed.answer(&pod.name).is_some() {
        return None;
    }
    let refused = || pod.refused_before().filter(|_| !pod.is_ready()).map(|refused| refused.sentence);
    pod.loss().or_else(refused)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{
        fixture::{World, attempt, container, ended, order_of},
        observed::{ContainerState, SeenContainer},
    };

    type Change = fn(&mut World);

    fn outage(world: &World) -> Option<Outage> {
        let view = View::of(&world.observed);
        Outage::of(&view, Membership::of(&view).as_ref())
    }

    /// Nobody reads through a quorum.
    fn without_quorum(world: &mut World) {
        world.change_all(|answer| answer.linearizable = false);
    }

    #[test]
    fn who_is_missing_and_whether_that_can_end_by_itself_is_told() {
        let table: [(&str, Change, &str, usize); 9] = [
            ("nobody is reached", |w| w.observed.members.clear(), "only 0 of 3 voting members answer", 0),
            (
                "two are silent",
                |w| [1, 2].into_iter().for_each(|it| w.silence(it, Duration::from_hours(9))),
                "only 1 of 3 voting members answer",
                0,
            ),
            ("they do not reach each other", |_| (), "3 of 3 voting members answer, and none", 0),
            (
                "one pod is gone, and one silent",
                |w| {
                    w.silence(2, Duration::ZERO);
                    w.drop_pod(1);
                },
                "only 1 of 3 voting members answer",
                1,
            ),
            (
                "two pods are gone",
                |w| [2, 1].into_iter().for_each(|it| w.drop_pod(it)),
                "voting members are lost",
                2,
            ),
            (
                "two pods are gone, and a learner answers",
                |w| {
                    w.join("http://example-newnewnew1.example.default.svc:2380", true);
                    w.observed.resource.status.size = Some(4);
                    for lost in [2, 1] {
                        w.drop_pod(lost);
                    }
                },
                "voting members are lost",
                2,
            ),
            (
                "all are on their way out, and still answer",
                |w| w.observed.pods.iter_mut().for_each(|pod| pod.deleting = true),
                "3 of 3 voting members answer, and none",
                0,
            ),
            (
                "all are on their way out",
                |w| {
                    w.observed.pods.iter_mut().for_each(|pod| pod.deleting = true);
                    w.observed.members.clear();
                },
                "its pod is being deleted",
                3,
            ),
            (
                "nothing is left",
                |w| {
                    w.observed.pods.clear();
                    w.observed.members.clear();
                },
                "no pod of any member is left",
                0,
            ),
        ];
        for (title, change, said, lost) in table {
            let mut world = World::formed();
            change(&mut world);
            without_quorum(&mut world);
            let outage = outage(&world).unwrap();
            let text = outage.reason().to_string();
            assert!(text.contains(said), "{title}: {text}");
            assert_eq!(outage.lost().count(), lost, "{title}");
            let is_final = ["lost", "gone"].iter().any(|word| text.contains(word));
            assert_eq!(outage.is_final(), is_final, "{title}: {text}");
        }
    }

    #[test]
    fn a_list_that_is_older_than_some_of_the_pods_gives_nobody_up() {
        let mut world = World::formed();
        for lost in [2, 1] {
            world.drop_pod(lost);
        }
        without_quorum(&mut world);
        assert!(outage(&world).unwrap().is_final());
        let mut later = world.pod(0).clone();
        (later.name, later.uid) = ("example-later".to_owned(), "uid-of-later".to_owned());
        world.observed.pods.push(later);
        assert!(!outage(&world).unwrap().is_final(), "one that runs is not in the list");
        world.observed.pods[1].ready = crate::Readiness::NotReady;
        assert!(outage(&world).unwrap().is_final(), "it may be one that was removed");
    }

    #[test]
    fn who_is_lost_for_good_stays_lost_when_the_others_are_silent_as_well() {
        let mut world = World::formed();
        for lost in [2, 1] {
            world.drop_pod(lost);
        }
        world.silence(0, Duration::ZERO);
        assert!(!outage(&world).unwrap().is_final(), "nobody has ever said who is missing");
        world.observed.resource.status.phase = Some("Failed".to_owned());
        assert!(outage(&world).unwrap().is_final());
        assert_eq!(outage(&world).unwrap().reason().as_str(), "QuorumLost");
        world.answer(0);
        for back in [1, 2] {
            let name = world.name(back);
            world.add_pod(&attempt(1), &name);
        }
        world.change_answer(0, |answer| answer.linearizable = false);
        assert!(!outage(&world).unwrap().is_final(), "somebody says that they are back");
    }

    #[test]
    fn a_launcher_that_refused_and_is_started_again_has_no_data_until_it_says_so() {
        let mut world = World::formed();
        for ordinal in [1, 2] {
            world.silence(ordinal, Duration::ZERO);
            let refusal = launch::Refusal::DataLost { member: "a".to_owned() };
            let again = SeenContainer {
                last_end: Some(ended(&refusal.to_termination_message())),
                ..container(ContainerState::Running)
            };
            world.pod(ordinal).containers = vec![again];
        }
        without_quorum(&mut world);
        assert!(outage(&world).unwrap().is_final());
        world.pod(1).ready = crate::Readiness::Ready;
        assert!(!outage(&world).unwrap().is_final(), "it has what it needs");
    }

    #[test]
    fn where_only_learners_are_left_no_voter_is() {
        let mut world = World::formed_of(1);
        world.join("http://example-newnewnew1.example.default.svc:2380", true);
        // As etcd has it: a learner lists nobody.
        world.change_learner(|answer| answer.members.clear());
        without_quorum(&mut world);
        world.silence(0, Duration::ZERO);
        assert!(!outage(&world).unwrap().is_final(), "the voter may come back");
        world.drop_pod(0);
        let outage = outage(&world).unwrap();
        assert!(outage.is_final() && !outage.is_total() && outage.is_remembered(), "{outage:?}");
    }

    #[test]
    fn nothing_is_lost_where_the_pods_are_not_known_or_are_to_go() {
        let mut world = World::formed();
        world.observed.pods.clear();
        world.observed.members.clear();
        assert!(outage(&world).unwrap().is_total());
        let mut deleted = World { observed: world.observed.clone(), ..World::formed() };
        deleted.observed.resource.deleting = true;
        assert_eq!(outage(&deleted), None);
        world.observed.resource.status.birth.as_mut().unwrap().token = "not a token of ours".to_owned();
        assert_eq!(outage(&world), None);
    }

    #[test]
    fn data_that_is_taken_for_somebody_elses_is_there() {
        let mut world = World::formed_of(1);
        let expected = order_of(world.pod(0)).seal.clone();
        let refusal = launch::Refusal::DataForeign { expected, found: "no seal".to_owned() };
        let state = ContainerState::Terminated(ended(&refusal.to_termination_message()));
        world.pod(0).containers = vec![container(state)];
        world.silence(0, Duration::ZERO);
        let outage = outage(&world).unwrap();
        assert!(!outage.is_final() && outage.lost().count() == 0, "{outage:?}");
    }

    #[test]
    fn a_cluster_with_a_quorum_or_without_a_past_has_no_outage() {
        for world in [World::new(r#"{"size": 3}"#), World::forming(), World::up(), World::formed()] {
            assert_eq!(outage(&world), None);
        }
    }
}
