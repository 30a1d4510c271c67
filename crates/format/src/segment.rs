//! The byte layout of a segment: where a recorded program posts, and what survives its SIGKILL.
//!
//! A **segment** is one file on tmpfs, made by one program image (a process between two `exec`s)
//! and mapped shared by it and by the sealer. It is sparse; only pages that were faulted in ahead
//! are ever touched, because a write to a hole of a full tmpfs is SIGBUS in the host. It holds
//! **rings**, one per thread, each a single-producer single-consumer queue of 64-byte slots.
//!
//! ```text
//! segment  0        SegmentHeader            (one page)
//!          4096     RingEntry[MAX_RINGS]     (16 bytes each: four pages)
//!          20480    TypeEntry[MAX_TYPES]     (64 bytes each: four pages, populated when one is declared)
//!          36864    rings, each at a page boundary:
//!                   RingHeader               (one page: producer line, consumer line, calls in flight)
//!                   Slot[capacity]           (capacity is a power of two)
//! ```
//!
//! A slot of an operation (little-endian; one cache line, so that posting dirties one):
//!
//! ```text
//!  0        2      3       4           8            16         24
//!  +--------+------+-------+-----------+------------+----------+
//!  | opcode | kind | errno | fd        | start      | dur      |   start, dur in counter ticks
//!  +--------+------+-------+-----------+------------+----------+
//!  24           32          40           48           56       64
//!  +------------+-----------+------------+------------+---------+
//!  | object     | pos       | length     | result     | aux     |
//!  +------------+-----------+------------+------------+---------+
//! ```
//!
//! The producer reserves a slot by adding to `reserved`, fills it, and stores the first word, with the
//! opcode, last (release). The consumer takes a slot whose opcode is not 0 (acquire), zeroes that word, and
//! advances `tail`. A signal handler that interrupts posting reserves the next slot; nothing is
//! torn. The order of the fields puts what every operation has first.
//!
//! After a crash every slot with a non-zero opcode is a completed call, and the `inflight` stack of
//! a ring holds the calls that had not returned.
//!
//! Slots of requests' records are drawn in [`crate::record`].
//!
//! Version 6. Any change here bumps [`SEGMENT_VERSION`].

use core::sync::atomic::{AtomicI32, AtomicI64, AtomicU8, AtomicU32, AtomicU64, Ordering};

use crate::record::MAX_TYPES;

/// Version of this layout; recorder and sealer must agree.
pub const SEGMENT_VERSION: u32 = 6;
/// First eight bytes of a segment.
pub const SEGMENT_MAGIC: u64 = u64::from_le_bytes(*b"IOTRSEG1");
/// First eight bytes of a session's control file.
pub const CONTROL_MAGIC: u64 = u64::from_le_bytes(*b"IOTRCTL1");

/// Size of a page on the supported machines (x86-64).
pub const PAGE: usize = 4096;
/// Address space of a segment. Sparse: what is used is populated piece by piece.
pub const SEGMENT_SPAN: usize = 256 << 20;
/// Smallest span worth a segment where limits allow no more.
pub const SMALLEST_SPAN: usize = 1 << 20;
/// Rings in one segment; further threads are not recorded but counted.
pub const MAX_RINGS: usize = 1024;
/// Where the table of types begins.
pub const TYPES_START: usize = PAGE + MAX_RINGS * size_of::<RingEntry>();
/// Where the first ring may begin.
pub const RINGS_START: usize = TYPES_START + MAX_TYPES * size_of::<TypeEntry>();
/// Longest name of a node, in bytes.
pub const NODE_BYTES: usize = 255;
/// Calls in flight kept per thread (nesting comes from signal handlers and from MPI over sockets).
pub const INFLIGHT_DEPTH: usize = 16;
/// Clock pairs kept for a reader that comes after a crash.
pub const CLOCK_PAIRS: usize = 128;

/// `pos`, `length` or `aux` that an operation doesn't have: null in the trail.
pub const NONE: i64 = i64::MIN;

