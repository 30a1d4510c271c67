//! What the kernel asks for, and what is done.
//!
//! Nothing is cached in the kernel: files are opened for direct I/O, names and attributes are good for no
//! time. So the head sees every request, as the NFS server of a client without a cache.

use std::ffi::OsStr;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use fuser::{
    BsdFileFlags, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo, InitFlags, KernelConfig,
    LockOwner, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory, ReplyEmpty,
    ReplyEntry, ReplyOpen, ReplyStatfs, ReplyWrite, Request, TimeOrNow, WriteFlags,
};
use iotrail_sdk::request::Name;

use super::Head;
use super::attributes::{NO_TIME, attr, attributes, empty, entry, file_type, mode, nanoseconds};
use super::requests::Fuse;
use crate::block::BLOCK;
use crate::calls::{Changes, Kind, MdsCall, MdsReply, NodeCall, NodeReply};
use crate::mds::now;
use crate::rpc::{Errno, call_all};

/// Most bytes of one read or write, as in NFS over TCP by default on many systems.
const MOST: u32 = 128 << 10;

/// A name of an operation, as NFS calls it.
macro_rules! op {
    ($name:literal) => {{
        static OP: Name = Name::new($name);
        &OP
    }};
}

impl Fuse {
    /// A new directory or symbolic link.
    fn make(
        &self,
        op: &'static Name,
        request: &Request,
        (parent, name): (INodeNo, &OsStr),
        kind: Kind,
        mode: u16,
        reply: ReplyEntry,
    ) {
        let (name, uid, gid) = (name.as_bytes().to_vec(), request.uid(), request.gid());
        let call = MdsCall::CreateObject { parent: parent.0, name, kind, mode, uid, gid, down: Vec::new() };
        let work = |head: &Arc<Head>, crumb| head.inode(call, crumb);
        self.serve(op, request, (parent, None), work, entry(reply));
    }

    /// Takes a name away.
    fn remove(
        &self,
        op: &'static Name,
        request: &Request,
        (parent, name): (INodeNo, &OsStr),
        directory: bool,
        reply: ReplyEmpty,
    ) {
        let call = MdsCall::Remove { parent: parent.0, name: name.as_bytes().to_vec(), directory };
        let work = |head: &Arc<Head>, crumb| head.lost_name(head.nameless(call, crumb)?, crumb);
        self.serve(op, request, (parent, None), work, empty(reply));
    }
}

impl Filesystem for Fuse {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> std::io::Result<()> {
        // A kernel that can't has no shared mappings of files opened for direct I/O.
        let _ = config.add_capabilities(InitFlags::FUSE_DIRECT_IO_ALLOW_MMAP);
        // Both are below what any kernel takes.
        let _ = config.set_max_write(MOST);
        let _ = config.set_max_readahead(MOST);
        Ok(())
    }

    fn forget(&self, _: &Request, ino: INodeNo, _: u64) {
        self.head.forget(ino.0);
    }

    fn lookup(&self, request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let call = MdsCall::Lookup { parent: parent.0, name: name.as_bytes().to_vec() };
        let work = |head: &Arc<Head>, crumb| Ok(head.as_known(head.inode(call, crumb)?, None));
        self.serve(op!("lookup"), request, (parent, None), work, entry(reply));
    }

    fn getattr(&self, request: &Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        let work = move |head: &Arc<Head>, crumb| {
            let before = head.files.known(ino.0);
            Ok(head.as_known(head.inode(MdsCall::GetAttr { ino: ino.0 }, crumb)?, before))
        };
        self.serve(op!("getattr"), request, (ino, None), work, attr(reply));
    }

    fn setattr(
        &self,
        request: &Request,
        ino: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        atime: Option<TimeOrNow>,
        mtime: Option<TimeOrNow>,
        _ctime: Option<SystemTime>,
        _fh: Option<FileHandle>,
        _crtime: Option<SystemTime>,
        _chgtime: Option<SystemTime>,
        _bkuptime: Option<SystemTime>,
        _flags: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let time = |time| match time {
            TimeOrNow::SpecificTime(time) => nanoseconds(time),
            TimeOrNow::Now => now(),
        };
        let mode = mode.map(|mode| (mode & 0o7777) as u16);
        let changes = Changes { mode, uid, gid, size, atime: atime.map(time), mtime: mtime.map(time) };
        let work = move |head: &Arc<Head>, crumb| head.set(ino.0, changes, crumb);
        self.serve(op!("setattr"), request, (ino, None), work, attr(reply));
    }

