//! What the status should say of each member: who it is, what it runs, and why it does not serve. Nothing that changes all the time is told
//! as it changes: a cluster at rest costs no writes.

use api::MemberDetails;

use crate::{
    Answer, SeenPod,
    membership::{Fate, Membership, Seat, seats_as_seen},
    rules::waiting_of,
    view::View,
};

/// A database that has moved by less than this is not told anew.
const DB_STEP: u64 = 1 << 20;

/// What is known of each member, by name; nothing where nobody is known.
pub(super) fn of(view: &View<'_>, membership: Option<&Membership<'_>>) -> Option<Vec<MemberDetails>> {
    let guessed;
    let seats: &[Seat<'_>] = if let Some(membership) = membership {
        &membership.seats
    } else {
        // Without a quorum, whom the member lists that has come furthest.
        let furthest = view.furthest().filter(|_| view.is_formed());
        guessed = furthest.map(|answer| seats_as_seen(view, answer)).unwrap_or_default();
        &guessed
    };
    let mut all: Vec<MemberDetails> = if seats.is_empty() {
        view.current().map(|pod| of_pod(view, pod)).collect()
    } else {
        seats.iter().map(|seat| of_seat(view, membership, seat)).collect()
    };
    all.sort_by(|a, b| a.name.cmp(&b.name));
    // Were two listed under one name, the API server would refuse the whole status.
    all.dedup_by(|a, b| a.name == b.name);
    Some(all).filter(|all| !all.is_empty())
}

fn of_pod(view: &View<'_>, pod: &SeenPod) -> MemberDetails {
    let answer = view.observed.answer(&pod.name);
    let id = answer.map(|answer| answer.member_id.to_string());
    let reason = waiting_of(pod).map(|waiting| waiting.reason.as_str());
    details(view, pod.name.clone(), id, Some(pod), answer, reason)
}

fn of_seat(view: &View<'_>, membership: Option<&Membership<'_>>, seat: &Seat<'_>) -> MemberDetails {
    let role = |membership: &Membership<'_>| match seat {
        seat if membership.is_leader(seat) => "Leader",
        seat if seat.is_voter() => "Voter",
        _ => "Learner",
    };
    let id = Some(seat.listed.id.to_string());
    let said = details(view, seat.title(), id, seat.pod, seat.answer, trouble(seat));
    MemberDetails { role: membership.map(role).map(str::to_owned), ..said }
}

/// Why a member does not serve, in a word of the API; nothing if it does.
fn trouble(seat: &Seat<'_>) -> Option<&'static str> {
    let waiting = seat.pod.and_then(waiting_of);
    let of_pod = waiting.as_ref().map(|waiting| waiting.reason.as_str());
    match seat.fate {
        Fate::Healthy if seat.is_voter() => of_pod,
        Fate::Healthy | Fate::Unmade => Some("WaitingForMemberJoined"),
        Fate::Silent { .. } => {
            Some(of_pod.filter(|_| waiting.is_some_and(|one| !one.passes)).unwrap_or("WaitingForMemberBack"))
        }
        Fate::Lost(_) => Some("MemberLost"),
        Fate::Disowned(_) => Some("PodDisowned"),
        Fate::Unknown => Some("UnknownMember"),
        Fate::Foreign => Some("ForeignMember"),
    }
}

fn details(
    view: &View<'_>,
    name: String,
    id: Option<String>,
    pod: Option<&SeenPod>,
    answer: Option<&Answer>,
    reason: Option<&str>,
) -> MemberDetails {
    let previous = view.observed.resource.status.member_details.as_deref().unwrap_or_default();
    let before = previous.iter().find(|before| before.name == name);
    // What it was seen to run stays while it is down: what it is ordered to run it may never have.
    let running = answer.and_then(|answer| answer.version).map(|version| version.to_string());
    let ordered = || Some(pod?.version()?.to_string());
    MemberDetails {
        id: id.or_else(|| before?.id.clone()),
        role: None,
        version: running.or_else(|| before?.version.clone()).or_else(ordered),
        db_size: coarse(answer.and_then(|answer| answer.db_bytes), before.and_then(|before| before.db_size)),
        reason: reason.map(str::to_owned),
        name,
    }
}

/// How large a database is said to be: what was said before, while that is about right.
fn coarse(now: Option<u64>, before: Option<i64>) -> Option<i64> {
    let Some(now) = now.and_then(|bytes| i64::try_from(bytes).ok()) else { return before };
    let step = |before: i64| DB_STEP.max(before.unsigned_abs() / 4);
    before.filter(|before| now.abs_diff(*before) < step(*before)).or(Some(now))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_is_told_anew_only_when_it_has_moved_by_a_quarter_and_a_mebibyte() {
        const MIB: i64 = 1 << 20;
        let table = [
            (None, None, None),
            (Some(5), None, Some(5)),
            (None, Some(7), Some(7)),
            (Some(MIB - 1), Some(0), Some(0)),
            (Some(MIB), Some(0), Some(MIB)),
            (Some(124 * MIB), Some(100 * MIB), Some(100 * MIB)),
            (Some(125 * MIB), Some(100 * MIB), Some(125 * MIB)),
            (Some(76 * MIB), Some(100 * MIB), Some(100 * MIB)),
            (Some(75 * MIB), Some(100 * MIB), Some(75 * MIB)),
        ];
        for (now, before, said) in table {
            assert_eq!(coarse(now.map(i64::unsigned_abs), before), said, "{now:?} {before:?}");
        }
        assert_eq!(coarse(Some(u64::MAX), Some(1)), Some(1));
    }
}
