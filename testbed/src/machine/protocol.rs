//! What is said between the testbed and PID 1 of a machine: one line of JSON each way per connection.

use std::{
    collections::BTreeMap,
    io::{self, BufRead, BufReader, Write},
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    time::Duration,
};

use serde::{Deserialize, Serialize};

/// A program that runs in a machine until it is stopped.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Program {
    /// What it is called in the machine; its log has the same name.
    pub name: String,
    /// The file to execute and its arguments.
    pub argv: Vec<String>,
    /// What its environment holds, beside PATH and HOME.
    pub env: BTreeMap<String, String>,
    /// Whether it is started again when it ends by itself, as a node's service manager does: a kubelet, for one, ends
    /// when containerd is not there yet.
    pub keep: bool,
}

impl Program {
    /// A program by its file and arguments.
    pub fn new<A: Into<String>>(name: &str, file: &Path, arguments: impl IntoIterator<Item = A>) -> Self {
        let mut argv = vec![file.display().to_string()];
        argv.extend(arguments.into_iter().map(Into::into));
        Self { name: name.to_owned(), argv, env: BTreeMap::new(), keep: false }
    }

    /// Adds to its environment.
    #[must_use]
    pub fn env(mut self, name: &str, value: impl Into<String>) -> Self {
        self.env.insert(name.to_owned(), value.into());
        self
    }

    /// Starts it again whenever it ends by itself.
    #[must_use]
    pub fn kept(mut self) -> Self {
        self.keep = true;
        self
    }
}

/// What PID 1 of a machine is asked.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Request {
    /// Start a program, unless one of its name runs already.
    Start(Program),
    /// Send a signal to a program and wait until it is gone.
    Stop { name: String, signal: i32, patience: Duration },
    /// Say what runs.
    List,
}

/// What it answers.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Response {
    Done,
    Programs(Vec<ProgramStatus>),
    Refused(String),
}

/// A program and whether it runs.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ProgramStatus {
    /// The program's name.
    pub name: String,
    /// Its pid: inside, as PID 1 of the machine counts it; outside, as `Machine::programs` says.
    pub pid: i32,
    /// How it ended, if it did.
    pub ended: Option<String>,
    /// How often it was started again.
    pub restarts: u32,
    /// Where it logs.
    pub log: PathBuf,
}

/// How long PID 1 may take to answer.
const ANSWER: Duration = Duration::from_secs(10);

pub(super) fn ask(socket: &Path, request: &Request) -> io::Result<Response> {
    let mut stream = UnixStream::connect(socket)?;
    // A PID 1 that is stopped or stuck must not hang whoever asks it.
    let patience = match request {
        Request::Stop { patience, .. } => *patience + ANSWER,
        Request::Start(_) | Request::List => ANSWER,
    };
    stream.set_read_timeout(Some(patience))?;
    stream.set_write_timeout(Some(ANSWER))?;
    write_line(&mut stream, request)?;
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line)?;
    Ok(serde_json::from_str(&line)?)
}

pub(super) fn write_line(stream: &mut UnixStream, message: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    stream.write_all(&line)
}
