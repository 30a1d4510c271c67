//! What comes out. Times are CLOCK_MONOTONIC ns, positions and lengths bytes; `pid` is the process (the
//! kernel's tgid), `tid` the thread.

use serde::Serialize;

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "event")]
pub enum Event {
    DiskOp(DiskOp),
    CpuSlice(CpuSlice),
    Wake(Wake),
    Syscall(Syscall),
    UringOp(UringOp),
    Process(Process),
}

/// An I/O as it was queued on a block device (a bio of the kernel's), whatever became of it on its way: cut
/// into several requests, or merged into one with others. Devices on top of others (dm, loop) and those below
/// have rows of their own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DiskOp {
    pub queued: u64,
    /// When the device's driver took the request that it is in, or the first of them. None: not yet; or a
    /// device without requests (dm, md, zram); or a flush, which the kernel issues once for all that wait.
    pub issued: Option<u64>,
    /// None: not before the recording ended, or not seen ([`Dropped`](crate::Dropped)).
    pub completed: Option<u64>,
    /// The whole disk, also where a partition was addressed.
    pub dev: Dev,
    pub op: Op,
    /// From the start of the whole disk.
    pub pos: u64,
    pub length: u32,
    pub flags: Flags,
    /// It joined a request queued before, and was issued and completed with it.
    pub merged: bool,
    /// Requests that the driver took and that begin with it: 0 it joined others only, more than 1 it was cut.
    pub requests: u32,
    pub failed: bool,
    /// Who queued it: a kernel thread for what writeback does, else whose call it was.
    pub pid: u32,
    pub tid: u32,
    /// The thread's name.
    pub comm: String,
}

/// A block device's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub struct Dev {
    pub major: u32,
    pub minor: u32,
}

impl Dev {
    /// From the kernel's own dev_t, which isn't the C library's (include/linux/kdev_t.h).
    pub(crate) fn from_kernel(dev: u32) -> Dev {
        Dev { major: dev >> 20, minor: dev & ((1 << 20) - 1) }
    }
}

/// Operations of the block layer (enum req_op, include/linux/blk_types.h).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub enum Op {
    Read,
    Write,
    /// Empty the device's cache; no bytes.
    Flush,
    Discard,
    SecureErase,
    /// Write zeroes, zones, a driver's own.
    Other,
}

/// Flags of a disk I/O, by the names of the kernel's REQ_*.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Flags {
    /// Somebody waits for it.
    pub sync: bool,
    /// A file system's own structures.
    pub meta: bool,
    /// Complete only when on the medium.
    pub fua: bool,
    /// The device's cache is emptied first.
    pub preflush: bool,
    /// Read ahead: may fail without harm.
    pub rahead: bool,
}

/// A thread's stay on a CPU.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CpuSlice {
    pub start: u64,
    pub end: u64,
    pub cpu: u32,
    pub pid: u32,
    pub tid: u32,
    pub left: Left,
}

/// Why a thread left the CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Left {
    /// Another was to run; it could have gone on.
    Runnable,
    /// It waited for something that may be interrupted, or was stopped.
    Sleep,
    /// It waited for something that may not, mostly a disk (state D).
    Disk,
    Ended,
    /// It hadn't when the recording ended, which is then `end`.
    Running,
}

/// That a thread was woken.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Wake {
    pub time: u64,
    /// Who was woken.
    pub pid: u32,
    pub tid: u32,
    /// An interrupt woke it, whoever ran: a timer, a device, the network.
    pub interrupt: bool,
    /// Process and thread that ran on that CPU.
    pub by: (u32, u32),
}

/// A system call on files.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Syscall {
    pub start: u64,
    /// None: not before the recording ended, or not seen.
    pub end: Option<u64>,
    pub pid: u32,
    pub tid: u32,
    /// The call's number on x86-64.
    pub nr: u32,
    pub args: [u64; 6],
    /// The result, or -errno; -512 to -516 where a signal ended it, or is to start it again (the kernel's
    /// ERESTART*). 0 where `end` is none.
    pub ret: i64,
    /// The first path among the arguments, as given: without its closing 0, no longer than 4,095 bytes. None:
    /// the call has none, or its address is bad.
    pub path: Option<Vec<u8>>,
    /// The second (rename, link).
    pub path2: Option<Vec<u8>>,
    /// What the descriptors among its arguments stood for when it began; where it made one, that comes last.
    pub opened: [Option<Opened>; 2],
    /// The position of the first one's file when it began and when it returned. None: not a call that moves it.
    pub moved: Option<(u64, u64)>,
    /// What a pointer among its arguments points to: bytes of a vector of buffers, openat2's flags, the offset of a
    /// copy. None: nothing, or not known.
    pub told: Option<u64>,
    /// The recorder in its process doesn't see it: the program's own code made it, past the C library.
    pub foreign: bool,
}

/// What a descriptor stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct Opened {
    /// Which open file description, while it is open: those of one file differ, descriptors made by dup and fork
    /// share one.
    pub id: u64,
    /// The inode, and the kernel's number of its file system's device.
    pub inode: u64,
    pub dev: Dev,
    pub what: What,
    /// Whether writes go to the end.
    pub append: bool,
}

/// What is behind a descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
pub enum What {
    /// Anything with a path that is none of the others.
    File,
    Pipe,
    Socket,
    Terminal,
    /// eventfd, epoll, timerfd, an io_uring and the like.
    Event,
}

/// What became of a process whose calls are recorded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Process {
    pub time: u64,
    pub pid: u32,
    pub change: Change,
}

/// How a process changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub enum Change {
    Forked {
        parent: u32,
    },
    Executed {
        /// The file, as given; of a script its interpreter. None: unreadable.
        file: Option<Vec<u8>>,
        /// Its arguments, each ended by a 0, at most 4,096 bytes.
        arguments: Option<Vec<u8>>,
    },
    /// It opened the library of a recorder ([`Watch`](crate::Watch)).
    LoadsRecorder,
    /// And from now on that records its calls.
    HasRecorder,
    /// Its last thread ended; as wait(2) gives it.
    Ended {
        status: i32,
    },
}

/// A request on an io_uring.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct UringOp {
    pub submitted: u64,
    /// None: not before the recording ended, or its completion was not asked for.
    pub completed: Option<u64>,
    /// IORING_OP_*.
    pub opcode: u8,
    /// An fsync that is an fdatasync.
    pub data_only: bool,
    /// None: no file, or a registered one.
    pub fd: Option<i32>,
    /// None: the file's own position, or an operation without.
    pub pos: Option<u64>,
    /// Bytes asked for. None: an operation without, or, before Linux 6.10, readv and writev.
    pub length: Option<u64>,
    /// The result, or -errno. 0 where `completed` is none.
    pub result: i32,
    pub user_data: u64,
    /// Who submitted it.
    pub pid: u32,
    pub tid: u32,
    /// What its descriptor or registered file stands for. None: not completed, or an operation without.
    pub opened: Option<Opened>,
}

/// A name in a field of fixed size: what is before its first 0.
pub(crate) fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}
