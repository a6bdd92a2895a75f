//! REPORT, for dashboards of the classic operator: its metrics, under its names. A counter has no `_total` there, as it had none before
//! `OpenMetrics`, so each is a gauge here that only rises.

use std::{
    collections::BTreeMap,
    sync::{Mutex, PoisonError},
};

use prometheus_client::{
    metrics::{family::Family, gauge::Gauge, histogram::Histogram},
    registry::Registry,
};

use super::{ClusterFigures, ClusterLabels};

/// A label of the classic operator: its case is its own.
type Label = [(&'static str, String); 1];

/// What the classic operator counted.
#[derive(Default)]
pub(super) struct Classic {
    /// What each cluster was like last.
    known: Mutex<BTreeMap<ClusterLabels, ClusterFigures>>,
    clusters: Gauge,
    created: Gauge,
    deleted: Gauge,
    modified: Gauge,
    failed: Gauge,
    durations: Durations,
    reconcile_failed: Family<Label, Gauge>,
}

/// The durations of rounds, by cluster.
struct Durations(Family<Label, Histogram, fn() -> Histogram>);

impl Default for Durations {
    fn default() -> Self {
        Self(Family::new_with_constructor(|| {
            Histogram::new([0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 51.2])
        }))
    }
}

impl Classic {
    pub(super) fn register(&self, all: &mut Registry) {
        for (name, help, gauge) in [
            ("clusters", "How many clusters this process looks after", &self.clusters),
            (
                "clusters_created",
                "Clusters that this process began to look after, also those that were there when it started",
                &self.created,
            ),
            ("clusters_deleted", "Clusters that this process looked after and that are gone", &self.deleted),
            ("clusters_modified", "Changes of a cluster's spec that this process saw", &self.modified),
            ("clusters_failed", "How often a cluster's phase became Failed", &self.failed),
        ] {
            all.register(
                format!("controller_{name}"),
                format!("{help} (the classic operator's name)"),
                gauge.clone(),
            );
        }
        all.register(
            "cluster_reconcile_duration",
            "How many seconds a round that succeeded took, by the cluster's name (the classic operator's name)",
            self.durations.0.clone(),
        );
        all.register(
            "cluster_reconcile_failed",
            "Rounds that failed, by reason: failed or panicked (the classic operator's name)",
            self.reconcile_failed.clone(),
        );
    }

    pub(super) fn round(&self, cluster: &str, outcome: &'static str, seconds: f64) {
        if ["failed", "panicked"].contains(&outcome) {
            self.reconcile_failed.get_or_create(&[("Reason", outcome.to_owned())]).inc();
        } else {
            self.durations.0.get_or_create(&[("ClusterName", cluster.to_owned())]).observe(seconds);
        }
    }

    pub(super) fn cluster(&self, labels: &ClusterLabels, now: &ClusterFigures) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        match known.insert(labels.clone(), now.clone()) {
            None => {
                self.created.inc();
                self.failed.inc_by(i64::from(now.failed));
            }
            Some(before) => {
                self.modified.inc_by(i64::from(before.generation != now.generation));
                self.failed.inc_by(i64::from(now.failed && !before.failed));
            }
        }
        self.clusters.set(i64::try_from(known.len()).unwrap_or(i64::MAX));
    }

    pub(super) fn forget(&self, labels: &ClusterLabels, gone: bool) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.remove(labels).is_some() {
            self.deleted.inc_by(i64::from(gone));
        }
        self.clusters.set(i64::try_from(known.len()).unwrap_or(i64::MAX));
        // Without its namespace a name may be that of another cluster, too: that one's begin anew.
        self.durations.0.remove(&[("ClusterName", labels.cluster.clone())]);
    }
}

#[cfg(test)]
mod tests {
    use crate::metrics::{ClusterFigures, ClusterLabels, Metrics};

    /// What is told under this name, with these labels.
    fn told(metrics: &Metrics, name: &str) -> Option<String> {
        let (text, name) = (metrics.text(), format!("etcd_operator_{name} "));
        text.lines().find_map(|line| line.strip_prefix(&name)).map(str::to_owned)
    }

    #[test]
    fn the_classic_names_are_served_and_count_what_they_say() {
        let metrics = Metrics::new();
        let labels = |cluster: &str| ClusterLabels { namespace: "n".to_owned(), cluster: cluster.to_owned() };
        let figures = |generation, failed| ClusterFigures { generation, failed, ..Default::default() };
        metrics.cluster(&labels("a"), None, &figures(1, false));
        metrics.cluster(&labels("b"), None, &figures(1, false));
        // A round that panicked forgets what it knew, and no cluster is counted twice for it.
        metrics.cluster(&labels("a"), None, &figures(2, true));
        metrics.cluster(&labels("a"), None, &figures(2, true));
        metrics.forget(&labels("b"), &figures(1, false), true);
        metrics.round("a", "settled", 0.3);
        metrics.round("a", "failed", 9.0);
        for (name, value) in [
            ("controller_clusters", "1"),
            ("controller_clusters_created", "2"),
            ("controller_clusters_deleted", "1"),
            ("controller_clusters_modified", "1"),
            ("controller_clusters_failed", "1"),
            (r#"cluster_reconcile_duration_count{ClusterName="a"}"#, "1"),
            (r#"cluster_reconcile_duration_bucket{le="0.4",ClusterName="a"}"#, "1"),
            (r#"cluster_reconcile_failed{Reason="failed"}"#, "1"),
        ] {
            assert_eq!(told(&metrics, name).as_deref(), Some(value), "{name}\n{}", metrics.text());
        }
        metrics.forget(&labels("a"), &figures(2, true), false);
        assert_eq!(told(&metrics, "controller_clusters").as_deref(), Some("0"));
        assert_eq!(
            told(&metrics, "controller_clusters_deleted").as_deref(),
            Some("1"),
            "another operator leads"
        );
        assert!(!metrics.text().contains("ClusterName"));
    }
}
