//! BEFORE ETCD: the launcher inside a member's pod.
//!
//! An init container runs `install`, which copies this binary into a volume of the pod. The etcd container, whose image is
//! etcd's own and has no shell, then runs that copy: `run` checks what it finds and becomes etcd; `probe` answers the
//! kubelet. It needs no Kubernetes token and no network but the loopback.

mod etcd;
mod install;
mod probe;
mod run;
mod volume;

use std::{path::PathBuf, process::ExitCode, time::Duration};

use clap::{Parser, Subcommand, ValueEnum};

/// Starts etcd in a member's pod, or says why not.
#[derive(Parser)]
#[command(name = "etcd-launcher", version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Copy this program to a path.
    Install {
        /// Where to copy it to.
        destination: PathBuf,
    },
    /// Check version and data, then become etcd.
    Run(run::Places),
    /// Answer one of the kubelet's probes.
    Probe {
        /// Which one.
        question: Question,
        /// The member's client endpoint, asked for readiness.
        #[arg(long, default_value = "http://127.0.0.1:2379")]
        client: String,
        /// The member's peer address, asked for liveness.
        #[arg(long, default_value = "127.0.0.1:2380")]
        peer: String,
        /// How long the answer may take; the kubelet's own limit should be longer. If it is not said: 4 s for readiness, which clients wait
        /// for, and 10 s for liveness, where an answer that is only late must not end a working process.
        #[arg(long)]
        timeout_ms: Option<u64>,
        /// Where it is noted whether etcd has answered since it was started.
        #[arg(long, default_value = volume::MARKER_DIR)]
        marker_dir: PathBuf,
    },
}

/// The kubelet's probes.
#[derive(Clone, Copy, ValueEnum)]
enum Question {
    /// Does the process still work? A restart would cure it if not.
    Liveness,
    /// Does it serve clients, with a quorum behind it?
    Readiness,
}

impl Question {
    fn patience(self) -> Duration {
        match self {
            Self::Liveness => Duration::from_secs(10),
            // All but one of the seconds between two questions, see the pod's manifest.
            Self::Readiness => Duration::from_secs(4),
        }
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    match Arguments::parse().command {
        Command::Install { destination } => ended(install::install(&destination)),
        Command::Run(places) => run::run(&places).await,
        Command::Probe { question, client, peer, timeout_ms, marker_dir } => {
            let timeout = timeout_ms.map_or_else(|| question.patience(), Duration::from_millis);
            ended(match question {
                Question::Liveness => probe::alive(&peer, timeout, &marker_dir).await,
                Question::Readiness => probe::ready(&client, timeout, &marker_dir).await,
            })
        }
    }
}

/// The exit code for an outcome. What went wrong goes to standard output too: that is what the kubelet shows of a probe.
fn ended(outcome: Result<(), impl std::error::Error>) -> ExitCode {
    let Err(error) = outcome else {
        return ExitCode::SUCCESS;
    };
    let mut sentence = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        sentence = format!("{sentence}: {cause}");
        source = cause.source();
    }
    println!("{sentence}");
    ExitCode::FAILURE
}
