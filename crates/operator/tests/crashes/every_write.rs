//! Every workflow, with every fault at every write: it comes to its goal, and nothing is done twice.

use std::{collections::BTreeMap, ops::RangeInclusive, panic::AssertUnwindSafe, time::Duration};

use fakes::wire::{Breaking, Fault, LATE, Write};
use futures::FutureExt;
use kube::Client;
use tokio::time::sleep;

use crate::{
    goal::twice,
    workflow::{CREATE, CREATE_ONE, DELETE, DELETE_EARLY, GROW, GROW_BY_ONE, HEAL, SEED, SHRINK, Workflow},
    world::World,
};

/// How long nothing may be written at the end: longer than the operator ever waits for a fresh look at a healthy cluster.
const QUIET: Duration = Duration::from_secs(15);

/// How often a run is tried until it meets its fault. What happens in one clean run of three happens in one of these.
const TRIES: usize = 40;

/// How a workflow is run.
#[derive(Clone)]
pub(crate) struct Run {
    pub(crate) workflow: Workflow,
    /// The fault of the first operator.
    pub(crate) fault: Option<Breaking>,
    /// Whether a second operator stands by.
    pub(crate) standby: bool,
    /// What is wrong with the operators.
    pub(crate) bend: fn(Client) -> Client,
    /// Whether every list that is content with any version is from the beginning of the world.
    pub(crate) stale: bool,
    /// The number of a change that no watch tells.
    pub(crate) withheld: Option<u64>,
}

/// What a run was.
pub(crate) struct Told {
    /// The numbered writes of the first operator.
    pub(crate) writes: Vec<Write>,
    /// How often it wrote the Lease until it came to its goal.
    leases: Vec<Write>,
    /// The changes of objects between the beginning of the story and its goal.
    changes: RangeInclusive<u64>,
}

impl Run {
    pub(crate) fn clean(workflow: Workflow) -> Self {
        let bend = |client| client;
        Self { workflow, fault: None, standby: false, bend, stale: false, withheld: None }
    }

    /// Runs it; nothing if the fault was not met.
    async fn run(&self) -> Option<Told> {
        let mut world = World::new();
        if self.stale {
            world.server.serve_stale(Some(0));
        }
        world.server.withhold(self.withheld.into_iter().collect());
        let wire = world.operate(self.fault.clone(), self.bend);
        if self.standby {
            world.operate(None, self.bend);
        }
        (self.workflow.script)(&world).await;
        let changes = world.begun() + 1..=world.revision();
        let of_first = |numbered: bool| {
            let writes = world.record.writes().into_iter();
            writes.filter(|write| write.number.is_some() == numbered && write.who == "op-1").collect()
        };
        let leases = of_first(false);
        self.judge(&world).await;
        let told = Told { writes: of_first(true), leases, changes };
        (self.fault.is_none() || wire.was_hit()).then_some(told)
    }

    async fn judge(&self, world: &World) {
        // What is late may undo it for a moment; what was cut off has to find its way back.
        let late = |broken: &Breaking| matches!(broken.fault, Fault::Late | Fault::CutOff | Fault::Quota);
        if self.fault.as_ref().is_some_and(late) {
            sleep(LATE).await;
        }
        sleep(QUIET).await;
        let before = world.written();
        sleep(QUIET).await;
        assert_eq!(world.written(), before, "an idle cluster costs no writes\n{}", world.story());
        (self.workflow.goal)(world).unwrap_or_else(|why| panic!("it did not last: {why}\n{}", world.story()));
        assert_eq!(world.record.broken(), Vec::<String>::new(), "{}", world.story());
        assert_eq!(twice(world), Vec::<String>::new(), "{}", world.story());
        // A pod that was refused is known not to exist: it costs no attempt.
        if self.fault.as_ref().is_none_or(|broken| broken.fault == Fault::Quota) {
            assert_eq!(world.incarnation(), 1, "nothing was lost\n{}", world.story());
        }
    }

