//! Which tests that failed on the cluster are run once more, in CI: those that a busy machine may have failed. What may not happen even
//! once, a lost write, a broken history, a second cluster, says so in its message (`GRAVE`), and no second run excuses it.

use testbed::kit::GRAVE;

use crate::report::Test;

/// If more have failed, it is no accident.
const FEW: usize = 5;

/// The tests among these that are run once more.
pub(crate) fn worth_it(tests: &[Test]) -> Vec<&Test> {
    let failed: Vec<&Test> = tests.iter().filter(|test| !test.passed).collect();
    if failed.len() > FEW {
        return Vec::new();
    }
    // Only what shares the machine with a whole Kubernetes: what fails without one fails always.
    let on_cluster = |test: &&Test| ["testbed", "e2e"].iter().any(|package| test.is_of(package));
    failed.into_iter().filter(on_cluster).filter(|test| !test.said.contains(GRAVE)).collect()
}

/// The filter by which nextest selects exactly these.
pub(crate) fn filter(tests: &[&Test]) -> String {
    let one = |test: &&Test| format!("(binary_id(={}) & test(={}))", test.binary, test.name);
    tests.iter().map(one).collect::<Vec<_>>().join(" + ")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn test(binary: &str, name: &str, passed: bool, said: &str) -> Test {
        Test {
            binary: binary.to_owned(),
            name: name.to_owned(),
            took: Duration::ZERO,
            passed,
            said: said.to_owned(),
            failed_before: false,
        }
    }

    #[test]
    fn what_failed_on_the_cluster_is_run_once_more_and_nothing_else() {
        let tests = [
            test("e2e::parallel", "walk::a", false, "not done within 5 min"),
            test("e2e::parallel", "walk::b", true, ""),
            test("testbed::exclusive", "dns", false, "late"),
            test("etcd-operator::crashes", "every_write", false, "assertion failed"),
            test("e2e-like::parallel", "other", false, "late"),
        ];
        let again = worth_it(&tests);
        assert_eq!(
            filter(&again),
            "(binary_id(=e2e::parallel) & test(=walk::a)) + (binary_id(=testbed::exclusive) & test(=dns))"
        );
    }

    #[test]
    fn what_may_not_happen_even_once_is_not_run_again() {
        let said = format!("Error: it\n\nCaused by:\n    {GRAVE} 2 acknowledged writes are lost");
        assert!(worth_it(&[test("e2e::parallel", "history::x", false, &said)]).is_empty());
    }

    #[test]
    fn many_failures_are_no_accident() {
        let failed = |count: usize| -> Vec<Test> {
            (0..count).map(|number| test("e2e::parallel", &number.to_string(), false, "late")).collect()
        };
        assert_eq!(worth_it(&failed(FEW)).len(), FEW);
        assert!(worth_it(&failed(FEW + 1)).is_empty());
    }
}
