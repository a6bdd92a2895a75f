//! kubectl itself, always with the kubeconfig named: what users type has to work as they type it.

use std::{
    io,
    os::unix::process::ExitStatusExt,
    path::PathBuf,
    process::{ExitStatus, Stdio},
    time::Duration,
};

use tokio::{io::AsyncWriteExt, process::Command};

use super::{
    Cluster, Output, TestNamespace,
    pty::{Terminal, TerminalError},
};

/// How long a kubectl may take that is not told otherwise.
const DEADLINE: Duration = Duration::from_mins(5);

/// Why kubectl did not run to its end.
#[derive(Debug, thiserror::Error)]
pub enum KubectlError {
    /// It could not be started.
    #[error("cannot start {}", kubectl.display())]
    Start {
        /// Which file.
        kubectl: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// Its input could not be written or its output not be read.
    #[error("{command}: cannot talk to it")]
    Io {
        /// What ran.
        command: String,
        /// Why not.
        source: io::Error,
    },
    /// It was still running at the deadline, and was killed.
    #[error("{command}: not done within {deadline:?}")]
    Deadline {
        /// What ran.
        command: String,
        /// How long it was waited for.
        deadline: Duration,
    },
}

impl Cluster {
    /// Runs kubectl without standard input.
    pub async fn kubectl(&self, args: &[&str]) -> Result<Output, KubectlError> {
        self.kubectl_with(args, b"", DEADLINE).await
    }

    /// Runs kubectl with these bytes as its standard input, and kills it at the deadline.
    pub async fn kubectl_with(
        &self,
        args: &[&str],
        stdin: &[u8],
        deadline: Duration,
    ) -> Result<Output, KubectlError> {
        let command = format!("kubectl {}", args.join(" "));
        match tokio::time::timeout(deadline, self.run_kubectl(args, None, stdin, &command)).await {
            Ok(ended) => ended,
            Err(_) => Err(KubectlError::Deadline { command, deadline }),
        }
    }

    /// Runs `kubectl edit` with this command in the place of a person's editor.
    async fn kubectl_edit(&self, args: &[&str], editor: &str) -> Result<Output, KubectlError> {
        let command = format!("KUBE_EDITOR='{editor}' kubectl {}", args.join(" "));
        match tokio::time::timeout(DEADLINE, self.run_kubectl(args, Some(editor), b"", &command)).await {
            Ok(ended) => ended,
            Err(_) => Err(KubectlError::Deadline { command, deadline: DEADLINE }),
        }
    }

    /// Opens a terminal in which kubectl runs.
    pub fn kubectl_tty(&self, args: &[&str]) -> Result<Terminal, TerminalError> {
        let program = self.places().kubectl.to_string_lossy().into_owned();
        let kubeconfig = self.kubeconfig_flag();
        let command: Vec<_> =
            [program.as_str(), &kubeconfig].into_iter().chain(args.iter().copied()).collect();
        Terminal::open(&command)
    }

    fn kubeconfig_flag(&self) -> String {
        format!("--kubeconfig={}", self.places().kubeconfig.display())
    }

    async fn run_kubectl(
        &self,
        args: &[&str],
        editor: Option<&str>,
        stdin: &[u8],
        command: &str,
    ) -> Result<Output, KubectlError> {
        let kubectl = self.places().kubectl.clone();
        let broke = |source| KubectlError::Io { command: command.to_owned(), source };
        let mut child = Command::new(&kubectl)
            .env_remove("KUBECONFIG")
            .envs(editor.map(|editor| ("KUBE_EDITOR", editor)))
            .arg(self.kubeconfig_flag())
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .map_err(|source| KubectlError::Start { kubectl, source })?;
        let input = child.stdin.take();
        let feeding = async {
            match input {
                Some(mut input) => input.write_all(stdin).await,
                None => Ok(()),
            }
        };
        let (fed, ended) = tokio::join!(feeding, child.wait_with_output());
        let ended = ended.map_err(broke)?;
        // kubectl may end without having read all that it was given.
        if let Err(error) = fed
            && error.kind() != io::ErrorKind::BrokenPipe
        {
            return Err(broke(error));
        }
        Ok(Output {
            command: command.to_owned(),
            stdout: String::from_utf8_lossy(&ended.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&ended.stderr).into_owned(),
            code: exit_code(ended.status),
        })
    }
}

impl TestNamespace {
    /// Runs kubectl in this namespace, without standard input.
    pub async fn kubectl(&self, args: &[&str]) -> Result<Output, KubectlError> {
        let namespace = self.namespace_flag();
        self.cluster().kubectl(&with_first(&namespace, args)).await
    }

    /// Runs kubectl in this namespace with these bytes as its standard input, and kills it at the deadline.
    pub async fn kubectl_with(
        &self,
        args: &[&str],
        stdin: &[u8],
        deadline: Duration,
    ) -> Result<Output, KubectlError> {
        let namespace = self.namespace_flag();
        self.cluster().kubectl_with(&with_first(&namespace, args), stdin, deadline).await
    }

    /// Edits an object of this namespace, with this command in the place of a person's editor: the file's name follows it.
    pub async fn kubectl_edit(&self, object: &str, editor: &str) -> Result<Output, KubectlError> {
        self.cluster().kubectl_edit(&[&self.namespace_flag(), "edit", object], editor).await
    }

    /// Opens a terminal in which kubectl runs in this namespace.
    pub fn kubectl_tty(&self, args: &[&str]) -> Result<Terminal, TerminalError> {
        let namespace = self.namespace_flag();
        self.cluster().kubectl_tty(&with_first(&namespace, args))
    }

    fn namespace_flag(&self) -> String {
        format!("--namespace={}", self.name())
    }
}

fn with_first<'a>(first: &'a str, args: &[&'a str]) -> Vec<&'a str> {
    [first].into_iter().chain(args.iter().copied()).collect()
}

/// As a shell has it: 128 and the signal's number, if a signal ended it.
pub(super) fn exit_code(status: ExitStatus) -> i32 {
    status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0))
}
