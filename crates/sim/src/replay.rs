//! FOR PROOF: a path told as it happens to members that keep their names.
//!
//! States are kept with interchangeable members sorted, so along a path "pod 0" may be one member here and another one there. The
//! path is walked again with members told apart, past states that look like the ones on it.

use std::mem::Discriminant;

use crate::{
    action::Action,
    cast::{AttemptId, Who},
    explore::Explorable,
    model::Model,
    moves::Moves,
    state::{Pod, Resource, Round, Service, State},
    write::Change,
};

/// What two states have in common that differ in which member is which.
#[derive(PartialEq)]
struct Likeness {
    resource: Resource,
    services: [Service; 2],
    leader: Who,
    pods: Vec<Pod>,
    plans: Vec<Vec<Discriminant<Change>>>,
}

/// The path with the members' own names, or as it is where that cannot be told.
pub(crate) fn told(model: &mut Model<'_>, states: &[State], path: &[Action]) -> Vec<Action> {
    let sorted = model.distinct;
    model.distinct = true;
    let told = walk(model, states, path);
    model.distinct = sorted;
    told.unwrap_or_else(|| path.to_vec())
}

fn walk(model: &mut Model<'_>, states: &[State], path: &[Action]) -> Option<Vec<Action>> {
    let mut told = Vec::new();
    let mut here = *states.first()?;
    for (n, action) in path.iter().enumerate() {
        let wanted = states.get(n + 1).map(|state| likeness(model, state));
        let mut moves = Moves::default();
        model.moves(&here, true, &mut moves);
        let same = |other: &Action| std::mem::discriminant(other) == std::mem::discriminant(action);
        let found = moves.all.into_iter().find(|(other, outcome)| match (outcome, &wanted) {
            (Ok(state), Some(wanted)) => same(other) && likeness(model, state) == *wanted,
            (Err(_), None) => same(other),
            _ => false,
        });
        let (action, outcome) = found?;
        told.push(action);
        if let Ok(next) = outcome {
            here = next;
        }
    }
    Some(told)
}

fn likeness(model: &Model<'_>, state: &State) -> Likeness {
    let mut pods = Vec::new();
    for attempt in AttemptId::all() {
        let mut own: Vec<Pod> = attempt.pods().map(|id| state.pod(id)).collect();
        own.sort_unstable();
        pods.extend(own);
    }
    let plan_of = |who: Who| {
        let operator = state.operator(who);
        let planned = match operator.round {
            Round::Acting { script, .. } => model.book.writes_of(script),
            Round::Idle | Round::Read { .. } | Round::Listed { .. } => &[],
        };
        let flying = operator.flying.map(|flying| flying.write);
        let writes = planned.iter().copied().chain(flying);
        writes.map(|id| std::mem::discriminant(&model.book.change(id))).collect()
    };
    Likeness {
        resource: state.resource,
        services: [state.peer, state.client],
        leader: state.leader,
        pods,
        plans: Who::ALL.into_iter().map(plan_of).collect(),
    }
}
