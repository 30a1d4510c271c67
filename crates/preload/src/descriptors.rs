//! What each descriptor stands for: file, position, kind.
//!
//! A table indexed by descriptor, without locks. A position is kept here while the descriptor is
//! known to be the only one of its open file description; once it was duplicated or inherited, each
//! call asks the kernel (lseek, about 70 ns). Concurrent use of one descriptor by several threads
//! is ordered by the kernel, not here: then a sequential call's position may be that of its neighbour.

use core::ffi::c_int;
use core::mem::MaybeUninit;
use core::ptr::null_mut;
use core::sync::atomic::{AtomicI32, AtomicI64, AtomicPtr, AtomicU32, Ordering::*};

use iotrail_format::call::WaitKind;
use iotrail_format::ids::FileId;
use iotrail_format::segment::NONE;
use iotrail_sdk::{attach, sys};

use crate::connections::{self, Ends};
use crate::paths;

const CHUNK: usize = 1024;
/// Descriptors up to a million (the kernel's default fs.nr_open) are followed.
const CHUNKS: usize = 1024;

/// One descriptor.
#[repr(C)]
pub struct Entry {
    file: AtomicI64,
    /// Of a file its position; of a socket the id of the connection's other end, 0 unknown.
    pos: AtomicI64,
    state: AtomicU32,
    /// Calls on its stream that the buffer absorbed since the last record.
    pub absorbed: AtomicU32,
}

// `state`: a class in the low byte, flags above.
const UNKNOWN: u32 = 0;
/// Opened by path, and so a file most likely; looked at before the first transfer.
const NAMED: u32 = 1;
const FILE: u32 = 2;
const PIPE: u32 = 3;
const SOCKET: u32 = 4;
const TERMINAL: u32 = 5;
const EVENT: u32 = 6;
const CLASS: u32 = 0xff;
/// Its position may be moved by another descriptor or process.
const SHARED: u32 = 0x100;
const APPEND: u32 = 0x200;
/// Has no position (character devices).
const UNSEEKABLE: u32 = 0x400;

type Chunk = [Entry; CHUNK];

static FIRST: Chunk = [const { Entry::new() }; CHUNK];
static REST: [AtomicPtr<Chunk>; CHUNKS] = [const { AtomicPtr::new(null_mut()) }; CHUNKS];
static HIGHEST: AtomicI32 = AtomicI32::new(-1);

#[inline(always)]
fn entry(fd: c_int) -> Option<&'static Entry> {
    FIRST.get(fd as u32 as usize).or_else(|| if fd < 0 { None } else { entry_above(fd as usize) })
}

#[cold]
fn entry_above(fd: usize) -> Option<&'static Entry> {
    let slot = REST.get(fd / CHUNK)?;
    let mut chunk = slot.load(Acquire);
    if chunk.is_null() {
        // SAFETY: a fresh anonymous mapping; all-zero entries are valid.
        let mapped = unsafe {
            let (access, kind) = (sys::PROT_READ | sys::PROT_WRITE, sys::MAP_PRIVATE | sys::MAP_ANONYMOUS);
            sys::mmap(0, size_of::<Chunk>(), access, kind, -1, 0)
        };
        if sys::failed(mapped) {
            return None;
        }
        chunk = match slot.compare_exchange(null_mut(), mapped as *mut Chunk, AcqRel, Acquire) {
            Ok(_) => mapped as *mut Chunk,
            Err(other) => {
                // SAFETY: nobody else knows the mapping.
                unsafe { sys::munmap(mapped as usize, size_of::<Chunk>()) };
                other
            }
        };
    }
    // SAFETY: a chunk is never unmapped.
    unsafe { &*chunk }.get(fd % CHUNK)
}

/// What a descriptor is, for a record.
pub struct Target {
    /// Its entry, if the descriptor can be one.
    pub entry: Option<&'static Entry>,
    /// [`WaitKind`] number where transfers wait for something that is no file, else 0.
    pub kind: u8,
    /// File id, or that of pipe, socket and so on.
    pub object: i64,
}

impl Target {
    /// The id of the other end of a connection, with `record --causal`; [`NONE`] of anything else, or unknown.
    #[inline(always)]
    pub fn other_end(&self) -> i64 {
        if self.kind != WaitKind::Socket as u8 || !attach::is_causal() {
            return NONE;
        }
        self.entry.map_or(NONE, |entry| match entry.pos.load(Relaxed) {
            0 => NONE,
            end => end,
        })
    }
}

/// Looks a descriptor up, asking the kernel the first time.
#[inline(always)]
pub fn target(fd: c_int) -> Target {
    let Some(entry) = entry(fd) else { return Target { entry: None, kind: 0, object: 0 } };
    let mut state = entry.state.load(Relaxed);
    if state & CLASS <= NAMED {
        state = classify(fd, entry, state);
    }
    let kind = if state & CLASS <= FILE { 0 } else { kind_of(state) };
    Target { entry: Some(entry), kind, object: entry.file.load(Relaxed) }
}

