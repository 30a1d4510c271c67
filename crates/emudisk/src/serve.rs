//! What the kernel asks of the mounted directory: one file, whose requests go to the pacing thread.

use std::ffi::OsStr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fuser::{
    BsdFileFlags, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo,
    InitFlags, KernelConfig, LockOwner, OpenFlags, ReplyAttr, ReplyData, ReplyDirectory, ReplyEmpty,
    ReplyEntry, ReplyOpen, ReplyWrite, Request, TimeOrNow, WriteFlags,
};
use iotrail_sim::{Nanos, Op};
use iotrail_trail::seal::clock::clock_ns;

use crate::NAME;
use crate::backing::Backing;
use crate::pace::{Arrival, Message, Moved, Reply};

/// Inode of the disk; that of the directory is 1.
const DISK: INodeNo = INodeNo(2);
/// Requests in flight that the kernel may send without waiting.
const MAX_BACKGROUND: u16 = 1024;
/// Largest request.
const MAX_REQUEST: u32 = 1 << 20;
/// Attributes never change.
const FOREVER: Duration = Duration::from_secs(3600);

thread_local! {
    /// A reader's real-time priority, raised at its first request.
    static PUNCTUAL: () = crate::raise_priority();
}

/// The served directory.
pub struct Disk {
    backing: Arc<Backing>,
    // A Sender can't be shared between the readers.
    pacer: Mutex<Sender<Message>>,
    size: u64,
    owner: (u32, u32),
    /// Whether writes reach the data: not while the floor is measured.
    keeps: Arc<AtomicBool>,
}

impl Disk {
    pub fn new(backing: Arc<Backing>, pacer: Sender<Message>, size: u64, keeps: Arc<AtomicBool>) -> Self {
        // SAFETY: calls without arguments.
        let owner = unsafe { (libc::geteuid(), libc::getegid()) };
        Self { backing, pacer: Mutex::new(pacer), size, owner, keeps }
    }

    fn attributes(&self, ino: INodeNo) -> FileAttr {
        let (kind, perm, size) = match ino {
            DISK => (FileType::RegularFile, 0o600, self.size),
            _ => (FileType::Directory, 0o700, 0),
        };
        FileAttr {
            ino,
            size,
            blocks: size.div_ceil(512),
            atime: UNIX_EPOCH,
            mtime: UNIX_EPOCH,
            ctime: UNIX_EPOCH,
            crtime: UNIX_EPOCH,
            kind,
            perm,
            nlink: 1,
            uid: self.owner.0,
            gid: self.owner.1,
            rdev: 0,
            blksize: 4096,
            flags: 0,
        }
    }

    /// Hands a request over, then moves its data.
    fn serve(&self, request: iotrail_sim::Request, reply: Reply, moving: impl FnOnce() -> Moved) {
        // fuser has started this thread. On a busy machine its requests would arrive late.
        PUNCTUAL.with(|_| ());
        let at: Nanos = clock_ns(libc::CLOCK_MONOTONIC);
        let moved = Arc::new(OnceLock::new());
        let arrival = Arrival { at, request, reply, moved: Arc::clone(&moved) };
        // If the pacing thread has ended, the reply is dropped with the message, and fails.
        let _ = self.pacer.lock().unwrap_or_else(PoisonError::into_inner).send(Message::Arrival(arrival));
        let _ = moved.set(moving());
    }

    fn writes(&self, write: impl FnOnce() -> std::io::Result<()>) -> Moved {
        if self.keeps.load(Ordering::Relaxed) {
            write().map_err(errno)?;
        }
        Ok(Vec::new())
    }
}

fn errno(error: std::io::Error) -> i32 {
    error.raw_os_error().unwrap_or(libc::EIO)
}

