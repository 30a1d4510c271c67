//! What can't be recorded, noticed where it begins: programs no preload can enter, io_uring, native
//! asynchronous I/O, raw system calls.

use core::ffi::{c_char, c_int, c_long, c_uint, c_void};
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use iotrail_format::call::{Call, WaitKind};
use iotrail_format::segment::{NONE, UnseenKind};
use iotrail_sdk::{attach, post, sys};

use crate::real::interpose;
use crate::record::{on_descriptor, transfer, wait};
use crate::{descriptors, files, names, paths};

/// io_uring_enter calls since the last one that was posted.
static ENTERS: AtomicU64 = AtomicU64::new(0);

/// Posts what was counted; at the image's end.
pub fn post_counts() {
    let enters = ENTERS.swap(0, Relaxed);
    if enters > 0 {
        post::unseen(UnseenKind::UringEnter, 0, enters as i64);
    }
}

fn ring_set_up(result: c_long) -> c_long {
    if result >= 0 && !attach::off() {
        descriptors::forget(result as c_int);
        post::unseen(UnseenKind::UringSetup, 0, 1);
    }
    result
}

interpose! {
    // Up to six arguments, all in registers or at the same place of the stack for any number.
    syscall => fn(number: c_long, a: usize, b: usize, c: usize, d: usize, e: usize, f: usize) -> c_long, |real| {
        if attach::off() {
            return real(number, a, b, c, d, e, f);
        }
        let run = || real(number, a, b, c, d, e, f);
        match number {
            libc::SYS_io_uring_setup => ring_set_up(run()),
            libc::SYS_io_uring_enter => {
                ENTERS.fetch_add(1, Relaxed);
                run()
            }
            libc::SYS_read => transfer(Call::Read, a as c_int, NONE, c as i64, NONE, false, || run() as isize) as c_long,
            libc::SYS_write => transfer(Call::Write, a as c_int, NONE, c as i64, NONE, true, || run() as isize) as c_long,
            libc::SYS_pread64 =>
                transfer(Call::Pread, a as c_int, d as i64, c as i64, NONE, false, || run() as isize) as c_long,
            libc::SYS_pwrite64 =>
                transfer(Call::Pwrite, a as c_int, d as i64, c as i64, NONE, true, || run() as isize) as c_long,
            libc::SYS_close => files::close_with(a as c_int, || run() as c_int).into(),
            libc::SYS_lseek => files::seek_with(a as c_int, b as i64, c as c_int, run),
            libc::SYS_fsync => on_descriptor(Call::Fsync, a as c_int, NONE, NONE, run),
            libc::SYS_fdatasync => on_descriptor(Call::Fdatasync, a as c_int, NONE, NONE, run),
            libc::SYS_futex if b as c_int & FUTEX_COMMAND == libc::FUTEX_WAIT
                || b as c_int & FUTEX_COMMAND == libc::FUTEX_WAIT_BITSET =>
                wait(Call::Futex, WaitKind::Lock, a as i64, NONE, NONE, run),
            libc::SYS_open =>
                names::open_path(Call::Open, sys::AT_FDCWD, a as *const c_char, b as c_int, || run() as c_int).into(),
            libc::SYS_openat =>
                names::open_path(Call::Open, a as c_int, b as *const c_char, c as c_int, || run() as c_int).into(),
            libc::SYS_openat2 => {
                // `struct open_how` begins with the flags, as 64 bits (openat2(2)).
                let flags = if c == 0 { 0 } else { *(c as *const u64) as c_int };
                names::open_path(Call::Open, a as c_int, b as *const c_char, flags, || run() as c_int).into()
            }
            _ => run(),
        }
    }
    io_uring_queue_init => fn(entries: c_uint, ring: *mut c_void, flags: c_uint) -> c_int, |real| {
        ring_set_up(c_long::from(real(entries, ring, flags))) as c_int
    }
    io_uring_queue_init_params => fn(entries: c_uint, ring: *mut c_void, parameters: *mut c_void) -> c_int, |real| {
        ring_set_up(c_long::from(real(entries, ring, parameters))) as c_int
    }
    io_uring_submit, io_uring_submit_and_get_events => fn(ring: *mut c_void) -> c_int, |real| {
        ENTERS.fetch_add(1, Relaxed);
        real(ring)
    }
    io_uring_submit_and_wait => fn(ring: *mut c_void, count: c_uint) -> c_int, |real| {
        ENTERS.fetch_add(1, Relaxed);
        real(ring, count)
    }
    io_setup => fn(count: c_int, context: *mut c_void) -> c_int, |real| {
        let result = names::made(|| real(count, context));
        if result == 0 && !attach::off() {
            post::unseen(UnseenKind::NativeAio, 0, 1);
        }
        result
    }
}

