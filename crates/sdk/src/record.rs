//! Posting records of requests (see [`iotrail_format::record`]), and the thread's breadcrumb.

use core::sync::atomic::Ordering::*;

use iotrail_format::ids::{LEASE, crumb_of, crumb_of_thread, hash63, next_lease};
use iotrail_format::record::{CPU, FIRST_TYPE, WORDS};
use iotrail_format::segment::{CRUMB_SLICE, CRUMB_TAKEN, NONE, OP_CRUMB, OP_MORE};

use crate::attach::{self, ready, wants};
use crate::clock::ticks;
use crate::cpu;
use crate::post::{self, Draft};
use crate::session;
use crate::thread::{self, Thread};

/// A record as it will stand in its slot; see [`iotrail_format::record`] for the fields.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Record {
    /// The type's number.
    pub number: u16,
    /// See [`iotrail_format::record::Wire::Kind`].
    pub kind: u8,
    /// Must be 0.
    pub extra: u8,
    /// See [`iotrail_format::record::Wire::Small`].
    pub small: u32,
    /// Counter at its begin.
    pub start: u64,
    /// Counter ticks it took; 0 an instant.
    pub dur: u64,
    /// Breadcrumb; 0 none.
    pub crumb: i64,
    /// The first words.
    pub words: [i64; WORDS.0],
}

/// Whether records of a type are wanted: a program is being recorded, and nobody turned the type off.
#[inline(always)]
#[must_use]
pub fn on(number: u16) -> bool {
    wants(usize::from(number))
}

/// Posts a record whose type is [`on`]; `more` are the words that don't fit into the first slot.
/// What finds no room is dropped and counted.
#[inline]
pub fn post(record: &Record, more: &[i64]) {
    let pointer = thread::current();
    // SAFETY: the calling thread's own state.
    if !ready(unsafe { &*pointer }) && !attach::enter(pointer) {
        attach::refuse_call();
        return;
    }
    // SAFETY: as above; a nested handler's use ends before this one goes on.
    let thread = unsafe { &mut *pointer };
    thread.busy += 1;
    let extra = if more.is_empty() { 0 } else { iotrail_format::record::extra(WORDS.0 + more.len()) };
    if let Some(at) = post::reserve_at(thread, 1 + extra as u64) {
        if extra != 0 {
            fill_more(thread, at + 1, more);
        }
        let [pos, length, result, aux] = record.words;
        let fd = record.small as i32;
        let draft = Draft {
            opcode: FIRST_TYPE + record.number,
            kind: record.kind,
            fd,
            object: record.crumb,
            pos,
            length,
            aux,
        };
        post::put(post::slot(thread, at), record.start, record.dur, &draft, result, extra as u8);
    }
    thread.busy -= 1;
}

#[cold]
fn fill_more(thread: &Thread, first: u64, more: &[i64]) {
    for (at, words) in more.chunks(WORDS.1).enumerate() {
        let mut all = [NONE; WORDS.1];
        all[..words.len()].copy_from_slice(words);
        let [start, dur, object, pos, length, result, aux] = all;
        let draft = Draft { opcode: OP_MORE, kind: 0, fd: 0, object, pos, length, aux };
        post::put(post::slot(thread, first + at as u64), start as u64, dur as u64, &draft, result, 0);
    }
}

/// The breadcrumb the calling thread works for; 0 none.
#[inline(always)]
#[must_use]
pub fn crumb() -> i64 {
    // SAFETY: the calling thread's own state.
    unsafe { (*thread::current()).crumb }
}

/// Sets the breadcrumb the calling thread works for and returns the one before. What the thread does from
/// now on, its calls and its time on the CPU, is for that one.
#[inline]
pub fn set_crumb(crumb: i64) -> i64 {
    go_on_for(crumb, 0)
}

/// As [`set_crumb`], for work that the thread took out of a queue or off a connection: its time on the CPU since it
/// left the breadcrumb before, by which it got here, is for this one too.
#[inline]
pub fn take_crumb(crumb: i64) -> i64 {
    go_on_for(crumb, CRUMB_TAKEN)
}

#[inline(always)]
fn go_on_for(crumb: i64, taken: u8) -> i64 {
    let pointer = thread::current();
    // A thread that attaches says what it works for: that is still the breadcrumb before.
    // SAFETY: the calling thread's own state.
    let ready = !attach::off() && (ready(unsafe { &*pointer }) || attach::enter(pointer));
    // SAFETY: as above; a nested handler's use ends before this one goes on.
    let thread = unsafe { &mut *pointer };
    let before = core::mem::replace(&mut thread.crumb, crumb);
    if before != crumb && !attach::off() {
        if !ready {
            attach::refuse_call();
            return before;
        }
        thread.busy += 1;
        if !mark(thread, before, taken) {
            attach::refuse_call();
        }
        thread.busy -= 1;
    }
    before
}

/// Posts what the thread works for from now on, and its CPU clock. The thread is inside the recorder ([`Thread::busy`]).
pub(crate) fn mark(thread: &mut Thread, before: i64, taken: u8) -> bool {
    let slice = wants(usize::from(CPU));
    let now = ticks();
    let draft = Draft {
        opcode: OP_CRUMB,
        kind: if slice { CRUMB_SLICE | taken } else { taken },
        fd: -1,
        object: thread.crumb,
        pos: before,
        length: if slice { cpu::clock(thread, now) } else { NONE },
        aux: NONE,
    };
    post::post(thread, now, 0, &draft, 0, 0)
}

/// A breadcrumb nobody has used on this node; 0 if nothing is being recorded.
#[inline]
#[must_use]
pub fn new_crumb() -> i64 {
    let pointer = thread::current();
    // SAFETY: the calling thread's own state.
    if attach::off() || (!ready(unsafe { &*pointer }) && !attach::enter(pointer)) {
        return 0;
    }
    // SAFETY: as above.
    let thread = unsafe { &mut *pointer };
    if thread.leased & (LEASE as i64 - 1) == 0 {
        thread.leased = lease();
        if thread.leased == 0 {
            return 0;
        }
    }
    let crumb = thread.leased;
    // The last one of a block leaves a multiple of a lease, for which a new block is taken.
    thread.leased += 1;
    crumb
}

/// The first usable breadcrumb of a new block; its very first is left out, because its low bits are 0.
#[cold]
fn lease() -> i64 {
    const CLOCK_REALTIME: usize = 0;
    if session::control().is_none() {
        return 0;
    }
    let now = crate::sys::clock_seconds(CLOCK_REALTIME);
    let Some(control) = session::counters() else {
        // SAFETY: no arguments.
        return crumb_of_thread(now, unsafe { crate::sys::gettid() } as u32, ticks()) + 1;
    };
    let recording = hash63(session::directory()) as u64;
    let mut last = control.lease.load(Relaxed);
    loop {
        let next = next_lease(last, now);
        match control.lease.compare_exchange_weak(last, next, Relaxed, Relaxed) {
            Ok(_) => return crumb_of(next, recording) + 1,
            Err(other) => last = other,
        }
    }
}

/// A record of one instant.
#[inline]
#[must_use]
pub fn instant(number: u16, kind: u8, crumb: i64) -> Record {
    Record { number, kind, extra: 0, small: 0, start: ticks(), dur: 0, crumb, words: [NONE; WORDS.0] }
}
