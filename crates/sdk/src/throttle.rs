//! Following threads and pausing them before their calls on files, when the recorder asks (`record --throttle`; //TRACE, FAST 2007,
//! section 4.1.1), or letting them sleep after them for a time (`record --check`). See [`iotrail_format::throttle`] for the page.
//!
//! Without it nothing is done here: the CPU clock's own look at the counter ([`crate::cpu`]) leads here where it is asked for. A paused
//! thread sleeps on a futex, looks at the recorder's heartbeat each [`NAP`], and goes on for good when that stands still: a recorder that is
//! gone never keeps a program. A signal handler that interrupts a pause does its calls unpaused and uncounted. A thread under a seccomp
//! filter, which may make no system call here, is neither followed nor paused from then on.

use core::sync::atomic::{AtomicPtr, Ordering::*};

use iotrail_format::call::Call;
use iotrail_format::segment::Control;
use iotrail_format::throttle::*;

use crate::post::Draft;
use crate::thread::{self, Thread};
use crate::{attach, session, sys};

/// How long a paused thread sleeps before it looks at the heartbeat, ns.
const NAP: i64 = 100_000_000;
/// For how long the heartbeat may stand still before paused threads go on, ns.
const DEAD: u64 = 3_000_000_000;
/// [`Thread::due`] of threads that are followed: each call is looked at.
pub(crate) const ALWAYS: u64 = 1;

/// How a thread came to be.
#[derive(Clone, Copy)]
#[repr(u64)]
enum Origin {
    Root = 1,
    Created = 2,
    Forked = 3,
    Spawned = 4,
    Exec = 5,
    Unknown = 6,
    Rank = 7,
}

static PAGE: AtomicPtr<ThrottlePage> = AtomicPtr::new(core::ptr::null_mut());

#[inline(always)]
fn page() -> Option<&'static ThrottlePage> {
    // SAFETY: null or a mapping that is never undone.
    unsafe { PAGE.load(Relaxed).as_ref() }
}

/// Whether threads are followed.
#[inline(always)]
pub(crate) fn is_on() -> bool {
    page().is_some()
}

/// Maps the page, if the session has one and it may be written. Once, before other threads run.
pub(crate) fn open(control: &Control) {
    const FLAGS: i32 = sys::O_RDWR | sys::O_CLOEXEC;
    if control.causal.load(Relaxed) & FOLLOWED == 0 || session::is_read_only() {
        return;
    }
    let path = session::path(THROTTLE_NAME.as_bytes());
    // SAFETY: a NUL-terminated path; the descriptor is ours and closed before returning. The recorder wrote the file whole before any
    // program knew its name.
    let mapped = unsafe {
        let fd = sys::openat(sys::AT_FDCWD, path.as_ptr(), FLAGS, 0);
        if fd == -sys::errno::EMFILE {
            sys::map_without_descriptor(path.as_ptr(), FLAGS, None, THROTTLE_BYTES)
        } else if sys::failed(fd) {
            fd
        } else {
            let mapped = sys::map_shared(fd as i32, FLAGS, THROTTLE_BYTES);
            sys::close(fd as i32);
            mapped
        }
    };
    // SAFETY: mapped, and at least as large.
    if !sys::failed(mapped) && unsafe { (*(mapped as *const ThrottlePage)).magic } == THROTTLE_MAGIC {
        PAGE.store(mapped as *mut ThrottlePage, Release);
    }
}

fn slots(page: &ThrottlePage) -> &[NodeSlot] {
    let count = (page.nodes.load(Acquire) as usize).min(MAX_NODES);
    // SAFETY: the page is THROTTLE_BYTES long, and slots are words that may be read while they are written.
    unsafe { core::slice::from_raw_parts((&raw const *page).byte_add(NODES_START).cast::<NodeSlot>(), count) }
}

/// The slot of a thread, if it is there.
fn find(page: &ThrottlePage, pid: u32, tid: u32) -> Option<&NodeSlot> {
    let is_it = |slot: &&NodeSlot| {
        slot.lineage.load(Acquire) != 0
            && slot.pid.load(Relaxed) == pid
            && slot.tid.load(Relaxed) == tid
            && slot.state.load(Relaxed) != NodeState::Ended as u32
    };
    slots(page).iter().rev().find(is_it)
}

