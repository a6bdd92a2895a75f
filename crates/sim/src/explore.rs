//! FOR PROOF: every state that can be reached is visited; safety is asked of each, and the goal is looked for from each.
//!
//! Paths are ordered by faults and then by length, so a state is visited once, at its fewest faults, and the path to it is the
//! shortest of those. The goal: from every state it can be reached by the plain course of things, and that course never leaves
//! it. In a finite world this is the same as: whoever is fair, and lets everything happen that can happen for ever, gets there
//! and stays.

use std::{
    collections::BTreeMap,
    fmt,
    hash::{BuildHasherDefault, Hash},
};

use indexmap::IndexSet;

use crate::{action::Kind, cast::CastError, goal::End, hash::Quick, laws::Broken};

/// What can follow a state.
pub(crate) struct Moves<A, S> {
    /// What happens, and the state after it or what is broken by it.
    pub(crate) all: Vec<(A, Result<S, Broken>)>,
    /// How many were left out because the world has no room for them.
    pub(crate) cut: usize,
}

impl<A, S> Default for Moves<A, S> {
    fn default() -> Self {
        Self { all: Vec::new(), cut: 0 }
    }
}

/// A world that can be explored: its states, and what leads from one to another.
pub(crate) trait Explorable {
    type State: Copy + Eq + Hash;
    type Action: Copy + fmt::Display;

    /// Where everything begins.
    fn beginning(&self) -> Self::State;
    /// How many faults may happen on one path.
    fn faults(&self) -> u8;
    /// Whether the goal is asked for.
    fn has_goal(&self) -> bool;
    /// Adds everything that can happen in a state.
    fn moves(&mut self, state: &Self::State, faults_left: bool, moves: &mut Moves<Self::Action, Self::State>);
    /// What kind of thing an action is.
    fn kind(action: Self::Action) -> Kind;
    /// Which end a state is, if it is one.
    fn end(&mut self, state: &Self::State) -> Option<End>;
    /// What the leading operator says in a state.
    fn says(&mut self, state: &Self::State) -> Vec<&'static str>;
    /// How many different views were planned on.
    fn views(&self) -> usize;
    /// A path past these states, told so that names stay what they are.
    fn told(&mut self, states: &[Self::State], path: &[Self::Action]) -> Vec<Self::Action>;
}

/// What was visited.
#[derive(Clone, Debug, Default)]
pub struct Stats {
    /// How many states.
    pub states: usize,
    /// How many ways from one to another.
    pub edges: usize,
    /// The longest of the shortest paths.
    pub depth: u32,
    /// How many different views the planner was asked about.
    pub views: usize,
    /// How many states had to be left out because the world has no room for another attempt.
    pub cut: usize,
    /// How many states are ends, by kind.
    pub ends: BTreeMap<End, usize>,
    /// How many states were first reached with that many faults.
    pub by_faults: BTreeMap<u8, usize>,
}

impl fmt::Display for Stats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} states, {} edges, depth {}, {} views planned on, {} left out; by faults {:?}; ends {:?}",
            self.states, self.edges, self.depth, self.views, self.cut, self.by_faults, self.ends
        )
    }
}

/// The shortest way to something that must not be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counterexample {
    /// What is broken.
    pub broken: Broken,
    /// How many faults it takes.
    pub faults: u8,
    /// What happens, from the beginning, in words; and whether it is a fault.
    pub path: Vec<(bool, String)>,
    /// What the operator says at the end.
    pub says: Vec<&'static str>,
}

impl fmt::Display for Counterexample {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} (after {} steps, {} of them faults):", self.broken, self.path.len(), self.faults)?;
        for (n, (is_fault, action)) in self.path.iter().enumerate() {
            let mark = if *is_fault { "!" } else { " " };
            writeln!(f, "{:>4} {mark} {action}", n + 1)?;
        }
        if self.says.is_empty() {
            Ok(())
        } else {
            writeln!(f, "       the operator says: {}", self.says.join(", "))
        }
    }
}

/// Why an exploration ended early.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The world could not be set up.
    #[error(transparent)]
    Cast(#[from] CastError),
    /// Something must not be.
    #[error("{0}")]
    Found(Box<Counterexample>),
}

/// How a state is reached: faults, steps.
type Cost = (u8, u32);

struct Visit<A> {
    cost: Cost,
    from: Option<(usize, A)>,
    /// The course's edges out of it, as a range in the list of all.
    course: (usize, usize),
    expanded: bool,
}

