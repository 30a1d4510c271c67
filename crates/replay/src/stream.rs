//! Requests of a source, drawn while others run: of a workload model, or of a micro-benchmark.
//!
//! A source is an iterator of [`Arrival`]s. One thread draws from it into a [`Queue`] of at most [`MOST_QUEUED`] requests,
//! whose consumers are the engines of a replay: threads that wait for each request, or a ring. Memory doesn't grow with
//! the length of a run.
//!
//! In an open loop a request is due at its drawn time divided by the intensity. If all consumers are busy it waits in
//! the queue, and is counted by how late it began. In a closed loop no time counts: consumers take requests of the
//! devices in turn, so that a slow device can't keep all of them.

use std::collections::{BTreeMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use iotrail_format::call::Call;
use iotrail_format::segment::{ProcessState, TextKind};
use iotrail_model::draw::Draw;
use iotrail_model::{Arrival, Model};
use iotrail_sdk::{attach, clock, post};
use iotrail_sim::{Op as Kind, Request};

use crate::Error;
use crate::plan::{NONE, Op, Plan};
use crate::run::{Buffer, Engine, Mode, NAP, Options, STACK, Shared, is_stopped, now, thread_cpu, until};
use crate::spread::{Spread, Times};
use crate::target::Place;
use crate::uring::{self, Feed, Next};

/// Requests drawn and not begun.
const MOST_QUEUED: usize = 4096;
/// Requests drawn at a time.
const DRAWN: usize = 256;
/// Longest read or write, bytes: the kernel cuts what a device gets into parts of a few MiB at most
/// (Documentation/block/queue-sysfs.rst, max_sectors_kb).
const MOST_LENGTH: i64 = 16 << 20;
/// FALLOC_FL_KEEP_SIZE | FALLOC_FL_PUNCH_HOLE (linux/falloc.h): a discard, of a file or a device.
const PUNCH: i32 = libc::FALLOC_FL_KEEP_SIZE | libc::FALLOC_FL_PUNCH_HOLE;
/// How long a ring with requests in flight doesn't look for drawn ones when there were none, ns.
const LOOK_AGAIN: i64 = 200_000;
/// How often progress is reported.
const TOLD_EVERY: Duration = Duration::from_millis(500);

/// When requests begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loop {
    /// At their times.
    Open,
    /// When one in flight returns.
    Closed,
}

/// How to run the requests of a source.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// How they reach the kernel.
    pub engine: Engine,
    /// When they begin.
    pub when: Loop,
    /// In an open loop, how many times as fast as drawn.
    pub intensity: f64,
    /// Requests in flight at most.
    pub depth: usize,
    /// When the run ends, ns since its start; none when the source does.
    pub length: Option<i64>,
    /// How much of its start isn't counted, ns.
    pub warm_up: i64,
    /// In a closed loop, from the return of a request to the start of the next one, ns.
    pub think: i64,
    /// Whether offsets beyond the end of a target wrap around.
    pub fold: bool,
    /// Whether targets are opened with O_DIRECT.
    pub direct: bool,
    /// Whether zeros are written.
    pub zeros: bool,
}

/// What was run after the warm-up.
#[derive(Clone, Debug, Default, serde::Serialize)]
pub struct Summary {
    /// Requests that returned.
    pub requests: u64,
    /// Bytes read and written.
    pub bytes: u64,
    /// From the end of the warm-up to the last return, or to the end that was asked for.
    pub took_ns: i64,
    /// Requests per second.
    pub iops: f64,
    /// Requests per second that were due; null in a closed loop.
    pub iops_asked: Option<f64>,
    /// Reads, writes, flushes and discards, those that there were.
    pub by_op: BTreeMap<&'static str, Direction>,
    /// How late requests began; null in a closed loop.
    pub lateness: Option<Lateness>,
    /// Requests that failed.
    pub errors: Vec<Refusal>,
    /// Requests that were not issued: why, how many.
    pub skipped: BTreeMap<&'static str, u64>,
    /// Requests issued during the warm-up.
    pub warm_up_requests: u64,
    /// CPU time of the threads that issued them, user and system, ns.
    pub cpu_ns: i64,
    /// Whether somebody ended it.
    pub is_interrupted: bool,
    /// Why it could not go on, if it couldn't.
    pub stopped: Option<String>,
}

