//! What recorded calls do to each other: from rows of `sync_op`, `thread` and `process` to [`Act`]s.

mod mpi;

use std::collections::{HashMap, HashSet};

use iotrail_format::call::{Call, CallKind, WaitKind};
use iotrail_format::ids::hash63;

use crate::children::Children;
use crate::epochs::Epochs;
use crate::file_locks::{self, Asked, Locked, Owner, Tries};
use crate::matching::{Act, Channel, Meeting, Role, Room, What};
use crate::semaphores::{Id, Semaphores, Use};
use crate::signals::{self, Alarm, Sent, Taken};
use crate::sockets::{Connections, OnSocket};
use crate::windows::Windows;
use mpi::{Pending, is_of_requests};

/// Error numbers of what waited no longer (errno(3)).
pub(crate) const EINTR: i64 = 4;
pub(crate) const EAGAIN: i64 = 11;
const ETIMEDOUT: i64 = 110;
/// Calls on locks that took no longer, ns, had not to wait.
const CONTENDED: i64 = 10_000;
/// Calls that give a lock back: whoever is slow there didn't wait for it.
const GIVE_BACK: [Call; 3] = [Call::MutexUnlock, Call::RwlockUnlock, Call::SpinUnlock];
/// All timerfds have this id: what /proc calls them (proc(5)).
const TIMERFD: i64 = hash63(b"anon_inode:[timerfd]");
/// And all signalfds this.
const SIGNALFD: i64 = hash63(b"anon_inode:[signalfd]");
/// Bytes that a pipe holds (pipe(7), "Pipe capacity").
const PIPE: u64 = 65_536;

/// A thread.
#[derive(Clone, Copy, Debug)]
pub struct Thread {
    /// Its id in the trail.
    pub id: i64,
    /// Its process.
    pub process: i64,
    /// Number of its machine.
    pub machine: u32,
    /// Thread id of the system.
    pub tid: i64,
    /// When it began.
    pub start: i64,
    /// When it ended; none if that isn't known.
    pub end: Option<i64>,
}

/// A program image.
#[derive(Clone, Copy, Debug)]
pub struct Process {
    /// Its id in the trail.
    pub id: i64,
    /// Number of its machine.
    pub machine: u32,
    /// Process id of the system.
    pub pid: i64,
    /// The image that forked or exec'd it.
    pub parent: Option<i64>,
    /// MPI rank in MPI_COMM_WORLD.
    pub rank: Option<i64>,
    /// When it began.
    pub start: i64,
    /// When it ended; none if that isn't known.
    pub end: Option<i64>,
}

/// A row of `sync_op`.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// Number of the thread.
    pub thread: u32,
    /// Start.
    pub start: i64,
    /// When it returned; none if it never did.
    pub end: Option<i64>,
    /// The call.
    pub call: Call,
    /// What it waits for.
    pub kind: WaitKind,
    /// See the table's columns.
    pub object: Option<i64>,
    /// See above.
    pub peer: Option<i64>,
    /// See above.
    pub length: Option<i64>,
    /// See above.
    pub result: Option<i64>,
    /// See above.
    pub errno: i64,
    /// See above.
    pub seq: Option<i64>,
    /// See above.
    pub tag: Option<i64>,
    /// See above.
    pub flags: Option<i64>,
}

