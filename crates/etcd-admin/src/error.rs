//! TALKING TO ETCD: what went wrong, and whether the call may have taken effect all the same.

use std::fmt;

use tonic::{Code, ConnectError, Status, TimeoutExpired};

pub(crate) const AUTH_NOT_ENABLED: &str = "etcdserver: authentication is not enabled";
pub(crate) const INVALID_TOKEN: &str = "etcdserver: invalid auth token";
pub(crate) const OLD_AUTH_REVISION: &str = "etcdserver: revision of auth store is old";

macro_rules! calls {
    ($($(#[$doc:meta])* $name:ident: $changes:literal, $words:literal;)*) => {
        /// The calls that can be made.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Call {
            $($(#[$doc])* $name,)*
        }

        impl Call {
            /// Whether the call changes something, so that it matters if it happened when no answer came.
            #[must_use]
            pub const fn changes(self) -> bool {
                match self {
                    $(Self::$name => $changes,)*
                }
            }
        }

        impl fmt::Display for Call {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(match self {
                    $(Self::$name => $words,)*
                })
            }
        }
    };
}

calls! {
    /// A read that a quorum confirms.
    Ping: false, "reading through a quorum";
    /// A read of keys.
    Get: false, "reading a key";
    /// A write of one key.
    Put: true, "writing a key";
    /// Forgetting old revisions.
    Compact: true, "compacting the history";
    /// The list of members.
    ListMembers: false, "listing the members";
    /// A new member.
    AddMember: true, "adding a member";
    /// One member less.
    RemoveMember: true, "removing a member";
    /// Another peer address.
    UpdateMember: true, "changing a member's address";
    /// A vote for a learner.
    PromoteMember: true, "promoting a learner";
    /// How a member sees itself.
    Status: false, "asking for the status";
    /// The alarms that are raised.
    ListAlarms: false, "listing the alarms";
    /// Ending an alarm.
    DisarmAlarm: true, "disarming an alarm";
    /// Giving free space back.
    Defragment: true, "defragmenting";
    /// A hash over the keys.
    HashKeys: false, "hashing the keys";
    /// Another leader.
    MoveLeader: true, "moving the leader";
    /// A copy of the data.
    Snapshot: false, "taking a snapshot";
    /// Whether a downgrade is possible.
    ValidateDowngrade: false, "validating a downgrade";
    /// Allowing a downgrade.
    EnableDowngrade: true, "enabling a downgrade";
    /// Ending a downgrade.
    CancelDowngrade: true, "cancelling a downgrade";
    /// Whether users have to log in.
    AuthStatus: false, "asking whether authentication is on";
    /// Making users log in.
    EnableAuth: true, "enabling authentication";
    /// Letting everybody in.
    DisableAuth: true, "disabling authentication";
    /// A new user.
    AddUser: true, "adding a user";
    /// A new role.
    AddRole: true, "adding a role";
    /// A role for a user.
    GrantRole: true, "granting a role";
}

/// What is wrong with who we are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum AuthProblem {
    /// The cluster asks for a login and none was given.
    #[error("a login is required")]
    Required,
    /// User or password is wrong.
    #[error("the login failed")]
    Failed,
    /// The user may not do this.
    #[error("permission denied")]
    Denied,
    /// The user or role exists already.
    #[error("it exists already")]
    Exists,
    /// Authentication was to be changed in a way that etcd does not allow.
    #[error("authentication is not in a state that allows it")]
    State,
}

/// Why a call failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Cause {
    /// No connection came about: the call was never sent.
    #[error("the member cannot be reached")]
    Unreachable,
    /// The connection broke, or the member stopped, before an answer came.
    #[error("the connection was lost{}", doubt(*maybe_done))]
    ConnectionLost {
        /// Whether the call may have taken effect.
        maybe_done: bool,
    },
    /// No answer came in time.
    #[error("no answer in time{}", doubt(*maybe_done))]
    Timeout {
        /// Whether the call may have taken effect.
        maybe_done: bool,
    },
    /// The member has no leader, or cannot reach a quorum.
    #[error("there is no quorum")]
    NoQuorum,
    /// The leader changed while a read waited; asking again is enough.
    #[error("the leader changed meanwhile")]
    LeaderChanged,
    /// Only the leader answers this call.
    #[error("the member is not the leader")]
    NotLeader,
    /// etcd's own check: voters are not, or not long enough (5 s), connected.
    #[error("etcd holds the cluster for unhealthy: voters are not connected, or for less than 5 s")]
    UnhealthyCluster,
    /// etcd's own check: too few voters have ever started.
    #[error("too few members have started")]
    NotEnoughStarted,
    /// The learner has not caught up.
    #[error("the learner has not caught up")]
    LearnerNotReady,
    /// The member to promote votes already.
    #[error("the member is not a learner")]
    NotALearner,
    /// There is one learner already.
    #[error("there are too many learners")]
    TooManyLearners,
    /// A learner does not answer this call.
    #[error("a learner does not answer this")]
    RefusedByLearner,
    /// There is no member of this ID.
    #[error("there is no such member")]
    MemberNotFound,
    /// A member of this address is in the cluster.
    #[error("a member with this address is in the cluster already")]
    MemberExists,
    /// The member cannot become the leader.
    #[error("the member cannot become the leader")]
    BadTransferee,
    /// Who we are is not good enough.
    #[error("{0}")]
    Auth(AuthProblem),
    /// The database is full.
    #[error("the database is full")]
    NoSpace,
    /// The members hold different data, and an alarm says so.
    #[error("the cluster holds itself for corrupt")]
    Corrupt,
    /// The revision has been compacted.
    #[error("the revision is compacted")]
    Compacted,
    /// The revision is not there yet.
    #[error("the revision is not there yet")]
    FutureRevision,
    /// This version does not know the call.
    #[error("this version of etcd does not have it")]
    Unsupported,
    /// Anything else, in etcd's words.
    #[error("{message} ({code:?})")]
    Other {
        /// The gRPC code.
        code: Code,
        /// What etcd said.
        message: String,
    },
}

