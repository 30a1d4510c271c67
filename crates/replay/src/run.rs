//! Doing the operations of a plan, each at its time, and posting each as a record.
//!
//! Each recorded thread has a thread here, so that its operations follow each other as they did. A trace of a
//! block device may have several (`depth`): its requests overlapped, and whoever is free takes the next.
//!
//! Before it begins, an operation waits for those of other threads that its plan names. As fast as possible it does so
//! only for what it needs to succeed (names, descriptors), and it is counted which found other data than they should.

use std::collections::HashSet;
use std::ffi::CString;
use std::os::unix::ffi::OsStrExt as _;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicU64, AtomicUsize, Ordering::*};
use std::sync::{Mutex, PoisonError};

use iotrail_causal::OpRef;
use iotrail_format::call::{Call, CallKind};
use iotrail_format::ids::FileId;
use iotrail_format::segment::{ProcessState, TextKind};
use iotrail_sdk::post::{self, Draft};
use iotrail_sdk::{attach, clock};

use crate::Error;
use crate::causal::Causes;
use crate::order::Wait;
use crate::parts::{Hear, Links};
use crate::plan::{Handle, NONE, Op, Origin, Plan, Thread};
use crate::prepare::noise;
use crate::spread::Spread;
use crate::target::Place;
use crate::uring;

/// When an operation is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// As soon as the one before it is done.
    Afap,
    /// As long after the one before it as in the trace.
    Think,
    /// At its time in the trace, whatever the one before it does.
    Timed,
    /// When its thread has computed as long as in the trace.
    Compute,
    /// As that, and when what it waited for there has happened.
    Causal,
}

impl Mode {
    /// Whether it takes what threads computed and waited for.
    #[must_use]
    pub fn is_scripted(self) -> bool {
        matches!(self, Self::Compute | Self::Causal)
    }
}

/// How operations reach the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Engine {
    /// By the system calls they were, each in a thread that waits for it.
    Psync,
    /// By one io_uring for each recorded thread: block traces only.
    IoUring,
}

impl Engine {
    /// Whether it can replay this plan here.
    ///
    /// # Errors
    /// [`Error::Place`] with what to do instead.
    pub fn check(self, plan: &Plan) -> Result<(), Error> {
        match self {
            Self::Psync => Ok(()),
            Self::IoUring if plan.devices.is_empty() => Err(Error::place(
                "--engine io_uring replays block traces only, and the trail holds other calls on files",
                "--engine psync replays it",
            )),
            Self::IoUring => uring::available(),
        }
    }
}

/// How to replay.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// How operations reach the kernel.
    pub engine: Engine,
    /// When operations are due.
    pub mode: Mode,
    /// All recorded times are multiplied by this.
    pub scale: f64,
    /// What was computed also by this, in modes that compute.
    pub compute: f64,
    /// Requests under way at once for each recorded thread of a block trace.
    pub depth: usize,
    /// Whether the target is opened with O_DIRECT.
    pub direct: bool,
    /// Whether what is written compresses to nothing.
    pub zeros: bool,
}

/// How it went.
#[derive(Clone, Debug, Default, serde::Serialize)]
pub struct Outcome {
    /// Operations done, of how many.
    pub ops: u64,
    /// Operations of the plan.
    pub planned: u64,
    /// Operations that had to wait for one of another thread.
    pub waited: u64,
    /// Operations that began before one was done whose data they should have found: in mode afap.
    pub order_broken: u64,
    /// Where in the trace it was interrupted, ns since its start: when the first operation began that was not done.
    pub interrupted_at: Option<i64>,
    /// From the first operation's start to the last one's return, ns.
    pub took: i64,
    /// The same in the trace, ns, times the scale.
    pub recorded: i64,
    /// In mode timed: how late operations began, ns.
    pub late: Option<Late>,
    /// CPU time of the threads that replayed, user and system, the system calls' own included, ns.
    pub cpu: i64,
    /// Why a thread could not go on, if one couldn't.
    pub stopped: Option<String>,
}

