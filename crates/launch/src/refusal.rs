//! HOW A MEMBER STARTS: why the launcher does not start etcd, said once for people and once for machines.
//!
//! The launcher writes it as the container's termination message; the operator reads it back from the pod's status.

use std::{fmt, str::FromStr};

use crate::{order::Seal, version::EtcdVersion};

/// What precedes the reason in a termination message.
const PREFIX: &str = "etcd-launcher refuses (";

/// Kubernetes cuts termination messages at 4096 bytes; a sentence stays well below.
const LONGEST: usize = 2048;

macro_rules! reasons {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {
        /// The stable word for a refusal. Words are never renamed: a launcher may be older than the operator that reads it.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Reason {
            $($(#[$doc])* $name,)*
        }

        impl Reason {
            /// Every reason.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// The word itself.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$name => stringify!($name),)*
                }
            }
        }
    };
}

reasons! {
    /// There is no order to follow.
    OrderMissing,
    /// The order cannot be understood, or contradicts the pod.
    OrderUnreadable,
    /// The order is in a form of a later operator.
    OrderTooNew,
    /// The image holds no etcd that runs.
    EtcdNotRunnable,
    /// The image holds another version of etcd than expected.
    VersionMismatch,
    /// The member has run before, and its data is gone.
    DataLost,
    /// The data belongs to somebody else, or to nobody known.
    DataForeign,
    /// The volume cannot be read or written.
    StorageFailed,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Why etcd is not started, with what was seen.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The environment holds no order.
    #[error("the pod carries no launch order")]
    OrderMissing,
    /// The order is not one, or does not fit this container.
    #[error("{why}")]
    OrderUnreadable {
        /// What is wrong with it.
        why: String,
    },
    /// The order is in a later form.
    #[error("{why}; the pod has to be made again by the operator that wrote it")]
    OrderTooNew {
        /// Which form was found.
        why: String,
    },
    /// `etcd --version` did not answer.
    #[error("{program} does not run in this image: {why}")]
    EtcdNotRunnable {
        /// The program that was asked.
        program: String,
        /// What happened.
        why: String,
    },
    /// `etcd --version` answered with another version.
    #[error("the image holds etcd {found} where {expected} was expected")]
    VersionMismatch {
        /// The version of the order.
        expected: EtcdVersion,
        /// The version that was reported.
        found: String,
    },
    /// There is no data where there was some.
    #[error(
        "{member} has run before but its data is gone; starting it empty under its old identity could lose acknowledged writes"
    )]
    DataLost {
        /// The member.
        member: String,
    },
    /// There is data, but not this member's.
    #[error("the volume of {} holds {found}", expected.member)]
    DataForeign {
        /// Who was to be started.
        expected: Seal,
        /// Whose data is there.
        found: String,
    },
    /// Reading or writing failed.
    #[error("{attempted} failed: {why}")]
    StorageFailed {
        /// What was attempted.
        attempted: String,
        /// How it failed.
        why: String,
    },
}

impl Refusal {
    /// The stable word for it.
    #[must_use]
    pub const fn reason(&self) -> Reason {
        match self {
            Self::OrderMissing => Reason::OrderMissing,
            Self::OrderUnreadable { .. } => Reason::OrderUnreadable,
            Self::OrderTooNew { .. } => Reason::OrderTooNew,
            Self::EtcdNotRunnable { .. } => Reason::EtcdNotRunnable,
            Self::VersionMismatch { .. } => Reason::VersionMismatch,
            Self::DataLost { .. } => Reason::DataLost,
            Self::DataForeign { .. } => Reason::DataForeign,
            Self::StorageFailed { .. } => Reason::StorageFailed,
        }
    }

    /// The refusal as a container's termination message: one line.
    #[must_use]
    pub fn to_termination_message(&self) -> String {
        Refused { reason: self.reason(), sentence: self.to_string() }.to_string()
    }
}

/// A refusal as the operator reads it from a pod's status.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// The stable word.
    pub reason: Reason,
    /// The sentence for people.
    pub sentence: String,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sentence = self.sentence.split_whitespace().collect::<Vec<_>>().join(" ");
        let cut = sentence.floor_char_boundary(LONGEST);
        write!(f, "{PREFIX}{}): {}", self.reason, sentence.get(..cut).unwrap_or_default())
    }
}

/// A termination message that is not a refusal of the launcher's, such as one of etcd's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the termination message is not a refusal by the launcher")]
pub struct NotARefusal;

impl FromStr for Refused {
    type Err = NotARefusal;

    fn from_str(message: &str) -> Result<Self, Self::Err> {
        let (word, sentence) =
            message.trim().strip_prefix(PREFIX).and_then(|rest| rest.split_once("): ")).ok_or(NotARefusal)?;
        let reason = Reason::ALL.iter().find(|reason| reason.as_str() == word).ok_or(NotARefusal)?;
        Ok(Self { reason: *reason, sentence: sentence.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn every_refusal() -> Vec<Refusal> {
        let text = || "x".to_owned();
        let expected = Seal { member: "a-bcdfghjk24".parse().unwrap(), token: "t-1".parse().unwrap() };
        vec![
            Refusal::OrderMissing,
            Refusal::OrderUnreadable { why: text() },
            Refusal::OrderTooNew { why: text() },
            Refusal::EtcdNotRunnable { program: text(), why: text() },
            Refusal::VersionMismatch { expected: "3.6.14".parse().unwrap(), found: "3.5.33".to_owned() },
            Refusal::DataLost { member: text() },
            Refusal::DataForeign { expected, found: text() },
            Refusal::StorageFailed { attempted: text(), why: text() },
        ]
    }

    #[test]
    fn every_refusal_comes_back_from_its_termination_message() {
        let mut seen = Vec::new();
        for refusal in every_refusal() {
            let read: Refused = refusal.to_termination_message().parse().unwrap();
            assert_eq!(read, Refused { reason: refusal.reason(), sentence: refusal.to_string() });
            seen.push(refusal.reason());
        }
        assert_eq!(seen, Reason::ALL, "a reason without a refusal");
    }

    #[test]
    fn a_refusal_reads_well_where_kubectl_shows_it() {
        assert_eq!(
            every_refusal()[4].to_termination_message(),
            "etcd-launcher refuses (VersionMismatch): the image holds etcd 3.5.33 where 3.6.14 was expected"
        );
    }

    #[test]
    fn other_messages_are_not_taken_for_refusals() {
        for message in
            ["", "panic: tocommit(9) is out of range", "etcd-launcher refuses (Unheard): of", "DataLost: x"]
        {
            assert_eq!(message.parse::<Refused>(), Err(NotARefusal), "{message:?}");
        }
    }

    #[test]
    fn a_message_is_one_line_that_kubernetes_does_not_cut() {
        let refusal = Refusal::OrderUnreadable { why: format!("a\nb\n{}", "ä".repeat(9000)) };
        let message = refusal.to_termination_message();
        assert!(message.len() < 4096 && !message.contains('\n') && message.contains("a b "));
        assert!(message.parse::<Refused>().is_ok());
    }
}
