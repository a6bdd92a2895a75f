//! FAKES: etcd: processes with an address and a disk, and the clusters that they form. Member list, learners, status, reads through
//! a quorum, and a quorum that can be lost. [`crate::truth`] says what is compared with the real one.

mod consensus;
mod dial;
mod server;

use std::{
    collections::{BTreeMap, BTreeSet},
    hash::{DefaultHasher, Hash, Hasher},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::{sync::watch, time::Instant};

use consensus::Up;
pub use consensus::{Consensus, Entry, Refused};

/// How many entries of the log are much.
const MUCH: u64 = 1_000_000;

/// A change that somebody asks of etcd.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// A new member.
    Add {
        /// Where its peers will reach it.
        peer_urls: Vec<String>,
        /// Whether it has no vote.
        learner: bool,
    },
    /// A vote for a learner.
    Promote(u64),
    /// One member less.
    Remove(u64),
    /// Another leader.
    MoveLeader(u64),
    /// The minor that members may go down to.
    AllowDowngrade(String),
    /// None of them, any more.
    CancelDowngrade,
}

impl Change {
    fn what(&self) -> &'static str {
        match self {
            Self::Add { .. } => "member add",
            Self::Promote(_) => "member promote",
            Self::Remove(_) => "member remove",
            Self::MoveLeader(_) => "move leader",
            Self::AllowDowngrade(_) => "downgrade enable",
            Self::CancelDowngrade => "downgrade cancel",
        }
    }

    fn object(&self) -> String {
        match self {
            Self::Add { peer_urls, .. } => peer_urls.join(","),
            Self::Promote(id) | Self::Remove(id) | Self::MoveLeader(id) => format!("{id:x}"),
            Self::AllowDowngrade(minor) => minor.clone(),
            Self::CancelDowngrade => String::new(),
        }
    }
}

/// Says which laws a change breaks.
pub type Judge = Arc<dyn Fn(&Change) -> Vec<String> + Send + Sync>;

/// What etcd has written to a disk: who it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Log {
    /// Its cluster.
    pub cluster: u64,
    /// Itself.
    pub member: u64,
}

/// A process that runs.
#[derive(Clone, Debug)]
struct Process {
    name: String,
    client_urls: Vec<String>,
    version: String,
    log: Log,
    since: Instant,
    /// Whether it has met a quorum since: before, it answers nobody.
    serves: bool,
    /// Gone when the process is, and with it its connections.
    alive: watch::Sender<()>,
}

/// What a process is told.
#[derive(Clone, Debug, Default)]
pub struct Flags {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// Where its peers reach it.
    pub peer_url: String,
    /// Where its clients reach it.
    pub client_url: String,
    /// Who is there at the beginning, and where.
    pub initial: BTreeMap<String, String>,
    /// Whether it begins a cluster.
    pub new: bool,
    /// What keeps clusters apart.
    pub token: String,
}

impl Flags {
    /// The flags on a command line of etcd.
    #[must_use]
    pub fn read(argv: &[String], version: &str) -> Self {
        let flag = |name: &str| {
            let prefix = format!("--{name}=");
            argv.iter().find_map(|flag| flag.strip_prefix(&prefix)).unwrap_or_default().to_owned()
        };
        let initial = flag("initial-cluster");
        let pairs = initial.split(',').filter_map(|pair| pair.split_once('='));
        Self {
            name: flag("name"),
            version: version.to_owned(),
            peer_url: flag("initial-advertise-peer-urls"),
            client_url: flag("advertise-client-urls"),
            initial: pairs.map(|(name, url)| (name.to_owned(), url.to_owned())).collect(),
            new: flag("initial-cluster-state") == "new",
            token: flag("initial-cluster-token"),
        }
    }
}

/// All of etcd, under one lock.
#[derive(Debug, Default)]
struct World {
    clusters: BTreeMap<u64, Consensus>,
    processes: BTreeMap<String, Process>,
    added: u64,
    opened: usize,
    /// Whether learners come no further than they are.
    lagging: bool,
    /// Whether learners answer nobody until there is another entry in the log.
    waiting: bool,
}

