//! What a thread that posts keeps: 256 bytes of initial-exec thread-local storage.
//!
//! Stable Rust's `thread_local!` in a shared library goes through `__tls_get_addr`, which may
//! allocate after a `dlopen`; a variable in `.tbss` reached through the initial-exec model costs
//! one load and never does (ELF Handling For Thread-Local Storage, section 4.3.6).

use core::sync::atomic::{AtomicU8, Ordering::Relaxed};

use iotrail_format::segment::{RingHeader, Slot};
use iotrail_format::throttle::NodeSlot;

use crate::cpu::CpuTime;

/// A thread's storage. All zero in a new thread.
#[repr(C, align(64))]
struct Local {
    thread: Thread,
    /// [`Confinement`], as a number. Beside the thread, because it is asked while the thread is borrowed.
    confined: AtomicU8,
}

/// A thread's state. All zero in a new thread: not attached.
#[repr(C)]
pub struct Thread {
    /// Equals the image's generation while `ring` is usable.
    pub(crate) generation: u64,
    /// The ring.
    pub(crate) ring: *const RingHeader,
    /// Its slots.
    pub(crate) slots: *const Slot,
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
    /// Counter when it last called fork, if that was said; 0 never.
    pub(crate) forked: u64,
    /// Reserved count at which growing is tried again after it was refused.
    pub(crate) grow_at: u64,
    /// The breadcrumb this thread works for; 0 none.
    pub(crate) crumb: i64,
    /// The breadcrumbs it may still hand out: from here to the next multiple of a lease.
    pub(crate) leased: i64,
    /// Counter and CPU clock (nanoseconds) when that was last read at a change of breadcrumb; 0 never.
    pub(crate) marked_ticks: u64,
    pub(crate) marked_ns: u64,
    /// 1 + where the sealer was when this thread last woke it; 0 not yet in this ring.
    pub(crate) woke_at: u64,
    /// How far it has come, where that is followed ([`crate::throttle`]); null nowhere.
    pub(crate) node: *const NodeSlot,
    /// Threads and processes that it has made, where it is followed.
    pub(crate) children: u32,
    /// Whether this is no thread: it announces the image's symbols and types (see [`crate::names`]).
    pub(crate) announces: bool,
    /// Its CPU time.
    pub(crate) cpu: CpuTime,
}

const _: () = assert!(size_of::<Local>() == 256);
// What each post touches lies on one cache line.
const _: () = assert!(core::mem::offset_of!(Thread, due) + 8 <= 64);

impl Thread {
    pub(crate) const fn announcer() -> Self {
        Self {
            generation: 0,
            ring: core::ptr::null(),
            slots: core::ptr::null(),
            mask: 0,
            busy: 0,
            vfork_marked: 0,
            vfork: 0,
            rings: 0,
            id: 0,
            due: 0,
            start_ticks: 0,
            forked: 0,
            grow_at: 0,
            crumb: 0,
            leased: 0,
            marked_ticks: 0,
            marked_ns: 0,
            woke_at: 0,
            node: core::ptr::null(),
            children: 0,
            announces: true,
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
#[cfg(miri)]
#[must_use]
pub fn current() -> *mut Thread {
    use core::cell::UnsafeCell;
    const NEW: Local = Local { thread: Thread::announcer(), confined: AtomicU8::new(0) };
    std::thread_local! { static CURRENT: UnsafeCell<Local> = const { UnsafeCell::new(NEW) } }
    CURRENT.with(UnsafeCell::get).cast()
}

/// Gives the calling thread its ring: Miri has no shared mapping to find one in, and makes no system calls.
///
/// # Safety
/// `ring` and the `capacity` slots after its page live as long as the thread, which alone posts into it.
#[cfg(miri)]
pub unsafe fn post_into(ring: *const RingHeader, capacity: u64) {
    // SAFETY: the calling thread's own state.
    let thread = unsafe { &mut *current() };
    thread.ring = ring;
    thread.slots = ring.wrapping_byte_add(iotrail_format::segment::PAGE).cast();
    thread.mask = capacity - 1;
    (thread.due, thread.grow_at) = (u64::MAX, u64::MAX);
    confine(Confinement::Filter, false);
    // What an image that is not attached expects.
    thread.generation = 1;
}

/// The calling thread's state.
#[cfg(not(miri))]
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
    confined().load(Relaxed) | ALL_CONFINED.load(Relaxed)
}

#[inline(always)]
fn confined() -> &'static AtomicU8 {
    // SAFETY: the calling thread's own storage, of which nobody borrows this part.
    unsafe { &(*current().cast::<Local>()).confined }
}

/// From now on the calling thread, or with `all` each thread of the process, is confined.
pub fn confine(how: Confinement, all: bool) {
    // Not fetch_max, which would be a loop: no other thread writes it.
    confined().store(confined().load(Relaxed).max(how as u8), Relaxed);
    if all {
        ALL_CONFINED.fetch_max(how as u8, Relaxed);
    }
}