/// Requests of one kind.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Direction {
    /// How many.
    pub requests: u64,
    /// Bytes that they moved, or discarded.
    pub bytes: u64,
    /// Requests per second.
    pub iops: f64,
    /// Million bytes per second.
    pub mb_per_s: f64,
    /// From the beginning of a request to its return.
    pub response: Times,
}

/// How late requests began.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Lateness {
    /// Times after those that were due.
    #[serde(flatten)]
    pub times: Times,
    /// Requests that began over a millisecond late.
    pub over_ms: u64,
    /// Their share.
    pub share_over_ms: f64,
}

/// Failed requests of one kind.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Refusal {
    /// What they asked for.
    pub op: &'static str,
    /// Error number; 0 if they moved fewer bytes than asked for.
    pub errno: i32,
    /// How many.
    pub count: u64,
}

/// The requests of a model; again and again if they `go_on`, each time drawn with another seed.
pub fn repeat(model: Model, seed: u64, go_on: bool) -> impl Iterator<Item = Arrival> + Send {
    let mut draw = Draw::new(&model, seed);
    let (mut lap, mut offset, mut last, mut count) = (0, 0u64, 0u64, 0u64);
    std::iter::from_fn(move || {
        loop {
            if let Some(arrival) = draw.next() {
                count += 1;
                last = offset.saturating_add(arrival.at);
                return Some(Arrival { at: last, ..arrival });
            }
            if !go_on || count == 0 {
                return None;
            }
            // The next lap begins a mean gap later.
            offset = last.saturating_add(((last - offset) / count).max(1));
            (lap, count) = (lap + 1, 0);
            draw = Draw::new(&model, seed.wrapping_add(lap));
        }
    })
}

/// Runs the requests of a source on the targets of a plan of devices ([`Plan::of_devices`]), and posts each into
/// `session` (a recording session's directory) if there is one. `progress` is given the time since the start, ns, and how many
/// were taken from the source.
///
/// # Errors
/// [`Error::Io`] if there is no memory or no thread, or a target can't be opened; [`Error::Place`] if the session takes no
/// records.
pub fn stream(
    plan: &Plan,
    place: &Place,
    source: impl Iterator<Item = Arrival> + Send,
    load: Load,
    session: Option<&[u8]>,
    progress: &mut dyn FnMut(i64, u64),
) -> Result<Summary, Error> {
    if session.is_some_and(|session| !attach::init(session)) {
        return Err(Error::place("the run can't record itself: its session is closed or full", None));
    }
    let options = Options {
        engine: load.engine,
        mode: if load.when == Loop::Open { Mode::Timed } else { Mode::Afap },
        scale: 1.0 / load.intensity,
        compute: 1.0,
        depth: load.depth,
        direct: load.direct,
        zeros: load.zeros,
    };
    let mut shared = Shared::new(plan, place, options, MOST_LENGTH as usize, |_| session.is_some())?;
    shared.is_recorded = session.is_some();
    let threads = if load.engine == Engine::Psync { load.depth.max(1) } else { 1 };
    shared.zero = now() + 20_000_000 + 50_000 * threads as i64;
    let run = Run {
        queue: Queue::new(if load.when == Loop::Open { 1 } else { plan.devices.len() }),
        counted: shared.zero.saturating_add(load.warm_up),
        end: load.length.map(|length| shared.zero.saturating_add(length)),
        load,
        shared,
    };
    let is_broken = AtomicBool::new(false);
    let found = std::thread::scope(|scope| -> Result<Vec<Tally>, Error> {
        let (run, is_broken) = (&run, &is_broken);
        // Whatever ends this scope ends the threads in it.
        let _close = Close(&run.queue);
        let builder = || std::thread::Builder::new().stack_size(STACK);
        let failed = || Error::io("start a thread for", "the run");
        let draw = move || {
            let drawn = catch_unwind(AssertUnwindSafe(|| run.queue.fill(source)));
            is_broken.store(drawn.is_err(), Relaxed);
            if drawn.is_err() {
                run.queue.close();
            }
        };
        std::thread::Builder::new().spawn_scoped(scope, draw).map_err(failed())?;
        let (running, all_ended) = channel::<()>();
        let mut workers = Vec::new();
        for number in 0..threads {
            let many = load.depth.max(1) / threads;
            let mut buffers = (0..many).map(|_| Buffer::new(0)).collect::<Result<Vec<_>, _>>()?;
            let running = running.clone();
            let work = move || {
                let tally = run.work(number, &mut buffers);
                drop(running);
                tally
            };
            workers.push(builder().spawn_scoped(scope, work).map_err(failed())?);
        }
        drop(running);
        while all_ended.recv_timeout(TOLD_EVERY) == Err(RecvTimeoutError::Timeout) {
            progress((now() - run.shared.zero).max(0), run.queue.taken());
        }
        Ok(workers.into_iter().map(|worker| worker.join().unwrap_or_default()).collect())
    })?;
    if session.is_some() {
        attach::image_ends(ProcessState::Exited, 0);
    }
    let mut summary = run.sum_up(found);
    if is_broken.load(Relaxed) {
        summary.stopped = Some("no more requests could be drawn".into());
    }
    Ok(summary)
}

