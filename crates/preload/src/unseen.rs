//! What can't be recorded, noticed where it begins: programs no preload can enter, io_uring, native
//! asynchronous I/O, raw system calls.

use core::ffi::{c_char, c_int, c_long, c_uint, c_void};
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

use iotrail_format::call::{Call, WaitKind};
use iotrail_format::segment::{NONE, UnseenKind};
use iotrail_sdk::{attach, post, sys};

use crate::real::interpose;
use crate::record::{on_descriptor, transfer, wait};
use crate::{aio, confinement, descriptors, files, names, paths};

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
            libc::SYS_seccomp => confinement::with_seccomp(a, b, run),
            libc::SYS_prctl => c_long::from(confinement::with_prctl(a as c_int, b, || run() as c_int)),
            libc::SYS_io_submit => aio::submitting(b as c_long, c as *const *const aio::Iocb, run),
            libc::SYS_io_getevents | SYS_IO_PGETEVENTS => aio::getting(d as *const aio::IoEvent, run),
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
                wait(Call::Futex, futex_kind(a, c as u32), a as i64, NONE, NONE, run),
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
}

/// io_pgetevents(2) on x86-64.
const SYS_IO_PGETEVENTS: c_long = 333;
/// Leaves the command of a futex operation without its flags (linux/futex.h).
const FUTEX_COMMAND: c_int = !(libc::FUTEX_PRIVATE_FLAG | libc::FUTEX_CLOCK_REALTIME);

/// Whether the recorder's library is where the loader of a program started now looks for it. Says so if not.
pub fn has_library() -> bool {
    /// What the recorder puts in front, so that other loaders ignore it (`crates/cli/src/record.rs`).
    const TOKEN: &[u8] = b"LD_PRELOAD=/$LIB";
    const SYS_ACCESS: usize = 21;
    let (variable, _) = crate::lifecycle::variables();
    if variable.is_null() {
        return true;
    }
    // SAFETY: `LD_PRELOAD=` and a path; what follows the token is a path from the root too.
    unsafe {
        let text = core::ffi::CStr::from_ptr(variable).to_bytes();
        let skipped = if text.starts_with(TOKEN) { TOKEN.len() } else { b"LD_PRELOAD=".len() };
        let found = sys::syscall(SYS_ACCESS, variable.add(skipped) as usize, 0, 0, 0, 0, 0);
        if found == 0 || iotrail_sdk::thread::is_confined() {
            return found == 0;
        }
    }
    post::unseen(UnseenKind::Chroot, 0, 1);
    false
}

/// Whether this program is one of Go's, which makes its system calls itself: by the note that its linker leaves
/// (`.note.go.buildid`). Reads what the kernel mapped and makes no call.
pub fn is_go() -> bool {
    const PT_NOTE: u32 = 4;
    const PT_PHDR: u32 = 6;
    // SAFETY: the kernel gives the place and number of the program's headers (getauxval(3)); what a PT_NOTE
    // header names is mapped, and each note lies within it.
    unsafe {
        let table = libc::getauxval(libc::AT_PHDR) as *const libc::Elf64_Phdr;
        let count = libc::getauxval(libc::AT_PHNUM) as usize;
        if table.is_null() || libc::getauxval(libc::AT_PHENT) as usize != size_of::<libc::Elf64_Phdr>() {
            return false;
        }
        let headers = core::slice::from_raw_parts(table, count);
        let Some(own) = headers.iter().find(|header| header.p_type == PT_PHDR) else { return false };
        let base = (table as usize).wrapping_sub(own.p_vaddr as usize);
        headers.iter().filter(|header| header.p_type == PT_NOTE).any(|header| {
            let start = base.wrapping_add(header.p_vaddr as usize) as *const u8;
            has_note(core::slice::from_raw_parts(start, header.p_memsz as usize), b"Go\0")
        })
    }
}

/// Addresses, by hash, that were waited at for another value than a held lock has.
static NO_LOCKS: [AtomicUsize; 1024] = [const { AtomicUsize::new(0) }; 1024];

/// What a futex wait is for. A held lock that somebody waits for has the value 2, in Rust's standard library
/// (std/src/sys/sync/mutex/futex.rs) as in glibc's low-level locks. Parked threads wait for other values, and condition
/// variables for a counter: that has had other values before it is 2.
fn futex_kind(address: usize, expected: u32) -> WaitKind {
    let known = &NO_LOCKS[address / 4 % NO_LOCKS.len()];
    if expected != 2 {
        known.store(address, Relaxed);
    }
    if expected == 2 && known.load(Relaxed) != address { WaitKind::Lock } else { WaitKind::Futex }
}

/// Whether a segment of notes (elf(5)) has one of `owner`.
fn has_note(mut notes: &[u8], owner: &[u8]) -> bool {
    let word = |notes: &[u8], at: usize| {
        let bytes = notes.get(at..at + 4).and_then(|bytes| bytes.try_into().ok());
        bytes.map(|bytes| u32::from_le_bytes(bytes) as usize)
    };
    while let (Some(name), Some(content)) = (word(notes, 0), word(notes, 4)) {
        if notes.get(12..).is_some_and(|rest| name >= owner.len() && rest.starts_with(owner)) {
            return true;
        }
        let Some(rest) = notes.get(12 + name.next_multiple_of(4) + content.next_multiple_of(4)..) else {
            break;
        };
        notes = rest;
    }
    false
}

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

/// Reads an ELF header (elf(5)): a program without an interpreter is static; one whose interpreter is not glibc's is
/// of another C library.
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
            let field = |at: usize| Some(u64::from_le_bytes(head.get(at..at + 8)?.try_into().ok()?) as usize);
            let start = field(at + 8)?;
            let interpreter = head.get(start..start.checked_add(field(at + 32)?)?)?;
            let is_glibc = interpreter.windows(8).any(|part| part == b"ld-linux");
            return if is_glibc { None } else { Some(UnseenKind::OtherLibc) };
        }
    }
    Some(UnseenKind::Static)
}
