//! A thread's own CPU clock: how much of its time between calls, and inside them, it was on a CPU.
//!
//! The clock is read where an outermost call begins or ends, and only when [`PACE`] has passed since the last
//! reading, so that each long call and each long stretch between calls is bracketed by two readings, while calls
//! that follow each other fast share one. A reading is one system call (0.2 to 0.4 µs). What was read is added up
//! and posted as one [`OP_TIME`] record each [`ROW`], and when the thread or its image ends: a thread that waits for
//! an hour has one record for it. Where causality is recorded each reading is a record: what a thread computed between two
//! calls is replayed.
//!
//! Where a stretch holds several short calls, its time off the CPU is taken from the piece that is more than half
//! of it, else from calls that wait, then from calls on files, then from the time between calls. Each long piece is
//! therefore wrong by less than [`PACE`].

use core::sync::atomic::{AtomicU64, Ordering::*};

use iotrail_format::segment::{NONE, OP_TIME};

use crate::post::{self, Draft};
use crate::thread::Thread;
use crate::{attach, clock, sys, throttle};

/// Counter ticks between two readings: 60 to 125 µs at 2 to 4 GHz.
const PACE: u64 = 250_000;
/// Counter ticks that one record covers at least, except a thread's last one: 60 to 125 ms.
const ROW: u64 = 250_000_000;
/// A last record shorter than this (10 µs) is left out: an image's end is announced twice.
const SHORTEST: u64 = 25_000;
/// Counter ticks that a reading at a change of breadcrumb stands for: 15 to 30 µs. Going to sleep and waking takes several
/// of them, and a reading, a system call, up to one.
const FRESH: u64 = 60_000;
/// clock_gettime(2): CPU time of the calling thread.
const CLOCK_THREAD_CPUTIME_ID: usize = 3;
/// getrusage(2): of the calling thread.
const RUSAGE_THREAD: usize = 1;

/// Nanoseconds a tick, times 2^32; 0 not yet measured.
static NS_PER_TICK: AtomicU64 = AtomicU64::new(0);

/// What is known of a thread's CPU time.
#[derive(Default)]
#[repr(C)]
pub(crate) struct CpuTime {
    /// Counter and CPU clock (nanoseconds) at the last reading.
    read_ticks: u64,
    read_ns: u64,
    /// Counter when the last outermost call ended.
    pub(crate) left_ticks: u64,
    /// Ticks in outermost calls on files, and in those that wait, since the last reading.
    pub(crate) in_io: u64,
    pub(crate) in_wait: u64,
    /// Since when the record under way counts.
    row_ticks: u64,
    /// On a CPU outside calls, off a CPU outside calls, on a CPU in calls on files, and in calls that wait.
    outside: u64,
    away: u64,
    io: u64,
    wait: u64,
    /// [`usage`] when the record under way began.
    minor: u64,
    major: u64,
    voluntary: u64,
}

impl CpuTime {
    pub(crate) const ZERO: Self = Self {
        read_ticks: 0,
        read_ns: 0,
        left_ticks: 0,
        in_io: 0,
        in_wait: 0,
        row_ticks: 0,
        outside: 0,
        away: 0,
        io: 0,
        wait: 0,
        minor: 0,
        major: 0,
        voluntary: 0,
    };
}

/// What took the larger part of the time since the last reading.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Longest {
    Outside,
    Io,
    Wait,
    Unknown,
}

/// Whether the clock may be read. Every system call of this module is behind it.
fn may_read(thread: &Thread) -> bool {
    // While a vfork child may run on this thread's memory, the clock would be another thread's.
    !crate::thread::is_confined() && thread.vfork == 0
}

