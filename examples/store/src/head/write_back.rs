//! Writing dirty blocks back: neighbours as one, to all replicas at once.

use iotrail_sdk::request::{Buffer, Crumb, Name, Service};

use super::cache::Run;
use super::files::File;
use super::{HEAD, Head};
use crate::block::{BLOCK, Block, file_id, post};
use crate::calls::{MdsCall, NodeCall};
use crate::rpc::Errno;

static FLUSH: Name = Name::new("flush");

/// Most blocks of one write to the nodes.
const MOST: usize = 64;

impl Head {
    /// Writes back what was dirty when it began.
    pub fn flush_all(&self) -> Result<(), Errno> {
        let mut failed = Ok(());
        for ino in self.cache.dirty_objects() {
            let flushed = self.with(ino, Crumb::NONE, |file| self.flush_file(file));
            // One that was removed meanwhile has nothing to write back.
            if let Err(errno) = flushed
                && self.cache.is_dirty(ino)
            {
                failed = Err(errno);
            }
        }
        failed
    }

    /// Writes back what is dirty of a file.
    pub fn flush_file(&self, file: &File) -> Result<(), Errno> {
        let _flush = file.flush.lock();
        let mut next = 0;
        while let Some(run) = self.cache.take_run(file.ino, next, MOST) {
            next = run.end();
            self.flush_run(file, run)?;
        }
        Ok(())
    }

    /// Writes back neighbouring blocks, on behalf of all who wrote them.
    fn flush_run(&self, file: &File, run: Run) -> Result<(), Errno> {
        let crumb = Crumb::coalesce(&run.shares());
        let _here = crumb.enter();
        let (pos, length) = (run.first * BLOCK as u64, (run.blocks.len() * BLOCK) as u64);
        let mut service = Service::internal(&HEAD, &FLUSH, crumb).file(file_id(file.ino)).at(pos, length);
        post(&HEAD, Buffer::Flush, crumb, (file.ino, run.first), run.blocks.len());
        let written = self.write_back(file, &run, crumb);
        match written {
            Ok(()) => self.cache.written(run, crumb),
            Err(errno) => {
                service.status(errno as i32);
                self.cache.not_written(run);
            }
        }
        written
    }

    /// A write is done when all replicas that are alive have it, and at least one does. The metadata service
    /// knows which ones missed it before anybody is told that it is done.
    fn write_back(&self, file: &File, run: &Run, crumb: Crumb) -> Result<(), Errno> {
        let (ino, first, count) = (file.ino, run.first, run.blocks.len());
        let (pos, length) = (first * BLOCK as u64, (count * BLOCK) as u64);
        let inode = self.inode(MdsCall::ApproveWrite { ino, pos, length }, crumb)?;
        let current = inode.replicas().iter().filter(|replica| !replica.stale);
        let names: Vec<&str> = current.map(|replica| replica.node.as_str()).collect();
        let blocks: Vec<Block> = run.blocks.iter().map(|block| (**block).clone()).collect();
        let call = NodeCall::Write { object: ino, first, count: count as u32 };
        let missed = self.call_nodes(&names, &call, Block::bytes(&blocks), crumb)?;
        let (size, mtime) = {
            let meta = file.meta.lock();
            (meta.size.min(pos + length), meta.mtime)
        };
        let call = MdsCall::FinishWrite { ino, size, mtime, missed, anew: Vec::new() };
        let inode = self.inode(call, crumb)?;
        file.meta.lock().replicas = inode.replicas().to_vec();
        Ok(())
    }

    /// What was written to a file is on all replicas that are alive, and outlives a power failure there.
    pub fn commit(&self, file: &File, crumb: Crumb) -> Result<(), Errno> {
        self.flush_file(file)?;
        // A flush that goes on has the other writes.
        let _flush = file.flush.lock();
        let replicas = file.meta.lock().replicas.clone();
        let current = replicas.iter().filter(|replica| !replica.stale);
        let names: Vec<&str> = current.map(|replica| replica.node.as_str()).collect();
        let missed = self.call_nodes(&names, &NodeCall::Commit { object: file.ino }, &[], crumb)?;
        if !missed.is_empty() {
            let call = MdsCall::FinishWrite { ino: file.ino, size: 0, mtime: None, missed, anew: Vec::new() };
            file.meta.lock().replicas = self.inode(call, crumb)?.replicas().to_vec();
        }
        self.ask(MdsCall::Commit { ino: file.ino }, crumb).map(drop)
    }
}
