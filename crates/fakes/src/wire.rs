//! FAKES: the wire between one operator and the fakes. Every write that goes over it is noted, and one of them can be broken.

use std::{
    collections::BTreeMap,
    future::{Future, pending},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{
    sync::watch,
    time::{Instant, sleep, sleep_until},
};

/// After how long a late write lands: longer than its deadline, and longer than a Lease lasts.
pub const LATE: Duration = Duration::from_secs(20);

/// What happens to a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Fault {
    /// The operator dies before it is sent.
    CrashBefore,
    /// It lands, and the operator dies before it hears of it.
    CrashAfter,
    /// It lands, and no answer comes.
    LoseAnswer,
    /// Somebody else was faster: another version of the object is there, or the object that was to be made.
    Conflict,
    /// It is under way for so long that its deadline is over when it lands.
    Late,
    /// From here on nothing comes through in either direction, for so long that somebody else leads; then this write lands.
    CutOff,
    /// Every watch ends, and cannot go on from where it was (410 Gone).
    Expire,
    /// A quota is full: it is refused, and so is everything else of its kind for a while.
    Quota,
}

impl Fault {
    /// Every fault there is.
    pub const ALL: [Self; 8] = [
        Self::CrashBefore,
        Self::CrashAfter,
        Self::LoseAnswer,
        Self::Conflict,
        Self::Late,
        Self::CutOff,
        Self::Expire,
        Self::Quota,
    ];
}

/// Which write is broken, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Breaking {
    /// What it is.
    pub what: String,
    /// How many of that kind go before it. Names are random, and who leads etcd with them, so two runs need not write everything in
    /// the same order.
    pub nth: usize,
    /// What happens to it.
    pub fault: Fault,
}

/// A write as it went over the wire.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Write {
    /// The operator.
    pub who: String,
    /// What it is, such as `POST pods`.
    pub what: String,
    /// The object that it is about.
    pub object: String,
    /// Whether somebody else can be faster.
    pub contended: bool,
    /// Whether it goes to the API server, and not to etcd.
    pub watched: bool,
    /// Its number among the writes of this operator that are numbered; those of the Lease are not.
    pub number: Option<usize>,
    /// How many of that kind this operator wrote before it.
    pub nth: usize,
    /// What became of it, in the fake's words; nothing if it never landed.
    pub outcome: Option<String>,
}

/// What went over all wires, and which laws it broke.
#[derive(Clone, Debug, Default)]
pub struct Record {
    inner: Arc<Mutex<(Vec<Write>, Vec<String>)>>,
}

impl Record {
    fn lock(&self) -> MutexGuard<'_, (Vec<Write>, Vec<String>)> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Every write so far.
    #[must_use]
    pub fn writes(&self) -> Vec<Write> {
        self.lock().0.clone()
    }

    /// Every law that a write broke when it landed.
    #[must_use]
    pub fn broken(&self) -> Vec<String> {
        self.lock().1.clone()
    }

    /// Notes broken laws.
    pub fn note(&self, broken: impl IntoIterator<Item = String>) {
        self.lock().1.extend(broken);
    }
}

/// The wire of one operator.
#[derive(Clone)]
pub struct Wire {
    who: String,
    record: Record,
    /// How many numbered writes there were, and how many of each kind.
    counted: Arc<Mutex<(usize, BTreeMap<String, usize>)>>,
    broken: Option<Breaking>,
    dead: watch::Sender<bool>,
    silent: watch::Sender<Option<Instant>>,
    hit: watch::Sender<bool>,
}

impl Wire {
    /// The wire of this operator, with this write broken.
    #[must_use]
    pub fn new(who: &str, record: &Record, broken: Option<Breaking>) -> Self {
        Self {
            who: who.to_owned(),
            record: record.clone(),
            counted: Arc::default(),
            broken,
            dead: watch::Sender::new(false),
            silent: watch::Sender::new(None),
            hit: watch::Sender::new(false),
        }
    }

    /// Whether the fault has happened.
    #[must_use]
    pub fn was_hit(&self) -> bool {
        *self.hit.borrow()
    }

    /// What went over it, and over all others.
    #[must_use]
    pub fn record(&self) -> &Record {
        &self.record
    }

    /// Waits until the operator has to die.
    pub async fn death(&self) {
        let mut dead = self.dead.subscribe();
        if dead.wait_for(|dead| *dead).await.is_err() {
            pending::<()>().await;
        }
    }

    /// Waits until something comes through.
    pub async fn opens(&self) {
        let silent = *self.silent.borrow();
        if let Some(until) = silent {
            sleep_until(until).await;
        }
    }

    /// Sends a write. `disturb` is what happens to the fake right before, if the fault is there; `land` is the write itself, with
    /// its outcome in words.
    pub async fn send<T: Send + 'static>(
        &self,
        mut write: Write,
        disturb: impl FnOnce(Fault) + Send,
        land: impl FnOnce() -> (T, String) + Send + 'static,
    ) -> T {
        self.opens().await;
        write.who.clone_from(&self.who);
        let (position, fault) = self.begin(write);
        let record = self.record.clone();
        let land = move || {
            let (answer, outcome) = land();
            if let Some(write) = record.lock().0.get_mut(position) {
                write.outcome = Some(outcome);
            }
            answer
        };
        match fault {
            None => land(),
            Some(fault @ (Fault::Conflict | Fault::Expire | Fault::Quota)) => {
                disturb(fault);
                land()
            }
            Some(Fault::CrashBefore) => self.die().await,
            Some(Fault::CrashAfter) => {
                land();
                self.die().await
            }
            Some(Fault::LoseAnswer) => {
                land();
                pending().await
            }
            Some(fault @ (Fault::Late | Fault::CutOff)) => {
                if fault == Fault::CutOff {
                    self.silent.send_replace(Some(Instant::now() + LATE));
                }
                tokio::spawn(async move {
                    sleep(LATE).await;
                    land();
                });
                pending().await
            }
        }
    }

    /// Notes the write, and says what happens to it.
    fn begin(&self, mut write: Write) -> (usize, Option<Fault>) {
        {
            let mut counted = self.counted.lock().unwrap_or_else(PoisonError::into_inner);
            let of_kind = counted.1.entry(write.what.clone()).or_default();
            write.nth = *of_kind;
            *of_kind += 1;
            if write.number.is_some() {
                write.number = Some(counted.0);
                counted.0 += 1;
            }
        }
        let meant = |broken: &&Breaking| write.nth == broken.nth && write.what == broken.what;
        let fault = self.broken.as_ref().filter(meant).map(|broken| broken.fault);
        if fault.is_some() {
            self.hit.send_replace(true);
        }
        let mut record = self.record.lock();
        record.0.push(write);
        (record.0.len().saturating_sub(1), fault)
    }

    fn die<T>(&self) -> impl Future<Output = T> + use<T> {
        self.dead.send_replace(true);
        pending()
    }
}
