//! What keeps a collector from starting, and why a message is refused.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use tonic::{Code, Status};

/// An error of the collector itself. `Display` says what failed, where, what was expected and found.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Options that don't go together.
    #[error("{what}")]
    Options {
        /// What is wrong.
        what: String,
        /// What to do.
        hint: String,
    },
    /// An address can't be had.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The system's answer.
        source: std::io::Error,
    },
    /// Another collector uses the log.
    #[error("{path} is in use by another collector", path = path.display())]
    InUse {
        /// The log's folder.
        path: PathBuf,
    },
    /// The log is of a later version.
    #[error("{path} is a log of version {found}; this iotrail reads version {expected}", path = path.display())]
    LogVersion {
        /// The segment.
        path: PathBuf,
        /// Its version.
        found: u32,
        /// The one known.
        expected: u32,
    },
    /// The system refused.
    #[error("cannot {action} {path}: {source}", path = path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// The system's answer.
        source: std::io::Error,
    },
    /// The trail can't be read or written.
    #[error(transparent)]
    Trail(#[from] iotrail_trail::Error),
}

impl Error {
    /// What a person can do about it; none where the message says it all.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Options { hint, .. } => Some(hint.clone()),
            Self::Listen { source, .. } if source.kind() == std::io::ErrorKind::AddrInUse => {
                Some("another collector may run there; choose another address with --listen".into())
            }
            Self::InUse { .. } => Some("end that one first, or choose another folder with --log".into()),
            Self::LogVersion { .. } => Some("update iotrail".into()),
            Self::Trail(error) => error.hint(),
            _ => None,
        }
    }

    /// The log's thread is gone.
    pub(crate) fn ending(folder: &Path) -> Self {
        let source = std::io::Error::other("the collector is ending");
        Self::Io { action: "write", path: folder.to_owned(), source }
    }
}

/// Whether the system has no space left.
pub(crate) fn is_full(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
    matches!(error.kind(), StorageFull | QuotaExceeded | FileTooLarge)
}

/// Adds what was tried, and on what, to the system's errors.
pub(crate) trait IoContext<T> {
    fn at(self, action: &'static str, path: &Path) -> Result<T, Error>;
}

impl<T> IoContext<T> for std::io::Result<T> {
    fn at(self, action: &'static str, path: &Path) -> Result<T, Error> {
        self.map_err(|source| Error::Io { action, path: path.to_owned(), source })
    }
}

/// Why a message is refused; nothing of it is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// It is not what it should be, and never will be.
    Malformed(String),
    /// Its sender speaks another version.
    Version(String),
    /// It is too large.
    TooLarge(String),
    /// There is no space for it now.
    NoSpace(String),
    /// The collector is ending.
    Ending,
}

impl Refusal {
    /// Label of the reason, for metrics.
    #[must_use]
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Malformed(_) => "malformed",
            Self::Version(_) => "version",
            Self::TooLarge(_) => "too_large",
            Self::NoSpace(_) => "no_space",
            Self::Ending => "ending",
        }
    }

    /// What the sender is told.
    #[must_use]
    pub fn message(&self) -> &str {
        match self {
            Self::Malformed(text) | Self::Version(text) | Self::TooLarge(text) | Self::NoSpace(text) => text,
            Self::Ending => "the collector is ending; connect again later",
        }
    }

    /// As HTTP says it.
    #[must_use]
    pub fn http(&self) -> u16 {
        match self {
            Self::Malformed(_) | Self::Version(_) => 400,
            Self::TooLarge(_) => 413,
            Self::NoSpace(_) | Self::Ending => 503,
        }
    }
}

impl From<Refusal> for Status {
    fn from(refusal: Refusal) -> Self {
        let code = match refusal {
            Refusal::Malformed(_) => Code::InvalidArgument,
            Refusal::Version(_) => Code::FailedPrecondition,
            Refusal::TooLarge(_) => Code::OutOfRange,
            Refusal::NoSpace(_) => Code::ResourceExhausted,
            Refusal::Ending => Code::Unavailable,
        };
        Self::new(code, refusal.message())
    }
}
