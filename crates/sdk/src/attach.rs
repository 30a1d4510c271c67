//! Attaching a program image to a recording: its segment, its rings.
//!
//! One image (a process between two `exec`s, or a `fork`'s child) makes one segment file, maps it
//! once, closes the descriptor at once, and populates it piece by piece. All state lives in one
//! page that the kernel zeroes in a forked child (MADV_WIPEONFORK, Linux 4.14), so that the child
//! can never post into its parent's rings.

use core::ptr::{null, null_mut};
use core::sync::atomic::{AtomicI64, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering::*};

use iotrail_format::ids::{ProcessId, ThreadId};
use iotrail_format::record::MAX_TYPES;
use iotrail_format::segment::*;
use iotrail_format::throttle::UNRECORDED;

use crate::session::{self, control, counters, image_path, map_new_file, populate, wake};
use crate::thread::Thread;
use crate::{clock, cpu, post, record, seccomp, sys, throttle};

/// Slots of a thread's first ring: 16 KiB, so that a short process costs little (each fresh page of
/// tmpfs took 1 to 4 µs to fault in where this was measured).
const FIRST_CAPACITY: u32 = 256;
/// Slots of the largest ring: 8 MiB, 130 ms of a million calls a second.
const LAST_CAPACITY: u32 = 131_072;
/// By how much a ring that fills is outgrown.
const GROWTH: u32 = 8;

const NEW: u32 = 0;
const ATTACHING: u32 = 1;
const ACTIVE: u32 = 2;
const OFF: u32 = 3;
/// Got no segment: nothing can be posted, but every call is counted.
const REFUSED: u32 = 4;

/// State of this program image, in a page of its own.
#[repr(C)]
pub struct Image {
    generation: AtomicU64,
    state: AtomicU32,
    pid: AtomicU32,
    base: AtomicPtr<u8>,
    span: AtomicUsize,
    process: AtomicI64,
    /// Held by whoever announces a symbol or a type.
    pub(crate) naming: AtomicU32,
}

impl Image {
    const fn new(state: u32) -> Self {
        Self {
            generation: AtomicU64::new(0),
            state: AtomicU32::new(state),
            pid: AtomicU32::new(0),
            base: AtomicPtr::new(null_mut()),
            span: AtomicUsize::new(0),
            process: AtomicI64::new(0),
            naming: AtomicU32::new(0),
        }
    }

    /// What [`Thread::generation`] equals while the thread may post: 1 for an image that is not
    /// attached, which no thread ever has.
    #[inline(always)]
    fn expected(&self) -> u64 {
        self.generation.load(Relaxed).wrapping_add(1)
    }

    fn header(&self) -> *mut SegmentHeader {
        self.base.load(Relaxed).cast()
    }
}

/// Stands in until [`init`] has mapped the real page: nothing is recorded.
static BEFORE_INIT: Image = Image::new(OFF);
static IMAGE: AtomicPtr<Image> = AtomicPtr::new((&raw const BEFORE_INIT).cast_mut());
/// The process id of the image that forked this one; survives the wipe.
static FORKED_BY: AtomicI64 = AtomicI64::new(0);

#[inline(always)]
pub(crate) fn image() -> &'static Image {
    // SAFETY: IMAGE points to BEFORE_INIT or to a page that is never unmapped.
    unsafe { &*IMAGE.load(Relaxed) }
}

/// Whether `thread` can post right now without any further step.
#[inline(always)]
pub(crate) fn ready(thread: &Thread) -> bool {
    thread.generation == image().expected()
}

/// Begins recording this image into the session `directory` (from [`SESSION_ENV`]).
/// Returns whether it is attached; it isn't when the directory isn't a session of this version,
/// has been closed, or has no room. Call once, from the library's constructor.
///
/// A program that gained privileges when it was started (setuid, file capabilities) is not: whoever started it chose
/// the directory, and it would make a file there (ld.so(8), "Secure-execution mode").
pub fn init(directory: &[u8]) -> bool {
    // SAFETY: reads what the kernel gave the process when it began.
    let gained_privileges = unsafe { libc::getauxval(libc::AT_SECURE) } != 0;
    if gained_privileges || !session::enter(directory) {
        return false;
    }
    if seccomp::is_filtered_beyond_recorder() {
        return false;
    }
    if !session::open() {
        return false;
    }
    // SAFETY: a fresh anonymous page.
    let page = unsafe {
        sys::mmap(0, PAGE, sys::PROT_READ | sys::PROT_WRITE, sys::MAP_PRIVATE | sys::MAP_ANONYMOUS, -1, 0)
    };
    if sys::failed(page) {
        return false;
    }
    // SAFETY: advice on the page just mapped. Without it a forked child would post into its
    // parent's rings, so no recording then.
    if sys::failed(unsafe { sys::madvise(page as usize, PAGE, sys::MADV_WIPEONFORK) }) {
        return false;
    }
    // An all-zero page is a valid Image in state NEW.
    IMAGE.store(page as *mut Image, Release);
    enter(crate::thread::current())
}

