//! Memory mapped by the sealer: segments of the recorded programs, the control file, journals.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;

/// A mapping, unmapped when dropped.
pub struct Mapping {
    base: NonNull<AtomicU64>,
    bytes: usize,
}

// SAFETY: the memory is only reached as atomics, from any thread; the mapping itself is immutable.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps the first `bytes` of `file`, shared. The file must be that long as long as it is mapped.
    pub fn shared(file: &File, bytes: usize) -> io::Result<Self> {
        Self::map(bytes, libc::MAP_SHARED, file.as_raw_fd())
    }

    /// Maps memory that belongs to no file.
    pub fn anonymous(bytes: usize) -> io::Result<Self> {
        Self::map(bytes, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1)
    }

    fn map(bytes: usize, flags: i32, fd: i32) -> io::Result<Self> {
        // SAFETY: a new mapping at an address of the kernel's choice touches nothing that exists.
        let base = unsafe {
            libc::mmap(std::ptr::null_mut(), bytes, libc::PROT_READ | libc::PROT_WRITE, flags, fd, 0)
        };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        NonNull::new(base.cast())
            .map(|base| Self { base, bytes })
            .ok_or_else(|| io::Error::other("mmap returned address 0"))
    }

    /// The memory as words.
    #[must_use]
    pub fn words(&self) -> &[AtomicU64] {
        // SAFETY: the mapping is `bytes` long, page-aligned, readable and writable until `self` is
        // dropped; other processes write it too, which is what atomics are for.
        unsafe { std::slice::from_raw_parts(self.base.as_ptr(), self.bytes / 8) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: this is the mapping that `map` made; `words` borrows from `self`, so nothing uses it.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.bytes) };
    }
}
