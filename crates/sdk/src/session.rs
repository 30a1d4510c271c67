//! The session that this program is recorded in: its directory, the page that all its programs map, and the files that
//! they add beside it.
//!
//! Nothing here is of one image: a forked child has it as its parent had.

use core::ptr::null_mut;
use core::sync::atomic::{AtomicBool, AtomicPtr, Ordering::*};

use iotrail_format::segment::*;

use crate::{clock, sys, throttle};

static CONTROL: AtomicPtr<Control> = AtomicPtr::new(null_mut());
/// Whether this process may only read it: it runs as another user than the recorder.
static READS_ONLY: AtomicBool = AtomicBool::new(false);

/// The session's directory, NUL-terminated; written once, before any other thread runs.
static mut SESSION: [u8; MAX] = [0; MAX];
const MAX: usize = 256;

/// Room for the path of a file in it.
pub(crate) type Path = [u8; MAX + 64];

/// Notes the session's directory; false if it is none that could be one. Once, before other threads exist.
pub(crate) fn enter(directory: &[u8]) -> bool {
    if directory.is_empty() || directory.len() >= MAX {
        return false;
    }
    // SAFETY: the constructor runs before any other code of ours; nobody reads SESSION yet.
    unsafe {
        let target = (&raw mut SESSION).cast::<u8>();
        core::ptr::copy_nonoverlapping(directory.as_ptr(), target, directory.len());
        target.add(directory.len()).write(0);
    }
    true
}

/// The session's directory.
pub(crate) fn directory() -> &'static [u8] {
    // SAFETY: SESSION is written once by [`enter`], before other threads exist.
    let bytes = unsafe { core::slice::from_raw_parts((&raw const SESSION).cast::<u8>(), MAX) };
    let length = bytes.iter().position(|&b| b == 0).unwrap_or(0);
    &bytes[..length]
}

/// Path of a file in it, NUL-terminated.
pub(crate) fn path(name: &[u8]) -> Path {
    let directory = directory();
    let mut out: Path = [0; _];
    let mut at = 0;
    for &byte in directory.iter().chain(b"/").chain(name) {
        if at + 1 < out.len() {
            out[at] = byte;
            at += 1;
        }
    }
    out[at] = 0;
    out
}

/// Maps the control page; false if it isn't there, or of another version.
pub(crate) fn open() -> bool {
    let mut mapped = map_control(sys::O_RDWR | sys::O_CLOEXEC);
    if mapped == -sys::errno::EACCES {
        READS_ONLY.store(true, Relaxed);
        mapped = map_control(sys::O_CLOEXEC);
    }
    if sys::failed(mapped) {
        return false;
    }
    let control = mapped as *mut Control;
    // SAFETY: a mapped page of at least the size of Control.
    let (magic, version) = unsafe { ((*control).magic, (*control).version) };
    let is_ours = magic == CONTROL_MAGIC && version == SEGMENT_VERSION;
    if is_ours {
        CONTROL.store(control, Relaxed);
        // SAFETY: mapped for good.
        throttle::open(unsafe { &*control });
    }
    is_ours
}

fn map_control(flags: i32) -> isize {
    let path = path(CONTROL_NAME.as_bytes());
    // SAFETY: a NUL-terminated path; the descriptor is ours and closed before returning. The
    // recorder made the file a page long before any program knew its name.
    unsafe {
        let fd = sys::openat(sys::AT_FDCWD, path.as_ptr(), flags, 0);
        if fd == -sys::errno::EMFILE {
            return sys::map_without_descriptor(path.as_ptr(), flags, None, PAGE);
        }
        if sys::failed(fd) {
            return fd;
        }
        let mapped = sys::map_shared(fd as i32, flags, PAGE);
        sys::close(fd as i32);
        mapped
    }
}

/// The control page.
pub(crate) fn control() -> Option<&'static Control> {
    // SAFETY: null or a mapping that is never undone.
    unsafe { CONTROL.load(Relaxed).as_ref() }
}

/// Whether this process may only read it.
pub(crate) fn is_read_only() -> bool {
    READS_ONLY.load(Relaxed)
}

/// As [`control`], where it may be written.
pub(crate) fn counters() -> Option<&'static Control> {
    control().filter(|_| !is_read_only())
}

