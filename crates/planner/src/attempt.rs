//! One attempt at forming a cluster: the token that `status.birth` latched, and every name that follows from it.
//!
//! Names follow from the token alone, so whoever reads the latch computes the same initial cluster. The token is fresh for every
//! attempt, so no name comes twice; and no pod is ever made a second time under its name (`rules::abandon` says why).

use api::{Birth, names};
use launch::{ClusterToken, InvalidMember, MemberName};

use crate::digest;

/// One attempt at forming a cluster.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Attempt {
    /// Which one, from 1.
    pub incarnation: i64,
    /// Its token.
    pub token: ClusterToken,
}

impl Attempt {
    /// The attempt that a record of birth speaks of.
    pub fn of(birth: &Birth) -> Result<Self, InvalidMember> {
        Ok(Self { incarnation: birth.incarnation, token: birth.token.parse()? })
    }

    /// The label that sets this attempt's pods apart: the number for people and for order, and a digest of the token,
    /// because a deleted cluster of the same name had an attempt 1 too and its pods may still be there.
    #[must_use]
    pub fn label(&self) -> String {
        format!("{}-{}", self.incarnation, digest::short(&["attempt", self.token.as_str()], 8))
    }

    /// The number in such a label.
    #[must_use]
    pub fn incarnation_in(label: &str) -> Option<i64> {
        label.split_once('-').and_then(|(number, _)| number.parse().ok())
    }

    /// The name of one member.
    pub fn member(&self, cluster: &str, ordinal: usize) -> Result<MemberName, InvalidMember> {
        let parts = ["member", self.token.as_str(), &ordinal.to_string()];
        format!("{cluster}-{}", digest::short(&parts, names::MEMBER_SUFFIX_LENGTH)).parse()
    }

    /// The names of the first `size` members. A cluster name that makes no member names has none.
    #[must_use]
    pub fn members(&self, cluster: &str, size: usize) -> Vec<MemberName> {
        (0..size).filter_map(|ordinal| self.member(cluster, ordinal).ok()).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn attempt(incarnation: i64, token: &str) -> Attempt {
        Attempt { incarnation, token: token.parse().unwrap() }
    }

    #[test]
    fn names_look_as_in_the_book_and_follow_from_the_token() {
        let names = attempt(1, "t-1").members("example-etcd-cluster", 7);
        assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), 7);
        for name in &names {
            let suffix = name.as_str().strip_prefix("example-etcd-cluster-").unwrap();
            assert_eq!(suffix.len(), 10);
            assert!(suffix.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit()), "{name}");
        }
        assert_eq!(attempt(1, "t-1").members("example-etcd-cluster", 3), names[..3], "smaller is a prefix");
        assert!(names.iter().all(|n| !attempt(2, "t-2").members("example-etcd-cluster", 7).contains(n)));
    }

    #[test]
    fn the_longest_cluster_name_still_has_members_and_a_bad_one_has_none() {
        assert_eq!(attempt(1, "t").members(&"a".repeat(52), 3).len(), 3);
        assert_eq!(attempt(1, "t").members(&"a".repeat(53), 3), []);
        assert_eq!(attempt(1, "t").members("A_B", 3), []);
    }

    #[test]
    fn a_label_tells_the_attempt_and_the_cluster_it_was_made_for() {
        let label = attempt(12, "t-1").label();
        assert_eq!(Attempt::incarnation_in(&label), Some(12));
        assert_ne!(label, attempt(12, "t-2").label());
        for other in ["", "1", "x-1", "-1-x", "99999999999999999999-x"] {
            assert!(Attempt::incarnation_in(other).is_none(), "{other:?}");
        }
    }

    #[test]
    fn a_token_that_is_none_makes_no_attempt() {
        assert!(Attempt::of(&Birth::first("a b".to_owned())).is_err());
        assert_eq!(Attempt::of(&Birth::first("t".to_owned())), Ok(attempt(1, "t")));
    }
}
