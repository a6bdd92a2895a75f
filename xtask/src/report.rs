//! What `make test` ends with: minutes per phase, the ten slowest tests, how many passed, and last, what those that failed have said:
//! often the end of the output is all that is left of a run.

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::Context as _;
use quick_junit::TestCaseStatus;

/// How many lines of a failed test's output are told again, and of each file about it.
const LINES: usize = 30;
/// How much of a line.
const WIDTH: usize = 1500;

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
        for test in self.tests.iter().filter(|test| !test.passed) {
            println!("\n== FAILED: {}", test.name);
            print_end(&test.said);
            for file in evidence(&test.said) {
                println!("\n-- the end of {}", file.display());
                print_end(&fs::read_to_string(&file).unwrap_or_default());
            }
        }
    }
}

fn print_end(text: &str) {
    let lines: Vec<_> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    for line in lines.get(lines.len().saturating_sub(LINES)..).unwrap_or_default() {
        println!("{}", line.chars().take(WIDTH).collect::<String>());
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