/// Name of the control file in a session's directory.
pub const CONTROL_NAME: &str = "control";
/// Prefix of a segment's file name; `PID-START` in hexadecimal follows.
pub const SEGMENT_PREFIX: &str = "seg-";
/// Prefix of the name of the empty file that stands for a segment where a process got none and may not count itself in
/// [`Control::refused`]; `PID-START` follows.
pub const REFUSED_PREFIX: &[u8; 10] = b"refused-0-";
/// Where in it the digit of the [`Want`] is.
pub const REFUSED_WANT: usize = 8;
/// Environment variable that holds a session's directory.
pub const SESSION_ENV: &str = "IOTRAIL_SESSION";

/// The control file: one per recording, mapped by the sealer and by every recorded process.
///
/// It is the recorder's user's: programs that run as another can only read it, for who may write a file may truncate it,
/// which ends all that have it mapped. What they would add to is [`SegmentHeader::uncharged`], an empty file
/// ([`REFUSED_PREFIX`]) and [`crate::ids::crumb_of_thread`].
#[repr(C)]
pub struct Control {
    /// [`CONTROL_MAGIC`].
    pub magic: u64,
    /// [`SEGMENT_VERSION`].
    pub version: u32,
    /// Pid of the sealer.
    pub sealer_pid: u32,
    /// 1 once the recording has ended, 2 if it ended early because the trail could not be written:
    /// processes still running stop posting.
    pub closed: AtomicU32,
    /// Futex a producer wakes when a ring fills fast.
    pub wake: AtomicU32,
    /// Bytes all segments together may populate.
    pub budget: u64,
    /// Address space of a segment, at most [`SEGMENT_SPAN`]: the sealer maps each whole.
    pub span: u64,
    /// Bytes populated now; producers add, the sealer subtracts when a segment goes.
    pub used: AtomicI64,
    /// Processes that got no segment because of the budget, a limit of theirs or a full tmpfs.
    pub refused: AtomicU64,
    /// Calls that nobody could post because of that.
    pub refused_calls: AtomicU64,
    /// Why, a bit each: [`Want`].
    pub wanted: AtomicU32,
    /// Nanoseconds to add to CLOCK_MONOTONIC to get `ts`: one constant per boot.
    pub epoch_offset: i64,
    /// Clock pairs written so far; the last [`CLOCK_PAIRS`] of them are in `pairs`.
    pub pair_count: AtomicU64,
    /// Ring of (counter, clock) pairs, at most a second apart, written by the sealer.
    pub pairs: [ClockPair; CLOCK_PAIRS],
    /// The last block of breadcrumbs that was leased (see [`crate::ids::Crumb`]).
    pub lease: AtomicU64,
    /// Bytes of `node` that are its name.
    pub node_length: u32,
    /// Seccomp filters that the recorder runs under (/proc/self/status, Seccomp_filters). A program image with others
    /// makes none of the recorder's system calls.
    pub filters: u32,
    /// 1 if what lets others go on is posted too, and calls that didn't have to wait (`record --causal`); with
    /// [`crate::throttle::FOLLOWED`] and [`crate::throttle::UNRECORDED`] in runs with `--throttle`.
    pub causal: AtomicU32,
    /// Name of the node, for messages to other nodes.
    pub node: [u8; NODE_BYTES + 1],
}

/// What a process or thread had too little of to be recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Want {
    /// Bytes of [`Control::budget`].
    Budget = 1,
    /// RLIMIT_FSIZE.
    FileSize = 2,
    /// RLIMIT_AS, or the machine's memory.
    AddressSpace = 4,
    /// Space or files on the session's file system, or the right to make one.
    Space = 8,
}

/// The counter and CLOCK_MONOTONIC at the same moment.
#[repr(C)]
pub struct ClockPair {
    /// Counter ticks (x86: RDTSC).
    pub ticks: AtomicU64,
    /// CLOCK_MONOTONIC, nanoseconds.
    pub mono: AtomicU64,
}

