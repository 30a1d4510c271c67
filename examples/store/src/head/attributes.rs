//! Attributes as the kernel has them, and the ends of requests that reply with them.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fuser::{FileAttr, FileType, Generation, INodeNo, ReplyAttr, ReplyEmpty, ReplyEntry};

use crate::block::BLOCK;
use crate::calls::{Inode, Kind};

/// For how long the kernel may keep a name or attributes: not at all, so that the head sees every request.
pub const NO_TIME: Duration = Duration::ZERO;

fn system_time(ns: i64) -> SystemTime {
    let since = Duration::from_nanos(ns.unsigned_abs());
    if ns < 0 { UNIX_EPOCH - since } else { UNIX_EPOCH + since }
}

/// Since the epoch.
pub fn nanoseconds(time: SystemTime) -> i64 {
    match time.duration_since(UNIX_EPOCH) {
        Ok(since) => i64::try_from(since.as_nanos()).unwrap_or(i64::MAX),
        Err(before) => -i64::try_from(before.duration().as_nanos()).unwrap_or(i64::MAX),
    }
}

/// What the kernel calls it.
pub fn file_type(kind: &Kind) -> FileType {
    match kind {
        Kind::File { .. } => FileType::RegularFile,
        Kind::Directory => FileType::Directory,
        Kind::Symlink { .. } => FileType::Symlink,
    }
}

/// All of an inode.
pub fn attributes(inode: &Inode) -> FileAttr {
    FileAttr {
        ino: INodeNo(inode.ino),
        size: inode.size,
        blocks: inode.size.div_ceil(512),
        atime: system_time(inode.atime),
        mtime: system_time(inode.mtime),
        ctime: system_time(inode.ctime),
        crtime: UNIX_EPOCH,
        kind: file_type(&inode.kind),
        perm: inode.mode,
        nlink: inode.nlink,
        uid: inode.uid,
        gid: inode.gid,
        rdev: 0,
        blksize: BLOCK as u32,
        flags: 0,
    }
}

/// Replies with an inode that a name stands for.
pub fn entry(reply: ReplyEntry) -> impl FnOnce(Result<Inode, fuser::Errno>) {
    move |found| match found {
        Ok(inode) => reply.entry(&NO_TIME, &attributes(&inode), Generation(0)),
        Err(errno) => reply.error(errno),
    }
}

/// Replies that it is done.
pub fn empty(reply: ReplyEmpty) -> impl FnOnce(Result<(), fuser::Errno>) {
    move |done| match done {
        Ok(()) => reply.ok(),
        Err(errno) => reply.error(errno),
    }
}

/// Replies with attributes.
pub fn attr(reply: ReplyAttr) -> impl FnOnce(Result<Inode, fuser::Errno>) {
    move |found| match found {
        Ok(inode) => reply.attr(&NO_TIME, &attributes(&inode)),
        Err(errno) => reply.error(errno),
    }
}

/// The permissions of something new.
pub fn mode(mode: u32, umask: u32) -> u16 {
    (mode & !umask & 0o7777) as u16
}
