//! Posting: [`begin`] before a call, [`end`] after it.
//!
//! `begin` writes the call into the ring's in-flight stack, so that a watchdog or a crash reader
//! sees what a thread is doing now; `end` takes it off and fills a slot. Both run in a signal
//! handler that interrupts the other: a slot is reserved by one instruction, and `busy` keeps a
//! handler from moving the ring.

use core::mem::offset_of;
use core::sync::atomic::{AtomicU64, Ordering::*, compiler_fence};

use iotrail_format::segment::*;

use crate::attach::{self, ready};
use crate::clock::ticks;
use crate::cpu;
use crate::sys;
use crate::thread::{self, Thread};
use crate::throttle;

/// A call as it is known before it is made. Units as in [`Slot`].
#[derive(Clone, Copy)]
pub struct Draft {
    /// [`iotrail_format::call::Call`] number.
    pub opcode: u16,
    /// [`iotrail_format::call::WaitKind`] number, 0 for a call on a file.
    pub kind: u8,
    /// Descriptor, -1 none.
    pub fd: i32,
    /// File id, or what is waited for; 0 none.
    pub object: i64,
    /// Byte offset, or [`NONE`].
    pub pos: i64,
    /// Bytes asked for, or [`NONE`].
    pub length: i64,
    /// Second file, flags, or peer; or [`NONE`].
    pub aux: i64,
}

/// A call under way.
pub struct Pending {
    thread: *mut Thread,
    start: u64,
    depth: u32,
    /// Whether the call stands in the in-flight stack (it is full at a nesting of 16).
    stacked: bool,
}

impl Pending {
    /// Counter when the call began.
    #[inline(always)]
    #[must_use]
    pub fn start(&self) -> u64 {
        self.start
    }
}

/// Whether the calling thread is in a recorded call that waits for this kind of thing
/// ([`iotrail_format::call::WaitKind`] number).
#[inline(always)]
#[must_use]
pub fn is_inside(kind: u8) -> bool {
    // SAFETY: the calling thread's own state.
    let thread = unsafe { &mut *thread::current() };
    // SAFETY: a ready thread's ring is populated and its own.
    ready(thread)
        && unsafe { &*thread.ring }.depth.load(Relaxed) != 0
        && is_any_inside(thread, kind, frame_address())
}

#[inline(never)]
fn is_any_inside(thread: &mut Thread, kind: u8, frame: u64) -> bool {
    thread.busy += 1;
    // SAFETY: a ready thread's ring is populated and its own.
    let depth = unsafe { &*thread.ring }.depth.load(Relaxed);
    let depth = drop_left_frames(thread, depth, frame) as usize;
    thread.busy -= 1;
    // SAFETY: as above; posting what was left may have moved the ring.
    let inflight = unsafe { &(*thread.ring).inflight };
    inflight[..depth.min(INFLIGHT_DEPTH)].iter().any(|entry| (entry.head.load(Relaxed) >> 16) as u8 == kind)
}

/// Notes that a call begins. `None` when the thread can't record; the call is then counted.
#[inline(always)]
#[must_use]
pub fn begin(draft: &Draft) -> Option<Pending> {
    let pointer = thread::current();
    // SAFETY: the calling thread's own state.
    if !ready(unsafe { &*pointer }) && !attach::enter(pointer) {
        attach::refuse_call();
        return None;
    }
    // SAFETY: as above; a nested handler's use ends before this one goes on.
    let thread = unsafe { &mut *pointer };
    let frame = frame_address();
    thread.busy += 1;
    // SAFETY: a ready thread's ring is populated and its own.
    let mut ring = unsafe { &*thread.ring };
    let mut depth = ring.depth.load(Relaxed);
    if depth != 0 {
        depth = drop_left_frames(thread, depth, frame);
        // SAFETY: as above; posting what was left may have moved the ring.
        ring = unsafe { &*thread.ring };
    }
    let mut start = ticks();
    if start >= thread.due && depth == 0 {
        cpu::before_call(thread, start, draft);
        // SAFETY: as above; posting may have moved the ring.
        ring = unsafe { &*thread.ring };
        start = ticks();
    }
    let stacked = (depth as usize) < INFLIGHT_DEPTH;
    if stacked {
        // Taken before it is filled: a handler that interrupts this uses the next one. Without an opcode it is nobody's call yet.
        ring.depth.store(depth + 1, Relaxed);
        compiler_fence(SeqCst);
        let entry = &ring.inflight[depth as usize];
        ring.frames[depth as usize].store(frame, Relaxed);
        fill(entry, start, 0, draft, 0);
        entry.head.store(head(draft.opcode, draft.kind, 0, draft.fd), Release);
    }
    thread.busy -= 1;
    Some(Pending { thread: pointer, start, depth, stacked })
}