/// First page of a segment.
#[repr(C)]
pub struct SegmentHeader {
    /// [`SEGMENT_MAGIC`], stored last (release) when the header is complete.
    pub magic: AtomicU64,
    /// [`SEGMENT_VERSION`].
    pub version: u32,
    /// The process.
    pub pid: u32,
    /// Its parent.
    pub ppid: u32,
    /// [`ProcessState`].
    pub state: AtomicU32,
    /// Counter when this image began (library constructor, or fork in the child).
    pub start_ticks: u64,
    /// CLOCK_MONOTONIC at `start_ticks`, nanoseconds.
    pub start_mono: u64,
    /// Counter at the image's end as far as it could be seen; 0 while it runs.
    pub end_ticks: AtomicU64,
    /// Process id (see [`crate::ids::ProcessId`]) of the image that forked or exec'd this one; 0 unknown.
    pub parent: i64,
    /// Exit status passed to `exit`/`_exit`; -1 unknown.
    pub exit_status: AtomicI32,
    /// MPI rank, -1 none.
    pub rank: AtomicI32,
    /// Rings handed out; entries 0..ring_count are valid once their `offset` is not 0.
    pub ring_count: AtomicU32,
    /// Inode of its PID namespace (/proc/self/ns/pid), in which `pid` and `ppid` count; 0 unknown.
    pub pid_namespace: u32,
    /// First unused byte of the span.
    pub next_free: AtomicU64,
    /// Bytes populated by this segment (its share of `Control::used`).
    pub populated: AtomicU64,
    /// 1 if its process may not add them to `Control::used`: the sealer does.
    pub uncharged: AtomicU32,
    /// Calls of threads that got no ring.
    pub refused_calls: AtomicU64,
    /// User and system CPU time at the end, nanoseconds; -1 unknown.
    pub user_ns: AtomicI64,
    /// See `user_ns`.
    pub system_ns: AtomicI64,
    /// Page faults without I/O at the end; -1 unknown.
    pub minor_faults: AtomicI64,
    /// Page faults that needed I/O at the end; -1 unknown.
    pub major_faults: AtomicI64,
    /// Types of records, by number: 0 posted, 1 not. Anybody who may write the segment switches them.
    pub types_off: [AtomicU8; MAX_TYPES],
    /// Types declared so far: entries [`crate::record::FIRST_DECLARED`] and on of the table are valid.
    pub declared: AtomicU32,
}

/// One entry of the table of types: what a process declared.
#[repr(C)]
pub struct TypeEntry {
    /// Bytes of the name.
    pub length: AtomicU8,
    /// The name.
    pub name: [AtomicU8; 63],
}

/// What became of a program image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum ProcessState {
    /// Runs, or ended without a word (killed).
    Running = 0,
    /// Is calling `exec`; a new segment of the same pid confirms it.
    Exec = 1,
    /// Called `exit` or `_exit`.
    Exited = 2,
}

/// One entry of the ring table.
#[repr(C)]
pub struct RingEntry {
    /// Offset of the ring's header in the segment; stored last (release), 0 = not yet there.
    pub offset: AtomicU64,
    /// Slots; a power of two.
    pub capacity: AtomicU32,
    /// Keeps the size at 16.
    pub _pad: u32,
}

/// Whose a ring is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum RingState {
    /// Drained and reusable by any thread of the process.
    Free = 0,
    /// Its thread posts.
    Live = 1,
    /// Its thread ended or moved to a larger ring: drain, then set [`RingState::Free`].
    Closed = 2,
    /// A thread is writing its identity; the sealer leaves the ring alone.
    Claimed = 3,
}

/// First page of a ring.
#[repr(C)]
pub struct RingHeader {
    /// Slots reserved so far (never wraps; index is modulo capacity). Producer.
    pub reserved: AtomicU64,
    /// Calls not posted because the ring was full. Producer.
    pub dropped: AtomicU64,
    /// Up to this position the producer posts without looking how far the consumer is.
    pub limit: AtomicU64,
    /// [`RingState`].
    pub state: AtomicU32,
    /// The thread.
    pub tid: AtomicU32,
    /// Thread id (see [`crate::ids::ThreadId`]); the same in each ring of one thread.
    pub thread: AtomicI64,
    /// Counter when the thread began.
    pub start_ticks: AtomicU64,
    /// Counter when the thread ended; 0 while it runs.
    pub end_ticks: AtomicU64,
    /// Calls in flight: `inflight[0..depth]`, of which one without an opcode is being filled; those above have none.
    pub depth: AtomicU32,
    /// Which of its thread's rings this is, counted from 1: what an earlier one holds was posted before.
    pub nth: AtomicU32,
    /// Slots consumed so far. Consumer only, on a cache line of its own.
    pub tail: AtomicU64,
    /// Keeps `inflight` on a line of its own.
    pub _pad1: [u64; 7],
    /// Calls that have not returned, outermost first, as slots with `dur` 0.
    pub inflight: [Slot; INFLIGHT_DEPTH],
    /// Stack address of each call in flight. A call nested in another one has a lower address; an
    /// entry whose address is not above the current one was left by a `longjmp`.
    pub frames: [AtomicU64; INFLIGHT_DEPTH],
}

