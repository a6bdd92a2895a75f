//! Real etcd processes on the loopback: a cluster of one version, whose members can be killed and started again.

use std::{
    fs::File,
    path::PathBuf,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use etcd_admin::{Cause, Connect, Error, Member, MemberId};

use crate::{etcd, free_address};

/// The versions that these tests run against.
pub const VERSIONS: [&str; 3] = ["3.5.33", "3.6.14", "3.7.1"];

/// Long enough for a machine that is busy with other things.
const PATIENCE: Duration = Duration::from_mins(2);

/// One member: a process, its ports and its data.
pub struct Process {
    /// Its name.
    pub name: String,
    /// Where other members reach it.
    pub peer_url: String,
    /// Where clients reach it.
    pub client_url: String,
    binary: PathBuf,
    dir: tempfile::TempDir,
    extra: Vec<String>,
    child: Option<Child>,
}

impl Process {
    fn new(version: &str, name: &str, scheme: &str, extra: &[String]) -> Self {
        Self {
            name: name.to_owned(),
            peer_url: format!("http://{}", free_address()),
            client_url: format!("{scheme}://{}", free_address()),
            binary: etcd(version),
            dir: tempfile::tempdir().unwrap(),
            extra: extra.to_vec(),
            child: None,
        }
    }

    fn start(&mut self, initial_cluster: &str, state: &str) {
        let log = File::options().create(true).append(true).open(self.dir.path().join("log")).unwrap();
        let mut command = Command::new(&self.binary);
        command
            .arg(format!("--name={}", self.name))
            .arg(format!("--data-dir={}", self.dir.path().join("data").display()))
            .arg(format!("--listen-peer-urls={}", self.peer_url))
            .arg(format!("--initial-advertise-peer-urls={}", self.peer_url))
            .arg(format!("--listen-client-urls={}", self.client_url))
            .arg(format!("--advertise-client-urls={}", self.client_url))
            .arg(format!("--initial-cluster={initial_cluster}"))
            .arg(format!("--initial-cluster-state={state}"))
            .args(["--heartbeat-interval=50", "--election-timeout=500", "--unsafe-no-fsync"])
            .args(&self.extra)
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log);
        self.child = Some(command.spawn().unwrap());
    }

    /// Ends the process at once, as a crash would. Its data stays.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// All that it has written so far.
    #[must_use]
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.dir.path().join("log")).unwrap_or_default()
    }

    /// A handle on this member.
    #[must_use]
    pub fn handle(&self) -> Member {
        self.handle_with(&Connect::default())
    }

    /// A handle that connects in this way.
    #[must_use]
    pub fn handle_with(&self, connect: &Connect) -> Member {
        Member::new(&self.client_url, connect).unwrap()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A cluster of processes of one version.
pub struct Cluster {
    /// Such as `3.6.14`.
    pub version: String,
    /// In the order of their names.
    pub members: Vec<Process>,
}

impl Cluster {
    /// Starts this many members together, and waits until each one reads through a quorum.
    pub async fn start(version: &str, size: usize) -> Self {
        Self::start_with(version, size, &[]).await
    }

    /// The same, with further flags.
    pub async fn start_with(version: &str, size: usize, extra: &[String]) -> Self {
        let mut cluster = Self::prepare(version, size, "http", extra);
        for index in 0..size {
            cluster.run(index, "new");
        }
        for member in &cluster.members {
            let handle = member.handle().within(Duration::from_secs(2));
            eventually(
                &format!("{} of {version} reads through a quorum", member.name),
                || member.log(),
                async || handle.ping().await.ok(),
            )
            .await;
        }
        cluster
    }

    /// Members that do not run yet.
    #[must_use]
    pub fn prepare(version: &str, size: usize, scheme: &str, extra: &[String]) -> Self {
        let members =
            (0..size).map(|index| Process::new(version, &format!("m{index}"), scheme, extra)).collect();
        Self { version: version.to_owned(), members }
    }

    /// Starts one member, new or again.
    pub fn run(&mut self, index: usize, state: &str) {
        let all = self.members.iter().map(|member| format!("{}={}", member.name, member.peer_url));
        let initial_cluster = all.collect::<Vec<_>>().join(",");
        self.members[index].start(&initial_cluster, state);
    }

    /// Prepares one more member. It is not started.
    pub fn push(&mut self) -> usize {
        let index = self.members.len();
        self.members.push(Process::new(&self.version, &format!("m{index}"), "http", &[]));
        index
    }

    /// A handle on every member.
    #[must_use]
    pub fn handles(&self) -> Vec<Member> {
        self.members.iter().map(Process::handle).collect()
    }
}

/// Waits until something is so, and fails with its name and a log if it does not come about.
pub async fn eventually<T>(what: &str, log: impl Fn() -> String, look: impl AsyncFn() -> Option<T>) -> T {
    let end = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = look().await {
            return found;
        }
        assert!(Instant::now() < end, "not within {PATIENCE:?}: {what}\n{}", log());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Why a call failed that had to.
pub fn cause<T: std::fmt::Debug>(outcome: Result<T, Error>) -> Cause {
    outcome.unwrap_err().cause
}

/// The index of the leader, once all members agree on it.
pub async fn leader(handles: &[Member]) -> usize {
    eventually("all members name one leader", String::new, async || {
        let mut named = Vec::new();
        for handle in handles {
            named.push(handle.status().await.ok()?);
        }
        let first = named.first()?.leader?;
        let agreed = named.iter().all(|status| status.leader == Some(first));
        agreed.then(|| named.iter().position(|status| status.member == first)).flatten()
    })
    .await
}

/// A member's ID, by its own word.
pub async fn id_of(handle: &Member) -> MemberId {
    handle.status().await.unwrap().member
}
