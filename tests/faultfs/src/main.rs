//! `faultfs MOUNT`: a file system in memory whose calls fail when they are asked to, and that loses what was not synced.
//!
//! It is controlled by lines on its input, each answered by one line on its output; it says `mounted` when it is, and
//! ends with its input.
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

use std::io::{BufRead as _, Write as _};
use std::sync::{Arc, Mutex, PoisonError};

use fuser::{Config, MountOption};

use crate::state::State;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mount = std::env::args_os().nth(1).ok_or("usage: faultfs MOUNT")?;
    let state = Arc::new(Mutex::new(State::new()));
    let mut config = Config::default();
    config.mount_options = vec![MountOption::FSName("faultfs".to_owned())];
    let session = fuser::spawn_mount(fs::Fuse { state: Arc::clone(&state) }, mount, &config)?;
    let mut out = std::io::stdout();
    writeln!(out, "mounted")?;
    for line in std::io::stdin().lock().lines() {
        let answer = state.lock().unwrap_or_else(PoisonError::into_inner).obey(&line?);
        writeln!(out, "{}", answer.unwrap_or_else(|| "not understood".to_owned()))?;
    }
    Ok(session.umount_and_join()?)
}
