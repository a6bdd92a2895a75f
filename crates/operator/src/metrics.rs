//! REPORT, for machines: what the operator counts, with words that people understand.

mod classic;

use prometheus_client::{
    encoding::{EncodeLabelSet, text::encode},
    metrics::{counter::Counter, family::Family, gauge::Gauge, histogram::Histogram},
    registry::Registry,
};

use self::classic::Classic;

/// A call to the Kubernetes API.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CallLabels {
    kind: &'static str,
    call: &'static str,
    outcome: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OutcomeLabels {
    outcome: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct StepLabels {
    step: &'static str,
}

/// A cluster, as labels name it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, EncodeLabelSet)]
pub struct ClusterLabels {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub cluster: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct WaitingLabels {
    namespace: String,
    cluster: String,
    reason: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ChangeLabels {
    namespace: String,
    cluster: String,
    change: &'static str,
}

/// What is done to a cluster's membership.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemberChanged {
    /// A member was added.
    Added,
    /// A learner got its vote.
    Promoted,
    /// A member was removed.
    Removed,
    /// A dead one was removed for another to take its place.
    Replaced,
}

impl MemberChanged {
    const ALL: [Self; 4] = [Self::Added, Self::Promoted, Self::Removed, Self::Replaced];

    const fn as_str(self) -> &'static str {
        match self {
            Self::Added => "added",
            Self::Promoted => "promoted",
            Self::Removed => "removed",
            Self::Replaced => "replaced",
        }
    }
}

/// What is known of a cluster after a round.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClusterFigures {
    /// How many members the spec asks for; none if the spec cannot be read.
    pub wanted: Option<i64>,
    /// How many members serve.
    pub ready: i64,
    /// How many voters and how many learners etcd lists; nothing without a quorum that tells.
    pub listed: Option<(i64, i64)>,
    /// Whether a read through a quorum succeeded in the last round.
    pub available: bool,
    /// What is waited for.
    pub waiting: Vec<&'static str>,
    /// The generation of the spec.
    pub generation: i64,
    /// Whether its phase is Failed.
    pub failed: bool,
}

/// Everything that is counted.
pub struct Metrics {
    registry: Registry,
    rounds: Family<OutcomeLabels, Counter>,
    seconds: Histogram,
    steps: Family<StepLabels, Counter>,
    calls: Family<CallLabels, Counter>,
    waiting: Family<WaitingLabels, Gauge>,
    wanted: Family<ClusterLabels, Gauge>,
    ready: Family<ClusterLabels, Gauge>,
    voters: Family<ClusterLabels, Gauge>,
    learners: Family<ClusterLabels, Gauge>,
    changes: Family<ChangeLabels, Counter>,
    available: Family<ClusterLabels, Gauge>,
    leader: Gauge,
    other_leaders: Gauge,
    classic: Classic,
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

impl Metrics {
    /// All at zero.
    #[must_use]
    pub fn new() -> Self {
        let buckets = [0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0];
        let mut metrics = Self {
            registry: Registry::with_prefix("etcd_operator"),
            rounds: Family::default(),
            seconds: Histogram::new(buckets),
            steps: Family::default(),
            calls: Family::default(),
            waiting: Family::default(),
            wanted: Family::default(),
            ready: Family::default(),
            voters: Family::default(),
            learners: Family::default(),
            changes: Family::default(),
            available: Family::default(),
            leader: Gauge::default(),
            other_leaders: Gauge::default(),
            classic: Classic::default(),
        };
        metrics.register_loop();
        metrics.register_clusters();
        metrics.register_members();
        metrics.classic.register(&mut metrics.registry);
        metrics
    }

    fn register_loop(&mut self) {
        let all = &mut self.registry;
        all.register(
            "rounds",
            "Rounds of looking at a cluster and acting on it, by outcome: settled (nothing left to do now), again (something was done and the cluster is looked at once more), glance (only etcd was asked, and nothing had changed), failed, panicked (a fault of the operator itself, which its log tells)",
            self.rounds.clone(),
        );
        all.register(
            "round_seconds",
            "How long a round took, waiting for answers included",
            self.seconds.clone(),
        );
        all.register(
            "steps",
            "Steps that were planned, by what they do; each is carried out at once",
            self.steps.clone(),
        );
        all.register(
            "api_calls",
            "Calls to the Kubernetes API, by kind (read or write), by what they do, and by outcome; watches are not counted",
            self.calls.clone(),
        );
        all.register(
            "leader",
            "Whether this process is the one that acts (1), or stands by for it (0)",
            self.leader.clone(),
        );
        all.register(
            "other_leaders",
            "How many cluster-wide operators in other namespaces act on the same resources as this one; there should be none",
            self.other_leaders.clone(),
        );
    }

