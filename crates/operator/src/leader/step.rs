//! LEADERSHIP, the pure part: what to do about the Lease, from what was seen of it and since when. client-go's algorithm.
//!
//! Nobody's wall clock is believed. What counts is for how long, by our own monotonic clock, the record has not changed.

use std::time::Duration;

use tokio::time::Instant;

/// What a Lease says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// Who holds it; nobody after a release.
    pub holder: Option<String>,
    /// How often it changed hands.
    pub transitions: i32,
    /// The Lease's version in the API server: every renewal changes it.
    pub version: String,
}

/// What was seen of the Lease.
#[derive(Clone, Debug)]
pub struct View {
    last: Option<Record>,
    missing: bool,
    changed_at: Instant,
}

/// What to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// There is no Lease: make one.
    Create,
    /// Nobody holds it, or its holder is silent: take it.
    Take,
    /// It is ours: renew it.
    Renew,
    /// Somebody else holds it.
    Follow,
}

impl View {
    /// Nothing was seen yet.
    #[must_use]
    pub fn new(now: Instant) -> Self {
        Self { last: None, missing: true, changed_at: now }
    }

    /// What was last seen.
    #[must_use]
    pub fn last(&self) -> Option<&Record> {
        self.last.as_ref()
    }

    /// Takes in what was read. Only a change counts as a sign of life.
    pub fn saw(&mut self, record: Option<Record>, now: Instant) {
        self.missing = record.is_none();
        // A Lease that somebody deleted tells nothing about its holder: what was seen of that one stays.
        if record.is_some() && record != self.last {
            self.last = record;
            self.changed_at = now;
        }
    }

    /// Who else holds it, as far as can be told: who was silent for the whole duration does not.
    #[must_use]
    pub fn other(&self, me: &str, now: Instant, duration: Duration) -> Option<&str> {
        let holder = self.last.as_ref().and_then(|record| record.holder.as_deref());
        let alive = now.duration_since(self.changed_at) < duration;
        holder.filter(|holder| alive && *holder != me && !holder.is_empty())
    }

    /// What to do.
    #[must_use]
    pub fn next(&self, me: &str, now: Instant, duration: Duration) -> Next {
        let holder = self.last.as_ref().and_then(|record| record.holder.as_deref());
        if self.other(me, now, duration).is_some() {
            return Next::Follow;
        }
        if self.missing {
            Next::Create
        } else if holder == Some(me) {
            Next::Renew
        } else {
            Next::Take
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DURATION: Duration = Duration::from_secs(15);

    fn held_by(holder: &str, version: u32) -> Record {
        Record { holder: Some(holder.to_owned()), transitions: 0, version: version.to_string() }
    }

    fn at(start: Instant, seconds: u64) -> Instant {
        start + Duration::from_secs(seconds)
    }

    #[test]
    fn a_lease_of_nobody_is_taken_at_once_and_ours_is_renewed() {
        let start = Instant::now();
        for (record, next) in [
            (None, Next::Create),
            (Some(held_by("", 1)), Next::Take),
            (Some(Record::default()), Next::Take),
            (Some(held_by("me", 1)), Next::Renew),
            (Some(held_by("you", 1)), Next::Follow),
        ] {
            let mut view = View::new(start);
            view.saw(record.clone(), start);
            assert_eq!(view.next("me", start, DURATION), next, "{record:?}");
        }
    }

    #[test]
    fn a_silent_holder_is_replaced_only_after_a_full_duration_of_our_own_clock() {
        let start = Instant::now();
        let mut view = View::new(start);
        for second in 0..15 {
            view.saw(Some(held_by("you", 1)), at(start, second));
            assert_eq!(view.next("me", at(start, second), DURATION), Next::Follow, "{second}");
        }
        assert_eq!(view.next("me", at(start, 15), DURATION), Next::Take);
        view.saw(Some(held_by("you", 2)), at(start, 15));
        assert_eq!(view.next("me", at(start, 29), DURATION), Next::Follow, "a renewal is a sign of life");
    }

    #[test]
    fn a_deleted_lease_does_not_unseat_its_holder() {
        let start = Instant::now();
        let mut view = View::new(start);
        view.saw(Some(held_by("you", 1)), start);
        view.saw(None, at(start, 5));
        assert_eq!(view.next("me", at(start, 14), DURATION), Next::Follow);
        assert_eq!(view.next("me", at(start, 15), DURATION), Next::Create);
        view.saw(Some(held_by("me", 3)), at(start, 15));
        view.saw(None, at(start, 16));
        assert_eq!(view.next("me", at(start, 16), DURATION), Next::Create, "ours is made again at once");
    }
}
