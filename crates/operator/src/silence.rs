//! OBSERVE's memory of who does not answer: for how long, and how much of that counts against them.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use launch::MemberName;
use tokio::time::Instant;

/// How long a member that was silent must have answered before it counts as back if it ends again: one that is killed for its memory
/// answers for a moment each time it starts.
const STEADY: Duration = Duration::from_mins(1);
/// How long a kubelet may take to tell that a member has ended. Until then it counts as late: it may be the one or the other.
const REPORTED: Duration = Duration::from_secs(10);
/// The most that one look adds to the time for which something has been as it is. Nobody knows what was while nobody looked.
pub(crate) const UNSEEN: Duration = Duration::from_secs(30);

/// Which run of a member's process: how often it was restarted before. None while it does not run.
pub type Run = Option<i32>;

/// What others say of a member that does not answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hearsay {
    /// Kubernetes finds it ready, or its peers follow it.
    Alive,
    /// They do without it.
    Missing,
    /// Nobody reads through a quorum, so that nothing is known of anybody.
    Nothing,
}

/// For how long a member is silent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Silent {
    /// Since its last answer.
    pub silent_for: Duration,
    /// The time that counts against it.
    pub gone_for: Duration,
}

/// That a member did not answer.
struct Silence {
    /// Since when; nothing if it has answered meanwhile.
    since: Option<Instant>,
    /// How much of the time counts against it: others did without it, and it was not back for good.
    gone: Duration,
    /// When it was last looked at.
    looked: Instant,
    /// In which run it was last silent.
    run: Run,
    /// When it was first back after that, by its own word or by that of others, and in which run.
    back: Option<(Instant, Run)>,
    /// For how long it is missing again in that same run.
    late: Duration,
}

impl Silence {
    fn begins(run: Run, now: Instant) -> Self {
        Self { since: None, gone: Duration::ZERO, looked: now, run, back: None, late: Duration::ZERO }
    }

    /// It is back, in this run.
    fn is_back(&mut self, run: Run, now: Instant) {
        if self.back.is_none_or(|(_, before)| before != run) {
            self.back = Some((now, run));
        }
        self.late = Duration::ZERO;
    }

    /// Whether it has been back for good.
    fn is_over(&self, now: Instant) -> bool {
        self.back.is_some_and(|(at, _)| now.duration_since(at) >= STEADY)
    }

    /// The time that counts against it, now that it was missing for so long again, in this run.
    fn goes_on(&mut self, missing: Duration, run: Run) -> Duration {
        match self.back {
            Some((_, before)) if before == run && self.late + missing < REPORTED => {
                self.late += missing;
                return self.late;
            }
            // It ran all the time, and was only late.
            Some((_, before)) if before == run => self.gone = self.late + missing,
            _ => self.gone += self.late + missing,
        }
        (self.back, self.late) = (None, Duration::ZERO);
        self.gone
    }
}

/// Who does not answer.
#[derive(Default)]
pub struct Silences {
    /// The members that are silent, or were a moment ago.
    silent: BTreeMap<MemberName, Silence>,
    /// The members that have ever answered.
    met: BTreeSet<MemberName>,
}

impl Silences {
    /// For how long a member is silent, now that it did not answer in this run, and others say this of it.
    pub fn silent(&mut self, member: &MemberName, run: Run, hearsay: Hearsay, now: Instant) -> Silent {
        let silence = self.silent.entry(member.clone()).or_insert_with(|| Silence::begins(run, now));
        // What comes before a first start, such as the pull of an image, is no silence.
        let starts = !self.met.contains(member) && silence.run.is_none() && run == Some(0);
        if starts || silence.is_over(now) {
            *silence = Silence { since: silence.since.filter(|_| !starts), ..Silence::begins(run, now) };
        }
        let since = *silence.since.get_or_insert(now);
        let passed = now.duration_since(silence.looked).min(UNSEEN);
        let missing = if hearsay == Hearsay::Missing { passed } else { Duration::ZERO };
        let gone_for = silence.goes_on(missing, run);
        (silence.looked, silence.run) = (now, run);
        if hearsay == Hearsay::Alive {
            silence.is_back(run, now);
        }
        Silent { silent_for: now.duration_since(since), gone_for }
    }

    /// A member answered, in this run.
    pub fn heard(&mut self, member: &MemberName, run: Run, now: Instant) {
        if self.met.insert(member.clone()) {
            self.silent.remove(member);
        }
        let Some(silence) = self.silent.get_mut(member) else { return };
        if silence.is_over(now) {
            self.silent.remove(member);
            return;
        }
        (silence.since, silence.looked) = (None, now);
        silence.is_back(run, now);
    }

    /// Begins anew with a member that was just given another image: what kept it away may have been the one before.
    pub fn forget(&mut self, member: &MemberName) {
        self.silent.remove(member);
    }

