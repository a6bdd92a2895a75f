//! OBSERVE's clock: what time it is. How long something lasts is never told by it, but by the monotonic clock.

use planner::Timestamp;
use tokio::time::Instant;

/// What time it is.
#[derive(Clone, Copy, Debug, Default)]
pub struct Clock {
    /// A time, and when it was that time; without it, the machine is asked.
    since: Option<(Timestamp, Instant)>,
}

impl Clock {
    /// A clock that shows this time now, and goes as the runtime's own clock does: where tests stop that one, this stops too.
    #[must_use]
    pub fn showing(time: Timestamp) -> Self {
        Self { since: Some((time, Instant::now())) }
    }

    /// What time it is now.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        let elapsed = |(time, at): (Timestamp, Instant)| time.checked_add(at.elapsed()).unwrap_or(time);
        self.since.map_or_else(Timestamp::now, elapsed)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_clock_that_was_set_goes_as_the_runtime_does() {
        let clock = Clock::showing(Timestamp::UNIX_EPOCH);
        tokio::time::advance(Duration::from_secs(90)).await;
        assert_eq!(clock.now().as_second(), 90);
    }
}