/// One record of 64 bytes, in words that the sealer may read while they are written. See the module for the picture.
#[repr(C, align(64))]
pub struct Slot {
    /// [`head`] of it, stored last; 0 empty.
    pub head: AtomicU64,
    /// Counter at the call. Text: the key, then 48 bytes of text from `dur` on.
    pub start: AtomicU64,
    /// Counter ticks until it returned; [`UNFINISHED`] if a `longjmp` left it.
    pub dur: AtomicU64,
    /// File id; for waits the lock's address or the id of pipe or socket; 0 none.
    pub object: AtomicI64,
    /// Byte offset, or [`NONE`].
    pub pos: AtomicI64,
    /// Bytes asked for, or [`NONE`].
    pub length: AtomicI64,
    /// What the call returned.
    pub result: AtomicI64,
    /// Second file (rename, link, copies), flags (open, lseek, mmap …), peer (waits), or [`NONE`].
    pub aux: AtomicI64,
}

/// The first word of a slot. `opcode` is a [`crate::call::Call`] number or one of the `OP_*`; `kind` a
/// [`crate::call::WaitKind`] for waits, else 0 (text: [`TextKind`]); `errno` that of a failed call, 0 when it
/// succeeded; `fd` a descriptor, -1 none (text: index of the part in the low 16 bits, length of the whole above).
#[inline(always)]
#[must_use]
pub const fn head(opcode: u16, kind: u8, errno: u8, fd: i32) -> u64 {
    opcode as u64 | (kind as u64) << 16 | (errno as u64) << 24 | (fd as u32 as u64) << 32
}

impl Slot {
    /// Makes it say what `other` says, which nobody changes meanwhile.
    pub fn copy_from(&self, other: &Self) {
        for (to, from) in self.words().iter().zip(other.words()) {
            to.store(from.load(Ordering::Relaxed), Ordering::Relaxed);
        }
    }

    fn words(&self) -> &[AtomicU64; 8] {
        // SAFETY: eight atomic words, signed or not.
        unsafe { &*(&raw const *self).cast() }
    }
}

/// `dur` of a call that never returned.
pub const UNFINISHED: u64 = u64::MAX;

