//! Beside the loop: every test that there is, found in the sources, so that a table cannot speak of one that is not.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result, bail};

/// Where tests are.
const FOLDERS: [&str; 4] = ["crates", "e2e", "testbed", "xtask"];

/// Every test, by its name: the files that have one of that name.
pub(super) struct Sources(BTreeMap<String, Vec<String>>);

impl Sources {
    /// Reads all sources below the repository's root.
    pub(super) fn read(root: &Path) -> Result<Self> {
        let mut tests: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for folder in FOLDERS {
            for path in rust_files(&root.join(folder))? {
                let text = fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
                let place = path.strip_prefix(root).unwrap_or(&path).display().to_string();
                for name in tests_in(&text) {
                    tests.entry(name).or_default().push(place.clone());
                }
            }
        }
        Ok(Self(tests))
    }

    /// These tests and no others, by file and name.
    #[cfg(test)]
    pub(super) fn of(tests: &[(&str, &str)]) -> Self {
        let mut all: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (file, name) in tests {
            all.entry((*name).to_owned()).or_default().push((*file).to_owned());
        }
        Self(all)
    }

    /// The file of a test, which is named as `the_fact`, or as `path/of/file.rs::the_fact` where several have that name.
    pub(super) fn find(&self, test: &str) -> Result<(&str, &str)> {
        let (path, name) = test.rsplit_once("::").unwrap_or(("", test));
        let (name, files) = self.0.get_key_value(name).with_context(|| format!("there is no test {name}"))?;
        let fitting: Vec<_> = files.iter().filter(|file| path.is_empty() || *file == path).collect();
        match fitting.as_slice() {
            [file] => Ok((file.as_str(), name.as_str())),
            [] => bail!("{path} has no test {name}; there is one in {}", files.join(", ")),
            _ => bail!("there are several tests {name}: say which of {}", files.join(", ")),
        }
    }
}

fn rust_files(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).with_context(|| format!("read {}", folder.display()))? {
        let path = entry?.path();
        if path.is_dir() && path.file_name().is_some_and(|name| name != "target") {
            files.extend(rust_files(&path)?);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

/// The tests of a file: functions behind an attribute, and the rows of macros that make tests.
fn tests_in(text: &str) -> Vec<String> {
    let mut tests = Vec::new();
    let (mut attribute, mut rows) = (false, false);
    let makes_tests = text.contains("macro_rules!");
    for line in text.lines() {
        let line_is_row = rows && line.starts_with("    ");
        rows = line_is_row || (makes_tests && is_macro_call(line));
        let trimmed = line.trim_start();
        if line_is_row {
            tests.extend(identifier(trimmed));
        } else if trimmed.starts_with("#[test]") || trimmed.starts_with("#[tokio::test") {
            attribute = true;
        } else if attribute && let Some((_, after)) = line.split_once("fn ") {
            tests.extend(identifier(after));
            attribute = false;
        }
    }
    tests
}

fn is_macro_call(line: &str) -> bool {
    line.strip_suffix("! {").is_some_and(|name| identifier(name).is_some_and(|identifier| identifier == name))
}

fn identifier(text: &str) -> Option<String> {
    let end = text.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(text.len());
    text.get(..end).filter(|name| !name.is_empty()).map(ToOwned::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"
#[test]
fn a() {}
    #[tokio::test(flavor = "multi_thread")]
    #[allow(x)]
    async fn b() {}
fn no_test() {}
macro_rules! rows {
    ($($name:ident)*) => {$(
        #[test]
        fn $name() {}
    )*};
}

rows! {
    c
    d, 1 => e;
}
fn nor_this() {}
"#;

    #[test]
    fn tests_are_found_by_their_attribute_and_in_the_rows_of_macros() {
        assert_eq!(tests_in(TEXT), ["a", "b", "c", "d"]);
        assert!(tests_in("fn a() {}\nvec! {\n    c\n}").is_empty());
    }

    #[test]
    fn a_name_that_is_none_or_several_is_refused() {
        let sources = Sources::of(&[("x.rs", "a"), ("x.rs", "b"), ("y.rs", "b")]);
        assert_eq!(sources.find("a").unwrap(), ("x.rs", "a"));
        assert_eq!(sources.find("y.rs::b").unwrap(), ("y.rs", "b"));
        for none in ["b", "c", "y.rs::a", "z.rs::b"] {
            assert!(sources.find(none).is_err(), "{none}");
        }
    }
}
