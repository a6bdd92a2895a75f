//! HOW A MEMBER STARTS: which versions a cluster has to pass through to get from one to another.

use crate::{
    known::{KnownBad, known_bad, newest_known},
    version::{EtcdVersion, Minor},
};

/// Why a cluster cannot be brought to a version. It keeps running what it runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NoPath {
    /// The target is a release that must not be started.
    #[error("{0}")]
    KnownBad(KnownBad),
    /// The target's minor is below what every member runs already.
    #[error(
        "etcd cannot go back from {from} to {to}: every member runs {} already, and its data may be in a form that {} does not read",
        from.minor(), to.minor()
    )]
    BelowEveryMember {
        /// The lowest version that a member runs.
        from: EtcdVersion,
        /// The version asked for.
        to: EtcdVersion,
    },
}

/// The lowest patch of a minor from which the next minor may be entered.
///
/// 3.5 before 3.5.32 can hand 3.6 a wrong list of members (learners that were promoted, members that were removed); 3.6
/// before 3.6.11 is refused by the guide for 3.7. Older minors have no such gate.
const fn lowest_patch_to_leave(minor: Minor) -> u64 {
    match minor {
        Minor::V3_5 => 32,
        Minor::V3_6 => 11,
        _ => 0,
    }
}

/// The versions to bring the whole cluster to, one after another, ending with `to`; empty when it is there.
///
/// `lowest` is the lowest version that any member runs. That makes a roll-back come out right: as long as one member still
/// runs the old minor, the cluster's own version has not moved and etcd allows the others to return to it.
pub fn upgrade_path(lowest: EtcdVersion, to: EtcdVersion) -> Result<Vec<EtcdVersion>, NoPath> {
    if lowest == to {
        return Ok(Vec::new());
    }
    if let Some(bad) = known_bad(to) {
        return Err(NoPath::KnownBad(bad));
    }
    if to.minor() < lowest.minor() {
        return Err(NoPath::BelowEveryMember { from: lowest, to });
    }
    let mut path = Vec::new();
    let mut at = lowest;
    while at.minor() < to.minor() {
        if at.patch() < lowest_patch_to_leave(at.minor()) {
            path.push(newest_known(at.minor()));
        }
        at = match at.minor().next() {
            Some(next) if next < to.minor() => newest_known(next),
            _ => to,
        };
        path.push(at);
    }
    if path.is_empty() {
        path.push(to);
    }
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(from: &str, to: &str) -> String {
        match upgrade_path(from.parse().unwrap(), to.parse().unwrap()) {
            Ok(path) => path.iter().map(ToString::to_string).collect::<Vec<_>>().join(" "),
            Err(refused) => refused.to_string(),
        }
    }

    #[test]
    fn a_path_walks_one_minor_at_a_time_through_releases_that_may_be_left() {
        let table = [
            // There already.
            ("3.6.14", "3.6.14", ""),
            // The book's way.
            ("3.1.10", "3.2.13", "3.2.13"),
            ("3.2.13", "3.3.12", "3.3.12"),
            ("3.1.10", "3.3.12", "3.2.32 3.3.12"),
            // Within a minor, both ways.
            ("3.6.4", "3.6.14", "3.6.14"),
            ("3.6.14", "3.6.4", "3.6.4"),
            // The gates.
            ("3.5.31", "3.6.14", "3.5.33 3.6.14"),
            ("3.5.32", "3.6.14", "3.6.14"),
            ("3.6.10", "3.7.1", "3.6.14 3.7.1"),
            ("3.6.11", "3.7.1", "3.7.1"),
            ("3.5.16", "3.7.1", "3.5.33 3.6.14 3.7.1"),
            // A later patch than the newest one known here may be left and entered.
            ("3.5.40", "3.6.20", "3.6.20"),
            // The whole way.
            ("3.1.10", "3.7.1", "3.2.32 3.3.27 3.4.45 3.5.33 3.6.14 3.7.1"),
            ("3.3.12", "3.4.23", "3.4.23"),
            ("3.4.23", "3.5.33", "3.5.33"),
            // Leaving a bad release is what its users should do.
            ("3.5.1", "3.5.33", "3.5.33"),
            ("3.6.0", "3.7.1", "3.6.14 3.7.1"),
        ];
        for (from, to, expected) in table {
            assert_eq!(path(from, to), expected, "{from} to {to}");
        }
    }

    #[test]
    fn bad_targets_and_lower_minors_are_refused() {
        let table = [
            ("3.4.45", "3.5.1", "not used"),
            ("3.5.33", "3.6.3", "not used"),
            ("3.6.14", "3.5.33", "cannot go back from 3.6.14 to 3.5.33"),
            ("3.7.1", "3.5.33", "cannot go back"),
        ];
        for (from, to, expected) in table {
            assert!(path(from, to).contains(expected), "{from} to {to}: {}", path(from, to));
        }
    }

    #[test]
    fn every_path_climbs_by_at_most_one_minor_and_passes_no_bad_release() {
        let versions: Vec<EtcdVersion> = Minor::ALL
            .into_iter()
            .flat_map(|minor| (0..40).step_by(3).map(move |patch| EtcdVersion::new(minor, patch)))
            .collect();
        for &from in &versions {
            for &to in &versions {
                let Ok(path) = upgrade_path(from, to) else {
                    continue;
                };
                assert_eq!(path.last().copied().unwrap_or(from), to);
                let mut at = from;
                for step in path {
                    assert!(
                        step.minor().number() - at.minor().number() <= 1,
                        "{from} to {to}: {at} to {step}"
                    );
                    assert!(step.minor() == at.minor() || at.patch() >= lowest_patch_to_leave(at.minor()));
                    assert_eq!(known_bad(step), None);
                    at = step;
                }
            }
        }
    }
}
