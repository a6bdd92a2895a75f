//! WHAT USERS WRITE: the three kinds of `etcd.database.coreos.com/v1beta2`, their defaults, their rules and every
//! reason that a status can give. No I/O: the loop reads these types, the planner decides on them, `xtask` prints them.
//!
//! The types are lenient, the rules are not. An object may have been stored before our schema existed, so every
//! field that can be missing, null or odd still parses; [`validate`] then says what is wrong with it, in the same words as the
//! CEL rules that the API server runs ([`rules`] holds both).

#![allow(unreachable_pub, reason = "KubeSchema copies each struct, with its `pub`, into a function")]

pub mod advice;
pub mod backup;
pub mod cluster;
pub mod condition;
pub mod crd;
pub mod defaults;
pub mod events;
mod grammar;
pub mod lenient;
pub mod names;
pub mod not_yet;
pub mod pod;
pub mod protection;
pub mod quantity;
pub mod reasons;
pub mod restore;
pub mod rules;
pub mod scope;
pub mod status;
pub mod storage;
pub mod tls;
pub mod validate;
pub mod version;

pub use backup::{BackupPolicy, EtcdBackup, EtcdBackupSpec, EtcdBackupStatus};
pub use cluster::{Bootstrap, EtcdCluster, EtcdClusterSpec};
pub use condition::{Condition, ConditionStatus, ConditionType};
pub use events::Event;
pub use pod::PodPolicy;
pub use reasons::Reason;
pub use restore::{EtcdClusterRef, EtcdRestore, EtcdRestoreSpec, EtcdRestoreStatus};
pub use status::{Birth, EtcdClusterStatus, MemberDetails, MembersStatus, Phase};
pub use tls::{MemberSecret, StaticTls, TlsPolicy};

/// The API group of all our kinds, as the classic operator named it.
pub const GROUP: &str = "etcd.database.coreos.com";
/// The one served and stored version.
pub const VERSION: &str = "v1beta2";
