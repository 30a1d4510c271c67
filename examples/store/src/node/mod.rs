//! A storage node: blocks of objects on one disk, behind a cache, with a checksum each.
//!
//! A write goes to free blocks of the disk, then into the journal, which makes it the object's; only then the
//! blocks it replaces are free. So a node that is killed comes back with what it acknowledged, and with the
//! old or the new content of what it didn't. The cache holds what is on disk (write-through).

mod disk;
mod map;

use std::path::PathBuf;
use std::sync::Arc;

use iotrail_sdk::request::{Buffer, Crumb, Name};
use parking_lot::Mutex;

use crate::block::{BLOCK, Block, Clean, post, runs};
use crate::calls::{NodeCall, NodeReply};
use crate::faults::{Fault, Faults};
use crate::rpc::{self, Errno, Replied, Serve};
use crate::{Failure, size, wait_for_end};
use disk::Disk;
use map::{Map, Slot};

static NODE: Name = Name::new("node");

/// Blocks read ahead of a sequential reader, where they lie next to each other on the disk.
const AHEAD: u64 = 16;

/// Arguments of `node`.
#[derive(clap::Args)]
pub struct Args {
    /// Its name, as the others know it
    #[arg(long)]
    name: String,
    /// Where to listen
    #[arg(long, value_name = "ADDRESS:PORT")]
    listen: String,
    /// Where its journal is
    #[arg(long)]
    dir: PathBuf,
    /// Its disk, a file or a block device [default: the file `disk` in DIR]
    #[arg(long)]
    disk: Option<PathBuf>,
    /// Size of the disk, where it is a file that isn't there yet
    #[arg(long, default_value = "1G", value_parser = size)]
    size: u64,
    /// Size of the buffer cache
    #[arg(long, default_value = "64M", value_parser = size)]
    cache: u64,
    /// A fault: slow=OP=MS, slow-disk=MS
    #[arg(long)]
    fault: Vec<Fault>,
}

struct Node {
    disk: Disk,
    state: Mutex<State>,
    faults: Faults,
}

/// What changes together: a block is in the cache only as long as the map says the same.
struct State {
    map: Map,
    cache: Clean,
    /// Where the last read of each object that was read ended.
    ends: std::collections::HashMap<u64, u64>,
}

/// Runs the daemon until it is ended.
pub fn run(args: Args) -> Result<(), Failure> {
    rpc::introduce(&args.name);
    std::fs::create_dir_all(&args.dir).map_err(|error| format!("{}: {error}", args.dir.display()))?;
    let path = args.disk.unwrap_or_else(|| args.dir.join("disk"));
    let disk = Disk::open(&path, args.size).map_err(|error| format!("{}: {error}", path.display()))?;
    let journal = args.dir.join("journal");
    let map = Map::open(&journal, disk.blocks)
        .map_err(|error| format!("cannot replay {}: {error}", journal.display()))?;
    let state = State { map, cache: Clean::new(&NODE, args.cache), ends: Default::default() };
    let node = Node { disk, state: Mutex::new(state), faults: Faults::new(&args.fault) };
    rpc::listen(&args.listen, Arc::new(node))?;
    wait_for_end()
}

impl Serve for Node {
    type Call = NodeCall;
    const COMPONENT: &'static Name = &NODE;

    fn faults(&self) -> &Faults {
        &self.faults
    }

    fn serve(&self, call: NodeCall, data: Vec<u8>, crumb: Crumb) -> Replied<NodeCall> {
        match call {
            NodeCall::Read { object, first, count } => {
                let blocks = self.read(object, first, u64::from(count), crumb)?;
                let bytes = blocks.iter().flat_map(|block| block.0).collect();
                return Ok((NodeReply::Done, bytes));
            }
            NodeCall::Write { object, first, count } => {
                if data.len() != count as usize * BLOCK {
                    return Err(Errno::EINVAL);
                }
                self.write(object, first, Block::of(&data), crumb)?;
            }
            NodeCall::Create { object } => self.state.lock().map.create(object)?,
            NodeCall::Delete { object } => self.shorten(object, None)?,
            NodeCall::Truncate { object, blocks } => self.shorten(object, Some(blocks))?,
            NodeCall::Commit { .. } => {
                self.disk.sync(crumb)?;
                self.state.lock().map.sync()?;
            }
            NodeCall::Stat => {
                let (blocks, free) = (self.disk.blocks, self.state.lock().map.free());
                return Ok((NodeReply::Stat { blocks, free }, Vec::new()));
            }
        }
        Ok((NodeReply::Done, Vec::new()))
    }
}

