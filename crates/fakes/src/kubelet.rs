//! FAKES: the scheduler and the kubelet of one node: pods get an address, their launcher judges, and etcd starts, becomes ready and
//! ends. The judgement is the launcher's own ([`launch::guard::judge`]).

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use launch::{
    LaunchOrder, ORDER_ANNOTATION, Refusal, Seal,
    guard::{self, Found, FoundSeal},
};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep_until};

use crate::{
    etcd::{Etcd, Flags, Log},
    kubernetes::{ApiServer, kinds, selects, store::Key},
    registry::Registry,
};

/// How long a pod takes to be scheduled, and from then on to start its container.
const STEP: Duration = Duration::from_millis(100);
/// Between two looks at a member that is not ready yet: the launcher waits for it.
const AWAITED: Duration = Duration::from_millis(500);
/// How long a member may count as ready that is not any more: it is asked every five seconds, and the launcher waits up to four.
const BELIEVED: Duration = Duration::from_secs(9);
/// How long a container that ended waits for its next start; it doubles, up to the longest.
const BACKOFF: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(16));
/// Between two tries to pull an image.
const PULL: Duration = Duration::from_secs(10);
/// The name of the container that runs etcd.
const ETCD: &str = "etcd";
/// How long a container takes to end.
const END: Duration = Duration::from_millis(100);

/// What a pod's disks hold.
#[derive(Clone, Debug, Default)]
struct Disks {
    log: Option<Log>,
    in_data: Option<Seal>,
    in_member: Option<Seal>,
    on_marker: Option<Seal>,
}

/// What the kubelet knows of a pod.
#[allow(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
#[derive(Clone, Debug)]
struct Known {
    key: Arc<Key>,
    /// The pod as it was last seen.
    pod: Arc<Value>,
    /// Whether it was seen to change, and not looked after since.
    changed: bool,
    address: String,
    disks: Disks,
    /// What happens next, and when.
    next: Option<(Instant, Next)>,
    running: bool,
    ready: bool,
    /// The image that its container was last started from, or is pulled for it.
    image: Option<String>,
    /// Whether that image cannot be pulled.
    pull_fails: bool,
    /// How often a container was started.
    starts: u32,
    /// Whether the next start is a restart that was not counted yet.
    restart_due: bool,
    restarts: u32,
    last_end: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    Schedule,
    /// The image is pulled; for a container that was ended for another image.
    Pull,
    Start,
    Probe,
    End,
}

/// A pod that once ran etcd.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ran {
    /// Whether etcd ever ran in it.
    pub started: bool,
    /// The clusters in which it served as a voter.
    pub served: Option<u64>,
    /// How often etcd began there without data.
    pub empty_starts: u32,
}

/// What the kubelet knows.
#[derive(Debug, Default)]
struct Pods {
    /// By UID.
    known: BTreeMap<String, Known>,
    /// Up to which change it has seen them all.
    at: u64,
    /// Which change of etcd it has seen.
    of_etcd: u64,
}

/// The kubelet. All clones are one.
#[derive(Clone)]
pub struct Kubelet {
    server: ApiServer,
    etcd: Etcd,
    pods: Arc<Mutex<Pods>>,
    ran: Arc<Mutex<BTreeMap<String, Ran>>>,
    registry: Registry,
}

impl Kubelet {
    /// A kubelet of this API server, that runs this etcd.
    #[must_use]
    pub fn new(server: &ApiServer, etcd: &Etcd) -> Self {
        Self {
            server: server.clone(),
            etcd: etcd.clone(),
            pods: Arc::default(),
            ran: Arc::default(),
            registry: Registry::default(),
        }
    }

    /// What its images are pulled from.
    #[must_use]
    pub fn registry(&self) -> &Registry {
        &self.registry
    }

