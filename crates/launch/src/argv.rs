//! HOW A MEMBER STARTS: etcd's command line, in the words of each minor.

use std::collections::BTreeMap;

use crate::{
    intent::Intent,
    member::{ClientUrl, ClusterToken, MemberName, PeerUrl},
    version::{EtcdVersion, Minor},
};

/// Where a member keeps its data inside its container.
pub const DATA_DIR: &str = "/var/etcd/data";

/// Which of etcd's own corruption checks run. All are off in every release unless asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CorruptionChecks {
    /// Compare with the peers before serving, and exit on a difference. A peer that does not answer delays the start.
    pub at_start: bool,
    /// The leader compares hashes whenever the history is compacted.
    pub on_compaction: bool,
}

/// What is to be known about a member before it can be started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemberLaunch {
    /// The member's name.
    pub name: MemberName,
    /// Where its peers reach it.
    pub peer_url: PeerUrl,
    /// Where its clients reach it.
    pub client_url: ClientUrl,
    /// The other members of the cluster. Its own entry is added by [`argv`], so that it cannot be forgotten.
    pub peers: BTreeMap<MemberName, PeerUrl>,
    /// The token of this incarnation of the cluster.
    pub token: ClusterToken,
    /// What this start is meant to be.
    pub intent: Intent,
    /// The corruption checks to run, where the version has them.
    pub checks: CorruptionChecks,
}

/// etcd's arguments, without the program's own name: one element per flag, so that no value can become a second flag.
///
/// The flags of S9 are the same in every minor. `--enable-v2` is never given: up to 3.3 its default is on, which
/// S13 needs (and 3.1 does not know the flag); in 3.4 and 3.5 its default is off, which the way to 3.6 needs; after that
/// it is gone.
#[must_use]
pub fn argv(launch: &MemberLaunch, version: EtcdVersion) -> Vec<String> {
    let mut everyone = launch.peers.clone();
    everyone.insert(launch.name.clone(), launch.peer_url.clone());
    let initial_cluster =
        everyone.iter().map(|(name, url)| format!("{name}={url}")).collect::<Vec<_>>().join(",");
    let mut argv = vec![
        format!("--data-dir={DATA_DIR}"),
        format!("--name={}", launch.name),
        format!("--initial-advertise-peer-urls={}", launch.peer_url),
        format!("--listen-peer-urls={}", launch.peer_url.listen_url()),
        format!("--listen-client-urls={}", launch.client_url.listen_url()),
        format!("--advertise-client-urls={}", launch.client_url),
        format!("--initial-cluster={initial_cluster}"),
        format!("--initial-cluster-state={}", launch.intent.initial_cluster_state()),
        format!("--initial-cluster-token={}", launch.token),
    ];
    if version.minor() == Minor::V3_4 {
        // 3.4 knows both loggers and still starts with the old one; from 3.5 on there is only this one.
        argv.push("--logger=zap".to_owned());
    }
    argv.extend(checks(launch.checks, version));
    argv
}

/// The same checks were experimental flags until 3.5 and are feature gates since 3.6; 3.7 exits on the old names.
fn checks(checks: CorruptionChecks, version: EtcdVersion) -> Vec<String> {
    let at_start = checks.at_start && version.minor() >= Minor::V3_3;
    let on_compaction = checks.on_compaction && version >= EtcdVersion::new(Minor::V3_5, 5);
    if version.minor() >= Minor::V3_6 {
        let gates = [(at_start, "InitialCorruptCheck=true"), (on_compaction, "CompactHashCheck=true")];
        let on = gates.into_iter().filter_map(|(on, gate)| on.then_some(gate)).collect::<Vec<_>>();
        return if on.is_empty() { Vec::new() } else { vec![format!("--feature-gates={}", on.join(","))] };
    }
    let flags = [
        (at_start, "--experimental-initial-corrupt-check=true"),
        (on_compaction, "--experimental-compact-hash-check-enabled=true"),
    ];
    flags.into_iter().filter(|(on, _)| *on).map(|(_, flag)| flag.to_owned()).collect()
}
