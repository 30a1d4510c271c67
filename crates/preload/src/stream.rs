//! stdio: what a stream's buffer hands to the kernel.
//!
//! The C library's own reads and writes don't pass through here, so a stream is watched at its
//! buffer. A call that the buffer absorbs only counts (a getc stays a few nanoseconds); a call that
//! makes bytes move has one row, with what the kernel moved and, in `calls`, how many calls of the
//! program on that stream it stands for. `FILE`'s first fields are part of glibc's ABI
//! (bits/types/struct_FILE.h): its own macros are compiled into programs.

use core::ffi::{c_char, c_int, c_long, c_void};
use core::sync::atomic::Ordering::Relaxed;

use iotrail_format::call::{Call, WaitKind};
use iotrail_format::segment::NONE;
use iotrail_sdk::attach;
use iotrail_sdk::post::{self, Draft};
use iotrail_sdk::sys::AT_FDCWD;
use libc::{size_t, ssize_t};

use crate::descriptors::{self, tell};
use crate::real::{Real, c_length, errno, interpose};
use crate::record::{Outcome, call, draft, on_descriptor, wait};
use crate::variadic::variadic;
use crate::{connections, events, names, paths};

/// glibc's `struct _IO_FILE` as far as it is used here.
#[repr(C)]
pub struct File {
    flags: c_int,
    read_ptr: usize,
    read_end: usize,
    read_base: usize,
    write_base: usize,
    write_ptr: usize,
    write_end: usize,
    buf_base: usize,
    buf_end: usize,
    save: [usize; 3],
    markers: usize,
    chain: *mut File,
    fileno: c_int,
    flags2: c_int,
    old_offset: c_long,
    column: u16,
    vtable_offset: i8,
    short: [c_char; 1],
    lock: usize,
    /// The kernel's position as far as the C library follows it; -1 unknown.
    offset: i64,
}

const _: () = {
    assert!(core::mem::offset_of!(File, fileno) == 112 && core::mem::offset_of!(File, chain) == 104);
    assert!(core::mem::offset_of!(File, offset) == 144);
};

/// `_IO_ERR_SEEN` (libio/libio.h).
const ERROR_SEEN: c_int = 0x20;

unsafe extern "C" {
    static mut stdin: *mut File;
    static mut stdout: *mut File;
    static _IO_list_all: *mut File;
    fn ftrylockfile(stream: *mut File) -> c_int;
    fn funlockfile(stream: *mut File);
}

impl File {
    /// Bytes written to the buffer and not yet to the kernel.
    fn pending(&self) -> usize {
        self.write_ptr.saturating_sub(self.write_base)
    }

    fn unread(&self) -> usize {
        self.read_end.saturating_sub(self.read_ptr)
    }

    fn room(&self) -> usize {
        self.write_end.saturating_sub(self.write_ptr)
    }

    /// Bytes that the buffer was filled with for reading.
    fn filled(&self) -> usize {
        self.read_end.saturating_sub(self.read_base)
    }

    /// What a refill of the buffer changes.
    fn fill(&self) -> (i64, usize, usize) {
        (self.offset, self.read_base, self.read_end)
    }
}

/// Whether the stream stands for a descriptor and recording is on.
#[inline(always)]
unsafe fn watched(stream: *mut File) -> bool {
    // SAFETY: the program passed a stream.
    !attach::off() && !stream.is_null() && unsafe { (*stream).fileno } >= 0
}

#[inline(always)]
fn absorb(fd: c_int) {
    if let Some(entry) = descriptors::of_stream(fd) {
        entry.absorbed.store(entry.absorbed.load(Relaxed).wrapping_add(1), Relaxed);
    }
}

fn take_absorbed(fd: c_int) -> i64 {
    descriptors::of_stream(fd).map_or(0, |entry| i64::from(entry.absorbed.swap(0, Relaxed)))
}

fn stream_draft(kind: Call, fd: c_int) -> Draft {
    let target = descriptors::target(fd);
    Draft {
        opcode: kind as u16,
        kind: target.kind,
        fd,
        object: target.object,
        pos: NONE,
        length: NONE,
        aux: NONE,
    }
}

