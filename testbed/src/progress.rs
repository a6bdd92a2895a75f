//! What a person sees while the testbed works: which step runs, of how many, and how long each took.

use std::{
    future::Future,
    io::{self, Write as _},
    time::{Duration, Instant},
};

/// Steps of a known number, told one after another.
pub struct Steps {
    total: usize,
    at: usize,
    started: Instant,
}

impl Steps {
    /// Nothing done yet of `total` steps.
    #[must_use]
    pub fn of(total: usize) -> Self {
        Self { total, at: 0, started: Instant::now() }
    }

    /// Does one step and tells its time.
    pub async fn step<T, E>(&mut self, what: &str, work: impl Future<Output = Result<T, E>>) -> Result<T, E> {
        let begun = self.begin(what, None);
        let done = work.await;
        self.end(begun, done.is_ok(), "");
        done
    }

    /// Does one step that waits for nobody, and tells its time.
    pub fn work<T, E>(&mut self, what: &str, work: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
        let begun = self.begin(what, None);
        let done = work();
        self.end(begun, done.is_ok(), "");
        done
    }

    /// Tells that a step begins, and how long it usually takes if that is worth knowing.
    pub fn begin(&mut self, what: &str, usual: Option<Duration>) -> Instant {
        self.at += 1;
        let usual =
            usual.map(|usual| format!(", about {} the first time", in_words(usual))).unwrap_or_default();
        print!("[{:>2}/{}] {what}{usual} ... ", self.at, self.total);
        flush();
        Instant::now()
    }

    /// Tells that the step has ended.
    pub fn end(&self, begun: Instant, well: bool, remark: &str) {
        let took = in_words(begun.elapsed());
        match (well, remark) {
            (true, "") => println!("{took}"),
            (true, remark) => println!("{remark}, {took}"),
            (false, _) => println!("failed after {took}"),
        }
        flush();
    }

    /// How long all of it has taken.
    #[must_use]
    pub fn elapsed(&self) -> String {
        in_words(self.started.elapsed())
    }
}

fn flush() {
    // Nobody to tell is no reason to stop.
    let _ = io::stdout().flush();
}

/// A time as people say it.
#[must_use]
pub fn in_words(time: Duration) -> String {
    let seconds = time.as_secs();
    match seconds {
        0..=9 => format!("{:.1} s", time.as_secs_f64()),
        10..=99 => format!("{seconds} s"),
        _ => format!("{} min {} s", seconds / 60, seconds % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_told_as_people_say_them() {
        for (milliseconds, text) in
            [(40, "0.0 s"), (1_540, "1.5 s"), (42_000, "42 s"), (452_000, "7 min 32 s")]
        {
            assert_eq!(in_words(Duration::from_millis(milliseconds)), text);
        }
    }
}
