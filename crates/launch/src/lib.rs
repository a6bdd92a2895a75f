//! HOW A MEMBER STARTS: everything that decides how an etcd process is started, without doing it.
//!
//! The planner and the operator use it to write a [`LaunchOrder`]; the launcher inside the member's pod reads that
//! order, looks at its data directory and asks [`guard::judge`] whether to start. Both sides, and the simulator, run the
//! same functions. Nothing here does I/O, reads a clock or knows Kubernetes.

mod argv;
pub mod guard;
mod intent;
mod known;
mod member;
mod order;
mod refusal;
mod upgrade;
mod version;

pub use argv::{CorruptionChecks, DATA_DIR, MemberLaunch, argv};
pub use intent::Intent;
pub use known::{KnownBad, known_bad, newest_known};
pub use member::{ClientUrl, ClusterToken, InvalidMember, MemberName, PeerUrl, Scheme};
pub use order::{LaunchOrder, ORDER_ANNOTATION, ORDER_ENV, OrderError, Seal};
pub use refusal::{NotARefusal, Reason, Refusal, Refused};
pub use upgrade::{NoPath, upgrade_path};
pub use version::{EtcdVersion, InvalidVersion, Minor};
