//! Reading and changing the content of files, through the cache.
//!
//! Bytes of a block behind the end of its file are zero, in the cache and on the nodes: a file that grows
//! again shows no old bytes.

use std::ops::Range;
use std::sync::Arc;

use iotrail_sdk::request::{Buffer, Crumb, Name, Service};

use super::files::File;
use super::{HEAD, Head};
use crate::block::{BLOCK, Block, file_id, post, runs};
use crate::calls::{Changes, Inode, MdsCall, NodeCall};
use crate::mds::now;
use crate::rpc::Errno;

static READ_AHEAD: Name = Name::new("read_ahead");

/// Blocks that are fetched ahead of a sequential reader.
const AHEAD: u64 = 32;
/// Blocks of a file that are read from one replica before it is another one's turn.
const REGION: u64 = 256;
const SIZE: u64 = BLOCK as u64;

/// The blocks that hold some bytes.
fn blocks_of(bytes: &Range<u64>) -> Range<u64> {
    bytes.start / SIZE..bytes.end.div_ceil(SIZE)
}

/// The part of a block that lies in a range of the file's bytes, as bytes of the block.
fn part(at: u64, bytes: &Range<u64>) -> Range<usize> {
    let start = bytes.start.max(at * SIZE) - at * SIZE;
    let end = bytes.end.min((at + 1) * SIZE) - at * SIZE;
    start as usize..end as usize
}

impl Head {
    /// Reads what there is of these bytes. Returns whether the reader seems to go on behind them.
    pub fn read(&self, file: &File, pos: u64, length: u64, crumb: Crumb) -> Result<(Vec<u8>, bool), Errno> {
        let _io = file.io.read();
        let (bytes, sequential) = {
            let mut meta = file.meta.lock();
            let bytes = pos..pos.saturating_add(length).min(meta.size);
            (bytes.clone(), std::mem::replace(&mut meta.read_to, bytes.end.max(pos)) == pos)
        };
        if bytes.is_empty() {
            return Ok((Vec::new(), false));
        }
        let blocks = blocks_of(&bytes);
        let mut found: Vec<_> = blocks.clone().map(|at| self.cache.get((file.ino, at))).collect();
        let is_hit = |at: &u64| found[(at - blocks.start) as usize].is_some();
        let (hits, misses): (Vec<u64>, Vec<u64>) = blocks.clone().partition(is_hit);
        for (first, count) in runs(hits) {
            post(&HEAD, Buffer::ReadHit, crumb, (file.ino, first), count);
        }
        for (first, count) in runs(misses) {
            post(&HEAD, Buffer::ReadMiss, crumb, (file.ino, first), count);
            for (at, block) in (first..).zip(self.fetch(file, first, count, crumb)?) {
                found[(at - blocks.start) as usize] = Some(block);
            }
        }
        let mut data = Vec::with_capacity((bytes.end - bytes.start) as usize);
        for (at, block) in blocks.zip(found.into_iter().flatten()) {
            data.extend_from_slice(&block.0[part(at, &bytes)]);
        }
        Ok((data, sequential))
    }

    /// Fetches what a reader that goes on at `pos` will want, if half of it isn't here.
    pub fn read_ahead(&self, file: &File, pos: u64, crumb: Crumb) -> Result<(), Errno> {
        let _io = file.io.read();
        let end = file.meta.lock().size.div_ceil(SIZE).min(pos / SIZE + AHEAD);
        let missing = self.cache.missing(file.ino, pos / SIZE..end);
        if missing.is_empty() || (missing.len() as u64) < AHEAD / 2 && end == pos / SIZE + AHEAD {
            return Ok(());
        }
        let crumb = crumb.split();
        let _here = crumb.enter();
        let mut service = Service::internal(&HEAD, &READ_AHEAD, crumb).file(file_id(file.ino));
        for (first, count) in runs(missing) {
            post(&HEAD, Buffer::ReadAhead, crumb, (file.ino, first), count);
            if let Err(errno) = self.fetch(file, first, count, crumb) {
                service.status(errno as i32);
                return Err(errno);
            }
        }
        Ok(())
    }