/// All of etcd. All clones are one.
#[derive(Clone)]
pub struct Etcd {
    world: Arc<Mutex<World>>,
    changed: watch::Sender<u64>,
}

impl Default for Etcd {
    fn default() -> Self {
        Self { world: Arc::default(), changed: watch::Sender::new(0) }
    }
}

fn digest(parts: &[&str]) -> u64 {
    let mut hasher = DefaultHasher::new();
    parts.hash(&mut hasher);
    hasher.finish() | 1
}

impl Etcd {
    fn lock(&self) -> MutexGuard<'_, World> {
        self.world.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change<T>(&self, act: impl FnOnce(&mut World) -> T) -> T {
        let done = {
            let mut world = self.lock();
            let done = act(&mut world);
            world.settle();
            done
        };
        self.changed.send_modify(|changes| *changes += 1);
        done
    }

    /// Tells when something has changed.
    #[must_use]
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    /// Starts a process at an address, on what its disk holds, and returns what it holds then; or why the process ended.
    ///
    /// `resolves` says whether a URL's host has an address now: without the names of all first members etcd exits.
    pub fn start(
        &self,
        address: &str,
        flags: &Flags,
        disk: Option<Log>,
        resolves: impl Fn(&str) -> bool,
    ) -> Result<Log, String> {
        self.change(|world| {
            let log = match disk {
                Some(log) => {
                    world.may_run(log, &flags.version)?;
                    world.again(log)?
                }
                None if flags.new => world.begin(flags, resolves)?,
                None => world.join(flags)?,
            };
            let (name, version) = (flags.name.clone(), flags.version.clone());
            let client_urls = vec![flags.client_url.clone()];
            let (since, alive) = (Instant::now(), watch::Sender::new(()));
            let process = Process { name, client_urls, version, log, since, serves: false, alive };
            world.processes.insert(address.to_owned(), process);
            Ok(log)
        })
    }

    /// What the process at an address tells under `/version`: its own version, and the minor that its cluster has agreed on.
    fn versions(&self, address: &str) -> Option<serde_json::Value> {
        let mut world = self.lock();
        world.agree_on_versions();
        let process = world.processes.get(address).filter(|process| process.serves)?;
        let agreed = &world.clusters.get(&process.log.cluster)?.version;
        let agreed = agreed.as_ref().map_or_else(|| "not_decided".to_owned(), |minor| format!("{minor}.0"));
        Some(serde_json::json!({"etcdserver": process.version, "etcdcluster": agreed}))
    }

    /// Opens a connection: whoever holds it is told when the process is gone.
    fn opens(&self, address: &str) -> Option<watch::Receiver<()>> {
        let mut world = self.lock();
        let alive = world.processes.get(address)?.alive.subscribe();
        world.opened += 1;
        Some(alive)
    }

    /// Ends the process at an address. Its disk stays.
    pub fn stop(&self, address: &str) {
        self.change(|world| drop(world.processes.remove(address)));
    }

    /// Whether a process runs at an address.
    #[must_use]
    pub fn runs(&self, address: &str) -> bool {
        self.lock().processes.contains_key(address)
    }

    /// Whether a member reads through a quorum, and votes: what its readiness probe asks.
    #[must_use]
    pub fn is_ready(&self, address: &str) -> bool {
        let world = self.lock();
        let Some(process) = world.processes.get(address) else { return false };
        let cluster = world.clusters.get(&process.log.cluster);
        let votes = cluster.and_then(|cluster| cluster.members.get(&process.log.member));
        process.serves
            && cluster.is_some_and(|cluster| cluster.leader.is_some())
            && votes.is_some_and(|entry| !entry.learner)
    }