struct Graph<M: Explorable> {
    states: IndexSet<M::State, BuildHasherDefault<Quick>>,
    visits: Vec<Visit<M::Action>>,
    course: Vec<u32>,
    queue: BTreeMap<Cost, Vec<usize>>,
    worst: Option<(Cost, usize, M::Action, Broken)>,
    edges: usize,
    /// What follows the state that is looked at, and how many were left out so far: made once, because making it anew for each of
    /// a million states is half of the work.
    moves: Moves<M::Action, M::State>,
}

/// Visits every state.
pub(crate) fn visit_all<M: Explorable>(model: &mut M) -> Result<Stats, Failure> {
    let mut graph = Graph::<M> {
        states: IndexSet::default(),
        visits: Vec::new(),
        course: Vec::new(),
        queue: BTreeMap::new(),
        worst: None,
        edges: 0,
        moves: Moves::default(),
    };
    graph.reach(model.beginning(), (0, 0), None);
    while let Some(index) = graph.next() {
        graph.expand(model, index);
    }
    if let Some((_, index, action, broken)) = graph.worst {
        return Err(graph.counterexample(model, index, Some(action), broken));
    }
    let mut stats = graph.stats(model);
    if model.has_goal() {
        stats.ends = graph.check_goal(model)?;
    }
    Ok(stats)
}

impl<M: Explorable> Graph<M> {
    fn reach(&mut self, state: M::State, cost: Cost, from: Option<(usize, M::Action)>) -> usize {
        let (index, new) = self.states.insert_full(state);
        if new {
            self.visits.push(Visit { cost, from, course: (0, 0), expanded: false });
            self.queue.entry(cost).or_default().push(index);
        } else if let Some(visit) = self.visits.get_mut(index)
            && cost < visit.cost
        {
            (visit.cost, visit.from) = (cost, from);
            self.queue.entry(cost).or_default().push(index);
        }
        index
    }

    /// The nearest state that was not looked at yet, as long as nothing nearer is broken.
    fn next(&mut self) -> Option<usize> {
        loop {
            let mut entry = self.queue.first_entry()?;
            let cost = *entry.key();
            if self.worst.as_ref().is_some_and(|(worst, ..)| *worst <= cost) {
                return None;
            }
            let Some(index) = entry.get_mut().pop() else {
                entry.remove();
                continue;
            };
            if self.visits.get(index).is_some_and(|visit| !visit.expanded && visit.cost == cost) {
                return Some(index);
            }
        }
    }

    fn expand(&mut self, model: &mut M, index: usize) {
        let Some(state) = self.states.get_index(index).copied() else { return };
        let (faults, steps) = self.cost(index);
        let mut all = std::mem::take(&mut self.moves);
        model.moves(&state, faults < model.faults(), &mut all);
        let begin = self.course.len();
        for (action, outcome) in all.all.drain(..) {
            let is_fault = M::kind(action) == Kind::Fault;
            let cost = (faults + u8::from(is_fault), steps + 1);
            match outcome {
                Ok(next) if next == state => {}
                Ok(next) => {
                    self.edges += 1;
                    let to = self.reach(next, cost, Some((index, action)));
                    if M::kind(action) == Kind::Course {
                        self.course.push(u32::try_from(to).unwrap_or(u32::MAX));
                    }
                }
                Err(broken) => {
                    if self.worst.as_ref().is_none_or(|(worst, ..)| cost < *worst) {
                        self.worst = Some((cost, index, action, broken));
                    }
                }
            }
        }
        self.moves = all;
        let end = self.course.len();
        if let Some(visit) = self.visits.get_mut(index) {
            visit.course = (begin, end);
            visit.expanded = true;
        }
    }

    fn cost(&self, index: usize) -> Cost {
        self.visits.get(index).map_or((0, 0), |visit| visit.cost)
    }

    fn successors(&self, index: usize) -> &[u32] {
        let range = self.visits.get(index).map_or((0, 0), |visit| visit.course);
        self.course.get(range.0..range.1).unwrap_or_default()
    }