    /// What became of etcd in every pod there ever was, by the pod's UID.
    #[must_use]
    pub fn ran(&self) -> BTreeMap<String, Ran> {
        self.ran.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Runs until it is dropped.
    pub async fn run(self) {
        let (mut objects, mut members) = (self.server.store().changes(), self.etcd.changes());
        loop {
            objects.borrow_and_update();
            let of_etcd = *members.borrow_and_update();
            let next = self.look(of_etcd);
            let wake = next.unwrap_or_else(|| Instant::now() + Duration::from_hours(1));
            tokio::select! {
                changed = objects.changed() => if changed.is_err() { return },
                _ = members.changed() => {}
                () = sleep_until(wake) => {}
            }
        }
    }

    /// Does what is due, and says when the next thing is. There may be a thousand pods: only those that something happened to are
    /// looked after.
    fn look(&self, of_etcd: u64) -> Option<Instant> {
        let mut pods = self.pods.lock().unwrap_or_else(PoisonError::into_inner);
        let pods = &mut *pods;
        self.see(pods);
        let etcd_changed = std::mem::replace(&mut pods.of_etcd, of_etcd) != of_etcd;
        let now = Instant::now();
        for state in pods.known.values_mut() {
            let due = state.next.is_some_and(|(at, _)| at <= now);
            if std::mem::take(&mut state.changed) || due || etcd_changed && state.running {
                let (key, pod) = (Arc::clone(&state.key), Arc::clone(&state.pod));
                self.tend(&key, &pod, state);
            }
        }
        pods.known.values().filter_map(|pod| pod.next.map(|(at, _)| at)).min()
    }

    /// Takes note of what has happened to pods.
    fn see(&self, pods: &mut Pods) {
        let objects = self.server.store().lock();
        while let Some(change) = objects.after(pods.at) {
            pods.at = change.revision;
            let of_ours = |pod: &&Arc<Value>| pod["metadata"]["annotations"].get(ORDER_ANNOTATION).is_some();
            if change.key.plural != kinds::PODS.plural {
                continue;
            }
            match (&change.before, change.after.as_ref().filter(of_ours)) {
                (_, Some(pod)) => self.know(pods, &change.key, pod),
                (Some(gone), None) => {
                    if let Some(known) = pods.known.remove(uid(gone)) {
                        self.etcd.stop(&known.address);
                    }
                }
                (None, None) => {}
            }
        }
    }

    fn know(&self, pods: &mut Pods, key: &Key, pod: &Arc<Value>) {
        // An address of its own for every pod there ever was.
        let mut ran = self.ran.lock().unwrap_or_else(PoisonError::into_inner);
        let number = ran.len();
        ran.entry(uid(pod).to_owned()).or_default();
        let known = pods.known.entry(uid(pod).to_owned()).or_insert_with(|| Known {
            key: Arc::new(key.clone()),
            pod: Arc::clone(pod),
            changed: true,
            address: format!("10.244.{}.{}", number / 200, number % 200 + 1),
            disks: Disks::default(),
            next: Some((Instant::now() + STEP, Next::Schedule)),
            running: false,
            ready: false,
            image: None,
            pull_fails: false,
            starts: 0,
            restart_due: false,
            restarts: 0,
            last_end: None,
        });
        (known.pod, known.changed) = (Arc::clone(pod), true);
    }

    fn tend(&self, key: &Key, pod: &Value, state: &mut Known) {
        let deleting = !pod["metadata"]["deletionTimestamp"].is_null();
        if deleting && !matches!(state.next, Some((_, Next::End))) {
            state.next = Some((Instant::now() + END, Next::End));
        }
        if !deleting && state.image.as_deref().is_some_and(|image| image_of(pod) != image) {
            self.changed_image(key, pod, state);
        }
        if state.running && !self.etcd.runs(&state.address) {
            self.ended(key, state, "the process ended");
        }
        if let Some(cluster) = self.etcd.serves_in(&state.address) {
            self.note(pod, |ran| ran.served = Some(cluster));
        }
        match state.next {
            Some((at, next)) if at <= Instant::now() => match next {
                Next::Schedule => {
                    state.image = Some(image_of(pod).to_owned());
                    self.pull(key, state);
                }
                Next::Pull => self.pull(key, state),
                Next::Start => self.start(key, pod, state),
                Next::Probe => self.probe(key, state),
                Next::End => {
                    self.etcd.stop(&state.address);
                    state.next = None;
                    self.server.store().change(|objects| objects.remove(key));
                }
            },
            _ => {}
        }
    }

    /// The container is ended first, and then the image is pulled.
    fn changed_image(&self, key: &Key, pod: &Value, state: &mut Known) {
        self.etcd.stop(&state.address);
        if state.running {
            state.last_end = Some(String::new());
            state.restart_due = true;
        }
        (state.running, state.ready, state.pull_fails) = (false, false, false);
        state.image = Some(image_of(pod).to_owned());
        state.next = Some((Instant::now() + END, Next::Pull));
        self.tell(key, state);
    }

    fn pull(&self, key: &Key, state: &mut Known) {
        state.pull_fails = self.registry.lacks(state.image.as_deref().unwrap_or_default());
        let (wait, next) = if state.pull_fails { (PULL, Next::Pull) } else { (STEP, Next::Start) };
        state.next = Some((Instant::now() + wait, next));
        self.tell(key, state);
    }

    fn start(&self, key: &Key, pod: &Value, state: &mut Known) {
        state.starts += 1;
        state.restarts += u32::from(std::mem::take(&mut state.restart_due));
        let text = pod["metadata"]["annotations"][ORDER_ANNOTATION].as_str().unwrap_or_default();
        let order = match LaunchOrder::read(text) {
            Ok(order) => order,
            Err(error) => return self.ended(key, state, &error.to_string()),
        };
        let held = self.registry.held_by(image_of(pod), &order);
        if held != order.version.to_string() {
            let refusal = Refusal::VersionMismatch { expected: order.version, found: held };
            return self.ended(key, state, &refusal.to_termination_message());
        }
        let seal = |found: &Option<Seal>| found.clone().map_or(FoundSeal::Absent, FoundSeal::Of);
        let found = Found {
            wal: state.disks.log.is_some(),
            in_data: seal(&state.disks.in_data),
            in_member: seal(&state.disks.in_member),
            on_marker: seal(&state.disks.on_marker),
        };
        if let Err(refusal) = guard::judge(&order, &found) {
            return self.ended(key, state, &refusal.to_termination_message());
        }
        state.disks.in_data = Some(order.seal.clone());
        state.disks.in_member = Some(order.seal.clone());
        state.disks.on_marker = Some(order.seal.clone());
        let flags = Flags::read(&order.argv, &order.version.to_string());
        let resolves = |url: &str| self.resolves(key, url);
        match self.etcd.start(&state.address, &flags, state.disks.log, resolves) {
            Ok(log) => {
                let empty = state.disks.log.is_none();
                self.note(pod, |ran| {
                    ran.started = true;
                    ran.empty_starts += u32::from(empty);
                });
                state.disks.log = Some(log);
                state.running = true;
                state.next = Some((Instant::now() + AWAITED, Next::Probe));
                self.tell(key, state);
            }
            Err(why) => self.ended(key, state, &why),
        }
    }

    fn probe(&self, key: &Key, state: &mut Known) {
        let ready = self.etcd.is_ready(&state.address);
        state.next = Some((Instant::now() + if ready { BELIEVED } else { AWAITED }, Next::Probe));
        if ready != state.ready {
            state.ready = ready;
            self.tell(key, state);
        }
    }

    fn ended(&self, key: &Key, state: &mut Known, why: &str) {
        let wait = BACKOFF.0.saturating_mul(1 << state.restarts.min(10)).min(BACKOFF.1);
        state.restarts += 1;
        (state.running, state.ready) = (false, false);
        state.last_end = Some(why.to_owned());
        if !matches!(state.next, Some((_, Next::End))) {
            state.next = Some((Instant::now() + wait, Next::Start));
        }
        self.tell(key, state);
    }

    /// Whether the host of a peer URL has an address: a headless Service of its second label selects the pod of its first.
    fn resolves(&self, key: &Key, url: &str) -> bool {
        let host = url.split("://").nth(1).unwrap_or_default();
        let mut labels = host.split('.');
        let (pod, service) = (labels.next().unwrap_or_default(), labels.next().unwrap_or_default());
        let objects = self.server.store().lock();
        let pod = objects.get(&Key::new(kinds::PODS, &key.namespace, pod));
        let service = objects.get(&Key::new(kinds::SERVICES, &key.namespace, service));
        let (Some(pod), Some(service)) = (pod, service) else { return false };
        let Some(selector) = service["spec"]["selector"].as_object() else { return false };
        let terms: Vec<String> =
            selector.iter().map(|(k, v)| format!("{k}={}", v.as_str().unwrap_or_default())).collect();
        let has_address = !pod["status"]["podIP"].is_null();
        has_address && !terms.is_empty() && selects(Some(&terms.join(",")), pod)
    }

    fn note(&self, pod: &Value, act: impl FnOnce(&mut Ran)) {
        let mut ran = self.ran.lock().unwrap_or_else(PoisonError::into_inner);
        act(ran.entry(uid(pod).to_owned()).or_default());
    }

    /// Writes the pod's status.
    fn tell(&self, key: &Key, state: &Known) {
        let ended_for_another = matches!(state.next, Some((_, Next::Pull)));
        let container = match (state.running, &state.last_end) {
            (true, _) => json!({"running": {"startedAt": null}}),
            (false, _) if state.pull_fails => {
                let image = state.image.as_deref().unwrap_or_default();
                json!({"waiting": {"reason": "ImagePullBackOff", "message": format!("Back-off pulling image \"{image}\"")}})
            }
            (false, None) => json!({"waiting": {"reason": "PodInitializing"}}),
            (false, Some(_)) if ended_for_another => {
                json!({"terminated": {"exitCode": 0, "reason": "Completed"}})
            }
            (false, Some(_)) => json!({"waiting": {"reason": "CrashLoopBackOff"}}),
        };
        // Another ID for each start; the old one stays until then.
        let id = (state.starts > 0).then(|| format!("containerd://{}-{}", state.address, state.starts));
        let begun = state.running || state.last_end.is_some();
        let last = state.last_end.as_ref().map_or(
            json!({}),
            |message| json!({"terminated": {"exitCode": 1, "reason": "Error", "message": message}}),
        );
        let status = json!({
            "phase": if begun { "Running" } else { "Pending" }, "podIP": state.address,
            "conditions": [
                {"type": "PodScheduled", "status": "True"},
                {"type": "Ready", "status": if state.ready { "True" } else { "False" }},
            ],
            "containerStatuses": [{
                "name": ETCD, "image": state.image, "imageID": "etcd", "containerID": id, "ready": state.ready, "started": state.running,
                "restartCount": state.restarts, "state": container, "lastState": last,
            }],
        });
        self.server.store().change(|objects| {
            let Some(mut pod) = objects.get(key).cloned() else { return };
            pod["spec"]["nodeName"] = json!("node-1");
            pod["status"] = status;
            objects.put(key, pod);
        });
    }
}

/// The image that a pod asks for.
fn image_of(pod: &Value) -> &str {
    let containers = pod["spec"]["containers"].as_array().map(Vec::as_slice).unwrap_or_default();
    let etcd = containers.iter().find(|container| container["name"] == ETCD);
    etcd.and_then(|container| container["image"].as_str()).unwrap_or_default()
}

fn uid(pod: &Value) -> &str {
    pod["metadata"]["uid"].as_str().unwrap_or_default()
}
