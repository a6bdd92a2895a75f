//! What many runs say: the middle one and the worst one.

use std::{fmt::Write, time::Duration};

/// How long something took, each time that it was done.
pub(crate) struct Figure {
    what: String,
    took: Vec<Duration>,
}

impl Figure {
    /// Nothing was measured yet.
    pub(crate) fn of(what: &str) -> Self {
        Self { what: what.to_owned(), took: Vec::new() }
    }

    /// It was done once more. The first run, number 0, is for warming up.
    pub(crate) fn took(&mut self, run: u32, took: Duration) {
        eprintln!("{}, run {run}: {:.2} s", self.what, took.as_secs_f64());
        if run > 0 {
            self.took.push(took);
            self.took.sort();
        }
    }

    /// The one in the middle; of an even number the later of the two, so that it is a time that was really seen.
    fn median(&self) -> Option<Duration> {
        self.took.get(self.took.len() / 2).copied()
    }

    fn worst(&self) -> Option<Duration> {
        self.took.last().copied()
    }
}

/// How often one median holds the other, where the floor has to be gone through so many times.
pub(crate) fn ratio(figure: &Figure, floor: &Figure, times: u32) -> String {
    match (figure.median(), floor.median()) {
        (Some(figure), Some(floor)) if !floor.is_zero() => {
            format!("{:.2}", figure.as_secs_f64() / (floor * times).as_secs_f64())
        }
        _ => "-".to_owned(),
    }
}

/// All figures, for people and as Markdown.
pub(crate) fn table(figures: &[&Figure]) -> String {
    let width = figures.iter().map(|figure| figure.what.len()).max().unwrap_or(0);
    let mut text = format!("| {:width$} | runs | median | worst  |\n", "what");
    let _ = writeln!(text, "| {:-<width$} | ---: | -----: | -----: |", "");
    for figure in figures {
        let seconds = |time: Option<Duration>| {
            time.map_or("-".to_owned(), |time| format!("{:.2} s", time.as_secs_f64()))
        };
        let (median, worst) = (seconds(figure.median()), seconds(figure.worst()));
        let (what, runs) = (&figure.what, figure.took.len());
        // Writing to a String does not fail.
        let _ = writeln!(text, "| {what:width$} | {runs:>4} | {median:>6} | {worst:>6} |");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figure(millis: &[u64]) -> Figure {
        let mut figure = Figure::of("etcd");
        for (run, millis) in (0..).zip(millis) {
            figure.took(run, Duration::from_millis(*millis));
        }
        figure
    }

    #[test]
    fn the_first_run_is_not_counted() {
        let figure = figure(&[9000, 3000, 1000, 2000]);
        assert_eq!(figure.median(), Some(Duration::from_secs(2)));
        assert_eq!(figure.worst(), Some(Duration::from_secs(3)));
    }

    #[test]
    fn a_ratio_is_that_of_the_medians() {
        let (slow, fast) = (figure(&[0, 3000]), figure(&[0, 1000]));
        assert_eq!((ratio(&slow, &fast, 1), ratio(&slow, &fast, 2)), ("3.00".to_owned(), "1.50".to_owned()));
        assert_eq!(ratio(&slow, &figure(&[0]), 1), "-");
    }

    #[test]
    fn a_table_has_a_line_per_figure() {
        let expected = "\
| what | runs | median | worst  |
| ---- | ---: | -----: | -----: |
| etcd |    2 | 2.50 s | 2.50 s |
| etcd |    0 |      - |      - |
";
        assert_eq!(table(&[&figure(&[0, 1230, 2500]), &figure(&[1])]), expected);
    }
}
