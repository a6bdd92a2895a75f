//! REPORT's doubts: Events of changes of which nobody knows yet whether they happened, because only the answer was lost.

use api::Event;
use planner::{ListedMember, Observed};
use tokio::time::Instant;

use crate::memory::LATE;

/// Of what was to be told after an earlier round: what has happened, and what may yet. What is planned again is told by that plan.
pub(crate) fn of_before(
    observed: &Observed,
    mut untold: Vec<(Event, Instant)>,
) -> (Vec<Event>, Vec<(Event, Instant)>) {
    let list = planner::member_list(observed).map(|list| list.members.as_slice());
    let attempt = observed.resource.birth().map(|birth| birth.incarnation);
    let has_pod = |member: &str| observed.own_pods().any(|pod| pod.name == member);
    let told = untold.extract_if(.., |(event, _)| happened(list, attempt, event, has_pod));
    let told = told.map(|(event, _)| event).collect();
    forget_what_did_not_happen(&mut untold, list.is_some());
    (told, untold)
}

/// Forgets what cannot land any more. As long as nobody lists the members, nobody can say of their changes that they have not happened.
fn forget_what_did_not_happen(untold: &mut Vec<(Event, Instant)>, is_listed: bool) {
    let is_known = |event: &Event| is_listed || matches!(event, Event::BirthAbandoned { .. });
    untold.retain(|(event, since)| !is_known(event) || since.elapsed() < LATE);
}

/// Whether the members, if somebody tells who they are, and the attempt at forming the cluster are what this tells of.
fn happened(
    list: Option<&[ListedMember]>,
    attempt: Option<i64>,
    event: &Event,
    has_pod: impl Fn(&str) -> bool,
) -> bool {
    let listed = |title: &str| list.map(|list| list.iter().any(|member| member.is_called(title)));
    match event {
        Event::ReplacingDeadMember { member } | Event::MemberRemoved { member } => {
            listed(member) == Some(false)
        }
        Event::NewMemberAdded { member } => listed(member) == Some(true) && has_pod(member),
        Event::BirthAbandoned { incarnation, .. } => attempt.is_some_and(|attempt| attempt > *incarnation),
        Event::MemberUpgraded { .. } => false,
    }
}

#[cfg(test)]
mod tests {
    use planner::MemberId;

    use super::*;

    #[test]
    fn a_change_of_an_earlier_round_is_told_when_it_has_happened_and_not_otherwise() {
        let removed = |member: &str| Event::MemberRemoved { member: member.to_owned() };
        let member = |id, name: Option<&str>, url: &str| ListedMember {
            id: MemberId(id),
            name: name.map(str::to_owned),
            peer_urls: vec![url.to_owned()],
            learner: false,
        };
        let list = [
            member(1, Some("a-1"), "http://a-1.a.n.svc:2380"),
            member(9, None, "http://192.0.2.1:2380"),
            member(10, Some("theirs"), "http://192.0.2.2:2380"),
        ];
        for (title, expected) in [("a-1", false), ("a-2", true), ("9", false), ("theirs", false), ("8", true)]
        {
            assert_eq!(happened(Some(&list), None, &removed(title), |_| false), expected, "{title}");
            assert!(!happened(None, None, &removed(title), |_| false), "nobody says who the members are");
        }
        let added = Event::NewMemberAdded { member: "a-1".to_owned() };
        let is_told = |pod: &str| happened(Some(&list), None, &added, |name| name == pod);
        assert!(is_told("a-1") && !is_told("a-2"));
        let abandoned =
            Event::BirthAbandoned { member: "a-1".to_owned(), incarnation: 2, why: String::new() };
        let table = [(None, false), (Some(2), false), (Some(3), true)];
        for (attempt, expected) in table {
            assert_eq!(happened(None, attempt, &abandoned, |_| false), expected, "{attempt:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_nobody_can_tell_of_is_not_forgotten_and_what_did_not_happen_is_after_a_while() {
        let gone = Event::MemberRemoved { member: "a-1".to_owned() };
        let abandoned =
            Event::BirthAbandoned { member: "a-1".to_owned(), incarnation: 2, why: String::new() };
        let left = |list: bool, event: &Event, since: Instant| {
            let mut untold = vec![(event.clone(), since)];
            forget_what_did_not_happen(&mut untold, list);
            !untold.is_empty()
        };
        let since = Instant::now();
        assert!(left(true, &gone, since) && left(false, &gone, since) && left(false, &abandoned, since));
        tokio::time::advance(LATE).await;
        assert!(!left(true, &gone, since), "the list says otherwise");
        assert!(left(false, &gone, since), "nobody says who the members are");
        assert!(!left(false, &abandoned, since), "the record says otherwise");
    }
}
