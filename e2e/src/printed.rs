//! Whether what was printed is what a seed shows: spaces, names, ages and further lines make no difference, order does.

/// Looks for every expected line, in order. In a line, `*` stands for anything within a word, and `...` at its end for any
/// further words. A line whose first word has a star is about an object of its own: no two of them may be the same one.
pub fn printed(expected: &[String], output: &str) -> Result<(), String> {
    let mut lines = output.lines();
    let mut objects: Vec<&str> = Vec::new();
    for wanted in expected {
        let first = wanted.split_whitespace().next().unwrap_or_default();
        let fits = |line: &&str| {
            let object = line.split_whitespace().next().unwrap_or_default();
            matches(wanted, line) && !(first.contains('*') && objects.contains(&object))
        };
        let Some(line) = lines.by_ref().find(fits) else {
            return Err(format!("no line like {wanted:?} in its place in\n{output}"));
        };
        objects.extend(line.split_whitespace().next());
    }
    Ok(())
}

fn matches(pattern: &str, line: &str) -> bool {
    let mut words = line.split_whitespace();
    for wanted in pattern.split_whitespace() {
        if wanted == "..." {
            return true;
        }
        if !words.next().is_some_and(|word| word_matches(wanted, word)) {
            return false;
        }
    }
    words.next().is_none()
}

fn word_matches(pattern: &str, word: &str) -> bool {
    let Some((start, rest)) = pattern.split_once('*') else { return pattern == word };
    let Some(mut left) = word.strip_prefix(start) else { return false };
    let mut parts: Vec<_> = rest.split('*').collect();
    let end = parts.pop().unwrap_or_default();
    for part in parts {
        let Some(at) = left.find(part) else { return false };
        left = left.get(at + part.len()..).unwrap_or_default();
    }
    left.ends_with(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PODS: &str = "NAME        READY   STATUS    RESTARTS   AGE
c-abc       1/1     Running   0          3s
c-abc       1/1     Running   0          4s
c-def       1/1     Running   0          9s";

    #[test]
    fn spaces_ages_and_other_lines_do_not_matter_and_everything_else_does() {
        let cases: [(&[&str], bool); 11] = [
            (&[], true),
            (&["NAME READY STATUS RESTARTS AGE", "c-* 1/1 Running 0 *", "c-* 1/1 Running 0 *"], true),
            (&["NAME ...", "c-def ..."], true),
            (&["c-*f 1/1 Running * *s"], true),
            // In another order.
            (&["c-def ...", "NAME ..."], false),
            // There are two, not three: one is listed twice.
            (&["c-* 1/1 Running 0 *", "c-* 1/1 Running 0 *", "c-* 1/1 Running 0 *"], false),
            (&["c-* 0/1 Running 0 *"], false),
            // More words, or fewer.
            (&["c-* 1/1 Running"], false),
            (&["c-* 1/1 Running 0 * more"], false),
            (&["d-* ..."], false),
            (&["c-*x ..."], false),
        ];
        for (expected, fits) in cases {
            let expected: Vec<_> = expected.iter().map(|&line| line.to_owned()).collect();
            assert_eq!(printed(&expected, PODS).is_ok(), fits, "{expected:?}");
        }
    }
}
