//! What a thread that posts keeps: 128 bytes of initial-exec thread-local storage.
//!
//! Stable Rust's `thread_local!` in a shared library goes through `__tls_get_addr`, which may
//! allocate after a `dlopen`; a variable in `.tbss` reached through the initial-exec model costs
//! one load and never does (ELF Handling For Thread-Local Storage, section 4.3.6).

use iotrail_format::segment::{RingHeader, Slot};

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
}

const _: () = assert!(size_of::<Thread>() == 128);

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
            start_ticks: 0,
            grow_at: 0,
            crumb: 0,
            leased: 0,
            woke_at: 0,
            announces: true,
        }
    }
}

core::arch::global_asm!(
    ".pushsection .tbss.iotrail_thread,\"awT\",@nobits",
    ".globl iotrail_thread",
    ".hidden iotrail_thread",
    ".type iotrail_thread,@object",
    ".size iotrail_thread,128",
    ".p2align 6",
    "iotrail_thread:",
    ".zero 128",
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
