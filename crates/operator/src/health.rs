//! REPORT, for probes: which kinds are watched, and what is waited for.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Mutex, MutexGuard, PoisonError},
};

/// The kind without which there is nothing to do.
pub const CLUSTERS: &str = "EtcdCluster";
/// CRDs that are not as this operator would have them.
pub const CRDS: &str = "CRDs";
/// Who leads.
pub const LEASE: &str = "Lease";
/// Which Kubernetes this is, where it is too old.
pub const KUBERNETES: &str = "Kubernetes";
/// Who else leads over the same resources.
pub const RIVALS: &str = "Other operators";

/// How far the watch of a kind is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Watched {
    /// The kind is not there, or it could not be told whether it is.
    Missing(String),
    /// The first list is under way.
    Starting,
    /// All that exists is known.
    Synced,
}

impl fmt::Display for Watched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing(why) => f.write_str(why),
            Self::Starting => f.write_str("the first list is under way"),
            Self::Synced => f.write_str("watched"),
        }
    }
}

/// What probes are answered from.
#[derive(Debug, Default)]
pub struct Health {
    kinds: Mutex<BTreeMap<&'static str, Watched>>,
    remarks: Mutex<BTreeMap<&'static str, String>>,
}

impl Health {
    fn kinds(&self) -> MutexGuard<'_, BTreeMap<&'static str, Watched>> {
        // Nothing that holds this lock can leave the map half changed.
        self.kinds.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn remarks(&self) -> MutexGuard<'_, BTreeMap<&'static str, String>> {
        self.remarks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells something beside the kinds, which does not decide whether this process is ready; empty takes it back. Whether that is news.
    pub fn remark(&self, about: &'static str, words: String) -> bool {
        let mut remarks = self.remarks();
        if words.is_empty() {
            remarks.remove(about).is_some()
        } else {
            remarks.insert(about, words.clone()) != Some(words)
        }
    }

    /// Notes how far a watch is. Whether that is news.
    pub fn note(&self, kind: &'static str, watched: Watched) -> bool {
        self.kinds().insert(kind, watched.clone()) != Some(watched)
    }

    /// Whether clusters are looked after, by this process or, while it stands by, as soon as it has to; and what is known of each kind.
    #[must_use]
    pub fn ready(&self) -> (bool, String) {
        let kinds = self.kinds();
        let ready = kinds.get(CLUSTERS) == Some(&Watched::Synced);
        let lines = kinds.iter().map(|(kind, watched)| format!("{kind}: {watched}\n"));
        let watched: String = if kinds.is_empty() { "starting\n".to_owned() } else { lines.collect() };
        let remarks: String =
            self.remarks().iter().map(|(about, words)| [about, ": ", words, "\n"].concat()).collect();
        (ready, watched + &remarks)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_told_beside_the_kinds_is_shown_until_it_is_taken_back_and_decides_nothing() {
        let health = Health::default();
        health.note(CLUSTERS, Watched::Synced);
        assert!(
            health.remark(LEASE, "stands by".to_owned()) && !health.remark(LEASE, "stands by".to_owned())
        );
        assert_eq!(health.ready(), (true, "EtcdCluster: watched\nLease: stands by\n".to_owned()));
        assert!(health.remark(LEASE, String::new()) && !health.remark(LEASE, String::new()));
        assert_eq!(health.ready().1, "EtcdCluster: watched\n");
    }

    #[test]
    fn ready_means_that_clusters_are_watched_whatever_other_kinds_there_are() {
        let health = Health::default();
        assert!(!health.ready().0);
        health.note("EtcdBackup", Watched::Missing("no CRD".to_owned()));
        health.note(CLUSTERS, Watched::Starting);
        assert!(!health.ready().0);
        assert!(health.note(CLUSTERS, Watched::Synced) && !health.note(CLUSTERS, Watched::Synced));
        let (ready, text) = health.ready();
        assert!(ready && text.contains("EtcdBackup: no CRD"), "{text}");
    }
}