/// Distribution of lateness, ns, by the log-linear histogram.
#[derive(Clone, Copy, Debug, serde::Serialize)]
pub struct Late {
    /// Median.
    pub p50: i64,
    /// 99th percentile.
    pub p99: i64,
    /// Largest.
    pub max: i64,
    /// Operations that began over a millisecond late.
    pub over_ms: u64,
}

/// Sleep ends this much early; the rest is spun, because a sleeper wakes some tens of microseconds late.
const SPIN: i64 = 50_000;
/// Stack of a replaying thread: it calls nothing deep.
pub(crate) const STACK: usize = 256 << 10;
/// Alignment of buffers.
pub(crate) const PAGE: usize = 4096;

/// Set by whoever wants the replay to end: no operation begins any more.
static STOPPED: AtomicBool = AtomicBool::new(false);

/// Lets each thread end after the operation it is doing. To be called once, from a thread that handles signals.
pub fn stop() {
    STOPPED.store(true, SeqCst);
}

pub(crate) fn is_stopped() -> bool {
    STOPPED.load(Relaxed)
}

/// How long a sleeper doesn't look whether the replay was stopped, ns.
pub(crate) const NAP: i64 = 50_000_000;

/// A thread's progress, which others wait for.
pub(crate) struct Progress {
    /// All operations before this index are done.
    done: AtomicU32,
    /// Of each operation, if they may be done in another order.
    each: Vec<AtomicU64>,
    /// The first operation that somebody waits for.
    wanted: AtomicU32,
    /// Changes whenever waiters are woken.
    turn: AtomicU32,
}

impl Progress {
    fn of(thread: &Thread, overlaps: bool) -> Self {
        let words = if overlaps { thread.ops.len().div_ceil(64) } else { 0 };
        Self {
            done: AtomicU32::new(0),
            each: (0..words).map(|_| AtomicU64::new(0)).collect(),
            wanted: AtomicU32::new(u32::MAX),
            turn: AtomicU32::new(0),
        }
    }

    fn is_marked(&self, index: u32) -> bool {
        let word = self.each.get(index as usize / 64);
        word.is_some_and(|word| word.load(SeqCst) >> (index % 64) & 1 == 1)
    }

    /// Notes that an operation is done.
    pub(crate) fn advance(&self, index: u32) {
        if self.each.is_empty() {
            self.done.store(index + 1, SeqCst);
        } else {
            self.each[index as usize / 64].fetch_or(1 << (index % 64), SeqCst);
            loop {
                let done = self.done.load(SeqCst);
                if !self.is_marked(done) {
                    break;
                }
                let _ = self.done.compare_exchange(done, done + 1, SeqCst, SeqCst);
            }
        }
        let wanted = self.wanted.load(SeqCst);
        if wanted <= index || wanted < self.done.load(SeqCst) {
            // Whoever asked before the swap sees another turn, whoever asks after it is not forgotten.
            self.wanted.swap(u32::MAX, SeqCst);
            self.turn.fetch_add(1, SeqCst);
            futex(&self.turn, libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG, i32::MAX as u32, None);
        }
    }

    pub(crate) fn has(&self, index: u32, alone: bool) -> bool {
        self.done.load(SeqCst) > index || alone && self.is_marked(index)
    }

    /// Waits until an operation is done, with all before it unless it is meant `alone`. Whether that took time.
    pub(crate) fn wait(&self, index: u32, alone: bool) -> bool {
        if self.has(index, alone) {
            return false;
        }
        let nap = libc::timespec { tv_sec: 0, tv_nsec: NAP };
        loop {
            let turn = self.turn.load(SeqCst);
            self.wanted.fetch_min(index, SeqCst);
            if self.has(index, alone) || is_stopped() {
                return true;
            }
            futex(&self.turn, libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG, turn, Some(&nap));
        }
    }
}

pub(crate) fn futex(word: &AtomicU32, what: i32, value: u32, at_most: Option<&libc::timespec>) {
    let at_most = at_most.map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: futex(2) on an aligned word that outlives the call.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), what, value, at_most) };
}

pub(crate) fn now() -> i64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: a valid timespec.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    time.tv_sec * 1_000_000_000 + time.tv_nsec
}

