//! Calls on descriptors: reading, writing, making durable, closing, duplicating.

use core::ffi::{c_int, c_uint, c_void};

use iotrail_format::call::{Call, LOCK_OF_OPEN_FILE, WaitKind};
use iotrail_format::segment::NONE;
use iotrail_sdk::attach;
use iotrail_sdk::post::Draft;
use libc::{iovec, off64_t, size_t, ssize_t};

use crate::real::{errno, interpose};
use crate::record::{call, call_errno, draft, on_descriptor, transfer, wait};
use crate::{descriptors, events, record};

/// Bytes that an array of buffers asks for.
pub fn total(vectors: *const iovec, count: c_int) -> i64 {
    // IOV_MAX is 1024 on Linux; more is EINVAL and the array must not be read.
    if vectors.is_null() || !(0..=1024).contains(&count) {
        return 0;
    }
    // SAFETY: the program passed `count` vectors.
    let vectors = unsafe { core::slice::from_raw_parts(vectors, count as usize) };
    vectors.iter().fold(0i64, |sum, vector| sum.saturating_add(vector.iov_len as i64))
}

interpose! {
    read => fn(fd: c_int, buffer: *mut c_void, length: size_t) -> ssize_t, |real| {
        if events::is_event(fd, length) {
            return events::transfer(Call::Read, fd, buffer, length, || real(fd, buffer, length));
        }
        transfer(Call::Read, fd, NONE, length as i64, NONE, false, || real(fd, buffer, length))
    }
    __read_chk => fn(fd: c_int, buffer: *mut c_void, length: size_t, size: size_t) -> ssize_t, |real| {
        transfer(Call::Read, fd, NONE, length as i64, NONE, false, || real(fd, buffer, length, size))
    }
    write => fn(fd: c_int, buffer: *const c_void, length: size_t) -> ssize_t, |real| {
        if events::is_event(fd, length) {
            return events::transfer(Call::Write, fd, buffer, length, || real(fd, buffer, length));
        }
        transfer(Call::Write, fd, NONE, length as i64, NONE, true, || real(fd, buffer, length))
    }
    pread, pread64 => fn(fd: c_int, buffer: *mut c_void, length: size_t, pos: off64_t) -> ssize_t, |real| {
        transfer(Call::Pread, fd, pos, length as i64, NONE, false, || real(fd, buffer, length, pos))
    }
    __pread_chk, __pread64_chk =>
    fn(fd: c_int, buffer: *mut c_void, length: size_t, pos: off64_t, size: size_t) -> ssize_t, |real| {
        transfer(Call::Pread, fd, pos, length as i64, NONE, false, || real(fd, buffer, length, pos, size))
    }
    pwrite, pwrite64 => fn(fd: c_int, buffer: *const c_void, length: size_t, pos: off64_t) -> ssize_t, |real| {
        transfer(Call::Pwrite, fd, pos, length as i64, NONE, true, || real(fd, buffer, length, pos))
    }
    readv => fn(fd: c_int, vectors: *const iovec, count: c_int) -> ssize_t, |real| {
        transfer(Call::Readv, fd, NONE, total(vectors, count), NONE, false, || real(fd, vectors, count))
    }
    writev => fn(fd: c_int, vectors: *const iovec, count: c_int) -> ssize_t, |real| {
        transfer(Call::Writev, fd, NONE, total(vectors, count), NONE, true, || real(fd, vectors, count))
    }
    preadv, preadv64 => fn(fd: c_int, vectors: *const iovec, count: c_int, pos: off64_t) -> ssize_t, |real| {
        transfer(Call::Preadv, fd, pos, total(vectors, count), NONE, false, || real(fd, vectors, count, pos))
    }
    pwritev, pwritev64 => fn(fd: c_int, vectors: *const iovec, count: c_int, pos: off64_t) -> ssize_t, |real| {
        transfer(Call::Pwritev, fd, pos, total(vectors, count), NONE, true, || real(fd, vectors, count, pos))
    }
    // Position -1 means the descriptor's own (preadv2(2)).
    preadv2, preadv64v2 =>
    fn(fd: c_int, vectors: *const iovec, count: c_int, pos: off64_t, flags: c_int) -> ssize_t, |real| {
        let at = if pos == -1 { NONE } else { pos };
        let length = total(vectors, count);
        transfer(Call::Preadv, fd, at, length, flags.into(), false, || real(fd, vectors, count, pos, flags))
    }
    pwritev2, pwritev64v2 =>
    fn(fd: c_int, vectors: *const iovec, count: c_int, pos: off64_t, flags: c_int) -> ssize_t, |real| {
        let at = if pos == -1 { NONE } else { pos };
        let length = total(vectors, count);
        transfer(Call::Pwritev, fd, at, length, flags.into(), true, || real(fd, vectors, count, pos, flags))
    }

    sendfile, sendfile64 => fn(out: c_int, input: c_int, pos: *mut off64_t, length: size_t) -> ssize_t, |real| {
        if attach::off() {
            return real(out, input, pos, length);
        }
        let at = if pos.is_null() { NONE } else { *pos };
        let into = descriptors::target(out).object;
        move_inside(Call::Sendfile, input, out, at, length as i64, into, true, || real(out, input, pos, length))
    }
    copy_file_range =>
    fn(input: c_int, from: *mut off64_t, out: c_int, to: *mut off64_t, length: size_t, flags: c_uint) -> ssize_t, |real| {
        if attach::off() {
            return real(input, from, out, to, length, flags);
        }
        let at = if from.is_null() { NONE } else { *from };
        let into = descriptors::target(out).object;
        move_inside(Call::CopyFileRange, input, out, at, length as i64, into, to.is_null(),
            || real(input, from, out, to, length, flags))
    }
    splice =>
    fn(input: c_int, from: *mut off64_t, out: c_int, to: *mut off64_t, length: size_t, flags: c_uint) -> ssize_t, |real| {
        if attach::off() {
            return real(input, from, out, to, length, flags);
        }
        let run = || real(input, from, out, to, length, flags);
        let at = if from.is_null() { NONE } else { *from };
        let into = descriptors::target(out);
        if into.kind == 0 && descriptors::target(input).kind != 0 {
            let at = if to.is_null() { NONE } else { *to };
            return transfer(Call::SpliceWrite, out, at, length as i64, NONE, true, run);
        }
        move_inside(Call::Splice, input, out, at, length as i64, into.object, to.is_null(), run)
    }
    tee => fn(input: c_int, out: c_int, length: size_t, flags: c_uint) -> ssize_t, |real| {
        if attach::off() {
            return real(input, out, length, flags);
        }
        let into = descriptors::target(out).object;
        move_inside(Call::Splice, input, out, NONE, length as i64, into, false, || real(input, out, length, flags))
    }
    vmsplice => fn(fd: c_int, vectors: *const iovec, count: size_t, flags: c_uint) -> ssize_t, |real| {
        let length = total(vectors, count.min(c_int::MAX as usize) as c_int);
        on_descriptor(Call::Splice, fd, length, NONE, || real(fd, vectors, count, flags))
    }

    lseek, lseek64 => fn(fd: c_int, pos: off64_t, whence: c_int) -> off64_t, |real| {
        seek_with(fd, pos, whence, || real(fd, pos, whence))
    }
    fsync => fn(fd: c_int) -> c_int, |real| {
        on_descriptor(Call::Fsync, fd, NONE, NONE, || real(fd))
    }
    fdatasync => fn(fd: c_int) -> c_int, |real| {
        on_descriptor(Call::Fdatasync, fd, NONE, NONE, || real(fd))
    }
    sync_file_range => fn(fd: c_int, pos: off64_t, length: off64_t, flags: c_uint) -> c_int, |real| {
        on_range(Call::SyncFileRange, fd, pos, length, flags.into(), || real(fd, pos, length, flags))
    }
    sync => fn(), |real| {
        if attach::off() {
            return real();
        }
        call(draft(Call::Sync), || { real(); 0 as c_int }, |_, _| {});
    }
    syncfs => fn(fd: c_int) -> c_int, |real| {
        on_descriptor(Call::Sync, fd, NONE, NONE, || real(fd))
    }
    ftruncate, ftruncate64 => fn(fd: c_int, length: off64_t) -> c_int, |real| {
        on_descriptor(Call::Truncate, fd, length, NONE, || real(fd, length))
    }
    fallocate, fallocate64 => fn(fd: c_int, mode: c_int, pos: off64_t, length: off64_t) -> c_int, |real| {
        on_range(Call::Fallocate, fd, pos, length, mode.into(), || real(fd, mode, pos, length))
    }
    posix_fallocate, posix_fallocate64 => fn(fd: c_int, pos: off64_t, length: off64_t) -> c_int, |real| {
        on_range_errno(Call::Fallocate, fd, pos, length, 0, || real(fd, pos, length))
    }
    posix_fadvise, posix_fadvise64 => fn(fd: c_int, pos: off64_t, length: off64_t, advice: c_int) -> c_int, |real| {
        on_range_errno(Call::Fadvise, fd, pos, length, advice.into(), || real(fd, pos, length, advice))
    }
    readahead => fn(fd: c_int, pos: off64_t, length: size_t) -> ssize_t, |real| {
        on_range(Call::Fadvise, fd, pos, length as i64, NONE, || real(fd, pos, length))
    }

    close => fn(fd: c_int) -> c_int, |real| {
        close_with(fd, || real(fd))
    }
    close_range => fn(first: c_uint, last: c_uint, flags: c_int) -> c_int, |real| {
        if attach::off() {
            return real(first, last, flags);
        }
        const CLOSE_RANGE_CLOEXEC: c_int = 4;
        if flags & CLOSE_RANGE_CLOEXEC == 0 {
            descriptors::forget_range(first, last);
        }
        let mut close = draft(Call::CloseRange);
        close.fd = first as c_int;
        close.length = i64::from(last);
        close.aux = flags.into();
        call(close, || real(first, last, flags), |_, _| {})
    }
    closefrom => fn(first: c_int), |real| {
        if attach::off() {
            return real(first);
        }
        descriptors::forget_range(first.max(0) as u32, u32::MAX);
        let mut close = draft(Call::CloseRange);
        close.fd = first;
        call(close, || { real(first); 0 as c_int }, |_, _| {});
    }
    dup => fn(fd: c_int) -> c_int, |real| {
        on_descriptor_then(Call::Dup, fd, || real(fd), |new| descriptors::duplicated(fd, new))
    }
    dup2 => fn(fd: c_int, new: c_int) -> c_int, |real| {
        on_descriptor_then(Call::Dup, fd, || real(fd, new), |new| descriptors::duplicated(fd, new))
    }
    dup3 => fn(fd: c_int, new: c_int, flags: c_int) -> c_int, |real| {
        on_descriptor_then(Call::Dup, fd, || real(fd, new, flags), |new| descriptors::duplicated(fd, new))
    }
    // The third argument is an integer or a pointer and stands in the same register either way.
    fcntl, fcntl64 => fn(fd: c_int, command: c_int, argument: usize) -> c_int, |real| {
        match command {
            libc::F_DUPFD | libc::F_DUPFD_CLOEXEC => on_descriptor_then(Call::Dup, fd,
                || real(fd, command, argument), |new| descriptors::duplicated(fd, new)),
            libc::F_SETLK | libc::F_SETLKW | libc::F_OFD_SETLK | libc::F_OFD_SETLKW if !attach::off() => {
                let mut on = draft(Call::Flock);
                on.kind = WaitKind::FileLock as u8;
                on.object = descriptors::known(fd);
                call(on, || real(fd, command, argument), |on, result| {
                    // with others the kernel may not have read it
                    let asked = result == 0 || matches!(errno(), libc::EAGAIN | libc::EINTR | libc::EDEADLK);
                    if asked {
                        part_locked(on, fd, command, &*(argument as *const libc::flock));
                    }
                })
            }
            // Asked by stdio, allocators and shells all the time, and nothing of I/O.
            libc::F_GETFD | libc::F_SETFD | libc::F_GETFL => real(fd, command, argument),
            libc::F_SETFL => on_descriptor_then(Call::Fcntl, fd, || real(fd, command, argument),
                |result| if result == 0 { descriptors::flags_set(fd, argument) }),
            _ => on_descriptor(Call::Fcntl, fd, NONE, command.into(), || real(fd, command, argument)),
        }
    }
    ioctl => fn(fd: c_int, request: libc::c_ulong, argument: usize) -> c_int, |real| {
        // Terminals, sockets and devices that aren't storage are asked for other things than I/O.
        if attach::off() || descriptors::target(fd).kind != 0 {
            return real(fd, request, argument);
        }
        on_descriptor(Call::Ioctl, fd, NONE, request as i64, || real(fd, request, argument))
    }
    flock => fn(fd: c_int, operation: c_int) -> c_int, |real| {
        if attach::off() {
            return real(fd, operation);
        }
        let file = descriptors::known(fd);
        wait(Call::Flock, WaitKind::FileLock, file, operation.into(), NONE, || real(fd, operation))
    }
    lockf, lockf64 => fn(fd: c_int, command: c_int, length: off64_t) -> c_int, |real| {
        if attach::off() {
            return real(fd, command, length);
        }
        let mut on = draft(Call::Flock);
        on.kind = WaitKind::FileLock as u8;
        on.object = descriptors::known(fd);
        on.aux = i64::from(match command {
            libc::F_ULOCK => libc::LOCK_UN,
            libc::F_LOCK => libc::LOCK_EX,
            libc::F_TLOCK => libc::LOCK_EX | libc::LOCK_NB,
            // it only asks
            _ => 0,
        });
        call(on, || real(fd, command, length), |on, _| part_from(on, descriptors::tell(fd), length))
    }
}