    /// Which members of a cluster are up and serve.
    #[must_use]
    pub fn serving(&self, cluster: u64) -> BTreeSet<u64> {
        let world = self.lock();
        let serving =
            world.processes.values().filter(|process| process.serves && process.log.cluster == cluster);
        serving.map(|process| process.log.member).collect()
    }

    /// The version that each member of a cluster runs that is up and serves.
    #[must_use]
    pub fn versions_of(&self, cluster: u64) -> BTreeMap<u64, String> {
        let world = self.lock();
        let serving =
            world.processes.values().filter(|process| process.serves && process.log.cluster == cluster);
        serving.map(|process| (process.log.member, process.version.clone())).collect()
    }

    /// Lets much be written that no learner gets, from now on or no longer.
    pub fn hold_learners_back(&self, lagging: bool) {
        self.change(|world| {
            world.lagging = lagging;
            for cluster in world.clusters.values_mut() {
                cluster.index += MUCH;
            }
        });
    }

    /// Lets learners begin with a snapshot where nobody writes: they answer nobody until there is another entry in the log.
    pub fn let_learners_wait(&self) {
        self.change(|world| world.waiting = true);
    }

    /// How many connections were ever opened.
    #[must_use]
    pub fn opened(&self) -> usize {
        self.lock().opened
    }

    /// How many processes run.
    #[must_use]
    pub fn processes(&self) -> usize {
        self.lock().processes.len()
    }

    /// Every cluster there ever was.
    #[must_use]
    pub fn clusters(&self) -> BTreeMap<u64, Consensus> {
        let mut world = self.lock();
        world.agree_on_versions();
        world.clusters.clone()
    }

    /// Which cluster the process at an address serves in as a voter, if it does.
    #[must_use]
    pub fn serves_in(&self, address: &str) -> Option<u64> {
        let world = self.lock();
        let process = world.processes.get(address).filter(|process| process.serves)?;
        let entry = world.clusters.get(&process.log.cluster)?.members.get(&process.log.member)?;
        (!entry.learner).then_some(process.log.cluster)
    }
}

impl World {
    /// Learners that run hear of another entry in the log.
    fn hear(&mut self) {
        let learners =
            self.clusters.values().flat_map(|cluster| cluster.members.values()).filter(|it| it.learner);
        let learners: BTreeSet<u64> = learners.map(|learner| learner.id).collect();
        if self.processes.values().any(|process| process.serves && learners.contains(&process.log.member)) {
            self.waiting = false;
        }
    }

    /// A start on data: as the one that wrote it, unless that one was removed.
    fn again(&self, log: Log) -> Result<Log, String> {
        let cluster = self.clusters.get(&log.cluster).ok_or("its cluster is unknown")?;
        if cluster.removed.contains(&log.member) {
            return Err("the member has been permanently removed from the cluster".to_owned());
        }
        Ok(log)
    }

    /// A start as one of the first.
    fn begin(&mut self, flags: &Flags, resolves: impl Fn(&str) -> bool) -> Result<Log, String> {
        let known = flags.initial.get(&flags.name);
        if known != Some(&flags.peer_url) {
            return Err("--initial-cluster has not the URL of --initial-advertise-peer-urls".to_owned());
        }
        if let Some(url) = flags.initial.values().find(|url| !resolves(url)) {
            return Err(format!("failed to resolve URL Host of {url}"));
        }
        let id = |url: &str| digest(&["member", url, &flags.token]);
        let entry = |url: &String| Entry {
            id: id(url),
            name: None,
            peer_urls: vec![url.clone()],
            client_urls: Vec::new(),
            learner: false,
        };
        let members: BTreeMap<u64, Entry> = flags.initial.values().map(|url| (id(url), entry(url))).collect();
        let ids: Vec<String> = members.keys().map(u64::to_string).collect();
        let parts: Vec<&str> = ids.iter().map(String::as_str).collect();
        let cluster = digest(&parts);
        self.clusters.entry(cluster).or_insert_with(|| Consensus {
            members,
            revision: 1,
            ..Default::default()
        });
        Ok(Log { cluster, member: id(&flags.peer_url) })
    }