/// The id of what a descriptor stands for.
#[inline]
pub fn known(fd: c_int) -> i64 {
    target(fd).object
}

/// The id of the other end of a connection; [`NONE`] unknown.
pub fn other_end(fd: c_int) -> i64 {
    target(fd).other_end()
}

/// Says which is the other end.
pub fn set_other_end(fd: c_int, other: i64) {
    if let Some(entry) = entry(fd)
        && !attach::in_vfork_child()
    {
        entry.pos.store(other, Relaxed);
    }
}

/// An eventfd was made, of this id.
pub fn made_event(fd: c_int, id: i64) {
    if let Some(entry) = entry(fd)
        && !attach::in_vfork_child()
    {
        entry.file.store(id, Relaxed);
        entry.state.store(EVENT | SHARED, Relaxed);
        HIGHEST.fetch_max(fd, Relaxed);
    }
}

/// The id of what a descriptor stands for, without asking the kernel; 0 unknown.
#[inline]
pub fn named(fd: c_int) -> i64 {
    entry(fd).map_or(0, |entry| entry.file.load(Relaxed))
}

/// The stdio counter of a descriptor.
pub fn of_stream(fd: c_int) -> Option<&'static Entry> {
    entry(fd)
}

fn kind_of(state: u32) -> u8 {
    match state & CLASS {
        PIPE => WaitKind::Pipe as u8,
        SOCKET => WaitKind::Socket as u8,
        TERMINAL => WaitKind::Terminal as u8,
        EVENT => WaitKind::Event as u8,
        _ => 0,
    }
}

#[cold]
#[inline(never)]
fn classify(fd: c_int, entry: &Entry, state: u32) -> u32 {
    let mut stat = MaybeUninit::<libc::stat>::uninit();
    // SAFETY: the kernel's struct stat is libc's on x86-64; read only when filled.
    let stat = unsafe {
        if sys::failed(sys::fstat(fd, stat.as_mut_ptr().cast())) {
            return FILE;
        }
        stat.assume_init()
    };
    classify_as(fd, entry, state, stat.st_mode, stat.st_rdev, stat.st_ino)
}

/// The program itself asked for a descriptor's attributes: no need to ask again.
pub fn seen_mode(fd: c_int, stat: &libc::stat) {
    if let Some(entry) = entry(fd)
        && !attach::in_vfork_child()
    {
        let state = entry.state.load(Relaxed);
        if state & CLASS == NAMED {
            classify_as(fd, entry, state, stat.st_mode, stat.st_rdev, stat.st_ino);
        }
    }
}

fn classify_as(fd: c_int, entry: &Entry, state: u32, mode: u32, rdev: u64, inode: u64) -> u32 {
    let named = state & CLASS == NAMED;
    let (class, mut flags) = match mode & libc::S_IFMT {
        libc::S_IFSOCK => (SOCKET, 0),
        libc::S_IFIFO => (PIPE, 0),
        // Terminals: /dev/tty*, consoles, and the pseudo terminals 136 to 143
        // (Documentation/admin-guide/devices.txt).
        libc::S_IFCHR if matches!(libc::major(rdev), 4 | 5 | 136..=143) => (TERMINAL, 0),
        libc::S_IFCHR => (FILE, UNSEEKABLE),
        libc::S_IFREG | libc::S_IFDIR | libc::S_IFBLK => (FILE, 0),
        // eventfd, epoll, timerfd, signalfd, inotify and the like have no type.
        _ => (EVENT, 0),
    };
    flags |= state & (SHARED | APPEND);
    let ends = if class == SOCKET && attach::is_causal() { connections::ends(fd) } else { Ends::Other };
    if !named {
        let file = match (class, &ends) {
            (SOCKET, Ends::Internet(own, _)) => FileId(*own),
            (SOCKET, _) => paths::inode_object(b"socket:[", inode),
            (PIPE, _) => paths::inode_object(b"pipe:[", inode),
            _ => paths::of_descriptor(fd),
        };
        entry.file.store(file.0, Relaxed);
        // Inherited, or made by a call that isn't watched: somebody else may share it.
        flags |= SHARED;
        const F_GETFL: usize = 3;
        // SAFETY: no pointer is passed.
        let status = unsafe { sys::fcntl(fd, F_GETFL, 0) };
        if status > 0 && status as i32 & libc::O_APPEND != 0 {
            flags |= APPEND;
        }
    }
    let state = class | flags;
    if class == SOCKET {
        entry.pos.store(if let Ends::Internet(_, other) = ends { other } else { 0 }, Relaxed);
    }
    // What isn't connected yet is asked for again.
    if !attach::in_vfork_child() && !matches!(ends, Ends::NotYet) {
        entry.state.store(state, Relaxed);
        HIGHEST.fetch_max(fd, Relaxed);
    }
    state
}

impl Entry {
    const fn new() -> Self {
        Self {
            file: AtomicI64::new(0),
            pos: AtomicI64::new(0),
            state: AtomicU32::new(UNKNOWN),
            absorbed: AtomicU32::new(0),
        }
    }