    /// Which states are ends, and whether all others lead to one.
    fn check_goal(&self, model: &mut M) -> Result<BTreeMap<End, usize>, Failure> {
        let ends: Vec<Option<End>> = self.states.iter().map(|state| model.end(state)).collect();
        let is_end = |index: usize| ends.get(index).is_some_and(Option::is_some);
        let reaches = self.reaching(&is_end);
        let nearest = |bad: &dyn Fn(usize) -> bool| {
            (0..self.states.len()).filter(|index| bad(*index)).min_by_key(|index| self.cost(*index))
        };
        let astray = |index: usize| reaches.get(index) != Some(&true);
        if let Some(index) = nearest(&astray) {
            // Where the goal is out of reach from the very beginning, a state in which nothing moves tells more.
            let still = |index: usize| astray(index) && self.successors(index).is_empty();
            let index = if index == 0 { nearest(&still).unwrap_or(index) } else { index };
            return Err(self.counterexample(model, index, None, Broken::NeverReached));
        }
        let left =
            |index: usize| is_end(index) && self.successors(index).iter().any(|to| !is_end(place(*to)));
        if let Some(index) = nearest(&left) {
            return Err(self.counterexample(model, index, None, Broken::NotKept));
        }
        let mut counts = BTreeMap::new();
        for end in ends.into_iter().flatten() {
            *counts.entry(end).or_insert(0) += 1;
        }
        Ok(counts)
    }

    /// From which states an end can be reached by the course of things, looked for backwards.
    fn reaching(&self, is_end: &dyn Fn(usize) -> bool) -> Vec<bool> {
        let count = self.states.len();
        let mut starts = vec![0_usize; count + 1];
        for to in &self.course {
            if let Some(start) = starts.get_mut(place(*to) + 1) {
                *start += 1;
            }
        }
        let mut sum = 0;
        for start in &mut starts {
            sum += *start;
            *start = sum;
        }
        let mut fill = starts.clone();
        let mut sources = vec![0_u32; self.course.len()];
        for from in 0..count {
            for to in self.successors(from) {
                let Some(slot) = fill.get_mut(place(*to)) else { continue };
                if let Some(source) = sources.get_mut(*slot) {
                    *source = u32::try_from(from).unwrap_or(u32::MAX);
                }
                *slot += 1;
            }
        }
        let mut reaches = vec![false; count];
        let mut queue: Vec<usize> = (0..count).filter(|index| is_end(*index)).collect();
        while let Some(index) = queue.pop() {
            match reaches.get_mut(index) {
                Some(known) if !*known => *known = true,
                _ => continue,
            }
            let range = starts.get(index).copied().zip(starts.get(index + 1).copied()).unwrap_or_default();
            queue.extend(sources.get(range.0..range.1).unwrap_or_default().iter().map(|from| place(*from)));
        }
        reaches
    }

    fn counterexample(
        &self,
        model: &mut M,
        index: usize,
        last: Option<M::Action>,
        broken: Broken,
    ) -> Failure {
        let mut path: Vec<M::Action> = last.into_iter().collect();
        let mut here = index;
        while let Some((from, action)) = self.visits.get(here).and_then(|visit| visit.from) {
            path.push(action);
            here = from;
        }
        path.reverse();
        let is_fault = |action: M::Action| M::kind(action) == Kind::Fault;
        let faults = path.iter().filter(|action| is_fault(**action)).count();
        let faults = u8::try_from(faults).unwrap_or(u8::MAX);
        let says = self.states.get_index(index).map(|state| model.says(state)).unwrap_or_default();
        let told = model.told(&self.states_to(index), &path).into_iter();
        let path = told.map(|action| (is_fault(action), action.to_string())).collect();
        Failure::Found(Box::new(Counterexample { broken, faults, path, says }))
    }

    /// The states on the way to this one, from the beginning.
    fn states_to(&self, index: usize) -> Vec<M::State> {
        let mut states = Vec::new();
        let mut here = Some(index);
        while let Some(index) = here {
            states.extend(self.states.get_index(index));
            here = self.visits.get(index).and_then(|visit| visit.from).map(|(from, _)| from);
        }
        states.reverse();
        states
    }

    fn stats(&self, model: &M) -> Stats {
        let mut by_faults = BTreeMap::new();
        for visit in &self.visits {
            *by_faults.entry(visit.cost.0).or_insert(0) += 1;
        }
        Stats {
            states: self.states.len(),
            edges: self.edges,
            depth: self.visits.iter().map(|visit| visit.cost.1).max().unwrap_or(0),
            views: model.views(),
            cut: self.moves.cut,
            ends: BTreeMap::new(),
            by_faults,
        }
    }
}

fn place(index: u32) -> usize {
    usize::try_from(index).unwrap_or(usize::MAX)
}
