//! What a trail says of who waited for whom, for each thread of a plan.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::Range;
use std::path::Path;

use iotrail_causal::file_locks::{self, Act, Asked, Owner, Tries};
use iotrail_causal::lock_order;
use iotrail_causal::semaphores::{self, Id, Semaphores};
use iotrail_causal::{Reason, Recorded, Scripts, Step, Style, Waited};
use iotrail_format::call::{Call, WaitKind};
use iotrail_format::schema::{COMPUTE, SIGNAL, THREAD, WAIT};
use iotrail_trail::{Order, SyncOp, TrailReader};
use serde::Serialize;

use crate::Error;
use crate::plan::{Plan, Thread};

/// Kind of waits for a semaphore.
const SEMAPHORE: &str = "semaphore";
/// Kind of waits for a lock.
const LOCK: &str = "lock";
/// Kinds of waits for a time.
const TIMERS: [&str; 3] = ["sleep", "timer", "start"];

/// What each thread of a plan did, by its number.
#[derive(Clone, Debug, Default)]
pub struct Causality {
    /// Times are those of the plan.
    pub recorded: Vec<Recorded>,
    /// How many edges there are.
    pub edges: u32,
    /// Its locks, by their numbers.
    pub locks: Vec<LockId>,
    /// Of each thread when it had, and gave back, locks that are not contended for, with numbers above those.
    pub others: Locking,
}

/// Of each thread when it has locks, and gives them back.
type Locking = Vec<Vec<(i64, Step)>>;

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

/// Reads it. Threads without operations are added to the plan.
///
/// # Errors
/// [`Error::Trail`] if the trail can't be read, [`Error::NoCausality`] if it was recorded without.
pub(crate) fn read(trail: &Path, reader: &TrailReader, plan: &mut Plan) -> Result<Causality, Error> {
    let zero = plan.zero;
    let computed = reader.small(&COMPUTE, &["thread", "ts", "dur", "cpu_ns", "call_cpu_ns"], &[])?;
    if computed.is_empty() {
        return Err(Error::NoCausality { path: trail.to_owned() });
    }
    let mut number_of: HashMap<i64, usize> =
        plan.threads.iter().enumerate().map(|(number, thread)| (thread.id, number)).collect();
    let mut recorded: Vec<Recorded> = plan
        .threads
        .iter()
        .map(|thread| {
            let ops = thread.ops.iter().map(|op| op.start).collect();
            Recorded { ops, ..Recorded::default() }
        })
        .collect();
    let mut edges: HashMap<i64, u32> = HashMap::new();
    let mut edge_of = |id: i64| {
        let next = edges.len() as u32;
        *edges.entry(id).or_insert(next)
    };
    let mut number = |id: i64, recorded: &mut Vec<Recorded>| {
        *number_of.entry(id).or_insert_with(|| {
            plan.threads.push(Thread { id, ..Thread::default() });
            recorded.push(Recorded::default());
            recorded.len() - 1
        })
    };
    for row in computed {
        if let [Some(thread), Some(ts), dur, cpu, in_call] = row.ints[..]
            && let Some(cpu) = cpu.or(dur)
        {
            let at = number(thread, &mut recorded);
            recorded[at].computed.push((ts - zero, cpu + in_call.unwrap_or(0)));
        }
    }
    for row in reader.small(&SIGNAL, &["thread", "ts", "edge"], &[])? {
        if let [Some(thread), Some(ts), Some(edge)] = row.ints[..] {
            let at = number(thread, &mut recorded);
            recorded[at].signals.push((ts - zero, edge_of(edge)));
        }
    }
    // of each thread's waits, whether they are for a semaphore
    let mut on_semaphores: Vec<Vec<bool>> = Vec::new();
    // threads and ends of waits for locks
    let mut for_locks = HashSet::new();
    // in the order of time
    for row in reader.small(&WAIT, &["thread", "ts", "dur", "edge", "until_edge"], &["kind", "style"])? {
        let [Some(thread), Some(ts), Some(dur), edge, until] = row.ints[..] else { continue };
        let kind = row.texts[0].as_deref().unwrap_or_default();
        let style = row.texts[1].as_deref().and_then(Style::from_name).unwrap_or(Style::Sleep);
        let reason = match edge {
            Some(edge) => Reason::Edge(edge_of(edge), style),
            None if let Some(edge) = until => Reason::Timeout(edge_of(edge)),
            None if TIMERS.contains(&kind) => Reason::Timer,
            None => Reason::Unknown,
        };
        let at = number(thread, &mut recorded);
        recorded[at].waits.push(Waited { start: ts - zero, dur, reason });
        if kind == LOCK {
            for_locks.insert((at, ts - zero + dur));
        }
        on_semaphores.resize(recorded.len(), Vec::new());
        on_semaphores[at].push(kind == SEMAPHORE);
    }
    on_semaphores.resize(recorded.len(), Vec::new());
    mark_chance(&mut recorded, &on_semaphores);
    let (locks, others) = read_locks(reader, &number_of, &mut recorded, &for_locks, zero)?;
    Ok(Causality { recorded, edges: edges.len() as u32, locks, others })
}