    /// Runs it on a clock of its own, that stands still.
    pub(crate) fn on_a_stopped_clock(&self) -> Told {
        let met = self.until_it_meets_its_fault();
        met.unwrap_or_else(|| panic!("{}: {:?} was not met in {TRIES} runs", self.workflow.name, self.fault))
    }

    /// Runs it until the fault is met, as runs differ by chance; nothing if that never is.
    pub(crate) fn until_it_meets_its_fault(&self) -> Option<Told> {
        for _ in 0..TRIES {
            let mut builder = tokio::runtime::Builder::new_current_thread();
            let runtime = builder.enable_time().start_paused(true).build().unwrap();
            let outcome = runtime.block_on(AssertUnwindSafe(self.run()).catch_unwind());
            let met = outcome.unwrap_or_else(|_| {
                panic!("{} with {:?}, withheld {:?}", self.workflow.name, self.fault, self.withheld)
            });
            if met.is_some() {
                return met;
            }
        }
        None
    }
}

pub(crate) fn breaking(write: &Write, fault: Fault) -> Breaking {
    Breaking { what: write.what.clone(), nth: write.nth, fault }
}

/// Whether a fault can happen to a write.
fn can_happen(fault: Fault, write: &Write) -> bool {
    match fault {
        Fault::Conflict => write.contended,
        Fault::Expire => write.watched,
        // Events are left out: nobody tries again to tell one.
        Fault::Quota => write.what.starts_with("POST ") && write.what != "POST events",
        _ => true,
    }
}

/// The writes of a clean run that are worth breaking.
fn clean_writes(workflow: Workflow, standby: bool) -> Vec<Write> {
    let mut clean = Run { standby, ..Run::clean(workflow) }.on_a_stopped_clock().writes;
    let before =
        |write: &Write| workflow.from.is_some_and(|(what, nth)| write.what != what || write.nth < nth);
    clean.drain(..clean.iter().take_while(|write| before(write)).count());
    clean
}

pub(crate) fn every_fault_at_every_write(workflow: Workflow, faults: &[Fault], standby: bool) {
    let clean = clean_writes(workflow, standby);
    let mut runs: BTreeMap<Fault, usize> = BTreeMap::new();
    for write in &clean {
        for fault in faults.iter().copied().filter(|fault| can_happen(*fault, write)) {
            Run { fault: Some(breaking(write, fault)), standby, ..Run::clean(workflow) }.on_a_stopped_clock();
            *runs.entry(fault).or_default() += 1;
        }
    }
    for fault in faults {
        let implied = clean.iter().filter(|write| can_happen(*fault, write)).count();
        assert_eq!(runs.get(fault).copied().unwrap_or_default(), implied, "{fault:?}");
    }
    let total: usize = runs.values().sum();
    assert!(total >= clean.len() && clean.len() >= workflow.at_least);
    println!("{}: {} writes, {total} runs: {runs:?}", workflow.name, clean.len());
}

/// The faults that need nobody else; a crash is followed by a new process.
pub(crate) const ALONE: [Fault; 7] = [
    Fault::CrashBefore,
    Fault::CrashAfter,
    Fault::LoseAnswer,
    Fault::Conflict,
    Fault::Late,
    Fault::Expire,
    Fault::Quota,
];

/// The faults after which somebody else takes over, who was there before.
pub(crate) const WITH_A_STANDBY: [Fault; 3] = [Fault::CrashBefore, Fault::CrashAfter, Fault::CutOff];

#[test]
fn creating_three_members_survives_every_fault_at_every_write() {
    every_fault_at_every_write(CREATE, &ALONE, false);
}

#[test]
fn creating_three_members_survives_a_change_of_leaders_at_every_write() {
    every_fault_at_every_write(CREATE, &WITH_A_STANDBY, true);
}