/// As [`init`], for the recorder itself: what it posts is no process of the recording.
pub fn init_recorder(directory: &[u8]) -> bool {
    FORKED_BY.store(RECORDER, Relaxed);
    init(directory)
}

/// Whether this image is being recorded.
#[must_use]
pub fn active() -> bool {
    image().state.load(Relaxed) == ACTIVE
}

/// Whether nothing will be recorded any more (no session, or it was closed): callers skip all work.
#[inline(always)]
#[must_use]
pub fn off() -> bool {
    image().state.load(Relaxed) == OFF
}

/// Whether what lets others go on is to be posted too, and calls that didn't have to wait.
#[inline(always)]
#[must_use]
pub fn is_causal() -> bool {
    control().is_some_and(|control| control.causal.load(Relaxed) != 0)
}

/// Pid of this image as of its attachment; 0 before.
#[must_use]
pub fn pid() -> u32 {
    image().pid.load(Relaxed)
}

/// Id of this image as of its attachment; 0 before.
#[must_use]
pub fn process() -> i64 {
    image().process.load(Relaxed)
}

/// The header of this image's segment, if it has one.
#[must_use]
pub fn header() -> Option<&'static SegmentHeader> {
    if !active() {
        return None;
    }
    // SAFETY: an active image's base points to a populated header that stays mapped.
    Some(unsafe { &*image().header() })
}

/// Counts a call that could not be posted.
#[cold]
pub(crate) fn refuse_call() {
    if let Some(header) = header() {
        header.refused_calls.fetch_add(1, Relaxed);
    } else if let Some(control) = counters()
        && control.closed.load(Relaxed) == 0
    {
        control.refused_calls.fetch_add(1, Relaxed);
    }
}

/// The slow way into the recorder: attaches the image, claims a ring, or recognises a vfork child.
/// Returns whether the thread may post.
#[cold]
#[inline(never)]
pub(crate) fn enter(thread: *mut Thread) -> bool {
    // SAFETY: the calling thread's own state, only used by it and its signal handlers.
    let thread = unsafe { &mut *thread };
    if ready(thread) {
        return true;
    }
    if thread.busy != 0 || crate::thread::is_strict() {
        return false;
    }
    if thread.vfork != 0 && thread.generation_of_vfork_is_current() {
        return enter_after_vfork(thread);
    }
    thread.vfork = 0;
    let image = image();
    match image.state.load(Acquire) {
        OFF | REFUSED => return false,
        ACTIVE => {}
        _ => {
            thread.busy = 1;
            let attached = attach(image);
            thread.busy = 0;
            if !attached {
                return false;
            }
            crate::names::announce_all();
        }
    }
    if control().is_none_or(|control| control.closed.load(Relaxed) != 0) {
        image.state.store(OFF, Relaxed);
        return false;
    }
    thread.busy = 1;
    // A forked child inherits the forking thread's state: it is another thread now.
    if thread.generation != 0 && thread.generation != ENDED {
        thread.id = 0;
        thread.start_ticks = 0;
        thread.due = 0;
    }
    // A forked child must not hand out its parent's breadcrumbs, and has a CPU clock of its own.
    (thread.leased, thread.marked_ticks) = (0, 0);
    thread.ring = null();
    let claimed = claim(image, thread, FIRST_CAPACITY, 0);
    if claimed && thread.due == 0 {
        cpu::begin(thread);
    }
    // A forked child goes on for what its parent worked for.
    if claimed && thread.crumb != 0 {
        record::mark(thread, 0, 0);
    }
    thread.busy = 0;
    claimed
}

/// Generation of a thread whose ring was closed at its end; it may still post from destructors.
const ENDED: u64 = u64::MAX;

