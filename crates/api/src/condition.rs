//! What users read: conditions, one entry for each type, as `kubectl wait` and dashboards expect them.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::KubeSchema;
use serde::{Deserialize, Serialize};

use crate::{lenient, reasons::Reason};

/// The longest message that is written; the API server's own texts, which we quote, can be longer than anyone reads.
pub const MAX_MESSAGE_CHARS: usize = 4096;
/// How many entries the schema takes.
pub const MAX_CONDITIONS: usize = 32;

/// One thing that is true, false or unknown of a resource.
#[derive(KubeSchema, Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    /// What this is about, such as Available.
    #[serde(rename = "type")]
    #[schemars(length(max = 316))]
    pub type_: String,

    /// True, False or Unknown.
    #[schemars(length(max = 16))]
    pub status: String,

    /// The metadata.generation of the resource that this was said of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,

    /// When anything in this entry last changed.
    #[serde(default, deserialize_with = "lenient::time", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Time>")]
    pub last_update_time: Option<Time>,

    /// When the status last changed.
    #[serde(default, deserialize_with = "lenient::time", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Time>")]
    pub last_transition_time: Option<Time>,

    /// A word for machines. It is stable, and some of the classic ones have spaces.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub reason: Option<String>,

    /// A sentence for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32768))]
    pub message: Option<String>,
}

/// What a condition is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ConditionType {
    /// A read that needs a quorum succeeded in the last seconds.
    Available,
    /// All that the spec asks for is carried out, and every member serves: what tools wait for that read kstatus.
    Ready,
    /// Members are being added or removed to reach `spec.size`.
    Scaling,
    /// Members are being moved to `spec.version`.
    Upgrading,
    /// Members are lost, and not replaced yet.
    Recovering,
    /// The operator has something to do and does it, or says what it waits for.
    Progressing,
    /// Nothing goes on until somebody acts: what kstatus takes for a failure.
    Stalled,
    /// The spec can be carried out.
    SpecAccepted,
    /// The spec asks for something that has no effect.
    FieldsIgnored,
}

impl ConditionType {
    /// All of them: whatever else is in a status was written by somebody else.
    pub const ALL: [Self; 9] = [
        Self::Available,
        Self::Ready,
        Self::Progressing,
        Self::Stalled,
        Self::Scaling,
        Self::Upgrading,
        Self::Recovering,
        Self::SpecAccepted,
        Self::FieldsIgnored,
    ];

    /// The spelling in the status.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Available => "Available",
            Self::Ready => "Ready",
            Self::Scaling => "Scaling",
            Self::Upgrading => "Upgrading",
            Self::Recovering => "Recovering",
            Self::Progressing => "Progressing",
            Self::Stalled => "Stalled",
            Self::SpecAccepted => "SpecAccepted",
            Self::FieldsIgnored => "FieldsIgnored",
        }
    }
}

/// Whether a condition holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ConditionStatus {
    /// It holds.
    True,
    /// It does not.
    False,
    /// It could not be told.
    Unknown,
}

impl ConditionStatus {
    /// The spelling in the status.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::True => "True",
            Self::False => "False",
            Self::Unknown => "Unknown",
        }
    }
}

impl Condition {
    /// A condition as it is now. Times are the caller's: this crate has no clock.
    #[must_use]
    pub fn new(
        type_: ConditionType,
        status: ConditionStatus,
        reason: &Reason,
        generation: Option<i64>,
        now: &Time,
    ) -> Self {
        let message: String = reason.to_string().chars().take(MAX_MESSAGE_CHARS).collect();
        Self {
            type_: type_.as_str().to_owned(),
            status: status.as_str().to_owned(),
            observed_generation: generation,
            last_update_time: Some(now.clone()),
            last_transition_time: Some(now.clone()),
            reason: Some(reason.as_str().to_owned()),
            message: Some(message).filter(|message| !message.is_empty()),
        }
    }

    /// This condition with the times it should carry when it follows `previous`: an unchanged one keeps both, so that writing the
    /// status of a quiet cluster changes nothing and no write is needed.
    #[must_use]
    pub fn following(mut self, previous: Option<&Self>) -> Self {
        let Some(previous) = previous else { return self };
        if previous.status == self.status && previous.last_transition_time.is_some() {
            self.last_transition_time.clone_from(&previous.last_transition_time);
        }
        let same = previous.status == self.status
            && previous.reason == self.reason
            && previous.message.as_deref().unwrap_or_default() == self.message.as_deref().unwrap_or_default();
        if same && previous.last_update_time.is_some() {
            self.last_update_time.clone_from(&previous.last_update_time);
        }
        self
    }
}