    fn readlink(&self, request: &Request, ino: INodeNo, reply: ReplyData) {
        let work =
            move |head: &Arc<Head>, crumb| match head.inode(MdsCall::GetAttr { ino: ino.0 }, crumb)?.kind {
                Kind::Symlink { target } => Ok(target),
                Kind::File { .. } | Kind::Directory => Err(Errno::EINVAL),
            };
        self.serve(op!("readlink"), request, (ino, None), work, |found| match found {
            Ok(target) => reply.data(&target),
            Err(errno) => reply.error(errno),
        });
    }

    fn mkdir(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        perm: u32,
        umask: u32,
        reply: ReplyEntry,
    ) {
        self.make(op!("mkdir"), request, (parent, name), Kind::Directory, mode(perm, umask), reply);
    }

    fn symlink(&self, request: &Request, parent: INodeNo, name: &OsStr, target: &Path, reply: ReplyEntry) {
        let target = Kind::Symlink { target: target.as_os_str().as_bytes().to_vec() };
        self.make(op!("symlink"), request, (parent, name), target, 0o777, reply);
    }

    fn unlink(&self, request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        self.remove(op!("remove"), request, (parent, name), false, reply);
    }

    fn rmdir(&self, request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        self.remove(op!("rmdir"), request, (parent, name), true, reply);
    }

    fn link(&self, request: &Request, ino: INodeNo, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let call = MdsCall::Link { ino: ino.0, parent: parent.0, name: name.as_bytes().to_vec() };
        let work = move |head: &Arc<Head>, crumb| {
            let before = head.files.known(ino.0);
            Ok(head.as_known(head.inode(call, crumb)?, before))
        };
        self.serve(op!("link"), request, (ino, None), work, entry(reply));
    }

    fn rename(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        to: INodeNo,
        as_name: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let call = MdsCall::Rename {
            parent: parent.0,
            name: name.as_bytes().to_vec(),
            to: to.0,
            as_name: as_name.as_bytes().to_vec(),
            replace: !flags.contains(RenameFlags::RENAME_NOREPLACE),
        };
        let known = RenameFlags::RENAME_NOREPLACE.contains(flags);
        let work = move |head: &Arc<Head>, crumb| match known {
            true => head.lost_name(head.nameless(call, crumb)?, crumb),
            false => Err(Errno::EINVAL),
        };
        self.serve(op!("rename"), request, (parent, None), work, empty(reply));
    }

    fn create(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        perm: u32,
        umask: u32,
        _flags: i32,
        reply: ReplyCreate,
    ) {
        let name = name.as_bytes().to_vec();
        let owner = (mode(perm, umask), request.uid(), request.gid());
        let work = move |head: &Arc<Head>, crumb| {
            let inode = head.create(parent.0, name, owner, crumb)?;
            head.hold_new(&inode);
            Ok(inode)
        };
        let opener = FileHandle(u64::from(request.uid()));
        self.serve(op!("create"), request, (parent, None), work, move |made| match made {
            Ok(inode) => {
                let direct = FopenFlags::FOPEN_DIRECT_IO;
                reply.created(&NO_TIME, &attributes(&inode), Generation(0), opener, direct);
            }
            Err(errno) => reply.error(errno),
        });
    }

    fn open(&self, request: &Request, ino: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        let work = move |head: &Arc<Head>, crumb| head.hold(ino.0, crumb);
        let opener = FileHandle(u64::from(request.uid()));
        self.serve(op!("open"), request, (ino, None), work, move |held| match held {
            Ok(_) => reply.opened(opener, FopenFlags::FOPEN_DIRECT_IO),
            Err(errno) => reply.error(errno),
        });
    }

    /// The kernel sends it as its own; it is for whoever opened the file.
    fn release(
        &self,
        _: &Request,
        ino: INodeNo,
        opener: FileHandle,
        _: OpenFlags,
        _: Option<LockOwner>,
        _: bool,
        reply: ReplyEmpty,
    ) {
        let work = move |head: &Arc<Head>, _| head.let_go(ino.0);
        self.serve_for(opener.0 as u32, op!("close"), (ino, None), work, empty(reply));
    }