/// Reads rows.
pub struct Reader<'a> {
    threads: &'a [Thread],
    processes: HashMap<i64, &'a Process>,
    /// By process and request.
    pending: HashMap<(i64, i64), Pending>,
    /// Of each thread the end of its outermost call so far: what is inside belongs to it.
    outer: Vec<(i64, i64)>,
    /// Threads by process, in the order of their starts.
    threads_of: HashMap<i64, Vec<u32>>,
    /// Processes that were forked: when and by which thread.
    forks: HashMap<i64, (i64, u32)>,
    /// Threads by their ids.
    numbers: HashMap<i64, u32>,
    /// Threads that were created, by process and handle: when and which.
    handles: HashMap<(i64, i64), Vec<(i64, u32)>>,
    /// Threads that said their process and handle when they began, in the order of time.
    begun: HashMap<(i64, i64), Vec<(i64, u32)>>,
    /// With when whoever creates lets the thread go on.
    creations: Vec<(Row, i64)>,
    joins: Vec<Row>,
    /// Rows of MPI that begin or complete requests or epochs, which one thread may do for another.
    requests: Vec<Row>,
    /// Calls that wait for requests, and when the call began that they are inside of.
    mpi_waits: Vec<(Row, Option<i64>)>,
    /// Thread and start of those that completed one of which it is known what it waited for.
    completing: HashSet<(u32, i64)>,
    epochs: Epochs,
    windows: Windows,
    sockets: Vec<OnSocket>,
    /// Rows of semaphores and barriers, and when the call began that they are inside of.
    shared: Vec<(Row, Option<i64>)>,
    semaphores: Semaphores,
    /// Children whose end interrupted a call, as its handler found or the call behind it, by thread and start of the call.
    reaped: HashMap<(u32, i64), Row>,
    /// Of threads whose last call was interrupted when that began, and returned.
    interrupted: HashMap<u32, (i64, i64)>,
    /// When processes ended, by machine and process id.
    ended: HashMap<(u32, i64), Vec<i64>>,
    /// Calls that took long for the lock of a file, and what they asked for, if it is known which part they got.
    locking: Vec<(Row, Option<Asked>)>,
    locked: Locked,
    /// Calls that took long for a lock in memory; and of each of those locks the thread that alone takes it, none if several do.
    lockers: Vec<Row>,
    takers: HashMap<i64, Option<u32>>,
    tries: Tries,
    /// From when to when a thread wanted the lock of a file that it asked for in vain at first.
    wanted: HashMap<u32, Vec<(i64, i64)>>,
    sent: Vec<Sent>,
    alarms: Vec<Alarm>,
    taken: Vec<Taken>,
    /// Those that found something ready, and when the call began that they are inside of.
    polls: Vec<(Row, Option<i64>)>,
    acts: Vec<Act>,
    /// When the call began that the row is inside of.
    inside: Option<i64>,
}

/// Of a call that passes a semaphore, or posts it: when, and which.
#[must_use]
fn semaphore_use(row: &Row) -> Option<(i64, bool)> {
    match row.call {
        Call::SemPost => Some((row.start, true)),
        Call::SemWait if row.result == Some(0) => Some((row.end?, false)),
        _ => None,
    }
}

/// The process id of the child whose end a call waited for, if it says so.
fn waited_for(row: &Row) -> Option<i64> {
    let is_wait = row.kind == WaitKind::Process && row.call == Call::Wait && row.errno == 0;
    row.peer.filter(|child| is_wait && *child > 0 && row.result.is_some_and(|result| result >= 0))
}

/// Whether a call waited until its timeout was over: sigtimedwait(2) says so otherwise.
pub(crate) fn is_expired(row: &Row) -> bool {
    row.errno == ETIMEDOUT || row.kind == WaitKind::Signal && row.errno == EAGAIN
}

/// Whether a call took so long that it had to wait.
pub(crate) fn is_long(row: &Row) -> bool {
    row.end.is_none_or(|end| end - row.start >= CONTENDED)
}

/// What a row does; inside a call that began at `inside` it doesn't wait, and lets others go on as that call begins.
pub(crate) fn act(row: &Row, what: What, inside: Option<i64>) -> Option<Act> {
    let (what, start) = match (what, inside) {
        (what, None) => (what, row.start),
        (What::Take { channel, amount, order }, Some(_)) => {
            (What::Drain { channel, amount, order }, row.start)
        }
        (What::Give { .. } | What::Wake { .. } | What::Hold { .. } | What::Expect { .. }, Some(outer)) => {
            (what, outer)
        }
        _ => return None,
    };
    Some(Act { thread: row.thread, start, end: row.end, what })
}

/// Adds an interval, from and to, to those that ended before it; what overlaps becomes one.
fn add_interval(intervals: &mut Vec<(i64, i64)>, (mut from, to): (i64, i64)) {
    while let Some(before) = intervals.pop_if(|before| before.1 > from) {
        from = from.min(before.0);
    }
    intervals.push((from, to));
}