/// Drawn requests that no consumer has taken. In a lane each keeps its order; lanes take turns.
struct Queue {
    state: Mutex<Queued>,
    /// There is something to take, or never will be.
    filled: Condvar,
    /// There is room.
    emptied: Condvar,
}

struct Queued {
    lanes: Vec<VecDeque<Op>>,
    /// The lane whose turn it is.
    turn: usize,
    waiting: usize,
    taken: u64,
    is_drawn: bool,
    is_closed: bool,
}

/// What a queue has for a consumer.
enum Taken {
    One(Op),
    /// None yet.
    Later,
    /// None any more.
    Never,
}

impl Queue {
    fn new(lanes: usize) -> Self {
        let queued = Queued {
            lanes: vec![VecDeque::new(); lanes.max(1)],
            turn: 0,
            waiting: 0,
            taken: 0,
            is_drawn: false,
            is_closed: false,
        };
        Self { state: Mutex::new(queued), filled: Condvar::new(), emptied: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, Queued> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Draws all of a source, as there is room.
    fn fill(&self, mut source: impl Iterator<Item = Arrival>) {
        loop {
            let drawn: Vec<Op> = source.by_ref().take(DRAWN).map(|arrival| operation(&arrival)).collect();
            let mut state = self.lock();
            while state.waiting > MOST_QUEUED - DRAWN && !state.is_closed && !is_stopped() {
                let nap = Duration::from_nanos(NAP as u64);
                state = self.emptied.wait_timeout(state, nap).unwrap_or_else(PoisonError::into_inner).0;
            }
            if drawn.is_empty() || state.is_closed || is_stopped() {
                state.is_drawn = true;
                self.filled.notify_all();
                return;
            }
            state.waiting += drawn.len();
            let lanes = state.lanes.len();
            for op in drawn {
                state.lanes[op.path as usize % lanes].push_back(op);
            }
            self.filled.notify_all();
        }
    }

    fn take(&self, state: &mut Queued) -> Taken {
        if state.is_closed || is_stopped() {
            return Taken::Never;
        }
        let (lanes, turn) = (state.lanes.len(), state.turn);
        for lane in (0..lanes).map(|step| (turn + step) % lanes) {
            let Some(op) = state.lanes[lane].pop_front() else { continue };
            state.turn = (lane + 1) % lanes;
            state.waiting -= 1;
            state.taken += 1;
            if state.waiting == MOST_QUEUED / 2 {
                self.emptied.notify_one();
            }
            return Taken::One(op);
        }
        if state.is_drawn { Taken::Never } else { Taken::Later }
    }

    fn try_take(&self) -> Taken {
        self.take(&mut self.lock())
    }

    /// Waits for a request; none if there will be none.
    fn wait(&self) -> Option<Op> {
        let mut state = self.lock();
        loop {
            match self.take(&mut state) {
                Taken::One(op) => return Some(op),
                Taken::Never => return None,
                Taken::Later => {
                    let nap = Duration::from_nanos(NAP as u64);
                    state = self.filled.wait_timeout(state, nap).unwrap_or_else(PoisonError::into_inner).0;
                }
            }
        }
    }

    fn close(&self) {
        self.lock().is_closed = true;
        self.filled.notify_all();
        self.emptied.notify_all();
    }

    fn taken(&self) -> u64 {
        self.lock().taken
    }
}

/// Closes a queue at the end of a scope.
struct Close<'a>(&'a Queue);

impl Drop for Close<'_> {
    fn drop(&mut self) {
        self.0.close();
    }
}

