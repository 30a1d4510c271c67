//! Locks of windows of MPI that a trail has (MPI 4.0, section 12.5.3).

use std::collections::{BTreeMap, HashMap};

use iotrail_causal::file_locks::Asked;
use iotrail_format::call::Call;
use iotrail_trail::SyncOp;

use super::locks::{LockId, Use, Used, held};

/// Locks of windows of MPI, by window and rank.
#[derive(Default)]
pub(super) struct OnWindows {
    uses: BTreeMap<(i64, i64), Vec<Use>>,
    /// Threads and ends of further calls of those that have a lock, which wait for it in some implementations.
    later: HashMap<(i64, i64), Vec<(usize, i64)>>,
}

impl OnWindows {
    /// Takes a row of MPI; times are the plan's.
    pub(super) fn add(&mut self, row: &SyncOp<'_>, thread: usize, at: (i64, i64)) {
        let (Some(window), Some(rank), 0) = (row.object, row.peer, row.errno) else { return };
        let unlocks = row.call == Call::MpiWinUnlock.name();
        if unlocks || row.call == Call::MpiWinFlush.name() {
            self.later.entry((window, rank)).or_default().push((thread, at.1));
        }
        if (unlocks || row.call == Call::MpiWinLock.name())
            && let Some(Asked { act, .. }) = Asked::of(None, None, row.flags)
        {
            let at = if unlocks { at.0 } else { at.1 };
            self.uses.entry((window, rank)).or_default().push(Use { thread, at, act });
        }
    }

    /// What threads did with each.
    pub(super) fn locks(&mut self) -> Vec<Used> {
        let used = |((window, rank), uses)| (LockId::Window { window, rank }, held(uses));
        std::mem::take(&mut self.uses).into_iter().map(used).collect()
    }

    /// Threads and ends of calls that may have waited for this lock, besides those that lock.
    pub(super) fn later(&self, lock: &LockId) -> &[(usize, i64)] {
        let LockId::Window { window, rank } = lock else { return &[] };
        self.later.get(&(*window, *rank)).map_or(&[], Vec::as_slice)
    }
}