/// CPU time of the calling thread, nanoseconds.
fn cpu_ns() -> u64 {
    let mut time = [0i64; 2];
    // SAFETY: `time` is a writable timespec.
    unsafe { sys::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    time[0] as u64 * 1_000_000_000 + time[1] as u64
}

/// CPU time of the calling thread at `now`, nanoseconds; [`NONE`] where the clock may not be read. A reading stands for
/// [`FRESH`]: until then the thread is taken to have been on its CPU.
pub(crate) fn clock(thread: &mut Thread, now: u64) -> i64 {
    if !may_read(thread) {
        return NONE;
    }
    if NS_PER_TICK.load(Relaxed) == 0 {
        measure_rate();
    }
    let since = now.wrapping_sub(thread.marked_ticks);
    if thread.marked_ticks != 0 && since < FRESH && NS_PER_TICK.load(Relaxed) != 0 {
        return (thread.marked_ns + ns(since)) as i64;
    }
    (thread.marked_ticks, thread.marked_ns) = (now, cpu_ns());
    thread.marked_ns as i64
}

/// Minor and major page faults and voluntary context switches of the calling thread so far.
fn usage() -> [u64; 3] {
    let mut usage = [0i64; 18];
    // SAFETY: `usage` is as large as `struct rusage`: two timevals, then maxrss, ixrss, idrss, isrss, minflt (8),
    // majflt (9), nswap, inblock, oublock, msgsnd, msgrcv, nsignals, nvcsw (16), nivcsw.
    unsafe { sys::getrusage(RUSAGE_THREAD, usage.as_mut_ptr().cast()) };
    [usage[8] as u64, usage[9] as u64, usage[16] as u64]
}

/// Measures the counter's rate against CLOCK_MONOTONIC, since this image began.
fn measure_rate() {
    let Some(header) = attach::header() else { return };
    let (ticks, mono) = (clock::ticks(), sys::monotonic());
    let (ticks, mono) = (ticks.wrapping_sub(header.start_ticks), mono.wrapping_sub(header.start_mono));
    // Below 50 µs the two readings' own time would be seen in it.
    if (50_000..1 << 60).contains(&mono) && ticks > 0 {
        NS_PER_TICK.store(((u128::from(mono) << 32) / u128::from(ticks)) as u64, Relaxed);
    }
}

fn ns(ticks: u64) -> u64 {
    ((u128::from(ticks) * u128::from(NS_PER_TICK.load(Relaxed))) >> 32) as u64
}

/// Begins to count: the calling thread is new, or another one since a fork.
#[cold]
pub(crate) fn begin(thread: &mut Thread) {
    // A handler that interrupts this must not read.
    thread.due = u64::MAX;
    if !may_read(thread) {
        return;
    }
    let now = clock::ticks();
    let [minor, major, voluntary] = usage();
    thread.cpu = CpuTime {
        read_ticks: now,
        read_ns: cpu_ns(),
        left_ticks: now,
        row_ticks: now,
        minor,
        major,
        voluntary,
        ..CpuTime::ZERO
    };
    thread.due = next_due(now);
}

/// An outermost call is about to begin at `now`, and a reading is due.
#[cold]
#[inline(never)]
pub(crate) fn before_call(thread: &mut Thread, now: u64, draft: &Draft) {
    if throttle::is_on() {
        throttle::before_call(thread, draft);
        if is_early(thread, now) {
            return;
        }
    }
    let time = &thread.cpu;
    let outside = now.wrapping_sub(time.left_ticks) > now.wrapping_sub(time.read_ticks) / 2;
    advance(thread, now, if outside { Longest::Outside } else { Longest::Unknown });
}

/// An outermost call that took `dur` has ended at `now`, and a reading is due.
#[cold]
#[inline(never)]
pub(crate) fn after_call(thread: &mut Thread, now: u64, dur: u64, draft: &Draft, result: i64, errno: u8) {
    let waits = draft.kind != 0;
    if throttle::is_on() {
        throttle::after_call(thread, draft, result, errno);
        if is_early(thread, now) {
            return;
        }
    }
    let longest = match (dur > now.wrapping_sub(thread.cpu.read_ticks) / 2, waits) {
        (false, _) => Longest::Unknown,
        (true, false) => Longest::Io,
        (true, true) => Longest::Wait,
    };
    advance(thread, now, longest);
}

/// Whether the clock was read less than [`PACE`] ago: a thread that is followed comes here at each call.
fn is_early(thread: &Thread, now: u64) -> bool {
    thread.due == throttle::ALWAYS && now.wrapping_sub(thread.cpu.read_ticks) < PACE
}

/// When the clock is to be read again after `now`.
fn next_due(now: u64) -> u64 {
    if throttle::is_on() { throttle::ALWAYS } else { now.wrapping_add(PACE) }
}

fn advance(thread: &mut Thread, now: u64, longest: Longest) {
    thread.due = u64::MAX;
    if !may_read(thread) {
        if thread.vfork != 0 {
            thread.due = next_due(now);
        }
        return;
    }
    if NS_PER_TICK.load(Relaxed) == 0 {
        measure_rate();
    }
    read(thread, now, longest);
    if now.wrapping_sub(thread.cpu.row_ticks) >= ROW || attach::is_causal() {
        post_row(thread);
    }
    thread.due = next_due(now);
}

/// Reads the clock and shares out the time since the last reading.
fn read(thread: &mut Thread, now: u64, longest: Longest) {
    let clock = cpu_ns();
    let time = &mut thread.cpu;
    let wall = ns(now.wrapping_sub(time.read_ticks));
    let on = clock.wrapping_sub(time.read_ns).min(wall);
    let io = ns(time.in_io).min(wall);
    let wait = ns(time.in_wait).min(wall - io);
    let mut pieces = [wall - io - wait, io, wait];
    let mut off = wall - on;
    let first = match longest {
        Longest::Outside => 0,
        Longest::Io => 1,
        Longest::Wait | Longest::Unknown => 2,
    };
    for piece in [first, 2, 1, 0] {
        let taken = off.min(pieces[piece]);
        pieces[piece] -= taken;
        off -= taken;
        if piece == 0 {
            time.away += taken;
        }
    }
    time.outside += pieces[0];
    time.io += pieces[1];
    time.wait += pieces[2];
    (time.read_ticks, time.read_ns, time.in_io, time.in_wait) = (now, clock, 0, 0);
}

/// Posts what was added up and begins anew. Without room it goes on adding: no call of the program is lost by that.
fn post_row(thread: &mut Thread) {
    if !post::has_room(thread) {
        return;
    }
    let [minor, major, voluntary] = usage();
    let time = &thread.cpu;
    let low = |now: u64, before: u64| now.wrapping_sub(before).min(u64::from(u32::MAX >> 1)) as i64;
    let draft = Draft {
        opcode: OP_TIME,
        kind: 0,
        fd: low(minor, time.minor) as i32,
        object: time.outside as i64,
        pos: time.away as i64,
        length: time.io as i64,
        aux: low(major, time.major) | low(voluntary, time.voluntary) << 32,
    };
    let (start, dur, wait) = (time.row_ticks, time.read_ticks.wrapping_sub(time.row_ticks), time.wait);
    post::post(thread, start, dur, &draft, wait as i64, 0);
    let time = &mut thread.cpu;
    time.row_ticks = time.read_ticks;
    (time.outside, time.away, time.io, time.wait) = (0, 0, 0, 0);
    (time.minor, time.major, time.voluntary) = (minor, major, voluntary);
    measure_rate();
}

/// Posts what is left: the thread or its image ends. The thread is inside the recorder ([`Thread::busy`]).
#[cold]
pub(crate) fn finish(thread: &mut Thread) {
    if thread.due == 0 || !may_read(thread) {
        return;
    }
    thread.due = u64::MAX;
    let now = clock::ticks();
    if now.wrapping_sub(thread.cpu.row_ticks) >= SHORTEST {
        measure_rate();
        let outside = now.wrapping_sub(thread.cpu.left_ticks) > now.wrapping_sub(thread.cpu.read_ticks) / 2;
        read(thread, now, if outside { Longest::Outside } else { Longest::Unknown });
        post_row(thread);
    }
    thread.due = next_due(now);
}