    fn register_clusters(&mut self) {
        let all = &mut self.registry;
        all.register(
            "cluster_waiting",
            "1 for each reason for which a cluster is not, or not yet, as its spec says; the words are those in its conditions",
            self.waiting.clone(),
        );
        all.register(
            "cluster_members_wanted",
            "How many members a cluster's spec asks for",
            self.wanted.clone(),
        );
        all.register(
            "cluster_members_ready",
            "How many members of a cluster serve requests",
            self.ready.clone(),
        );
        all.register(
            "cluster_available",
            "Whether a read that needs a quorum of a cluster's members succeeded in the last round (1) or not (0)",
            self.available.clone(),
        );
    }

    fn register_members(&mut self) {
        let all = &mut self.registry;
        all.register(
            "cluster_voters",
            "How many members of a cluster have a vote, whether they are alive or not; absent while no quorum tells",
            self.voters.clone(),
        );
        all.register(
            "cluster_learners",
            "How many members of a cluster are still catching up and have no vote yet; absent while no quorum tells",
            self.learners.clone(),
        );
        all.register(
            "cluster_member_changes",
            "Changes of a cluster's membership that this process made and etcd confirmed, by what was done: added, promoted (a learner got its vote), removed, and replaced (a removed one that was dead, and in whose place another one comes)",
            self.changes.clone(),
        );
    }

    /// Counts a round of the cluster of this name.
    pub fn round(&self, cluster: &str, outcome: &'static str, seconds: f64) {
        self.classic.round(cluster, outcome, seconds);
        self.rounds.get_or_create(&OutcomeLabels { outcome }).inc();
        self.seconds.observe(seconds);
    }

    /// Counts a step.
    pub fn step(&self, step: &'static str) {
        self.steps.get_or_create(&StepLabels { step }).inc();
    }

    /// Counts a call.
    pub fn call(&self, kind: &'static str, call: &'static str, outcome: &'static str) {
        self.calls.get_or_create(&CallLabels { kind, call, outcome }).inc();
    }

    /// Says whether this process leads.
    pub fn leads(&self, leads: bool) {
        self.leader.set(i64::from(leads));
    }

    /// Says how many others act on the same resources.
    pub fn other_leaders(&self, others: usize) {
        self.other_leaders.set(i64::try_from(others).unwrap_or(i64::MAX));
    }

    /// Says how a cluster is; `before` is what was last said of it.
    pub fn cluster(&self, labels: &ClusterLabels, before: Option<&ClusterFigures>, now: &ClusterFigures) {
        self.classic.cluster(labels, now);
        match now.wanted {
            Some(wanted) => _ = self.wanted.get_or_create(labels).set(wanted),
            None => _ = self.wanted.remove(labels),
        }
        self.ready.get_or_create(labels).set(now.ready);
        for (figure, listed) in [
            (&self.voters, now.listed.map(|(voters, _)| voters)),
            (&self.learners, now.listed.map(|(_, learners)| learners)),
        ] {
            match listed {
                Some(count) => _ = figure.get_or_create(labels).set(count),
                None => _ = figure.remove(labels),
            }
        }
        for change in MemberChanged::ALL {
            // From nothing, so that the first change of all is a step up and not a beginning.
            drop(self.changes.get_or_create(&changed(labels, change)));
        }
        self.available.get_or_create(labels).set(i64::from(now.available));
        for ended in before.iter().flat_map(|before| &before.waiting) {
            if !now.waiting.contains(ended) {
                self.waiting.remove(&waiting(labels, ended));
            }
        }
        for reason in &now.waiting {
            self.waiting.get_or_create(&waiting(labels, reason)).set(1);
        }
    }