/// Finds waits that a thread had to do by chance: for a semaphore that another one posted whom a timeout had woken a moment before, as a lock is
/// passed on that is made of semaphores. Had it come earlier or later, the other would have slept.
///
/// Not by chance is what began before the other woke: that waited for the timeout; and what another thread had asked for meanwhile.
fn mark_chance(recorded: &mut [Recorded], on_semaphores: &[Vec<bool>]) {
    // of each thread when it went on after waits that are not for semaphores, and whether those were timeouts
    let woken: Vec<Vec<(i64, bool)>> = recorded
        .iter()
        .zip(on_semaphores)
        .map(|(one, on_semaphores)| {
            let others = one.waits.iter().zip(on_semaphores).filter(|(_, on)| !**on).map(|(wait, _)| wait);
            let mut woken: Vec<(i64, bool)> = others
                .map(|wait| (wait.start + wait.dur, matches!(wait.reason, Reason::Timeout(_))))
                .collect();
            woken.sort_unstable();
            woken
        })
        .collect();
    let mut signals: HashMap<u32, Vec<(usize, i64)>> = HashMap::new();
    for (thread, one) in recorded.iter().enumerate() {
        for (ts, edge) in &one.signals {
            signals.entry(*edge).or_default().push((thread, *ts));
        }
    }
    let is_chance = |wait: &Waited, edge: u32| {
        let Some([(giver, ts)]) = signals.get(&edge).map(Vec::as_slice) else { return false };
        let before = woken[*giver].partition_point(|(end, _)| end <= ts);
        let last = before.checked_sub(1).map(|at| woken[*giver][at]);
        last.is_some_and(|(end, is_timeout)| is_timeout && (end..=*ts).contains(&wait.start))
    };
    let mut found: HashMap<u32, bool> = HashMap::new();
    for (one, on_semaphores) in recorded.iter().zip(on_semaphores) {
        for (wait, on_semaphore) in one.waits.iter().zip(on_semaphores) {
            if let Reason::Edge(edge, _) = wait.reason {
                let all = found.entry(edge).or_insert(true);
                *all = *all && *on_semaphore && is_chance(wait, edge);
            }
        }
    }
    for wait in recorded.iter_mut().flat_map(|one| &mut one.waits) {
        if let Reason::Edge(edge, style) = wait.reason
            && found.get(&edge) == Some(&true)
        {
            wait.reason = Reason::Chance(edge, style);
        }
    }
}