/// Path of a file of this image in the session, `PREFIX` and `PID-START`, both in hexadecimal, NUL-terminated.
pub(crate) fn image_path(prefix: &[u8], pid: u32, ticks: u64) -> Path {
    let mut name = [0u8; 48];
    let mut at = 0;
    let mut push = |byte: u8| {
        name[at] = byte;
        at += 1;
    };
    let hex = |value: u64, digit: u32| b"0123456789abcdef"[(value >> (4 * digit) & 15) as usize];
    prefix.iter().copied().for_each(&mut push);
    (0..8).rev().for_each(|digit| push(hex(u64::from(pid), digit)));
    push(b'-');
    (0..16).rev().for_each(|digit| push(hex(ticks, digit)));
    path(&name[..at])
}

/// Counts that this image got no segment: by an empty file where it may not write the counters.
pub(crate) fn refuse(wanted: Want) {
    const FLAGS: i32 = sys::O_RDWR | sys::O_CREAT | sys::O_EXCL | sys::O_CLOEXEC;
    if let Some(control) = counters() {
        control.wanted.fetch_or(wanted as u32, Relaxed);
        control.refused.fetch_add(1, Relaxed);
        return;
    }
    let mut prefix = *REFUSED_PREFIX;
    prefix[REFUSED_WANT] = b'0' + wanted as u8;
    // SAFETY: no arguments.
    let path = image_path(&prefix, unsafe { sys::getpid() } as u32, clock::ticks());
    // SAFETY: a NUL-terminated path; the descriptor is ours.
    unsafe {
        let fd = sys::openat(sys::AT_FDCWD, path.as_ptr(), FLAGS, 0o600);
        if !sys::failed(fd) {
            sys::close(fd as i32);
        }
    }
}

/// Creates the file and maps `span` bytes of it; the descriptor is closed again.
pub(crate) fn map_new_file(path: &[u8], span: usize) -> isize {
    const FLAGS: i32 = sys::O_RDWR | sys::O_CREAT | sys::O_EXCL | sys::O_CLOEXEC;
    // SAFETY: a NUL-terminated path; the descriptor is ours and closed before returning.
    unsafe {
        let fd = sys::openat(sys::AT_FDCWD, path.as_ptr(), FLAGS, 0o600);
        if fd == -sys::errno::EMFILE {
            return sys::map_without_descriptor(path.as_ptr(), FLAGS, Some(span), span);
        }
        if sys::failed(fd) {
            return fd;
        }
        let sized = sys::ftruncate(fd as i32, span as i64);
        let mapped = if sys::failed(sized) { sized } else { sys::map_shared(fd as i32, FLAGS, span) };
        sys::close(fd as i32);
        if sys::failed(mapped) {
            sys::unlink(path.as_ptr());
        }
        mapped
    }
}

/// Makes `length` bytes at `address` present, or nothing: a full tmpfs answers EFAULT here where a
/// plain store would be SIGBUS (madvise(2), MADV_POPULATE_WRITE).
pub(crate) fn populate(control: &Control, address: usize, length: usize) -> Result<(), Want> {
    let counters = counters();
    let take_back = || counters.map(|control| control.used.fetch_sub(length as i64, Relaxed));
    let before = match counters {
        Some(control) => control.used.fetch_add(length as i64, Relaxed),
        None => control.used.load(Relaxed),
    };
    if before + length as i64 > control.budget as i64 {
        take_back();
        return Err(Want::Budget);
    }
    // SAFETY: the range lies in our own mapping.
    if sys::failed(unsafe { sys::madvise(address, length, sys::MADV_POPULATE_WRITE) }) {
        take_back();
        return Err(Want::Space);
    }
    Ok(())
}

/// Wakes the sealer.
pub(crate) fn wake(control: &Control) {
    const FUTEX_WAKE: usize = 1;
    if let Some(control) = counters() {
        control.wake.fetch_add(1, Relaxed);
    }
    // SAFETY: a mapped futex word; to wake who waits, it need not be written (futex(2)).
    unsafe { sys::futex(control.wake.as_ptr(), FUTEX_WAKE, 1, 0) };
}
