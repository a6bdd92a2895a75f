//! A terminal with a person in front of it, for commands that behave differently there (`kubectl run -i --tty`).

use std::{io, process::Stdio, time::Duration};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    process::{Child, ChildStdin, ChildStdout, Command},
    time::timeout,
};

use super::{Output, kubectl::exit_code};

/// What can go wrong in front of a terminal.
#[derive(Debug, thiserror::Error)]
pub enum TerminalError {
    /// `script`, which makes the terminal, could not be started.
    #[error("cannot start `script` (of util-linux), which makes the terminal")]
    Start(#[source] io::Error),
    /// The terminal could not be read or written.
    #[error("{command}: cannot talk to the terminal")]
    Io {
        /// What ran in it.
        command: String,
        /// Why not.
        source: io::Error,
    },
    /// What was to appear did not.
    #[error("{command}: waited {deadline:?} for {wanted:?}; on the screen:\n{screen}")]
    Deadline {
        /// What ran in it.
        command: String,
        /// How long it was waited for.
        deadline: Duration,
        /// What was to appear.
        wanted: String,
        /// All that was on the screen.
        screen: String,
    },
    /// The command ended before what was to appear did.
    #[error("{command}: it ended before {wanted:?} appeared; on the screen:\n{screen}")]
    Ended {
        /// What ran in it.
        command: String,
        /// What was to appear.
        wanted: String,
        /// All that was on the screen.
        screen: String,
    },
}

/// A command that runs in a terminal. Dropping it closes the terminal, which ends the command.
pub struct Terminal {
    command: String,
    child: Child,
    keyboard: ChildStdin,
    output: ChildStdout,
    screen: Vec<u8>,
    /// How much of the screen has been looked at.
    looked: usize,
}

impl Terminal {
    /// Opens a terminal in which this command runs.
    pub fn open(argv: &[&str]) -> Result<Self, TerminalError> {
        let command = argv.join(" ");
        let quoted: Vec<_> = argv.iter().map(|arg| quote(arg)).collect();
        let mut child = Command::new("script")
            .args(["--quiet", "--return", "--command", &quoted.join(" "), "/dev/null"])
            .env_remove("KUBECONFIG")
            .env("SHELL", "/bin/sh")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .kill_on_drop(true)
            .spawn()
            .map_err(TerminalError::Start)?;
        let missing = || TerminalError::Start(io::Error::other("it was started without pipes"));
        let keyboard = child.stdin.take().ok_or_else(missing)?;
        let output = child.stdout.take().ok_or_else(missing)?;
        Ok(Self { command, child, keyboard, output, screen: Vec::new(), looked: 0 })
    }

    /// Types a line, and Enter.
    pub async fn type_line(&mut self, line: &str) -> Result<(), TerminalError> {
        let typed = async {
            self.keyboard.write_all(format!("{line}\n").as_bytes()).await?;
            self.keyboard.flush().await
        };
        typed.await.map_err(|source| TerminalError::Io { command: self.command.clone(), source })
    }

    /// Waits until a text appears behind all that was seen before, and returns what appeared up to its end.
    ///
    /// What was typed appears too, as on every terminal.
    pub async fn see(&mut self, wanted: &str, deadline: Duration) -> Result<String, TerminalError> {
        match timeout(deadline, self.look_for(wanted)).await {
            Ok(seen) => seen,
            Err(_) => Err(TerminalError::Deadline {
                command: self.command.clone(),
                deadline,
                wanted: wanted.to_owned(),
                screen: self.screen(),
            }),
        }
    }

    async fn look_for(&mut self, wanted: &str) -> Result<String, TerminalError> {
        loop {
            let new = self.screen.get(self.looked..).unwrap_or_default();
            if let Some(at) = find(new, wanted.as_bytes()) {
                let end = at + wanted.len();
                let seen = String::from_utf8_lossy(new.get(..end).unwrap_or_default()).into_owned();
                self.looked += end;
                return Ok(seen);
            }
            if self.read_more().await? == 0 {
                let (command, wanted) = (self.command.clone(), wanted.to_owned());
                return Err(TerminalError::Ended { command, wanted, screen: self.screen() });
            }
        }
    }

    /// Waits for the end of the command; its output is all that was on the screen.
    pub async fn end(mut self, deadline: Duration) -> Result<Output, TerminalError> {
        let ending = async {
            while self.read_more().await? > 0 {}
            let failed = |source| TerminalError::Io { command: self.command.clone(), source };
            self.child.wait().await.map_err(failed)
        };
        match timeout(deadline, ending).await {
            Ok(status) => Ok(Output {
                code: exit_code(status?),
                stdout: self.screen(),
                stderr: String::new(),
                command: self.command,
            }),
            Err(_) => Err(TerminalError::Deadline {
                deadline,
                wanted: "its end".into(),
                screen: self.screen(),
                command: self.command,
            }),
        }
    }

    fn screen(&self) -> String {
        String::from_utf8_lossy(&self.screen).into_owned()
    }

    async fn read_more(&mut self) -> Result<usize, TerminalError> {
        let read = self.output.read_buf(&mut self.screen).await;
        read.map_err(|source| TerminalError::Io { command: self.command.clone(), source })
    }
}

fn find(hay: &[u8], needle: &[u8]) -> Option<usize> {
    hay.windows(needle.len().max(1)).position(|window| window == needle)
}

/// For a shell: `script` takes its command as one string.
fn quote(arg: &str) -> String {
    format!("'{}'", arg.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOON: Duration = Duration::from_secs(20);

    #[tokio::test]
    async fn a_shell_believes_that_a_person_types() {
        let mut terminal = Terminal::open(&["/bin/sh", "-i"]).unwrap();
        terminal.type_line("test -t 0 && test -t 1 && echo tty-$((40 + 2))").await.unwrap();
        let seen = terminal.see("tty-42", SOON).await.unwrap();
        assert!(seen.contains("$((40 + 2))"), "what is typed is not shown: {seen}");
        terminal.type_line("exit 3").await.unwrap();
        assert_eq!(terminal.end(SOON).await.unwrap().code, 3);
    }

    #[tokio::test]
    async fn arguments_arrive_as_they_are() {
        let terminal = Terminal::open(&["/bin/echo", "a  b", "it's", "$HOME"]).unwrap();
        let output = terminal.end(SOON).await.unwrap();
        assert_eq!(output.success().unwrap(), "a  b it's $HOME");
    }

    #[tokio::test]
    async fn what_never_appears_is_an_error_with_the_screen() {
        let mut terminal = Terminal::open(&["/bin/sh", "-c", "echo here; sleep 20"]).unwrap();
        let error = terminal.see("there", Duration::from_secs(1)).await.unwrap_err().to_string();
        assert!(error.contains("\"there\"") && error.contains("here"), "{error}");
    }

    #[tokio::test]
    async fn a_command_that_ends_early_is_told_apart_from_one_that_is_silent() {
        let mut terminal = Terminal::open(&["/bin/echo", "here"]).unwrap();
        let error = terminal.see("there", SOON).await.unwrap_err();
        assert!(matches!(error, TerminalError::Ended { .. }), "{error}");
    }
}
