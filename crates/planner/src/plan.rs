//! The plan of one round: what to do, what is waited for, what to report.

use crate::{
    Timestamp, desired::Desired, desired::Problem, observed::Observed, rules, status, status::Report,
    step::Step, waiting::Waiting,
};

/// What to do in this round.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// The steps, in order: a step that fails ends the round. What is harmless comes first and may be done together; at most one
    /// step is risky. After it comes only what follows from it (a birth's Service and pods); then the world is looked at again.
    pub steps: Vec<Step>,
    /// What is not done, and why; the most important first.
    pub waiting: Vec<Waiting>,
    /// What the status should say. It speaks of what was seen, not of what the steps will do.
    pub report: Report,
    /// What to tell as Events, once all steps have succeeded.
    pub events: Vec<api::Event>,
    /// When to look again even if nothing happens.
    pub wake_at: Option<Timestamp>,
}

/// What to do about a resource. Total: every input has a plan.
#[must_use]
pub fn plan(desired: &Result<Desired, Vec<Problem>>, observed: &Observed) -> Plan {
    let decision = rules::decide(desired, observed);
    let report = status::report(desired, observed, &decision);
    let wake_at = decision.wake_at();
    Plan { steps: decision.steps(), waiting: decision.waiting, report, events: decision.events, wake_at }
}
