//! Memory mapped by the sealer: segments of the recorded programs, the control file, journals.
//!
//! What a program can write it can also truncate, and touching a page beyond a file's end is SIGBUS (mmap(2)). Such
//! mappings are [guarded](Mapping::guarded), as Wayland's compositors guard theirs (wl_shm_buffer_begin_access): the
//! handler puts anonymous zero pages in the place of the whole mapping, which from then on [is torn](Mapping::is_torn).

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::ptr::{NonNull, null_mut};
use std::sync::Once;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, AtomicUsize, Ordering};

/// A mapping, unmapped when dropped.
pub struct Mapping {
    base: NonNull<AtomicU64>,
    bytes: usize,
    guard: Option<&'static Guard>,
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

    /// As [`Self::shared`], of a file that others can truncate at any time.
    pub fn guarded(file: &File, bytes: usize) -> io::Result<Self> {
        let mut map = Self::shared(file, bytes)?;
        map.guard = Some(Guard::of(map.base.as_ptr() as usize, bytes));
        Ok(map)
    }

    /// Whether the file was truncated and memory of its own stands in the mapping's place.
    #[must_use]
    pub fn is_torn(&self) -> bool {
        self.guard.is_some_and(|guard| guard.torn.load(Ordering::Acquire))
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
            .map(|base| Self { base, bytes, guard: None })
            .ok_or_else(|| io::Error::other("mmap returned address 0"))
    }

    /// Maps whole pages of it ahead of their first touch, which saves a page fault for each. Where the kernel can't
    /// (before 5.14), each takes its own.
    pub fn populate(&self, from: usize, bytes: usize) {
        let start = self.base.as_ptr().cast::<u8>().wrapping_add(from);
        // Miri doesn't know the advice.
        if !cfg!(miri) && from.checked_add(bytes).is_some_and(|end| end <= self.bytes) {
            // SAFETY: pages of this mapping, which are read and written as if they had been touched.
            unsafe { libc::madvise(start.cast(), bytes, libc::MADV_POPULATE_WRITE) };
        }
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
        if let Some(guard) = self.guard {
            guard.free();
        }
        // SAFETY: this is the mapping that `map` made; `words` borrows from `self`, so nothing uses it.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.bytes) };
    }
}

/// A guarded mapping, for the signal handler: in a list that only grows, whose entries are used again.
struct Guard {
    /// 0 while nobody uses the entry.
    base: AtomicUsize,
    bytes: AtomicUsize,
    torn: AtomicBool,
    next: *const Guard,
}

// SAFETY: `next` is written before the entry is published and never changes; the rest is atomic.
unsafe impl Sync for Guard {}

static GUARDS: AtomicPtr<Guard> = AtomicPtr::new(null_mut());
/// What handled SIGBUS before: of `sigaction`, the handler's address and the flags.
static BEFORE: (AtomicUsize, AtomicUsize) = (AtomicUsize::new(libc::SIG_DFL), AtomicUsize::new(0));

impl Guard {
    fn all() -> impl Iterator<Item = &'static Self> {
        // SAFETY: null or an entry, which is never freed.
        let mut next = unsafe { GUARDS.load(Ordering::Acquire).as_ref() };
        std::iter::from_fn(move || {
            let guard = next?;
            // SAFETY: as above.
            next = unsafe { guard.next.as_ref() };
            Some(guard)
        })
    }

    fn of(base: usize, bytes: usize) -> &'static Self {
        static HANDLER: Once = Once::new();
        HANDLER.call_once(install_handler);
        /// Stands in `base` while the rest of an entry is written.
        const TAKEN: usize = 1;
        let take = |guard: &&Self| {
            guard.base.compare_exchange(0, TAKEN, Ordering::AcqRel, Ordering::Relaxed).is_ok()
        };
        if let Some(guard) = Self::all().find(take) {
            guard.bytes.store(bytes, Ordering::Relaxed);
            guard.torn.store(false, Ordering::Relaxed);
            guard.base.store(base, Ordering::Release);
            return guard;
        }
        let guard = Box::leak(Box::new(Self {
            base: AtomicUsize::new(base),
            bytes: AtomicUsize::new(bytes),
            torn: AtomicBool::new(false),
            next: GUARDS.load(Ordering::Acquire),
        }));
        while let Err(first) =
            GUARDS.compare_exchange(guard.next.cast_mut(), guard, Ordering::AcqRel, Ordering::Acquire)
        {
            guard.next = first;
        }
        guard
    }

    fn free(&self) {
        self.base.store(0, Ordering::Release);
    }

    /// Whether an address is in the mapping.
    fn has(&self, address: usize) -> bool {
        let base = self.base.load(Ordering::Acquire);
        // An entry that is free or being taken has no address above its base that is in `bytes`.
        base > 1 && (base..base + self.bytes.load(Ordering::Relaxed)).contains(&address)
    }
}

