//! REPORT, for who reads logs: every line of a round carries the cluster and the round's number.

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;

use crate::flags::LogFormat;

/// What is logged unless `RUST_LOG` says otherwise: ours, and from others only what went wrong.
const DEFAULT: &str = "warn,operator=info,etcd_operator=info";

/// Starts logging, to standard error.
pub fn start(format: LogFormat) {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(DEFAULT));
    let terminal = std::io::stderr().is_terminal();
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    if format == LogFormat::Json || (format == LogFormat::Auto && !terminal) {
        builder.json().flatten_event(true).with_span_list(false).init();
    } else {
        builder.with_target(false).with_ansi(terminal).init();
    }
}
