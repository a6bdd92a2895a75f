//! What users read: the Events on an `EtcdCluster`, with the reasons and texts of the classic operator.

use std::fmt;

/// Something that happened to a member.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Event {
    /// A member joined.
    NewMemberAdded {
        /// Its name.
        member: String,
    },
    /// A member is lost and its place is being filled.
    ReplacingDeadMember {
        /// The lost one's name.
        member: String,
    },
    /// A member left.
    MemberRemoved {
        /// Its name.
        member: String,
    },
    /// A member runs another version.
    MemberUpgraded {
        /// Its name.
        member: String,
        /// The version it ran before.
        from: String,
        /// The version it runs now.
        to: String,
    },
    /// An attempt at forming the cluster ended before the cluster had formed, and another one starts.
    BirthAbandoned {
        /// The member that it ended for.
        member: String,
        /// Which attempt.
        incarnation: i64,
        /// What happened to it.
        why: String,
    },
}

impl Event {
    /// The Event's reason; the classic ones have spaces.
    #[must_use]
    pub fn reason(&self) -> &'static str {
        match self {
            Self::NewMemberAdded { .. } => "New Member Added",
            Self::ReplacingDeadMember { .. } => "Replacing Dead Member",
            Self::MemberRemoved { .. } => "Member Removed",
            Self::MemberUpgraded { .. } => "Member Upgraded",
            Self::BirthAbandoned { .. } => "BirthAbandoned",
        }
    }

    /// Whether the Event's type is Warning. The classic ones are all Normal.
    #[must_use]
    pub fn is_warning(&self) -> bool {
        matches!(self, Self::BirthAbandoned { .. })
    }

    /// Whether it is known by what the status said before: it is told once that is written anew, and then cannot be known again.
    #[must_use]
    pub fn follows_from_status(&self) -> bool {
        matches!(self, Self::MemberUpgraded { .. })
    }

    /// The pod that this is about: what keeps Events about different members apart where they are merged.
    #[must_use]
    pub fn member(&self) -> &str {
        match self {
            Self::NewMemberAdded { member }
            | Self::ReplacingDeadMember { member }
            | Self::MemberRemoved { member }
            | Self::MemberUpgraded { member, .. }
            | Self::BirthAbandoned { member, .. } => member,
        }
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NewMemberAdded { member } => write!(f, "New member {member} added to cluster"),
            Self::ReplacingDeadMember { member } => write!(f, "The dead member {member} is being replaced"),
            Self::MemberRemoved { member } => write!(f, "Existing member {member} removed from the cluster"),
            Self::MemberUpgraded { member, from, to } => {
                write!(f, "Member {member} upgraded from {from} to {to}")
            }
            Self::BirthAbandoned { incarnation, why, .. } => {
                write!(
                    f,
                    "Attempt {incarnation} at forming the cluster is abandoned and another one starts: {why}"
                )
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_read_as_in_the_book() {
        let member = || "a-95gqrthjbz".to_owned();
        let upgraded =
            Event::MemberUpgraded { member: member(), from: "3.1.10".to_owned(), to: "3.2.13".to_owned() };
        let table = [
            (
                Event::NewMemberAdded { member: member() },
                "New Member Added",
                "New member a-95gqrthjbz added to cluster",
            ),
            (
                Event::ReplacingDeadMember { member: member() },
                "Replacing Dead Member",
                "The dead member a-95gqrthjbz is being replaced",
            ),
            (
                Event::MemberRemoved { member: member() },
                "Member Removed",
                "Existing member a-95gqrthjbz removed from the cluster",
            ),
            (upgraded, "Member Upgraded", "Member a-95gqrthjbz upgraded from 3.1.10 to 3.2.13"),
        ];
        for (event, reason, text) in table {
            assert_eq!(
                (event.reason(), event.to_string().as_str(), event.member()),
                (reason, text, "a-95gqrthjbz")
            );
        }
    }
}
