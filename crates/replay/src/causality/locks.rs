//! When threads took locks, and gave them back: those of threads in memory, semaphores that are used as locks, those of files and of MPI's windows.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::Range;

use iotrail_causal::file_locks::Act;
use iotrail_causal::lock_order;
use iotrail_causal::semaphores::{self, Id, Semaphores};
use iotrail_causal::{Pauses, Reason, Recorded, Step};
use iotrail_format::call::{Call, WaitKind};
use iotrail_trail::{Order, SyncOp, TrailReader};
use serde::Serialize;

use super::files::{OnFiles, Wanted, wait_for_files};
use super::windows::OnWindows;
use crate::Error;

/// Of each thread when it has locks, and gives them back.
pub(crate) type Locking = Vec<Vec<(i64, Step)>>;

/// What a lock is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum LockId {
    /// One in memory.
    Memory {
        /// The process that has it there.
        process: i64,
        /// Where.
        address: i64,
    },
    /// Of a file, or of a part of one.
    File {
        /// The file.
        file: i64,
        /// Its bytes.
        part: Range<i64>,
    },
    /// Of the part of a window of MPI that a rank has.
    Window {
        /// The window.
        window: i64,
        /// Rank in MPI_COMM_WORLD.
        rank: i64,
    },
}

/// Locks that threads contend for.
pub(super) struct Contended {
    /// By their numbers.
    pub(super) locks: Vec<LockId>,
    /// Those that threads only try for.
    pub(super) tried: BTreeMap<u32, Pauses>,
    /// What threads do with others, with numbers above those.
    pub(super) others: Locking,
}

/// A lock is taken, or given back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Use {
    pub(super) thread: usize,
    pub(super) at: i64,
    pub(super) act: Act,
}

/// A lock and what threads do with it.
pub(super) type Used = (LockId, Vec<Use>);

/// Calls that do something with a lock, and what. What is taken is there when the call returns, what is given back when it begins.
const LOCKS: [(Call, Act); 7] = [
    (Call::MutexLock, Act::Take),
    (Call::MutexUnlock, Act::GiveBack),
    (Call::RwlockRdlock, Act::Share),
    (Call::RwlockWrlock, Act::Take),
    (Call::RwlockUnlock, Act::GiveBack),
    (Call::SpinLock, Act::Take),
    (Call::SpinUnlock, Act::GiveBack),
];

/// Reads when locks were taken and given back: those that several threads use. Waits for them, of which `for_locks` has threads and ends, are
/// explained by them.
pub(super) fn read_locks(
    reader: &TrailReader,
    number_of: &HashMap<i64, usize>,
    process_of: &HashMap<i64, i64>,
    recorded: &mut [Recorded],
    for_locks: &HashSet<(usize, i64)>,
    zero: i64,
) -> Result<Contended, Error> {
    let mut in_memory = InMemory::default();
    let mut on_files = OnFiles::default();
    let mut on_windows = OnWindows::default();
    let mut rows = reader.sync_ops(Order::Time)?;
    while let Some(row) = rows.next()? {
        let Some(process) = process_of.get(&row.thread.0) else { continue };
        let thread = number_of.get(&row.thread.0).copied();
        in_memory.add_semaphore(&row, *process, thread, process_of, zero);
        let Some(thread) = thread else { continue };
        let end = row.dur.map(|dur| row.ts + dur - zero);
        match (row.kind, end) {
            (kind, Some(end)) if kind == WaitKind::FileLock.name() => {
                on_files.add(&row, *process, thread, (row.ts - zero, end));
            }
            (kind, Some(end)) if kind == WaitKind::Mpi.name() => {
                on_windows.add(&row, thread, (row.ts - zero, end));
            }
            _ => in_memory.add(&row, *process, thread, (row.ts - zero, end)),
        }
    }
    on_files.close(reader, number_of, process_of, zero)?;
    on_files.wanted.retain(|one| one.sleeps(recorded).next().is_some());
    let (on_waited_files, mut others): (Vec<Used>, Vec<Used>) =
        on_files.locks(recorded).into_iter().partition(|(lock, _)| on_files.is_waited_for(lock));
    let mut uses = in_memory.locks();
    uses.extend(on_waited_files);
    uses.extend(on_windows.locks());
    uses.retain(|(_, uses)| uses.iter().any(|one| one.thread != uses[0].thread));
    others.extend(leave_out(&mut uses, &on_files.wanted));
    let locks = contend(uses, &on_windows, for_locks, recorded);
    let tried = on_files.tried(&locks, recorded);
    wait_for_files(&locks, &on_files.wanted, recorded);
    let mut not_contended: Locking = vec![Vec::new(); recorded.len()];
    for ((_, uses), number) in others.into_iter().zip(locks.len() as u32..) {
        for one in uses {
            not_contended[one.thread].push((one.at, step(one.act, number)));
        }
    }
    Ok(Contended { locks, tried, others: not_contended })
}

