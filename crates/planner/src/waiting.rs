//! Why something is not done in this round: data, never an error and never a sleep.

use api::Reason;

use std::time::Duration;

use crate::{
    Timestamp,
    observed::{RefusalClass, RefusedObject, SquattedName},
};

/// A reason for not doing something, and when to look again where no event will tell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// Why. The word for machines and the sentence for people are the API's.
    pub reason: Reason,
    /// Whether it passes without anybody doing anything; otherwise somebody has to act.
    pub passes: bool,
    /// When to look again, at the latest.
    pub until: Option<Timestamp>,
}

impl Waiting {
    /// Something that comes by itself.
    #[must_use]
    pub fn passing(reason: Reason) -> Self {
        Self { reason, passes: true, until: None }
    }

    /// Something that somebody has to put right.
    #[must_use]
    pub fn blocked(reason: Reason) -> Self {
        Self { reason, passes: false, until: None }
    }

    /// The same, looked at again then.
    #[must_use]
    pub fn until(self, moment: Option<Timestamp>) -> Self {
        Self { until: moment, ..self }
    }
}

/// How long a refused write is left alone: what refused it, a quota or a permission, changes without an event for us.
const RETRY: Duration = Duration::from_secs(5);

/// The same for etcd, whose usual reason (voters that are connected for less than 5 s) passes by itself.
const RETRY_ETCD: Duration = Duration::from_secs(1);

/// The same where nobody refuses, and it comes to nothing each time: at first, and at the longest.
const RETRY_IN_VAIN: (Duration, Duration) = (Duration::from_secs(1), Duration::from_mins(1));

/// How often the same may come to nothing before it is no accident.
pub const OFTEN: u32 = 3;

/// What to wait for, while it is too soon to try again what was refused.
pub(crate) fn too_soon(refused: &RefusedObject, now: Timestamp) -> Option<Waiting> {
    let pause = match refused.class {
        RefusalClass::Etcd => RETRY_ETCD,
        RefusalClass::Undone { times } | RefusalClass::NotJoined { times } => {
            let (first, longest) = RETRY_IN_VAIN;
            first.saturating_mul(1 << times.saturating_sub(OFTEN).min(10)).min(longest)
        }
        _ => RETRY,
    };
    let due = refused.at.checked_add(pause).ok()?;
    // A clock that was set back makes nobody wait for what was hours ago.
    (refused.at <= now && now < due).then(|| Waiting::blocked(reason_of(refused)).until(Some(due)))
}

/// The reason of a refusal.
pub(crate) fn reason_of(refused: &RefusedObject) -> Reason {
    let (kind, name, message) = (refused.kind.to_owned(), refused.name.clone(), refused.message.clone());
    match refused.class {
        RefusalClass::Quota => Reason::QuotaExceeded { kind, name, message },
        RefusalClass::Permission => Reason::PermissionMissing { kind, name, message },
        RefusalClass::Rejected => Reason::CreationRefused { kind, name, message },
        RefusalClass::NameTaken => Reason::NameTaken { kind, name, owner: message },
        RefusalClass::NamespaceTerminating => Reason::NamespaceTerminating { namespace: message },
        RefusalClass::CrdOutdated => Reason::CrdOutdated { crd: message },
        RefusalClass::Etcd => Reason::MembershipRefused { message },
        RefusalClass::NotJoined { times } => Reason::JoinFailing { times, message },
        RefusalClass::Undone { .. } => Reason::ChangeUndone { kind, name },
    }
}

/// The reason for leaving a name alone.
pub(crate) fn taken(squatted: &SquattedName) -> Reason {
    let (kind, name, owner) = (squatted.kind.to_owned(), squatted.name.clone(), squatted.owner.clone());
    Reason::NameTaken { kind, name, owner }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_refusal_has_a_sentence_with_the_name_of_what_was_refused() {
        let classes = [
            (RefusalClass::Quota, "QuotaExceeded"),
            (RefusalClass::Permission, "PermissionMissing"),
            (RefusalClass::Rejected, "CreationRefused"),
            (RefusalClass::NameTaken, "NameTaken"),
            (RefusalClass::NamespaceTerminating, "NamespaceTerminating"),
            (RefusalClass::CrdOutdated, "CrdOutdated"),
            (RefusalClass::Etcd, "MembershipRefused"),
            (RefusalClass::NotJoined { times: 3 }, "JoinFailing"),
        ];
        for (class, word) in classes {
            let at = "2026-01-01T00:00:00Z".parse().unwrap();
            let refused = RefusedObject {
                kind: "Pod",
                name: "a-1".to_owned(),
                class,
                message: "theirs".to_owned(),
                at,
            };
            let reason = reason_of(&refused);
            assert_eq!(reason.as_str(), word);
            assert!(reason.to_string().contains("theirs"), "{reason}");
        }
    }

    #[test]
    fn what_somebody_undoes_each_time_is_put_right_less_and_less_often() {
        let at: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let pause = |times: u32| {
            let class = RefusalClass::Undone { times };
            let refused =
                RefusedObject { kind: "Service", name: "a".to_owned(), class, message: String::new(), at };
            assert_eq!(reason_of(&refused).as_str(), "ChangeUndone");
            let until = too_soon(&refused, at).and_then(|waiting| waiting.until).unwrap();
            until.duration_since(at).as_secs()
        };
        assert_eq!([3, 4, 5, 8, 9, 1000].map(pause), [1, 2, 4, 32, 60, 60]);
    }

    #[test]
    fn a_refused_write_is_left_alone_for_a_while_and_then_tried_again() {
        let moment = |second: u32| format!("2026-01-01T00:00:{second:02}Z").parse().unwrap();
        let refused = RefusedObject {
            kind: "Pod",
            name: "a-1".to_owned(),
            class: RefusalClass::Quota,
            message: String::new(),
            at: moment(10),
        };
        // At 5, the clock was set back.
        for (now, waits) in [(5, false), (10, true), (14, true), (15, false), (40, false)] {
            assert_eq!(too_soon(&refused, moment(now)).is_some(), waits, "{now}");
        }
        assert_eq!(too_soon(&refused, moment(11)).unwrap().until, Some(moment(15)));
    }
}
