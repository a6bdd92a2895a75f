//! The loop's one turn, for one cluster: observe, plan, act, report.

use std::{sync::Arc, time::Duration};

use api::{EtcdCluster, EtcdClusterStatus, Event, Reason, condition, scope::Scope};
use futures::future::join_all;
use k8s_openapi::api::core::v1::Event as CoreEvent;
use kube::Client;
use planner::{Desired, Leaving, Observed, OperatorIdentity, Plan, SeenResource, Step, Timestamp, plan};
use tokio::time::Instant;
use tracing::{Instrument, debug, info, info_span, warn};

use crate::{
    act::{Acted, Actor},
    busy::Busy,
    clock::Clock,
    gate::Gate,
    leader::{Leadership, RETRY_PERIOD},
    memory::{Key, Memories, Memory, Settled},
    metrics::{ClusterFigures, ClusterLabels, MemberChanged, Metrics},
    observe::{self, Observation, ObserveError, Observer},
    report::Reporter,
    untold::of_before,
};

/// How often the world is looked at again at once before something else gets its turn.
const TURNS: u32 = 10;
/// After this many rounds in a row that did not go as planned, the next one waits.
const PATIENCE: u32 = 3;
/// Everything is looked at again after this time, whatever happens or not.
const COMPLETE: Duration = Duration::from_mins(5);
/// When nothing else says when, the cluster is looked at again after this time.
const SAFETY_NET: Duration = Duration::from_mins(1);
/// When it is tried again to tell what could not be told, at first.
const UNTOLD: Duration = Duration::from_secs(2);
/// The shortest and the longest time until a round is repeated that failed.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(30));

/// What every round needs.
pub struct Context {
    /// The way to the API server.
    pub client: Client,
    /// The door that every write passes.
    pub gate: Gate,
    /// Whether this process leads.
    pub leadership: Leadership,
    /// Whether the API server wants to be left alone.
    pub busy: Busy,
    /// Which resources are ours.
    pub scope: Scope,
    /// What goes into the objects that are made.
    pub operator: OperatorIdentity,
    /// What is remembered between rounds.
    pub memories: Memories,
    /// What is counted.
    pub metrics: Arc<Metrics>,
    /// What time it is.
    pub clock: Clock,
    /// Reads the world.
    pub observer: Observer,
    /// Says what was seen.
    pub reporter: Reporter,
}

/// How a round ended.
enum Ended {
    /// There is nothing more to do until then.
    Settled(Duration),
    /// Something was done or has moved: look again at once.
    Again,
    /// It did not go as planned.
    Failed,
    /// The resource is gone, or not ours.
    NotOurs,
    /// This process does not lead, or not for long enough.
    NotLeading,
}

impl Context {
    /// Takes care of a cluster. When to look again; nothing if only an event can be a reason to.
    ///
    /// `version` is the resource's as the watch has it.
    pub async fn take_care(&self, key: &Key, version: Option<&str>) -> Option<Duration> {
        let slot = self.memories.of(key);
        let mut memory = slot.memory.lock().await;
        for turn in 0..TURNS {
            let Some(term) = self.leadership.term() else { return self.when_not_leading() };
            if let Some(left) = self.busy.left() {
                return Some(left);
            }
            let touched = slot.take_touched() || turn > 0;
            let round = memory.round + 1;
            memory.round = round;
            let span = info_span!("round", cluster = %format_args!("{}/{}", key.namespace, key.name), round);
            let begun = Instant::now();
            let (ended, outcome) =
                self.one(key, term, &mut memory, version.filter(|_| !touched)).instrument(span).await;
            self.metrics.round(&key.name, outcome, begun.elapsed().as_secs_f64());
            match ended {
                Ended::Settled(wait) => return Some(wait),
                Ended::Again if memory.stumbles < PATIENCE => {}
                Ended::Again | Ended::Failed => return Some(backoff(memory.stumbles)),
                Ended::NotOurs => return None,
                Ended::NotLeading => return self.when_not_leading(),
            }
        }
        Some(BACKOFF.0)
    }

    /// When to look again for who did not act because this process does not lead: if it may go on to, no event would tell.
    #[must_use]
    pub fn when_not_leading(&self) -> Option<Duration> {
        self.leadership.is_held().then_some(RETRY_PERIOD)
    }