/// Waits for a moment, or until the replay is stopped.
pub(crate) fn until(due: i64) {
    let early = due - SPIN;
    loop {
        let now = now();
        if now >= early || is_stopped() {
            break;
        }
        let wake = early.min(now + NAP);
        let time = libc::timespec { tv_sec: wake / 1_000_000_000, tv_nsec: wake % 1_000_000_000 };
        // SAFETY: a valid timespec; an interruption only makes the loop go round.
        unsafe {
            libc::clock_nanosleep(libc::CLOCK_MONOTONIC, libc::TIMER_ABSTIME, &raw const time, null_mut())
        };
    }
    while now() < due && !is_stopped() {
        std::hint::spin_loop();
    }
}

/// Page-aligned memory, as O_DIRECT wants it.
pub(crate) struct Buffer {
    pub(crate) start: *mut u8,
    length: usize,
}

// SAFETY: plain memory; writers and readers of it are the kernel, whose races only mix bytes nobody looks at.
unsafe impl Send for Buffer {}
// SAFETY: as above.
unsafe impl Sync for Buffer {}

impl Buffer {
    pub(crate) fn new(length: usize) -> Result<Self, Error> {
        let length = length.max(PAGE).next_multiple_of(PAGE);
        // SAFETY: a new anonymous mapping.
        let start = unsafe {
            libc::mmap(
                null_mut(),
                length,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(Error::io("get memory for", "buffers")(std::io::Error::last_os_error()));
        }
        Ok(Self { start: start.cast(), length })
    }

    /// Makes it at least this long.
    pub(crate) fn grow(&mut self, length: usize) -> Result<(), Error> {
        if length > self.length {
            *self = Self::new(length.next_power_of_two())?;
        }
        Ok(())
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: the mapping made above.
        unsafe { libc::munmap(self.start.cast(), self.length) };
    }
}

pub(crate) struct Shared<'a> {
    plan: &'a Plan,
    pub(crate) options: Options,
    paths: Vec<CString>,
    files: Vec<i64>,
    /// Of each path, the size to fold offsets at; 0 no folding.
    sizes: Vec<i64>,
    direct: i32,
    descriptors: Vec<AtomicI32>,
    pub(crate) progress: Vec<Progress>,
    pub(crate) source: Buffer,
    pub(crate) zero: i64,
    /// Whether operations are posted.
    pub(crate) is_recorded: bool,
    /// The other parts.
    pub(crate) links: Option<&'a Links>,
}

/// What other parts say is done here.
struct Ears<'a> {
    shared: &'a Shared<'a>,
    causes: &'a Causes,
    stopped: Mutex<Option<String>>,
}

impl Hear for Ears<'_> {
    fn signal(&self, edge: u32) {
        self.causes.signal(edge);
    }

    fn done(&self, op: OpRef) {
        self.shared.progress[op.thread as usize].advance(op.index);
    }

    fn stop(&self, why: String) {
        self.stopped.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(why);
        stop();
    }
}

/// What one thread found.
#[derive(Default)]
pub(crate) struct Found {
    pub(crate) ops: u64,
    pub(crate) waited: u64,
    pub(crate) order_broken: u64,
    pub(crate) interrupted_at: Option<i64>,
    pub(crate) late: Spread,
    pub(crate) end: i64,
    /// When the first operation began, in mode causal.
    begin: Option<i64>,
    pub(crate) cpu: i64,
    pub(crate) stopped: Option<String>,
}

impl Found {
    /// Notes that an operation begins.
    pub(crate) fn begins(&mut self) {
        self.begin.get_or_insert_with(now);
    }

    /// Notes that an operation returned.
    pub(crate) fn done(&mut self) {
        self.ops += 1;
        self.end = now();
    }
}