/// A write of `size` bytes (`None`: known afterwards only) through the buffer. `accepted` tells from
/// the result how many bytes the stream took.
#[inline(always)]
unsafe fn writing<R: Copy>(
    kind: Call,
    stream: *mut File,
    size: Option<usize>,
    run: impl FnOnce() -> R,
    accepted: impl FnOnce(R) -> i64,
) -> R {
    // SAFETY: the program passed a stream; it is locked by nobody else while the program calls.
    unsafe {
        if !watched(stream) {
            return run();
        }
        let fd = (*stream).fileno;
        if size.is_some_and(|size| size <= (*stream).room()) {
            absorb(fd);
            return run();
        }
        let mut row = stream_draft(kind, fd);
        let before = (*stream).pending() as i64;
        row.length = before + size.unwrap_or(0) as i64;
        let had_error = (*stream).flags & ERROR_SEEN != 0;
        let pending = post::begin(&row);
        let result = run();
        let failed = !had_error && (*stream).flags & ERROR_SEEN != 0;
        let moved = before + accepted(result) - (*stream).pending() as i64;
        match pending {
            Some(pending) if moved > 0 || failed => {
                finish(row, &pending, moved.max(0), failed, fd);
            }
            Some(pending) => {
                post::forget(&pending);
                absorb(fd);
            }
            None => {}
        }
        result
    }
}

fn finish(mut row: Draft, pending: &post::Pending, moved: i64, failed: bool, fd: c_int) {
    if row.kind == 0 {
        row.length = if failed { row.length.max(moved) } else { moved };
        let after = tell(fd);
        row.pos = if after >= moved { after - moved } else { NONE };
        row.aux = take_absorbed(fd) + 1;
    } else {
        take_absorbed(fd);
    }
    post::end(
        pending,
        &row,
        if failed && moved == 0 { -1 } else { moved },
        if failed { errno() as u8 } else { 0 },
    );
}

/// A read through the buffer; `served` says whether the buffer alone will do.
#[inline(always)]
unsafe fn reading<R: Copy>(
    kind: Call,
    stream: *mut File,
    served: impl FnOnce(&File) -> bool,
    run: impl FnOnce() -> R,
) -> R {
    // SAFETY: the program passed a stream.
    unsafe {
        if !watched(stream) {
            return run();
        }
        let fd = (*stream).fileno;
        if served(&*stream) {
            absorb(fd);
            return run();
        }
        let mut row = stream_draft(kind, fd);
        let before = if row.kind == 0 { tell(fd) } else { NONE };
        row.pos = before;
        let had = (*stream).unread() as i64;
        let had_fill = (*stream).fill();
        let had_error = (*stream).flags & ERROR_SEEN != 0;
        let pending = post::begin(&row);
        let result = run();
        let Some(pending) = pending else { return result };
        let failed = !had_error && (*stream).flags & ERROR_SEEN != 0;
        let error = if failed { errno() as u8 } else { 0 };
        if row.kind == 0 {
            let after = tell(fd);
            let unknown = before < 0;
            let moved = match (before, after) {
                (0.., _) if after >= before => after - before,
                // No position to compare (a device, or under seccomp): what the last fill of the buffer brought.
                _ if unknown && (*stream).fill() != had_fill => (*stream).filled() as i64,
                _ => 0,
            };
            if moved == 0 && !failed && !unknown && (*stream).unread() as i64 != 0 {
                // It was in the buffer after all (a formatted read).
                post::forget(&pending);
                absorb(fd);
                return result;
            }
            row.length =
                if moved > 0 { moved } else { (*stream).buf_end.saturating_sub((*stream).buf_base) as i64 };
            row.aux = take_absorbed(fd) + 1;
            post::end(&pending, &row, if failed { -1 } else { moved }, error);
        } else {
            take_absorbed(fd);
            row.length = (*stream).buf_end.saturating_sub((*stream).buf_base) as i64;
            let got = (*stream).unread() as i64 - had;
            post::end(&pending, &row, if failed { -1 } else { got.max(0) }, error);
        }
        result
    }
}

/// Whether `byte` stands in the unread part of the buffer, or `limit` bytes do.
unsafe fn line_ready(stream: &File, byte: c_int, limit: usize) -> bool {
    let unread = stream.unread();
    // SAFETY: the unread part of the buffer is readable.
    unread >= limit
        || (unread > 0 && !unsafe { libc::memchr(stream.read_ptr as *const c_void, byte, unread) }.is_null())
}

static FLUSH: Real = Real::new(c"fflush");