/// A lock is taken, or given back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Use {
    thread: usize,
    at: i64,
    act: Act,
}

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
fn read_locks(
    reader: &TrailReader,
    number_of: &HashMap<i64, usize>,
    recorded: &mut [Recorded],
    for_locks: &HashSet<(usize, i64)>,
    zero: i64,
) -> Result<(Vec<LockId>, Locking), Error> {
    let mut process_of = HashMap::new();
    for row in reader.small(&THREAD, &["thread", "process"], &[])? {
        if let [Some(thread), Some(process)] = row.ints[..] {
            process_of.insert(thread, process);
        }
    }
    let act_of: HashMap<&str, Act> = LOCKS.iter().map(|(call, act)| (call.name(), *act)).collect();
    let mut uses: BTreeMap<(i64, i64), Vec<Use>> = BTreeMap::new();
    let mut on_files = OnFiles::default();
    let mut on_windows = OnWindows::default();
    let mut semaphores = Semaphores::default();
    // process, address and start of each call on one; threads that are in no plan have the highest number
    let mut on_semaphores: Vec<(i64, i64, i64, semaphores::Use)> = Vec::new();
    let mut rows = reader.sync_ops(Order::Time)?;
    while let Some(row) = rows.next()? {
        let Some(process) = process_of.get(&row.thread.0) else { continue };
        let thread = number_of.get(&row.thread.0);
        if row.call == Call::Fork.name() {
            if let Some(parent) = row.peer.and_then(|maker| process_of.get(&maker)) {
                semaphores.fork(*process, *parent);
            }
        } else if let (true, Some(address)) = (row.kind == WaitKind::Semaphore.name(), row.object) {
            if row.call == Call::SemInit.name() {
                let count = row.length.unwrap_or(0);
                semaphores.make(*process, address, row.ts, row.seq == Some(1), count);
            }
            let posts = row.call == Call::SemPost.name();
            let passes = row.call == Call::SemWait.name() && row.result == Some(0);
            let end = row.dur.filter(|_| passes).map(|dur| row.ts + dur);
            if let Some(at) = end.or(posts.then_some(row.ts)) {
                let thread = thread.map_or(u32::MAX, |thread| *thread as u32);
                let used = semaphores::Use { thread, at: at - zero, posts };
                on_semaphores.push((*process, address, row.ts, used));
            }
        }
        let Some(thread) = thread else { continue };
        let end = row.dur.map(|dur| row.ts + dur - zero);
        let mut note = |lock: Option<i64>, act: Act| {
            let at = if act == Act::GiveBack { Some(row.ts - zero) } else { end };
            if let (Some(lock), Some(at)) = (lock, at) {
                uses.entry((*process, lock)).or_default().push(Use { thread: *thread, at, act });
            }
        };
        if row.kind == WaitKind::FileLock.name() {
            if let Some(end) = end {
                on_files.add(&row, *process, *thread, (row.ts - zero, end));
            }
        } else if let (true, Some(end)) = (row.kind == WaitKind::Mpi.name(), end) {
            on_windows.add(&row, *thread, (row.ts - zero, end));
        } else if let Some(act) = act_of.get(row.call).filter(|_| row.errno == 0) {
            note(row.object, *act);
        } else if row.call == Call::CondWait.name() {
            // it gives the mutex back and has it again when it returns
            note(row.peer, Act::GiveBack);
            note(row.peer, Act::Take);
        }
    }
    on_files.close(reader, number_of, &process_of, zero)?;
    for (id, of) in locks_of(&semaphores, on_semaphores) {
        let act = |posts| if posts { Act::GiveBack } else { Act::Take };
        let one = |one: semaphores::Use| Use { thread: one.thread as usize, at: one.at, act: act(one.posts) };
        uses.entry((id.process, id.address)).or_default().extend(of.into_iter().map(one));
    }
    let mut uses: Vec<(LockId, Vec<Use>)> = uses
        .into_iter()
        .map(|((process, address), uses)| (LockId::Memory { process, address }, held(uses)))
        .collect();
    on_files.wanted.retain(|one| one.sleeps(recorded).next().is_some());
    let locks_of_files = OnFiles::locks(std::mem::take(&mut on_files.uses), recorded);
    let (waited_for, mut others): (Vec<_>, Vec<_>) =
        locks_of_files.into_iter().partition(|(lock, _)| on_files.is_waited_for(lock));
    uses.extend(waited_for);
    let on_window = |((window, rank), uses)| (LockId::Window { window, rank }, held(uses));
    uses.extend(std::mem::take(&mut on_windows.uses).into_iter().map(on_window));
    uses.retain(|(_, uses)| uses.iter().any(|one| one.thread != uses[0].thread));
    others.extend(leave_out(&mut uses, &on_files.wanted));
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
    wait_for_files(&locks, &on_files.wanted, recorded);
    let mut not_contended: Locking = vec![Vec::new(); recorded.len()];
    for ((_, uses), number) in others.into_iter().zip(locks.len() as u32..) {
        for one in uses {
            not_contended[one.thread].push((one.at, step(one.act, number)));
        }
    }
    Ok((locks, not_contended))
}

fn step(act: Act, lock: u32) -> Step {
    match act {
        Act::Take => Step::Lock(lock),
        Act::Share => Step::Share(lock),
        Act::GiveBack => Step::Unlock(lock),
    }
}

/// A lock and what threads do with it.
type Used = (LockId, Vec<Use>);

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