/// A part of a text (path, command line), 48 bytes a slot.
pub const OP_TEXT: u16 = 0x4000;
/// Something the recorder can't see: `kind` is an [`UnseenKind`], `object` a file, `length` a count.
pub const OP_UNSEEN: u16 = 0x4001;
/// The thread's next calls, up to the next marker, are those of a vfork child: `fd` is its pid,
/// 0 when the parent goes on.
pub const OP_VFORK: u16 = 0x4002;
/// What the thread does from `start` on is for breadcrumb `object`, 0 for none; `pos` is the one it left.
/// `length` is the thread's CPU clock (CLOCK_THREAD_CPUTIME_ID, nanoseconds), or [`NONE`].
/// `kind` has [`CRUMB_SLICE`] if the stretch of time is to be a row of `cpu_slice`, and [`CRUMB_TAKEN`].
pub const OP_CRUMB: u16 = 0x4003;
/// See [`OP_CRUMB`].
pub const CRUMB_SLICE: u8 = 1;
/// The thread took this work out of a queue or off a connection: its CPU time since it left the breadcrumb before, and what
/// the kernel saw of it meanwhile, on its way to this one, is for this one too.
pub const CRUMB_TAKEN: u8 = 2;
/// A slot that belongs to the record before it: seven more words.
pub const OP_MORE: u16 = 0x4004;
/// A request to a block device that the kernel saw, posted by the recorder: `start` CLOCK_MONOTONIC nanoseconds
/// when it was queued, `dur` until completed; `fd` tid; `object` pid, above it the device as major << 20 |
/// minor; `pos`, `length` bytes; `result` when it was issued, or [`NONE`]; `aux` flags, above their 8 bits the requests that begin with it. `kind` is the operation
/// (0 read, 1 write, 2 flush, 3 discard, 4 secure erase, 5 other), 0x40 merged, 0x80 failed.
pub const OP_DISK: u16 = 0x4005;
/// A thread's time on a CPU that the kernel saw, posted by the recorder: `start`, `dur` as [`OP_DISK`]; `fd` tid;
/// `object` pid; `pos` CPU. `kind` is what it went on to (0 runnable, 1 sleep, 2 disk, 3 ended, 4 it goes on).
pub const OP_SLICE: u16 = 0x4006;
/// That a thread was woken, as the kernel saw it, posted by the recorder: `start` as [`OP_DISK`]; `fd` its tid; `object` its pid;
/// `pos` pid and `length` tid of who ran on that CPU. `kind` is 0 if that thread woke it, 1 if an interrupt on its back did.
pub const OP_WAKE: u16 = 0x4007;
/// How a thread spent the time from `start` on for `dur`, by its own CPU clock, in nanoseconds: `object` on a CPU
/// outside calls, `pos` off a CPU outside calls, `length` on a CPU in calls on files, `result` on a CPU in calls that
/// wait. `fd` minor page faults; `aux` major page faults, above them voluntary context switches as 32 bits.
pub const OP_TIME: u16 = 0x4010;
/// What the scheduler says of a thread, posted by the recorder beside it: `start`, `dur` as [`OP_DISK`]; `fd` tid;
/// `object` pid; `pos` nanoseconds on a CPU, `length` nanoseconds that it could run and no CPU was free.
pub const OP_SAMPLE: u16 = 0x4011;
/// A call that the kernel saw where no recorder is, posted by the recorder in two slots, as records with more words
/// than fit ([`crate::record`]). `kind`, `fd` as of any call; `start`, `dur` as [`OP_DISK`]; `object` pid, above it
/// tid; then `object`, `pos`, `length`, `result` of the call, and in the second slot its `aux`, the call with its
/// errno above as 16 bits each, and the id of the program image; 0 where a recorder is in it that missed the call.
pub const OP_CALL: u16 = 0x7000;
/// What the kernel saw of a program image that no recorder is in, posted by the recorder: `kind` is an [`ImageNote`],
/// `fd` the pid, `start` CLOCK_MONOTONIC nanoseconds, `object` the image's id.
pub const OP_IMAGE: u16 = 0x7001;
/// [`SegmentHeader::parent`] of the recorder's own segment: no process of the recording.
pub const RECORDER: i64 = -1;
/// Bytes of text a slot of [`OP_TEXT`] carries.
pub const TEXT_BYTES: usize = 48;

/// What an [`OP_IMAGE`] says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum ImageNote {
    /// The recorder sees all calls from now on, io_uring's too; of no image.
    Watching = 0,
    /// It began: `pos` is the parent's pid, `length` its image, 0 if a recorder is in it. Texts of kind
    /// [`TextKind::Exe`], [`TextKind::Command`] and [`TextKind::Cwd`] have the image's id for key.
    Begun = 1,
    /// Its thread `fd` was seen from `start` for `dur`. Only in what a sealer carries from one journal to the next.
    Thread = 2,
    /// It ended at `start`: `pos` is how (0 still running, 1 exit, 2 exec, 3 killed), `length` its exit status or
    /// [`NONE`].
    Ended = 3,
}

impl ImageNote {
    /// The note of a number in a segment.
    #[must_use]
    pub const fn from_number(number: u8) -> Option<Self> {
        match number {
            0 => Some(Self::Watching),
            1 => Some(Self::Begun),
            2 => Some(Self::Thread),
            3 => Some(Self::Ended),
            _ => None,
        }
    }
}

/// What a text says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum TextKind {
    /// An absolute path; the key is its [`crate::ids::FileId`].
    Path = 1,
    /// The program's executable. The key of this and the next two is 0, or the id of an image ([`OP_IMAGE`]).
    Exe = 2,
    /// Its command line, arguments separated by NUL.
    Command = 3,
    /// Its working directory at the start.
    Cwd = 4,
    /// The name of the posting thread.
    ThreadName = 5,
    /// A text that records name by a number, which is the key.
    Symbol = 6,
    /// The description of a record type; the key is its number.
    Type = 7,
    /// What the process is in its system; the key is 0.
    Role = 8,
    /// Name of a thread that only the kernel saw; the key is its pid, above it its tid.
    Stranger = 9,
}