/// Completes the draft of a call that locks a part of a file, or gives it back.
fn part_locked(on: &mut Draft, fd: c_int, command: c_int, lock: &libc::flock) {
    let operation = match lock.l_type.into() {
        libc::F_RDLCK => libc::LOCK_SH,
        libc::F_WRLCK => libc::LOCK_EX,
        _ => libc::LOCK_UN,
    };
    let waits = matches!(command, libc::F_SETLKW | libc::F_OFD_SETLKW);
    let of_open_file = matches!(command, libc::F_OFD_SETLK | libc::F_OFD_SETLKW);
    on.aux = i64::from(operation)
        | if waits { 0 } else { i64::from(libc::LOCK_NB) }
        | if of_open_file { LOCK_OF_OPEN_FILE } else { 0 };
    let from = match lock.l_whence.into() {
        libc::SEEK_SET => 0,
        libc::SEEK_CUR => descriptors::tell(fd),
        // where the file ended then nobody knows now
        _ => NONE,
    };
    let from = if from == NONE { NONE } else { from.saturating_add(lock.l_start) };
    part_from(on, from, lock.l_len);
}

/// Notes which part of a file is locked: `length` bytes from an offset on, 0 all; below 0 those before it (fcntl(2)).
fn part_from(on: &mut Draft, from: i64, length: i64) {
    if from != NONE {
        on.pos = from.saturating_add(length.min(0));
    }
    on.length = length.saturating_abs();
}

