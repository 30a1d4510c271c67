//! What a person reads when a verb fails: what, where, and what to do next.

use std::{fmt, io, process};

use iotrail_trail::visible;

/// An error for people. `Display` is the whole text, with the line breaks.
#[derive(Debug)]
pub struct Failure {
    message: String,
    hint: Option<String>,
}

impl Failure {
    /// A message: what failed, where, what was expected and found.
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), hint: None }
    }

    /// Standard output can't be written. A reader that has seen enough (`| head`) is no failure: the
    /// process then ends without a word, as SIGPIPE would have ended it.
    pub fn stdout(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe {
            process::exit(128 + libc::SIGPIPE);
        }
        Self::new(format!("cannot write to stdout: {error}"))
    }

    /// Adds what to do next.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "iotrail: error: {}", visible(&self.message))?;
        self.hint.iter().try_for_each(|hint| writeln!(f, "  hint: {}", visible(hint)))
    }
}

impl From<iotrail_trail::seal::Unsealed> for Failure {
    fn from(unsealed: iotrail_trail::seal::Unsealed) -> Self {
        unsealed.error.into()
    }
}

impl From<iotrail_trail::Error> for Failure {
    fn from(error: iotrail_trail::Error) -> Self {
        Self { hint: error.hint(), message: error.to_string() }
    }
}