impl TextKind {
    /// The kind of a number in a segment.
    #[must_use]
    pub const fn from_number(number: u8) -> Option<Self> {
        match number {
            1 => Some(Self::Path),
            2 => Some(Self::Exe),
            3 => Some(Self::Command),
            4 => Some(Self::Cwd),
            5 => Some(Self::ThreadName),
            6 => Some(Self::Symbol),
            7 => Some(Self::Type),
            8 => Some(Self::Role),
            9 => Some(Self::Stranger),
            _ => None,
        }
    }
}

/// What a preload recorder can't see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum UnseenKind {
    /// A statically linked program was started.
    Static = 1,
    /// A setuid, setgid or capability-carrying program was started.
    Setuid = 2,
    /// An io_uring was set up.
    UringSetup = 3,
    /// io_uring_enter was called.
    UringEnter = 4,
    /// A program was started without the preload library in its environment.
    Environment = 5,
    /// A program of another architecture was started.
    Foreign = 6,
    /// Linux native asynchronous I/O (io_submit).
    NativeAio = 7,
    /// A file was mapped while as many mappings as can be followed were: its munmap, msync and madvise have no rows.
    Mapping = 8,
    /// Events of the kernel that found no room on their way to the recorder, or that it left out.
    Kernel = 9,
    /// A process installed a seccomp filter: its further calls are recorded as far as that needs no system call, its
    /// children's and those of what it execs are not.
    Seccomp = 10,
    /// A program of another C library (musl) was started.
    OtherLibc = 11,
    /// A Go program was started: it makes its system calls past the C library.
    Go = 12,
    /// A program was started in a root directory that doesn't hold the recorder's library.
    Chroot = 13,
    /// As many communicators, windows, files and requests of MPI were under way as can be followed: rows of further ones
    /// lack who they wait for.
    Mpi = 14,
}

impl UnseenKind {
    /// The kind of a number in a segment.
    #[must_use]
    pub const fn from_number(number: u8) -> Option<Self> {
        match number {
            1 => Some(Self::Static),
            2 => Some(Self::Setuid),
            3 => Some(Self::UringSetup),
            4 => Some(Self::UringEnter),
            5 => Some(Self::Environment),
            6 => Some(Self::Foreign),
            7 => Some(Self::NativeAio),
            8 => Some(Self::Mapping),
            9 => Some(Self::Kernel),
            10 => Some(Self::Seccomp),
            11 => Some(Self::OtherLibc),
            12 => Some(Self::Go),
            13 => Some(Self::Chroot),
            14 => Some(Self::Mpi),
            _ => None,
        }
    }

    /// The name in the `unseen` table.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Static => "static_program",
            Self::Setuid => "setuid_program",
            Self::UringSetup => "io_uring_setup",
            Self::UringEnter => "io_uring_enter",
            Self::Environment => "preload_removed",
            Self::Foreign => "foreign_program",
            Self::NativeAio => "native_aio",
            Self::Mapping => "unfollowed_mapping",
            Self::Kernel => "kernel_dropped",
            Self::Seccomp => "seccomp",
            Self::OtherLibc => "other_libc",
            Self::Go => "go_program",
            Self::Chroot => "chroot_program",
            Self::Mpi => "unfollowed_mpi",
        }
    }
}

const _: () = {
    assert!(size_of::<Slot>() == 64);
    assert!(size_of::<RingEntry>() == 16);
    assert!(size_of::<TypeEntry>() == 64 && RINGS_START.is_multiple_of(PAGE));
    assert!(size_of::<SegmentHeader>() <= PAGE);
    assert!(size_of::<RingHeader>() <= PAGE);
    assert!(size_of::<Control>() <= PAGE);
    assert!(
        core::mem::offset_of!(RingHeader, tail) % 64 == 0
            && core::mem::offset_of!(RingHeader, inflight) % 64 == 0
    );
    assert!(core::mem::offset_of!(RingHeader, tail) >= 64);
    assert!(core::mem::offset_of!(Slot, aux) == 56 && core::mem::offset_of!(Slot, dur) == 16);
};
