//! HOW A MEMBER STARTS: the etcd versions this operator can run, and what each of them can do.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

/// Longest text that is read as a version, so that a hostile one never reaches a condition or a log in full.
const LONGEST: usize = 32;

/// A minor release line of etcd whose flags and rules are known here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs, reason = "each name is the minor itself")]
pub enum Minor {
    V3_1,
    V3_2,
    V3_3,
    V3_4,
    V3_5,
    V3_6,
    V3_7,
}

impl Minor {
    /// Every known minor, oldest first.
    pub const ALL: [Self; 7] =
        [Self::V3_1, Self::V3_2, Self::V3_3, Self::V3_4, Self::V3_5, Self::V3_6, Self::V3_7];

    /// The second number of the version, as in 3.**6**.14.
    #[must_use]
    pub const fn number(self) -> u64 {
        match self {
            Self::V3_1 => 1,
            Self::V3_2 => 2,
            Self::V3_3 => 3,
            Self::V3_4 => 4,
            Self::V3_5 => 5,
            Self::V3_6 => 6,
            Self::V3_7 => 7,
        }
    }

    /// The minor after this one, if it is known.
    #[must_use]
    pub fn next(self) -> Option<Self> {
        Self::ALL.into_iter().find(|minor| *minor > self)
    }

    /// Whether a member can join as a learner (from 3.4 on).
    #[must_use]
    pub fn has_learners(self) -> bool {
        self >= Self::V3_4
    }

    /// Whether the leader can be moved away on request (from 3.3 on).
    #[must_use]
    pub fn moves_leader(self) -> bool {
        self >= Self::V3_3
    }

    /// Whether members can be compared by a hash of their keys at one revision (from 3.3 on).
    #[must_use]
    pub fn hashes_keys(self) -> bool {
        self >= Self::V3_3
    }

    /// Whether the status of a member says how far it has applied the log (from 3.4 on).
    #[must_use]
    pub fn reports_applied_index(self) -> bool {
        self >= Self::V3_4
    }
}

impl fmt::Display for Minor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "3.{}", self.number())
    }
}

/// A released version of etcd that this operator can run, such as 3.6.14.
///
/// Pre-releases, and minors whose flags are not known here, do not parse: whoever holds a value can build a command
/// line for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct EtcdVersion {
    minor: Minor,
    patch: u64,
}

impl EtcdVersion {
    /// The version of this minor and patch number.
    #[must_use]
    pub const fn new(minor: Minor, patch: u64) -> Self {
        Self { minor, patch }
    }

    /// The minor release line.
    #[must_use]
    pub const fn minor(self) -> Minor {
        self.minor
    }

    /// The third number of the version.
    #[must_use]
    pub const fn patch(self) -> u64 {
        self.patch
    }

    /// The tag that etcd's images carry for this version.
    #[must_use]
    pub fn image_tag(self) -> String {
        format!("v{self}")
    }

    /// Whether etcd itself refuses to add any member, a learner included, while one voter is disconnected.
    ///
    /// It did until 3.5.30 and 3.6.11; since then it asks only for a quorum in the configuration that results. So on older
    /// versions a dead member has to be removed before its replacement is added.
    #[must_use]
    pub fn add_needs_every_voter(self) -> bool {
        match self.minor {
            Minor::V3_7 => false,
            Minor::V3_6 => self.patch < 11,
            Minor::V3_5 => self.patch < 30,
            _ => true,
        }
    }
}

impl fmt::Display for EtcdVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.minor, self.patch)
    }
}

/// Why a text is not a version that this operator can run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidVersion {
    /// Not three numbers.
    #[error("\"{text}\" is not a version of etcd: write three numbers, such as 3.6.14")]
    NotAVersion {
        /// What was written, shortened.
        text: String,
    },
    /// A release candidate, or a build of somebody's own.
    #[error("etcd {text} is not a release: this operator runs released versions only")]
    NotReleased {
        /// What was written.
        text: String,
    },
    /// A minor whose flags and rules are not known here.
    #[error("etcd {text} is not known to this operator: it runs 3.1 to 3.7")]
    UnknownMinor {
        /// What was written.
        text: String,
    },
}

impl FromStr for EtcdVersion {
    type Err = InvalidVersion;