/// Notes that a call returned: `result` and `errno` as it gave them (`errno` 0 if it succeeded).
/// `draft` may say more than at the beginning (a position that only the call could tell). Returns the ticks it took.
#[inline(always)]
pub fn end(pending: &Pending, draft: &Draft, result: i64, errno: u8) -> u64 {
    let now = ticks();
    let dur = now.wrapping_sub(pending.start);
    // SAFETY: the calling thread's own state, unchanged in address since `begin`.
    let thread = unsafe { &mut *pending.thread };
    // A child that was forked while the call was under way has another image.
    if !ready(thread) && !attach::enter(pending.thread) {
        attach::refuse_call();
        return dur;
    }
    thread.busy += 1;
    // SAFETY: a ready thread's ring is populated and its own.
    let mine = !pending.stacked || pop(thread, pending);
    if mine {
        post(thread, pending.start, dur, draft, result, errno);
    }
    if pending.depth == 0 {
        let time = &mut thread.cpu;
        *(if draft.kind != 0 { &mut time.in_wait } else { &mut time.in_io }) += dur;
        time.left_ticks = now;
        if now >= thread.due {
            cpu::after_call(thread, now, dur, draft, result, errno);
        }
    }
    thread.busy -= 1;
    dur
}

/// Takes a call that [`begin`] noted off again without a record: it turned out to do nothing.
#[inline]
pub fn forget(pending: &Pending) {
    // SAFETY: the calling thread's own state.
    let thread = unsafe { &mut *pending.thread };
    if pending.stacked && ready(thread) {
        thread.busy += 1;
        pop(thread, pending);
        if pending.depth == 0 && thread.due == throttle::ALWAYS {
            throttle::forget_call(thread);
        }
        thread.busy -= 1;
    }
}

/// Takes the call off the stack; false if it was already posted as left by a `longjmp`.
#[inline(always)]
fn pop(thread: &mut Thread, pending: &Pending) -> bool {
    // SAFETY: a ready thread's ring is populated and its own.
    let ring = unsafe { &*thread.ring };
    let depth = ring.depth.load(Relaxed);
    if depth == pending.depth + 1
        && ring.inflight[pending.depth as usize].start.load(Relaxed) == pending.start
    {
        give_back(ring, pending.depth);
        return true;
    }
    pop_unusual(thread, pending, depth)
}

#[cold]
fn pop_unusual(thread: &mut Thread, pending: &Pending, depth: u32) -> bool {
    // SAFETY: as in `pop`.
    let ring = unsafe { &*thread.ring };
    let at = pending.depth as usize;
    if depth <= pending.depth
        || at >= INFLIGHT_DEPTH
        || ring.inflight[at].start.load(Relaxed) != pending.start
    {
        // After fork the stack is empty, and so the call is this image's to post; else it is gone.
        return depth == 0 && ring.reserved.load(Relaxed) == 0;
    }
    // What lies above was left by a longjmp.
    for above in (at + 1..(depth as usize).min(INFLIGHT_DEPTH)).rev() {
        post_unfinished(thread, above);
    }
    set_depth(thread, pending.depth);
    true
}

