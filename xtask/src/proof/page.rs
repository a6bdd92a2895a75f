//! Beside the loop: `docs/proof.md`, for people.

use std::fmt::Write as _;

use anyhow::Result;
use e2e::seeds::Standing;

use super::{
    Proof,
    items::{Item, LISTS, Shown},
};

const HEAD: &str = "<!-- Generated from docs/proof.yaml and e2e/seeds.yaml by `cargo xtask generate`. Do not edit. -->
# What is shown, and by what

Every behaviour of the seeds (S), every invariant (I), every fault (F) and every hostile input (H), with the layer that has to
show it and the tests that do. CI fails when a test that is named here does not exist. What no test shows is *not yet*; where
a test shows a part, the rest is named.

| layer | what runs there |
| --- | --- |
| unit | functions, tables, schemas, generated objects |
| explorer | the planner in every reachable state of a small world |
| loop | the operator's loop, with an API server that a test plays |
| etcd | real etcd processes |
| testbed | a real Kubernetes with real etcd |
";

pub(super) fn write(proof: &Proof) -> Result<String> {
    let mut page = HEAD.to_owned();
    for (letter, last, title) in LISTS {
        let [shown, partly, not_yet] = proof.items.numbers(letter, last);
        write!(
            page,
            "\n## {title}: {letter}1 to {letter}{last}\n\n{shown} shown, {partly} partly, {not_yet} not yet.\n\n"
        )?;
        page.push_str("| # | what | layer | shown by |\n| --- | --- | --- | --- |\n");
        for (key, item) in proof.items.of(letter, last) {
            writeln!(
                page,
                "| {key} | {} | {} | {} |",
                cell(&item.what),
                item.layer.name(),
                shown_by(proof, item)?
            )?;
        }
    }
    blocks(proof, &mut page)?;
    Ok(page)
}

fn shown_by(proof: &Proof, item: &Item) -> Result<String> {
    let mut said = Vec::new();
    for test in &item.by {
        said.push(link(proof, test)?);
    }
    if !item.inputs.is_empty() {
        said.push(format!("inputs {}", cell(&item.inputs.join(", "))));
    }
    match (item.shown(), &item.missing) {
        (Shown::NotYet, None) => said.push("*not yet*".to_owned()),
        (_, Some(missing)) => said.push(format!("*not yet*: {}", cell(missing))),
        (_, None) => {}
    }
    Ok(said.join("; "))
}

fn link(proof: &Proof, test: &str) -> Result<String> {
    let (file, name) = proof.sources.find(test)?;
    Ok(format!("[{name}](../{file})"))
}

/// What would end a cell does not.
fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('*', "\\*")
}

fn blocks(proof: &Proof, page: &mut String) -> Result<()> {
    page.push_str("\n## The seeds, block by block\n\nBy the number of the seed and the line.\n\n");
    page.push_str("| block | about | what | shown by |\n| --- | --- | --- | --- |\n");
    for block in &proof.seeds.blocks {
        let mut said = match proof.seeds.standing(block) {
            Standing::Shown => {
                let tests: Result<Vec<_>> =
                    proof.seeds.tests_of(block).map(|test| link(proof, test)).collect();
                tests?.join("; ")
            }
            Standing::Pending => "*pending*".to_owned(),
            Standing::Void => "nothing of ours".to_owned(),
        };
        if let Some(erratum) = &block.erratum {
            write!(said, ". Erratum: {}", cell(erratum))?;
        }
        let title = block.title().replace('|', "\\|");
        writeln!(page, "| {} | {} | `{title}` | {said} |", block.at, block.shows.join(", "))?;
    }
    Ok(())
}