    /// Reads `3.6.14` or `v3.6.14`.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let shown = || text.chars().take(LONGEST).collect::<String>();
        if text.len() > LONGEST {
            return Err(InvalidVersion::NotAVersion { text: format!("{}…", shown()) });
        }
        let parsed = semver::Version::parse(text.strip_prefix('v').unwrap_or(text))
            .map_err(|_| InvalidVersion::NotAVersion { text: shown() })?;
        if !parsed.pre.is_empty() || !parsed.build.is_empty() {
            return Err(InvalidVersion::NotReleased { text: shown() });
        }
        let minor = Minor::ALL
            .into_iter()
            .find(|minor| parsed.major == 3 && minor.number() == parsed.minor)
            .ok_or_else(|| InvalidVersion::UnknownMinor { text: shown() })?;
        Ok(Self { minor, patch: parsed.patch })
    }
}

impl TryFrom<String> for EtcdVersion {
    type Error = InvalidVersion;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<EtcdVersion> for String {
    fn from(version: EtcdVersion) -> Self {
        version.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(text: &str) -> EtcdVersion {
        text.parse().unwrap()
    }

    #[test]
    fn a_version_reads_the_same_with_and_without_v() {
        for text in ["3.1.10", "3.2.13", "3.3.12", "3.4.45", "3.5.33", "3.6.14", "3.7.1"] {
            assert_eq!(version(text), version(&format!("v{text}")));
            assert_eq!(version(text).to_string(), text);
            assert_eq!(version(text).image_tag(), format!("v{text}"));
        }
    }

    #[test]
    fn what_is_no_runnable_version_is_refused_with_its_reason() {
        let long = "3.6.1".to_owned() + &"4".repeat(10_000);
        let table = [
            ("", "not a version"),
            ("latest", "not a version"),
            ("3.6", "not a version"),
            ("vv3.6.14", "not a version"),
            (" 3.6.14", "not a version"),
            ("3.6.014", "not a version"),
            ("3.6.14; rm -rf /", "not a version"),
            ("3.6.-1", "not a version"),
            ("3.6.99999999999999999999", "not a version"),
            (long.as_str(), "not a version"),
            ("3.6.0-rc.1", "not a release"),
            ("3.6.14+dfsg", "not a release"),
            ("3.0.17", "runs 3.1 to 3.7"),
            ("3.8.0", "runs 3.1 to 3.7"),
            ("2.3.8", "runs 3.1 to 3.7"),
            ("4.6.1", "runs 3.1 to 3.7"),
        ];
        for (text, expected) in table {
            let sentence = text.parse::<EtcdVersion>().unwrap_err().to_string();
            assert!(sentence.contains(expected), "{text:?} gave {sentence:?}");
            assert!(sentence.len() < 200, "{text:?} is echoed in full");
        }
    }

    #[test]
    fn versions_are_ordered_by_number_and_not_by_letter() {
        let mut versions = ["3.10.0", "3.5.9", "3.5.33", "3.7.0", "3.6.14"].map(str::parse::<EtcdVersion>);
        assert!(versions[0].is_err());
        versions[0] = "3.1.20".parse();
        let mut sorted = versions.map(Result::unwrap);
        sorted.sort();
        assert_eq!(sorted.map(|v| v.to_string()), ["3.1.20", "3.5.9", "3.5.33", "3.6.14", "3.7.0"]);
    }

    #[test]
    fn abilities_begin_with_the_minor_that_brought_them() {
        for minor in Minor::ALL {
            assert_eq!(minor.has_learners(), minor.number() >= 4);
            assert_eq!(minor.moves_leader(), minor.number() >= 3);
            assert_eq!(minor.hashes_keys(), minor.number() >= 3);
            assert_eq!(minor.reports_applied_index(), minor.number() >= 4);
            assert_eq!(minor.next().map(Minor::number), Some(minor.number() + 1).filter(|n| *n <= 7));
        }
    }

    #[test]
    fn an_add_needs_every_voter_only_before_the_rule_was_relaxed() {
        let table = [
            ("3.1.10", true),
            ("3.4.45", true),
            ("3.5.29", true),
            ("3.5.30", false),
            ("3.6.10", true),
            ("3.6.11", false),
            ("3.7.0", false),
        ];
        for (text, expected) in table {
            assert_eq!(version(text).add_needs_every_voter(), expected, "{text}");
        }
    }

    #[test]
    fn a_version_travels_as_text() {
        assert_eq!(serde_json::to_string(&version("v3.6.14")).unwrap(), "\"3.6.14\"");
        assert_eq!(serde_json::from_str::<EtcdVersion>("\"v3.6.14\"").unwrap(), version("3.6.14"));
        assert!(serde_json::from_str::<EtcdVersion>("\"3.8.0\"").is_err());
    }
}