/// Posts and removes the calls at the top of the stack whose frames no longer exist: `longjmp` left
/// them. A frame that still exists lies above the current one (the stack grows down), and so does that of an entry that is being filled.
#[cold]
#[inline(never)]
fn drop_left_frames(thread: &mut Thread, mut depth: u32, frame: u64) -> u32 {
    while depth > 0 {
        let top = depth as usize - 1;
        // SAFETY: a ready thread's ring is populated and its own; each post may move it.
        let ring = unsafe { &*thread.ring };
        if top < INFLIGHT_DEPTH
            && (ring.inflight[top].head.load(Relaxed) == 0 || ring.frames[top].load(Relaxed) > frame)
        {
            break;
        }
        // A handler on a stack of its own may lie above what it interrupted.
        if on_alternate_stack() {
            break;
        }
        if top < INFLIGHT_DEPTH {
            post_unfinished(thread, top);
        }
        depth -= 1;
    }
    set_depth(thread, depth);
    depth
}

/// Posts every call in flight as left: the thread ends.
pub(crate) fn leave_all(thread: &mut Thread) {
    // SAFETY: a ready thread's ring is populated and its own.
    let depth = unsafe { &*thread.ring }.depth.load(Relaxed) as usize;
    for top in (0..depth.min(INFLIGHT_DEPTH)).rev() {
        post_unfinished(thread, top);
    }
    set_depth(thread, 0);
}

fn set_depth(thread: &Thread, depth: u32) {
    // SAFETY: a ready thread's ring is populated and its own.
    let ring = unsafe { &*thread.ring };
    for at in (depth..ring.depth.load(Relaxed)).rev() {
        give_back(ring, at);
    }
}

/// The entry above `depth` is nobody's any more, and has no opcode: so does who takes it next find it.
#[inline(always)]
fn give_back(ring: &RingHeader, depth: u32) {
    if let Some(entry) = ring.inflight.get(depth as usize) {
        entry.head.store(0, Relaxed);
    }
    compiler_fence(SeqCst);
    ring.depth.store(depth, Relaxed);
}

/// Whether the caller is a signal handler on its alternate stack (sigaltstack(2)).
fn on_alternate_stack() -> bool {
    const SS_ONSTACK: u64 = 1;
    // `stack_t`: address, flags (int), size.
    let mut now = [0u64; 3];
    // SAFETY: changes nothing; `now` has the size of `stack_t`.
    let asked = unsafe { sys::sigaltstack(core::ptr::null(), now.as_mut_ptr().cast()) };
    // Where it can't be asked (seccomp) nothing may be taken for left.
    sys::failed(asked) || now[1] & SS_ONSTACK != 0
}

fn post_unfinished(thread: &mut Thread, index: usize) {
    // SAFETY: a ready thread's ring is populated and its own.
    let entry = unsafe { &(*thread.ring).inflight[index] };
    let head = entry.head.load(Relaxed);
    if head == 0 {
        return;
    }
    let draft = Draft {
        opcode: head as u16,
        kind: (head >> 16) as u8,
        fd: (head >> 32) as i32,
        object: entry.object.load(Relaxed),
        pos: entry.pos.load(Relaxed),
        length: entry.length.load(Relaxed),
        aux: entry.aux.load(Relaxed),
    };
    let start = entry.start.load(Relaxed);
    post(thread, start, UNFINISHED, &draft, 0, 0);
}

/// Posts a record that is not a call under way (a text's part, a marker, something unseen).
pub fn post_now(draft: &Draft) -> bool {
    let pointer = thread::current();
    // SAFETY: the calling thread's own state.
    if !ready(unsafe { &*pointer }) && !attach::enter(pointer) {
        return false;
    }
    // SAFETY: as above.
    let thread = unsafe { &mut *pointer };
    thread.busy += 1;
    let posted = post(thread, ticks(), 0, draft, 0, 0);
    thread.busy -= 1;
    posted
}

