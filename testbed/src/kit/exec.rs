//! Looking into a pod: commands in its containers, and what they log.

use std::time::Duration;

use k8s_openapi::{api::core::v1::Pod, apimachinery::pkg::apis::meta::v1::Status};
use kube::{
    Api,
    api::{AttachParams, LogParams},
};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use super::{KitError, Output, TestNamespace, call};

/// How a command is run, beyond what it is.
#[derive(Clone, Copy, Debug)]
pub struct Exec<'a> {
    /// In which container; the first one if there is no other.
    pub container: Option<&'a str>,
    /// What it reads from its standard input, which then ends. Without it there is none.
    ///
    /// More than some 100 kB that the command does not read block it until the deadline: kube's client does not listen
    /// while it cannot send.
    pub stdin: Option<&'a [u8]>,
    /// How long it may take.
    pub deadline: Duration,
}

impl Default for Exec<'_> {
    fn default() -> Self {
        Self { container: None, stdin: None, deadline: Duration::from_mins(1) }
    }
}

/// Why a command did not run to its end.
#[derive(Debug, thiserror::Error)]
pub enum ExecError {
    /// It could not be started.
    #[error(transparent)]
    Start(#[from] KitError),
    /// It was still running at its deadline.
    #[error("{command}: not done within {deadline:?}")]
    Deadline {
        /// What ran and where.
        command: String,
        /// How long it was waited for.
        deadline: Duration,
    },
    /// The connection to it broke.
    #[error("{command}: the connection broke")]
    Io {
        /// What ran and where.
        command: String,
        /// How.
        source: std::io::Error,
    },
    /// The connection ended, and nobody said how the command did.
    #[error("{command}: it ended without an exit code: {reason}")]
    NoExitCode {
        /// What ran and where.
        command: String,
        /// What the API server said instead.
        reason: String,
    },
}

impl TestNamespace {
    /// Runs a command in a pod's first container, without standard input.
    pub async fn exec(&self, pod: &str, argv: &[&str]) -> Result<Output, ExecError> {
        self.exec_with(pod, argv, Exec::default()).await
    }

    /// Runs a command in a pod.
    pub async fn exec_with(&self, pod: &str, argv: &[&str], how: Exec<'_>) -> Result<Output, ExecError> {
        let command = format!("{pod}$ {}", argv.join(" "));
        match tokio::time::timeout(how.deadline, run(self.api(), pod, argv, how, &command)).await {
            Ok(ended) => ended,
            Err(_) => Err(ExecError::Deadline { command, deadline: how.deadline }),
        }
    }

    /// What a container of a pod has logged (the only one, if none is named).
    pub async fn logs(&self, pod: &str, container: Option<&str>) -> Result<String, KitError> {
        self.logs_of(pod, container, false).await
    }

    /// What a container had logged before its last restart.
    pub async fn previous_logs(&self, pod: &str, container: Option<&str>) -> Result<String, KitError> {
        self.logs_of(pod, container, true).await
    }

    async fn logs_of(&self, pod: &str, container: Option<&str>, previous: bool) -> Result<String, KitError> {
        let params = LogParams { container: container.map(str::to_owned), previous, ..LogParams::default() };
        let pods: Api<Pod> = self.api();
        call(&format!("read the logs of {pod} in {}", self.name()), pods.logs(pod, &params)).await
    }
}

async fn run(
    pods: Api<Pod>,
    pod: &str,
    argv: &[&str],
    how: Exec<'_>,
    command: &str,
) -> Result<Output, ExecError> {
    let broke = |source| ExecError::Io { command: command.to_owned(), source };
    let params = AttachParams {
        container: how.container.map(str::to_owned),
        ..AttachParams::default().stdin(how.stdin.is_some()).stdout(true).stderr(true)
    };
    let mut process = call(command, pods.exec(pod, argv.iter().copied(), &params)).await?;
    let (stdin, stdout, stderr) = (process.stdin(), process.stdout(), process.stderr());
    let status = process.take_status();

    // All at once: whoever is not served would block the others on the one connection that they share. The status
    // decides, because kube's pipes do not end by themselves when the connection breaks, or when a command ends
    // without having read all that it was given.
    let reading = async { tokio::try_join!(read(stdout), read(stderr)).map_err(broke) };
    let ending = async {
        let status = match status {
            Some(status) => status.await,
            None => None,
        };
        exit_code(status.as_ref())
            .map_err(|reason| ExecError::NoExitCode { command: command.to_owned(), reason })
    };
    tokio::select! {
        error = write(stdin, how.stdin) => Err(broke(error)),
        ended = async { tokio::try_join!(reading, ending) } => {
            let ((stdout, stderr), code) = ended?;
            Ok(Output { command: command.to_owned(), stdout, stderr, code })
        }
    }
}

/// Writes all bytes and ends the input; comes back only if that fails.
async fn write(stdin: Option<impl AsyncWrite + Unpin>, bytes: Option<&[u8]>) -> std::io::Error {
    if let (Some(mut stdin), Some(bytes)) = (stdin, bytes) {
        let written = async {
            stdin.write_all(bytes).await?;
            // Dropping it is not enough: only a shutdown tells the other half that the input has ended.
            stdin.shutdown().await
        };
        if let Err(error) = written.await {
            return error;
        }
    }
    std::future::pending().await
}

async fn read(stream: Option<impl AsyncRead + Unpin>) -> std::io::Result<String> {
    let mut bytes = Vec::new();
    if let Some(mut stream) = stream {
        stream.read_to_end(&mut bytes).await?;
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// The exit code that the API server's last word about a command holds, or what it says instead.
fn exit_code(status: Option<&Status>) -> Result<i32, String> {
    let status = status.ok_or("the connection ended early")?;
    if status.status.as_deref() == Some("Success") {
        return Ok(0);
    }
    let causes = status.details.as_ref().and_then(|details| details.causes.as_deref()).unwrap_or_default();
    causes
        .iter()
        .find(|cause| cause.reason.as_deref() == Some("ExitCode"))
        .and_then(|cause| cause.message.as_deref()?.parse().ok())
        .ok_or_else(|| status.message.clone().unwrap_or_else(|| "no reason given".into()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_exit_code_is_found_in_the_last_word() {
        let success = json!({ "status": "Success" });
        let failure = json!({ "status": "Failure", "reason": "NonZeroExitCode", "message": "exit code 3",
            "details": { "causes": [{ "reason": "ExitCode", "message": "3" }] } });
        let not_started =
            json!({ "status": "Failure", "reason": "InternalError", "message": "no such file" });
        let table = [(success, Ok(0)), (failure, Ok(3)), (not_started, Err("no such file".to_owned()))];
        for (status, expected) in table {
            let status: Status = serde_json::from_value(status).unwrap();
            assert_eq!(exit_code(Some(&status)), expected);
        }
        assert!(exit_code(None).is_err());
    }
}
