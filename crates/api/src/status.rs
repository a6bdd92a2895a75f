//! What users read: `status` of an `EtcdCluster`. The fields of the classic operator keep their names; what is new stands at the end.

use kube::KubeSchema;
use serde::{Deserialize, Serialize};

use crate::{condition::Condition, rules};

/// What the operator last saw and did. It is a report, never an order, with one exception: `birth`.
#[derive(KubeSchema, Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct EtcdClusterStatus {
    /// Where the cluster is in its life: empty before anything was done, then Creating, Running, or Failed. A later operator may know more
    /// words: take one that you do not know for none of these.
    // Open: a closed list would refuse every status of an operator that is newer than the CRD, the record of birth with it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub phase: Option<String>,

    /// Why the cluster is in the phase Failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32768))]
    pub reason: Option<String>,

    /// Whether the operator leaves this cluster alone because spec.paused is set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub control_paused: Option<bool>,

    /// What is true of the cluster right now, one entry for each type.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".to_owned()]))]
    pub conditions: Option<Vec<Condition>>,

    /// How many members etcd's own member list has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<i64>,

    /// The Service for clients: <name>-client.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    pub service_name: Option<String>,

    /// The port of the Service for clients.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_port: Option<i64>,

    /// The members, by the names of their pods.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub members: Option<MembersStatus>,

    /// What is known of each member, by its name: the pod's, or the ID of one that somebody else added.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".to_owned()]))]
    pub member_details: Option<Vec<MemberDetails>>,

    /// The lowest etcd version that a member runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub current_version: Option<String>,

    /// The etcd version that the cluster is being upgraded to; empty while it is not.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub target_version: Option<String>,

    /// The version that the members are being brought to first, on the way to the target version; missing where there is no stop-over.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub stop_over: Option<String>,

    /// Members that serve, of those wanted, such as 3/3.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 16))]
    pub ready: Option<String>,

    /// The labels of this cluster's pods, for tools that read the scale subresource.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256))]
    pub label_selector: Option<String>,

    /// The metadata.generation that this status answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,

    /// The record of how this cluster came into being. It is written before the first pod exists and decides whether a member may start a
    /// new cluster, so it cannot be removed, and it changes only forwards.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub birth: Option<Birth>,
}

/// The members, by whether they serve.
#[derive(KubeSchema, Clone, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MembersStatus {
    /// Members that serve requests.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ready: Option<Vec<String>>,

    /// Members that run and do not serve requests.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unready: Option<Vec<String>>,
}

/// What is known of a member.
#[derive(KubeSchema, Clone, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MemberDetails {
    /// Its name: its pod's, or its ID where it is none of ours.
    #[schemars(length(max = 253))]
    pub name: String,

    /// Its ID in etcd, in hexadecimal, once it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32))]
    pub id: Option<String>,

    /// Leader, Voter or Learner, by the word of a quorum; missing while there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 16))]
    pub role: Option<String>,

    /// The etcd version that it runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub version: Option<String>,

    /// About how many bytes its database has. So that a cluster at rest costs no writes, it is brought up to date only when it has moved by a
    /// quarter, and by a mebibyte.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub db_size: Option<i64>,

    /// Why it does not serve, in one of the words that conditions give as reasons; missing while it does.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub reason: Option<String>,
}

/// The record of how a cluster came into being: the one part of the status that is a fact of its own and no observation.
#[derive(KubeSchema, Clone, Debug, Deserialize, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = rules::BIRTH_STEPS, validation = rules::BIRTH_FORMED)]
pub struct Birth {
    /// Which attempt at forming this cluster this is, from 1. An attempt that lost a member before the cluster had formed is abandoned for
    /// the next one.
    #[schemars(range(min = 1))]
    pub incarnation: i64,

    /// The cluster token that all members of this incarnation start with.
    #[schemars(length(min = 1, max = 128))]
    pub token: String,

    /// The cluster's ID in etcd, in hexadecimal, once it is known.
    #[serde(rename = "clusterID", skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32))]
    pub cluster_id: Option<String>,

    /// Whether the cluster has formed. From then on no member is ever started as part of a new cluster.
    pub formed: bool,
}

impl Birth {
    /// The first attempt.
    #[must_use]
    pub fn first(token: String) -> Self {
        Self { incarnation: 1, token, cluster_id: None, formed: false }
    }

    /// The attempt after this one.
    #[must_use]
    pub fn next(&self, token: String) -> Self {
        Self { incarnation: self.incarnation.saturating_add(1), token, cluster_id: None, formed: false }
    }

    /// This attempt, once its cluster has formed.
    #[must_use]
    pub fn formed(&self, cluster_id: String) -> Self {
        Self { cluster_id: Some(cluster_id), formed: true, ..self.clone() }
    }
}

/// Where a cluster is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Phase {
    /// Nothing was done yet.
    None,
    /// The cluster is being created.
    Creating,
    /// The cluster exists.
    Running,
    /// The classic operator had given the cluster up.
    Failed,
    /// A word that this operator does not know: a reason to hold, not to guess.
    Unknown,
}

impl Phase {
    /// The spelling in the status; nothing for [`Phase::Unknown`], which is never written.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::None | Self::Unknown => "",
            Self::Creating => "Creating",
            Self::Running => "Running",
            Self::Failed => "Failed",
        }
    }
}

impl EtcdClusterStatus {
    /// Where the cluster is in its life.
    #[must_use]
    pub fn phase(&self) -> Phase {
        match self.phase.as_deref() {
            None | Some("") => Phase::None,
            Some("Creating") => Phase::Creating,
            Some("Running") => Phase::Running,
            Some("Failed") => Phase::Failed,
            Some(_) => Phase::Unknown,
        }
    }

    /// How many members were wanted when this was written.
    #[must_use]
    pub fn wanted(&self) -> Option<usize> {
        self.ready.as_deref()?.split_once('/')?.1.parse().ok()
    }
}

/// The text of `status.ready`.
#[must_use]
pub fn ready_of(ready: usize, wanted: usize) -> String {
    format!("{ready}/{wanted}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_phase_is_read_as_it_is_written() {
        for phase in [Phase::None, Phase::Creating, Phase::Running, Phase::Failed] {
            let status = EtcdClusterStatus { phase: Some(phase.as_str().to_owned()), ..Default::default() };
            assert_eq!(status.phase(), phase);
        }
        let odd = EtcdClusterStatus { phase: Some("Reborn".to_owned()), ..Default::default() };
        assert_eq!(odd.phase(), Phase::Unknown);
        assert_eq!(EtcdClusterStatus::default().phase(), Phase::None);
    }
}