    async fn one(
        &self,
        key: &Key,
        term: u64,
        memory: &mut Memory,
        version: Option<&str>,
    ) -> (Ended, &'static str) {
        memory.begin(term);
        if let Some(wait) = self.glance(memory, version).await {
            return (Ended::Settled(wait), "glance");
        }
        let observation = match self.observer.look(key, term, memory).await {
            Ok(Some(observation)) if self.is_ours(&observation.resource) => observation,
            Ok(_) => return (Ended::NotOurs, "settled"),
            Err(error) => {
                self.say_blind(key, memory, &error).await;
                return (failed(memory, &error), "failed");
            }
        };
        let desired = Desired::from_resource(&observation.resource, &self.operator);
        let plan = plan(&desired, &observation.observed);
        self.say(&plan);
        let acted = match &desired {
            Ok(desired) => {
                let actor = Actor {
                    client: &self.client,
                    gate: &self.gate,
                    resource: &observation.resource,
                    members: &observe::handles(&observation.observed, &memory.connections),
                    clock: self.clock,
                };
                actor.carry_out(&plan.steps, desired, memory).await
            }
            Err(_) => Acted::Nothing,
        };
        for change in changes(&plan, std::mem::take(&mut memory.changed)) {
            self.metrics.member_changed(&labels(key), change);
        }
        if let (Ok(desired), Acted::DoneRisky) = (&desired, &acted) {
            remember_joins(&plan.steps, desired, memory, self.clock.now());
        }
        self.finish(key, observation, &plan, acted, memory).await
    }

    /// Asks only etcd, where nothing has happened to any object since there was nothing to do. When to look again, if that holds.
    async fn glance(&self, memory: &mut Memory, version: Option<&str>) -> Option<Duration> {
        let settled = memory.settled.take()?;
        let unchanged = settled.observation.resource.metadata.resource_version.as_deref() == version;
        if version.is_none() || !unchanged || settled.at.elapsed() >= COMPLETE {
            return None;
        }
        let observation = self.observer.glance(&settled.observation, memory).await.ok()?;
        let plan =
            plan(&Desired::from_resource(&observation.resource, &self.operator), &observation.observed);
        let quiet = plan.steps.is_empty() && !plan.report.is_news(&observation.observed.resource.status);
        if !quiet {
            return None;
        }
        memory.settled = Some(Settled { observation, ..settled });
        Some(wait_of(&plan, self.clock.now()))
    }

    async fn finish(
        &self,
        key: &Key,
        observation: Observation,
        plan: &Plan,
        acted: Acted,
        memory: &mut Memory,
    ) -> (Ended, &'static str) {
        let done = matches!(acted, Acted::Nothing | Acted::Done | Acted::DoneRisky);
        let mut untold = std::mem::take(&mut memory.untold);
        untold.retain(|(event, _)| !plan.events.contains(event));
        let (mut events, mut open) = of_before(&observation.observed, untold);
        // What was not done may have happened all the same.
        let (seen, planned): (Vec<_>, Vec<_>) =
            plan.events.iter().cloned().partition(api::Event::follows_from_status);
        if done {
            events.extend(planned);
        } else {
            open.extend(planned.into_iter().map(|event| (event, Instant::now())));
        }
        memory.untold = open;
        let events = events.iter().map(|event| self.reporter.event(&observation.resource, event));
        self.tell_events(events.collect(), memory).await;
        match acted {
            Acted::NotLeading => return (Ended::NotLeading, "failed"),
            Acted::DoneRisky => {
                // What went wrong before is over, or shows itself again soon. Whether it is over is not known yet.
                memory.stumbles = memory.stumbles.min(PATIENCE);
                return (Ended::Again, "again");
            }
            Acted::Stopped => {
                memory.stumbles += 1;
                if memory.stumbles < PATIENCE {
                    return (Ended::Again, "again");
                }
            }
            Acted::Nothing | Acted::Done => {}
        }
        self.measure(key, &observation, plan, memory);
        match self.reporter.status(&observation.resource, &plan.report).await {
            Err(failure) => {
                warn!(%failure, "the status could not be written");
                memory.stumbles += 1;
                return (Ended::Failed, "failed");
            }
            // Somebody wrote the resource since; that is an event, and another round.
            Ok(false) => debug!("the resource has moved since it was read"),
            Ok(true) => {
                let seen = seen.iter().map(|event| self.reporter.event(&observation.resource, event));
                self.tell_events(seen.collect(), memory).await;
            }
        }
        if acted == Acted::Stopped {
            return (Ended::Failed, "failed");
        }
        memory.stumbles = 0;
        let wait = wait_of(plan, self.clock.now());
        let wait = self.tell_unsent(memory).await.map_or(wait, |again| wait.min(again));
        // Who waits for an object looks at it each time: its event may go missing, and the status would say for minutes what is past.
        let settled = acted == Acted::Nothing && plan.waiting.is_empty();
        if settled {
            memory.joined();
        }
        if settled && memory.unsent.is_empty() {
            memory.settled = Some(Settled { observation, at: Instant::now() });
        }
        (Ended::Settled(wait), "settled")
    }