    /// Gets blocks from a replica that is not stale, the least busy one first, and keeps them.
    fn fetch(&self, file: &File, first: u64, count: usize, crumb: Crumb) -> Result<Vec<Arc<Block>>, Errno> {
        let replicas = file.meta.lock().replicas.clone();
        let names: Vec<&str> =
            replicas.iter().filter(|replica| !replica.stale).map(|replica| replica.node.as_str()).collect();
        let mut peers = self.peers(&names)?;
        // Equally busy ones take turns by region, so that a node sees that a reader is sequential.
        let turn = (file.ino + first / REGION) as usize % peers.len().max(1);
        peers.rotate_left(turn);
        peers.sort_by_key(|peer| (peer.is_down(), peer.busy()));
        let mut why = Errno::EIO;
        for peer in peers {
            let call = NodeCall::Read { object: file.ino, first, count: count as u32 };
            match peer.call(call, &[], crumb) {
                Ok((_, data)) if data.len() == count * BLOCK => {
                    let blocks: Vec<_> = Block::of(&data).into_iter().map(Arc::new).collect();
                    for (block, at) in blocks.iter().zip(first..) {
                        self.cache.fill((file.ino, at), Arc::clone(block), crumb);
                    }
                    return Ok(blocks);
                }
                Ok(_) => why = Errno::EPROTO,
                Err(errno) => why = errno,
            }
        }
        eprintln!("store: no replica gives block {first} of object {}: the last one said {why}", file.ino);
        Err(Errno::EIO)
    }

    /// Writes into the cache. A writer that makes too much dirty writes back first.
    pub fn write(&self, file: &File, pos: u64, data: &[u8], crumb: Crumb) -> Result<(), Errno> {
        if self.cache.is_too_dirty() {
            self.flush_file(file)?;
            if self.cache.is_too_dirty() {
                self.flush_all()?;
            }
        }
        let _io = file.io.write();
        let bytes = pos..pos + data.len() as u64;
        self.put(file, &bytes, data, crumb)?;
        let mut meta = file.meta.lock();
        meta.size = meta.size.max(bytes.end);
        meta.mtime = Some(now());
        Ok(())
    }

    fn put(&self, file: &File, bytes: &Range<u64>, data: &[u8], crumb: Crumb) -> Result<(), Errno> {
        let size = file.meta.lock().size;
        let blocks = blocks_of(bytes);
        let mut bases = Vec::new();
        for at in blocks.clone() {
            // What a block keeps of its content has to be here first, and to be held: the cache may evict it meanwhile.
            let keeps = part(at, bytes).len() < BLOCK && at * SIZE < size;
            bases.push(match keeps.then(|| self.cache.get((file.ino, at))) {
                Some(None) => {
                    post(&HEAD, Buffer::ReadMiss, crumb, (file.ino, at), 1);
                    self.fetch(file, at, 1, crumb)?.into_iter().next()
                }
                here => here.flatten(),
            });
        }
        post(&HEAD, Buffer::Write, crumb, (file.ino, blocks.start), (blocks.end - blocks.start) as usize);
        for (at, base) in blocks.zip(bases) {
            let part = part(at, bytes);
            let from = (at * SIZE + part.start as u64 - bytes.start) as usize;
            self.cache.write((file.ino, at), part.clone(), &data[from..from + part.len()], base, crumb);
        }
        Ok(())
    }

    /// Changes a file's size, and other attributes with it.
    pub fn truncate(&self, file: &File, changes: Changes, crumb: Crumb) -> Result<Inode, Errno> {
        let size = changes.size.unwrap_or(0);
        let _io = file.io.write();
        let _flush = file.flush.lock();
        let (old, replicas) = {
            let meta = file.meta.lock();
            (meta.size, meta.replicas.clone())
        };
        let kept = size.div_ceil(SIZE);
        if size < old {
            let tail = size..(kept * SIZE).min(old);
            if !tail.is_empty() {
                self.put(file, &tail, &vec![0; (tail.end - tail.start) as usize], crumb)?;
            }
        }
        // A file that begins anew has no stale replica, but for those that don't hear of it.
        let anew = size == 0 && replicas.iter().any(|replica| replica.stale);
        if kept < old.div_ceil(SIZE) || anew {
            let asked = replicas.iter().filter(|replica| anew || !replica.stale);
            let names: Vec<&str> = asked.map(|replica| replica.node.as_str()).collect();
            let call = NodeCall::Truncate { object: file.ino, blocks: kept };
            let missed = self.call_nodes(&names, &call, &[], crumb)?;
            if anew || !missed.is_empty() {
                let heard = names.iter().filter(|name| !missed.iter().any(|other| other == *name));
                let anew = if anew { heard.map(|name| (*name).to_owned()).collect() } else { Vec::new() };
                let call = MdsCall::FinishWrite { ino: file.ino, size: 0, mtime: None, missed, anew };
                file.meta.lock().replicas = self.inode(call, crumb)?.replicas().to_vec();
            }
        }
        self.cache.forget(file.ino, kept);
        let inode = self.inode(MdsCall::SetAttr { ino: file.ino, changes }, crumb)?;
        let mut meta = file.meta.lock();
        (meta.size, meta.mtime) = (size, Some(inode.mtime));
        Ok(inode)
    }
}
