//! A file system in memory whose calls fail when they are asked to, and that loses what was not synced.
//!
//! | line | does |
//! |---|---|
//! | `fail KINDS N ERROR HOW` | the Nth call (from 1) from now on of one of KINDS (`write,fsync,…`) fails with EIO or ENOSPC: `once`; with all of KINDS after it until `clear` (`on`); with all calls of any kind, which change nothing any more (`dead`) |
//! | `clear` | ends faults, and counts from 0 |
//! | `count` | `write=12 fsync=3 …`: calls since the last `fail` or `clear` |
//! | `failed` | the first call that failed, or `none` |
//! | `sync` | makes everything durable |
//! | `cut SEED` | power cut: with seed 0 nothing that was not synced survives; else some of it, see [`state`] |

mod fs;
mod state;

use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use fuser::{BackgroundSession, Config, MountOption};

use crate::state::State;

/// The file system while it is mounted.
pub struct Mounted {
    state: Arc<Mutex<State>>,
    session: BackgroundSession,
}

impl Mounted {
    /// Mounts it at a folder.
    ///
    /// # Errors
    /// Where FUSE can't be mounted: without /dev/fuse, or permission.
    pub fn at(folder: &Path) -> io::Result<Self> {
        let state = Arc::new(Mutex::new(State::new()));
        let mut config = Config::default();
        config.mount_options = vec![MountOption::FSName("faultfs".to_owned())];
        let session = fuser::spawn_mount(fs::Fuse { state: Arc::clone(&state) }, folder, &config)?;
        Ok(Self { state, session })
    }

    /// The answer to a line; none if it isn't understood.
    pub fn ask(&self, line: &str) -> Option<String> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).obey(line)
    }

    /// Unmounts it.
    ///
    /// # Errors
    /// The system's.
    pub fn end(self) -> io::Result<()> {
        self.session.umount_and_join()
    }
}
