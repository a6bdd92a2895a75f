//! What many runs say: the middle one and the worst one.

use std::{fmt::Write, time::Duration};

/// How long something took, each time that it was done.
pub(crate) struct Figure {
    what: String,
    took: Vec<Duration>,
}

/// Does something once for warming up (images are pulled, caches are filled), and then as often as it is asked for.
pub(crate) async fn measure(
    what: &str,
    runs: usize,
    mut run: impl AsyncFnMut(usize) -> anyhow::Result<Duration>,
) -> anyhow::Result<Figure> {
    run(0).await?;
    let mut took = Vec::new();
    for at in 1..=runs {
        let this = run(at).await?;
        eprintln!("{what}, {at} of {runs}: {:.2} s", this.as_secs_f64());
        took.push(this);
    }
    took.sort();
    Ok(Figure { what: what.to_owned(), took })
}

impl Figure {
    /// The one in the middle; of an even number the later of the two, so that it is a time that was really seen.
    fn median(&self) -> Option<Duration> {
        self.took.get(self.took.len() / 2).copied()
    }

    fn worst(&self) -> Option<Duration> {
        self.took.last().copied()
    }
}

/// How often one median holds the other.
pub(crate) fn ratio(figure: &Figure, floor: &Figure) -> String {
    match (figure.median(), floor.median()) {
        (Some(figure), Some(floor)) if !floor.is_zero() => {
            format!("{:.2}", figure.as_secs_f64() / floor.as_secs_f64())
        }
        _ => "-".to_owned(),
    }
}

/// All figures, for people and as Markdown.
pub(crate) fn table(figures: &[Figure]) -> String {
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

    async fn figure(millis: &[u64]) -> Figure {
        measure("etcd", millis.len() - 1, async |run| Ok(Duration::from_millis(millis[run]))).await.unwrap()
    }

    #[tokio::test]
    async fn the_first_run_is_not_counted() {
        let figure = figure(&[9000, 3000, 1000, 2000]).await;
        assert_eq!(figure.median(), Some(Duration::from_secs(2)));
        assert_eq!(figure.worst(), Some(Duration::from_secs(3)));
    }

    #[tokio::test]
    async fn a_table_has_a_line_per_figure() {
        let expected = "\
| what | runs | median | worst  |
| ---- | ---: | -----: | -----: |
| etcd |    2 | 2.50 s | 2.50 s |
| etcd |    0 |      - |      - |
";
        assert_eq!(table(&[figure(&[0, 1230, 2500]).await, figure(&[1]).await]), expected);
    }
}