/// Replays a plan in a place, posting each operation into `session` (a recording session's directory).
///
/// # Errors
/// [`Error::Io`] if there is no memory or no thread, [`Error::Place`] if the session takes no records, or another part is gone before
/// the beginning.
pub fn run(
    plan: &Plan,
    place: &Place,
    options: Options,
    session: &[u8],
    links: Option<&Links>,
) -> Result<Outcome, Error> {
    if !attach::init(session) {
        return Err(Error::place("the replay can't record itself: its session is closed or full", None));
    }
    let ops = plan.threads.iter().flat_map(|thread| &thread.ops);
    let named: HashSet<u32> = ops.clone().flat_map(|op| [op.path, op.path2]).collect();
    let longest = |kind: CallKind| {
        let lengths = ops.clone().filter(|op| op.call.kind() == kind).map(|op| op.length.max(0));
        lengths.max().unwrap_or(0) as usize
    };
    let room = longest(CallKind::Read);
    // Under a root several files may be read and written by hundreds of threads: each waits for itself.
    let depth = if plan.overlaps && (plan.devices.len() == 1 || matches!(place, Place::Targets(_))) {
        options.depth.max(1)
    } else {
        1
    };
    let workers = if options.engine == Engine::Psync { depth } else { 1 };
    let mut shared =
        Shared::new(plan, place, options, longest(CallKind::Write), |path| named.contains(&path))?;
    shared.progress = plan.threads.iter().map(|thread| Progress::of(thread, depth > 1)).collect();
    shared.links = links;
    if let Some(links) = links {
        links.start()?;
    }
    shared.zero = now() + 20_000_000 + 50_000 * (plan.threads.len() * workers) as i64;
    let shared = shared;
    let scripts = plan
        .causality
        .as_ref()
        .filter(|_| options.mode.is_scripted())
        .map(|causality| causality.scripts(false));
    let causes = scripts.as_ref().map(Causes::of);
    let cursors: Vec<AtomicUsize> = plan.threads.iter().map(|_| AtomicUsize::new(0)).collect();
    let ears = causes.as_ref().map(|causes| Ears { shared: &shared, causes, stopped: Mutex::new(None) });
    let is_mine = |number: usize| links.is_none_or(|links| links.parts().is_mine(number));
    let found = std::thread::scope(|scope| {
        let mut listening = Vec::new();
        for number in 0..links.map_or(0, Links::count) {
            if let (Some(links), Some(ears)) = (links, &ears) {
                listening.push(scope.spawn(move || links.listen(number, plan, ears)));
            }
        }
        let mut running = Vec::new();
        let mut start = |number: usize, thread| -> Result<(), Error> {
            let script = scripts.as_ref().map(|scripts| &scripts.threads[number]).zip(causes.as_ref());
            let (shared, cursor) = (&shared, &cursors[number]);
            // requests under way at once read into memory of their own, as programs do
            let many = if options.engine == Engine::Psync { 1 } else { depth };
            let mut buffers = (0..many).map(|_| Buffer::new(room)).collect::<Result<Vec<_>, _>>()?;
            let work = move || match (options.engine, script) {
                (_, Some((script, causes))) => shared.replay_script(number, script, causes, &buffers[0]),
                (Engine::Psync, None) => shared.replay(number, thread, cursor, &buffers[0]),
                (Engine::IoUring, None) => uring::replay(shared, number, &mut buffers),
            };
            let builder = std::thread::Builder::new().stack_size(STACK);
            let started = builder.spawn_scoped(scope, work);
            running.push(started.map_err(Error::io("start a thread for", "the replay"))?);
            Ok(())
        };
        let mine = plan.threads.iter().enumerate().filter(|(number, _)| is_mine(*number));
        let mut all = mine.flat_map(|(number, thread)| {
            let is_scripted = usize::from(scripts.is_some());
            std::iter::repeat_n((number, thread), workers.min(thread.ops.len().max(is_scripted)))
        });
        let started = all.try_for_each(|(number, thread)| start(number, thread));
        if started.is_err() {
            // those that run would wait for one that doesn't
            stop();
        }
        let mut found: Vec<Found> =
            running.into_iter().map(|thread| thread.join().unwrap_or_default()).collect();
        if let Some(links) = links {
            links.end(is_stopped());
            listening.into_iter().for_each(|thread| drop(thread.join()));
            links.close();
            let why = ears.as_ref().and_then(|ears| ears.stopped.lock().ok()?.take());
            found.push(Found { stopped: why, ..Found::default() });
        }
        started.map(|()| found)
    })?;
    attach::image_ends(ProcessState::Exited, 0);
    Ok(shared.sum_up(found))
}