/// What a request is as an operation: the device's number is its path and its descriptor.
fn operation(arrival: &Arrival) -> Op {
    let Arrival { at, device, request: Request { op, pos, length } } = *arrival;
    let number = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
    let (call, flags) = match op {
        Kind::Read => (Call::Pread, 0),
        Kind::Write => (Call::Pwrite, 0),
        Kind::Flush => (Call::Fdatasync, 0),
        Kind::Trim => (Call::Fallocate, PUNCH),
    };
    Op {
        call,
        start: number(at),
        dur: 0,
        handle: device,
        made: NONE,
        path: device,
        path2: NONE,
        pos: if op == Kind::Flush { -1 } else { number(pos) },
        length: if op == Kind::Flush { -1 } else { number(length) },
        result: 0,
        errno: 0,
        flags,
        after: (0, 0, 0),
    }
}

/// Names of what requests ask for, by their index in a [`Tally`].
const NAMES: [&str; 4] = ["read", "write", "flush", "discard"];

fn kind_of(op: &Op) -> usize {
    match op.call {
        Call::Pread => 0,
        Call::Pwrite => 1,
        Call::Fdatasync => 2,
        _ => 3,
    }
}

/// What one consumer counted.
#[derive(Default)]
struct Tally {
    kinds: [Counts; 4],
    late: Spread,
    skipped: BTreeMap<&'static str, u64>,
    warm_up: u64,
    /// When the first counted request was due.
    first_due: Option<i64>,
    /// When the last one was.
    last_due: i64,
    /// Whether the end of the run came before the next request was due.
    kept_up: bool,
    /// When the last request returned.
    last_end: i64,
    cpu: i64,
    stopped: Option<String>,
}

#[derive(Default)]
struct Counts {
    bytes: u64,
    times: Spread,
    errors: BTreeMap<i32, u64>,
}

impl Tally {
    fn add(&mut self, op: &Op, result: i64, errno: i32, start: i64, end: i64) {
        let kind = kind_of(op);
        let counts = &mut self.kinds[kind];
        self.last_end = self.last_end.max(end);
        counts.times.add(end - start);
        if errno != 0 {
            *counts.errors.entry(errno).or_insert(0) += 1;
            return;
        }
        let is_discard = op.call == Call::Fallocate;
        counts.bytes += if is_discard { op.length } else { result }.max(0) as u64;
        if kind < 2 && result < op.length {
            *counts.errors.entry(0).or_insert(0) += 1;
        }
    }
}

/// A run, as its consumers share it.
struct Run<'a> {
    shared: Shared<'a>,
    queue: Queue,
    load: Load,
    /// When counting begins.
    counted: i64,
    /// When no request begins any more.
    end: Option<i64>,
}