impl<'a> Reader<'a> {
    /// For these threads, which rows name by their places here, and their processes.
    #[must_use]
    pub fn new(threads: &'a [Thread], processes: &'a [Process]) -> Self {
        let mut threads_of: HashMap<i64, Vec<u32>> = HashMap::new();
        for (number, thread) in threads.iter().enumerate() {
            threads_of.entry(thread.process).or_default().push(number as u32);
        }
        for of in threads_of.values_mut() {
            of.sort_by_key(|number| threads[*number as usize].start);
        }
        let mut ended: HashMap<(u32, i64), Vec<i64>> = HashMap::new();
        for process in processes {
            ended.entry((process.machine, process.pid)).or_default().extend(process.end);
        }
        Self {
            threads,
            processes: processes.iter().map(|process| (process.id, process)).collect(),
            pending: HashMap::new(),
            outer: vec![(i64::MIN, i64::MIN); threads.len()],
            threads_of,
            forks: HashMap::new(),
            numbers: threads.iter().map(|thread| thread.id).zip(0..).collect(),
            handles: HashMap::new(),
            begun: HashMap::new(),
            creations: Vec::new(),
            joins: Vec::new(),
            requests: Vec::new(),
            mpi_waits: Vec::new(),
            completing: HashSet::new(),
            epochs: Epochs::default(),
            windows: Windows::default(),
            sockets: Vec::new(),
            shared: Vec::new(),
            semaphores: Semaphores::default(),
            reaped: HashMap::new(),
            interrupted: HashMap::new(),
            ended,
            locking: Vec::new(),
            locked: Locked::default(),
            lockers: Vec::new(),
            takers: HashMap::new(),
            tries: Tries::default(),
            wanted: HashMap::new(),
            sent: Vec::new(),
            alarms: Vec::new(),
            taken: Vec::new(),
            polls: Vec::new(),
            acts: Vec::new(),
            inside: None,
        }
    }

    fn process(&self, row: &Row) -> i64 {
        self.threads[row.thread as usize].process
    }

    /// The machine, and the process as the system numbers it.
    fn system_process(&self, row: &Row) -> (u32, i64) {
        let pid = self.processes.get(&self.process(row)).map_or(-1, |process| process.pid);
        (self.threads[row.thread as usize].machine, pid)
    }

    fn rank(&self, row: &Row) -> Option<i64> {
        self.processes.get(&self.process(row))?.rank
    }

    fn push(&mut self, row: &Row, what: What) {
        self.acts.extend(act(row, what, self.inside));
    }

    /// Takes a row. Those of one thread come in the order of their starts, the longer one first.
    pub fn add(&mut self, row: &Row) {
        let outer = &mut self.outer[row.thread as usize];
        let is_inside = row.start < outer.1 && row.end.is_some_and(|end| end <= outer.1);
        self.inside = (is_inside && row.call != Call::MpiStatus).then_some(outer.0);
        if !is_inside {
            *outer = (row.start, row.end.unwrap_or(i64::MAX));
            self.ended_by_child(row);
        }
        match row.kind {
            WaitKind::Mpi if is_of_requests(row.call) => self.requests.push(*row),
            WaitKind::Mpi => self.add_mpi(row),
            WaitKind::Pipe => self.add_pipe(row),
            WaitKind::Socket => self.add_socket(row),
            WaitKind::Event => self.add_event(row),
            WaitKind::Semaphore | WaitKind::Barrier => self.add_shared(row),
            WaitKind::Condition => self.add_condition(row),
            WaitKind::Thread => self.add_thread(row),
            _ if row.call == Call::Fork => self.add_fork(row),
            // What is inside says whom it let go on; the call around it how it waits.
            WaitKind::Process if self.inside.is_none() => self.joins.push(*row),
            WaitKind::Process => self.reap(row),
            // Which of them have to wait for a lock is another matter on other storage.
            WaitKind::Lock if GIVE_BACK.contains(&row.call) => {}
            WaitKind::Lock => self.add_lock_of_memory(row),
            WaitKind::FileLock => self.add_file_lock(row),
            WaitKind::Signal | WaitKind::Queue | WaitKind::Futex if is_expired(row) => {
                self.push(row, What::Wait { kind: "timer" });
            }
            WaitKind::Signal if row.call == Call::Kill => self.add_kill(row),
            WaitKind::Signal if row.call == Call::Setitimer => self.add_alarm(row),
            WaitKind::Signal => self.take_signal(row),
            WaitKind::Poll if row.result == Some(0) => self.push(row, What::Wait { kind: "timer" }),
            WaitKind::Poll if row.errno == EINTR => self.take_signal(row),
            WaitKind::Poll => self.polls.push((*row, self.inside)),
            kind => self.push(row, What::Wait { kind: kind.name() }),
        }
    }

