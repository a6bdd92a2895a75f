//! HOW A MEMBER STARTS: releases of etcd that must not be started, and the newest known release of each minor.

use std::fmt;

use crate::version::{EtcdVersion, Minor};

/// A release that is refused, for a new cluster as well as as the target of an upgrade.
///
/// A cluster that already runs one is not touched: it may only move away from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KnownBad {
    /// The refused version.
    pub version: EtcdVersion,
    /// The first release of the same minor without the fault.
    pub fixed_in: EtcdVersion,
    /// What the release does to its users.
    pub harm: &'static str,
}

impl fmt::Display for KnownBad {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "etcd {} is not used: {}. It is fixed in {}; {} is the newest known here",
            self.version,
            self.harm,
            self.fixed_in,
            newest_known(self.version.minor())
        )
    }
}

/// Minor, last bad patch, harm. All patches up to the last bad one have the fault.
const BAD: [(Minor, u64, &str); 2] = [
    // etcd's own post-mortem of 2022: the consistent index was not stored together with the data.
    (
        Minor::V3_5,
        2,
        "a member that is killed under load can come back with other data than its peers, unnoticed",
    ),
    (Minor::V3_6, 3, "a member cannot start again once a learner was promoted"),
];

/// Why this version must not be started, or `None`.
#[must_use]
pub fn known_bad(version: EtcdVersion) -> Option<KnownBad> {
    BAD.into_iter()
        .find(|(minor, last, _)| version.minor() == *minor && version.patch() <= *last)
        .map(|(minor, last, harm)| KnownBad { version, fixed_in: EtcdVersion::new(minor, last + 1), harm })
}

/// The newest release of a minor that was known when this operator was built: the stop-over of an upgrade that jumps.
///
/// For 3.1 to 3.4 it is the last there will be.
#[must_use]
pub const fn newest_known(minor: Minor) -> EtcdVersion {
    let patch = match minor {
        Minor::V3_1 => 20,
        Minor::V3_2 => 32,
        Minor::V3_3 => 27,
        Minor::V3_4 => 45,
        Minor::V3_5 => 33,
        Minor::V3_6 => 14,
        Minor::V3_7 => 1,
    };
    EtcdVersion::new(minor, patch)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_that_lose_data_or_cannot_restart_are_refused() {
        let table = [
            ("3.5.0", Some("3.5.3")),
            ("3.5.2", Some("3.5.3")),
            ("3.5.3", None),
            ("3.6.0", Some("3.6.4")),
            ("3.6.3", Some("3.6.4")),
            ("3.6.4", None),
            ("3.7.0", None),
            ("3.4.0", None),
            // The versions of the book.
            ("3.1.10", None),
            ("3.2.13", None),
            ("3.3.12", None),
        ];
        for (text, fixed_in) in table {
            let found = known_bad(text.parse().unwrap());
            assert_eq!(found.map(|bad| bad.fixed_in.to_string()).as_deref(), fixed_in, "{text}");
        }
    }

    #[test]
    fn a_refusal_says_what_is_wrong_and_what_to_use() {
        let sentence = known_bad("3.6.2".parse().unwrap()).unwrap().to_string();
        assert_eq!(
            sentence,
            "etcd 3.6.2 is not used: a member cannot start again once a learner was promoted. \
             It is fixed in 3.6.4; 3.6.14 is the newest known here"
        );
    }

    #[test]
    fn no_stop_over_is_a_bad_release() {
        for minor in Minor::ALL {
            assert_eq!(newest_known(minor).minor(), minor);
            assert_eq!(known_bad(newest_known(minor)), None);
        }
    }
}
