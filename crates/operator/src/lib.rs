//! THE LOOP: watch → observe → plan → act → report.
//!
//! [`watch`] wakes a cluster's [`round`] and does nothing else. A round [`observe`]s afresh, asks the planner, carries its steps
//! out ([`act`]) and says what was seen ([`report`]). Everything that is decided is decided in the planner; everything that is
//! written passes [`gate`], which knows whether this process still leads ([`leader`]).

pub mod act;
pub mod busy;
pub mod classic;
pub mod clients;
pub mod clock;
pub mod crds;
pub mod flags;
pub mod gate;
pub mod health;
pub mod http;
pub mod identity;
pub mod kinds;
pub mod kubernetes;
pub mod leader;
pub mod logs;
pub mod memory;
pub mod metrics;
pub mod observe;
pub mod rbac;
pub mod refusal;
pub mod report;
pub mod round;
pub mod run;
pub mod silence;
mod untold;
pub mod watch;
