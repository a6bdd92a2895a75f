//! What `make test` ends with: minutes per phase, the ten slowest tests, and how many passed.

use std::{fs, path::Path, time::Duration};

use anyhow::Context as _;
use quick_junit::TestCaseStatus;

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
    }
}