impl<'a> Shared<'a> {
    /// Opens what was open at the start, and posts the paths that are `named`. Writes are at most `longest` bytes.
    pub(crate) fn new(
        plan: &'a Plan,
        place: &Place,
        options: Options,
        longest: usize,
        named: impl Fn(u32) -> bool,
    ) -> Result<Self, Error> {
        let mut paths = Vec::new();
        let mut files = Vec::new();
        for (recorded, number) in plan.paths.iter().zip(0..) {
            let path = place.path_of(number, recorded);
            let path = std::path::absolute(&path).map_err(Error::io("find", path))?;
            let bytes = path.as_os_str().as_bytes();
            let file = FileId::of_path(bytes);
            if named(number) {
                post::text(TextKind::Path, file.0, bytes);
            }
            files.push(file.0);
            paths.push(CString::new(bytes).map_err(|error| Error::io("use", &path)(error.into()))?);
        }
        let source = Buffer::new(longest + (64 << 10))?;
        if !options.zeros {
            let noise = noise(source.length);
            // SAFETY: both are that long, and the buffer is new.
            unsafe { std::ptr::copy_nonoverlapping(noise.as_ptr(), source.start, source.length) };
        }
        let shared = Self {
            plan,
            options,
            paths,
            files,
            sizes: (0..plan.paths.len() as u32).map(|path| place.size_of(path)).collect(),
            direct: if options.direct { libc::O_DIRECT } else { 0 },
            descriptors: plan.handles.iter().map(|_| AtomicI32::new(-1)).collect(),
            progress: Vec::new(),
            source,
            zero: 0,
            is_recorded: true,
            links: None,
        };
        shared.open_what_was_open(place)?;
        Ok(shared)
    }

    /// The threads of this part.
    fn mine(&self) -> impl Iterator<Item = &Thread> {
        let is_mine = |number: usize| self.links.is_none_or(|links| links.parts().is_mine(number));
        self.plan
            .threads
            .iter()
            .enumerate()
            .filter(move |(number, _)| is_mine(*number))
            .map(|(_, thread)| thread)
    }

    fn sum_up(&self, found: Vec<Found>) -> Outcome {
        let mut outcome = Outcome {
            planned: self.mine().map(|thread| thread.ops.len() as u64).sum(),
            recorded: (self.plan.length as f64 * self.options.scale) as i64,
            ..Outcome::default()
        };
        let mut late = Spread::default();
        let (mut begin, mut end) = (i64::MAX, i64::MIN);
        for one in found {
            outcome.ops += one.ops;
            outcome.waited += one.waited;
            outcome.order_broken += one.order_broken;
            outcome.interrupted_at = outcome.interrupted_at.into_iter().chain(one.interrupted_at).min();
            if one.ops != 0 {
                begin = begin.min(one.begin.unwrap_or(self.zero));
                end = end.max(one.end);
            }
            outcome.cpu += one.cpu;
            outcome.stopped = outcome.stopped.or(one.stopped);
            late.merge(&one.late);
        }
        outcome.took = if outcome.ops == 0 { 0 } else { end - begin };
        if self.options.mode == Mode::Timed && late.count() != 0 {
            let (p50, p99) = (late.quantile(50), late.quantile(99));
            outcome.late = Some(Late { p50, p99, max: late.max(), over_ms: late.over_ms() });
        }
        outcome
    }

