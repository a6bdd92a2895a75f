//! Every workflow, with every fault at every write: it comes to its goal, and nothing is done twice.

use std::{collections::BTreeMap, panic::AssertUnwindSafe, time::Duration};

use fakes::wire::{Fault, Write};
use futures::FutureExt;
use tokio::time::sleep;

use crate::{
    goal::twice,
    workflow::{CREATE, CREATE_ONE, DELETE, Workflow},
    world::World,
};

/// How long it has to stay quiet at the end: longer than a late write is under way, and than a Lease lasts.
const QUIET: Duration = Duration::from_secs(45);

/// Runs a workflow with a fault, and returns the numbered writes of its first operator.
async fn run(workflow: Workflow, fault: Option<(usize, Fault)>) -> Vec<Write> {
    let mut world = World::new();
    let wire = world.operate(fault);
    (workflow.script)(&world).await;
    sleep(QUIET).await;
    // What is late may have undone it for a moment.
    let numbered =
        |world: &World| world.record.writes().iter().filter(|write| write.number.is_some()).count();
    let before = numbered(&world);
    sleep(QUIET).await;
    assert_eq!(numbered(&world), before, "an idle cluster costs no writes\n{}", world.story());
    assert!(fault.is_none() || wire.was_hit(), "the fault was not met\n{}", world.story());
    assert_eq!(world.record.broken(), Vec::<String>::new(), "{}", world.story());
    assert_eq!(twice(&world), Vec::<String>::new(), "{}", world.story());
    let writes = world.record.writes().into_iter();
    writes.filter(|write| write.number.is_some() && write.who == "op-1").collect()
}

/// A run on a clock of its own, that stands still.
fn on_a_stopped_clock(workflow: Workflow, fault: Option<(usize, Fault)>) -> Vec<Write> {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    let outcome = runtime.block_on(AssertUnwindSafe(run(workflow, fault)).catch_unwind());
    outcome.unwrap_or_else(|_| panic!("{} with {fault:?}", workflow.name))
}

fn every_fault_at_every_write(workflow: Workflow) {
    let clean = on_a_stopped_clock(workflow, None);
    assert!(clean.len() >= workflow.at_least, "{} writes: {clean:?}", clean.len());
    let mut runs: BTreeMap<Fault, usize> = BTreeMap::new();
    for write in &clean {
        for fault in Fault::ALL {
            if fault == Fault::Conflict && !write.contended {
                continue;
            }
            on_a_stopped_clock(workflow, Some((write.number.unwrap(), fault)));
            *runs.entry(fault).or_default() += 1;
        }
    }
    let uncontended = clean.iter().filter(|write| !write.contended).count();
    let total: usize = runs.values().sum();
    assert_eq!(total, clean.len() * Fault::ALL.len() - uncontended);
    println!("{}: {} writes, {total} runs: {runs:?}", workflow.name, clean.len());
}

#[test]
fn creating_three_members_survives_every_fault_at_every_write() {
    every_fault_at_every_write(CREATE);
}

#[test]
fn creating_one_member_survives_every_fault_at_every_write() {
    every_fault_at_every_write(CREATE_ONE);
}

#[test]
fn deleting_survives_every_fault_at_every_write() {
    every_fault_at_every_write(DELETE);
}
