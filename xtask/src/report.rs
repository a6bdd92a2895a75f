//! What `make test` ends with: what the tests that failed have said, minutes per phase, the ten slowest tests, and how many passed. Often
//! the end of the output is all that is left of a run, so it is short, and begins with what matters most.

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::Context as _;
use quick_junit::TestCaseStatus;

/// How many bytes of a failed test's output are told again, and of each file about it.
const TOLD: usize = 2500;
/// How many failed tests are told of; the others are named.
const FAILURES: usize = 3;

/// What was seen so far.
#[derive(Default)]
pub(crate) struct Report {
    phases: Vec<(&'static str, Duration)>,
    tests: Vec<Test>,
}

struct Test {
    name: String,
    took: Duration,
    passed: bool,
    /// What it printed to its standard error; kept of those that failed.
    said: String,
}

impl Report {
    /// A phase has ended.
    pub(crate) fn phase(&mut self, name: &'static str, took: Duration) {
        self.phases.push((name, took));
    }

    /// Takes up the results that nextest wrote.
    pub(crate) fn tests(&mut self, results: &Path) -> anyhow::Result<()> {
        let text = fs::read_to_string(results)
            .with_context(|| format!("the tests left no results in {}", results.display()))?;
        let report = quick_junit::Report::deserialize_from_str(&text)
            .with_context(|| format!("the results in {} cannot be read", results.display()))?;
        for suite in &report.test_suites {
            for case in &suite.test_cases {
                self.tests.push(Test {
                    name: format!("{} {}", suite.name.as_str(), case.name.as_str()),
                    took: case.time.unwrap_or_default(),
                    passed: matches!(case.status, TestCaseStatus::Success { .. }),
                    said: case.system_err.as_ref().map(|said| said.as_str().to_owned()).unwrap_or_default(),
                });
            }
        }
        Ok(())
    }

    pub(crate) fn print(&mut self) {
        self.print_failures();
        println!("\n== minutes per phase");
        for (name, took) in &self.phases {
            println!("{:>7.1}  {name}", took.as_secs_f64() / 60.0);
        }
        let all: Duration = self.phases.iter().map(|(_, took)| *took).sum();
        println!("{:>7.1}  in all", all.as_secs_f64() / 60.0);

        println!("\n== the ten slowest tests");
        self.tests.sort_by_key(|test| std::cmp::Reverse(test.took));
        for test in self.tests.iter().take(10) {
            println!("{:>6.1} s  {}", test.took.as_secs_f64(), test.name);
        }
        let passed = self.tests.iter().filter(|test| test.passed).count();
        println!("\n{passed} passed, {} failed", self.tests.len() - passed);
    }

    fn print_failures(&self) {
        let failed = || self.tests.iter().filter(|test| !test.passed);
        for test in failed() {
            println!("\n== FAILED: {}", test.name);
        }
        for test in failed().take(FAILURES) {
            println!("\n== what {} said", test.name);
            println!("{}", end_of(&test.said));
        }
        for file in failed().take(FAILURES).flat_map(|test| evidence(&test.said)) {
            println!("\n-- the end of {}", file.display());
            println!("{}", end_of(&fs::read_to_string(&file).unwrap_or_default()));
        }
    }
}

/// The last lines of a text that together are short enough to be told.
fn end_of(text: &str) -> &str {
    let text = text.trim_end();
    let from = (text.len().saturating_sub(TOLD)..=text.len()).find(|at| text.is_char_boundary(*at));
    let tail = text.get(from.unwrap_or_default()..).unwrap_or_default();
    // Not the rest of a line whose beginning is missing, unless there is no other.
    match tail.split_once('\n') {
        Some((_, lines)) if tail.len() < text.len() => lines,
        _ => tail,
    }
}

/// The files that tell most about a failure on a cluster: what was announced in its namespace, and what our operator has done there.
fn evidence(said: &str) -> Vec<PathBuf> {
    let folder = said.lines().find_map(|line| line.rsplit_once("its objects, logs and Events are in "));
    let Some((_, folder)) = folder else { return Vec::new() };
    let folder = Path::new(folder.trim());
    let logs = fs::read_dir(folder.join("logs")).into_iter().flatten().flatten().map(|entry| entry.path());
    let ours = logs.filter(|path| path.to_string_lossy().ends_with(".etcd-operator.log"));
    ours.chain([folder.join("events.txt")]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_text_is_whole_lines_of_it_if_it_has_several() {
        assert_eq!(end_of("a\nb\n"), "a\nb");
        let long = format!("first {}\nlast\n", "x".repeat(TOLD));
        assert_eq!(end_of(&long), "last");
        assert_eq!(end_of(&"ä".repeat(TOLD)).chars().count(), TOLD / 2);
        assert_eq!(end_of(""), "");
    }
}