/// Posts a call that began at counter value `start` and has just completed, whoever else was under way:
/// asynchronous I/O, which no stack of calls describes.
#[inline]
pub fn completed(draft: &Draft, start: u64, result: i64, errno: u8) -> bool {
    interval(draft, start, ticks().wrapping_sub(start), result, errno)
}

/// Posts what lasted from `start` on for `dur`, in the units of its opcode.
pub fn interval(draft: &Draft, start: u64, dur: u64, result: i64, errno: u8) -> bool {
    let pointer = thread::current();
    // SAFETY: the calling thread's own state.
    if !ready(unsafe { &*pointer }) && !attach::enter(pointer) {
        attach::refuse_call();
        return false;
    }
    // SAFETY: as above.
    let thread = unsafe { &mut *pointer };
    thread.busy += 1;
    let posted = post(thread, start, dur, draft, result, errno);
    thread.busy -= 1;
    posted
}

/// As [`interval`], but what finds no room is not counted as lost: the caller posts it later, with what came after.
pub fn interval_if_room(draft: &Draft, start: u64, dur: u64) -> bool {
    let pointer = thread::current();
    // SAFETY: the calling thread's own state.
    if !ready(unsafe { &*pointer }) && !attach::enter(pointer) {
        return false;
    }
    // SAFETY: as above.
    let thread = unsafe { &mut *pointer };
    thread.busy += 1;
    let posted = has_room(thread) && post(thread, start, dur, draft, 0, 0);
    thread.busy -= 1;
    posted
}

pub(crate) fn vfork_marker(thread: &mut Thread, child: i32) {
    let draft = Draft { opcode: OP_VFORK, kind: 0, fd: child, object: 0, pos: NONE, length: NONE, aux: NONE };
    thread.busy += 1;
    post(thread, ticks(), 0, &draft, 0, 0);
    thread.busy -= 1;
}

/// Says that something can't be recorded: `object` a file or 0, `amount` how many or how much.
pub fn unseen(kind: UnseenKind, object: i64, amount: i64) {
    let draft =
        Draft { opcode: OP_UNSEEN, kind: kind as u8, fd: -1, object, pos: NONE, length: amount, aux: NONE };
    post_now(&draft);
}

/// Posts a text under `key` in parts of [`TEXT_BYTES`]. Returns whether all of it found room.
pub fn text(kind: TextKind, key: i64, bytes: &[u8]) -> bool {
    let pointer = thread::current();
    // SAFETY: the calling thread's own state.
    if !ready(unsafe { &*pointer }) && !attach::enter(pointer) {
        return false;
    }
    // SAFETY: as above.
    text_on(unsafe { &mut *pointer }, kind, key, bytes)
}

/// As [`text`], into the ring of a thread that is ready.
pub(crate) fn text_on(thread: &mut Thread, kind: TextKind, key: i64, bytes: &[u8]) -> bool {
    let bytes = &bytes[..bytes.len().min(0xffff)];
    thread.busy += 1;
    let mut posted = true;
    for (part, chunk) in bytes.chunks(TEXT_BYTES).enumerate() {
        let Some(slot) = reserve(thread, 1) else {
            posted = false;
            break;
        };
        slot.start.store(key as u64, Relaxed);
        // SAFETY: a reserved slot is this thread's until its head is stored; the text runs from `dur` to the slot's end.
        unsafe {
            let target = (&raw const *slot).cast_mut().byte_add(offset_of!(Slot, dur)).cast::<u8>();
            core::ptr::copy_nonoverlapping(chunk.as_ptr(), target, chunk.len());
            target.add(chunk.len()).write_bytes(0, TEXT_BYTES - chunk.len());
        }
        let place = (part as u32 | (bytes.len() as u32) << 16) as i32;
        slot.head.store(head(OP_TEXT, kind as u8, 0, place), Release);
    }
    thread.busy -= 1;
    posted
}

