//! The client that writes and reads all the time, through the client Service, and writes down what it was told.
//!
//! Nothing is sent twice: an operation that failed is written down as that, and the next one is another one, at its time. So the
//! rate bounds the attempts too. After an error, and every so often without one, a client connects anew, and so comes to
//! another member.

use std::{
    fmt::Write as _,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use etcd_admin::{Connect, ConnectError, Error, Member, Pair};
use tokio::{
    sync::watch,
    task::{JoinError, JoinSet},
    time::{Instant, MissedTickBehavior, interval_at, sleep},
};

use super::{
    check::{Violation, check},
    record::{Did, Found, History, Key, Operation, Value},
    route::{Route, RouteError},
    verdict::Verdict,
};
use crate::kit::{Cluster, GRAVE};

/// How long the first answer, and in the end an answer for each key, is waited for.
const PATIENCE: Duration = Duration::from_mins(3);
/// Between two attempts at them.
const PAUSE: Duration = Duration::from_millis(200);
/// How many operations go through one connection.
const PER_CONNECTION: u64 = 50;
/// How many violations are told; the first ones say it.
const TOLD: usize = 5;

/// How much is asked of a cluster.
#[derive(Debug, Clone)]
pub struct Load {
    /// Operations per second, by all clients together, at the most.
    pub rate: u32,
    /// Answered operations per second below which the run does not count: it would have shown nothing.
    pub minimum: f64,
    /// How many ask at the same time.
    pub clients: u16,
    /// How many keys they share.
    pub keys: u16,
    /// How the cluster is reached, and how long one operation may take.
    pub connect: Connect,
}

impl Default for Load {
    fn default() -> Self {
        let connect = Connect { deadline: Duration::from_secs(3), ..Connect::default() };
        Self { rate: 40, minimum: 2.0, clients: 4, keys: 8, connect }
    }
}

/// Why there is no verdict, or a bad one.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// There is no way to the cluster.
    #[error(transparent)]
    Route(#[from] RouteError),
    /// The cluster's address or the certificates are no good.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// Nothing would be asked.
    #[error("a load needs a rate, clients and keys, at least one of each")]
    Nothing,
    /// The cluster did not answer before the load began, so it is not the load that shows something.
    #[error("the cluster does not answer: no read within {PATIENCE:?}")]
    NoFirstAnswer(#[source] Error),
    /// How a key is in the end could not be read, so it cannot be said what is lost.
    #[error("no verdict: how key {} is in the end could not be read within {PATIENCE:?}", key.0)]
    NoLastAnswer {
        /// Which key.
        key: Key,
        /// The last attempt.
        source: Error,
    },
    /// A client did not come to its end.
    #[error("no verdict: a client of the load broke off")]
    Client(#[source] JoinError),
    /// Too little was answered.
    #[error("the run does not count: {:.2} answers a second, and at least {minimum:.2} are needed; {verdict}", verdict.rate())]
    TooSlow {
        /// What was seen.
        verdict: Verdict,
        /// What was asked for.
        minimum: f64,
    },
    /// The history shows what must not be.
    #[error("{}the history does not hold: {} violations in {verdict}{}", mark(violations), violations.len(), told(violations))]
    Violated {
        /// What was seen.
        verdict: Verdict,
        /// What is wrong with it.
        violations: Vec<Violation>,
    },
}

/// No second run excuses a history that does not hold. One of which nobody can say whether it holds is another matter.
fn mark(violations: &[Violation]) -> String {
    let undecided = violations.iter().all(|violation| matches!(violation, Violation::Undecided(_)));
    if undecided { String::new() } else { format!("{GRAVE} ") }
}

fn told(violations: &[Violation]) -> String {
    violations.iter().take(TOLD).fold(String::new(), |mut text, violation| {
        // Writing to a String does not fail.
        let _ = write!(text, "\n  {violation}");
        text
    })
}

/// What was counted until now.
#[derive(Debug, Default)]
struct Tally {
    answered: AtomicUsize,
    failed: AtomicUsize,
    unknown: AtomicUsize,
}

impl Tally {
    fn count(&self, did: &Did) {
        let counter = match did {
            Did::Wrote { .. } | Did::Read { .. } => &self.answered,
            Did::WriteFailed { .. } | Did::ReadFailed => &self.failed,
            Did::WriteUnknown { .. } => &self.unknown,
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }
}

/// A load that goes on until [`Running::finish`]. If it is dropped, it ends without a verdict.
#[must_use = "only `finish` gives a verdict"]
pub struct Running {
    load: Load,
    endpoint: Endpoint,
    clients: JoinSet<Vec<Operation>>,
    stop: watch::Sender<()>,
    tally: Arc<Tally>,
    /// Kept until the last read.
    _route: Option<Route>,
}

impl Load {
    /// Begins to write to and read from the client Service of an etcd cluster, as soon as it answers.
    pub async fn start(self, cluster: &Cluster, namespace: &str, etcd: &str) -> Result<Running, LoadError> {
        let route = Route::to(cluster, namespace, etcd).await?;
        self.start_at(route.address().to_owned(), Some(route)).await
    }

    /// The same at any host and port.
    pub async fn start_at(self, address: String, route: Option<Route>) -> Result<Running, LoadError> {
        if self.rate == 0 || self.clients == 0 || self.keys == 0 {
            return Err(LoadError::Nothing);
        }
        let scheme = if self.connect.tls.is_some() { "https" } else { "http" };
        let endpoint = Endpoint {
            url: format!("{scheme}://{address}"),
            connect: self.connect.clone(),
            // Keys of their own for every run: they held nothing in the beginning.
            prefix: format!("etcd-operator-load/{}/", jiff::Timestamp::now().as_nanosecond()),
            began: Instant::now(),
        };
        endpoint.read_patiently(Key(0)).await?.map_err(LoadError::NoFirstAnswer)?;
        let endpoint = Endpoint { began: Instant::now(), ..endpoint };
        let (stop, stopped) = watch::channel(());
        let tally = Arc::new(Tally::default());
        let mut clients = JoinSet::new();
        for number in 0..self.clients {
            let client = Client {
                number,
                load: self.clone(),
                endpoint: endpoint.clone(),
                tally: Arc::clone(&tally),
                // Fails below if the endpoint is no URL, but then it did above.
                member: endpoint.member()?,
            };
            clients.spawn(client.run(stopped.clone()));
        }
        Ok(Running { load: self, endpoint, clients, stop, tally, _route: route })
    }
}

impl Running {
    /// How many operations were answered until now.
    #[must_use]
    pub fn answered(&self) -> usize {
        self.tally.answered.load(Ordering::Relaxed)
    }

    /// What was counted until now, in a line.
    #[must_use]
    pub fn progress(&self) -> String {
        let count = |counter: &AtomicUsize| counter.load(Ordering::Relaxed);
        let Tally { answered, failed, unknown } = self.tally.as_ref();
        format!(
            "{:.0} s: {} answered, {} failed, {} unknown",
            self.endpoint.began.elapsed().as_secs_f64(),
            count(answered),
            count(failed),
            count(unknown)
        )
    }

    /// Ends the load, reads every key a last time, and checks all that was seen.
    pub async fn finish(mut self) -> Result<Verdict, LoadError> {
        let took = self.endpoint.began.elapsed();
        drop(self.stop);
        let mut history = History::default();
        while let Some(client) = self.clients.join_next().await {
            history.operations.extend(client.map_err(LoadError::Client)?);
        }
        for key in (0..self.load.keys).map(Key) {
            let last = self.endpoint.read_patiently(key).await?;
            history.finals.push(last.map_err(|source| LoadError::NoLastAnswer { key, source })?);
        }
        self.load.judge(&history, took)
    }
}

impl Load {
    fn judge(&self, history: &History, took: Duration) -> Result<Verdict, LoadError> {
        let verdict = Verdict::of(history, took);
        let violations = check(history);
        if !violations.is_empty() {
            return Err(LoadError::Violated { verdict, violations });
        }
        if verdict.rate() < self.minimum {
            return Err(LoadError::TooSlow { verdict, minimum: self.minimum });
        }
        Ok(verdict)
    }
}

/// Where and how a cluster is asked, and the clock of the history.
#[derive(Clone)]
struct Endpoint {
    url: String,
    connect: Connect,
    prefix: String,
    began: Instant,
}

impl Endpoint {
    fn member(&self) -> Result<Member, ConnectError> {
        Member::new(&self.url, &self.connect)
    }

    fn name(&self, key: Key) -> Vec<u8> {
        format!("{}{}", self.prefix, key.0).into_bytes()
    }

    async fn write(&self, member: &Member, key: Key, value: Value) -> (Operation, Result<(), Error>) {
        let text = value.0.to_string();
        let invoked = self.began.elapsed();
        let answer = member.put(&self.name(key), text.as_bytes()).await;
        let returned = self.began.elapsed();
        let (did, outcome) = match answer {
            Ok(revision) => (Did::Wrote { value, revision }, Ok(())),
            Err(error) if error.maybe_done() => (Did::WriteUnknown { value }, Err(error)),
            Err(error) => (Did::WriteFailed { value }, Err(error)),
        };
        (Operation { key, invoked, returned, did }, outcome)
    }

    async fn read(&self, member: &Member, key: Key) -> (Operation, Result<(), Error>) {
        let invoked = self.began.elapsed();
        let answer = member.read(&self.name(key)).await;
        let returned = self.began.elapsed();
        let (did, outcome) = match answer {
            Ok(it) => (Did::Read { found: it.found.as_ref().map(found), revision: it.revision }, Ok(())),
            Err(error) => (Did::ReadFailed, Err(error)),
        };
        (Operation { key, invoked, returned, did }, outcome)
    }

    /// A read that is tried again until it is answered.
    async fn read_patiently(&self, key: Key) -> Result<Result<Operation, Error>, ConnectError> {
        let end = Instant::now() + PATIENCE;
        loop {
            let (operation, outcome) = self.read(&self.member()?, key).await;
            match outcome {
                Ok(()) => return Ok(Ok(operation)),
                Err(error) if Instant::now() > end => return Ok(Err(error)),
                Err(_) => sleep(PAUSE).await,
            }
        }
    }
}

fn found(pair: &Pair) -> Found {
    let number = std::str::from_utf8(&pair.value).ok().and_then(|text| text.parse().ok());
    Found { value: number.map_or(Value::FOREIGN, Value), modified: pair.modified }
}

/// One of those who ask.
struct Client {
    number: u16,
    load: Load,
    endpoint: Endpoint,
    tally: Arc<Tally>,
    member: Member,
}

impl Client {
    /// Asks, one thing after another, until it is stopped; what was asked by then is waited for.
    async fn run(mut self, mut stopped: watch::Receiver<()>) -> Vec<Operation> {
        let period = Duration::from_secs(1) * u32::from(self.load.clients) / self.load.rate;
        let offset = period * u32::from(self.number) / u32::from(self.load.clients);
        let mut ticks = interval_at(Instant::now() + offset, period);
        // What was missed while one waited is not made up for: an outage is not followed by a rush.
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut operations = Vec::new();
        for turn in 0.. {
            tokio::select! {
                biased;
                // Also when the sender is gone.
                _ = stopped.changed() => break,
                _ = ticks.tick() => {}
            }
            let (operation, outcome) = self.ask(turn).await;
            self.tally.count(&operation.did);
            operations.push(operation);
            if outcome.is_err() || turn % PER_CONNECTION == PER_CONNECTION - 1 {
                match self.endpoint.member() {
                    Ok(member) => self.member = member,
                    Err(_) => break,
                }
            }
        }
        operations
    }

    async fn ask(&self, turn: u64) -> (Operation, Result<(), Error>) {
        let (number, clients) = (u64::from(self.number), u64::from(self.load.clients));
        let dice = scatter(turn * clients + number);
        let key = Key(u16::try_from(dice % u64::from(self.load.keys)).unwrap_or_default());
        if dice >> 63 == 0 {
            self.endpoint.write(&self.member, key, Value(turn * clients + number + 1)).await
        } else {
            self.endpoint.read(&self.member, key).await
        }
    }
}

/// The same numbers in every run, without any order: the finisher of `SplitMix64`.
const fn scatter(number: u64) -> u64 {
    let mut z = number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use etcd_admin::Revision;

    use super::*;

    fn answered(count: u64) -> History {
        let one = |at| Operation {
            key: Key(0),
            invoked: Duration::from_secs(at),
            returned: Duration::from_secs(at),
            did: Did::Read { found: None, revision: Revision(1) },
        };
        History { operations: (0..count).map(one).collect(), finals: vec![] }
    }

    #[test]
    fn a_run_below_its_minimum_does_not_count() {
        let load = Load { minimum: 2.0, ..Load::default() };
        let took = Duration::from_secs(10);
        let error = load.judge(&answered(19), took).unwrap_err();
        assert!(error.to_string().starts_with("the run does not count: 1.90 answers"), "{error}");
        assert_eq!(load.judge(&answered(20), took).unwrap().checked(), 20);
    }

    #[test]
    fn a_violation_is_an_error_that_tells_it_also_of_a_slow_run() {
        let mut history = answered(1);
        history.operations[0].did = Did::Read {
            found: Some(Found { value: Value::FOREIGN, modified: Revision(1) }),
            revision: Revision(1),
        };
        let error = Load::default().judge(&history, Duration::from_secs(10)).unwrap_err();
        assert!(error.to_string().contains("nobody had written this"), "{error}");
        assert!(error.to_string().starts_with(GRAVE), "no second run excuses it: {error}");
        let [Violation::NeverWritten(read), ..] = check(&history)[..] else { panic!("{history:?}") };
        assert_eq!(mark(&[Violation::Undecided(read)]), "", "it may hold");
    }

    #[test]
    fn every_key_is_written_and_read() {
        let mut seen = std::collections::HashSet::new();
        for turn in 0..400 {
            seen.insert((scatter(turn) % 8, scatter(turn) >> 63));
        }
        assert_eq!(seen.len(), 16);
    }

    #[tokio::test]
    async fn a_load_that_asks_nothing_is_refused() {
        for load in [
            Load { rate: 0, ..Load::default() },
            Load { clients: 0, ..Load::default() },
            Load { keys: 0, ..Load::default() },
        ] {
            let started = load.start_at("127.0.0.1:1".to_owned(), None).await;
            assert!(matches!(started, Err(LoadError::Nothing)));
        }
    }
}