impl Run<'_> {
    /// When a request is due; none in a closed loop.
    fn due(&self, op: &Op) -> Option<i64> {
        let after = (op.start as f64 * self.shared.options.scale) as i64;
        (self.load.when == Loop::Open).then(|| self.shared.zero.saturating_add(after))
    }

    fn is_over(&self, time: i64) -> bool {
        self.end.is_some_and(|end| time >= end)
    }

    /// Why a request can't be issued.
    fn why_not(&self, op: &Op) -> Option<&'static str> {
        if matches!(kind_of(op), 1 | 3) && !self.shared.is_written(op) {
            return Some("writes to a device that was checked for reads only");
        }
        if op.length == 0 {
            return Some("of no bytes");
        }
        if op.length > MOST_LENGTH && kind_of(op) < 2 {
            return Some("longer than 16 MiB");
        }
        let pos = if self.load.fold { self.shared.place(op) } else { op.pos };
        let end = pos.max(0).saturating_add(op.length.max(0));
        (end > self.shared.size_of(op)).then_some("beyond the end of the target")
    }

    fn work(&self, number: usize, buffers: &mut [Buffer]) -> Tally {
        // SAFETY: plain numbers.
        unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1) };
        if self.shared.is_recorded {
            attach::thread_began(clock::ticks());
            post::text(TextKind::ThreadName, 0, number.to_string().as_bytes());
        }
        let mut tally = match self.load.engine {
            Engine::Psync => self.call(&mut buffers[0]),
            Engine::IoUring => {
                let started = vec![0; buffers.len()];
                let mut drawn = Drawn {
                    run: self,
                    next: None,
                    due: None,
                    at: 0,
                    ready: vec![0; started.len()].into(),
                    started,
                    tally: Tally::default(),
                };
                drawn.tally.stopped = uring::drive(&self.shared, &mut drawn, buffers).err();
                drawn.tally
            }
        };
        if self.shared.is_recorded {
            attach::thread_ends();
        }
        tally.cpu = thread_cpu();
        tally
    }

    /// Makes one request after the other by system calls that wait.
    fn call(&self, buffer: &mut Buffer) -> Tally {
        let mut tally = Tally::default();
        until(self.shared.zero);
        let mut ready = 0;
        while let Some(op) = self.queue.wait() {
            if self.load.think > 0 {
                until(self.end.map_or(ready, |end| ready.min(end)));
            }
            let due = self.due(&op);
            if let Some(due) = due {
                until(due.min(self.end.unwrap_or(due)));
            }
            let start = now();
            if is_stopped() || self.is_over(start) {
                tally.kept_up = due.is_some_and(|due| self.is_over(due));
                self.queue.close();
                break;
            }
            if let Some(why) = self.why_not(&op) {
                *tally.skipped.entry(why).or_insert(0) += 1;
                continue;
            }
            if kind_of(&op) == 0
                && let Err(error) = buffer.grow(op.length as usize)
            {
                tally.stopped = Some(error.to_string());
                self.queue.close();
                break;
            }
            let (result, errno) = self.shared.perform(&op, buffer);
            let end = now();
            ready = end + self.load.think;
            if self.begin(&mut tally, due, start) {
                tally.add(&op, result, errno, start, end);
            }
        }
        tally
    }

    /// Counts that a request began; whether it is one after the warm-up.
    fn begin(&self, tally: &mut Tally, due: Option<i64>, start: i64) -> bool {
        if start < self.counted {
            tally.warm_up += 1;
            return false;
        }
        if let Some(due) = due {
            tally.late.add(start - due);
            tally.first_due.get_or_insert(due);
            tally.last_due = tally.last_due.max(due);
        }
        true
    }

    fn sum_up(&self, found: Vec<Tally>) -> Summary {
        let mut all = Tally::default();
        for one in found {
            for (sum, counts) in all.kinds.iter_mut().zip(one.kinds) {
                sum.bytes += counts.bytes;
                sum.times.merge(&counts.times);
                for (errno, count) in counts.errors {
                    *sum.errors.entry(errno).or_insert(0) += count;
                }
            }
            for (why, count) in one.skipped {
                *all.skipped.entry(why).or_insert(0) += count;
            }
            all.late.merge(&one.late);
            all.warm_up += one.warm_up;
            all.first_due = all.first_due.into_iter().chain(one.first_due).min();
            all.last_due = all.last_due.max(one.last_due);
            all.kept_up |= one.kept_up;
            all.last_end = all.last_end.max(one.last_end);
            all.cpu += one.cpu;
            all.stopped = all.stopped.or(one.stopped);
        }
        let is_interrupted = is_stopped();
        let end = self.end.filter(|_| !is_interrupted && all.stopped.is_none());
        let took_ns = (all.last_end.max(end.unwrap_or(0)) - self.counted).max(0);
        let rate = |count: u64, time: i64| if time > 0 { count as f64 * 1e9 / time as f64 } else { 0.0 };
        let mut summary = Summary {
            took_ns,
            skipped: all.skipped,
            warm_up_requests: all.warm_up,
            cpu_ns: all.cpu,
            is_interrupted,
            stopped: all.stopped,
            ..Summary::default()
        };
        for (op, counts) in NAMES.into_iter().zip(all.kinds) {
            let Some(response) = counts.times.times() else { continue };
            let requests = counts.times.count();
            summary.requests += requests;
            if op == "read" || op == "write" {
                summary.bytes += counts.bytes;
            }
            for (errno, count) in counts.errors {
                summary.errors.push(Refusal { op, errno, count });
            }
            let direction = Direction {
                requests,
                bytes: counts.bytes,
                iops: rate(requests, took_ns),
                mb_per_s: rate(counts.bytes, took_ns) / 1e6,
                response,
            };
            summary.by_op.insert(op, direction);
        }
        summary.iops = rate(summary.requests, took_ns);
        if self.load.when == Loop::Open && summary.requests > 0 {
            // Where requests wait, those that were due during the warm-up are counted, and those due at the end not.
            let first = all.first_due.unwrap_or(self.counted).min(self.counted);
            let last = end.filter(|_| all.kept_up).unwrap_or(all.last_due);
            // Above a billion per second the last one is due with the first.
            summary.iops_asked = Some(rate(summary.requests, (last - first).max(1)));
            summary.lateness = all.late.times().map(|times| Lateness {
                times,
                over_ms: all.late.over_ms(),
                share_over_ms: all.late.over_ms() as f64 / all.late.count() as f64,
            });
        }
        summary
    }
}