/// Adds to what threads did when they had locks; waits that ended then were for these.
fn contend(
    uses: Vec<Used>,
    on_windows: &OnWindows,
    for_locks: &HashSet<(usize, i64)>,
    recorded: &mut [Recorded],
) -> Vec<LockId> {
    let mut locks = Vec::new();
    let mut taken: Vec<HashSet<i64>> = vec![HashSet::new(); recorded.len()];
    for (lock, uses) in uses {
        let number = locks.len() as u32;
        for Use { thread, at, act } in uses {
            recorded[thread].locks.push((at, step(act, number)));
            if act != Act::GiveBack {
                taken[thread].insert(at);
            }
        }
        for (thread, at) in on_windows.later(&lock).iter().filter(|one| for_locks.contains(one)) {
            taken[*thread].insert(*at);
        }
        locks.push(lock);
    }
    for (one, taken) in recorded.iter_mut().zip(&taken) {
        for wait in one.waits.iter_mut().filter(|wait| wait.reason == Reason::Unknown) {
            if taken.contains(&(wait.start + wait.dur)) {
                wait.reason = Reason::Lock;
            }
        }
    }
    locks
}

/// Locks in memory.
#[derive(Default)]
struct InMemory {
    /// By process and address.
    uses: BTreeMap<(i64, i64), Vec<Use>>,
    semaphores: Semaphores,
    /// Process, address and start of each call on a semaphore; threads that are in no plan have the highest number.
    on_semaphores: Vec<(i64, i64, i64, semaphores::Use)>,
}

impl InMemory {
    /// Takes a row; times are the plan's.
    fn add(&mut self, row: &SyncOp<'_>, process: i64, thread: usize, at: (i64, Option<i64>)) {
        let act_of = LOCKS.iter().find(|(call, _)| call.name() == row.call).map(|(_, act)| *act);
        let mut note = |lock: Option<i64>, act: Act| {
            let at = if act == Act::GiveBack { Some(at.0) } else { at.1 };
            if let (Some(lock), Some(at)) = (lock, at) {
                self.uses.entry((process, lock)).or_default().push(Use { thread, at, act });
            }
        };
        if let Some(act) = act_of.filter(|_| row.errno == 0) {
            note(row.object, act);
        } else if row.call == Call::CondWait.name() {
            // it gives the mutex back and has it again when it returns
            note(row.peer, Act::GiveBack);
            note(row.peer, Act::Take);
        }
    }

    /// Takes a row that may be of a semaphore, also of a thread that is in no plan, or of a fork.
    fn add_semaphore(
        &mut self,
        row: &SyncOp<'_>,
        process: i64,
        thread: Option<usize>,
        process_of: &HashMap<i64, i64>,
        zero: i64,
    ) {
        if row.call == Call::Fork.name() {
            if let Some(parent) = row.peer.and_then(|maker| process_of.get(&maker)) {
                self.semaphores.fork(process, *parent);
            }
            return;
        }
        let Some(address) = row.object.filter(|_| row.kind == WaitKind::Semaphore.name()) else { return };
        if row.call == Call::SemInit.name() {
            self.semaphores.make(process, address, row.ts, row.seq == Some(1), row.length.unwrap_or(0));
        }
        let posts = row.call == Call::SemPost.name();
        let passes = row.call == Call::SemWait.name() && row.result == Some(0);
        let end = row.dur.filter(|_| passes).map(|dur| row.ts + dur);
        if let Some(at) = end.or(posts.then_some(row.ts)) {
            let thread = thread.map_or(u32::MAX, |thread| thread as u32);
            let used = semaphores::Use { thread, at: at - zero, posts };
            self.on_semaphores.push((process, address, row.ts, used));
        }
    }

    fn locks(mut self) -> Vec<Used> {
        for (id, of) in locks_of(&self.semaphores, self.on_semaphores) {
            let act = |posts| if posts { Act::GiveBack } else { Act::Take };
            let one =
                |one: semaphores::Use| Use { thread: one.thread as usize, at: one.at, act: act(one.posts) };
            self.uses.entry((id.process, id.address)).or_default().extend(of.into_iter().map(one));
        }
        let used = |((process, address), uses)| (LockId::Memory { process, address }, held(uses));
        self.uses.into_iter().map(used).collect()
    }
}
fn step(act: Act, lock: u32) -> Step {
    match act {
        Act::Take => Step::Lock(lock),
        Act::Share => Step::Share(lock),
        Act::GiveBack => Step::Unlock(lock),
    }
}

