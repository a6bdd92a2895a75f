//! The seeds, block by block: the table in `e2e/seeds.yaml`, and what makes it complete and consistent.
//!
//! The seeds' own text is not in this repository. Where it lies beside the checkout, or where `SEEDS` names its folder, the
//! table is compared with it: a block that is missing here, or that says other commands there, is an error.

use std::{
    collections::{BTreeMap, BTreeSet},
    env, fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, bail, ensure};
use serde::Deserialize;

use crate::{file, repository};

/// Where the table is, from the repository's root.
pub const TABLE: &str = "e2e/seeds.yaml";

/// Every block of every seed.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Table {
    /// The tests that blocks are shown by, under short names: `path/of/file.rs::the_fact`.
    pub tests: BTreeMap<String, String>,
    /// In the order of the seeds.
    pub blocks: Vec<Block>,
}

/// A block of a seed: something that its reader types, or sees in a file.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Block {
    /// The number of the seed and the line: `004:148`.
    pub at: String,
    /// What it is about: S-numbers.
    pub shows: Vec<String>,
    /// What is typed, as printed there.
    pub run: Vec<String>,
    /// It is a listing of this file of ours.
    pub file: Option<String>,
    /// The lines of the listing that our file does not have.
    pub differs: Vec<String>,
    /// It stands in running text.
    pub prose: bool,
    /// Why it cannot be taken literally.
    pub erratum: Option<String>,
    /// What is typed instead.
    pub instead: Vec<String>,
    /// The command of it that has to fail.
    pub fails: Option<String>,
    /// What is printed, line by line: `*` stands for anything within a word, `...` at the end for any further words.
    pub prints: Vec<String>,
    /// The tests that show it.
    pub by: Vec<String>,
    /// The block elsewhere that it repeats.
    #[serde(rename = "as")]
    pub same: Option<String>,
}

/// How far a block is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// A test runs it.
    Shown,
    /// It is about something that is not there yet.
    Pending,
    /// There is nothing of ours to show.
    Void,
}

impl Block {
    /// What is really typed.
    #[must_use]
    pub fn typed(&self) -> &[String] {
        if self.instead.is_empty() { &self.run } else { &self.instead }
    }

    /// What it stands for, in one line.
    #[must_use]
    pub fn title(&self) -> String {
        match (&self.file, self.run.as_slice()) {
            (Some(file), _) => format!("listing of {file}"),
            (None, [first, .., _]) => format!("{first} …"),
            (None, [only]) => only.clone(),
            (None, []) => "what was printed".to_owned(),
        }
    }

    fn seed(&self) -> &str {
        self.at.split(':').next().unwrap_or_default()
    }

    fn line(&self) -> usize {
        self.at.split(':').nth(1).and_then(|line| line.parse().ok()).unwrap_or_default()
    }
}

impl Table {
    /// Reads the table of this repository, and makes sure that it does not contradict itself.
    pub fn read() -> anyhow::Result<Self> {
        let table: Self =
            serde_saphyr::from_str(&file(TABLE)?).with_context(|| format!("{TABLE} is no table"))?;
        table.check()?;
        Ok(table)
    }

    fn check(&self) -> anyhow::Result<()> {
        let places: Vec<_> = self.blocks.iter().map(|block| (block.seed(), block.line())).collect();
        for (index, block) in self.blocks.iter().enumerate() {
            let before = index.checked_sub(1).and_then(|index| places.get(index));
            ensure!(before < places.get(index), "{} is not in the seeds' order, or there twice", block.at);
            self.check_block(block).with_context(|| format!("{TABLE}, {}", block.at))?;
        }
        for name in self.tests.keys() {
            ensure!(
                self.blocks.iter().any(|block| block.by.contains(name)),
                "{TABLE}: nothing is shown by {name}"
            );
        }
        Ok(())
    }