    fn add_pipe(&mut self, row: &Row) {
        let Some(object) = row.object else { return };
        let channel = Channel::Stream { machine: self.threads[row.thread as usize].machine, object };
        let moved = row.result.unwrap_or(0);
        match row.call.kind() {
            CallKind::Write if moved > 0 => {
                let give = What::Give { channel, amount: moved as u64, room: Room::Units(PIPE) };
                self.push(row, give);
            }
            CallKind::Read if moved >= 0 => {
                let order = row.end.unwrap_or(i64::MAX);
                self.push(row, What::Take { channel, amount: moved as u64, order });
            }
            _ => {}
        }
    }

    fn add_socket(&mut self, row: &Row) {
        let (machine, pid) = self.system_process(row);
        self.sockets.push(OnSocket { row: *row, machine, pid, inside: self.inside });
    }

    fn add_event(&mut self, row: &Row) {
        let Some(object) = row.object else { return };
        if object == SIGNALFD && row.seq.is_some() {
            return self.take_signal(row);
        }
        let channel = Channel::Event { object };
        let what = match (row.call.kind(), row.seq) {
            (CallKind::Write, Some(value)) => {
                What::Give { channel, amount: value as u64, room: Room::Unlimited }
            }
            (CallKind::Read, Some(value)) if object != TIMERFD => {
                What::Take { channel, amount: value as u64, order: row.end.unwrap_or(i64::MAX) }
            }
            (CallKind::Read, _) if object == TIMERFD => What::Wait { kind: "timer" },
            _ if row.call == Call::Eventfd => {
                What::Hold { channel, amount: row.length.unwrap_or(0).max(0) as u64 }
            }
            _ if row.errno == EAGAIN => What::Nothing,
            _ => What::Wait { kind: "event" },
        };
        self.push(row, what);
    }

    /// Locks of files are contended for as those of threads are.
    fn add_file_lock(&mut self, row: &Row) {
        let asked = Asked::of(row.length, row.seq, row.flags);
        if let (Some(asked), Some(file), Some(end)) = (&asked, row.object, row.end)
            && let Some(wanted) = self.tries.add(row.thread, file, asked, (row.start, end), row.errno)
        {
            add_interval(self.wanted.entry(row.thread).or_default(), wanted);
        }
        let may_wait = asked.as_ref().is_none_or(|asked| asked.waits);
        let got = asked.filter(|_| row.errno == 0);
        if let (Some(asked), Some(file)) = (&got, row.object)
            && asked.act != file_locks::Act::GiveBack
        {
            let process = self.process(row);
            let owner = if asked.by_process { Owner::Process(process) } else { Owner::Thread(row.thread) };
            self.locked.add((file, row.length.is_none()), asked.part.clone(), owner);
        }
        if may_wait && is_long(row) && self.inside.is_none() {
            self.locking.push((*row, got));
        }
    }

    /// Who asked for what another one locks, too, may have waited for it; what nobody else locks in the recording is no lock to wait for.
    fn wait_for_file_locks(&mut self) {
        let contended = std::mem::take(&mut self.locked).contended();
        for (row, got) in std::mem::take(&mut self.locking) {
            let of = row.object.map(|file| (file, row.length.is_none()));
            let is_contended = |asked: Asked| of.is_some_and(|of| contended.is_in(of, &asked.part));
            let kind = if got.is_some_and(is_contended) { "lock" } else { row.kind.name() };
            self.push(&row, What::Wait { kind });
        }
    }

