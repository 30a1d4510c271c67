//! Posting records of requests (see [`iotrail_format::record`]), and the thread's breadcrumb.

use core::sync::atomic::Ordering::*;

use iotrail_format::ids::{LEASE, crumb_of, hash63, next_lease};
use iotrail_format::record::{CPU, FIRST_TYPE, WORDS};
use iotrail_format::segment::{CRUMB_SLICE, CRUMB_TAKEN, NONE, OP_CRUMB, OP_MORE, Slot};

use crate::attach::{self, ready, wants};
use crate::clock::ticks;
use crate::post;
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
        // SAFETY: a reserved slot is this thread's until its opcode is stored.
        unsafe {
            let slot = slot(thread, at);
            (*slot).kind = record.kind;
            (*slot).errno = extra as u8;
            (*slot).fd = record.small as i32;
            (*slot).start = record.start;
            (*slot).dur = record.dur;
            (*slot).object = record.crumb;
            [(*slot).pos, (*slot).length, (*slot).result, (*slot).aux] = record.words;
            (*slot).opcode.store(FIRST_TYPE + record.number, Release);
        }
    }
    thread.busy -= 1;
}

fn slot(thread: &Thread, position: u64) -> *mut Slot {
    // SAFETY: the index is masked to the ring's capacity.
    unsafe { thread.slots.add((position & thread.mask) as usize) }
}

#[cold]
fn fill_more(thread: &Thread, first: u64, more: &[i64]) {
    for (at, words) in more.chunks(WORDS.1).enumerate() {
        let slot = slot(thread, first + at as u64);
        let mut all = [NONE; WORDS.1];
        all[..words.len()].copy_from_slice(words);
        // SAFETY: a reserved slot is this thread's until its opcode is stored.
        unsafe {
            [(*slot).start, (*slot).dur] = [all[0] as u64, all[1] as u64];
            [(*slot).object, (*slot).pos, (*slot).length, (*slot).result, (*slot).aux] =
                [all[2], all[3], all[4], all[5], all[6]];
            (*slot).opcode.store(OP_MORE, Release);
        }
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
    // SAFETY: the calling thread's own state.
    let before = unsafe { core::mem::replace(&mut (*pointer).crumb, crumb) };
    if before != crumb && !attach::off() {
        let slice = if wants(usize::from(CPU)) { CRUMB_SLICE } else { 0 };
        let draft = post::Draft {
            opcode: OP_CRUMB,
            kind: slice | taken,
            fd: -1,
            object: crumb,
            pos: before,
            length: NONE,
            aux: NONE,
        };
        if !post::post_now(&draft) {
            attach::refuse_call();
        }
    }
    before
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
    let Some(control) = attach::control() else { return 0 };
    let now = crate::sys::clock_seconds(CLOCK_REALTIME);
    let mut last = control.lease.load(Relaxed);
    loop {
        let next = next_lease(last, now);
        match control.lease.compare_exchange_weak(last, next, Relaxed, Relaxed) {
            Ok(_) => return crumb_of(next, hash63(attach::session()) as u64) + 1,
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
