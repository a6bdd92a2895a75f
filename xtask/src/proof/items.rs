//! Beside the loop: the table `docs/proof.yaml`: one line for each S, F, H and I.

use std::{collections::BTreeMap, fs, path::Path};

use anyhow::{Context as _, Result, ensure};
use serde::Deserialize;

use super::sources::Sources;

/// Where the table is, from the repository's root.
const TABLE: &str = "docs/proof.yaml";
/// Where the inputs are that the API's tests judge.
const INPUTS: &str = "crates/api/tests/fixtures";

/// The lists, with how long each one is and what its items are.
pub(super) const LISTS: [(&str, u32, &str); 4] = [
    ("S", 24, "What the seeds show"),
    ("I", 18, "What always holds"),
    ("F", 85, "Faults"),
    ("H", 45, "Hostile and broken inputs"),
];

/// What a kind of test can show.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub(super) enum Layer {
    /// A function, a table, a schema.
    Unit,
    /// The planner in every reachable state of a small world.
    Explorer,
    /// The loop, with an API server that a test plays.
    Loop,
    /// Real etcd processes.
    Etcd,
    /// A real Kubernetes with real etcd.
    Testbed,
}

impl Layer {
    /// The layer that a test is of, by where it is.
    fn of(file: &str) -> Self {
        let tests_of = |package: &str| file.starts_with(&format!("crates/{package}/tests/"));
        let of_the_testbed = |group: &str| file.starts_with(&format!("testbed/tests/{group}/"));
        if file.starts_with("e2e/tests/")
            || ["parallel", "exclusive", "lifecycle"].into_iter().any(of_the_testbed)
        {
            Self::Testbed
        } else if tests_of("sim") {
            Self::Explorer
        } else if tests_of("operator") {
            Self::Loop
        } else if tests_of("etcd-admin") || tests_of("launcher") || file.starts_with("testbed/tests/") {
            Self::Etcd
        } else {
            Self::Unit
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Unit => "unit",
            Self::Explorer => "explorer",
            Self::Loop => "loop",
            Self::Etcd => "etcd",
            Self::Testbed => "testbed",
        }
    }
}

/// One line of the table.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Item {
    /// What it is, in a few words.
    pub(super) what: String,
    /// Where it has to be shown.
    pub(super) layer: Layer,
    /// The tests that show it, or a part of it.
    #[serde(default)]
    pub(super) by: Vec<String>,
    /// The inputs that these tests judge, below the fixtures' folder; a star stands for anything.
    #[serde(default)]
    pub(super) inputs: Vec<String>,
    /// What is not shown yet.
    pub(super) missing: Option<String>,
}

/// How far an item is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shown {
    Yes,
    Partly,
    NotYet,
}

impl Item {
    pub(super) fn shown(&self) -> Shown {
        match (self.by.is_empty(), &self.missing) {
            (true, _) => Shown::NotYet,
            (false, Some(_)) => Shown::Partly,
            (false, None) => Shown::Yes,
        }
    }

    fn check(&self, sources: &Sources, inputs: &[String]) -> Result<()> {
        let mut layers = Vec::new();
        for test in &self.by {
            layers.push(Layer::of(sources.find(test)?.0));
        }
        ensure!(
            self.shown() != Shown::Yes || layers.contains(&self.layer),
            "no test of it is of the layer {}: say what is missing",
            self.layer.name()
        );
        ensure!(self.inputs.is_empty() || !self.by.is_empty(), "it has inputs, and no test judges them");
        for pattern in &self.inputs {
            let (start, end) = pattern.split_once('*').unwrap_or((pattern, ""));
            let whole = !pattern.contains('*');
            let fits = |input: &String| {
                if whole { input == pattern } else { input.starts_with(start) && input.ends_with(end) }
            };
            ensure!(inputs.iter().any(fits), "there is no input {pattern}");
        }
        Ok(())
    }
}

/// The whole table.
pub(super) struct Items {
    items: BTreeMap<String, Item>,
    inputs: Vec<String>,
}