impl Thread {
    /// While `vfork` is set the thread's generation was put aside; its ring is still this image's
    /// unless a real fork came in between (then the wiped image has another pid).
    fn generation_of_vfork_is_current(&self) -> bool {
        image().pid.load(Relaxed) == self.vfork && !self.ring.is_null()
    }
}

/// The thread called `vfork`: either its child runs on its memory now, or the child is gone.
fn enter_after_vfork(thread: &mut Thread) -> bool {
    // Which of the two this is can't be asked any more: nothing more is recorded of this thread.
    if crate::thread::is_confined() {
        return false;
    }
    // SAFETY: no arguments.
    let pid = unsafe { sys::getpid() } as u32;
    let child = pid != thread.vfork;
    if child != (thread.vfork_marked != 0) {
        thread.vfork_marked = u16::from(child);
        post::vfork_marker(thread, if child { pid as i32 } else { 0 });
    }
    if !child {
        thread.vfork = 0;
        thread.generation = image().expected();
    }
    true
}

/// Says that this thread is about to call `vfork`.
pub fn before_vfork() {
    let thread = crate::thread::current();
    // SAFETY: the calling thread's own state.
    let thread = unsafe { &mut *thread };
    if ready(thread) {
        thread.vfork = pid();
        thread.generation = 0;
    }
}

/// The calling thread is about to fork.
pub fn before_fork() {
    // SAFETY: the calling thread's own state.
    let thread = unsafe { &mut *crate::thread::current() };
    thread.forked = clock::ticks();
    throttle::before_fork(thread);
}

/// Of the copy of a thread that called fork, before it enters the recorder: counter when it did, and id of that thread in the
/// trail, 0 if it has none.
#[must_use]
pub fn forked() -> (u64, i64) {
    // SAFETY: the calling thread's own state.
    let thread = unsafe { &*crate::thread::current() };
    (thread.forked, thread.id)
}

/// Whether the caller is a vfork child: it shares its parent's memory but not its descriptors. Under a seccomp
/// filter it can't be asked after a vfork: then yes, since that changes nothing.
#[inline]
#[must_use]
pub fn in_vfork_child() -> bool {
    // SAFETY: the calling thread's own state.
    let thread = unsafe { &*crate::thread::current() };
    // SAFETY: no arguments.
    thread.vfork != 0 && unsafe { sys::getpid() } as u32 != thread.vfork
}

fn attach(image: &Image) -> bool {
    match image.state.compare_exchange(NEW, ATTACHING, AcqRel, Acquire) {
        Ok(_) => {}
        Err(ATTACHING) => {
            // Another thread is at it; it needs tens of microseconds.
            for _ in 0..10_000 {
                // SAFETY: no arguments.
                unsafe { sys::sched_yield() };
                if image.state.load(Acquire) != ATTACHING {
                    break;
                }
            }
            return image.state.load(Acquire) == ACTIVE;
        }
        Err(state) => return state == ACTIVE,
    }
    if crate::thread::is_confined() {
        // Forked under a filter: a segment needs system calls. Its parent has said so.
        image.state.store(OFF, Release);
        return false;
    }
    let open = || control().filter(|control| control.closed.load(Relaxed) == 0);
    let made = open().map(|control| make_segment(image, control));
    let state = match (made, open()) {
        (Some(Ok(())), _) => ACTIVE,
        (Some(Err(wanted)), Some(_)) => {
            // The recorder is no process of the recording: what it would have sampled is unknown.
            if FORKED_BY.load(Relaxed) != RECORDER {
                session::refuse(wanted);
            }
            REFUSED
        }
        _ => OFF,
    };
    image.state.store(state, Release);
    state == ACTIVE
}

fn limit(resource: usize) -> u64 {
    let mut limits = [u64::MAX; 2];
    // SAFETY: reads the limit of this process into `limits`.
    unsafe { sys::prlimit(0, resource, null(), &raw mut limits) };
    limits[0]
}