#[inline(always)]
pub(crate) fn post(thread: &mut Thread, start: u64, dur: u64, draft: &Draft, result: i64, errno: u8) -> bool {
    let Some(slot) = reserve(thread, 1) else { return false };
    put(slot, start, dur, draft, result, errno);
    true
}

/// Fills a reserved slot, which is its thread's until the head is stored.
#[inline(always)]
pub(crate) fn put(slot: &Slot, start: u64, dur: u64, draft: &Draft, result: i64, errno: u8) {
    fill(slot, start, dur, draft, result);
    slot.head.store(head(draft.opcode, draft.kind, errno, draft.fd), Release);
}

/// Writes all but the head.
#[inline(always)]
fn fill(slot: &Slot, start: u64, dur: u64, draft: &Draft, result: i64) {
    slot.start.store(start, Relaxed);
    slot.dur.store(dur, Relaxed);
    slot.object.store(draft.object, Relaxed);
    slot.pos.store(draft.pos, Relaxed);
    slot.length.store(draft.length, Relaxed);
    slot.result.store(result, Relaxed);
    slot.aux.store(draft.aux, Relaxed);
}

/// The first of the next `count` slots (not more than [`attach::SLACK`]), or `None` (counted) when the ring
/// is full.
#[inline(always)]
fn reserve(thread: &mut Thread, count: u64) -> Option<&Slot> {
    reserve_at(thread, count).map(|index| slot(thread, index))
}

/// The slot at a position of the thread's ring.
#[inline(always)]
pub(crate) fn slot(thread: &Thread, position: u64) -> &Slot {
    // SAFETY: a ready thread's ring is populated, and the index is masked to its capacity.
    unsafe { &*thread.slots.add((position & thread.mask) as usize) }
}

/// As [`reserve`]: the position of the first.
#[inline(always)]
pub(crate) fn reserve_at(thread: &mut Thread, count: u64) -> Option<u64> {
    // SAFETY: a ready thread's ring is populated and its own.
    let ring = unsafe { &*thread.ring };
    let end = ring.reserved.load(Relaxed) + count;
    if end > ring.limit.load(Relaxed) && !attach::make_room(thread) {
        // SAFETY: as above; make_room may have moved the ring.
        unsafe { &*thread.ring }.dropped.fetch_add(1, Relaxed);
        return None;
    }
    // SAFETY: as above.
    Some(add_on_this_thread(unsafe { &(*thread.ring).reserved }, count))
}

/// Whether a slot could be reserved now. Unlike a reservation that fails, this loses no record.
#[cold]
pub(crate) fn has_room(thread: &mut Thread) -> bool {
    // SAFETY: a ready thread's ring is populated and its own.
    let ring = unsafe { &*thread.ring };
    ring.reserved.load(Relaxed) < ring.limit.load(Relaxed) || attach::make_room(thread)
}

/// Adds and returns the old value, atomically against signal handlers of this thread only: the
/// `lock` prefix would cost 5 ns and the counter has no other writer.
#[inline(always)]
fn add_on_this_thread(counter: &AtomicU64, mut value: u64) -> u64 {
    // Miri runs no assembly, and no signal handlers.
    if cfg!(miri) {
        let old = counter.load(Relaxed);
        counter.store(old + value, Relaxed);
        return old;
    }
    // SAFETY: an aligned u64 that only this thread writes; readers see either value.
    unsafe {
        core::arch::asm!("xadd qword ptr [{0}], {1}", in(reg) counter.as_ptr(), inout(reg) value, options(nostack));
    }
    value
}

#[inline(always)]
fn frame_address() -> u64 {
    if cfg!(miri) {
        return 0;
    }
    let address: u64;
    // SAFETY: reads the stack pointer.
    unsafe { core::arch::asm!("mov {0}, rsp", out(reg) address, options(nomem, nostack, preserves_flags)) };
    address
}