/// Moves a descriptor's position.
#[inline(always)]
pub fn seek_with(fd: c_int, pos: off64_t, whence: c_int, run: impl FnOnce() -> off64_t) -> off64_t {
    if attach::off() {
        return run();
    }
    let mut seek = draft(Call::Lseek);
    seek.fd = fd;
    seek.object = descriptors::known(fd);
    seek.pos = pos;
    seek.aux = whence.into();
    call(seek, run, |_, at| descriptors::sought(fd, at))
}

/// Closes a descriptor.
#[inline(always)]
pub fn close_with(fd: c_int, run: impl FnOnce() -> c_int) -> c_int {
    if attach::off() {
        return run();
    }
    let mut close = draft(Call::Close);
    close.fd = fd;
    close.object = descriptors::known(fd);
    // Before the call: afterwards another thread may already have the number again.
    descriptors::forget(fd);
    call(close, run, |_, _| {})
}

#[inline(always)]
fn on_range<R: record::Outcome>(
    kind: Call,
    fd: c_int,
    pos: i64,
    length: i64,
    flags: i64,
    run: impl FnOnce() -> R,
) -> R {
    if attach::off() {
        return run();
    }
    call(range_draft(kind, fd, pos, length, flags), run, |_, _| {})
}

#[inline(always)]
fn on_range_errno(
    kind: Call,
    fd: c_int,
    pos: i64,
    length: i64,
    flags: i64,
    run: impl FnOnce() -> c_int,
) -> c_int {
    if attach::off() {
        return run();
    }
    call_errno(range_draft(kind, fd, pos, length, flags), run)
}