/// Gives the calling thread a slot of its own.
fn claim(page: &'static ThrottlePage, thread: &mut Thread, lineage: u64) {
    let lineage = lineage.max(1);
    let number = page.nodes.fetch_add(1, AcqRel) as usize;
    thread.children = 0;
    let Some(slot) = slots(page).get(number) else {
        page.refused.fetch_add(1, Relaxed);
        thread.node = core::ptr::null();
        return;
    };
    let held = &page.held[..(page.held_count as usize).min(MAX_NODES)];
    let allowed = if held.contains(&lineage) { 0 } else { FREE };
    slot.allowed.store(allowed, Relaxed);
    slot.thread.store(thread.id, Relaxed);
    // SAFETY: no arguments.
    let (pid, tid) = unsafe { (sys::getpid() as u32, sys::gettid() as u32) };
    slot.pid.store(pid, Relaxed);
    slot.tid.store(tid, Relaxed);
    slot.lineage.store(lineage, Release);
    thread.node = slot;
}

fn descend(lineage: u64, origin: Origin, nth: u32) -> u64 {
    mix(mix(lineage, origin as u64), nth.into())
}

fn with_page(run: impl FnOnce(&'static ThrottlePage, &mut Thread)) {
    // SAFETY: the calling thread's own state.
    let thread = unsafe { &mut *thread::current() };
    if let Some(page) = page()
        && attach::active()
        && !thread::is_confined()
        && thread.vfork == 0
    {
        run(page, thread);
    }
}

/// The calling thread is the first of a program image; `rank` is that of MPI, -1 none. Ranks are told apart by it, other processes that one
/// spawned by the order in which they come here.
pub fn begin_image(rank: i32) {
    with_page(|page, thread| {
        // SAFETY: no arguments.
        let (pid, parent) = unsafe { (sys::getpid() as u32, sys::getppid() as u32) };
        let lineage = if let Some(before) = find(page, pid, pid) {
            before.state.store(NodeState::Ended as u32, Relaxed);
            descend(before.lineage.load(Relaxed), Origin::Exec, 0)
        } else if let Some(parent) = find(page, parent, parent) {
            let (origin, nth) = match u32::try_from(rank) {
                Ok(rank) => (Origin::Rank, rank),
                Err(_) => (Origin::Spawned, parent.spawned.fetch_add(1, Relaxed)),
            };
            descend(parent.lineage.load(Relaxed), origin, nth)
        } else {
            descend(0, Origin::Root, page.roots.fetch_add(1, Relaxed))
        };
        claim(page, thread, lineage);
    });
}

/// Lineage of a thread that the calling one is about to create; 0 none.
#[must_use]
pub fn descendant() -> u64 {
    let mut lineage = 0;
    with_page(|_, thread| {
        // SAFETY: null or a slot of the page, which is never unmapped.
        if let Some(node) = unsafe { thread.node.as_ref() } {
            thread.children += 1;
            lineage = descend(node.lineage.load(Relaxed), Origin::Created, thread.children);
        }
    });
    lineage
}

/// The calling thread is new; `lineage` as its creator was told.
pub fn begin_thread(lineage: u64) {
    if lineage != 0 {
        with_page(|page, thread| claim(page, thread, lineage));
    }
}

/// The calling thread is about to fork.
pub(crate) fn before_fork(thread: &mut Thread) {
    thread.children += 1;
}

/// The calling thread is the copy of one that forked.
pub fn begin_fork() {
    with_page(|page, thread| {
        // SAFETY: as in `descendant`; the slot is that of the thread that forked.
        if let Some(parent) = unsafe { thread.node.as_ref() } {
            let lineage = descend(parent.lineage.load(Relaxed), Origin::Forked, thread.children);
            claim(page, thread, lineage);
        }
    });
}

/// The calling thread ends.
pub(crate) fn end_thread(thread: &Thread) {
    // SAFETY: as in `descendant`.
    if let Some(node) = unsafe { thread.node.as_ref() } {
        node.state.store(NodeState::Ended as u32, Relaxed);
    }
}

/// An outermost call is about to begin: pauses if the recorder says so. The thread is inside the recorder ([`Thread::busy`]).
#[cold]
pub(crate) fn before_call(thread: &mut Thread, draft: &Draft) {
    let Some(page) = page() else { return };
    if thread.node.is_null() && thread.vfork == 0 && !thread::is_confined() {
        // SAFETY: no arguments.
        let pid = unsafe { sys::getpid() } as u32;
        let first = find(page, pid, pid).map_or(0, |slot| slot.lineage.load(Relaxed));
        let nth = page.nodes.load(Relaxed);
        claim(page, thread, descend(first, Origin::Unknown, nth));
    }
    // SAFETY: as in `descendant`.
    let Some(node) = (unsafe { thread.node.as_ref() }) else { return };
    if thread.vfork != 0 {
        return;
    }
    if draft.kind != 0 {
        node.waits_for.store(draft.kind.into(), Relaxed);
        node.state.store(NodeState::Waiting as u32, Release);
        return;
    }
    let may_be_operation = Call::from_number(draft.opcode).is_some_and(Call::may_be_operation);
    if may_be_operation && node.done.load(Relaxed) >= node.allowed.load(Acquire) {
        unfollowed(thread, || pause(page, node));
    }
    node.state.store(NodeState::InCall as u32, Release);
}

/// Does something for the thread; calls of a signal handler that comes meanwhile are neither paused nor counted.
fn unfollowed(thread: &mut Thread, run: impl FnOnce()) {
    // A signal handler's calls see it: no store that the compiler may leave out because nothing here reads it.
    let due = &raw mut thread.due;
    // SAFETY: the calling thread's own state.
    unsafe { due.write_volatile(u64::MAX) };
    run();
    // SAFETY: as above.
    unsafe { due.write_volatile(ALWAYS) };
}

/// Sleeps until the recorder lets the node do its next operation, or is gone.
#[inline(never)]
fn pause(page: &ThrottlePage, node: &NodeSlot) {
    const FUTEX_WAIT: usize = 0;
    let nap = [0, NAP];
    let mut beat = page.heartbeat.load(Relaxed);
    let mut since = sys::monotonic();
    node.state.store(NodeState::Paused as u32, Release);
    loop {
        let allowed = node.allowed.load(Acquire);
        if page.off.load(Acquire) != 0 || node.done.load(Relaxed) < allowed {
            return;
        }
        // SAFETY: a mapped futex word, which other processes wake, and a timespec.
        let woken = unsafe {
            sys::futex(node.allowed.as_ptr(), FUTEX_WAIT, allowed as usize, (&raw const nap) as usize)
        };
        let (now, is_beating) = (sys::monotonic(), page.heartbeat.load(Relaxed) != beat);
        if is_beating {
            (beat, since) = (page.heartbeat.load(Relaxed), now);
        }
        if now.wrapping_sub(since) > DEAD || woken == -sys::errno::EPERM {
            node.allowed.store(FREE, Relaxed);
            return;
        }
    }
}

/// Sleeps for as long as each operation is to take longer.
#[inline(never)]
fn sleep(page: &ThrottlePage, node: &NodeSlot) {
    const FUTEX_WAIT: usize = 0;
    const SECOND: u64 = 1_000_000_000;
    let time = [(page.longer / SECOND) as i64, (page.longer % SECOND) as i64];
    let begun = sys::monotonic();
    // SAFETY: a mapped futex word that nobody changes before all is over, and a timespec.
    unsafe { sys::futex(node.allowed.as_ptr(), FUTEX_WAIT, FREE as usize, (&raw const time) as usize) };
    let slept = sys::monotonic().wrapping_sub(begun);
    node.slept.store(node.slept.load(Relaxed).wrapping_add(slept), Relaxed);
}

/// An outermost call has returned. As [`before_call`].
#[cold]
pub(crate) fn after_call(thread: &mut Thread, draft: &Draft, result: i64, errno: u8) {
    // SAFETY: as in `descendant`.
    let Some(node) = (unsafe { thread.node.as_ref() }) else { return };
    if thread.vfork != 0 {
        return;
    }
    if draft.kind == 0
        && let Some(call) = Call::from_number(draft.opcode)
        && call.is_operation(result, errno.into())
    {
        let signature = sign(node.signature.load(Relaxed), call, result);
        node.signature.store(signature, Relaxed);
        let done = node.done.load(Relaxed).wrapping_add(1);
        node.done.store(done, Release);
        if let Some(page) = page().filter(|page| page.longer > 0 && done.is_multiple_of(page.period)) {
            unfollowed(thread, || sleep(page, node));
        }
    }
    node.state.store(NodeState::Outside as u32, Release);
}

/// An outermost call turned out to do nothing.
pub(crate) fn forget_call(thread: &Thread) {
    // SAFETY: as in `descendant`.
    if let Some(node) = unsafe { thread.node.as_ref() } {
        node.state.store(NodeState::Outside as u32, Release);
    }
}