/// What a thread waited while it asked for a lock again and again: it takes no time, if the lock is contended for, else as long as it did.
fn wait_for_files(locks: &[LockId], wanted: &[Wanted], recorded: &mut [Recorded]) {
    let is_contended = |one: &&Wanted| locks.iter().any(|lock| one.is_of(lock));
    let (contended, others): (Vec<&Wanted>, Vec<&Wanted>) = wanted.iter().partition(is_contended);
    let contended = contended.into_iter().map(|one| (one, Reason::Lock));
    for (one, reason) in contended.chain(others.into_iter().map(|one| (one, Reason::Timer))) {
        let waits = &mut recorded[one.thread].waits;
        let first = waits.partition_point(|wait| wait.start < one.from);
        for wait in waits[first..].iter_mut().take_while(|wait| wait.start < one.to) {
            if wait.reason == Reason::Unknown {
                wait.reason = reason;
            }
        }
    }
}

/// Locks of windows of MPI, by window and rank.
#[derive(Default)]
struct OnWindows {
    uses: BTreeMap<(i64, i64), Vec<Use>>,
    /// Threads and ends of further calls of those that have a lock, which wait for it in some implementations.
    later: HashMap<(i64, i64), Vec<(usize, i64)>>,
}

impl OnWindows {
    /// Takes a row of MPI; times are the plan's.
    fn add(&mut self, row: &SyncOp<'_>, thread: usize, at: (i64, i64)) {
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

    /// Threads and ends of calls that may have waited for this lock, besides those that lock.
    fn later(&self, lock: &LockId) -> &[(usize, i64)] {
        let LockId::Window { window, rank } = lock else { return &[] };
        self.later.get(&(*window, *rank)).map_or(&[], Vec::as_slice)
    }
}

impl LockId {
    fn is_in(&self, of: i64, within: &Range<i64>) -> bool {
        matches!(self, Self::File { file, part } if *file == of && part.start < within.end && within.start < part.end)
    }
}

impl Wanted {
    fn is_of(&self, lock: &LockId) -> bool {
        lock.is_in(self.file, &self.part)
    }

    /// The thread's sleeps meanwhile.
    fn sleeps<'a>(&self, recorded: &'a [Recorded]) -> impl Iterator<Item = &'a Waited> {
        let waits = &recorded[self.thread].waits;
        let (from, to) = (self.from, self.to);
        let first = waits.partition_point(|wait| wait.start < from);
        waits[first..]
            .iter()
            .take_while(move |wait| wait.start < to)
            .filter(|wait| wait.reason == Reason::Unknown)
    }
}