impl Items {
    pub(super) fn read(root: &Path) -> Result<Self> {
        let text = fs::read_to_string(root.join(TABLE)).with_context(|| format!("read {TABLE}"))?;
        let items = serde_saphyr::from_str(&text).with_context(|| format!("{TABLE} is no table"))?;
        let mut inputs = Vec::new();
        for folder in fs::read_dir(root.join(INPUTS)).with_context(|| format!("read {INPUTS}"))? {
            let folder = folder?;
            if !folder.file_type()?.is_dir() {
                continue;
            }
            for file in fs::read_dir(folder.path())? {
                let (folder, file) = (folder.file_name(), file?.file_name());
                inputs.push(format!("{}/{}", folder.to_string_lossy(), file.to_string_lossy()));
            }
        }
        Ok(Self { items, inputs })
    }

    /// Whether every item is there, and nothing else, and all that they speak of.
    pub(super) fn check(&self, sources: &Sources) -> Result<()> {
        for (key, _) in LISTS.iter().flat_map(|(letter, last, _)| numbered(letter, *last)) {
            ensure!(self.items.contains_key(&key), "{TABLE}: {key} is missing");
        }
        let wanted: u32 = LISTS.iter().map(|(_, last, _)| last).sum();
        ensure!(u32::try_from(self.items.len()) == Ok(wanted), "{TABLE} has an item that is in no list");
        for (key, item) in &self.items {
            item.check(sources, &self.inputs).with_context(|| format!("{TABLE}, {key}"))?;
        }
        Ok(())
    }

    /// The items of a list, in their order.
    pub(super) fn of<'a>(&'a self, letter: &'a str, last: u32) -> impl Iterator<Item = (String, &'a Item)> {
        numbered(letter, last).filter_map(|(key, _)| self.items.get(&key).map(|item| (key, item)))
    }

    /// How many items of a list are how far.
    pub(super) fn numbers(&self, letter: &str, last: u32) -> [usize; 3] {
        [Shown::Yes, Shown::Partly, Shown::NotYet]
            .map(|shown| self.of(letter, last).filter(|(_, item)| item.shown() == shown).count())
    }

    /// Says how many items of each list are how far.
    pub(super) fn count(&self) {
        for (letter, last, title) in LISTS {
            let [shown, partly, not_yet] = self.numbers(letter, last);
            println!(
                "{letter}1 to {letter}{last}, {title}: {shown} shown, {partly} partly, {not_yet} not yet"
            );
        }
    }
}

fn numbered(letter: &str, last: u32) -> impl Iterator<Item = (String, u32)> {
    (1..=last).map(move |number| (format!("{letter}{number}"), number))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(item: &str) -> Result<()> {
        let item: Item = serde_saphyr::from_str(item)?;
        let sources = Sources::of(&[("e2e/tests/a.rs", "on_a_cluster"), ("crates/api/src/a.rs", "in_code")]);
        item.check(&sources, &["bad/size-0.yaml".to_owned()])
    }

    #[test]
    fn an_item_speaks_only_of_what_there_is_and_is_shown_only_in_its_layer() {
        for good in [
            "{what: x, layer: testbed}",
            "{what: x, layer: testbed, by: [on_a_cluster]}",
            "{what: x, layer: testbed, by: [in_code], missing: y}",
            "{what: x, layer: unit, by: [in_code], inputs: [bad/size-*, bad/size-0.yaml]}",
        ] {
            judged(good).unwrap();
        }
        for bad in [
            "{what: x, layer: testbed, by: [in_code]}",
            "{what: x, layer: testbed, by: [renamed]}",
            "{what: x, layer: unit, by: [in_code], inputs: [bad/size-1.yaml]}",
            "{what: x, layer: unit, by: [in_code], inputs: [good/*]}",
            "{what: x, layer: unit, inputs: [bad/size-*]}",
            "{what: x, layer: somewhere}",
            "{what: x, layer: unit, passed: true}",
        ] {
            assert!(judged(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn an_item_that_is_missing_or_in_no_list_is_named() {
        let sources = Sources::of(&[]);
        let all = || LISTS.iter().flat_map(|(letter, last, _)| numbered(letter, *last)).map(|(key, _)| key);
        let items = |keys: &mut dyn Iterator<Item = String>| {
            let item = || Item {
                what: String::new(),
                layer: Layer::Unit,
                by: vec![],
                inputs: vec![],
                missing: None,
            };
            Items { items: keys.map(|key| (key, item())).collect(), inputs: Vec::new() }.check(&sources)
        };
        items(&mut all()).unwrap();
        assert!(
            items(&mut all().filter(|key| key != "F7")).unwrap_err().to_string().contains("F7 is missing")
        );
        assert!(items(&mut all().chain(["X1".to_owned()])).is_err());
    }
}