    fn check_block(&self, block: &Block) -> anyhow::Result<()> {
        for name in &block.by {
            ensure!(self.tests.contains_key(name), "{name} is not among the tests");
        }
        ensure!(
            block.by.is_empty() || block.same.is_none(),
            "it repeats another block and is shown by itself"
        );
        ensure!(
            block.instead.is_empty() || block.erratum.is_some(),
            "something else is typed without a reason"
        );
        ensure!(block.differs.is_empty() || block.erratum.is_some(), "the file differs without a reason");
        ensure!(block.fails.is_none() || block.erratum.is_some(), "a command has to fail without a reason");
        if let Some(fails) = &block.fails {
            ensure!(block.typed().contains(fails), "what has to fail is not typed: {fails}");
        }
        let ends = !block.prints.is_empty() || block.file.is_some();
        ensure!(block.by.is_empty() || ends, "it is shown, and it does not say what is printed");
        ensure!(
            !block.shows.is_empty() || block.erratum.is_some() || !block.by.is_empty(),
            "it is about nothing"
        );
        if let Some(same) = &block.same {
            let other = self.block(same)?;
            ensure!(other.same.is_none(), "{same} repeats another block itself");
            ensure!(block.file == other.file, "{same} lists another file");
            for typed in block.typed() {
                ensure!(other.typed().contains(typed), "{same} does not say {typed:?}");
            }
        }
        Ok(())
    }

    fn block(&self, at: &str) -> anyhow::Result<&Block> {
        self.blocks.iter().find(|block| block.at == at).with_context(|| format!("there is no block {at}"))
    }

    /// The block itself, or the one that it repeats.
    fn original<'a>(&'a self, block: &'a Block) -> &'a Block {
        let same = block.same.as_deref().and_then(|same| self.block(same).ok());
        same.unwrap_or(block)
    }

    /// How far a block is. What no test shows is pending, whatever else is said about it.
    #[must_use]
    pub fn standing(&self, block: &Block) -> Standing {
        let original = self.original(block);
        if !original.by.is_empty() {
            Standing::Shown
        } else if block.shows.is_empty() {
            Standing::Void
        } else {
            Standing::Pending
        }
    }

    /// The tests that show a block, by their full names.
    pub fn tests_of<'a>(&'a self, block: &'a Block) -> impl Iterator<Item = &'a str> {
        self.original(block).by.iter().filter_map(|name| self.tests.get(name)).map(String::as_str)
    }

    /// The blocks of a seed that a test shows, in their order.
    pub fn shown_by<'a>(&'a self, seed: &'a str, test: &'a str) -> impl Iterator<Item = &'a Block> {
        self.blocks
            .iter()
            .filter(move |block| block.seed() == seed && block.by.iter().any(|name| name == test))
    }

    /// How many blocks are pending for each S-number, in its order.
    #[must_use]
    pub fn pending(&self) -> BTreeMap<u32, usize> {
        let mut pending = BTreeMap::new();
        for block in self.blocks.iter().filter(|block| self.standing(block) == Standing::Pending) {
            for number in block.shows.iter().filter_map(|s| s.strip_prefix('S')?.parse().ok()) {
                *pending.entry(number).or_default() += 1;
            }
        }
        pending
    }

    /// Compares the table with the seeds themselves.
    pub fn compare(&self, seeds: &Path) -> anyhow::Result<()> {
        let mut found = BTreeSet::new();
        let mut problems = Vec::new();
        for (seed, text) in texts(seeds)? {
            for there in blocks_of(&text) {
                let at = format!("{seed}:{}", there.line);
                match self.blocks.iter().find(|block| block.at == at) {
                    None => problems.push(format!("{at} is missing from {TABLE}: {:?}", there.lines)),
                    Some(block) => problems.extend(differences(block, &there)?),
                }
                found.insert(at);
            }
        }
        let gone = self.blocks.iter().filter(|block| !found.contains(&block.at));
        problems.extend(gone.map(|block| format!("{} is no block of a seed", block.at)));
        ensure!(problems.is_empty(), "{}", problems.join("\n"));
        Ok(())
    }
}

/// What the table says otherwise than the seed.
fn differences(block: &Block, there: &Found) -> anyhow::Result<Vec<String>> {
    let mut problems = Vec::new();
    let commands = there.commands();
    if block.run != commands {
        problems.push(format!("{}: the seed says {commands:?}", block.at));
    }
    if block.prose != there.prose {
        problems.push(format!("{}: whether it stands in running text is not as said", block.at));
    }
    let Some(path) = &block.file else { return Ok(problems) };
    let plain = |line: &str| line.trim().trim_start_matches("- ").replace(['"', '\''], "");
    let ours: Vec<_> = file(path)?.lines().map(plain).collect();
    let differs: Vec<_> = block.differs.iter().map(|line| plain(line)).collect();
    // An ellipsis is the seed's.
    let expected = |line: &String| !["", "...", "[...]"].contains(&line.as_str()) && !differs.contains(line);
    let listed = there.lines.iter().map(|line| plain(line)).filter(expected);
    let missing: Vec<_> = listed.filter(|line| !ours.contains(line)).collect();
    if !missing.is_empty() {
        problems.push(format!("{}: {path} does not have {missing:?}", block.at));
    }
    Ok(problems)
}