fn make_segment(image: &Image, control: &Control) -> Result<(), Want> {
    const RLIMIT_FSIZE: usize = 1;
    let start_ticks = clock::ticks();
    let start_mono = sys::monotonic();
    // SAFETY: no arguments.
    let (pid, ppid) = unsafe { (sys::getpid() as u32, sys::getppid() as u32) };
    let path = image_path(SEGMENT_PREFIX.as_bytes(), pid, start_ticks);

    // ftruncate beyond RLIMIT_FSIZE would send the host SIGXFSZ (setrlimit(2)).
    let most = SEGMENT_SPAN.min(control.span as usize);
    let mut span = most.min(limit(RLIMIT_FSIZE) as usize) & !(PAGE - 1);
    let mut wanted = Want::FileSize;
    let base = loop {
        if span < SMALLEST_SPAN {
            return Err(wanted);
        }
        let base = map_new_file(&path, span);
        if !sys::failed(base) {
            break base as usize;
        }
        // The address space is limited (RLIMIT_AS): try with less.
        wanted = if base == -sys::errno::ENOMEM { Want::AddressSpace } else { Want::Space };
        span /= 4;
    };
    // SAFETY: advice on the mapping just made. The host's children don't need it, nor its core files.
    unsafe {
        sys::madvise(base, span, sys::MADV_DONTFORK);
        sys::madvise(base, span, sys::MADV_DONTDUMP);
    }
    // Header and the table's first page; the rest of the table and the rings as they are needed.
    let first = 2 * PAGE;
    if let Err(wanted) = populate(control, base, first) {
        // SAFETY: undoes the mapping and the file just made; nobody else knows them.
        unsafe {
            sys::munmap(base, span);
            sys::unlink(path.as_ptr());
        }
        return Err(wanted);
    }
    let process = ProcessId::new(pid, start_ticks);
    let header = base as *mut SegmentHeader;
    // SAFETY: the header's page was populated and is ours until `magic` is stored.
    unsafe {
        (*header).version = SEGMENT_VERSION;
        (*header).pid = pid;
        (*header).ppid = ppid;
        (*header).start_ticks = start_ticks;
        (*header).start_mono = start_mono;
        (*header).pid_namespace = pid_namespace();
        (*header).parent = FORKED_BY.load(Relaxed);
        (*header).exit_status.store(-1, Relaxed);
        (*header).rank.store(-1, Relaxed);
        for unknown in
            [&(*header).user_ns, &(*header).system_ns, &(*header).minor_faults, &(*header).major_faults]
        {
            unknown.store(-1, Relaxed);
        }
        (*header).next_free.store(RINGS_START as u64, Relaxed);
        (*header).populated.store(first as u64, Relaxed);
        (*header).uncharged.store(u32::from(session::is_read_only()), Relaxed);
        (*header).magic.store(SEGMENT_MAGIC, Release);
    }
    FORKED_BY.store(process.0, Relaxed);
    image.pid.store(pid, Relaxed);
    image.base.store(base as *mut u8, Relaxed);
    image.span.store(span, Relaxed);
    image.process.store(process.0, Relaxed);
    image.generation.store(start_ticks.max(1), Relaxed);
    Ok(())
}

/// Inode of this process's PID namespace, 0 where /proc doesn't tell.
fn pid_namespace() -> u32 {
    /// `st_ino` of the kernel's `struct stat`.
    const INODE: usize = 1;
    let mut stat = [0u64; 18];
    let path = c"/proc/self/ns/pid".as_ptr().cast();
    // SAFETY: a NUL-terminated path and 144 bytes for `struct stat`.
    let done = unsafe { sys::newfstatat(sys::AT_FDCWD, path, stat.as_mut_ptr().cast(), 0) };
    if sys::failed(done) { 0 } else { stat[INODE] as u32 }
}

/// The table of declared types, made present; none if there is no room.
pub(crate) fn types() -> Option<&'static [TypeEntry; MAX_TYPES]> {
    let image = image();
    if image.state.load(Acquire) != ACTIVE {
        return None;
    }
    let address = image.base.load(Relaxed) as usize + TYPES_START;
    let header = header()?;
    if header.declared.load(Relaxed) == 0 {
        const SIZE: usize = size_of::<[TypeEntry; MAX_TYPES]>();
        populate(control()?, address, SIZE).ok()?;
        header.populated.fetch_add(SIZE as u64, Relaxed);
    }
    // SAFETY: populated pages of our own mapping; atomics, so any bytes are valid.
    Some(unsafe { &*(address as *const [TypeEntry; MAX_TYPES]) })
}

/// Gives the announcer a ring of this image. Under [`Image::naming`].
pub(crate) fn enter_announcer(announcer: &mut Thread) -> bool {
    let image = image();
    if ready(announcer) {
        return true;
    }
    if image.state.load(Acquire) != ACTIVE {
        return false;
    }
    announcer.ring = null();
    claim(image, announcer, FIRST_CAPACITY, 0)
}