/// Hands the buffer over before a call that would do so out of sight.
unsafe fn flush_ahead(stream: *mut File) {
    // SAFETY: the program passed a stream.
    unsafe {
        if !watched(stream) || (*stream).pending() == 0 {
            return;
        }
        let fd = (*stream).fileno;
        let mut row = stream_draft(Call::Fflush, fd);
        let before = (*stream).pending() as i64;
        row.length = before;
        let pending = post::begin(&row);
        // `libc::fflush` would be ours.
        let flush: unsafe extern "C-unwind" fn(*mut File) -> c_int = core::mem::transmute(FLUSH.get());
        let result = flush(stream);
        let moved = before - (*stream).pending() as i64;
        if let Some(pending) = pending {
            // The program made no call of its own here.
            if let Some(entry) = descriptors::of_stream(fd) {
                let absorbed = entry.absorbed.load(Relaxed);
                entry.absorbed.store(absorbed.wrapping_sub(1), Relaxed);
            }
            finish_wrapping(row, &pending, moved, result != 0, fd);
        }
    }
}

fn finish_wrapping(mut row: Draft, pending: &post::Pending, moved: i64, failed: bool, fd: c_int) {
    let calls = i64::from((take_absorbed(fd) as u32).wrapping_add(1));
    if row.kind == 0 {
        let after = tell(fd);
        row.pos = if after >= moved { after - moved } else { NONE };
        row.length = moved;
        row.aux = calls;
    }
    post::end(pending, &row, if failed { -1 } else { moved }, if failed { errno() as u8 } else { 0 });
}

/// What streams still hold when the program ends: the C library would write it out of sight.
pub fn flush_at_exit() {
    // SAFETY: glibc's list of open streams; a stream that another thread holds is left to libc.
    unsafe {
        let mut stream = _IO_list_all;
        for _ in 0..4096 {
            if stream.is_null() {
                break;
            }
            if watched(stream) && (*stream).pending() > 0 && ftrylockfile(stream) == 0 {
                flush_ahead(stream);
                funlockfile(stream);
            }
            stream = (*stream).chain;
        }
    }
}

fn open_flags(mode: *const c_char) -> c_int {
    if mode.is_null() {
        return 0;
    }
    // SAFETY: a C string.
    let (first, plus) = unsafe { (*mode as u8, !libc::strchr(mode, c_int::from(b'+')).is_null()) };
    match (first, plus) {
        (b'r', false) => libc::O_RDONLY,
        (b'r', true) => libc::O_RDWR,
        (b'w', false) => libc::O_WRONLY | libc::O_CREAT | libc::O_TRUNC,
        (b'w', true) => libc::O_RDWR | libc::O_CREAT | libc::O_TRUNC,
        (b'a', false) => libc::O_WRONLY | libc::O_CREAT | libc::O_APPEND,
        (b'a', true) => libc::O_RDWR | libc::O_CREAT | libc::O_APPEND,
        _ => 0,
    }
}

unsafe fn open_stream(
    path: *const c_char,
    mode: *const c_char,
    run: impl FnOnce() -> *mut File,
) -> *mut File {
    if attach::off() {
        return run();
    }
    let file = paths::of(AT_FDCWD, path);
    let flags = open_flags(mode);
    let mut open = draft(Call::Fopen);
    open.object = file.0;
    open.aux = flags.into();
    let opened = call(
        open,
        || Opened(run()),
        |draft, stream| {
            if !stream.failed() {
                draft.fd = stream.value() as c_int;
                descriptors::opened(draft.fd, file, flags);
            }
        },
    );
    opened.0
}

/// A stream just opened: what its record returns is the descriptor, since an address means nothing
/// to a reader.
#[derive(Clone, Copy)]
struct Opened(*mut File);

impl Outcome for Opened {
    fn value(self) -> i64 {
        // SAFETY: an open stream, or null.
        if self.0.is_null() { -1 } else { i64::from(unsafe { (*self.0).fileno }) }
    }
    fn failed(self) -> bool {
        self.0.is_null()
    }
}

