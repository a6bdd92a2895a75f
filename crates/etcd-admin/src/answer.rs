//! TALKING TO ETCD: what members answer, in types of our own.

use std::collections::BTreeSet;

use crate::{
    id::{ClusterId, MemberId, RaftIndex, RaftTerm, Revision},
    rpc,
};

/// Whether a member has a vote.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// It counts for the quorum.
    Voter,
    /// It only follows, until it is promoted.
    Learner,
}

impl Role {
    const fn from_flag(is_learner: bool) -> Self {
        if is_learner { Self::Learner } else { Self::Voter }
    }
}

/// A member as a member list names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedMember {
    /// Who it is.
    pub id: MemberId,
    /// Its name; none until it has started for the first time.
    pub name: Option<String>,
    /// Where its peers reach it.
    pub peer_urls: Vec<String>,
    /// Where its clients reach it; none until it has started for the first time.
    pub client_urls: Vec<String>,
    /// Whether it votes.
    pub role: Role,
}

impl From<rpc::Member> for ListedMember {
    fn from(member: rpc::Member) -> Self {
        Self {
            id: MemberId(member.id),
            name: Some(member.name).filter(|name| !name.is_empty()),
            peer_urls: member.peer_urls,
            client_urls: member.client_urls,
            role: Role::from_flag(member.is_learner),
        }
    }
}

/// A member list, and who gave it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemberList {
    /// The cluster that the answering member belongs to.
    pub cluster: ClusterId,
    /// The member that answered.
    pub answered_by: MemberId,
    /// The members, by ID.
    pub members: Vec<ListedMember>,
}

impl MemberList {
    pub(crate) fn new(header: Option<rpc::ResponseHeader>, members: Vec<rpc::Member>) -> Self {
        let header = header.unwrap_or_default();
        let mut members = members.into_iter().map(ListedMember::from).collect::<Vec<_>>();
        // etcd sorts by the age of the entry in some versions and by ID in others.
        members.sort_by_key(|member| member.id);
        Self { cluster: ClusterId(header.cluster_id), answered_by: MemberId(header.member_id), members }
    }
}

/// How a member sees itself. It says nothing about a quorum: a member cut off from all others answers too.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Status {
    /// The cluster that the member belongs to.
    pub cluster: ClusterId,
    /// Who answered.
    pub member: MemberId,
    /// The version that it runs.
    pub version: String,
    /// Whom it takes for the leader.
    pub leader: Option<MemberId>,
    /// Whether it votes.
    pub role: Role,
    /// Its raft term.
    pub term: RaftTerm,
    /// The newest revision it has.
    pub revision: Revision,
    /// How far it knows the log to be agreed on.
    pub committed: RaftIndex,
    /// How far it has applied the log; not told before 3.4.
    pub applied: Option<RaftIndex>,
    /// The size of its database file.
    pub db_bytes: u64,
    /// The part of it in use; not told before 3.4.
    pub db_bytes_in_use: Option<u64>,
    /// The largest size allowed; told from 3.6 on.
    pub db_quota_bytes: Option<u64>,
    /// The version of the data on disk; told from 3.6 on.
    pub storage_version: Option<String>,
    /// The version that members may be brought down to, where that was asked for; told from 3.6 on.
    pub downgrade: Option<String>,
    /// What it complains about, in its own words.
    pub errors: Vec<String>,
}

impl Status {
    /// The alarms among its complaints. It costs nothing to ask for them here, whereas asking for alarms as such is an entry in etcd's log.
    #[must_use]
    pub fn alarms(&self) -> BTreeSet<AlarmKind> {
        // The text of a protobuf message, in which all versions have this part in common.
        let kind = |error: &String| match error {
            error if error.contains("alarm:NOSPACE") => Some(AlarmKind::NoSpace),
            error if error.contains("alarm:CORRUPT") => Some(AlarmKind::Corrupt),
            _ => None,
        };
        self.errors.iter().filter_map(kind).collect()
    }
}

/// A size as a number without a sign; zero and below mean that it was not told.
fn told(bytes: i64) -> Option<u64> {
    u64::try_from(bytes).ok().filter(|bytes| *bytes > 0)
}

impl From<rpc::StatusResponse> for Status {
    fn from(status: rpc::StatusResponse) -> Self {
        let header = status.header.unwrap_or_default();
        Self {
            cluster: ClusterId(header.cluster_id),
            member: MemberId(header.member_id),
            version: status.version,
            leader: Some(status.leader).filter(|id| *id != 0).map(MemberId),
            role: Role::from_flag(status.is_learner),
            term: RaftTerm(status.raft_term),
            revision: Revision(header.revision),
            committed: RaftIndex(status.raft_index),
            applied: Some(status.raft_applied_index).filter(|index| *index != 0).map(RaftIndex),
            db_bytes: told(status.db_size).unwrap_or_default(),
            db_bytes_in_use: told(status.db_size_in_use),
            db_quota_bytes: told(status.db_size_quota),
            storage_version: Some(status.storage_version).filter(|version| !version.is_empty()),
            downgrade: status.downgrade_info.filter(|info| info.enabled).map(|info| info.target_version),
            errors: status.errors,
        }
    }
}

/// What an alarm is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AlarmKind {
    /// The database reached its largest size: only reads and deletes are answered.
    NoSpace,
    /// Members hold different data.
    Corrupt,
}

impl From<AlarmKind> for rpc::AlarmType {
    fn from(kind: AlarmKind) -> Self {
        match kind {
            AlarmKind::NoSpace => Self::Nospace,
            AlarmKind::Corrupt => Self::Corrupt,
        }
    }
}

/// An alarm that is raised.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Alarm {
    /// The member it is about; none if etcd does not know which.
    pub member: Option<MemberId>,
    /// What it is about.
    pub kind: AlarmKind,
}

impl Alarm {
    /// The alarm as etcd tells it; an unknown kind of a later version is none that we could act on.
    pub(crate) fn from_rpc(alarm: rpc::AlarmMember) -> Option<Self> {
        let kind = match alarm.alarm() {
            rpc::AlarmType::Nospace => AlarmKind::NoSpace,
            rpc::AlarmType::Corrupt => AlarmKind::Corrupt,
            rpc::AlarmType::None => return None,
        };
        Some(Self { member: Some(alarm.member_id).filter(|id| *id != 0).map(MemberId), kind })
    }
}

/// A hash over a member's keys. Two members agree if hash and compaction are equal for the same revision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyHash {
    /// Who answered.
    pub member: MemberId,
    /// The hash.
    pub hash: u32,
    /// The revision up to which the history was compacted.
    pub compacted: Revision,
}

/// What a read of one key found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reading {
    /// The newest revision of the cluster at the time of the read.
    pub revision: Revision,
    /// The key's value, if it has one.
    pub found: Option<Pair>,
}

/// A value, and when it was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pair {
    /// The value.
    pub value: Vec<u8>,
    /// The revision of the write that wrote it.
    pub modified: Revision,
}

impl From<rpc::RangeResponse> for Reading {
    fn from(answer: rpc::RangeResponse) -> Self {
        let found = answer.kvs.into_iter().next();
        Self {
            revision: Revision(answer.header.unwrap_or_default().revision),
            found: found.map(|pair| Pair { value: pair.value, modified: Revision(pair.mod_revision) }),
        }
    }
}