/// Whether records of a type are wanted now. An image that isn't attached yet wants all.
#[inline(always)]
pub(crate) fn wants(number: usize) -> bool {
    let image = image();
    match image.state.load(Relaxed) {
        // SAFETY: an active image's header is populated and stays mapped.
        ACTIVE => unsafe { (&(*image.header()).types_off)[number & (MAX_TYPES - 1)].load(Relaxed) == 0 },
        OFF => false,
        _ => true,
    }
}

/// Gives `thread` a ring of at least `capacity` slots; `carry_from` is the ring it leaves, whose
/// calls in flight move along.
fn claim(image: &Image, thread: &mut Thread, capacity: u32, carry_from: usize) -> bool {
    let base = image.base.load(Relaxed) as usize;
    let Some(ring) = free_ring(image, capacity).or_else(|| new_ring(image, capacity)) else {
        return false;
    };
    let (offset, capacity) = ring;
    // SAFETY: gettid has no arguments.
    let tid = if thread.announces { 0 } else { (unsafe { sys::gettid() }) as u32 };
    if thread.start_ticks == 0 {
        thread.start_ticks = clock::ticks();
    }
    if thread.id == 0 && !thread.announces {
        thread.id = ThreadId::new(ProcessId(image.process.load(Relaxed)), tid, thread.start_ticks).0;
    }
    let header = (base + offset) as *const RingHeader;
    // SAFETY: the ring's pages are populated and it is ours (claimed from FREE, or new).
    let header = unsafe { &*header };
    header.tid.store(tid, Relaxed);
    header.thread.store(thread.id, Relaxed);
    header.start_ticks.store(thread.start_ticks, Relaxed);
    header.end_ticks.store(0, Relaxed);
    thread.rings = thread.rings.wrapping_add(1);
    header.nth.store(thread.rings, Relaxed);
    header.limit.store(header.tail.load(Acquire) + u64::from(capacity) / 2, Relaxed);
    header.depth.store(0, Relaxed);
    // another thread may have left calls in it
    header.inflight.iter().for_each(|entry| entry.head.store(0, Relaxed));
    if carry_from != 0 {
        // SAFETY: the thread's own previous ring; its in-flight stack is written by this thread only.
        let old = unsafe { &*(carry_from as *const RingHeader) };
        let depth = old.depth.load(Relaxed);
        for i in 0..(depth as usize).min(INFLIGHT_DEPTH) {
            header.inflight[i].copy_from(&old.inflight[i]);
            header.frames[i].store(old.frames[i].load(Relaxed), Relaxed);
        }
        header.depth.store(depth, Relaxed);
        old.depth.store(0, Relaxed);
        old.state.store(RingState::Closed as u32, Release);
    }
    header.state.store(RingState::Live as u32, Release);
    thread.ring = header;
    thread.slots = (base + offset + PAGE) as *const Slot;
    thread.mask = u64::from(capacity) - 1;
    thread.grow_at = 0;
    thread.woke_at = 0;
    thread.generation = image.expected();
    true
}

fn table(image: &Image) -> &'static [RingEntry; MAX_RINGS] {
    // SAFETY: the table's pages were populated with the header.
    unsafe { &*(image.base.load(Relaxed).add(PAGE) as *const [RingEntry; MAX_RINGS]) }
}

/// A drained ring that another thread of this image left.
fn free_ring(image: &Image, wanted: u32) -> Option<(usize, u32)> {
    // SAFETY: an attached image's header is populated.
    let count = unsafe { (*image.header()).ring_count.load(Acquire) } as usize;
    for entry in &table(image)[..count.min(MAX_RINGS)] {
        let offset = entry.offset.load(Acquire) as usize;
        let capacity = entry.capacity.load(Relaxed);
        if offset == 0 || capacity < wanted {
            continue;
        }
        // SAFETY: a published entry's ring is populated.
        let header = unsafe { &*((image.base.load(Relaxed) as usize + offset) as *const RingHeader) };
        if header
            .state
            .compare_exchange(RingState::Free as u32, RingState::Claimed as u32, AcqRel, Relaxed)
            .is_ok()
        {
            return Some((offset, capacity));
        }
    }
    None
}

