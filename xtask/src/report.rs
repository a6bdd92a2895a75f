//! What `make test` ends with: what the tests that failed have said, minutes per phase, the ten slowest tests, and how many passed. Often
//! the end of the output is all that is left of a run, so it is short, and begins with what matters most.

use std::{
    fmt, fs,
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
    skipped: Vec<&'static str>,
}

/// A test that was run.
pub(crate) struct Test {
    /// The binary that it is in, as nextest names it: `e2e::parallel`.
    pub(crate) binary: String,
    /// Its name in there.
    pub(crate) name: String,
    pub(crate) took: Duration,
    pub(crate) passed: bool,
    /// What it printed to its standard error; kept of those that failed.
    pub(crate) said: String,
    /// Whether it passed only when it was run once more.
    pub(crate) failed_before: bool,
}

impl Test {
    /// Whether it is a test of this package.
    pub(crate) fn is_of(&self, package: &str) -> bool {
        self.binary.strip_prefix(package).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
    }
}

impl fmt::Display for Test {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.binary, self.name)
    }
}

impl Report {
    /// A phase has ended.
    pub(crate) fn phase(&mut self, name: &'static str, took: Duration) {
        self.phases.push((name, took));
    }

    /// Something that this run did not do, and why.
    pub(crate) fn skipped(&mut self, what: &'static str) {
        self.skipped.push(what);
    }

    /// Takes up the results that nextest wrote.
    pub(crate) fn tests(&mut self, results: &Path) -> anyhow::Result<()> {
        self.tests.extend(read(results)?);
        Ok(())
    }

    /// Takes up the results of tests that were run once more. Each counts as it ended then; what it said at first is kept.
    pub(crate) fn tests_again(&mut self, results: &Path) -> anyhow::Result<()> {
        for again in read(results)? {
            let same = |test: &&mut Test| test.binary == again.binary && test.name == again.name;
            if let Some(test) = self.tests.iter_mut().find(same) {
                test.failed_before = again.passed;
                test.passed = again.passed;
                test.took += again.took;
            }
        }
        Ok(())
    }

    /// All tests so far.
    pub(crate) fn all(&self) -> &[Test] {
        &self.tests
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
            println!("{:>6.1} s  {test}", test.took.as_secs_f64());
        }
        for what in &self.skipped {
            println!("\nSKIPPED: {what}");
        }
        let flaky = || self.tests.iter().filter(|test| test.failed_before);
        for test in flaky() {
            println!("\nFLAKY: {test} failed, and passed when it was run once more");
        }
        let passed = self.tests.iter().filter(|test| test.passed).count();
        print!("\n{passed} passed, {} failed", self.tests.len() - passed);
        println!(
            "{}",
            if flaky().count() > 0 { format!(", {} FLAKY", flaky().count()) } else { String::new() }
        );
    }

    fn print_failures(&self) {
        // What passed in the end has something to tell, too: after those that did not.
        let failed = || {
            let of = |in_the_end: bool| self.tests.iter().filter(move |test| test.passed == in_the_end);
            of(false).chain(of(true).filter(|test| test.failed_before))
        };
        for test in failed().filter(|test| !test.passed) {
            println!("\n== FAILED: {test}");
        }
        for test in failed().take(FAILURES) {
            println!("\n== what {test} said");
            println!("{}", end_of(&test.said));
        }
        for file in failed().take(FAILURES).flat_map(|test| evidence(&test.said)) {
            println!("\n-- the end of {}", file.display());
            println!("{}", end_of(&fs::read_to_string(&file).unwrap_or_default()));
        }
    }
}

/// The results that nextest wrote.
fn read(results: &Path) -> anyhow::Result<Vec<Test>> {
    let text = fs::read_to_string(results)
        .with_context(|| format!("the tests left no results in {}", results.display()))?;
    let report = quick_junit::Report::deserialize_from_str(&text)
        .with_context(|| format!("the results in {} cannot be read", results.display()))?;
    let cases = report.test_suites.iter().flat_map(|suite| {
        suite.test_cases.iter().map(|case| Test {
            binary: suite.name.as_str().to_owned(),
            name: case.name.as_str().to_owned(),
            took: case.time.unwrap_or_default(),
            passed: matches!(case.status, TestCaseStatus::Success { .. }),
            said: case.system_err.as_ref().map(|said| said.as_str().to_owned()).unwrap_or_default(),
            failed_before: false,
        })
    });
    Ok(cases.collect())
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

    fn results(folder: &Path, file: &str, outcome: &str) -> PathBuf {
        let path = folder.join(file);
        let case = format!(
            "<testcase name=\"walk::a\" classname=\"e2e::parallel\" time=\"2.0\">{outcome}</testcase>"
        );
        let suite = format!(
            "<testsuite name=\"e2e::parallel\" tests=\"1\" disabled=\"0\" errors=\"0\" failures=\"0\">{case}</testsuite>"
        );
        let text = format!(
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"nextest-run\" tests=\"1\" failures=\"0\" errors=\"0\" \
             time=\"2.0\">{suite}</testsuites>\n"
        );
        fs::write(&path, text).unwrap();
        path
    }

    #[test]
    fn a_test_counts_as_it_ended_when_it_was_run_once_more() {
        const FAILURE: &str =
            "<failure type=\"test failure\">oh</failure><system-err>Error: late</system-err>";
        let folder = tempfile::tempdir().unwrap();
        for (second, passed) in [("", true), (FAILURE, false)] {
            let mut report = Report::default();
            report.tests(&results(folder.path(), "first", FAILURE)).unwrap();
            report.tests_again(&results(folder.path(), "second", second)).unwrap();
            let [test] = report.all() else { panic!("one test was run twice") };
            assert_eq!((test.passed, test.failed_before), (passed, passed));
            assert_eq!(test.said, "Error: late", "what it said at first is kept");
        }
    }

    #[test]
    fn the_end_of_a_text_is_whole_lines_of_it_if_it_has_several() {
        assert_eq!(end_of("a\nb\n"), "a\nb");
        let long = format!("first {}\nlast\n", "x".repeat(TOLD));
        assert_eq!(end_of(&long), "last");
        assert_eq!(end_of(&"ä".repeat(TOLD)).chars().count(), TOLD / 2);
        assert_eq!(end_of(""), "");
    }
}