    fn add_lock_of_memory(&mut self, row: &Row) {
        if let Some(lock) = row.object {
            let others = |taker: &mut Option<u32>| *taker = taker.filter(|taker| *taker == row.thread);
            self.takers.entry(lock).and_modify(others).or_insert(Some(row.thread));
        }
        if is_long(row) && self.inside.is_none() {
            self.lockers.push(*row);
        }
    }

    /// A lock that only one thread takes is none to wait for: that thread was not on a CPU meanwhile.
    fn wait_for_locks_of_memory(&mut self) {
        for row in std::mem::take(&mut self.lockers) {
            let others = row.object.and_then(|lock| self.takers.get(&lock)).is_none_or(Option::is_none);
            if others {
                self.push(&row, What::Wait { kind: "lock" });
            }
        }
    }

    /// Who asked for a lock again and again waited for it in between.
    fn wait_for_locks(&mut self) {
        for act in &mut self.acts {
            if let What::Wait { kind: kind @ ("sleep" | "timer") } = &mut act.what
                && let Some(wanted) = self.wanted.get(&act.thread)
                && wanted
                    .get(wanted.partition_point(|(_, to)| *to <= act.start))
                    .is_some_and(|(from, _)| *from <= act.start)
            {
                *kind = "lock";
            }
        }
    }

    /// A signal is sent.
    fn add_kill(&mut self, row: &Row) {
        let (machine, sender) = self.system_process(row);
        self.sent.extend(Sent::of(row, machine, sender, self.inside));
    }

    /// A process has itself sent signals later.
    fn add_alarm(&mut self, row: &Row) {
        let (machine, pid) = self.system_process(row);
        self.alarms.extend(Alarm::of(row, machine, pid));
    }

    /// A signal ends a wait.
    fn take_signal(&mut self, row: &Row) {
        let process = self.process(row);
        let (machine, pid) = self.system_process(row);
        self.taken.push(Taken { row: *row, machine, pid, process, inside: self.inside });
    }

    /// A shell that is interrupted asks at once which child has ended: one that did so meanwhile interrupted it.
    fn ended_by_child(&mut self, row: &Row) {
        let interrupted = self.interrupted.remove(&row.thread);
        if let (EINTR, Some(end)) = (row.errno, row.end) {
            self.interrupted.insert(row.thread, (row.start, end));
        } else if let (Some((start, end)), Some(child)) = (interrupted, waited_for(row)) {
            let machine = self.threads[row.thread as usize].machine;
            let mut ends = self.ended.get(&(machine, child)).into_iter().flatten();
            if ends.any(|ended| (start..=end).contains(ended)) {
                self.reaped.entry((row.thread, start)).or_insert(*row);
            }
        }
    }

    /// A child has ended, which a call inside another one says.
    fn reap(&mut self, row: &Row) {
        if let Some(outer) = self.inside.filter(|_| waited_for(row).is_some()) {
            self.reaped.entry((row.thread, outer)).or_insert(*row);
        }
    }

    /// Processes that share what they wait for have to be known first.
    fn add_shared(&mut self, row: &Row) {
        if let (Call::SemInit | Call::BarrierInit, Some(address)) = (row.call, row.object) {
            let (process, count) = (self.process(row), row.length.unwrap_or(0));
            self.semaphores.make(process, address, row.start, row.seq == Some(1), count);
        }
        self.shared.push((*row, self.inside));
    }

    /// Semaphores and barriers, when all that were made, and all forks, are known.
    fn use_shared(&mut self) {
        for (child, (_, by)) in &self.forks {
            self.semaphores.fork(*child, self.threads[*by as usize].process);
        }
        let rows = std::mem::take(&mut self.shared);
        let mut uses: HashMap<Id, Vec<Use>> = HashMap::new();
        for (row, _) in &rows {
            if let (Some(id), Some((at, posts))) = (self.id(row), semaphore_use(row)) {
                uses.entry(id).or_default().push(Use { thread: row.thread, at, posts });
            }
        }
        let locks: HashSet<Id> = self.semaphores.locks(&mut uses).into_iter().collect();
        for (row, inside) in rows {
            self.inside = inside;
            match row.kind {
                WaitKind::Barrier => self.add_barrier(&row),
                _ if self.id(&row).is_some_and(|id| locks.contains(&id)) => self.add_lock(&row),
                _ => self.add_semaphore(&row),
            }
        }
    }