fn new_ring(image: &Image, capacity: u32) -> Option<(usize, u32)> {
    let control = control()?;
    // SAFETY: an attached image's header is populated.
    let header = unsafe { &*image.header() };
    let length = PAGE + capacity as usize * size_of::<Slot>();
    let base = image.base.load(Relaxed) as usize;
    if header.ring_count.load(Relaxed) as usize >= MAX_RINGS {
        return None;
    }
    let span = image.span.load(Relaxed) as u64;
    let reserve = |free: u64| Some(free + length as u64).filter(|end| *end <= span);
    let offset = header.next_free.fetch_update(Relaxed, Relaxed, reserve).ok()? as usize;
    // On failure the bytes stay reserved: others may have taken what follows.
    populate(control, base + offset, length).ok()?;
    header.populated.fetch_add(length as u64, Relaxed);
    let index = header.ring_count.fetch_add(1, AcqRel) as usize;
    let entry = table(image).get(index)?;
    // The table's first page came with the header, and the others (three at most) on demand.
    if index >= PAGE / size_of::<RingEntry>() {
        let page = (&raw const *entry) as usize & !(PAGE - 1);
        // SAFETY: a page of our own mapping.
        if sys::failed(unsafe { sys::madvise(page, PAGE, sys::MADV_POPULATE_WRITE) }) {
            return None;
        }
    }
    // SAFETY: populated above; not visible to anybody until `offset` is stored.
    let ring = unsafe { &*((base + offset) as *const RingHeader) };
    ring.state.store(RingState::Claimed as u32, Relaxed);
    entry.capacity.store(capacity, Relaxed);
    entry.offset.store(offset as u64, Release);
    Some((offset, capacity))
}

/// Called when the ring is filled up to its limit: reads how far the sealer is, moves to a larger ring if that
/// is not far enough, and sets the next limit. Returns whether there is room for a record.
#[cold]
#[inline(never)]
pub(crate) fn make_room(thread: &mut Thread) -> bool {
    let old = thread.ring;
    // SAFETY: the thread's own ring.
    let header = unsafe { &*old };
    let reserved = header.reserved.load(Relaxed);
    let tail = header.tail.load(Acquire);
    let capacity = thread.mask + 1;
    let filled = reserved.wrapping_sub(tail);
    if filled + SLACK < capacity / 2 {
        header.limit.store(tail + capacity / 2, Relaxed);
        return true;
    }
    if let Some(control) = control() {
        // Once is enough until the sealer has moved.
        if thread.woke_at != tail + 1 {
            thread.woke_at = tail + 1;
            wake(control);
        }
        if control.closed.load(Relaxed) != 0 {
            image().state.store(OFF, Relaxed);
            image().generation.store(0, Relaxed);
            return false;
        }
    }
    // Nobody reads what is only followed.
    if control().is_some_and(|control| control.causal.load(Relaxed) & UNRECORDED != 0) {
        return false;
    }
    // A handler that interrupted a post (busy above 1) must not move the ring under it.
    let movable = thread.busy == 1 && thread.vfork == 0;
    if movable && (capacity as u32) < LAST_CAPACITY && reserved >= thread.grow_at {
        let wanted = (capacity as u32 * GROWTH).min(LAST_CAPACITY);
        if claim(image(), thread, wanted, old as usize) {
            return true;
        }
        thread.grow_at = reserved + capacity;
    }
    // To look at the consumer's line each time would cost more than the post.
    header.limit.store((reserved + capacity / 16).min(tail + capacity - SLACK), Relaxed);
    filled + SLACK < capacity
}

/// Slots of the ring that a thread takes along under a filter: one that needs no more memory for some
/// milliseconds of calls, which the sealer empties meanwhile.
const CONFINED_CAPACITY: u32 = 16_384;

/// The calling thread is about to install a seccomp filter: gives it a ring that is large enough, and counts its
/// calls only from then on where the filter is strict.
pub fn prepare_confinement() {
    // SAFETY: the calling thread's own state.
    let thread = unsafe { &mut *crate::thread::current() };
    if !ready(thread) || thread.busy != 0 || thread.vfork != 0 {
        return;
    }
    thread.busy = 1;
    if thread.mask + 1 < u64::from(CONFINED_CAPACITY) {
        let old = thread.ring as usize;
        claim(image(), thread, CONFINED_CAPACITY, old);
    }
    thread.busy = 0;
}