fn install_handler() {
    // SAFETY: a zeroed sigaction is valid; the handler only does what a signal handler may (signal-safety(7)).
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        let mut before: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = replace_torn as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_RESTART;
        libc::sigemptyset(&mut action.sa_mask);
        if libc::sigaction(libc::SIGBUS, &action, &mut before) == 0 {
            BEFORE.1.store(before.sa_flags as usize, Ordering::Relaxed);
            BEFORE.0.store(before.sa_sigaction, Ordering::Release);
        }
    }
}

/// Handles SIGBUS: memory takes the place of a guarded mapping; what else faults is for the handler before this one.
extern "C" fn replace_torn(signal: i32, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: the kernel passes a valid siginfo for SIGBUS.
    let address = unsafe { (*info).si_addr() } as usize;
    if let Some(guard) = Guard::all().find(|guard| guard.has(address)) {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED | libc::MAP_NORESERVE;
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let base = guard.base.load(Ordering::Acquire);
        // SAFETY: replaces a whole mapping that a `Mapping` owns, by one of the same size that any atomics may be in.
        // mmap is a plain system call, so it may be made here.
        let mapped = unsafe {
            libc::mmap(
                base as *mut libc::c_void,
                guard.bytes.load(Ordering::Relaxed),
                protection,
                flags,
                -1,
                0,
            )
        };
        if mapped != libc::MAP_FAILED {
            guard.torn.store(true, Ordering::Release);
            return;
        }
    }
    let (handler, flags) = (BEFORE.0.load(Ordering::Acquire), BEFORE.1.load(Ordering::Relaxed));
    // SAFETY: the handler that sigaction gave, called as its flags say; else the signal's default action, which ends
    // the process when the instruction is tried again.
    unsafe {
        if handler == libc::SIG_DFL || handler == libc::SIG_IGN {
            libc::signal(signal, libc::SIG_DFL);
        } else if flags & libc::SA_SIGINFO as usize != 0 {
            let handler: extern "C" fn(i32, *mut libc::siginfo_t, *mut libc::c_void) =
                std::mem::transmute(handler);
            handler(signal, info, context);
        } else {
            let handler: extern "C" fn(i32) = std::mem::transmute(handler);
            handler(signal);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_truncated_file_tears_its_mapping_and_no_other() {
        let (torn, whole) = (tempfile::tempfile().unwrap(), tempfile::tempfile().unwrap());
        for file in [&torn, &whole] {
            file.set_len(1 << 16).unwrap();
        }
        for _ in 0..2 {
            torn.set_len(1 << 16).unwrap();
            let [map, other] = [&torn, &whole].map(|file| Mapping::guarded(file, 1 << 16).unwrap());
            map.words()[8000].store(7, Ordering::Relaxed);
            other.words()[8000].store(7, Ordering::Relaxed);
            torn.set_len(0).unwrap();
            assert!(!map.is_torn());
            assert_eq!(map.words()[8000].load(Ordering::Relaxed), 0);
            assert!(map.is_torn() && !other.is_torn());
            map.words()[0].store(1, Ordering::Relaxed);
            assert_eq!(other.words()[8000].load(Ordering::Relaxed), 7);
        }
    }
}