pub(crate) fn a_stale_cache_after_every_crash(workflow: Workflow) {
    let clean = clean_writes(workflow, false);
    for write in &clean {
        let fault = Some(breaking(write, Fault::CrashAfter));
        Run { fault, stale: true, ..Run::clean(workflow) }.on_a_stopped_clock();
    }
    assert!(clean.len() >= workflow.at_least);
    println!("{}: a stale cache after every crash: {} runs", workflow.name, clean.len());
}

#[test]
fn creating_three_members_survives_a_stale_cache_after_every_crash() {
    a_stale_cache_after_every_crash(CREATE);
}

#[test]
fn changes_of_the_membership_survive_a_stale_cache_after_every_crash() {
    for workflow in [GROW_BY_ONE, SHRINK, HEAL] {
        a_stale_cache_after_every_crash(workflow);
    }
}

fn the_loss_of_every_event(workflow: Workflow) {
    // Those of renewals are lost on nobody; what comes after the goal was reached is no news.
    let changes = Run::clean(workflow).on_a_stopped_clock().changes;
    for revision in changes.clone() {
        Run { withheld: Some(revision), ..Run::clean(workflow) }.on_a_stopped_clock();
    }
    let runs = changes.count();
    assert!(runs >= workflow.at_least);
    println!("{}: a watch that skips an event: {runs} runs", workflow.name);
}

#[test]
fn creating_one_member_survives_the_loss_of_every_event() {
    the_loss_of_every_event(CREATE_ONE);
}

#[test]
fn changes_of_the_membership_survive_the_loss_of_every_event() {
    for workflow in [GROW_BY_ONE, SHRINK, HEAL] {
        the_loss_of_every_event(workflow);
    }
}

/// The first writes of the Lease: it is made, and then renewed while members are made. One member alone is made before that.
#[test]
fn growing_survives_every_fault_at_the_first_writes_of_the_lease() {
    for (faults, standby) in [(ALONE.as_slice(), false), (WITH_A_STANDBY.as_slice(), true)] {
        let clean = Run { standby, ..Run::clean(GROW_BY_ONE) }.on_a_stopped_clock().leases;
        assert!(clean.len() >= 2, "{clean:?}");
        let mut runs = 0;
        for write in &clean {
            for fault in faults.iter().copied().filter(|fault| can_happen(*fault, write)) {
                let fault = Some(breaking(write, fault));
                Run { fault, standby, ..Run::clean(GROW_BY_ONE) }.on_a_stopped_clock();
                runs += 1;
            }
        }
        println!("the Lease: {} writes, {runs} runs", clean.len());
    }
}

#[test]
fn creating_one_member_survives_every_fault_at_every_write() {
    every_fault_at_every_write(CREATE_ONE, &ALONE, false);
}

// To delete, the operator writes nothing: what can go wrong is what it wrote before and lands afterwards.
#[test]
fn what_lands_after_the_cluster_was_deleted_leaves_nothing() {
    every_fault_at_every_write(DELETE, &[Fault::Late], false);
}

#[test]
fn deleting_while_members_are_made_survives_every_fault_at_every_write() {
    every_fault_at_every_write(DELETE_EARLY, &ALONE, false);
}

#[test]
fn a_seed_survives_every_fault_at_every_write() {
    every_fault_at_every_write(SEED, &ALONE, false);
}

#[test]
fn growing_survives_every_fault_at_every_write() {
    every_fault_at_every_write(GROW, &ALONE, false);
}

#[test]
fn growing_survives_a_change_of_leaders_at_every_write() {
    every_fault_at_every_write(GROW, &WITH_A_STANDBY, true);
}

#[test]
fn shrinking_survives_every_fault_at_every_write() {
    every_fault_at_every_write(SHRINK, &ALONE, false);
}

#[test]
fn healing_survives_every_fault_at_every_write() {
    every_fault_at_every_write(HEAL, &ALONE, false);
}

#[test]
fn healing_survives_a_change_of_leaders_at_every_write() {
    every_fault_at_every_write(HEAL, &WITH_A_STANDBY, true);
}
