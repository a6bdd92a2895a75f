//! REPORT, for probes: which kinds are watched, and what is waited for.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Mutex, MutexGuard, PoisonError},
};

/// The kind without which there is nothing to do.
pub const CLUSTERS: &str = "EtcdCluster";

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
}

impl Health {
    fn kinds(&self) -> MutexGuard<'_, BTreeMap<&'static str, Watched>> {
        // Nothing that holds this lock can leave the map half changed.
        self.kinds.lock().unwrap_or_else(PoisonError::into_inner)
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
        (ready, if kinds.is_empty() { "starting\n".to_owned() } else { lines.collect() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