const fn doubt(maybe_done: bool) -> &'static str {
    if maybe_done { "; it may have happened all the same" } else { "" }
}

/// A call that failed.
#[derive(Debug, thiserror::Error)]
#[error("{call} at {endpoint}: {cause}")]
pub struct Error {
    /// What was attempted.
    pub call: Call,
    /// At whom.
    pub endpoint: String,
    /// Why it failed.
    pub cause: Cause,
    #[source]
    source: Option<Box<Status>>,
}

impl Error {
    pub(crate) fn from_status(call: Call, endpoint: &str, status: Status) -> Self {
        let cause = cause(call, &status);
        Self { call, endpoint: endpoint.to_owned(), cause, source: Some(Box::new(status)) }
    }

    pub(crate) fn timeout(call: Call, endpoint: &str) -> Self {
        let cause = Cause::Timeout { maybe_done: call.changes() };
        Self { call, endpoint: endpoint.to_owned(), cause, source: None }
    }

    /// Whether the call may have taken effect although it failed. Then only a fresh look tells.
    #[must_use]
    pub fn maybe_done(&self) -> bool {
        match &self.cause {
            Cause::Timeout { maybe_done } | Cause::ConnectionLost { maybe_done } => *maybe_done,
            // etcd may apply a write and still answer that there is no space.
            Cause::NoSpace => self.call.changes(),
            Cause::Other { code, .. } => {
                let refused = matches!(
                    code,
                    Code::InvalidArgument | Code::NotFound | Code::FailedPrecondition | Code::OutOfRange
                );
                self.call.changes() && !refused
            }
            _ => false,
        }
    }
}

fn cause(call: Call, status: &Status) -> Cause {
    if let Some(told) = told_by_etcd(call, status.message()) {
        return told;
    }
    if caused_by::<ConnectError>(status) {
        return Cause::Unreachable;
    }
    // The member knows our deadline, and may be first to say that it has passed; etcd 3.4 does so without its code.
    let late = status.code() == Code::DeadlineExceeded || status.message() == "context deadline exceeded";
    if late || caused_by::<TimeoutExpired>(status) {
        return Cause::Timeout { maybe_done: call.changes() };
    }
    // A status that the member sent has no source; one that our side of the connection made has.
    if std::error::Error::source(status).is_some() {
        return Cause::ConnectionLost { maybe_done: call.changes() };
    }
    match status.code() {
        Code::Unimplemented => Cause::Unsupported,
        Code::PermissionDenied => Cause::Auth(AuthProblem::Denied),
        Code::Unauthenticated => Cause::Auth(AuthProblem::Required),
        Code::DataLoss => Cause::Corrupt,
        code => Cause::Other { code, message: status.message().to_owned() },
    }
}

/// Codes are too coarse (`Unavailable` stands for eleven things) and changed between versions; the sentences did not.
fn told_by_etcd(call: Call, message: &str) -> Option<Cause> {
    let message = message.strip_prefix("etcdserver: ")?;
    Some(match message {
        "no leader" => Cause::NoQuorum,
        "leader changed" => Cause::LeaderChanged,
        "not leader" => Cause::NotLeader,
        "unhealthy cluster" => Cause::UnhealthyCluster,
        "re-configuration failed due to not enough started members" => Cause::NotEnoughStarted,
        "can only promote a learner member which is in sync with leader" => Cause::LearnerNotReady,
        "can only promote a learner member" => Cause::NotALearner,
        "too many learner members in cluster" => Cause::TooManyLearners,
        "rpc not supported for learner" => Cause::RefusedByLearner,
        "member not found" => Cause::MemberNotFound,
        "Peer URLs already exists" | "member ID already exist" => Cause::MemberExists,
        "bad leader transferee" => Cause::BadTransferee,
        "corrupt cluster" => Cause::Corrupt,
        "mvcc: database space exceeded" => Cause::NoSpace,
        "mvcc: required revision has been compacted" => Cause::Compacted,
        "mvcc: required revision is a future revision" => Cause::FutureRevision,
        "not capable" => Cause::Unsupported,
        "server stopped" => Cause::ConnectionLost { maybe_done: call.changes() },
        "user name is empty" | "invalid auth token" => Cause::Auth(AuthProblem::Required),
        "authentication failed, invalid user ID or password" => Cause::Auth(AuthProblem::Failed),
        "permission denied" => Cause::Auth(AuthProblem::Denied),
        "user name already exists" | "role name already exists" => Cause::Auth(AuthProblem::Exists),
        "authentication is not enabled"
        | "invalid auth management"
        | "root user does not exist"
        | "root user does not have root role" => Cause::Auth(AuthProblem::State),
        // A read that times out has waited for a quorum; of a change nobody knows.
        late if late.starts_with("request timed out") && call.changes() => {
            Cause::Timeout { maybe_done: true }
        }
        late if late.starts_with("request timed out") => Cause::NoQuorum,
        _ => return None,
    })
}

fn caused_by<E: std::error::Error + 'static>(status: &Status) -> bool {
    let mut source = std::error::Error::source(status);
    while let Some(error) = source {
        if error.is::<E>() {
            return true;
        }
        source = error.source();
    }
    false
}

#[cfg(test)]
#[path = "error_tests.rs"]
mod tests;