    fn id(&self, row: &Row) -> Option<Id> {
        Some(self.semaphores.id(self.process(row), row.object?, row.start))
    }

    /// A semaphore that is a lock.
    fn add_lock(&mut self, row: &Row) {
        match row.call {
            Call::SemWait if row.result != Some(0) => self.push(row, What::Wait { kind: "timer" }),
            Call::SemWait if is_long(row) => self.push(row, What::Wait { kind: "lock" }),
            _ => {}
        }
    }

    fn add_semaphore(&mut self, row: &Row) {
        let Some(of) = self.id(row) else { return };
        let channel = Channel::Semaphore { of };
        match row.call {
            Call::SemPost => self.push(row, What::Give { channel, amount: 1, room: Room::Unlimited }),
            Call::SemInit => {
                let amount = row.length.unwrap_or(0).max(0) as u64;
                self.push(row, What::Hold { channel, amount });
            }
            Call::SemWait if row.result == Some(0) => {
                let order = row.end.unwrap_or(i64::MAX);
                self.push(row, What::Take { channel, amount: 1, order });
            }
            Call::SemWait => self.push(row, What::Wait { kind: "timer" }),
            _ => self.push(row, What::Wait { kind: "semaphore" }),
        }
    }

    fn add_condition(&mut self, row: &Row) {
        let (Some(condition), process) = (row.object, self.process(row)) else { return };
        match row.call {
            Call::CondSignal | Call::CondBroadcast => self.push(row, What::Wake { process, condition }),
            _ if row.errno == ETIMEDOUT => self.push(row, What::Wait { kind: "timer" }),
            _ => self.push(row, What::Await { process, condition }),
        }
    }

    fn add_barrier(&mut self, row: &Row) {
        let Some(Id { process, address, .. }) = self.id(row) else { return };
        let meeting = Meeting::Barrier { process, address };
        if row.call == Call::BarrierInit {
            let count = row.length.unwrap_or(0).max(0) as u64;
            return self.push(row, What::Expect { meeting, count });
        }
        self.push(row, What::Meet { meeting, role: Role::All });
    }

    fn add_fork(&mut self, row: &Row) {
        if let Some(maker) = row.peer.and_then(|id| self.numbers.get(&id)) {
            self.forks.insert(self.process(row), (row.start, *maker));
        }
    }

    fn add_thread(&mut self, row: &Row) {
        if row.errno != 0 {
            return;
        }
        match row.call {
            Call::PthreadCreate if row.object.is_some() => {
                let key = (self.process(row), row.object.unwrap_or_default());
                self.begun.entry(key).or_default().push((row.start, row.thread));
            }
            Call::PthreadCreate => self.creations.push((*row, self.inside.unwrap_or(row.start))),
            _ if self.inside.is_none() => self.joins.push(*row),
            _ => {}
        }
    }

    /// What all rows did, and the beginnings and ends of threads and processes.
    #[must_use]
    pub fn finish(mut self) -> Vec<Act> {
        // a handle is another request's when the call has begun that completes the one before
        self.inside = None;
        self.requests.sort_by_key(|row| (row.start, row.call == Call::MpiGroup));
        for row in std::mem::take(&mut self.requests) {
            self.add_mpi(&row);
        }
        self.wait_for_requests();
        self.acts.extend(self.epochs.acts());
        self.acts.extend(std::mem::take(&mut self.windows).acts());
        self.use_shared();
        self.inside = None;
        self.wait_for_file_locks();
        self.wait_for_locks_of_memory();
        self.wait_for_locks();
        let threads_of_handles = self.threads_of_handles();
        self.wait_for_children();
        let sent = std::mem::take(&mut self.sent);
        let alarms = std::mem::take(&mut self.alarms);
        let taken = std::mem::take(&mut self.taken);
        self.acts.extend(signals::acts(sent, alarms, taken, &threads_of_handles));
        let connections = Connections::of(&self.sockets);
        self.acts.extend(connections.acts(&self.sockets));
        self.wait_for_something(&connections);
        self.creations.sort_by_key(|(row, _)| row.start);
        self.begin_threads();
        self.name_children();
        self.begin_processes();
        for row in std::mem::take(&mut self.joins) {
            self.join(&row);
        }
        self.acts
    }