/// Where the seeds are, if they are anywhere.
#[must_use]
pub fn folder() -> Option<PathBuf> {
    let named = env::var_os("SEEDS").filter(|named| !named.is_empty()).map(PathBuf::from);
    named.or_else(|| Some(repository().join("../shared/seeds")).filter(|beside| beside.is_dir()))
}

fn texts(folder: &Path) -> anyhow::Result<BTreeMap<String, String>> {
    let mut texts = BTreeMap::new();
    for entry in fs::read_dir(folder).with_context(|| format!("{} cannot be read", folder.display()))? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let number = name.split('_').next().unwrap_or_default().to_owned();
        texts.insert(number, fs::read_to_string(&path).with_context(|| path.display().to_string())?);
    }
    if texts.is_empty() {
        bail!("{} holds no seed", folder.display());
    }
    Ok(texts)
}

/// A block as it stands in a seed.
#[derive(Debug, PartialEq, Eq)]
struct Found {
    line: usize,
    lines: Vec<String>,
    prose: bool,
}

impl Found {
    /// The commands in it: behind a prompt, or all of it where there is none and it is no listing.
    fn commands(&self) -> Vec<String> {
        let prompts = self.lines.iter().any(|line| line.starts_with("$ "));
        let mut commands: Vec<String> = Vec::new();
        let mut open = false;
        for line in &self.lines {
            let first = line.split_whitespace().next().unwrap_or_default();
            let typed = ["k", "kubectl", "etcdctl", "export"].contains(&first);
            if let Some(command) = line.strip_prefix("$ ").or((!prompts && typed).then_some(line)) {
                commands.push(command.trim_end_matches('\\').trim().to_owned());
            } else if let Some(last) = commands.last_mut().filter(|_| open || is_flag(line)) {
                last.push(' ');
                last.push_str(line.trim().trim_end_matches('\\').trim_end());
            } else {
                continue;
            }
            open = line.ends_with('\\');
        }
        commands
    }
}

/// Whether a line goes on with the flags of the command above it.
fn is_flag(line: &str) -> bool {
    let flag = line.trim_start().strip_prefix("--");
    flag.is_some_and(|flag| flag.starts_with(|first: char| first.is_ascii_lowercase()))
}

/// All blocks of a seed: what is fenced; where nothing is, what begins with a prompt or is a manifest; and commands in running text.
fn blocks_of(text: &str) -> Vec<Found> {
    let fences = text.lines().any(|line| line.trim_start().starts_with("```"));
    let mut blocks: Vec<Found> = Vec::new();
    let mut inside = false;
    for (index, line) in text.lines().enumerate() {
        let fence = line.trim_start().starts_with("```");
        let begins =
            if fences { fence && !inside } else { line.starts_with("$ ") || line.starts_with("apiVersion:") };
        let ends = if fences { fence && inside } else { line.trim().is_empty() };
        if begins {
            let (line, lines) =
                if fences { (index + 2, Vec::new()) } else { (index + 1, vec![line.to_owned()]) };
            blocks.push(Found { line, lines, prose: false });
            inside = true;
        } else if ends {
            inside = false;
        } else if inside && let Some(block) = blocks.last_mut() {
            block.lines.push(line.to_owned());
        } else if let Some(command) = in_prose(line) {
            blocks.push(Found { line: index + 1, lines: vec![command], prose: true });
        }
    }
    blocks
}

/// A command in running text: `kubectl`, what to do, and to what, as far as it looks like one.
fn in_prose(line: &str) -> Option<String> {
    let words: Vec<_> = line.split(' ').collect();
    let begin = words.windows(3).position(|three| {
        matches!(three, ["kubectl", _, object] if object.starts_with('-') || object.contains('/') || *object == "pods")
    })?;
    let like_one = |word: &&&str| {
        word.starts_with('-') || word.contains(['/', '=']) || ["pods", "kubectl"].contains(word)
    };
    let end = words.iter().skip(begin + 2).take_while(like_one).count();
    let typed = words.get(begin..begin + 2 + end)?;
    Some(typed.join(" "))
}

#[cfg(test)]
mod tests;
