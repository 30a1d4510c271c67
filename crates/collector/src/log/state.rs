//! How far the log is sealed: a small file beside its segments, replaced as a whole.
//!
//! Before a seal publishes, it notes which snapshot will list which file. After a crash that file tells whether the
//! publish happened, so that rows go into the trail exactly once.

use std::fs::{self, File};
use std::io::{ErrorKind, Write as _};
use std::path::Path;

use iotrail_format::ids::hash63;
use iotrail_trail::private::writing;
use serde::{Deserialize, Serialize};

use crate::error::{Error, IoContext as _};

const NAME: &str = "sealed.json";

/// The state.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct State {
    /// The last segment whose rows are in the trail, or wait in a later segment.
    pub sealed: u64,
    /// A seal that may have been published.
    pub intent: Option<Intent>,
}

/// A seal that is about to be published.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Intent {
    /// The last segment it is of.
    pub through: u64,
    /// The snapshot it is listed by, or a later one.
    pub snapshot: u64,
    /// Its first file: path in the trail.
    pub file: String,
}

impl State {
    /// Reads the state of a log, and settles what a crash left open by looking into the trail.
    ///
    /// # Errors
    /// [`Error::Io`], and those of reading the trail.
    pub fn settle(folder: &Path, trail: &Path) -> Result<Self, Error> {
        let path = folder.join(NAME);
        let mut state: Self = match fs::read(&path) {
            Ok(text) => serde_json::from_slice(&text).map_err(std::io::Error::other).at("read", &path)?,
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(Self::default()),
            Err(e) => return Err(e).at("read", &path),
        };
        if let Some(intent) = state.intent.take() {
            // What is there to be seen may not be durable yet, and what is sealed leaves the log.
            iotrail_trail::sync_snapshots(trail)?;
            if intent.is_published(trail)? {
                state.sealed = intent.through;
            }
            state.write(folder)?;
        }
        Ok(state)
    }

    /// Replaces the state, durably.
    ///
    /// # Errors
    /// [`Error::Io`]; the old state then holds.
    pub fn write(&self, folder: &Path) -> Result<(), Error> {
        let (path, temporary) = (folder.join(NAME), folder.join(".sealed.json"));
        let text = serde_json::to_vec(self).expect("a state is plain data");
        writing()
            .create(true)
            .truncate(true)
            .open(&temporary)
            .and_then(|mut file| file.write_all(&text).and_then(|()| file.sync_all()))
            .at("write", &temporary)?;
        fs::rename(&temporary, &path).at("replace", &path)?;
        File::open(folder).and_then(|folder| folder.sync_all()).at("make durable", folder)
    }
}

impl Intent {
    /// Whether the trail has it.
    ///
    /// # Errors
    /// Those of reading the trail.
    pub fn is_published(&self, trail: &Path) -> Result<bool, Error> {
        Ok(iotrail_trail::is_listed(trail, self.snapshot, hash63(self.file.as_bytes()))?)
    }
}