    /// Who polls waits for what it found ready, if that is known.
    fn wait_for_something(&mut self, connections: &Connections) {
        let given = |act: &Act| if let What::Give { channel, .. } = act.what { Some(channel) } else { None };
        let given: HashSet<Channel> = self.acts.iter().filter_map(given).collect();
        for (row, inside) in std::mem::take(&mut self.polls) {
            // the object of epoll_wait is what it waits on
            let ready = row.object.filter(|_| row.call != Call::EpollWait);
            let machine = self.threads[row.thread as usize].machine;
            let channels = ready.into_iter().flat_map(|object| {
                [
                    connections.stream_to(machine, object),
                    Some(Channel::Stream { machine, object }),
                    Some(Channel::Event { object }),
                ]
            });
            let channel = channels.flatten().find(|channel| given.contains(channel));
            let what = match channel {
                Some(channel) => What::Peek { channel },
                None if ready == Some(TIMERFD) => What::Wait { kind: "timer" },
                None => What::Wait { kind: "poll" },
            };
            self.acts.extend(act(&row, what, inside));
        }
    }

    /// Who was interrupted by the end of a child (SIGCHLD) waited for that.
    fn wait_for_children(&mut self) {
        let taken = std::mem::take(&mut self.taken);
        for taken in taken {
            match self.reaped.get(&(taken.row.thread, taken.row.start)) {
                Some(child) if taken.row.seq.is_none() && taken.inside.is_none() => {
                    let row = Row { start: taken.row.start, end: taken.row.end, ..*child };
                    self.joins.push(row);
                }
                _ => self.taken.push(taken),
            }
        }
    }

    /// Threads that said their handle when they began; of those with the same none is known.
    fn threads_of_handles(&self) -> HashMap<(i64, i64), u32> {
        let only = |list: &Vec<(i64, u32)>| if let [(_, thread)] = list[..] { Some(thread) } else { None };
        self.begun.iter().filter_map(|(handle, list)| Some((*handle, only(list)?))).collect()
    }

    fn give(&mut self, thread: u32, at: i64, channel: Channel) {
        let what = What::Give { channel, amount: 1, room: Room::Unlimited };
        self.acts.push(Act { thread, start: at, end: Some(at), what });
    }

    fn take(&mut self, thread: u32, at: i64, channel: Channel) {
        let what = What::Take { channel, amount: 1, order: at };
        self.acts.push(Act { thread, start: at, end: Some(at), what });
    }

    /// The n-th thread that began in a process is the n-th that was created there.
    fn begin_threads(&mut self) {
        self.begun.values_mut().for_each(|list| list.sort_unstable());
        let said: HashSet<u32> = self.begun.values().flatten().map(|(_, thread)| *thread).collect();
        let creations = std::mem::take(&mut self.creations);
        // handles are used again: the last creation first, which the last thread of its handle is of
        let mut begun: Vec<Option<u32>> = creations.iter().rev().map(|(row, _)| self.begun_by(row)).collect();
        begun.reverse();
        let mut next: HashMap<i64, usize> = HashMap::new();
        for ((row, from), begun) in creations.into_iter().zip(begun) {
            let process = self.process(&row);
            let Some(thread) = begun.or_else(|| {
                // The order in which they began, of those that did not say. The one it began with was not created.
                let threads = self.threads_of.get(&process)?;
                let at = next.entry(process).or_insert(0);
                while let Some(thread) = threads.get(*at)
                    && (self.threads[*thread as usize].start < row.start || said.contains(thread))
                {
                    *at += 1;
                }
                *at += 1;
                threads.get(*at - 1).copied()
            }) else {
                continue;
            };
            if let Some(handle) = row.peer {
                self.handles.entry((process, handle)).or_default().push((row.start, thread));
            }
            let start = self.threads[thread as usize].start;
            self.give(row.thread, from, Channel::Begin { thread });
            self.take(thread, start, Channel::Begin { thread });
        }
    }