/// Takes out locks of files that programs ask for without waiting, where they would wait for each other for ever.
fn leave_out(uses: &mut Vec<Used>, wanted: &[Wanted]) -> Vec<Used> {
    if wanted.is_empty() {
        return Vec::new();
    }
    let cost = |lock: &LockId| -> i64 {
        wanted.iter().filter(|one| one.is_of(lock)).map(|one| one.to - one.from).sum()
    };
    let is_file = |lock: &LockId| matches!(lock, LockId::File { .. });
    let costs: HashMap<u32, i64> = uses
        .iter()
        .zip(0..)
        .filter(|((lock, _), _)| is_file(lock))
        .map(|((lock, _), number)| (number, cost(lock)))
        .collect();
    let threads =
        uses.iter().flat_map(|(_, uses)| uses).map(|one| one.thread).max().map_or(0, |last| last + 1);
    let mut taken: Vec<Vec<(i64, u32, bool)>> = vec![Vec::new(); threads];
    for ((_, uses), number) in uses.iter().zip(0..) {
        for one in uses {
            taken[one.thread].push((one.at, number, one.act != Act::GiveBack));
        }
    }
    let in_turn = |mut steps: Vec<(i64, u32, bool)>| {
        steps.sort_by_key(|(at, _, takes)| (*at, *takes));
        steps.into_iter().map(|(_, number, takes)| (number, takes)).collect()
    };
    let taken: Vec<Vec<(u32, bool)>> = taken.into_iter().map(in_turn).collect();
    let left_out = lock_order::left_out(&taken, &costs);
    let (kept, taken_out): (Vec<_>, Vec<_>) =
        std::mem::take(uses).into_iter().zip(0..).partition(|(_, number)| !left_out.contains(number));
    *uses = kept.into_iter().map(|(used, _)| used).collect();
    taken_out.into_iter().map(|(used, _)| used).collect()
}

/// The uses of a lock without those that have no counterpart, whose call was not recorded (pthread_mutex_trylock, calls inside MPI):
/// nobody would ever get what nobody gives back. A thread that takes it several times has it from the first to the last.
pub(super) fn held(mut uses: Vec<Use>) -> Vec<Use> {
    uses.sort_by_key(|one| one.at);
    // of each thread how often it has it, and where it took it first
    let mut having: HashMap<usize, (usize, usize)> = HashMap::new();
    let mut keeps = vec![false; uses.len()];
    for (at, one) in uses.iter().enumerate() {
        let (times, first) = having.entry(one.thread).or_insert((0, at));
        match (one.act, *times) {
            (Act::GiveBack, 0) => {}
            (Act::GiveBack, 1) => {
                *times = 0;
                (keeps[*first], keeps[at]) = (true, true);
            }
            (Act::GiveBack, _) => *times -= 1,
            (_, 0) => (*times, *first) = (1, at),
            _ => *times += 1,
        }
    }
    uses.into_iter().zip(keeps).filter(|(_, keep)| *keep).map(|(one, _)| one).collect()
}

/// Semaphores that are locks, and their uses; of calls with process, address and start.
fn locks_of(
    semaphores: &Semaphores,
    calls: Vec<(i64, i64, i64, semaphores::Use)>,
) -> Vec<(Id, Vec<semaphores::Use>)> {
    let mut uses: HashMap<Id, Vec<semaphores::Use>> = HashMap::new();
    for (process, address, start, one) in calls {
        uses.entry(semaphores.id(process, address, start)).or_default().push(one);
    }
    let mut locks = semaphores.locks(&mut uses);
    locks.sort_unstable();
    let uses_of = |id: Id| uses.remove(&id).map(|of| (id, of));
    // what a thread does that isn't replayed can't be done
    let is_replayed = |(_, of): &(Id, Vec<semaphores::Use>)| of.iter().all(|one| one.thread != u32::MAX);
    locks.into_iter().filter_map(uses_of).filter(is_replayed).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_that_nobody_gives_back_was_not_taken() {
        let take = |thread, at| Use { thread, at, act: Act::Take };
        let give = |thread, at| Use { thread, at, act: Act::GiveBack };
        let kept = |uses: Vec<Use>| -> Vec<(usize, i64)> {
            held(uses).into_iter().map(|one| (one.thread, one.at)).collect()
        };
        assert_eq!(
            kept(vec![take(0, 1), give(0, 2), take(1, 3), give(1, 4)]),
            [(0, 1), (0, 2), (1, 3), (1, 4)]
        );
        assert_eq!(kept(vec![give(0, 1), take(0, 2)]), []);
        assert_eq!(kept(vec![take(0, 5), give(1, 6), take(1, 7), give(1, 9)]), [(1, 7), (1, 9)]);
        assert_eq!(kept(vec![take(0, 1), take(0, 2), give(0, 3), give(0, 4)]), [(0, 1), (0, 4)]);
    }
}
