//! Event counters and signals that are read, with `record --causal`: which counter a descriptor is, and what is added to it and taken
//! from it (eventfd(2)); which signal came, and from whom (signalfd(2)).

use core::ffi::{c_int, c_uint, c_void};
use core::sync::atomic::{AtomicI64, Ordering::*};

use iotrail_format::call::{Call, WaitKind};
use iotrail_format::ids::hash63;
use iotrail_sdk::post::{self, Draft};
use iotrail_sdk::{attach, clock};
use libc::ssize_t;

use crate::descriptors;
use crate::real::interpose;
use crate::record::{call, draft};

/// Bytes of a value.
const VALUE: usize = size_of::<u64>();
/// Bytes of what says of a signal.
const INFORMATION: usize = size_of::<libc::signalfd_siginfo>();
/// All signalfds have this id: what /proc calls them (proc(5)).
const SIGNALFD: i64 = hash63(b"anon_inode:[signalfd]");

/// One was made, with its first value. All of them share one inode: its id is of the process that made it and a number there.
pub fn made(fd: c_int, value: c_uint) {
    static NEXT: AtomicI64 = AtomicI64::new(0);
    let mut name = [0; 2 * size_of::<i64>()];
    name[..8].copy_from_slice(&attach::process().to_le_bytes());
    name[8..].copy_from_slice(&NEXT.fetch_add(1, Relaxed).to_le_bytes());
    let object = hash63(&name);
    descriptors::made_event(fd, object);
    let on = Draft { object, length: value.into(), ..on(Call::Eventfd, fd) };
    post::interval(&on, clock::ticks(), 0, fd.into(), 0);
}

fn on(kind: Call, fd: c_int) -> Draft {
    Draft { kind: WaitKind::Event as u8, fd, ..draft(kind) }
}

/// Whether a transfer of so many bytes may be that of an event counter's value, or of signals.
#[inline(always)]
pub fn is_event(fd: c_int, length: usize) -> bool {
    (length == VALUE || length >= INFORMATION)
        && !attach::off()
        && attach::is_causal()
        && descriptors::target(fd).kind == WaitKind::Event as u8
}

/// A read or write of a value, or a read of signals, which its row has: of several signals the first.
///
/// # Safety
/// `data` is where the program wants or has so many bytes.
#[inline(never)]
pub unsafe fn transfer(
    kind: Call,
    fd: c_int,
    data: *const c_void,
    length: usize,
    run: impl FnOnce() -> ssize_t,
) -> ssize_t {
    let object = descriptors::known(fd);
    call(Draft { object, length: length as i64, ..on(kind, fd) }, run, |draft, moved| {
        if object == SIGNALFD {
            if moved >= INFORMATION as ssize_t {
                // SAFETY: the call has just read it.
                let of = unsafe { data.cast::<libc::signalfd_siginfo>().read_unaligned() };
                draft.pos = of.ssi_signo.into();
                draft.aux = crate::waits::sender(of.ssi_code, of.ssi_pid as libc::pid_t);
            }
        } else if moved == VALUE as ssize_t && length == VALUE {
            // SAFETY: the call has just read or written it.
            draft.pos = unsafe { data.cast::<i64>().read_unaligned() };
        }
    })
}

interpose! {
    eventfd_read => fn(fd: c_int, value: *mut c_void) -> c_int, |real| {
        if !is_event(fd, VALUE) {
            return real(fd, value);
        }
        // SAFETY: the program passed a place for it. 0 is success (eventfd(3)).
        let moved = transfer(Call::Read, fd, value, VALUE, || if real(fd, value) == 0 { VALUE as ssize_t } else { -1 });
        if moved < 0 { -1 } else { 0 }
    }
    eventfd_write => fn(fd: c_int, value: u64) -> c_int, |real| {
        if !is_event(fd, VALUE) {
            return real(fd, value);
        }
        let at = (&raw const value).cast();
        // SAFETY: a value.
        let moved = transfer(Call::Write, fd, at, VALUE, || if real(fd, value) == 0 { VALUE as ssize_t } else { -1 });
        if moved < 0 { -1 } else { 0 }
    }
}
