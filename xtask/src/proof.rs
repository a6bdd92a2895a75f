//! `cargo xtask proof`: what is shown, by which test, and what is not yet. The page `docs/proof.md` is generated from the same.

mod items;
mod page;
mod sources;

use std::path::Path;

use anyhow::{Context as _, Result};
use e2e::seeds::{self, Standing, Table};

use self::{items::Items, sources::Sources};
use crate::image;

/// The tables and the tests that they speak of, each of which was found.
struct Proof {
    seeds: Table,
    items: Items,
    sources: Sources,
}

impl Proof {
    fn read(root: &Path) -> Result<Self> {
        let sources = Sources::read(root)?;
        let (seeds, items) = (Table::read()?, Items::read(root)?);
        for (name, test) in &seeds.tests {
            sources.find(test).with_context(|| format!("{}: {name}", seeds::TABLE))?;
        }
        items.check(&sources)?;
        Ok(Self { seeds, items, sources })
    }
}

/// The page.
pub(crate) fn page() -> Result<String> {
    page::write(&Proof::read(&image::repository()?)?)
}

/// Checks the tables, and counts.
pub(crate) fn run() -> Result<()> {
    let proof = Proof::read(&image::repository()?)?;
    let standings: Vec<_> = proof.seeds.blocks.iter().map(|block| proof.seeds.standing(block)).collect();
    let count = |standing| standings.iter().filter(|it| **it == standing).count();
    println!(
        "seeds: {} blocks; {} shown, {} pending, {} with nothing of ours to show",
        standings.len(),
        count(Standing::Shown),
        count(Standing::Pending),
        count(Standing::Void)
    );
    for (number, pending) in proof.seeds.pending() {
        println!("  S{number}: {pending} pending");
    }
    match seeds::folder() {
        Some(folder) => {
            proof.seeds.compare(&folder)?;
            println!("  no block of the seeds is missing");
        }
        None => println!(
            "  the seeds are not beside this checkout and not named in SEEDS: whether a block is missing was not checked"
        ),
    }
    proof.items.count();
    Ok(())
}