/// The uses of a lock without those that have no counterpart, whose call was not recorded (pthread_mutex_trylock, calls inside MPI):
/// nobody would ever get what nobody gives back. A thread that takes it several times has it from the first to the last.
fn held(mut uses: Vec<Use>) -> Vec<Use> {
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

/// Locks of files.
#[derive(Default)]
struct OnFiles {
    /// By file, and whether flock(2) locked it: those don't see the others.
    uses: BTreeMap<(i64, bool), Vec<file_locks::Use>>,
    tries: Tries,
    /// What threads asked for again and again, and from when to when.
    wanted: Vec<Wanted>,
    /// Parts of files that threads wait for in calls.
    waited_for: HashSet<(i64, Range<i64>)>,
}

/// A thread asked for a part of a file, which it got at last.
struct Wanted {
    thread: usize,
    file: i64,
    part: Range<i64>,
    from: i64,
    to: i64,
}

impl OnFiles {
    /// Takes a row that locks a file; times are the plan's.
    fn add(&mut self, row: &SyncOp<'_>, process: i64, thread: usize, at: (i64, i64)) {
        let (Some(file), Some(asked)) = (row.object, Asked::of(row.length, row.seq, row.flags)) else {
            return;
        };
        let number = thread as u32;
        if let Some((from, to)) = self.tries.add(number, file, &asked, at, row.errno) {
            self.wanted.push(Wanted { thread, file, part: asked.part.clone(), from, to });
        }
        if asked.waits {
            self.waited_for.insert((file, asked.part.clone()));
        }
        if row.errno == 0 {
            let owner = if asked.by_process { Owner::Process(process) } else { Owner::Thread(number) };
            let at = if asked.act == Act::GiveBack { at.0 } else { at.1 };
            let one = file_locks::Use { thread: number, owner, at, act: asked.act, part: asked.part };
            self.uses.entry((file, row.length.is_none())).or_default().push(one);
        }
    }

    /// Whether any thread waits for a lock, in a call or asleep. Who only asks whether it is free goes another way if it isn't.
    fn is_waited_for(&self, lock: &LockId) -> bool {
        self.wanted.iter().any(|one| one.is_of(lock))
            || self.waited_for.iter().any(|(file, part)| lock.is_in(*file, part))
    }

    /// Who closes a file gives back its locks of it (flock(2), fcntl(2)).
    fn close(
        &mut self,
        reader: &TrailReader,
        number_of: &HashMap<i64, usize>,
        process_of: &HashMap<i64, i64>,
        zero: i64,
    ) -> Result<(), Error> {
        if self.uses.is_empty() {
            return Ok(());
        }
        let mut rows = reader.file_ops(Order::Time)?;
        while let Some(row) = rows.next()? {
            if row.call == Call::Close.name()
                && let (Some(file), Some(thread)) = (row.file, number_of.get(&row.thread.0))
            {
                let (thread, process) = (*thread as u32, process_of.get(&row.thread.0).copied());
                let of_process = process.map(|process| (false, Owner::Process(process)));
                for (by_flock, owner) in of_process
                    .into_iter()
                    .chain([(true, Owner::Thread(thread)), (false, Owner::Thread(thread))])
                {
                    if let Some(uses) = self.uses.get_mut(&(file.0, by_flock)) {
                        let (at, part) = (row.ts - zero, 0..i64::MAX);
                        uses.push(file_locks::Use { thread, owner, at, act: Act::GiveBack, part });
                    }
                }
            }
        }
        Ok(())
    }

    /// What threads did with each part of a file that is locked.
    fn locks(
        uses: BTreeMap<(i64, bool), Vec<file_locks::Use>>,
        recorded: &[Recorded],
    ) -> Vec<(LockId, Vec<Use>)> {
        let ends = |thread: u32| recorded[thread as usize].last().unwrap_or(0);
        let one = |(thread, at, act): (u32, i64, Act)| Use { thread: thread as usize, at, act };
        uses.into_iter()
            .flat_map(|((file, _), uses)| {
                file_locks::parts(uses, ends).into_iter().map(move |part| {
                    (LockId::File { file, part: part.bytes }, part.uses.into_iter().map(one).collect())
                })
            })
            .collect()
    }
}

impl Causality {
    /// From when the first thread did something to when the last had, ns.
    #[must_use]
    pub fn length(&self) -> i64 {
        let ends = self.recorded.iter().filter_map(Recorded::last);
        ends.max().unwrap_or(0) - self.zero()
    }

    fn zero(&self) -> i64 {
        self.recorded.iter().filter_map(Recorded::first).min().unwrap_or(0)
    }

    /// Scripts of the threads, by their numbers. What they waited for unknown reasons takes no time, unless `fixed`.
    #[must_use]
    pub fn scripts(&self, fixed: bool) -> Scripts {
        let zero = self.zero();
        let threads: Vec<_> = self.recorded.iter().map(|one| one.script(zero, fixed)).collect();
        let mut signals = vec![0; self.edges as usize];
        for (_, edge) in self.recorded.iter().flat_map(|one| &one.signals) {
            signals[*edge as usize] += 1;
        }
        Scripts { threads, signals, locks: self.locks.len() as u32 }
    }
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

    #[test]
    fn who_meets_a_thread_that_a_timeout_woke_meets_it_by_chance() {
        // the second thread wakes at 100 and posts at 110
        let chance = |start: i64, between: Option<(i64, Reason)>, on_semaphore: bool| {
            let wait = |start, dur, reason| Waited { start, dur, reason };
            let mut waits = vec![wait(0, 100, Reason::Timeout(7))];
            waits.extend(between.map(|(at, reason)| wait(at, 2, reason)));
            let on: Vec<bool> = waits.iter().map(|wait| matches!(wait.reason, Reason::Edge(8, _))).collect();
            let mut recorded = [
                Recorded {
                    waits: vec![wait(start, 120 - start, Reason::Edge(1, Style::Sleep))],
                    ..Recorded::default()
                },
                Recorded { waits, signals: vec![(110, 1)], ..Recorded::default() },
            ];
            mark_chance(&mut recorded, &[vec![on_semaphore], on]);
            matches!(recorded[0].waits[0].reason, Reason::Chance(1, Style::Sleep))
        };
        assert!(chance(105, None, true));
        assert!(chance(105, Some((101, Reason::Edge(8, Style::Sleep))), true), "a semaphore itself");
        assert!(!chance(90, None, true), "it waited for the timeout");
        assert!(!chance(115, None, true), "it had not to wait");
        assert!(!chance(105, None, false), "no semaphore");
        assert!(!chance(105, Some((101, Reason::Edge(9, Style::Sleep))), true), "somebody asked for it");
    }
}