fn range_draft(kind: Call, fd: c_int, pos: i64, length: i64, flags: i64) -> iotrail_sdk::post::Draft {
    let mut range = draft(kind);
    range.fd = fd;
    range.object = descriptors::known(fd);
    range.pos = pos;
    range.length = length;
    range.aux = flags;
    range
}

/// A call on a descriptor whose result changes what descriptors stand for.
#[inline(always)]
fn on_descriptor_then(kind: Call, fd: c_int, run: impl FnOnce() -> c_int, then: impl FnOnce(c_int)) -> c_int {
    if attach::off() {
        return run();
    }
    let mut on = draft(kind);
    on.fd = fd;
    on.object = descriptors::known(fd);
    call(on, run, |_, result| then(result))
}

/// Bytes moved from `input` to `out` inside the kernel; `into` is the destination's id.
#[inline(always)]
#[expect(clippy::too_many_arguments, reason = "three calls of one shape")]
fn move_inside(
    kind: Call,
    input: c_int,
    out: c_int,
    pos: i64,
    length: i64,
    into: i64,
    out_sequential: bool,
    run: impl FnOnce() -> ssize_t,
) -> ssize_t {
    let moved = transfer(kind, input, pos, length, into, false, run);
    if out_sequential && let Some(entry) = descriptors::target(out).entry {
        entry.moved(out, moved, true);
    }
    moved
}
