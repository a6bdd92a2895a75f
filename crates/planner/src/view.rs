//! What is seen, sorted by the attempt that counts: the questions that several rules and the report ask.

use std::cell::OnceCell;

use api::Birth;
use launch::MemberName;

use crate::{
    attempt::Attempt,
    id::MemberId,
    observed::{Answer, Observed, OrderSeen, SeenPod},
};

/// The largest cluster there is.
pub(crate) const MAX_SIZE: usize = 7;

/// What is seen, with the attempt that counts.
#[derive(Clone, Debug)]
pub(crate) struct View<'a> {
    pub(crate) observed: &'a Observed,
    pub(crate) birth: Option<&'a Birth>,
    /// The attempt of that birth; none if its token is none.
    pub(crate) attempt: Option<Attempt>,
    /// The names and the label that follow from its token, once somebody asks: each is a hash, and there are many questions.
    names: OnceCell<Vec<MemberName>>,
    label: OnceCell<String>,
}

/// What a pod is to the attempt that counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kinship {
    /// One of its members.
    Current,
    /// Of an attempt before it.
    Older,
    /// Neither: the record and the pods contradict each other.
    Strange,
}

impl<'a> View<'a> {
    pub(crate) fn of(observed: &'a Observed) -> Self {
        let birth = observed.resource.birth();
        let attempt = birth.and_then(|birth| Attempt::of(birth).ok());
        Self { observed, birth, attempt, names: OnceCell::new(), label: OnceCell::new() }
    }

    pub(crate) fn is_formed(&self) -> bool {
        self.birth.is_some_and(|birth| birth.formed)
    }

    /// Whether nothing is found out of what the cluster has lost: it goes with its resource, or it is not known which pods are its own.
    pub(crate) fn is_passed_over(&self) -> bool {
        self.observed.resource.deleting || self.attempt.is_none()
    }

    /// What a pod of ours is. Its name and its order decide before its label: labels can be edited, and a member must not be
    /// deleted for it.
    pub(crate) fn kinship(&self, pod: &SeenPod) -> Kinship {
        let Some(attempt) = &self.attempt else { return Kinship::Strange };
        let label = pod.attempt.as_deref();
        // A member that joined later has a name of its own; its order says which cluster it is in.
        let by_order = matches!(&pod.order, OrderSeen::Order(order) if order.seal.token == attempt.token);
        let names = || self.names.get_or_init(|| attempt.members(&self.observed.resource.name, MAX_SIZE));
        let by_name = || names().iter().any(|name| name.as_str() == pod.name);
        let by_label = || label == Some(self.label.get_or_init(|| attempt.label()).as_str());
        // Whoever lost both, order and label, still answers for its cluster.
        let latched = self.birth.and_then(|birth| birth.cluster_id.as_deref());
        let answer = || self.observed.answer(&pod.name).map(|answer| answer.cluster_id.to_string());
        let by_answer = || latched.is_some() && answer().as_deref() == latched;
        if by_order || by_name() || by_label() || by_answer() {
            return Kinship::Current;
        }
        match label.and_then(Attempt::incarnation_in) {
            Some(number) if number < attempt.incarnation => Kinship::Older,
            _ => Kinship::Strange,
        }
    }