/// Moves a stream's position. A seek out of the buffer fills it with the block that the position lies in
/// (`_IO_new_file_seekoff`, libio/fileops.c): such a seek is the read that the kernel saw.
unsafe fn seek(stream: *mut File, pos: i64, run: impl FnOnce() -> c_int) -> c_int {
    // SAFETY: the program passed a stream.
    unsafe {
        if !watched(stream) {
            return run();
        }
        flush_ahead(stream);
        let fd = (*stream).fileno;
        let mut row = stream_draft(Call::Fseek, fd);
        row.kind = 0;
        row.pos = pos;
        row.aux = take_absorbed(fd) + 1;
        let before = (*stream).fill();
        let pending = post::begin(&row);
        let result = run();
        let Some(pending) = pending else { return result };
        let error = if result < 0 { errno() as u8 } else { 0 };
        let (after, filled) = (&*stream, (*stream).filled() as i64);
        let mut value = i64::from(result);
        if result == 0 && filled > 0 && after.offset >= filled && after.fill() != before {
            row.opcode = Call::Fread as u16;
            row.pos = after.offset - filled;
            row.length = after.buf_end.saturating_sub(after.buf_base) as i64;
            value = filled;
        }
        post::end(&pending, &row, value, error);
        result
    }
}

fn ok_or(result: c_int, bytes: i64) -> i64 {
    if result < 0 { 0 } else { bytes }
}

