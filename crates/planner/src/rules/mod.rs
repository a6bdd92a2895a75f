//! The rules, in the order in which they are asked. Each is one file: its sentence, its function, its table of tests.

mod abandon;
mod adoption;
mod alarms;
mod budget;
mod deleting;
mod empty_start;
mod first_birth;
mod formed;
mod join;
mod labels;
mod later;
mod leave;
mod lists;
mod members;
mod not_supported;
mod paused;
mod quorum_lost;
mod refused_pods;
mod removed_pods;
mod roll;
mod services;
mod shrink;
mod spec_rejected;
mod strays;

pub(crate) use members::waiting_of;

use std::time::Duration;

use crate::{
    Desired, Observed, Problem, SeenPod, Step, Timestamp, Waiting, attempt::Attempt, membership::Membership,
    observed::RefusalClass, status::FRESH, view::View, waiting,
};

/// Whether the next rule is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flow {
    Next,
    Stop,
}

/// The rules that need no valid spec.
const GATES: &[fn(&Observed, &mut Decision) -> Flow] = &[
    // A resource that is being deleted is left to Kubernetes.
    deleting::ask,
];

/// The rules, in order.
const RULES: &[fn(&Situation<'_>, &mut Decision) -> Flow] = &[
    // A spec that breaks rules starts nothing; a cluster that has formed goes on with what its members run.
    spec_rejected::ask,
    // A member that has data loses the permission to start without: also in a cluster that is paused, because that only protects it.
    empty_start::ask,
    // A paused cluster is watched and not touched.
    paused::ask,
    // A resource that has been used before and has no record of its birth is never started as new.
    adoption::ask,
    // What this operator cannot do yet, and what would be worse to go without, is waited for before any pod exists.
    not_supported::ask,
    // A resource without a birth gets one, and right after it its pods.
    first_birth::ask,
    // A cluster whose members all serve has formed.
    formed::ask,
    // An attempt that cannot form any more, or is not what the spec asks for, makes way for the next.
    abandon::ask,
    // A pod that the API server refused is tried again.
    refused_pods::ask,
    // Both Services exist, and select the members of the attempt that counts; without them no attempt begins.
    services::ask,
    // Pods of attempts that were abandoned are deleted, one in a round.
    strays::ask,
    // A pod gets back what somebody changed or took away of its labels and annotations.
    labels::ask,
    // Without a quorum nothing is changed, and it is said who is missing.
    quorum_lost::ask,
    // What etcd raises the alarm about is said; while members may hold different data, nobody comes or goes.
    alarms::ask,
    // While members disagree about who the members are, nobody comes or goes.
    lists::ask,
    // A pod whose member is not in etcd is deleted.
    removed_pods::ask,
    // A member that is lost, or has had its time, is removed.
    leave::ask,
    // A cluster that is larger than it should be loses a member.
    shrink::ask,
    // A cluster that is smaller than it should be gets one.
    join::ask,
    // A member that runs another version or image than the spec asks for is relaunched.
    roll::ask,
    // The budget asks for a quorum of the voters that there are.
    budget::ask,
    // What each member waits for is said.
    members::ask,
    // What a formed cluster needs and this operator does not do yet is said, and not done.
    later::ask,
];

/// What a rule looks at.
struct Situation<'a> {
    desired: &'a Desired,
    observed: &'a Observed,
    view: View<'a>,
    /// The members of a formed cluster, while a quorum tells who they are.
    membership: Option<Membership<'a>>,
}

impl Situation<'_> {
    /// What to wait for before something is tried again that was refused a moment ago.
    fn too_soon(&self, kind: &str, name: &str) -> Option<Waiting> {
        let refused = self.observed.refusal(kind, name)?;
        waiting::too_soon(refused, self.observed.now)
    }

    /// What to say of something that is put right again, if somebody undoes it each time.
    fn disputed(&self, kind: &str, name: &str) -> Option<Waiting> {
        let refused = self.observed.refusal(kind, name)?;
        let disputed = matches!(refused.class, RefusalClass::Undone { .. });
        disputed.then(|| Waiting::blocked(waiting::reason_of(refused)))
    }
}