    /// Our pods of this kinship.
    pub(crate) fn pods(&self, kinship: Kinship) -> impl Iterator<Item = &'a SeenPod> {
        self.observed.own_pods().filter(move |pod| self.kinship(pod) == kinship)
    }

    /// The pods of the attempt that counts.
    pub(crate) fn current(&self) -> impl Iterator<Item = &'a SeenPod> {
        self.pods(Kinship::Current)
    }

    /// The pod of a member of the attempt that counts.
    pub(crate) fn pod_of(&self, member: &MemberName) -> Option<&'a SeenPod> {
        self.current().find(|pod| pod.name == member.as_str())
    }

    /// Pods with an order of ours that belong to somebody else, or to nobody: their owner was changed. An order holds the cluster's token,
    /// which nobody else has a use for.
    pub(crate) fn disowned(&self) -> impl Iterator<Item = &'a SeenPod> {
        let own = self.observed.resource.uid.as_str();
        let ours = move |pod: &SeenPod| match (&pod.order, &self.attempt) {
            (OrderSeen::Order(order), Some(attempt)) => {
                order.seal.token == attempt.token && order.seal.member.as_str() == pod.name
            }
            _ => false,
        };
        let pods = self.observed.pods.iter().filter(move |pod| pod.owner_uid.as_deref() != Some(own));
        pods.filter(move |pod| ours(pod) && pod.loss().is_none())
    }

    /// The answers of the members through which a linearizable read succeeded, in the cluster that was latched if one was.
    pub(crate) fn serving(&self) -> impl Iterator<Item = (&'a SeenPod, &'a Answer)> {
        let latched = self.birth.and_then(|birth| birth.cluster_id.as_deref());
        self.current()
            .filter_map(|pod| self.observed.answer(&pod.name).map(|answer| (pod, answer)))
            .filter(|(_, answer)| answer.linearizable && !answer.learner)
            .filter(move |(_, answer)| latched.is_none_or(|id| id == answer.cluster_id.to_string()))
    }

    /// The member list that somebody read through a quorum.
    pub(crate) fn member_list(&self) -> Option<&'a Answer> {
        self.serving().map(|(_, answer)| answer).max_by_key(|answer| answer.raft_index)
    }

    /// The answers of our members, with a quorum or without, in the cluster that was latched if one was.
    pub(crate) fn answers(&self) -> impl Iterator<Item = &'a Answer> {
        let latched = self.birth.and_then(|birth| birth.cluster_id.as_deref());
        let answers = self.current().filter_map(|pod| self.observed.answer(&pod.name));
        answers.filter(move |answer| latched.is_none_or(|id| id == answer.cluster_id.to_string()))
    }

    /// The answer of the member that has come furthest, whether a quorum is behind it or not, if it knows who the members are.
    pub(crate) fn furthest(&self) -> Option<&'a Answer> {
        self.answers().filter(|answer| !answer.members.is_empty()).max_by_key(|answer| answer.raft_index)
    }

    /// The member IDs in an answer's list.
    pub(crate) fn listed_ids(answer: &Answer) -> Vec<MemberId> {
        let mut ids: Vec<MemberId> = answer.members.iter().map(|member| member.id).collect();
        ids.sort_unstable();
        ids
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::fixture::{World, attempt};

    #[test]
    fn a_pod_without_order_and_label_is_known_by_the_cluster_that_it_answers_for() {
        let mut world = World::formed();
        world.join("http://example-newnewnew1.example.default.svc:2380", false);
        let pod = world.observed.pods.last_mut().unwrap();
        (pod.order, pod.attempt) = (OrderSeen::Missing, None);
        pod.labels.clear();
        let pod = pod.clone();
        assert_eq!(View::of(&world.observed).kinship(&pod), Kinship::Current);
        world.observed.members.clear();
        assert_eq!(View::of(&world.observed).kinship(&pod), Kinship::Strange);
    }

    #[test]
    fn a_pod_is_known_by_its_name_first_and_by_its_label_second() {
        let mut world = World::forming();
        let stray = attempt(1).member("example", 0).unwrap();
        world.add_pod(&attempt(1), &stray);
        let joined = SeenPod {
            name: "example-other".to_owned(),
            attempt: None,
            labels: BTreeMap::new(),
            ..world.pod(3).clone()
        };
        assert_eq!(View::of(&world.observed).kinship(&joined), Kinship::Current, "by its order");
        world.pod(3).order = OrderSeen::Missing;
        let table = [
            (stray.as_str(), Some("0-x"), Kinship::Current),
            (stray.as_str(), None, Kinship::Current),
            ("example-other", Some(attempt(1).label().as_str()), Kinship::Current),
            ("example-other", Some("0-x"), Kinship::Older),
            ("example-other", Some("1-x"), Kinship::Strange),
            ("example-other", Some("2-x"), Kinship::Strange),
            ("example-other", None, Kinship::Strange),
        ]
        .map(|(name, label, kinship)| (name.to_owned(), label.map(str::to_owned), kinship));
        for (name, label, kinship) in table {
            let pod = SeenPod { name, attempt: label, ..world.pod(3).clone() };
            assert_eq!(View::of(&world.observed).kinship(&pod), kinship, "{} {:?}", pod.name, pod.attempt);
        }
    }

    #[test]
    fn a_foreign_pod_with_our_labels_is_nobody() {
        let mut world = World::forming();
        world.pod(0).owner_uid = Some("another".to_owned());
        world.pod(1).owner_uid = None;
        assert_eq!(View::of(&world.observed).current().count(), 1);
    }
}