    /// Closing a file writes nothing back; whoever wants to know that it is done calls fsync.
    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        reply.error(fuser::Errno::ENOSYS);
    }

    fn read(
        &self,
        request: &Request,
        ino: INodeNo,
        _: FileHandle,
        pos: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let workers = Arc::downgrade(&self.workers);
        let work = move |head: &Arc<Head>, crumb| {
            head.with(ino.0, crumb, |file| {
                let (data, sequential) = head.read(file, pos, u64::from(size), crumb)?;
                if sequential && let Some(workers) = workers.upgrade() {
                    let (head, next) = (Arc::clone(head), pos + data.len() as u64);
                    workers.add(crumb, move || {
                        // What can't be read ahead will be read, and its failure seen, when it is asked for.
                        let _ = head.with(ino.0, crumb, |file| head.read_ahead(file, next, crumb));
                    });
                }
                Ok(data)
            })
        };
        self.serve(op!("read"), request, (ino, Some((pos, size.into()))), work, |found| match found {
            Ok(data) => reply.data(&data),
            Err(errno) => reply.error(errno),
        });
    }

    fn write(
        &self,
        request: &Request,
        ino: INodeNo,
        _: FileHandle,
        pos: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let (data, length) = (data.to_vec(), data.len());
        let work = move |head: &Arc<Head>, crumb| {
            head.with(ino.0, crumb, |file| head.write(file, pos, &data, crumb))
        };
        self.serve(op!("write"), request, (ino, Some((pos, length as u64))), work, move |done| match done {
            Ok(()) => reply.written(length as u32),
            Err(errno) => reply.error(errno),
        });
    }

    fn fsync(&self, request: &Request, ino: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        let work = move |head: &Arc<Head>, crumb| head.with(ino.0, crumb, |file| head.commit(file, crumb));
        self.serve(op!("commit"), request, (ino, None), work, empty(reply));
    }

    fn fsyncdir(&self, request: &Request, ino: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        let work = move |head: &Arc<Head>, crumb| head.ask(MdsCall::Commit { ino: ino.0 }, crumb).map(drop);
        self.serve(op!("commit"), request, (ino, None), work, empty(reply));
    }

    fn readdir(
        &self,
        request: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        // Offsets 1 and 2 are behind the two names that every directory has; cookies come after them.
        let work = move |head: &Arc<Head>, crumb| {
            let after = offset.saturating_sub(2);
            match head.ask(MdsCall::ReadDir { ino: ino.0, after }, crumb)? {
                MdsReply::Entries(entries) => Ok(entries),
                _ => Err(Errno::EPROTO),
            }
        };
        self.serve(op!("readdir"), request, (ino, None), work, move |found| match found {
            Ok(entries) => {
                for (number, name) in [(1, "."), (2, "..")] {
                    if offset < number && reply.add(ino, number, FileType::Directory, name) {
                        return reply.ok();
                    }
                }
                for entry in entries {
                    let (kind, name) = (file_type(&entry.kind), std::ffi::OsString::from_vec(entry.name));
                    if reply.add(INodeNo(entry.ino), entry.cookie + 2, kind, name) {
                        break;
                    }
                }
                reply.ok();
            }
            Err(errno) => reply.error(errno),
        });
    }

    fn statfs(&self, request: &Request, ino: INodeNo, reply: ReplyStatfs) {
        // Of the nodes' blocks, as many as there are; a file takes them once for each replica.
        let work = |head: &Arc<Head>, crumb| {
            let replies = call_all(head.nodes.values(), &NodeCall::Stat, &[], crumb);
            let rooms = replies.into_iter().flatten().map(|(reply, _)| match reply {
                NodeReply::Stat { blocks, free } => (blocks, free),
                NodeReply::Done => (0, 0),
            });
            Ok(rooms.fold((0, 0), |sum, room| (sum.0 + room.0, sum.1 + room.1)))
        };
        self.serve(op!("statfs"), request, (ino, None), work, |found| match found {
            Ok((blocks, free)) => reply.statfs(blocks, free, free, 0, 0, BLOCK as u32, 255, BLOCK as u32),
            Err(errno) => reply.error(errno),
        });
    }
}
