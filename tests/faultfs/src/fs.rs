//! What the kernel asks for. Nothing is cached in the kernel, so that each call of a program comes here.

use std::ffi::OsStr;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fuser::{
    BsdFileFlags, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo,
    InitFlags, KernelConfig, LockOwner, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData,
    ReplyDirectory, ReplyEmpty, ReplyEntry, ReplyOpen, ReplyStatfs, ReplyWrite, Request, TimeOrNow,
    WriteFlags,
};

use crate::state::{self, Body, Edit, State};

/// Blocks of 4 KiB that it claims to have: 4 GiB.
const BLOCKS: u64 = 1 << 20;

/// The file system as the kernel has it.
pub struct Fuse {
    pub state: Arc<Mutex<State>>,
}

fn attributes(state: &mut State, ino: u64) -> Result<FileAttr, state::Errno> {
    let inode = state.inode(ino)?;
    let (kind, size) = match &inode.body {
        Body::File { data, .. } => (FileType::RegularFile, data.len()),
        Body::Directory { .. } => (FileType::Directory, 0),
        Body::Symlink(target) => (FileType::Symlink, target.len()),
    };
    let time = inode.modified;
    Ok(FileAttr {
        ino: INodeNo(ino),
        size: size as u64,
        blocks: (size as u64).div_ceil(512),
        atime: time,
        mtime: time,
        ctime: time,
        crtime: UNIX_EPOCH,
        kind,
        perm: inode.mode,
        nlink: 1,
        uid: inode.owner.0,
        gid: inode.owner.1,
        rdev: 0,
        blksize: 4096,
        flags: 0,
    })
}

fn error(errno: state::Errno) -> Errno {
    Errno::from_i32(errno)
}

fn empty(done: Result<(), state::Errno>, reply: ReplyEmpty) {
    match done {
        Ok(()) => reply.ok(),
        Err(errno) => reply.error(error(errno)),
    }
}

fn entry(found: Result<FileAttr, state::Errno>, reply: ReplyEntry) {
    match found {
        Ok(attr) => reply.entry(&Duration::ZERO, &attr, Generation(0)),
        Err(errno) => reply.error(error(errno)),
    }
}

fn attr(found: Result<FileAttr, state::Errno>, reply: ReplyAttr) {
    match found {
        Ok(attr) => reply.attr(&Duration::ZERO, &attr),
        Err(errno) => reply.error(error(errno)),
    }
}

impl Fuse {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A new file, directory or symbolic link.
    fn make(
        &self,
        kind: &'static str,
        request: &Request,
        (parent, name): (INodeNo, &OsStr),
        body: Body,
        mode: u32,
    ) -> Result<FileAttr, state::Errno> {
        let mut state = self.state();
        state.call(kind, parent.0, name)?;
        state.refuse_taken(parent.0, name)?;
        let ino = state.add(body, (mode & 0o7777) as u16, (request.uid(), request.gid()), name);
        state.change(vec![(parent.0, name.to_owned(), Some(ino))])?;
        attributes(&mut state, ino)
    }

    fn opened(&self, kind: &'static str, ino: INodeNo, flags: FopenFlags, reply: ReplyOpen) {
        match self.state().call(kind, ino.0, OsStr::new("")) {
            Ok(()) => reply.opened(FileHandle(0), flags),
            Err(errno) => reply.error(error(errno)),
        }
    }
}

impl Filesystem for Fuse {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> std::io::Result<()> {
        // A kernel that can't has no shared mappings of files opened for direct I/O.
        let _ = config.add_capabilities(InitFlags::FUSE_DIRECT_IO_ALLOW_MMAP);
        Ok(())
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let mut state = self.state();
        let ino = state.alive().and_then(|()| state.lookup(parent.0, name));
        entry(ino.and_then(|ino| attributes(&mut state, ino)), reply);
    }

    fn getattr(&self, _: &Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        let mut state = self.state();
        attr(state.alive().and_then(|()| attributes(&mut state, ino.0)), reply);
    }

    fn setattr(
        &self,
        _: &Request,
        ino: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        _atime: Option<TimeOrNow>,
        mtime: Option<TimeOrNow>,
        _ctime: Option<SystemTime>,
        _fh: Option<FileHandle>,
        _crtime: Option<SystemTime>,
        _chgtime: Option<SystemTime>,
        _bkuptime: Option<SystemTime>,
        _flags: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let mut state = self.state();
        let mut set = || {
            state.alive()?;
            if let Some(size) = size {
                state.call("truncate", ino.0, OsStr::new(""))?;
                state.edit(ino.0, Edit::Resize(size as usize))?;
            }
            let inode = state.inode(ino.0)?;
            inode.mode = mode.map_or(inode.mode, |mode| (mode & 0o7777) as u16);
            inode.owner = (uid.unwrap_or(inode.owner.0), gid.unwrap_or(inode.owner.1));
            inode.modified = match mtime {
                Some(TimeOrNow::SpecificTime(time)) => time,
                Some(TimeOrNow::Now) => SystemTime::now(),
                None => inode.modified,
            };
            attributes(&mut state, ino.0)
        };
        attr(set(), reply);
    }

    fn readlink(&self, _: &Request, ino: INodeNo, reply: ReplyData) {
        let mut state = self.state();
        match state.alive().and_then(|()| state.inode(ino.0)).map(|inode| &inode.body) {
            Ok(Body::Symlink(target)) => reply.data(target.as_encoded_bytes()),
            Ok(_) => reply.error(Errno::EINVAL),
            Err(errno) => reply.error(error(errno)),
        }
    }