interpose! {
    fopen, fopen64 => fn(path: *const c_char, mode: *const c_char) -> *mut File, |real| {
        open_stream(path, mode, || real(path, mode))
    }
    freopen, freopen64 => fn(path: *const c_char, mode: *const c_char, stream: *mut File) -> *mut File, |real| {
        flush_ahead(stream);
        if path.is_null() {
            return real(path, mode, stream);
        }
        if watched(stream) {
            descriptors::forget((*stream).fileno);
        }
        open_stream(path, mode, || real(path, mode, stream))
    }
    fdopen => fn(fd: c_int, mode: *const c_char) -> *mut File, |real| {
        on_descriptor(Call::Fdopen, fd, NONE, open_flags(mode).into(), || Opened(real(fd, mode))).0
    }
    tmpfile, tmpfile64 => fn() -> *mut File, |real| {
        let stream = real();
        if !stream.is_null() && watched(stream) {
            descriptors::forget((*stream).fileno);
            let mut row = stream_draft(Call::Mkstemp, (*stream).fileno);
            row.kind = 0;
            call(row, || 0 as c_int, |_, _| {});
        }
        stream
    }
    fclose => fn(stream: *mut File) -> c_int, |real| {
        if !watched(stream) {
            return real(stream);
        }
        flush_ahead(stream);
        let fd = (*stream).fileno;
        let mut row = stream_draft(Call::Fclose, fd);
        row.kind = 0;
        row.aux = take_absorbed(fd) + 1;
        descriptors::forget(fd);
        call(row, || real(stream), |_, _| {})
    }
    fflush, fflush_unlocked => fn(stream: *mut File) -> c_int, |real| {
        if stream.is_null() {
            if attach::off() {
                return real(stream);
            }
            // All streams: each has its own row, then nothing is left to do.
            flush_at_exit();
            return real(stream);
        }
        writing(Call::Fflush, stream, None, || real(stream), |_| 0)
    }

    fwrite, fwrite_unlocked =>
    fn(data: *const c_void, size: size_t, count: size_t, stream: *mut File) -> size_t, |real| {
        let bytes = size.saturating_mul(count);
        writing(Call::Fwrite, stream, Some(bytes), || real(data, size, count, stream), |n| (n * size) as i64)
    }
    fputs, fputs_unlocked => fn(text: *const c_char, stream: *mut File) -> c_int, |real| {
        let length = c_length(text);
        writing(Call::Fwrite, stream, Some(length), || real(text, stream), |r| ok_or(r, length as i64))
    }
    puts => fn(text: *const c_char) -> c_int, |real| {
        let length = c_length(text) + 1;
        writing(Call::Fwrite, stdout, Some(length), || real(text), |r| ok_or(r, length as i64))
    }
    fputc, putc, _IO_putc, fputc_unlocked, putc_unlocked => fn(byte: c_int, stream: *mut File) -> c_int, |real| {
        writing(Call::Fwrite, stream, Some(1), || real(byte, stream), |r| ok_or(r, 1))
    }
    putchar, putchar_unlocked => fn(byte: c_int) -> c_int, |real| {
        writing(Call::Fwrite, stdout, Some(1), || real(byte), |r| ok_or(r, 1))
    }
    // What the putc macro calls when the buffer is full.
    __overflow => fn(stream: *mut File, byte: c_int) -> c_int, |real| {
        writing(Call::Fwrite, stream, Some(1), || real(stream, byte), |r| ok_or(r, 1))
    }
    vfprintf => fn(stream: *mut File, format: *const c_char, arguments: *mut c_void) -> c_int, |real| {
        writing(Call::Fwrite, stream, None, || real(stream, format, arguments), |r| r.max(0).into())
    }
    __vfprintf_chk => fn(stream: *mut File, flag: c_int, format: *const c_char, arguments: *mut c_void) -> c_int, |real| {
        writing(Call::Fwrite, stream, None, || real(stream, flag, format, arguments), |r| r.max(0).into())
    }
    vprintf => fn(format: *const c_char, arguments: *mut c_void) -> c_int, |real| {
        writing(Call::Fwrite, stdout, None, || real(format, arguments), |r| r.max(0).into())
    }
    __vprintf_chk => fn(flag: c_int, format: *const c_char, arguments: *mut c_void) -> c_int, |real| {
        writing(Call::Fwrite, stdout, None, || real(flag, format, arguments), |r| r.max(0).into())
    }
    vdprintf => fn(fd: c_int, format: *const c_char, arguments: *mut c_void) -> c_int, |real| {
        crate::record::transfer(Call::Write, fd, NONE, NONE, NONE, true,
            || real(fd, format, arguments) as ssize_t) as c_int
    }
    __vdprintf_chk => fn(fd: c_int, flag: c_int, format: *const c_char, arguments: *mut c_void) -> c_int, |real| {
        crate::record::transfer(Call::Write, fd, NONE, NONE, NONE, true,
            || real(fd, flag, format, arguments) as ssize_t) as c_int
    }

    fread, fread_unlocked => fn(data: *mut c_void, size: size_t, count: size_t, stream: *mut File) -> size_t, |real| {
        let bytes = size.saturating_mul(count);
        reading(Call::Fread, stream, |s| bytes <= s.unread(), || real(data, size, count, stream))
    }
    __fread_chk, __fread_unlocked_chk =>
    fn(data: *mut c_void, room: size_t, size: size_t, count: size_t, stream: *mut File) -> size_t, |real| {
        let bytes = size.saturating_mul(count);
        reading(Call::Fread, stream, |s| bytes <= s.unread(), || real(data, room, size, count, stream))
    }
    fgets, fgets_unlocked => fn(text: *mut c_char, size: c_int, stream: *mut File) -> *mut c_char, |real| {
        let limit = (size - 1).max(0) as usize;
        reading(Call::Fread, stream, |s| line_ready(s, b'\n'.into(), limit), || real(text, size, stream))
    }
    __fgets_chk, __fgets_unlocked_chk =>
    fn(text: *mut c_char, room: size_t, size: c_int, stream: *mut File) -> *mut c_char, |real| {
        let limit = (size - 1).max(0) as usize;
        reading(Call::Fread, stream, |s| line_ready(s, b'\n'.into(), limit), || real(text, room, size, stream))
    }
    getline => fn(line: *mut *mut c_char, size: *mut size_t, stream: *mut File) -> ssize_t, |real| {
        reading(Call::Fread, stream, |s| line_ready(s, b'\n'.into(), usize::MAX), || real(line, size, stream))
    }
    getdelim, __getdelim =>
    fn(line: *mut *mut c_char, size: *mut size_t, end: c_int, stream: *mut File) -> ssize_t, |real| {
        reading(Call::Fread, stream, |s| line_ready(s, end, usize::MAX), || real(line, size, end, stream))
    }
    fgetc, getc, _IO_getc, fgetc_unlocked, getc_unlocked => fn(stream: *mut File) -> c_int, |real| {
        reading(Call::Fread, stream, |s| s.unread() > 0, || real(stream))
    }
    getchar, getchar_unlocked => fn() -> c_int, |real| {
        reading(Call::Fread, stdin, |s| s.unread() > 0, || real())
    }
    // What the getc macro calls when the buffer is empty.
    __uflow => fn(stream: *mut File) -> c_int, |real| {
        reading(Call::Fread, stream, |s| s.unread() > 0, || real(stream))
    }
    vfscanf, __isoc99_vfscanf => fn(stream: *mut File, format: *const c_char, arguments: *mut c_void) -> c_int, |real| {
        reading(Call::Fread, stream, |_| false, || real(stream, format, arguments))
    }
    // What programs built with glibc 2.38 and newer call.
    __isoc23_vfscanf => fn(stream: *mut File, format: *const c_char, arguments: *mut c_void) -> c_int, |real| {
        reading(Call::Fread, stream, |_| false, || real(stream, format, arguments))
    }
    __isoc23_vscanf => fn(format: *const c_char, arguments: *mut c_void) -> c_int, |real| {
        reading(Call::Fread, stdin, |_| false, || real(format, arguments))
    }
    vscanf, __isoc99_vscanf => fn(format: *const c_char, arguments: *mut c_void) -> c_int, |real| {
        reading(Call::Fread, stdin, |_| false, || real(format, arguments))
    }

    fseek => fn(stream: *mut File, pos: c_long, whence: c_int) -> c_int, |real| {
        seek(stream, pos, || real(stream, pos, whence))
    }
    fseeko, fseeko64 => fn(stream: *mut File, pos: i64, whence: c_int) -> c_int, |real| {
        seek(stream, pos, || real(stream, pos, whence))
    }
    fsetpos, fsetpos64 => fn(stream: *mut File, pos: *const i64) -> c_int, |real| {
        // glibc's fpos_t begins with the offset.
        seek(stream, if pos.is_null() { NONE } else { *pos }, || real(stream, pos))
    }
    rewind => fn(stream: *mut File), |real| {
        seek(stream, 0, || { real(stream); 0 });
    }

    popen => fn(command: *const c_char, mode: *const c_char) -> *mut File, |real| {
        if !attach::off() {
            descriptors::share_all();
        }
        let stream = real(command, mode);
        if !stream.is_null() && watched(stream) {
            descriptors::forget((*stream).fileno);
        }
        stream
    }
    pclose => fn(stream: *mut File) -> c_int, |real| {
        flush_ahead(stream);
        if watched(stream) {
            descriptors::forget((*stream).fileno);
        }
        wait(Call::Wait, WaitKind::Process, 0, NONE, NONE, || real(stream))
    }
    pipe => fn(fds: *mut c_int) -> c_int, |real| {
        let result = real(fds);
        forget_pair(result, fds)
    }
    pipe2 => fn(fds: *mut c_int, flags: c_int) -> c_int, |real| {
        let result = real(fds, flags);
        forget_pair(result, fds)
    }
    socketpair => fn(domain: c_int, kind: c_int, protocol: c_int, fds: *mut c_int) -> c_int, |real| {
        let result = forget_pair(real(domain, kind, protocol, fds), fds);
        if result == 0 && !attach::off() && attach::is_causal() && !fds.is_null() {
            connections::paired(*fds, *fds.add(1));
        }
        result
    }
    eventfd => fn(value: u32, flags: c_int) -> c_int, |real| {
        let fd = names::made(|| real(value, flags));
        if fd >= 0 && !attach::off() && attach::is_causal() {
            events::made(fd, value);
        }
        fd
    }
    epoll_create, epoll_create1, inotify_init1 => fn(argument: c_int) -> c_int, |real| {
        names::made(|| real(argument))
    }
    inotify_init => fn() -> c_int, |real| {
        names::made(|| real())
    }
    timerfd_create => fn(clock: c_int, flags: c_int) -> c_int, |real| {
        names::made(|| real(clock, flags))
    }
    signalfd => fn(fd: c_int, mask: *const c_void, flags: c_int) -> c_int, |real| {
        names::made(|| real(fd, mask, flags))
    }
    socket => fn(domain: c_int, kind: c_int, protocol: c_int) -> c_int, |real| {
        names::made(|| real(domain, kind, protocol))
    }
    posix_openpt => fn(flags: c_int) -> c_int, |real| {
        names::made(|| real(flags))
    }
}

fn forget_pair(result: c_int, fds: *const c_int) -> c_int {
    if result == 0 && !attach::off() && !fds.is_null() {
        // SAFETY: the call succeeded and filled two descriptors.
        unsafe {
            descriptors::forget(*fds);
            descriptors::forget(*fds.add(1));
        }
    }
    result
}

variadic! {
    fprintf => vfprintf, "2", "rdx";
    __fprintf_chk => __vfprintf_chk, "3", "rcx";
    printf => vprintf, "1", "rsi";
    __printf_chk => __vprintf_chk, "2", "rdx";
    dprintf => vdprintf, "2", "rdx";
    __dprintf_chk => __vdprintf_chk, "3", "rcx";
    fscanf => vfscanf, "2", "rdx";
    __isoc99_fscanf => __isoc99_vfscanf, "2", "rdx";
    scanf => vscanf, "1", "rsi";
    __isoc99_scanf => __isoc99_vscanf, "1", "rsi";
    __isoc23_fscanf => __isoc23_vfscanf, "2", "rdx";
    __isoc23_scanf => __isoc23_vscanf, "1", "rsi";
}