    /// Tells what happened.
    async fn tell_events(&self, events: Vec<CoreEvent>, memory: &mut Memory) {
        let told = join_all(events.iter().map(|event| self.reporter.tell(event))).await;
        memory.not_told(events.into_iter().zip(told).filter(|(_, told)| !told).map(|(event, _)| event));
    }

    /// Tells what could not be told before. When to try again what cannot be told now either.
    async fn tell_unsent(&self, memory: &mut Memory) -> Option<Duration> {
        let unsent = memory.unsent.drain(..).collect();
        self.tell_events(unsent, memory).await;
        if memory.unsent.is_empty() {
            memory.sent_in_vain = 0;
            return None;
        }
        memory.sent_in_vain = memory.sent_in_vain.saturating_add(1);
        Some(UNTOLD.saturating_mul(1 << memory.sent_in_vain.min(10)).min(SAFETY_NET))
    }

    /// Says that the cluster could not be looked at, unless that is new: what the status said before need not hold any more.
    async fn say_blind(&self, key: &Key, memory: &mut Memory, error: &ObserveError) {
        if memory.stumbles + 1 < PATIENCE {
            return;
        }
        // If the resource cannot be read either, there is only the log.
        let Ok(Some(resource)) = self.observer.resource(key).await else { return };
        if self.is_ours(&resource) {
            let seen = SeenResource::from_resource(&resource);
            let report = planner::blind(&seen, self.clock.now(), &error.to_string());
            if let Err(failure) = self.reporter.status(&resource, &report).await {
                warn!(%failure, "the status could not be written");
            }
            let waiting = Reason::ApiUnavailable { message: error.to_string() };
            let figures = ClusterFigures {
                wanted: resource.spec.size,
                ready: ready(&report.status),
                listed: None,
                available: false,
                waiting: vec![waiting.as_str()],
                generation: resource.metadata.generation.unwrap_or_default(),
                failed: is_failed(&report.status),
            };
            self.tell(key, figures, memory);
        }
    }

    fn is_ours(&self, resource: &EtcdCluster) -> bool {
        self.scope.manages(resource.metadata.annotations.as_ref())
    }

    fn say(&self, plan: &Plan) {
        for step in &plan.steps {
            self.metrics.step(step.name());
            info!(step = step.name(), "planned");
        }
        for waiting in &plan.waiting {
            debug!(reason = waiting.reason.as_str(), sentence = %waiting.reason, "waiting");
        }
    }

    fn measure(&self, key: &Key, observation: &Observation, plan: &Plan, memory: &mut Memory) {
        let status = &plan.report.status;
        let conditions = status.conditions.as_deref().unwrap_or_default();
        let available = condition::find(conditions, api::ConditionType::Available);
        let figures = ClusterFigures {
            wanted: observation.resource.spec.size,
            ready: ready(status),
            listed: listed(&observation.observed),
            available: available.is_some_and(|condition| condition.status == "True"),
            waiting: plan.waiting.iter().map(|waiting| waiting.reason.as_str()).collect(),
            generation: observation.resource.metadata.generation.unwrap_or_default(),
            failed: is_failed(status),
        };
        if let Some(waiting) = plan.waiting.first().filter(|_| memory.figures.as_ref() != Some(&figures)) {
            info!(reason = waiting.reason.as_str(), sentence = %waiting.reason, "waiting");
        }
        self.tell(key, figures, memory);
    }

