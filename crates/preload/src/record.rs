//! The few shapes that recorded calls have: on a descriptor, on a path, waiting.

use core::ffi::c_int;

use iotrail_format::call::{Call, WaitKind};
use iotrail_format::segment::NONE;
use iotrail_sdk::attach;
use iotrail_sdk::post::{self, Draft};

use crate::descriptors::{self, Target};
use crate::real::errno;

/// What a call returned, as a number, and whether that means failure.
pub trait Outcome: Copy {
    /// The value for the record.
    fn value(self) -> i64;
    /// Whether `errno` tells why it failed.
    fn failed(self) -> bool;
}

impl Outcome for c_int {
    fn value(self) -> i64 {
        i64::from(self)
    }
    fn failed(self) -> bool {
        self < 0
    }
}

impl Outcome for isize {
    fn value(self) -> i64 {
        self as i64
    }
    fn failed(self) -> bool {
        self < 0
    }
}

impl Outcome for i64 {
    fn value(self) -> i64 {
        self
    }
    fn failed(self) -> bool {
        self < 0
    }
}

/// A pointer: null, or MAP_FAILED, is failure.
impl<T> Outcome for *mut T {
    fn value(self) -> i64 {
        self as i64
    }
    fn failed(self) -> bool {
        self.is_null() || self as isize == -1
    }
}

#[inline(always)]
fn error_of(outcome: impl Outcome) -> u8 {
    if outcome.failed() { errno() as u8 } else { 0 }
}

/// A draft of `call` with nothing else known.
#[inline(always)]
pub fn draft(call: Call) -> Draft {
    Draft { opcode: call as u16, kind: 0, fd: -1, object: 0, pos: NONE, length: NONE, aux: NONE }
}

/// Makes a call and posts it as `draft` says, which `after` may complete from the result.
#[inline(always)]
pub fn call<R: Outcome>(mut draft: Draft, run: impl FnOnce() -> R, after: impl FnOnce(&mut Draft, R)) -> R {
    let pending = post::begin(&draft);
    let outcome = run();
    if let Some(pending) = pending {
        let error = error_of(outcome);
        after(&mut draft, outcome);
        post::end(&pending, &draft, outcome.value(), error);
    } else {
        after(&mut draft, outcome);
    }
    outcome
}

/// A call whose result is an error number.
#[inline(always)]
pub fn call_errno(draft: Draft, run: impl FnOnce() -> c_int) -> c_int {
    call_errno_then(draft, run, |_| {})
}

/// As [`call_errno`]; `after` completes the draft if the call succeeded.
#[inline(always)]
pub fn call_errno_then(
    mut draft: Draft,
    run: impl FnOnce() -> c_int,
    after: impl FnOnce(&mut Draft),
) -> c_int {
    let pending = post::begin(&draft);
    let number = run();
    if let Some(pending) = pending {
        if number == 0 {
            after(&mut draft);
        }
        // Below 0 is no error number (PTHREAD_BARRIER_SERIAL_THREAD).
        post::end(&pending, &draft, i64::from(number), number.max(0) as u8);
    }
    number
}

/// Moves bytes through a descriptor at `pos`, or at its position where `pos` is [`NONE`].
#[inline(always)]
pub fn transfer(
    kind: Call,
    fd: c_int,
    pos: i64,
    length: i64,
    flags: i64,
    writes: bool,
    run: impl FnOnce() -> isize,
) -> isize {
    if attach::off() {
        return run();
    }
    let target = descriptors::target(fd);
    let (at, aux) = if target.kind == 0 { (pos, flags) } else { (NONE, target.other_end()) };
    let Target { entry, kind: wait, object } = target;
    let mut draft = Draft { opcode: kind as u16, kind: wait, fd, object, pos: at, length, aux };
    let sequential = pos == NONE && wait == 0;
    if sequential && let Some(entry) = entry {
        draft.pos = entry.position(fd);
    }
    let pending = post::begin(&draft);
    let moved = run();
    let error = error_of(moved);
    if sequential && let Some(entry) = entry {
        let at = entry.moved(fd, moved, writes);
        if at != NONE {
            draft.pos = at;
        }
    }
    if let Some(pending) = pending {
        post::end(&pending, &draft, moved as i64, error);
    }
    moved
}

/// A call on a descriptor that moves no bytes.
#[inline(always)]
pub fn on_descriptor<R: Outcome>(
    kind: Call,
    fd: c_int,
    length: i64,
    flags: i64,
    run: impl FnOnce() -> R,
) -> R {
    if attach::off() {
        return run();
    }
    let target = descriptors::known(fd);
    call(
        Draft { opcode: kind as u16, kind: 0, fd, object: target, pos: NONE, length, aux: flags },
        run,
        |_, _| {},
    )
}

/// A call that waits.
#[inline(always)]
pub fn wait<R: Outcome>(
    kind: Call,
    what: WaitKind,
    object: i64,
    peer: i64,
    length: i64,
    run: impl FnOnce() -> R,
) -> R {
    if attach::off() {
        return run();
    }
    call(wait_draft(kind, what, object, peer, length), run, |_, _| {})
}

/// A waiting call whose result is an error number.
#[inline(always)]
pub fn wait_errno(kind: Call, what: WaitKind, object: i64, peer: i64, run: impl FnOnce() -> c_int) -> c_int {
    if attach::off() {
        return run();
    }
    call_errno(wait_draft(kind, what, object, peer, NONE), run)
}

#[inline(always)]
fn wait_draft(kind: Call, what: WaitKind, object: i64, peer: i64, length: i64) -> Draft {
    Draft { opcode: kind as u16, kind: what as u8, fd: -1, object, pos: NONE, length, aux: peer }
}