/// The condition of this type, if there is one.
#[must_use]
pub fn find(conditions: &[Condition], type_: ConditionType) -> Option<&Condition> {
    conditions.iter().find(|condition| condition.type_ == type_.as_str())
}

/// These conditions, and after them what others have written beside ours, as far as there is room.
#[must_use]
pub fn with_those_of_others(mut ours: Vec<Condition>, previous: &[Condition]) -> Vec<Condition> {
    let is_ours = |other: &Condition| ConditionType::ALL.iter().any(|type_| other.type_ == type_.as_str());
    let room = MAX_CONDITIONS.saturating_sub(ours.len());
    ours.extend(previous.iter().filter(|other| !is_ours(other)).take(room).cloned());
    ours
}

#[cfg(test)]
mod tests {
    use super::*;

    fn time(text: &str) -> Time {
        serde_json::from_value(serde_json::json!(text)).unwrap()
    }

    fn available(status: ConditionStatus, reason: &Reason, now: &Time) -> Condition {
        Condition::new(ConditionType::Available, status, reason, Some(1), now)
    }

    #[test]
    fn times_move_only_with_what_they_tell() {
        let (t1, t2) = (time("2026-01-01T00:00:00Z"), time("2026-01-01T00:00:09Z"));
        let forming = |ready| Reason::Forming { ready, size: 3 };
        let before = available(ConditionStatus::False, &forming(1), &t1);

        let same = available(ConditionStatus::False, &forming(1), &t2).following(Some(&before));
        assert_eq!(same, before);

        let other_message = available(ConditionStatus::False, &forming(2), &t2).following(Some(&before));
        assert_eq!(other_message.last_transition_time, Some(t1.clone()));
        assert_eq!(other_message.last_update_time, Some(t2.clone()));

        let flipped =
            available(ConditionStatus::True, &Reason::ClusterAvailable, &t2).following(Some(&other_message));
        assert_eq!(flipped.last_transition_time, Some(t2.clone()));
        assert_eq!(flipped.last_update_time, Some(t2));
    }

    #[test]
    fn an_available_cluster_reads_as_in_the_book() {
        let condition =
            available(ConditionStatus::True, &Reason::ClusterAvailable, &time("2019-11-15T02:52:04Z"));
        let value = serde_json::to_value(condition).unwrap();
        assert_eq!(value["type"], "Available");
        assert_eq!(value["status"], "True");
        assert_eq!(value["reason"], "Cluster available");
        assert_eq!(value["lastTransitionTime"], "2019-11-15T02:52:04Z");
        assert_eq!(value.get("message"), None);
    }

    #[test]
    fn what_others_wrote_stays_after_ours_and_never_makes_a_status_too_long() {
        let now = time("2026-01-01T00:00:00Z");
        let theirs = |type_: &str| Condition {
            type_: type_.to_owned(),
            ..available(ConditionStatus::True, &Reason::ClusterAvailable, &now)
        };
        let ours = vec![available(ConditionStatus::True, &Reason::ClusterAvailable, &now)];
        let before =
            [theirs("Theirs"), theirs("Upgrading"), theirs("Available"), theirs("example.com/Audited")];
        let types: Vec<String> =
            with_those_of_others(ours.clone(), &before).into_iter().map(|one| one.type_).collect();
        assert_eq!(types, ["Available", "Theirs", "example.com/Audited"], "what of ours has ended goes");
        let many: Vec<Condition> = (0..40).map(|n| theirs(&format!("Theirs{n}"))).collect();
        assert_eq!(with_those_of_others(ours, &many).len(), MAX_CONDITIONS);
    }

    #[test]
    fn an_odd_time_does_not_make_a_condition_unreadable() {
        for time in ["null", "\"\"", "\"yesterday\""] {
            let text = format!(r#"{{"type":"Available","status":"True","lastUpdateTime":{time}}}"#);
            let condition: Condition = serde_json::from_str(&text).unwrap();
            assert_eq!(condition.last_update_time, None, "{time}");
        }
    }

    #[test]
    fn a_quoted_text_without_end_is_cut() {
        let endless = Reason::InvalidSpec { problems: "é".repeat(100_000) };
        let condition = available(ConditionStatus::False, &endless, &time("2026-01-01T00:00:00Z"));
        assert_eq!(condition.message.unwrap().chars().count(), MAX_MESSAGE_CHARS);
    }
}
