//! What a command printed, wherever it ran: in a container, or kubectl on this machine.

use std::fmt;

/// A command that ended.
///
/// Text, not bytes: what is not UTF-8 is replaced, because tests compare and print it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Output {
    /// What ran and where, for people.
    pub command: String,
    /// What it wrote to its standard output.
    pub stdout: String,
    /// What it wrote to its standard error.
    pub stderr: String,
    /// Its exit code; 128 and the signal's number, as a shell has it, if a signal ended it.
    pub code: i32,
}

/// A command that was expected to succeed did not.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct NotSuccessful(Output);

impl Output {
    /// Its standard output without the white space around it, if it succeeded.
    pub fn success(self) -> Result<String, NotSuccessful> {
        if self.code == 0 { Ok(self.stdout.trim().to_owned()) } else { Err(NotSuccessful(self)) }
    }
}

impl fmt::Display for Output {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: exit code {}", self.command, self.code)?;
        for (name, text) in [("stdout", &self.stdout), ("stderr", &self.stderr)] {
            if !text.trim().is_empty() {
                write!(f, "\n{name}: {}", text.trim_end())?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ended(code: i32) -> Output {
        Output { command: "etcdctl get a".into(), stdout: "a\n1\n".into(), stderr: "oh\n".into(), code }
    }

    #[test]
    fn success_is_what_it_printed() {
        assert_eq!(ended(0).success().unwrap(), "a\n1");
    }

    #[test]
    fn failure_says_what_ran_and_all_that_it_printed() {
        let error = ended(3).success().unwrap_err().to_string();
        assert_eq!(error, "etcdctl get a: exit code 3\nstdout: a\n1\nstderr: oh");
    }
}