    /// Replays one thread, or a share of it.
    fn replay(&self, number: usize, thread: &Thread, cursor: &AtomicUsize, buffer: &Buffer) -> Found {
        // SAFETY: plain numbers.
        unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1) };
        attach::thread_began(clock::ticks());
        post::text(TextKind::ThreadName, 0, thread.id.to_string().as_bytes());
        let mut found = Found::default();
        let mut last: Option<(i64, &Op)> = None;
        let scale = self.options.scale;
        loop {
            let index = cursor.fetch_add(1, Relaxed);
            let Some(op) = thread.ops.get(index) else { break };
            let (names, data) = self.waits(op);
            let mut waited = false;
            for wait in names {
                waited |= self.progress[wait.thread as usize].wait(wait.index, wait.alone);
            }
            if self.options.mode == Mode::Afap {
                found.order_broken += u64::from(!self.are_done(data));
            } else {
                for wait in data {
                    waited |= self.progress[wait.thread as usize].wait(wait.index, wait.alone);
                }
            }
            let due = match (self.options.mode, last) {
                (Mode::Timed | Mode::Compute | Mode::Causal, _) => {
                    Some(self.zero + (op.start as f64 * scale) as i64)
                }
                (Mode::Think, Some((ended, before))) => {
                    let think = (op.start - before.start - before.dur).max(0);
                    Some(ended + (think as f64 * scale) as i64)
                }
                (Mode::Think, None) => Some(match thread.follows {
                    Some(last) => {
                        waited |= self.progress[last.thread as usize].wait(last.index, false);
                        let before = &self.plan.threads[last.thread as usize].ops[last.index as usize];
                        now() + ((op.start - before.start - before.dur).max(0) as f64 * scale) as i64
                    }
                    None => self.zero + (op.start as f64 * scale) as i64,
                }),
                (Mode::Afap, None) => {
                    if let Some(last) = thread.follows {
                        waited |= self.progress[last.thread as usize].wait(last.index, false);
                    }
                    Some(self.zero)
                }
                (Mode::Afap, Some(_)) => None,
            };
            found.waited += u64::from(waited);
            if let Some(due) = due {
                until(due);
                if self.options.mode == Mode::Timed {
                    found.late.add(now() - due);
                }
            }
            if is_stopped() {
                found.interrupted_at = Some(op.start);
                break;
            }
            self.perform(op, buffer);
            found.done();
            last = Some((found.end, op));
            self.progress[number].advance(index as u32);
        }
        attach::thread_ends();
        found.cpu = thread_cpu();
        found
    }

    /// What an operation waits for to succeed, and to find the data it should.
    pub(crate) fn waits(&self, op: &Op) -> (&[Wait], &[Wait]) {
        let (begin, middle, end) = op.after;
        let after = &self.plan.after;
        (&after[begin as usize..middle as usize], &after[middle as usize..end as usize])
    }

    pub(crate) fn are_done(&self, waits: &[Wait]) -> bool {
        waits.iter().all(|wait| self.progress[wait.thread as usize].has(wait.index, wait.alone))
    }

    pub(crate) fn thread(&self, number: usize) -> &Thread {
        &self.plan.threads[number]
    }

    /// Opens what was open before the recording saw it, as long as it has the name it had then. Under a root its open
    /// may be one that was not seen, of a file the trail makes: it is opened at its first use then.
    fn open_what_was_open(&self, place: &Place) -> Result<(), Error> {
        for (handle, descriptor) in self.plan.handles.iter().zip(&self.descriptors) {
            if handle.origin != Origin::Before {
                continue;
            }
            let fd = self.open_quietly(*handle);
            if let (true, Place::Targets(_)) = (fd < 0, place) {
                let error = std::io::Error::last_os_error();
                let path = self.paths[handle.path as usize].to_string_lossy().into_owned();
                return Err(Error::io("open", path)(error));
            }
            descriptor.store(fd, Release);
        }
        Ok(())
    }

    /// The descriptor of a handle; opens what was open before the recording, or came from a parent.
    pub(crate) fn descriptor(&self, handle: u32) -> i32 {
        let known = self.descriptors[handle as usize].load(Acquire);
        if known >= 0 {
            return known;
        }
        let this = self.plan.handles[handle as usize];
        let fd = match this.origin {
            Origin::Opened => return -1,
            Origin::Before => self.open_quietly(this),
            Origin::Inherited(from) => {
                let parent = self.descriptor(from);
                // SAFETY: a descriptor of this replay, or -1.
                let fd = unsafe { libc::fcntl(parent, libc::F_DUPFD_CLOEXEC, 0) };
                if fd >= 0 { fd } else { self.open_quietly(this) }
            }
        };
        match self.descriptors[handle as usize].compare_exchange(-1, fd, AcqRel, Acquire) {
            Ok(_) => fd,
            Err(other) => {
                // SAFETY: opened just above, and known to nobody.
                unsafe { libc::close(fd) };
                other
            }
        }
    }

    /// Opens a file that the plan has no open of; it isn't posted.
    fn open_quietly(&self, handle: Handle) -> i32 {
        let path = self.paths[handle.path as usize].as_ptr();
        let flags = handle.flags | libc::O_CLOEXEC | self.direct;
        // SAFETY: a NUL-terminated path.
        unsafe {
            let mut fd = libc::open(path, flags);
            if fd < 0 {
                fd = libc::open(path, flags & !libc::O_ACCMODE | libc::O_RDONLY);
            }
            if fd >= 0 {
                libc::lseek(fd, handle.pos, libc::SEEK_SET);
            }
            fd
        }
    }

    /// Does one operation and posts it: what it returned, and its error number.
    pub(crate) fn perform(&self, op: &Op, buffer: &Buffer) -> (i64, i32) {
        let fd = if op.handle == NONE { -1 } else { self.descriptor(op.handle) };
        let pos = self.place(op);
        let mut draft = self.draft(op, fd, pos);
        let pending = if self.is_recorded { post::begin(&draft) } else { None };
        let result = self.call(op, fd, pos, buffer);
        let errno = if result < 0 { std::io::Error::last_os_error().raw_os_error().unwrap_or(0) } else { 0 };
        if op.made != NONE && result >= 0 {
            self.descriptors[op.made as usize].store(result as i32, Release);
            if op.call != Call::Dup {
                draft.fd = result as i32;
            }
        }
        if let Some(pending) = pending {
            post::end(&pending, &draft, result, errno as u8);
        }
        (result, errno)
    }

    /// The record of an operation at an offset.
    pub(crate) fn draft(&self, op: &Op, fd: i32, pos: i64) -> Draft {
        let none = iotrail_format::segment::NONE;
        Draft {
            opcode: op.call as u16,
            kind: 0,
            fd,
            object: if op.path == NONE { 0 } else { self.files[op.path as usize] },
            pos: if pos < 0 { none } else { pos },
            length: if op.length < 0 { none } else { op.length },
            aux: match op.call {
                Call::Rename | Call::Link if op.path2 != NONE => self.files[op.path2 as usize],
                Call::Fread | Call::Fwrite | Call::Fflush | Call::Fclose | Call::Readdir => 1,
                _ => i64::from(op.flags),
            },
        }
    }

    /// The offset of an operation, on a target that may be smaller than the traced device.
    pub(crate) fn place(&self, op: &Op) -> i64 {
        let length = op.length.max(0);
        let size = self.sizes[op.path as usize];
        if size == 0 || op.pos < 0 || op.pos + length <= size {
            return op.pos;
        }
        let room = (size - length).max(0) / 512 * 512;
        if room == 0 { 0 } else { op.pos % room / 512 * 512 }
    }

    /// Whether the device of an operation is one that requests write to.
    pub(crate) fn is_written(&self, op: &Op) -> bool {
        self.plan.devices[op.path as usize].writes
    }

    /// The size of the target of an operation.
    pub(crate) fn size_of(&self, op: &Op) -> i64 {
        self.sizes[op.path as usize]
    }

    /// Where in the noise a write at an offset begins: elsewhere each time, at a page for O_DIRECT.
    pub(crate) fn noise_at(&self, offset: i64) -> *const u8 {
        // SAFETY: the source is 64 KiB longer than the longest write.
        unsafe { self.source.start.add((offset as usize / PAGE % 15) * PAGE) }
    }

    fn call(&self, op: &Op, fd: i32, pos: i64, buffer: &Buffer) -> i64 {
        let path = if op.path == NONE { c"".as_ptr() } else { self.paths[op.path as usize].as_ptr() };
        let into = if op.path2 == NONE { c"".as_ptr() } else { self.paths[op.path2 as usize].as_ptr() };
        let length = op.length.max(0) as usize;
        let offset = pos.max(0);
        // SAFETY: paths are NUL-terminated; buffers are at least as long as the longest read, and write plus
        // shift; attributes are plain memory.
        unsafe {
            let write_from = self.noise_at(offset).cast();
            let mut attributes: libc::stat = std::mem::zeroed();
            match op.call {
                Call::Open | Call::Fopen | Call::Mkstemp => {
                    let flags = match op.call {
                        Call::Mkstemp => libc::O_RDWR | libc::O_CREAT | libc::O_EXCL,
                        _ => op.flags,
                    };
                    libc::open(path, flags | libc::O_CLOEXEC, 0o644).into()
                }
                Call::Creat => {
                    libc::open(path, libc::O_WRONLY | libc::O_CREAT | libc::O_TRUNC | libc::O_CLOEXEC, 0o644)
                        .into()
                }
                Call::Opendir => {
                    libc::open(path, libc::O_RDONLY | libc::O_DIRECTORY | libc::O_CLOEXEC).into()
                }
                Call::Close | Call::Fclose | Call::Closedir => {
                    self.descriptors[op.handle as usize].store(-1, Release);
                    libc::close(fd).into()
                }
                Call::Dup => libc::fcntl(fd, libc::F_DUPFD_CLOEXEC, 0).into(),
                Call::Lseek | Call::Fseek => libc::lseek(fd, op.result.max(0), libc::SEEK_SET),
                Call::Stat if op.flags & libc::AT_SYMLINK_NOFOLLOW != 0 => {
                    libc::lstat(path, &raw mut attributes).into()
                }
                Call::Stat => libc::stat(path, &raw mut attributes).into(),
                Call::Fstat => libc::fstat(fd, &raw mut attributes).into(),
                Call::Access => libc::access(path, libc::F_OK).into(),
                Call::Statfs => {
                    let mut found: libc::statfs = std::mem::zeroed();
                    libc::statfs(path, &raw mut found).into()
                }
                Call::Readlink => libc::readlink(path, buffer.start.cast(), PAGE) as i64,
                Call::Truncate if op.handle != NONE => libc::ftruncate(fd, length as i64).into(),
                Call::Truncate => libc::truncate(path, length as i64).into(),
                Call::Fallocate => libc::fallocate(fd, op.flags, offset, length as i64).into(),
                Call::Fadvise => libc::posix_fadvise(fd, offset, length as i64, op.flags).into(),
                Call::Chmod if op.handle != NONE => libc::fchmod(fd, 0o644).into(),
                Call::Chmod => libc::chmod(path, 0o644).into(),
                Call::Utimes if op.handle != NONE => libc::futimens(fd, std::ptr::null()).into(),
                Call::Utimes => libc::utimensat(libc::AT_FDCWD, path, std::ptr::null(), 0).into(),
                Call::Rename => libc::rename(path, into).into(),
                Call::Link => libc::link(path, into).into(),
                Call::Unlink => libc::unlink(path).into(),
                Call::Mkdir => libc::mkdir(path, 0o755).into(),
                Call::Rmdir => libc::rmdir(path).into(),
                Call::Readdir => libc::syscall(libc::SYS_getdents64, fd, buffer.start, PAGE),
                Call::Read | Call::Readv | Call::Fread => libc::read(fd, buffer.start.cast(), length) as i64,
                Call::Pread | Call::Preadv => libc::pread(fd, buffer.start.cast(), length, offset) as i64,
                Call::Write | Call::Writev | Call::Fwrite | Call::Fflush => {
                    libc::write(fd, write_from, length) as i64
                }
                Call::Pwrite | Call::Pwritev => libc::pwrite(fd, write_from, length, offset) as i64,
                Call::Fsync => libc::fsync(fd).into(),
                Call::Fdatasync => libc::fdatasync(fd).into(),
                Call::SyncFileRange => {
                    libc::sync_file_range(fd, offset, length as i64, op.flags as u32).into()
                }
                // A plan holds no other call.
                _ => 0,
            }
        }
    }
}

pub(crate) fn thread_cpu() -> i64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: a valid timespec.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    time.tv_sec * 1_000_000_000 + time.tv_nsec
}
