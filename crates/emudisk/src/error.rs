//! What can go wrong.

use std::io;
use std::path::PathBuf;

/// Why an emulation can't start, or can't end.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The directory can't be used.
    #[error("cannot use {directory}: {why}", directory = directory.display())]
    Directory {
        /// The directory.
        directory: PathBuf,
        /// Expected and found.
        why: String,
    },
    /// The file system can't be mounted.
    #[error("cannot mount over {directory}: {source}", directory = directory.display())]
    Mount {
        /// Where.
        directory: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// The loop device can't be attached.
    #[error("cannot attach a loop device to {path}: {why}", path = path.display())]
    Attach {
        /// The emulated file.
        path: PathBuf,
        /// What losetup(8) or the system said.
        why: String,
    },
    /// The loop device is in use.
    #[error("the loop device is mounted on {}", list(mounts))]
    Busy {
        /// Where.
        mounts: Vec<PathBuf>,
    },
    /// The system refused.
    #[error("cannot {what} {path}: {source}", path = path.display())]
    Io {
        /// What was tried.
        what: &'static str,
        /// On which file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// The trail can't be written.
    #[error(transparent)]
    Trail(#[from] iotrail_trail::Error),
}

impl Error {
    /// What to do next.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Directory { .. } => Some("take an empty directory, or one that emudisk made".into()),
            Self::Mount { .. } => Some("it needs /dev/fuse, and root or fusermount3".into()),
            Self::Attach { .. } => {
                Some("--loop needs root and losetup; without it the file is served".into())
            }
            Self::Busy { .. } => Some("unmount it; or interrupt again to detach it all the same".into()),
            Self::Io { .. } => None,
            Self::Trail(error) => error.hint(),
        }
    }
}

fn list(paths: &[PathBuf]) -> String {
    paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ")
}