    fn tell(&self, key: &Key, figures: ClusterFigures, memory: &mut Memory) {
        self.metrics.cluster(&labels(key), memory.figures.as_ref(), &figures);
        memory.figures = Some(figures);
    }

    /// Begins anew with a cluster whose round has panicked: what was remembered may be half of something. When to look again.
    pub async fn recover(&self, key: &Key) -> Duration {
        self.metrics.round(&key.name, "panicked", 0.0);
        self.memories.of(key).memory.lock().await.forget();
        BACKOFF.1
    }

    /// Tells no figures any more: whoever leads now does.
    pub async fn follow(&self) {
        for (key, slot) in self.memories.all() {
            if let Some(figures) = slot.memory.lock().await.figures.take() {
                self.metrics.forget(&labels(&key), &figures, false);
            }
        }
    }

    /// Forgets the clusters that are gone.
    pub async fn forget(&self, exists: impl Fn(&Key) -> bool) {
        for (key, slot) in self.memories.keep(exists) {
            if let Some(figures) = &slot.memory.lock().await.figures {
                self.metrics.forget(&labels(&key), figures, true);
            }
        }
    }
}

fn labels(key: &Key) -> ClusterLabels {
    ClusterLabels { namespace: key.namespace.clone(), cluster: key.name.clone() }
}

/// What was done to the membership, where the plan also says why.
fn changes(plan: &Plan, mut done: Vec<MemberChanged>) -> Vec<MemberChanged> {
    let replaces = plan.events.iter().any(|event| matches!(event, Event::ReplacingDeadMember { .. }));
    if replaces && done.contains(&MemberChanged::Removed) {
        done.push(MemberChanged::Replaced);
    }
    done
}

/// Remembers who has joined, and who was given up.
fn remember_joins(steps: &[Step], desired: &Desired, memory: &mut Memory, at: Timestamp) {
    for step in steps {
        match step {
            Step::PromoteMember { .. } => memory.joined(),
            Step::RemoveMember { because: Leaving::NotJoined(why), .. } => {
                memory.not_joined(&desired.inputs(desired.version), why.clone(), Instant::now(), at);
            }
            _ => {}
        }
    }
}

/// How many voters and learners there are, by the word of a quorum.
fn listed(observed: &Observed) -> Option<(i64, i64)> {
    let newest = planner::member_list(observed)?;
    let learners = newest.members.iter().filter(|member| member.learner).count();
    Some((count(newest.members.len() - learners), count(learners)))
}

fn count(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn failed(memory: &mut Memory, error: &ObserveError) -> Ended {
    memory.stumbles += 1;
    warn!(%error, "the cluster could not be looked at");
    Ended::Failed
}

/// How many members serve.
fn ready(status: &EtcdClusterStatus) -> i64 {
    count(status.members.as_ref().and_then(|members| members.ready.as_ref()).map_or(0, Vec::len))
}

fn is_failed(status: &EtcdClusterStatus) -> bool {
    status.phase.as_deref() == Some("Failed")
}

/// How long nothing has to be done after this plan, unless something happens.
fn wait_of(plan: &Plan, now: Timestamp) -> Duration {
    let until = |moment: Timestamp| Duration::try_from(moment.duration_since(now)).unwrap_or_default();
    plan.wake_at.map_or(SAFETY_NET, until).clamp(Duration::from_millis(50), SAFETY_NET)
}

/// How long to wait after so many rounds that did not go as planned.
fn backoff(stumbles: u32) -> Duration {
    BACKOFF.0.saturating_mul(1 << stumbles.min(10)).min(BACKOFF.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wait_after_failures_grows_and_has_an_end() {
        let waits: Vec<u128> = [0, 1, 3, 10, 1000].map(|n| backoff(n).as_millis()).to_vec();
        assert_eq!(waits, [200, 400, 1600, 30_000, 30_000]);
    }
}