    /// A start as one that was added: those who are there are asked who it is, and have to agree on who they are.
    fn join(&self, flags: &Flags) -> Result<Log, String> {
        let mut alive = self.processes.values().filter(|process| process.serves);
        let peers =
            |process: &&Process| flags.initial.contains_key(&process.name) && process.name != flags.name;
        let peer = alive.find(peers).ok_or("could not retrieve cluster information from the given URLs")?;
        let cluster = self.clusters.get(&peer.log.cluster).ok_or("its cluster is unknown")?;
        let told: BTreeSet<&String> = flags.initial.values().collect();
        let known: BTreeSet<&String> = cluster.members.values().flat_map(|entry| &entry.peer_urls).collect();
        if told != known {
            return Err("error validating peerURLs: member count is unequal, or unmatched member".to_owned());
        }
        let own = |entry: &&Entry| entry.peer_urls.contains(&flags.peer_url);
        let member = cluster.members.values().find(own).map(|entry| entry.id);
        member
            .map(|member| Log { cluster: peer.log.cluster, member })
            .ok_or_else(|| "not a member".to_owned())
    }

    fn up(&self, cluster: u64) -> Up {
        let members = self.processes.values().filter(|process| process.log.cluster == cluster);
        members.map(|process| (process.log.member, process.since)).collect()
    }

    /// Whether a member may be started in this version: none below what its cluster has agreed on.
    fn may_run(&mut self, log: Log, version: &str) -> Result<(), String> {
        self.agree_on_versions();
        let agreed = self.clusters.get(&log.cluster).and_then(|cluster| cluster.version.as_deref());
        if agreed.is_some_and(|agreed| minor_of(version).is_some_and(|minor| minor < agreed)) {
            return Err(
                "invalid downgrade; server version is lower than determined cluster version".to_owned()
            );
        }
        Ok(())
    }

    /// Lets clusters elect, members begin to serve, and those who were removed end.
    fn settle(&mut self) {
        let clusters = &mut self.clusters;
        self.processes.retain(|_, process| {
            clusters
                .get(&process.log.cluster)
                .is_some_and(|cluster| !cluster.removed.contains(&process.log.member))
        });
        let mut up: BTreeMap<u64, Up> = BTreeMap::new();
        for process in self.processes.values() {
            up.entry(process.log.cluster).or_default().insert(process.log.member, process.since);
        }
        for (id, cluster) in &mut self.clusters {
            cluster.elect(&up.remove(id).unwrap_or_default());
        }
        for process in self.processes.values_mut().filter(|process| !process.serves) {
            let cluster = self.clusters.get_mut(&process.log.cluster);
            let Some(cluster) = cluster.filter(|cluster| cluster.leader.is_some()) else { continue };
            process.serves = true;
            if let Some(entry) = cluster.members.get_mut(&process.log.member) {
                entry.name = Some(process.name.clone());
                entry.client_urls.clone_from(&process.client_urls);
                cluster.index += 1;
            }
        }
        self.agree_on_versions();
    }

    /// Lets each cluster agree on the minor that its members have in common.
    fn agree_on_versions(&mut self) {
        let now = Instant::now();
        for (id, cluster) in &mut self.clusters {
            let serves = |process: &&Process| process.log.cluster == *id && process.serves;
            let running: Vec<&str> = self
                .processes
                .values()
                .filter(serves)
                .filter_map(|process| minor_of(&process.version))
                .collect();
            let all = !running.is_empty() && running.len() == cluster.members.len();
            cluster.agree(all.then_some(running.as_slice()), now);
        }
    }
}

/// The minor of a version: 3.6 of 3.6.14. Single digits, so that the lower one comes first also as text.
fn minor_of(version: &str) -> Option<&str> {
    version.rsplit_once('.').map(|(minor, _)| minor)
}