    /// Forgets members that are no more.
    pub fn keep(&mut self, exists: impl Fn(&MemberName) -> bool) {
        self.silent.retain(|name, _| exists(name));
        self.met.retain(exists);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn silence_counts_from_the_first_missing_answer_and_goes_on_if_the_member_ends_again_at_once() {
        use Hearsay::{Alive, Missing, Nothing};
        let (first, second, third, none) = (Some(0), Some(1), Some(2), None);
        // It was missing for five seconds, was heard in these runs for so many seconds each, and then was silent like this, with so many
        // seconds before each look.
        let table = [
            ("it was only late", vec![(second, 5)], vec![(second, Missing, 0)], 0),
            ("it is still late", vec![(second, 5)], vec![(second, Missing, 0), (second, Missing, 9)], 9),
            ("it is late for long", vec![(second, 5)], vec![(second, Missing, 9), (second, Missing, 11)], 20),
            ("it ended again", vec![(second, 5)], vec![(none, Missing, 0)], 5),
            ("it ended and was started again", vec![(second, 5)], vec![(third, Missing, 0)], 5),
            (
                "it ended again, and the kubelet was late",
                vec![(second, 5)],
                vec![(second, Alive, 1), (second, Missing, 3), (none, Missing, 1)],
                9,
            ),
            ("it had been back for a while", vec![(second, 60)], vec![(none, Missing, 0)], 0),
            (
                "it had been back for a while, and nobody looked when it ended",
                vec![(first, 60), (second, 5)],
                vec![(none, Missing, 0)],
                0,
            ),
            (
                "others do reach it",
                vec![],
                vec![
                    (first, Alive, 20),
                    (first, Alive, 20),
                    (first, Alive, 20),
                    (first, Alive, 20),
                    (first, Missing, 1),
                ],
                1,
            ),
            (
                "nobody has a quorum",
                vec![],
                vec![(first, Nothing, 20), (first, Nothing, 20), (first, Missing, 1)],
                6,
            ),
            ("nobody looked", vec![], vec![(first, Missing, 3600)], 35),
        ];
        for (title, heard, silent, gone_for) in table {
            let (mut silences, member) = (Silences::default(), "a-1".parse().unwrap());
            silences.heard(&member, first, Instant::now());
            assert_eq!(silences.silent(&member, first, Missing, Instant::now()), Silent::default());
            tokio::time::advance(Duration::from_secs(5)).await;
            assert_eq!(
                silences.silent(&member, none, Missing, Instant::now()).gone_for.as_secs(),
                5,
                "{title}"
            );
            for (run, seconds) in heard {
                silences.heard(&member, run, Instant::now());
                tokio::time::advance(Duration::from_secs(seconds)).await;
                silences.heard(&member, run, Instant::now());
            }
            let mut last = Silent::default();
            for (run, hearsay, seconds) in silent {
                tokio::time::advance(Duration::from_secs(seconds)).await;
                last = silences.silent(&member, run, hearsay, Instant::now());
            }
            assert_eq!(last.gone_for.as_secs(), gone_for, "{title}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn since_its_last_answer_is_another_matter_than_what_counts() {
        let (mut silences, member) = (Silences::default(), "a-1".parse().unwrap());
        let mut silent_for = 0;
        for _ in 0..5 {
            silent_for =
                silences.silent(&member, Some(0), Hearsay::Alive, Instant::now()).silent_for.as_secs();
            tokio::time::advance(Duration::from_secs(50)).await;
        }
        assert_eq!(silent_for, 200);
        silences.heard(&member, Some(0), Instant::now());
        assert_eq!(silences.silent(&member, Some(0), Hearsay::Alive, Instant::now()), Silent::default());
    }

    #[tokio::test(start_paused = true)]
    async fn with_another_image_a_member_is_given_its_time_anew() {
        let (mut silences, member) = (Silences::default(), "a-1".parse().unwrap());
        silences.heard(&member, Some(0), Instant::now());
        let gone = |silences: &mut Silences, run| {
            silences.silent(&member, run, Hearsay::Missing, Instant::now()).gone_for.as_secs()
        };
        for _ in 0..10 {
            gone(&mut silences, None);
            tokio::time::advance(Duration::from_secs(10)).await;
        }
        assert_eq!(gone(&mut silences, None), 100);
        silences.forget(&member);
        assert_eq!(gone(&mut silences, Some(1)), 0);
        tokio::time::advance(Duration::from_secs(10)).await;
        assert_eq!(gone(&mut silences, Some(1)), 10);
    }

    #[tokio::test(start_paused = true)]
    async fn what_comes_before_a_first_start_is_no_silence() {
        let (mut silences, member) = (Silences::default(), "a-1".parse().unwrap());
        let mut silent =
            |run| silences.silent(&member, run, Hearsay::Missing, Instant::now()).gone_for.as_secs();
        assert_eq!(silent(None), 0);
        tokio::time::advance(Duration::from_secs(20)).await;
        assert_eq!((silent(None), silent(Some(0))), (20, 0), "its image is there");
        tokio::time::advance(Duration::from_secs(5)).await;
        assert_eq!((silent(None), silent(Some(1))), (5, 5), "it ended, and was started again");
        silences.heard(&member, Some(1), Instant::now());
        assert_eq!(
            silences.silent(&member, Some(1), Hearsay::Missing, Instant::now()),
            Silent::default(),
            "it has answered"
        );
    }
}
