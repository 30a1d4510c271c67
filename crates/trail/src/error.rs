//! What can go wrong with a trail, said so that a person can act on it.

use std::path::{Path, PathBuf};

use iotrail_format::TRAIL_VERSION;

/// An error of this library. `Display` says what failed, where, what was expected and found;
/// [`Error::hint`] says what to do next.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The path doesn't exist.
    #[error("no trail at {path}: there is no such file or directory", path = path.display())]
    NotFound {
        /// What was to be opened.
        path: PathBuf,
    },
    /// The path is something else.
    #[error("{path} is not a trail: {why}", path = path.display())]
    NotATrail {
        /// What was to be opened.
        path: PathBuf,
        /// What a trail would have.
        why: String,
    },
    /// A later iotrail wrote it.
    #[error("{path} is of trail format {found}; this iotrail reads up to {TRAIL_VERSION}", path = path.display())]
    NewerVersion {
        /// The trail or one of its files.
        path: PathBuf,
        /// Its version.
        found: u64,
    },
    /// The output is there already.
    #[error("{path} exists already", path = path.display())]
    Exists {
        /// The output.
        path: PathBuf,
        /// Whether it is a trail, so that `--force` would replace it.
        trail: bool,
    },
    /// No snapshot can be read.
    #[error("{path}: {why}", path = path.display())]
    BadSnapshot {
        /// The snapshot's file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// A data file that the snapshot lists is not there.
    #[error("{path}: the data file is missing, though the snapshot lists it with {rows} rows", path = path.display())]
    MissingFile {
        /// The data file.
        path: PathBuf,
        /// Rows it should have.
        rows: u64,
    },
    /// A data file can't be read.
    #[error("{path}: {why}", path = path.display())]
    BadFile {
        /// The data file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// Rows don't fit the table.
    #[error("table {table}: {why}")]
    BadRows {
        /// The table.
        table: &'static str,
        /// Which column or row, what was expected and found.
        why: String,
    },
    /// Somebody else changed the trail in a way that can't be joined with this change.
    #[error("{path}: another process changed the trail at the same time ({why})", path = path.display())]
    Conflict {
        /// The trail.
        path: PathBuf,
        /// What collided.
        why: String,
    },
    /// A recorder still writes the trail.
    #[error("{path} is still being recorded, by process {pid}", path = path.display())]
    Recording {
        /// The trail.
        path: PathBuf,
        /// The recorder.
        pid: u32,
    },
    /// Trails that can't become one.
    #[error("cannot merge {path}: {why}", path = path.display())]
    Merge {
        /// The trail that doesn't fit.
        path: PathBuf,
        /// Why.
        why: String,
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
    /// Arrow refused, which correct use doesn't see.
    #[error("{action}: {source}")]
    Arrow {
        /// What was tried.
        action: &'static str,
        /// Arrow's answer.
        source: arrow_schema::ArrowError,
    },
}

impl Error {
    /// What a person can do about it; none where the message says it all.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        use std::io::ErrorKind;
        match self {
            Self::NotATrail { .. } => {
                Some("a trail is a directory made by iotrail record, import or ingest".into())
            }
            Self::NewerVersion { .. } => Some("update iotrail to read it".into()),
            Self::Exists { trail: true, .. } => {
                Some("choose another name, or replace it with --force".into())
            }
            Self::Exists { trail: false, .. } => {
                Some("it is not a trail, so --force would not replace it either; choose another name".into())
            }
            Self::BadSnapshot { path, .. } | Self::MissingFile { path, .. } | Self::BadFile { path, .. } => {
                let trail = trail_of(path)?;
                Some(format!("iotrail trail check --repair {} keeps what can still be read", trail.display()))
            }
            Self::Recording { pid, .. } => {
                Some(format!("wait until the recorded program ends, or end it (kill -INT {pid})"))
            }
            Self::Conflict { .. } => Some("run it again".into()),
            Self::Io { source, path, .. } => match source.kind() {
                ErrorKind::PermissionDenied => Some("check who owns it and its permissions".into()),
                ErrorKind::StorageFull | ErrorKind::QuotaExceeded => Some(format!(
                    "free some space on the file system of {}, or write elsewhere; what was published before is intact",
                    path.display()
                )),
                _ => None,
            },
            _ => None,
        }
    }
}

/// The trail a file in it belongs to.
fn trail_of(path: &Path) -> Option<&Path> {
    path.ancestors().find(|dir| dir.join("snapshots").is_dir())
}

impl Error {
    /// Whether the storage failed, which says nothing about what is on it: it may be read the next time.
    #[must_use]
    pub fn is_of_storage(&self) -> bool {
        matches!(self, Self::Io { source, .. } if source.raw_os_error() == Some(libc::EIO))
    }
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

/// Adds what was tried to Arrow's errors.
pub(crate) trait ArrowContext<T> {
    fn when(self, action: &'static str) -> Result<T, Error>;
}

impl<T> ArrowContext<T> for Result<T, arrow_schema::ArrowError> {
    fn when(self, action: &'static str) -> Result<T, Error> {
        self.map_err(|source| Error::Arrow { action, source })
    }
}