impl Node {
    fn read(&self, object: u64, first: u64, count: u64, crumb: Crumb) -> Result<Vec<Arc<Block>>, Errno> {
        let mut blocks = vec![None; count as usize];
        let mut missing = Vec::new();
        let sequential = {
            let mut state = self.state.lock();
            let State { map, cache, ends } = &mut *state;
            let slots = map.object(object)?;
            for (block, number) in blocks.iter_mut().zip(first..) {
                *block = match slots.get(&number) {
                    None => Some(Arc::new(Block::ZERO)),
                    Some(_) => cache.get((object, number)),
                };
                if block.is_none() {
                    missing.push(number);
                }
            }
            ends.insert(object, first + count) == Some(first)
        };
        let hits = (first..first + count).filter(|number| missing.binary_search(number).is_err());
        for (start, count) in runs(hits) {
            post(&NODE, Buffer::ReadHit, crumb, (object, start), count);
        }
        for (start, count) in runs(missing.iter().copied()) {
            post(&NODE, Buffer::ReadMiss, crumb, (object, start), count);
        }
        while let Some(&number) = missing.first() {
            let end = if sequential { first + count + AHEAD } else { first + count };
            let found = self.fetch(object, number, end, crumb)?;
            let read = found.len() as u64;
            for (block, number) in found.into_iter().zip(number..first + count) {
                blocks[(number - first) as usize].get_or_insert(block);
            }
            if number + read > first + count {
                let ahead = number + read - (first + count);
                post(&NODE, Buffer::ReadAhead, crumb, (object, first + count), ahead as usize);
            }
            missing.retain(|other| *other >= number + read);
        }
        Ok(blocks.into_iter().flatten().collect())
    }

    /// Reads blocks from `first` on, as far as they lie next to each other on the disk and before `end`, into
    /// the cache. What a write replaced meanwhile is read again.
    fn fetch(&self, object: u64, first: u64, end: u64, crumb: Crumb) -> Result<Vec<Arc<Block>>, Errno> {
        loop {
            let slots: Vec<Slot> = {
                let state = self.state.lock();
                let all = state.map.object(object)?;
                let near = (first..end).map_while(|number| all.get(&number).copied());
                let mut next = None;
                near.take_while(|slot| {
                    slot.number == *next.get_or_insert(slot.number) && {
                        next = Some(slot.number + 1);
                        true
                    }
                })
                .collect()
            };
            let Some(start) = slots.first() else { return Ok(vec![Arc::new(Block::ZERO)]) };
            let blocks = self.disk.read(start.number, slots.len(), crumb, &self.faults)?;
            let mut state = self.state.lock();
            let State { map, cache, .. } = &mut *state;
            let now = map.object(object)?;
            if (first..).zip(&slots).any(|(number, slot)| now.get(&number) != Some(slot)) {
                continue;
            }
            let bad =
                blocks.iter().zip(&slots).position(|(block, slot)| crc32fast::hash(&block.0) != slot.crc);
            if let Some(at) = bad {
                let (number, slot) = (first + at as u64, slots[at].number);
                eprintln!(
                    "store: block {number} of object {object}: its checksum is not that of what was written \
                     (block {slot} of the disk); another replica has to serve it"
                );
                return Err(Errno::EBADMSG);
            }
            let blocks: Vec<_> = blocks.into_iter().map(Arc::new).collect();
            for (block, number) in blocks.iter().zip(first..) {
                if !cache.has((object, number)) {
                    cache.put((object, number), Arc::clone(block), crumb);
                }
            }
            return Ok(blocks);
        }
    }

    fn write(&self, object: u64, first: u64, blocks: Vec<Block>, crumb: Crumb) -> Result<(), Errno> {
        let numbers = self.state.lock().map.allocate(object, blocks.len())?;
        let slots = numbers.iter().zip(&blocks);
        let slots: Vec<_> =
            slots.map(|(&number, block)| Slot { number, crc: crc32fast::hash(&block.0) }).collect();
        let mut rest = &blocks[..];
        let written = runs(numbers.iter().copied()).into_iter().try_for_each(|(number, count)| {
            let (these, others) = rest.split_at(count);
            rest = others;
            self.disk.write(number, these, crumb, &self.faults)
        });
        let mut state = self.state.lock();
        let State { map, cache, .. } = &mut *state;
        if let Err(errno) = written.and_then(|()| map.put(object, first, &slots)) {
            map.give_back(&numbers);
            return Err(errno);
        }
        post(&NODE, Buffer::Write, crumb, (object, first), blocks.len());
        for (block, number) in blocks.into_iter().zip(first..) {
            cache.put((object, number), Arc::new(block), crumb);
        }
        Ok(())
    }

    /// Keeps an object's first blocks, or nothing of it.
    fn shorten(&self, object: u64, blocks: Option<u64>) -> Result<(), Errno> {
        let mut state = self.state.lock();
        state.map.shorten(object, blocks)?;
        state.cache.forget(object, blocks.unwrap_or(0));
        if blocks.is_none() {
            state.ends.remove(&object);
        }
        Ok(())
    }
}