/// Leaves the command of a futex operation without its flags (linux/futex.h).
const FUTEX_COMMAND: c_int = !(libc::FUTEX_PRIVATE_FLAG | libc::FUTEX_CLOCK_REALTIME);

/// Looks at a program before it is started; says so if the recording can't follow it.
pub fn look_at(directory: c_int, path: *const c_char, search: bool) {
    if attach::off() || path.is_null() {
        return;
    }
    let saved = crate::real::errno();
    let mut found = [0u8; 4096];
    let path = if search && !has_slash(path) { find_in_path(path, &mut found) } else { path };
    if !path.is_null()
        && let Some(kind) = kind_of(directory, path)
    {
        post::unseen(kind, paths::of(directory, path).0, 1);
    }
    crate::real::set_errno(saved);
}

fn has_slash(path: *const c_char) -> bool {
    // SAFETY: a C string.
    unsafe { !libc::strchr(path, c_int::from(b'/')).is_null() }
}

/// The first executable of that name along PATH.
fn find_in_path(file: *const c_char, found: &mut [u8; 4096]) -> *const c_char {
    // SAFETY: C strings; the result lies in `found`.
    unsafe {
        let list = libc::getenv(c"PATH".as_ptr());
        if list.is_null() {
            return core::ptr::null();
        }
        let file = core::ffi::CStr::from_ptr(file).to_bytes();
        for directory in core::ffi::CStr::from_ptr(list).to_bytes().split(|&byte| byte == b':') {
            if directory.len() + file.len() + 2 > found.len() {
                continue;
            }
            found[..directory.len()].copy_from_slice(directory);
            found[directory.len()] = b'/';
            found[directory.len() + 1..][..file.len()].copy_from_slice(file);
            found[directory.len() + 1 + file.len()] = 0;
            const SYS_ACCESS: usize = 21;
            if sys::syscall(SYS_ACCESS, found.as_ptr() as usize, libc::X_OK as usize, 0, 0, 0, 0) == 0 {
                return found.as_ptr().cast();
            }
        }
    }
    core::ptr::null()
}

/// Why a preload can't enter the program at `path`; `None` if it can, or if that can't be told.
fn kind_of(directory: c_int, path: *const c_char) -> Option<UnseenKind> {
    // SAFETY: a C string; buffers of the sizes given.
    unsafe {
        let fd = sys::openat(directory, path.cast(), libc::O_RDONLY | sys::O_CLOEXEC, 0);
        if sys::failed(fd) {
            return None;
        }
        let mut stat = MaybeUninitStat::uninit();
        let stated = sys::fstat(fd as c_int, stat.as_mut_ptr().cast());
        let mut head = [0u8; 1024];
        let length = sys::read(fd as c_int, head.as_mut_ptr(), head.len());
        sys::close(fd as c_int);
        if sys::failed(stated) || sys::failed(length) {
            return None;
        }
        let stat = stat.assume_init();
        // AT_SECURE is set where the identity changes (ld.so(8)): then the preload is ignored.
        let changes_user = stat.st_mode & libc::S_ISUID != 0 && stat.st_uid != libc::geteuid();
        let changes_group = stat.st_mode & libc::S_ISGID != 0
            && stat.st_mode & libc::S_IXGRP != 0
            && stat.st_gid != libc::getegid();
        if changes_user || changes_group {
            return Some(UnseenKind::Setuid);
        }
        elf_kind(&head[..(length as usize).min(head.len())])
    }
}

type MaybeUninitStat = core::mem::MaybeUninit<libc::stat>;

/// Reads an ELF header (elf(5)): a program without an interpreter is static.
fn elf_kind(head: &[u8]) -> Option<UnseenKind> {
    const PT_INTERP: u32 = 3;
    const EM_X86_64: u16 = 62;
    if head.get(..4)? != b"\x7fELF" {
        return None;
    }
    let u16_at = |at: usize| Some(u16::from_le_bytes(head.get(at..at + 2)?.try_into().ok()?));
    if *head.get(4)? != 2 || u16_at(18)? != EM_X86_64 {
        return Some(UnseenKind::Foreign);
    }
    let table = u64::from_le_bytes(head.get(32..40)?.try_into().ok()?) as usize;
    let (size, count) = (u16_at(54)? as usize, u16_at(56)? as usize);
    for index in 0..count {
        let at = table.checked_add(index.checked_mul(size)?)?;
        let kind = u32::from_le_bytes(head.get(at..at.checked_add(4)?)?.try_into().ok()?);
        if kind == PT_INTERP {
            return None;
        }
    }
    Some(UnseenKind::Static)
}
