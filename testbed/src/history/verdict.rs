//! What a run says in the end.

use std::{fmt, time::Duration};

use super::record::{Did, History};

/// The figures of a run. That there is one says that enough was asked, and that the history holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Verdict {
    /// How long the load went on, the last reads not included.
    pub took: Duration,
    /// Reads that were answered, and checked, the last read of every key included.
    pub reads: usize,
    /// Writes that were acknowledged, and checked.
    pub writes: usize,
    /// Operations that certainly did nothing: refused, never sent, or reads without an answer.
    pub failed: usize,
    /// Writes of which nobody knows whether they happened.
    pub unknown: usize,
    /// The longest time without an answer: from the beginning, between two of them, or until the end.
    pub longest_gap: Duration,
}

impl Verdict {
    /// Counts what is in a history.
    #[must_use]
    pub fn of(history: &History, took: Duration) -> Self {
        let count = |kind: fn(&Did) -> bool| history.operations.iter().filter(|it| kind(&it.did)).count();
        Self {
            took,
            reads: count(|it| matches!(it, Did::Read { .. })) + history.finals.len(),
            writes: count(|it| matches!(it, Did::Wrote { .. })),
            failed: count(|it| matches!(it, Did::ReadFailed | Did::WriteFailed { .. })),
            unknown: count(|it| matches!(it, Did::WriteUnknown { .. })),
            longest_gap: longest_gap(history, took),
        }
    }

    /// How many operations were answered and checked.
    #[must_use]
    pub fn checked(&self) -> usize {
        self.reads + self.writes
    }

    /// Answered operations per second.
    #[must_use]
    #[allow(clippy::cast_precision_loss, reason = "nobody answers that many operations")]
    pub fn rate(&self) -> f64 {
        self.checked() as f64 / self.took.as_secs_f64().max(f64::EPSILON)
    }
}

fn longest_gap(history: &History, took: Duration) -> Duration {
    let mut answers: Vec<_> = history
        .operations
        .iter()
        .filter(|it| it.revision().is_some())
        .map(|it| it.returned.min(took))
        .chain([Duration::ZERO, took])
        .collect();
    answers.sort();
    let gaps = answers.iter().zip(answers.iter().skip(1)).map(|(one, next)| next.saturating_sub(*one));
    gaps.max().unwrap_or_default()
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { took, reads, writes, failed, unknown, longest_gap } = self;
        write!(
            f,
            "{} operations checked ({writes} writes, {reads} reads) in {:.1} s, {:.1} a second; {failed} failed, {unknown} \
             unknown; longest gap between answers {:.2} s",
            self.checked(),
            took.as_secs_f64(),
            self.rate(),
            longest_gap.as_secs_f64(),
        )
    }
}

#[cfg(test)]
mod tests {
    use etcd_admin::Revision;

    use super::*;
    use crate::history::record::{Key, Operation, Value};

    fn wrote(invoked: u64, returned: u64, did: Did) -> Operation {
        let [invoked, returned] = [invoked, returned].map(Duration::from_secs);
        Operation { key: Key(0), invoked, returned, did }
    }

    #[test]
    fn the_gap_is_between_answers_and_not_between_questions() {
        let ok = Did::Wrote { value: Value(1), revision: Revision(1) };
        let operations = vec![
            wrote(0, 1, ok),
            wrote(2, 4, Did::WriteUnknown { value: Value(2) }),
            wrote(4, 5, Did::WriteFailed { value: Value(3) }),
            wrote(5, 8, ok),
            wrote(9, 10, Did::Read { found: None, revision: Revision(1) }),
        ];
        let history = History { operations, finals: vec![] };
        let of = |seconds| Verdict::of(&history, Duration::from_secs(seconds));
        assert_eq!(of(12).longest_gap, Duration::from_secs(7), "between two answers");
        assert_eq!(of(30).longest_gap, Duration::from_secs(20), "until the end");
        let Verdict { reads, writes, failed, unknown, .. } = of(12);
        assert_eq!((reads, writes, failed, unknown), (1, 2, 1, 1));
        let none = Verdict::of(&History::default(), Duration::from_secs(9));
        assert_eq!((none.longest_gap, none.checked()), (Duration::from_secs(9), 0));
    }
}
