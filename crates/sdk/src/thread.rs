//! What a thread that posts keeps: 256 bytes of initial-exec thread-local storage.
//!
//! Stable Rust's `thread_local!` in a shared library goes through `__tls_get_addr`, which may
//! allocate after a `dlopen`; a variable in `.tbss` reached through the initial-exec model costs
//! one load and never does (ELF Handling For Thread-Local Storage, section 4.3.6).

use core::sync::atomic::{AtomicU8, Ordering::Relaxed};

use iotrail_format::segment::{RingHeader, Slot};

use crate::cpu::CpuTime;

/// A thread's state. All zero in a new thread: not attached.
#[repr(C, align(64))]
pub struct Thread {
    /// Equals the image's generation while `ring` is usable.
    pub(crate) generation: u64,
    /// The ring.
    pub(crate) ring: *mut RingHeader,
    /// Its slots.
    pub(crate) slots: *mut Slot,
    /// Slots less one.
    pub(crate) mask: u64,
    /// Set while this thread is inside the recorder: a signal handler that interrupts it must
    /// neither attach nor move the ring.
    pub(crate) busy: u16,
    /// Whether the ring's last vfork marker names a child.
    pub(crate) vfork_marked: u16,
    /// Pid of the parent while this thread may be a vfork child that runs on its memory; 0 otherwise.
    pub(crate) vfork: u32,
    /// Rings it has had.
    pub(crate) rings: u32,
    /// Thread id of the trail; 0 not yet given.
    pub(crate) id: i64,
    /// Counter from which on the CPU clock is read again (see [`crate::cpu`]); 0 never read yet.
    pub(crate) due: u64,
    /// Counter when the thread began, if its creator said so; 0 unknown.
    pub(crate) start_ticks: u64,
    /// Reserved count at which growing is tried again after it was refused.
    pub(crate) grow_at: u64,
    /// The breadcrumb this thread works for; 0 none.
    pub(crate) crumb: i64,
    /// The breadcrumbs it may still hand out: from here to the next multiple of a lease.
    pub(crate) leased: i64,
    /// 1 + where the sealer was when this thread last woke it; 0 not yet in this ring.
    pub(crate) woke_at: u64,
    /// Whether this is no thread: it announces the image's symbols and types (see [`crate::names`]).
    pub(crate) announces: bool,
    /// [`Confinement`] of this thread, as a number.
    confined: u8,
    /// Its CPU time.
    pub(crate) cpu: CpuTime,
}

const _: () = assert!(size_of::<Thread>() == 256);
// What each post touches lies on one cache line.
const _: () = assert!(core::mem::offset_of!(Thread, due) + 8 <= 64);

impl Thread {
    pub(crate) const fn announcer() -> Self {
        Self {
            generation: 0,
            ring: core::ptr::null_mut(),
            slots: core::ptr::null_mut(),
            mask: 0,
            busy: 0,
            vfork_marked: 0,
            vfork: 0,
            rings: 0,
            id: 0,
            due: 0,
            start_ticks: 0,
            grow_at: 0,
            crumb: 0,
            leased: 0,
            woke_at: 0,
            announces: true,
            confined: Confinement::None as u8,
            cpu: CpuTime::ZERO,
        }
    }
}

core::arch::global_asm!(
    ".pushsection .tbss.iotrail_thread,\"awT\",@nobits",
    ".globl iotrail_thread",
    ".hidden iotrail_thread",
    ".type iotrail_thread,@object",
    ".size iotrail_thread,256",
    ".p2align 6",
    "iotrail_thread:",
    ".zero 256",
    ".popsection",
);

/// The calling thread's state.
#[inline(always)]
#[must_use]
pub fn current() -> *mut Thread {
    let address: *mut Thread;
    // SAFETY: reads the thread pointer and the variable's offset from it; both are constants of
    // the thread. Zeroed storage is a valid `Thread`.
    unsafe {
        core::arch::asm!(
            "mov {0}, qword ptr [rip + iotrail_thread@GOTTPOFF]",
            "add {0}, qword ptr fs:[0]",
            out(reg) address, options(pure, readonly, nostack, preserves_flags));
    }
    address
}

/// What seccomp(2) leaves to a thread. The recorder then makes no system call of its own: the filter may kill
/// the process for one that the program never makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Confinement {
    /// No filter.
    None = 0,
    /// A filter of its own. Posting into memory that is there already goes on.
    Filter = 1,
    /// SECCOMP_MODE_STRICT. The kernel refuses the time-stamp counter too (prctl(2), PR_SET_TSC): nothing is
    /// posted any more, and calls are counted.
    Strict = 2,
}

/// [`Confinement`] of all threads of the process (SECCOMP_FILTER_FLAG_TSYNC).
static ALL_CONFINED: AtomicU8 = AtomicU8::new(Confinement::None as u8);

/// Whether the calling thread must make no system call of the recorder's.
#[inline(always)]
#[must_use]
pub fn is_confined() -> bool {
    confinement() != Confinement::None as u8
}

/// Whether the calling thread must not even read the time-stamp counter.
#[inline(always)]
#[must_use]
pub fn is_strict() -> bool {
    confinement() >= Confinement::Strict as u8
}

#[inline(always)]
fn confinement() -> u8 {
    // SAFETY: the calling thread's own state.
    unsafe { (*current()).confined | ALL_CONFINED.load(Relaxed) }
}

/// From now on the calling thread, or with `all` each thread of the process, is confined.
pub fn confine(how: Confinement, all: bool) {
    // SAFETY: the calling thread's own state.
    let thread = unsafe { &mut *current() };
    thread.confined = thread.confined.max(how as u8);
    if all {
        ALL_CONFINED.fetch_max(how as u8, Relaxed);
    }
}