    /// Position before a sequential call, [`NONE`] where there is none.
    #[inline(always)]
    pub fn position(&self, fd: c_int) -> i64 {
        let state = self.state.load(Relaxed);
        if state & (SHARED | UNSEEKABLE | APPEND) == 0 {
            return self.pos.load(Relaxed);
        }
        if state & UNSEEKABLE != 0 { NONE } else { tell(fd) }
    }

    /// Follows a sequential call; returns where it was if only now that can be told.
    #[inline(always)]
    pub fn moved(&self, fd: c_int, moved: isize, writes: bool) -> i64 {
        if moved <= 0 {
            return NONE;
        }
        let state = self.state.load(Relaxed);
        if state & (SHARED | UNSEEKABLE | APPEND) == 0 {
            self.pos.store(self.pos.load(Relaxed) + moved as i64, Relaxed);
            return NONE;
        }
        if writes && state & (APPEND | UNSEEKABLE) == APPEND {
            let after = tell(fd);
            return if after >= moved as i64 { after - moved as i64 } else { NONE };
        }
        NONE
    }
}

/// The kernel's position of a descriptor, [`NONE`] if it has none.
pub fn tell(fd: c_int) -> i64 {
    // SAFETY: no pointer is passed.
    let at = unsafe { sys::lseek(fd, 0, sys::SEEK_CUR) };
    if sys::failed(at) { NONE } else { at as i64 }
}

/// A file was opened by path.
#[inline]
pub fn opened(fd: c_int, file: FileId, flags: c_int) {
    if fd < 0 || attach::in_vfork_child() {
        return;
    }
    if let Some(entry) = entry(fd) {
        let append = if flags & libc::O_APPEND != 0 { APPEND } else { 0 };
        entry.file.store(file.0, Relaxed);
        entry.pos.store(0, Relaxed);
        entry.absorbed.store(0, Relaxed);
        entry.state.store(NAMED | append, Relaxed);
        HIGHEST.fetch_max(fd, Relaxed);
    }
}

/// A descriptor was made that isn't a named file (socket, pipe, …), or is about to be closed.
#[inline]
pub fn forget(fd: c_int) {
    if fd >= 0
        && !attach::in_vfork_child()
        && let Some(entry) = entry(fd)
    {
        entry.state.store(UNKNOWN, Relaxed);
        entry.file.store(0, Relaxed);
        entry.absorbed.store(0, Relaxed);
    }
}

/// Descriptors `first..=last` are about to be closed.
pub fn forget_range(first: u32, last: u32) {
    let highest = HIGHEST.load(Relaxed);
    if highest >= 0 && first <= highest as u32 {
        for fd in first..=last.min(highest as u32) {
            forget(fd as c_int);
        }
    }
}

/// `new` now shares `old`'s open file description.
pub fn duplicated(old: c_int, new: c_int) {
    if old == new || new < 0 || attach::in_vfork_child() {
        return;
    }
    let (Some(from), Some(into)) = (entry(old), entry(new)) else { return };
    let state = from.state.load(Relaxed);
    let state = if state & CLASS == UNKNOWN { state } else { state | SHARED };
    from.state.store(state, Relaxed);
    into.file.store(from.file.load(Relaxed), Relaxed);
    into.pos.store(from.pos.load(Relaxed), Relaxed);
    into.absorbed.store(0, Relaxed);
    into.state.store(state, Relaxed);
    HIGHEST.fetch_max(new, Relaxed);
}

/// lseek gave a new position.
#[inline]
pub fn sought(fd: c_int, pos: i64) {
    if pos >= 0
        && !attach::in_vfork_child()
        && let Some(entry) = entry(fd)
    {
        entry.pos.store(pos, Relaxed);
    }
}

/// O_APPEND was set or cleared.
pub fn flags_set(fd: c_int, flags: usize) {
    if let Some(entry) = entry(fd)
        && !attach::in_vfork_child()
    {
        let state = entry.state.load(Relaxed);
        let append = if flags as c_int & libc::O_APPEND != 0 { APPEND } else { 0 };
        // Without O_APPEND the position is the kernel's, which was not followed.
        let shared = if state & APPEND != 0 { SHARED } else { 0 };
        entry.state.store(state & !APPEND | append | shared, Relaxed);
    }
}

/// Asks the kernel now what all descriptors known so far, and the standard ones, stand for.
pub fn classify_all() {
    for fd in 0..=HIGHEST.load(Relaxed).max(2) {
        target(fd);
    }
}

/// A child process now shares all descriptors.
pub fn share_all() {
    for fd in 0..=HIGHEST.load(Relaxed) {
        if let Some(entry) = entry(fd) {
            let state = entry.state.load(Relaxed);
            if state & CLASS != UNKNOWN && state & SHARED == 0 {
                entry.state.store(state | SHARED, Relaxed);
            }
        }
    }
}
