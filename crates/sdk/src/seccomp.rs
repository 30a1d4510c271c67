//! Which seccomp filters a process inherited.
//!
//! A filter may kill the process for a system call that it doesn't list, so what is asked here is asked with calls
//! that the dynamic loader has just made to load this library: openat, read and close, with its flags. A filter
//! that the recorder runs under as well (a container's) allows what the recorder needs; one that came later may not.

use core::mem::offset_of;

use iotrail_format::seccomp::parse_filters;
use iotrail_format::segment::{CONTROL_NAME, Control};

use crate::{session, sys};

/// Filters of the calling process; `None` where /proc can't be read.
fn count_filters() -> Option<u32> {
    let mut status = [0u8; 4096];
    let length = read_file(b"/proc/self/status\0", &mut status)?;
    parse_filters(&status[..length])
}

/// Whether a filter was installed after the recorder began, by an ancestor of this image.
pub(crate) fn is_filtered_beyond_recorder() -> bool {
    match count_filters() {
        None | Some(0) => false,
        Some(filters) => filters != recorders_filters(),
    }
}

/// What the recorder entered into the control file.
fn recorders_filters() -> u32 {
    let path = session::path(CONTROL_NAME.as_bytes());
    let mut control = [0u8; size_of::<Control>()];
    let at = offset_of!(Control, filters);
    match read_file(&path, &mut control) {
        Some(length) if length >= at + 4 => {
            u32::from_ne_bytes([control[at], control[at + 1], control[at + 2], control[at + 3]])
        }
        _ => 0,
    }
}

/// The beginning of a file. `path` is NUL-terminated.
fn read_file(path: &[u8], into: &mut [u8]) -> Option<usize> {
    // SAFETY: a NUL-terminated path, a buffer of the length given; the descriptor is ours and closed at once.
    unsafe {
        let fd = sys::openat(sys::AT_FDCWD, path.as_ptr(), sys::O_CLOEXEC, 0);
        if sys::failed(fd) {
            return None;
        }
        let length = sys::read(fd as i32, into.as_mut_ptr(), into.len());
        sys::close(fd as i32);
        if sys::failed(length) { None } else { Some(length as usize) }
    }
}
