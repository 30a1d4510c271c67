//! Locks of MPI's windows (MPI 4.0, section 12.5.3): which calls waited for one.
//!
//! From MPI_Win_lock to MPI_Win_unlock a process has the window of one rank, alone or shared. Who gets it first is chance, so that such waits
//! have no edges. Some implementations wait in MPI_Win_lock (MPICH, Open MPI's osc/rdma, osc/sm and osc/ucx); others only ask there, and wait
//! in the first MPI_Win_flush or MPI_Win_unlock (Open MPI's osc/pt2pt): then two processes have returned from it that can't both have the lock.
//!
//! What waits else is for data, or for a target that isn't in MPI at the time: nothing says for which.

use std::collections::{BTreeMap, HashMap, HashSet};

use iotrail_format::call::Call;

use crate::calls::{Row, is_long};
use crate::file_locks::{Act as OnLock, Asked};
use crate::matching::{Act, What};

/// From a lock to its unlock.
struct Hold {
    window: i64,
    shares: bool,
    /// MPI_Win_lock, what flushes, MPI_Win_unlock.
    calls: Vec<Row>,
}

impl Hold {
    /// When the lock was asked for.
    fn asked(&self) -> i64 {
        self.calls[0].start
    }

    /// When MPI_Win_lock returned.
    fn returned(&self) -> i64 {
        end(&self.calls[0])
    }

    /// When it began to be given back.
    fn given_back(&self) -> i64 {
        self.calls[self.calls.len() - 1].start
    }

    /// The last moment at which it was given back.
    fn free(&self) -> i64 {
        end(&self.calls[self.calls.len() - 1])
    }
}

fn end(row: &Row) -> i64 {
    row.end.unwrap_or(i64::MAX)
}

/// Calls on all windows.
#[derive(Default)]
pub(crate) struct Windows {
    /// By window and rank, with their processes.
    of: BTreeMap<(i64, i64), Vec<(i64, Row)>>,
    /// What is on all ranks of a window.
    others: Vec<Row>,
}

impl Windows {
    /// A call of a process.
    pub(crate) fn add(&mut self, process: i64, window: i64, row: &Row) {
        match row.peer {
            Some(target) => self.of.entry((window, target)).or_default().push((process, *row)),
            None => self.others.push(*row),
        }
    }

    /// What waited, and for what.
    pub(crate) fn acts(self) -> Vec<Act> {
        let mut rows = self.others;
        let mut locks: Vec<Vec<Hold>> = Vec::new();
        for ((window, _), calls) in self.of {
            rows.extend(calls.iter().map(|(_, row)| *row));
            locks.push(holds(window, calls));
        }
        let late: HashSet<i64> =
            locks.iter_mut().filter_map(|holds| is_late(holds).then(|| holds[0].window)).collect();
        let mut for_locks = HashSet::new();
        for holds in &mut locks {
            let is_late = holds.first().is_some_and(|hold| late.contains(&hold.window));
            for_locks.extend(contended(holds, is_late));
        }
        let waits = rows.iter().filter(|row| is_long(row));
        waits
            .map(|row| {
                let kind = if for_locks.contains(&(row.thread, row.start)) { "lock" } else { "mpi" };
                Act { thread: row.thread, start: row.start, end: row.end, what: What::Wait { kind } }
            })
            .collect()
    }
}

/// Those that were given back.
fn holds(window: i64, mut calls: Vec<(i64, Row)>) -> Vec<Hold> {
    calls.sort_by_key(|(_, row)| row.start);
    let mut open: HashMap<i64, Hold> = HashMap::new();
    let mut found = Vec::new();
    for (process, row) in calls {
        if row.call == Call::MpiWinLock {
            let shares = Asked::of(None, None, row.flags).is_some_and(|asked| asked.act == OnLock::Share);
            open.insert(process, Hold { window, shares, calls: vec![row] });
        } else if let Some(hold) = open.get_mut(&process) {
            hold.calls.push(row);
            if row.call == Call::MpiWinUnlock {
                found.extend(open.remove(&process));
            }
        }
    }
    found
}

/// The last moments at which those that had a lock before gave it back.
#[derive(Clone, Copy)]
struct Until {
    alone: i64,
    shared: i64,
}

impl Until {
    const NEVER: Self = Self { alone: i64::MIN, shared: i64::MIN };

    /// Until when somebody has it that the next one can't have it with.
    fn of_next(self, shares: bool) -> i64 {
        if shares { self.alone } else { self.alone.max(self.shared) }
    }

    fn add(&mut self, shares: bool, at: i64) {
        let until = if shares { &mut self.shared } else { &mut self.alone };
        *until = at.max(*until);
    }
}

/// Whether MPI_Win_lock returned although another process had the lock.
fn is_late(holds: &mut [Hold]) -> bool {
    holds.sort_by_key(Hold::returned);
    let mut until = Until::NEVER;
    holds.iter().any(|hold| {
        let overlaps = until.of_next(hold.shares) > hold.returned();
        until.add(hold.shares, hold.given_back());
        overlaps
    })
}

/// Thread and start of the calls that waited until another process gave the lock back.
fn contended(holds: &mut [Hold], is_late: bool) -> Vec<(u32, i64)> {
    // who returned first had it first, or who asked first
    holds.sort_by_key(|hold| if is_late { hold.asked() } else { hold.returned() });
    let mut until = Until::NEVER;
    let mut found = Vec::new();
    for hold in holds {
        let calls = if is_late { &hold.calls[..] } else { &hold.calls[..1] };
        let busy = until.of_next(hold.shares);
        if let Some(row) = calls.iter().find(|row| is_long(row))
            && busy > row.start
        {
            found.push((row.thread, row.start));
        }
        until.add(hold.shares, if is_late { hold.free() } else { hold.given_back() });
    }
    found
}
