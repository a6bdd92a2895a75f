//! Whether one key behaved as a single register: is there an order of the operations, each at some moment between its
//! question and its answer, in which every read finds what was written last?
//!
//! This is the search of Wing and Gong in Lowe's form that goes through the history once: it keeps every state that the
//! register can be in, with the set of open operations that took effect already, and makes open ones take effect only
//! when an answer demands it. So its length costs nothing but time; what costs memory is how many writes are open at once. Two things keep these
//! few. A write of which nobody knows matters only if its value was read, and then it took effect before the first such
//! read was answered; otherwise it can be thought of as the last of all. And an open read that fits the state may always
//! take effect at once: it changes nothing.

use std::{
    collections::{HashMap, HashSet},
    time::Duration,
};

use super::record::{Did, Operation, Value};

/// How many operations may be open at once.
const SLOTS: usize = 128;
/// How many states are followed, at the most.
const STATES: usize = 1 << 16;

/// Why a key's history is no register's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotLinear {
    /// The answer of this operation cannot be explained, whatever happened before it.
    At(usize),
    /// There are too many possibilities to follow; seen when this operation was answered.
    TooWide(usize),
}

/// An operation that took effect before it was answered.
struct Effect {
    operation: usize,
    invoked: Duration,
    returned: Duration,
    kind: Kind,
}

#[derive(Clone, Copy)]
enum Kind {
    Write(Value),
    Read(Option<Value>),
}

/// One possibility: the register's value, and the open operations that took effect.
type Possible = (Option<Value>, u128);

/// Looks at all operations of one key, which held nothing in the beginning.
pub fn check(operations: &[Operation]) -> Result<(), NotLinear> {
    let effects = effects(operations);
    let mut open = Open::default();
    let mut possible = HashSet::from([(None, 0)]);
    for event in events(&effects) {
        match event {
            Event::Invoked(effect) => {
                open.add(effect).map_err(|Full| NotLinear::TooWide(effect.operation))?;
            }
            Event::Returned(effect) => {
                possible = open.after(&possible, effect).ok_or(NotLinear::TooWide(effect.operation))?;
                if possible.is_empty() {
                    return Err(NotLinear::At(effect.operation));
                }
                open.remove(effect);
            }
        }
    }
    Ok(())
}

/// The operations that certainly took effect, and the latest moment at which they did.
fn effects(operations: &[Operation]) -> Vec<Effect> {
    let mut first_read: HashMap<Value, Duration> = HashMap::new();
    for operation in operations {
        if let Did::Read { found: Some(found), .. } = operation.did {
            let first = first_read.entry(found.value).or_insert(operation.returned);
            *first = operation.returned.min(*first);
        }
    }
    let effect = |(at, operation): (usize, &Operation)| {
        let &Operation { invoked, returned, .. } = operation;
        let (returned, kind) = match operation.did {
            Did::Wrote { value, .. } => (returned, Kind::Write(value)),
            Did::WriteUnknown { value } => (*first_read.get(&value)?, Kind::Write(value)),
            Did::Read { found, .. } => (returned, Kind::Read(found.map(|found| found.value))),
            Did::WriteFailed { .. } | Did::ReadFailed => return None,
        };
        // A value that was read before it was written: the read is what cannot be explained, and it comes first.
        (invoked <= returned).then_some(Effect { operation: at, invoked, returned, kind })
    };
    operations.iter().enumerate().filter_map(effect).collect()
}

enum Event<'a> {
    Invoked(&'a Effect),
    Returned(&'a Effect),
}

/// In order of time; of the same moment the questions first, for they may have been open together.
fn events(effects: &[Effect]) -> impl Iterator<Item = Event<'_>> {
    let mut events: Vec<_> = effects
        .iter()
        .flat_map(|effect| [(effect.invoked, false, effect), (effect.returned, true, effect)])
        .collect();
    events.sort_by_key(|&(time, returned, effect)| (time, returned, effect.operation));
    events.into_iter().map(
        |(_, returned, effect)| {
            if returned { Event::Returned(effect) } else { Event::Invoked(effect) }
        },
    )
}

/// The operations that were asked and not answered yet, each in a slot.
#[derive(Default)]
struct Open {
    slots: Vec<Option<(usize, Kind)>>,
}

struct Full;

impl Open {
    fn add(&mut self, effect: &Effect) -> Result<(), Full> {
        let taken = Some((effect.operation, effect.kind));
        if let Some(free) = self.slots.iter_mut().find(|slot| slot.is_none()) {
            *free = taken;
        } else if self.slots.len() < SLOTS {
            self.slots.push(taken);
        } else {
            return Err(Full);
        }
        Ok(())
    }

    fn remove(&mut self, effect: &Effect) {
        if let Some(slot) = self.slots.iter_mut().find(|slot| is(slot.as_ref(), effect)) {
            *slot = None;
        }
    }

    /// What is possible once this operation has taken effect and is forgotten; nothing if there is too much of it.
    fn after(&self, possible: &HashSet<Possible>, effect: &Effect) -> Option<HashSet<Possible>> {
        let at = self.slots.iter().position(|slot| is(slot.as_ref(), effect))?;
        let mut seen = HashSet::new();
        let mut next = HashSet::new();
        let mut to_see: Vec<_> = possible.iter().map(|&it| self.with_reads(it)).collect();
        while let Some((state, done)) = to_see.pop() {
            if done & bit(at) != 0 {
                next.insert((state, done & !bit(at)));
                continue;
            }
            if !seen.insert((state, done)) {
                continue;
            }
            if seen.len() > STATES {
                return None;
            }
            for (slot, kind) in self.kinds() {
                if let Kind::Write(value) = kind
                    && done & bit(slot) == 0
                {
                    to_see.push(self.with_reads((Some(value), done | bit(slot))));
                }
            }
        }
        Some(next)
    }

    /// Lets every open read take effect that finds this state.
    fn with_reads(&self, (state, done): Possible) -> Possible {
        let fits = |kind: Kind| matches!(kind, Kind::Read(found) if found == state);
        let reads = self.kinds().filter(|&(_, kind)| fits(kind));
        (state, reads.fold(done, |done, (slot, _)| done | bit(slot)))
    }

    fn kinds(&self) -> impl Iterator<Item = (usize, Kind)> {
        self.slots.iter().enumerate().filter_map(|(at, slot)| slot.map(|(_, kind)| (at, kind)))
    }
}

fn is(slot: Option<&(usize, Kind)>, effect: &Effect) -> bool {
    slot.is_some_and(|&(operation, _)| operation == effect.operation)
}

const fn bit(slot: usize) -> u128 {
    1 << slot
}

#[cfg(test)]
#[path = "linear_tests.rs"]
mod tests;
