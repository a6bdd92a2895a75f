//! TALKING TO ETCD: one handle per member, a deadline on every call, and errors that say what is known.
//!
//! A [`Member`] talks to one endpoint and never to another in its place: the operator has to know *who* answered. Nothing is
//! retried here (a token that has expired apart): whether to ask again is a decision, and decisions are made
//! elsewhere. The ambiguous case, "it may or may not have happened", is a value: [`Error::maybe_done`].

mod answer;
mod auth;
mod connect;
mod error;
mod id;
mod maintenance;
mod member;
mod membership;
#[allow(missing_docs, unreachable_pub, clippy::all, clippy::pedantic, reason = "made by machine")]
#[rustfmt::skip]
pub mod rpc;
mod snapshot;
mod users;
mod version;

pub use answer::{Alarm, AlarmKind, KeyHash, ListedMember, MemberList, Pair, Reading, Role, Status};
pub use auth::Credentials;
pub use connect::{Connect, ConnectError, Dial, Fetched, Tls};
pub use error::{AuthProblem, Call, Cause, Error};
pub use id::{ClusterId, MemberId, RaftIndex, RaftTerm, Revision};
pub use member::Member;
pub use snapshot::Snapshot;
