//! Operations at their time: replays the I/O of a trail on other storage.
//!
//! [`plan()`] makes what is to be done from a trail, [`Place`] is where: a directory under which all recorded
//! paths lie, or a file or device for each recorded one. [`prepare`] makes what has to be there before, [`run`] does the
//! operations and posts each as a record of its own, in the recording session of the process.
//!
//! Nothing outside the place is touched: recorded paths are rewritten, `..` and symbolic links of the trail
//! never followed out of it (a plan's paths are absolute and plain, and links are not replayed).

mod bench;
mod causal;
mod causality;
mod handlers;
mod lock;
mod lookups;
mod meeting;
mod names;
mod order;
mod parts;
mod plan;
mod prepare;
mod run;
mod sections;
mod spread;
mod stream;
mod target;
mod uring;

use std::path::PathBuf;

pub use bench::{Bench, requests};
pub use causality::{Causality, LockId};
pub use handlers::{Handlers, Read};
pub use lookups::on_names;
pub use meeting::{Meeting, Patience};
pub use order::Wait;
pub use parts::{Links, Parts};
pub use plan::{
    Device, Handle, NONE, Need, Op, Origin, Plan, Reach, Thread, Workload, plan, plan_with_causality,
};
pub use prepare::{MARKER, has_mark, mark, prepare};
pub use run::{Engine, Mode, Options, Outcome, run, stop};
pub use spread::Times;
pub use stream::{Direction, Lateness, Load, Loop, Refusal, Summary, repeat, stream};
pub use target::{Allowed, Mapping, Place, Stretch, Target, check_writable, check_zeros};

/// What can go wrong before a replay begins.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The trail can't be read.
    #[error(transparent)]
    Trail(#[from] iotrail_trail::Error),
    /// There is nothing to replay.
    #[error("{path} holds no call on a file that can be replayed", path = path.display())]
    Empty {
        /// The trail.
        path: PathBuf,
    },
    /// It doesn't say who waited for whom.
    #[error("{path} doesn't say who waited for whom", path = path.display())]
    NoCausality {
        /// The trail.
        path: PathBuf,
    },
    /// Its threads would wait for ever.
    #[error("{path}: {problem}", path = path.display())]
    Standstill {
        /// The trail.
        path: PathBuf,
        /// Who waits for whom.
        problem: iotrail_causal::Problem,
    },
    /// The place can't or must not be used.
    #[error("{message}")]
    Place {
        /// What is wrong with it.
        message: String,
        /// What to do.
        hint: Option<String>,
    },
    /// Somebody interrupted the preparation.
    #[error("interrupted while the files to replay on were made: nothing was replayed")]
    Interrupted,
    /// The system refused.
    #[error("cannot {what} {path}: {source}", path = path.display())]
    Io {
        /// What was tried.
        what: &'static str,
        /// On which file.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
}

impl Error {
    pub(crate) fn place(message: impl Into<String>, hint: impl Into<Option<&'static str>>) -> Self {
        Self::Place { message: message.into(), hint: hint.into().map(str::to_owned) }
    }

    pub(crate) fn io(what: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io { what, path, source }
    }

    /// What to do next.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Trail(error) => error.hint(),
            Self::Empty { .. } => Some("iotrail report shows what it holds".into()),
            Self::NoCausality { .. } => {
                Some("iotrail record --causal records it; --mode think replays think times".into())
            }
            Self::Standstill { .. } => Some(
                "clocks of its machines may be apart, or calls missing: --mode compute leaves waits out"
                    .into(),
            ),
            Self::Place { hint, .. } => hint.clone(),
            Self::Io { .. } | Self::Interrupted => None,
        }
    }
}