/// Drawn requests for a ring.
struct Drawn<'a> {
    run: &'a Run<'a>,
    /// The next request, if it is not due yet.
    next: Option<Op>,
    /// When the request that is submitted was due, and when it is submitted.
    due: Option<i64>,
    at: i64,
    /// Of each slot, when its request began.
    started: Vec<i64>,
    /// When each free slot has thought, the first one first.
    ready: VecDeque<i64>,
    tally: Tally,
}

impl Feed for Drawn<'_> {
    fn next(&mut self, in_flight: usize) -> Next {
        let time = now();
        if time < self.run.shared.zero {
            return Next::Wait(self.run.shared.zero - time);
        }
        if is_stopped() || self.run.is_over(time) {
            self.tally.kept_up = self.next.is_some();
            self.run.queue.close();
            return Next::End;
        }
        if let Some(ready) = self.ready.front().filter(|ready| **ready > time) {
            return Next::Wait(ready.min(&self.run.end.unwrap_or(i64::MAX)) - time);
        }
        loop {
            let op = match self.next.take().map_or_else(|| self.run.queue.try_take(), Taken::One) {
                Taken::One(op) => op,
                Taken::Later if in_flight > 0 => return Next::Wait(LOOK_AGAIN),
                Taken::Later => match self.run.queue.wait() {
                    Some(op) => op,
                    None => return Next::End,
                },
                Taken::Never => return Next::End,
            };
            let due = self.run.due(&op);
            if let Some(due) = due.filter(|due| *due > time) {
                self.next = Some(op);
                return Next::Wait(due.min(self.run.end.unwrap_or(due)) - time);
            }
            if let Some(why) = self.run.why_not(&op) {
                *self.tally.skipped.entry(why).or_insert(0) += 1;
                continue;
            }
            (self.due, self.at) = (due, time);
            return Next::Submit(op);
        }
    }

    fn submitted(&mut self, slot: usize, _: &Op) {
        self.ready.pop_front();
        self.started[slot] =
            if self.run.begin(&mut self.tally, self.due, self.at) { self.at } else { i64::MIN };
    }

    fn returned(&mut self, slot: usize, op: &Op, result: i64, errno: i32) {
        let end = now();
        self.ready.push_back(end + self.run.load.think);
        if self.started[slot] != i64::MIN {
            self.tally.add(op, result, errno, self.started[slot], end);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;

    use proptest::prelude::*;

    use super::*;
    use crate::plan::{Reach, Workload};
    use crate::target::{Allowed, Mapping};

    const TARGET: u64 = 1 << 20;

    /// Writes to `devices` devices in turn, a microsecond apart, each of a page of its own.
    fn writes(count: u64, devices: u32) -> impl Iterator<Item = Arrival> + Send + Clone {
        (0..count).map(move |at| Arrival {
            at: at * 1000,
            device: at as u32 % devices,
            request: Request { op: Kind::Write, pos: at * 4096 % TARGET, length: 4096 },
        })
    }

    fn load(engine: Engine, when: Loop, depth: usize) -> Load {
        let (length, warm_up, think) = (None, 0, 0);
        let (fold, direct, zeros) = (false, false, false);
        Load { engine, when, intensity: 1.0, depth, length, warm_up, think, fold, direct, zeros }
    }

    /// Runs a source on new files, one for each device: what it says, and the files.
    fn run(
        source: impl Iterator<Item = Arrival> + Send,
        devices: usize,
        load: Load,
    ) -> (Summary, Vec<Vec<u8>>) {
        let folder = tempfile::tempdir().unwrap();
        let plan = Plan::of_devices(
            Workload::Model,
            vec![Reach { bytes: TARGET, writes: true }; devices].into_iter(),
        );
        let path = |number: usize| folder.path().join(number.to_string());
        let mappings: Vec<Mapping> = (0..devices)
            .map(|number| {
                std::fs::File::create(path(number)).unwrap().set_len(TARGET).unwrap();
                Mapping { device: Some(number.to_string()), target: path(number) }
            })
            .collect();
        let place = Place::targets(&mappings, &plan, Allowed { fold: false, overwrite: false }).unwrap();
        let summary = stream(&plan, &place, source, load, None, &mut |_, _| ()).unwrap();
        (summary, (0..devices).map(|number| std::fs::read(path(number)).unwrap()).collect())
    }

    #[test]
    fn each_request_is_done_once_by_both_engines_in_both_loops() {
        for engine in [Engine::Psync, Engine::IoUring] {
            for (when, depth) in [(Loop::Open, 32), (Loop::Closed, 1), (Loop::Closed, 7)] {
                // Half of the pages of both files.
                let (summary, files) = run(writes(128, 2), 2, load(engine, when, depth));
                let write = &summary.by_op["write"];
                assert_eq!((summary.requests, write.requests, write.bytes), (128, 128, 128 * 4096));
                assert_eq!(summary.lateness.is_some(), when == Loop::Open);
                assert_eq!(summary.iops_asked.is_some(), when == Loop::Open);
                assert!(summary.errors.is_empty() && summary.skipped.is_empty() && summary.took_ns > 0);
                for (number, file) in files.iter().enumerate() {
                    for (page, bytes) in file.chunks(4096).enumerate() {
                        let is_written = bytes.iter().any(|byte| *byte != 0);
                        assert_eq!(
                            is_written,
                            page < 128 && page % 2 == number,
                            "{engine:?} {number} {page}"
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn what_can_not_be_done_is_skipped_and_counted() {
        let request = |op, pos, length| Arrival { at: 0, device: 0, request: Request { op, pos, length } };
        let source = [
            request(Kind::Read, 0, 4096),
            request(Kind::Read, TARGET, 4096),
            request(Kind::Write, 0, 0),
            request(Kind::Write, 0, 32 << 20),
            request(Kind::Flush, 0, 0),
            request(Kind::Trim, 0, TARGET),
        ];
        for engine in [Engine::Psync, Engine::IoUring] {
            let (summary, files) = run(source.into_iter(), 1, load(engine, Loop::Closed, 1));
            let skipped: Vec<_> = summary.skipped.into_iter().collect();
            assert_eq!(
                skipped,
                [("beyond the end of the target", 1), ("longer than 16 MiB", 1), ("of no bytes", 1)]
            );
            assert_eq!(summary.by_op.keys().copied().collect::<Vec<_>>(), ["discard", "flush", "read"]);
            assert_eq!((summary.requests, summary.bytes, files[0].len() as u64), (3, 4096, TARGET));
        }
    }

    #[test]
    fn the_start_is_not_counted_and_the_end_cuts_off() {
        for when in [Loop::Open, Loop::Closed] {
            let mut load = load(Engine::Psync, when, 2);
            (load.length, load.warm_up) = (Some(200_000_000), 100_000_000);
            // A microsecond apart: more than there is time for.
            let (summary, _) = run(writes(u64::MAX, 1), 1, load);
            assert!(summary.warm_up_requests > 0 && summary.requests > 0);
            assert!(summary.took_ns >= 100_000_000);
        }
    }

    #[test]
    fn thinking_takes_its_time() {
        for engine in [Engine::Psync, Engine::IoUring] {
            let mut load = load(engine, Loop::Closed, 2);
            load.think = 10_000_000;
            // Two at a time, each 9 times after 10 ms.
            let (summary, _) = run(writes(20, 1), 1, load);
            assert!(summary.requests == 20 && summary.took_ns >= 85_000_000, "{}", summary.took_ns);
        }
    }

    proptest! {
        /// In the order of their drawing within a lane, and never more than the limit in memory.
        #[test]
        fn a_queue_keeps_order_and_its_limit(count in 0u64..40_000, devices in 1u32..5, lanes in 1usize..5) {
            let queue = Queue::new(lanes);
            let (drawn, mut taken) = (AtomicU64::new(0), vec![Vec::new(); lanes]);
            let source = writes(count, devices).inspect(|_| {
                drawn.fetch_add(1, Relaxed);
            });
            std::thread::scope(|scope| {
                scope.spawn(|| queue.fill(source));
                let mut sum = 0;
                while let Some(op) = queue.wait() {
                    sum += 1;
                    assert!(drawn.load(Relaxed) <= sum + (MOST_QUEUED + DRAWN) as u64);
                    taken[op.path as usize % lanes].push(op.start);
                }
            });
            prop_assert_eq!(taken.iter().map(Vec::len).sum::<usize>() as u64, count);
            prop_assert!(taken.iter().all(|lane| lane.is_sorted()));
        }
    }

    #[test]
    fn devices_take_turns() {
        let request =
            |device, at| Arrival { at, device, request: Request { op: Kind::Read, pos: 0, length: 1 } };
        let queue = Queue::new(2);
        queue.fill((0..9).map(|at| request(0, at)).chain([request(1, 9), request(1, 10)]));
        let mut devices = Vec::new();
        while let Taken::One(op) = queue.try_take() {
            devices.push(op.path);
        }
        assert_eq!(devices, [0, 1, 0, 1, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(queue.taken(), 11);
    }

    #[test]
    fn a_model_repeats_later_and_otherwise() {
        let requests: Vec<Arrival> = writes(300, 1).map(|one| Arrival { at: one.at + 5000, ..one }).collect();
        let model = iotrail_model::fit::fit(&requests, 1, 1);
        let once: Vec<Arrival> = repeat(model.clone(), 3, false).collect();
        assert_eq!(once, Draw::new(&model, 3).collect::<Vec<_>>());
        let laps: Vec<Arrival> = repeat(model, 3, true).take(3 * once.len()).collect();
        assert!(laps.is_sorted_by_key(|one| one.at));
        assert_eq!(laps[..once.len()], once);
        assert!(laps[once.len()].at > once.last().unwrap().at);
    }
}