/// What the rules have decided so far.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Decision {
    /// Harmless steps.
    pub(crate) ensures: Vec<Step>,
    /// One risky step, and what follows from it.
    pub(crate) act: Vec<Step>,
    pub(crate) waiting: Vec<Waiting>,
    pub(crate) events: Vec<api::Event>,
    /// Whether nobody comes or goes, whatever the cluster lacks.
    pub(crate) held: bool,
    /// Whether members are brought to another version or image, one after another.
    pub(crate) rolling: bool,
    look_again: Option<Timestamp>,
}

impl Decision {
    pub(crate) fn steps(&self) -> Vec<Step> {
        self.ensures.iter().chain(&self.act).cloned().collect()
    }

    pub(crate) fn wake_at(&self) -> Option<Timestamp> {
        self.waiting.iter().filter_map(|waiting| waiting.until).chain(self.look_again).min()
    }

    fn wait(&mut self, waiting: impl Into<Option<Waiting>>) {
        let Some(waiting) = waiting.into() else { return };
        if !self.waiting.iter().any(|other| other.reason == waiting.reason) {
            self.waiting.push(waiting);
        }
    }

    /// Leaves the whole cluster as it is, and says why. How one that has formed is doing goes on being told.
    fn hold(&mut self, observed: &Observed, waiting: Waiting) -> Flow {
        self.held = true;
        self.wait(waiting);
        if observed.resource.birth().is_some_and(|birth| birth.formed) {
            self.look_again(after(observed.now, FRESH));
        }
        Flow::Stop
    }

    /// Whether members may come or go in this round.
    fn may_act(&self) -> bool {
        self.act.is_empty() && !self.held
    }

    /// The first pod with which this can be tried; that it was refused a moment ago is said of those before it.
    fn first_due<'a>(
        &mut self,
        situation: &Situation<'_>,
        kind: &str,
        mut pods: impl Iterator<Item = &'a SeenPod>,
    ) -> Option<&'a SeenPod> {
        pods.find(|pod| match situation.too_soon(kind, &pod.name) {
            Some(waiting) => {
                self.wait(waiting);
                false
            }
            None => true,
        })
    }

    /// Looks again then, even if nothing happens.
    fn look_again(&mut self, moment: Option<Timestamp>) {
        self.look_again = self.look_again.into_iter().chain(moment).min();
    }

    /// The attempt that these steps begin.
    fn begins(&self) -> Option<Attempt> {
        self.act.iter().find_map(|step| match step {
            Step::LatchBirth { birth, .. } => Attempt::of(birth).ok(),
            _ => None,
        })
    }
}

/// A moment from now.
fn after(now: Timestamp, duration: Duration) -> Option<Timestamp> {
    now.checked_add(duration).ok()
}

/// Asks the rules. What somebody has to put right comes first in what is waited for.
pub(crate) fn decide(desired: &Result<Desired, Vec<Problem>>, observed: &Observed) -> Decision {
    let mut decision = Decision::default();
    ask_all(desired, observed, &mut decision);
    decision.waiting.sort_by_key(|waiting| waiting.passes);
    decision
}

fn ask_all(desired: &Result<Desired, Vec<Problem>>, observed: &Observed, decision: &mut Decision) {
    for gate in GATES {
        if gate(observed, decision) == Flow::Stop {
            return;
        }
    }
    let desired = match desired {
        Ok(desired) => desired,
        // A spec of which nothing can be made changes nothing.
        Err(problems) => {
            spec_rejected::say(problems, observed, decision);
            return;
        }
    };
    let view = View::of(observed);
    let membership = Membership::of(&view);
    let situation = Situation { desired, observed, view, membership };
    for rule in RULES {
        if rule(&situation, decision) == Flow::Stop {
            return;
        }
    }
}

#[cfg(test)]
mod tests;