    /// Counts a change of a cluster's membership.
    pub fn member_changed(&self, labels: &ClusterLabels, change: MemberChanged) {
        self.changes.get_or_create(&changed(labels, change)).inc();
    }

    /// Forgets a cluster that is gone, or that another operator tells of.
    pub fn forget(&self, labels: &ClusterLabels, last: &ClusterFigures, gone: bool) {
        self.classic.forget(labels, gone);
        self.wanted.remove(labels);
        self.ready.remove(labels);
        self.voters.remove(labels);
        self.learners.remove(labels);
        for change in MemberChanged::ALL {
            self.changes.remove(&changed(labels, change));
        }
        self.available.remove(labels);
        for reason in &last.waiting {
            self.waiting.remove(&waiting(labels, reason));
        }
    }

    /// All of it, as text.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = String::new();
        // Writing to a String does not fail.
        let _ = encode(&mut text, &self.registry);
        text
    }
}

fn waiting(labels: &ClusterLabels, reason: &'static str) -> WaitingLabels {
    WaitingLabels { namespace: labels.namespace.clone(), cluster: labels.cluster.clone(), reason }
}

fn changed(labels: &ClusterLabels, change: MemberChanged) -> ChangeLabels {
    let change = change.as_str();
    ChangeLabels { namespace: labels.namespace.clone(), cluster: labels.cluster.clone(), change }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_that_ended_and_a_cluster_that_is_gone_are_not_told_any_more() {
        let metrics = Metrics::new();
        let labels = ClusterLabels { namespace: "n".to_owned(), cluster: "c".to_owned() };
        let forming = ClusterFigures {
            wanted: Some(3),
            ready: 1,
            listed: None,
            available: false,
            waiting: vec!["Forming"],
            ..Default::default()
        };
        metrics.cluster(&labels, None, &forming);
        assert!(metrics.text().contains(r#"cluster_waiting{namespace="n",cluster="c",reason="Forming"} 1"#));
        assert!(!metrics.text().contains("cluster_voters{"), "nobody has told");
        let well = ClusterFigures {
            wanted: Some(3),
            ready: 3,
            listed: Some((3, 1)),
            available: true,
            waiting: vec![],
            ..Default::default()
        };
        metrics.cluster(&labels, Some(&forming), &well);
        assert!(!metrics.text().contains("Forming"));
        assert!(metrics.text().contains(r#"cluster_available{namespace="n",cluster="c"} 1"#));
        metrics.member_changed(&labels, MemberChanged::Added);
        let text = metrics.text();
        for line in [
            r#"cluster_voters{namespace="n",cluster="c"} 3"#,
            r#"cluster_learners{namespace="n",cluster="c"} 1"#,
            r#"cluster_member_changes_total{namespace="n",cluster="c",change="added"} 1"#,
            r#"cluster_member_changes_total{namespace="n",cluster="c",change="removed"} 0"#,
        ] {
            assert!(text.contains(line), "{line}\n{text}");
        }
        metrics.cluster(&labels, Some(&well), &forming);
        assert!(!metrics.text().contains("cluster_voters{"), "the quorum is lost");
        metrics.forget(&labels, &forming, true);
        assert!(!metrics.text().contains(r#"cluster="c""#));
    }

    #[test]
    fn every_metric_says_what_it_is() {
        let metrics = Metrics::new();
        metrics.round("c", "settled", 0.1);
        metrics.step("LatchBirth");
        metrics.call("write", "CreatePod", "done");
        let labels = ClusterLabels { namespace: "n".to_owned(), cluster: "c".to_owned() };
        let figures = ClusterFigures {
            wanted: Some(3),
            waiting: vec!["Forming"],
            listed: Some((3, 0)),
            ..Default::default()
        };
        metrics.cluster(&labels, None, &figures);
        let text = metrics.text();
        for name in [
            "rounds",
            "round_seconds",
            "steps",
            "api_calls",
            "leader",
            "other_leaders",
            "cluster_waiting",
            "cluster_available",
            "cluster_members_wanted",
            "cluster_members_ready",
            "cluster_voters",
            "cluster_learners",
            "cluster_member_changes",
        ] {
            assert!(text.contains(&format!("# HELP etcd_operator_{name} ")), "{name}");
        }
    }
}