/// The calling thread installed a filter.
pub fn confine(how: crate::thread::Confinement, all: bool) {
    crate::thread::confine(how, all);
    if how == crate::thread::Confinement::Strict {
        // SAFETY: the calling thread's own state.
        unsafe { (*crate::thread::current()).generation = ENDED };
    }
}

/// Slots kept free for signal handlers that post while a post is under way.
const SLACK: u64 = 16;

/// The calling thread ends: its ring may be reused once it is drained. What it still does
/// afterwards (in other destructors) claims a ring again, under the same id.
pub fn thread_ends() {
    // SAFETY: the calling thread's own state.
    let thread = unsafe { &mut *crate::thread::current() };
    if !ready(thread) || thread.ring.is_null() || crate::thread::is_strict() {
        return;
    }
    thread.busy = 1;
    // A cancelled thread leaves its last call without return.
    post::leave_all(thread);
    if thread.crumb != 0 {
        record::mark(thread, thread.crumb, 0);
    }
    cpu::finish(thread);
    throttle::end_thread(thread);
    // SAFETY: the thread's own ring.
    let header = unsafe { &*thread.ring };
    header.end_ticks.store(clock::ticks(), Relaxed);
    header.state.store(RingState::Closed as u32, Release);
    thread.ring = null();
    thread.generation = ENDED;
    thread.busy = 0;
}

/// Says when the calling thread began; call before its first post.
pub fn thread_began(ticks: u64) {
    // SAFETY: the calling thread's own state.
    let thread = unsafe { &mut *crate::thread::current() };
    if thread.start_ticks == 0 {
        thread.start_ticks = ticks;
    }
    enter(thread);
}

/// Posts who this image is: its executable and its command line.
pub fn describe() {
    let mut buffer = [0u8; 4096];
    // SAFETY: NUL-terminated paths and a buffer of the size given.
    unsafe {
        let length = sys::readlinkat(
            sys::AT_FDCWD,
            c"/proc/self/exe".as_ptr().cast(),
            buffer.as_mut_ptr(),
            buffer.len(),
        );
        if !sys::failed(length) {
            post::text(TextKind::Exe, 0, &buffer[..(length as usize).min(buffer.len())]);
        }
        let fd = sys::openat(sys::AT_FDCWD, c"/proc/self/cmdline".as_ptr().cast(), sys::O_CLOEXEC, 0);
        if !sys::failed(fd) {
            let length = sys::read(fd as i32, buffer.as_mut_ptr(), buffer.len());
            sys::close(fd as i32);
            if !sys::failed(length) {
                post::text(TextKind::Command, 0, &buffer[..(length as usize).min(buffer.len())]);
            }
        }
    }
}

/// The image calls exit, or exec: keeps its end, CPU time and page faults in the header.
pub fn image_ends(state: ProcessState, status: i32) {
    const RUSAGE_SELF: usize = 0;
    let Some(header) = header() else { return };
    if crate::thread::is_strict() {
        return;
    }
    // SAFETY: the calling thread's own state.
    let thread = unsafe { &mut *crate::thread::current() };
    if ready(thread) && thread.busy == 0 {
        thread.busy = 1;
        if thread.crumb != 0 {
            record::mark(thread, thread.crumb, 0);
        }
        cpu::finish(thread);
        thread.busy = 0;
    }
    let mut usage = [0i64; 18];
    // SAFETY: `usage` is as large as `struct rusage` (144 bytes): two timevals, then
    // maxrss, ixrss, idrss, isrss, minflt (8), majflt (9).
    if !sys::failed(unsafe { sys::getrusage(RUSAGE_SELF, usage.as_mut_ptr().cast()) }) {
        header.user_ns.store(usage[0] * 1_000_000_000 + usage[1] * 1000, Relaxed);
        header.system_ns.store(usage[2] * 1_000_000_000 + usage[3] * 1000, Relaxed);
        header.minor_faults.store(usage[8], Relaxed);
        header.major_faults.store(usage[9], Relaxed);
    }
    if state == ProcessState::Exited && status >= 0 {
        header.exit_status.store(status, Relaxed);
    }
    header.end_ticks.store(clock::ticks(), Relaxed);
    header.state.store(state as u32, Release);
}

/// An `exec` that [`image_ends`] announced failed: the image goes on.
pub fn image_goes_on() {
    if let Some(header) = header() {
        header.end_ticks.store(0, Relaxed);
        header.state.store(ProcessState::Running as u32, Release);
    }
}