    /// The last thread, of those left, that began with the handle that a creation returned.
    fn begun_by(&mut self, creation: &Row) -> Option<u32> {
        let list = self.begun.get_mut(&(self.process(creation), creation.peer?))?;
        list.pop_if(|(at, _)| *at >= creation.start).map(|(_, thread)| thread)
    }

    /// Which child each call waited for that doesn't say so; one that began in that call was made by its thread.
    fn name_children(&mut self) {
        let machine = |row: &Row| self.threads[row.thread as usize].machine;
        let unnamed =
            |row: &Row| row.kind == WaitKind::Process && row.peer.is_none() && row.result >= Some(0);
        if !self.joins.iter().any(unnamed) {
            return;
        }
        let reaped = self.reaped.values();
        let named = self
            .joins
            .iter()
            .chain(reaped)
            .filter_map(|row| Some((machine(row), waited_for(row)?)))
            .collect();
        let mut children = Children::new(&self.processes, &named);
        let mut joins = std::mem::take(&mut self.joins);
        joins.sort_by_key(|row| (row.end.unwrap_or(i64::MAX), row.thread));
        for row in joins.iter_mut().filter(|row| unnamed(row)) {
            if let Some((first, last)) = children.take(self.process(row), row) {
                row.peer = Some(last.pid);
                if first.start >= row.start {
                    self.forks.entry(first.id).or_insert((first.start, row.thread));
                }
            }
        }
        self.joins = joins;
    }

    /// A process begins after the one that made it had done what it did before.
    fn begin_processes(&mut self) {
        let mut processes: Vec<&Process> = self.processes.values().copied().collect();
        processes.sort_by_key(|process| (process.start, process.id));
        for process in processes {
            let parent = process.parent.and_then(|parent| self.threads_of.get(&parent));
            let first = self.threads_of.get(&process.id).and_then(|threads| threads.first());
            let (Some(parents), Some(first)) = (parent, first.copied()) else { continue };
            // Where nobody says which thread made it (vfork and posix_spawn, which wait for it; exec) the first one did.
            let spawned = parents.first().map(|maker| (process.start, *maker));
            let Some((at, maker)) = self.forks.get(&process.id).copied().or(spawned) else { continue };
            self.give(maker, at, Channel::Begin { thread: first });
            self.take(
                first,
                self.threads[first as usize].start.max(process.start),
                Channel::Begin { thread: first },
            );
        }
    }

    /// Somebody waited for the end of a thread or process.
    fn join(&mut self, row: &Row) {
        let process = self.process(row);
        let until = row.end.unwrap_or(i64::MAX);
        let ended = if row.kind == WaitKind::Thread {
            let created = row.peer.and_then(|handle| self.handles.get(&(process, handle)));
            created.and_then(|list| list.iter().rev().find(|(at, _)| *at <= until)).map(|(_, thread)| *thread)
        } else if row.errno == 0 && row.result.is_some_and(|result| result >= 0) {
            let machine = self.threads[row.thread as usize].machine;
            let of_pid = |process: &&&Process| {
                process.machine == machine
                    && Some(process.pid) == row.peer
                    && process.end.is_some_and(|end| end <= until)
            };
            let last = self.processes.values().filter(of_pid).max_by_key(|process| process.end);
            last.and_then(|process| self.threads_of.get(&process.id)?.first().copied())
        } else {
            return;
        };
        let of = ended.map(|thread| self.threads[thread as usize]);
        let end = of.and_then(|thread| {
            thread.end.or_else(|| self.processes.get(&thread.process).and_then(|process| process.end))
        });
        match (ended, end) {
            (Some(thread), Some(end)) if end <= until => {
                let channel = Channel::End { thread };
                self.give(thread, end, channel);
                self.push(row, What::Take { channel, amount: 1, order: row.start });
            }
            // none had ended, and it didn't wait for one (WNOHANG)
            _ if row.kind == WaitKind::Process
                && row.result == Some(0)
                && (row.peer == Some(0) || !is_long(row)) => {}
            _ => self.push(row, What::Wait { kind: row.kind.name() }),
        }
    }
}