    fn mkdir(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        reply: ReplyEntry,
    ) {
        entry(self.make("mkdir", request, (parent, name), state::directory(), mode & !umask), reply);
    }

    fn symlink(&self, request: &Request, parent: INodeNo, name: &OsStr, target: &Path, reply: ReplyEntry) {
        let body = Body::Symlink(target.as_os_str().to_owned());
        entry(self.make("symlink", request, (parent, name), body, 0o777), reply);
    }

    fn unlink(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let mut state = self.state();
        let called = state.call("unlink", parent.0, name);
        empty(called.and_then(|()| state.remove(parent.0, name, false)), reply);
    }

    fn rmdir(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let mut state = self.state();
        let called = state.call("rmdir", parent.0, name);
        empty(called.and_then(|()| state.remove(parent.0, name, true)), reply);
    }

    fn link(&self, _: &Request, ino: INodeNo, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let mut state = self.state();
        let mut link = || {
            state.call("link", parent.0, name)?;
            state.refuse_taken(parent.0, name)?;
            state.change(vec![(parent.0, name.to_owned(), Some(ino.0))])?;
            attributes(&mut state, ino.0)
        };
        entry(link(), reply);
    }

    fn rename(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        to: INodeNo,
        as_name: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let mut state = self.state();
        let mut rename = || {
            state.call("rename", parent.0, name)?;
            if !RenameFlags::RENAME_NOREPLACE.contains(flags) {
                return Err(libc::EINVAL);
            }
            if !flags.is_empty() {
                state.refuse_taken(to.0, as_name)?;
            }
            let ino = state.lookup(parent.0, name)?;
            if state.lookup(to.0, as_name) == Ok(ino) {
                return Ok(());
            }
            state.change(vec![(parent.0, name.to_owned(), None), (to.0, as_name.to_owned(), Some(ino))])
        };
        empty(rename(), reply);
    }

    fn create(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        _flags: i32,
        reply: ReplyCreate,
    ) {
        match self.make("create", request, (parent, name), state::file(), mode & !umask) {
            Ok(attr) => {
                let flags = FopenFlags::FOPEN_DIRECT_IO;
                reply.created(&Duration::ZERO, &attr, Generation(0), FileHandle(0), flags);
            }
            Err(errno) => reply.error(error(errno)),
        }
    }

    fn open(&self, _: &Request, ino: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        self.opened("open", ino, FopenFlags::FOPEN_DIRECT_IO, reply);
    }

    fn opendir(&self, _: &Request, ino: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        self.opened("opendir", ino, FopenFlags::empty(), reply);
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        reply.ok();
    }

    fn read(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        pos: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let mut state = self.state();
        let called = state.call("read", ino.0, OsStr::new(""));
        match called.and_then(|()| state.inode(ino.0)).map(|inode| &inode.body) {
            Ok(Body::File { data, .. }) => {
                let begin = data.len().min(pos as usize);
                reply.data(&data[begin..data.len().min(begin + size as usize)]);
            }
            Ok(_) => reply.error(Errno::EISDIR),
            Err(errno) => reply.error(error(errno)),
        }
    }

    fn write(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        pos: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let mut state = self.state();
        let called = state.call("write", ino.0, OsStr::new(""));
        match called.and_then(|()| state.edit(ino.0, Edit::Write(pos as usize, data.to_vec()))) {
            Ok(()) => reply.written(data.len() as u32),
            Err(errno) => reply.error(error(errno)),
        }
    }

    fn fallocate(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        pos: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        let mut state = self.state();
        let mut allocate = || {
            state.call("fallocate", ino.0, OsStr::new(""))?;
            let size = attributes(&mut state, ino.0)?.size;
            match mode {
                0 if pos + length > size => state.edit(ino.0, Edit::Resize((pos + length) as usize)),
                0 | libc::FALLOC_FL_KEEP_SIZE => Ok(()),
                _ => Err(libc::EOPNOTSUPP),
            }
        };
        empty(allocate(), reply);
    }

    fn fsync(&self, _: &Request, ino: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        empty(self.state().sync(ino.0), reply);
    }

    fn fsyncdir(&self, _: &Request, ino: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        empty(self.state().sync(ino.0), reply);
    }

    fn readdir(&self, _: &Request, ino: INodeNo, _: FileHandle, offset: u64, mut reply: ReplyDirectory) {
        let mut state = self.state();
        let called = state.call("readdir", ino.0, OsStr::new(""));
        let entries = match called.and_then(|()| state.entries(ino.0)) {
            Ok(entries) => entries.clone(),
            Err(errno) => return reply.error(error(errno)),
        };
        let dots = [(".".into(), ino.0), ("..".into(), ino.0)];
        for (number, (name, ino)) in dots.into_iter().chain(entries).enumerate().skip(offset as usize) {
            let kind = attributes(&mut state, ino).map_or(FileType::RegularFile, |attr| attr.kind);
            if reply.add(INodeNo(ino), number as u64 + 1, kind, name) {
                break;
            }
        }
        reply.ok();
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        match self.state().alive() {
            Ok(()) => reply.statfs(BLOCKS, BLOCKS, BLOCKS, 0, 0, 4096, 255, 4096),
            Err(errno) => reply.error(error(errno)),
        }
    }
}