impl Filesystem for Disk {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> std::io::Result<()> {
        // What an older kernel lacks costs speed alone.
        let _ = config.add_capabilities(InitFlags::FUSE_ASYNC_DIO | InitFlags::FUSE_MAX_PAGES);
        let _ = config.add_capabilities(InitFlags::FUSE_DIRECT_IO_ALLOW_MMAP);
        let _ = config.set_max_write(MAX_REQUEST);
        let _ = config.set_max_background(MAX_BACKGROUND);
        let _ = config.set_congestion_threshold(MAX_BACKGROUND);
        Ok(())
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        if parent == INodeNo::ROOT && name == NAME {
            reply.entry(&FOREVER, &self.attributes(DISK), Generation(0));
        } else {
            reply.error(Errno::ENOENT);
        }
    }

    fn getattr(&self, _: &Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        reply.attr(&FOREVER, &self.attributes(ino));
    }

    /// A disk keeps its size; its times and mode are not kept.
    fn setattr(
        &self,
        _: &Request,
        ino: INodeNo,
        _mode: Option<u32>,
        _uid: Option<u32>,
        _gid: Option<u32>,
        size: Option<u64>,
        _atime: Option<TimeOrNow>,
        _mtime: Option<TimeOrNow>,
        _ctime: Option<SystemTime>,
        _fh: Option<FileHandle>,
        _crtime: Option<SystemTime>,
        _chgtime: Option<SystemTime>,
        _bkuptime: Option<SystemTime>,
        _flags: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        match size {
            Some(size) if size != self.size => reply.error(Errno::EPERM),
            _ => reply.attr(&FOREVER, &self.attributes(ino)),
        }
    }

    fn readdir(&self, _: &Request, ino: INodeNo, _: FileHandle, offset: u64, mut reply: ReplyDirectory) {
        if ino != INodeNo::ROOT {
            return reply.error(Errno::ENOTDIR);
        }
        let entries = [
            (INodeNo::ROOT, FileType::Directory, "."),
            (INodeNo::ROOT, FileType::Directory, ".."),
            (DISK, FileType::RegularFile, NAME),
        ];
        for (at, (ino, kind, name)) in (1..).zip(entries).skip(offset as usize) {
            if reply.add(ino, at, kind, name) {
                break;
            }
        }
        reply.ok();
    }

    fn opendir(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        reply.opened(FileHandle(0), FopenFlags::empty());
    }

    fn open(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        let flags = FopenFlags::FOPEN_DIRECT_IO | FopenFlags::FOPEN_PARALLEL_DIRECT_WRITES;
        reply.opened(FileHandle(0), flags);
    }

    fn read(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let length = u64::from(size).min(self.size.saturating_sub(offset));
        if length == 0 {
            return reply.data(&[]);
        }
        let request = iotrail_sim::Request { op: Op::Read, pos: offset, length };
        self.serve(request, Reply::Read(reply), || self.backing.read(offset, length).map_err(errno));
    }

    fn write(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let length = (data.len() as u64).min(self.size.saturating_sub(offset));
        if length == 0 && !data.is_empty() {
            return reply.error(Errno::ENOSPC);
        }
        let data = &data[..length as usize];
        let request = iotrail_sim::Request { op: Op::Write, pos: offset, length };
        let reply = Reply::Write(reply, data.len() as u32);
        self.serve(request, reply, || self.writes(|| self.backing.write(offset, data)));
    }

    fn fsync(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        let request = iotrail_sim::Request { op: Op::Flush, pos: 0, length: 0 };
        self.serve(request, Reply::Empty(reply), || Ok(Vec::new()));
    }

    fn fallocate(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        let punches = mode & libc::FALLOC_FL_PUNCH_HOLE != 0 || mode & libc::FALLOC_FL_ZERO_RANGE != 0;
        if !punches || mode & libc::FALLOC_FL_KEEP_SIZE == 0 {
            return reply.error(Errno::EOPNOTSUPP);
        }
        let length = length.min(self.size.saturating_sub(offset));
        let request = iotrail_sim::Request { op: Op::Trim, pos: offset, length };
        let punch = || self.writes(|| if length == 0 { Ok(()) } else { self.backing.punch(offset, length) });
        self.serve(request, Reply::Empty(reply), punch);
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        // What close(2) sends: no request to a disk.
        reply.ok();
    }
}
