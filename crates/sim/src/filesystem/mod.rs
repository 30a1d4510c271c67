//! Calls on files on a simulated device: what the page cache, read-ahead and ext4 of Linux make of them.
//!
//! | a call | does |
//! |---|---|
//! | read | waits for the pages that are not cached, read ahead as `readahead` says |
//! | read past the cache (O_DIRECT) | one request |
//! | write | makes pages dirty, and takes no time; of a page that is not cached and written in part, the page is read first |
//! | write past the cache | one request |
//! | durable write (O_DSYNC, O_SYNC), fsync, fdatasync | writes the file's dirty pages, then its inode or a commit of the journal if need be, and flushes the device |
//!
//! Whether there is need: with a journal, fdatasync and O_DSYNC commit if the file has got blocks since, fsync and O_SYNC also if
//! it was written to (fsync(2), open(2)). A commit writes a descriptor and the changed blocks, flushes, writes the commit record and
//! flushes; calls that come while one is under way share the next (the kernel's Documentation/filesystems/ext4/journal.rst,
//! fs/jbd2/commit.c). Without a journal the inode is written, one block, whenever the file was written to, and at first the directory
//! of a new file, another (fs/ext4/fsync.c, ext4_fsync_nojournal); and the block of extents of a file in more than four pieces that has got blocks since. Files of at most 64 KiB
//! get theirs from pools, so that what they got at different times lies apart if there are others, or several threads (fs/ext4/mballoc.c). A block is not written while it is being written: who comes then waits, and
//! writes it again if it has changed since (fs/buffer.c, __sync_dirty_buffer). A journal lies in the middle of the volume, where mke2fs puts it,
//! other metadata before the files. Requests of Linux 6.18 on a loop device were these.
//!
//! The device is asked for one flush at a time: those that are wanted meanwhile are one, the next (block/blk-flush.c).
//!
//! Who writes to a file holds its lock: a write to the cache until it has copied, one past the cache that needs blocks until it is durable,
//! so that such writes to one file come one after the other; those to blocks that are there share it, with reads past the
//! cache (fs/ext4/file.c, ext4_dio_write_iter).
//!
//! The page cache holds everything: nothing is evicted, and nothing written back before somebody asks. A file's bytes lie one after the other, the files in
//! the order of their numbers. Names, directories and attributes cost nothing.

mod file;
mod journal;
mod lock;
mod readahead;
#[cfg(test)]
mod tests;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};

use crate::device::{Device, Id, Nanos, Op, Request};
use file::File;
use journal::Journal;
use lock::Hold;
use readahead::ReadAhead;

/// Bytes of a page, and of a block.
pub const PAGE: u64 = 4096;
/// Bytes of the largest request: the kernel's default of max_sectors_kb (block/blk-settings.c, BLK_DEF_MAX_SECTORS_CAP).
const LARGEST: u64 = 1280 << 10;
/// How far before the first file inodes are, bytes; they have 256 each (mke2fs.conf(5), inode_size).
const INODES: u64 = 16 << 20;
const INODES_OF_A_BLOCK: u64 = PAGE / 256;
/// How far behind the first of them directories are, bytes: about as far as on a small volume.
const DIRECTORIES: u64 = 14 << 20;

/// What has to be durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Durable {
    /// Data, and what is needed to read them: O_DSYNC, fdatasync.
    Data,
    /// Attributes, too: O_SYNC, fsync.
    All,
}

/// What a call asks of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ask {
    /// Read bytes that the file has.
    Read,
    /// Write bytes.
    Write(Option<Durable>),
    /// Make what was written durable.
    Sync(Durable),
    /// Set the size to the position.
    Resize,
    /// Remove it: calls that come later are of a new one.
    Remove,
}

/// A call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    /// Number of the file.
    pub file: u32,
    /// Number of the thread.
    pub thread: u32,
    /// Number of the descriptor: read-ahead is each one's own.
    pub stream: u32,
    /// What it asks.
    pub ask: Ask,
    /// First byte.
    pub pos: u64,
    /// Bytes.
    pub length: u64,
    /// Past the page cache (O_DIRECT).
    pub direct: bool,
}

impl Call {
    /// Whether it waits for the device, whatever is cached.
    #[must_use]
    pub fn waits(&self) -> bool {
        match self.ask {
            Ask::Sync(_) | Ask::Write(Some(_)) => true,
            Ask::Read | Ask::Write(None) => self.direct,
            Ask::Resize | Ask::Remove => false,
        }
    }
}

/// What the file system is like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameters {
    /// Whether it has a journal.
    pub journal: bool,
    /// Bytes of the volume, from the start of the device.
    pub volume_bytes: u64,
    /// Where the first file begins, bytes.
    pub start_bytes: u64,
    /// How far before a file the block of its extents lies, and half of how far the second place where small files get blocks, bytes: chance.
    pub apart_bytes: u64,
    /// Whether the page cache has what is there before.
    pub warm: bool,
}

/// A file before the first call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Before {
    /// Whether it is there: else it is new.
    pub exists: bool,
    /// Bytes that are there, in the page cache or not ([`Parameters::warm`]).
    pub bytes: u64,
    /// Bytes that the file will have at most.
    pub most_bytes: u64,
}

/// What is still to be done of a call.
#[derive(Clone, Debug)]
enum Stage {
    /// The lock of a file, shared or alone.
    Lock(u32, Hold),
    Unlock(u32),
    /// A file's attributes change, and its blocks if it gets some.
    Changed(u32, bool),
    /// Requests at once.
    Requests(Vec<Request>),
    /// Pages from `at` to `end`, as they come.
    Pages {
        file: u32,
        stream: u32,
        at: u64,
        end: u64,
    },
    /// Dirty pages of a file, and those that are being written.
    WriteBack(u32),
    /// A file's metadata, and a flush.
    Metadata(u32, Durable),
    /// A file's inode.
    Inode(u32),
    /// A block of inodes or extents.
    Block(u64),
    Flush,
    /// A commit of this number or a later one.
    Commit(u64),
    /// The commit of this number is done.
    Committed(u64),
}

/// A call that is under way.
#[derive(Debug)]
struct Running {
    /// None: of the file system itself.
    id: Option<Id>,
    stages: VecDeque<Stage>,
    /// Requests that it waits for.
    waits: usize,
}

/// A block of inodes or of a file's extents, of a file system without a journal.
#[derive(Clone, Copy, Debug, Default)]
struct Block {
    is_dirty: bool,
    /// The last request that wrote it.
    flight: u64,
}

/// A request of the device.
#[derive(Debug)]
struct Flight {
    /// Calls that wait for it.
    waiters: Vec<u64>,
    /// Pages of a file that it reads into the cache.
    reads: Option<(u32, u64, u64)>,
    /// File whose dirty pages it writes.
    writes: Option<u32>,
}

/// A file system on a device, in virtual time: driven as devices are (see [`crate::device`]).
pub struct FileSystem {
    device: Box<dyn Device>,
    parameters: Parameters,
    files: Vec<File>,
    streams: HashMap<u32, ReadAhead>,
    journal: Journal,
    /// The thread of the first call, and whether there were calls of others.
    first: Option<u32>,
    several: bool,
    /// The small file that got blocks last.
    pool: Option<u32>,
    /// By where they lie.
    blocks: HashMap<u64, Block>,
    /// The flush that the device does, and calls that wait for the next.
    flush: u64,
    flush_next: Vec<u64>,
    calls: HashMap<u64, Running>,
    flights: HashMap<u64, Flight>,
    numbers: u64,
    /// Requests that are known to be done, and when.
    due: BinaryHeap<Reverse<(Nanos, u64)>>,
    /// Calls that are done and not yet reported.
    done: Vec<(Id, Nanos)>,
    now: Nanos,
    completions: Vec<crate::device::Completion>,
}

/// Files take more than the volume has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected files of at most {volume} bytes together, the volume, found {found}")]
pub struct TooLarge {
    /// Bytes that the volume has.
    pub volume: u64,
    /// Bytes that files take with what lies before them.
    pub found: u64,
}

impl FileSystem {
    /// A file system with these files, by number.
    ///
    /// # Errors
    /// The files take more than there is.
    pub fn new(device: Box<dyn Device>, parameters: Parameters, before: &[Before]) -> Result<Self, TooLarge> {
        let volume = parameters.volume_bytes.min(device.capacity());
        let mut at = parameters.start_bytes.next_multiple_of(PAGE);
        let mut files = Vec::with_capacity(before.len());
        for one in before {
            files.push(File::new(at, one, &parameters));
            at += one.most_bytes.max(one.bytes).next_multiple_of(PAGE);
        }
        if at > volume {
            return Err(TooLarge { volume, found: at });
        }
        let parameters = Parameters { volume_bytes: volume, ..parameters };
        Ok(Self {
            device,
            parameters,
            files,
            streams: HashMap::new(),
            journal: Journal::new(volume),
            first: None,
            several: false,
            pool: None,
            blocks: HashMap::new(),
            flush: 0,
            flush_next: Vec::new(),
            calls: HashMap::new(),
            flights: HashMap::new(),
            numbers: 0,
            due: BinaryHeap::new(),
            done: Vec::new(),
            now: 0,
            completions: Vec::new(),
        })
    }

    /// A call begins now. The file system has been advanced until now.
    ///
    /// # Panics
    /// If there is no such file.
    pub fn submit(&mut self, now: Nanos, id: Id, call: Call) {
        self.now = now;
        let Call { file: number, thread, stream, ask, pos, length, direct } = call;
        self.several |= *self.first.get_or_insert(thread) != thread;
        let file = &mut self.files[number as usize];
        let end = pos.saturating_add(length);
        let (first, last) = (pos / PAGE, end.div_ceil(PAGE));
        let mut stages = VecDeque::new();
        match ask {
            Ask::Read if length == 0 => {}
            Ask::Read if direct => {
                stages.push_back(Stage::Lock(number, Hold::Shared));
                stages.push_back(Stage::Requests(requests(Op::Read, file.place(pos), length)));
                stages.push_back(Stage::Unlock(number));
            }
            Ask::Read => stages.push_back(Stage::Pages { file: number, stream, at: first, end: last }),
            Ask::Write(_) if length == 0 => {}
            Ask::Write(durable) => {
                let sync = durable.map(|level| [Stage::WriteBack(number), Stage::Metadata(number, level)]);
                if direct {
                    let longer = end > file.bytes();
                    file.write_directly(first, last, end);
                    let allocates = self.allocate(number, first, last) || longer;
                    let file = &self.files[number as usize];
                    let hold = if allocates { Hold::Alone } else { Hold::Shared };
                    stages.push_back(Stage::Lock(number, hold));
                    stages.push_back(Stage::Changed(number, allocates));
                    stages.push_back(Stage::Requests(requests(Op::Write, file.place(pos), length)));
                    stages.extend(sync.into_iter().flatten());
                    stages.push_back(Stage::Unlock(number));
                } else {
                    stages.push_back(Stage::Lock(number, Hold::Alone));
                    for page in file.parts_to_read(pos, end) {
                        stages.push_back(Stage::Requests(requests(Op::Read, file.place(page * PAGE), PAGE)));
                    }
                    stages.push_back(Stage::Changed(number, false));
                    stages.push_back(Stage::Unlock(number));
                    stages.extend(sync.into_iter().flatten());
                    file.write(first, last, end);
                }
            }
            Ask::Sync(level) => {
                stages.push_back(Stage::WriteBack(number));
                stages.push_back(Stage::Metadata(number, level));
            }
            Ask::Resize => {
                file.resize(pos);
                self.changed(number, true);
            }
            Ask::Remove => file.remove(),
        }
        self.begin(now, Some(id), stages);
    }

    /// A time before which no call ends if none begins; none if none is under way.
    #[must_use]
    pub fn next_completion(&self) -> Option<Nanos> {
        if !self.done.is_empty() {
            return Some(self.now);
        }
        if self.calls.is_empty() {
            return None;
        }
        let due = self.due.peek().map(|Reverse((at, _))| *at);
        due.into_iter().chain(self.device.next_completion()).min()
    }

    /// Does everything due until `now`, included, and appends the calls that have ended and when.
    pub fn advance(&mut self, now: Nanos, ended: &mut Vec<(Id, Nanos)>) {
        loop {
            let due = self.due.peek().map(|Reverse((at, _))| *at);
            let Some(at) = due.into_iter().chain(self.device.next_event()).min().filter(|at| *at <= now)
            else {
                break;
            };
            self.now = self.now.max(at);
            self.advance_device(self.now);
            while let Some(Reverse((at, flight))) = self.due.peek().copied()
                && at <= self.now
            {
                self.due.pop();
                self.land(flight);
            }
        }
        self.now = now;
        self.advance_device(now);
        ended.append(&mut self.done);
    }

    fn advance_device(&mut self, now: Nanos) {
        self.device.advance(now, &mut self.completions);
        self.due.extend(self.completions.drain(..).map(|one| Reverse((one.done, one.id.0))));
    }

    fn begin(&mut self, now: Nanos, id: Option<Id>, stages: VecDeque<Stage>) {
        self.numbers += 1;
        let number = self.numbers;
        self.calls.insert(number, Running { id, stages, waits: 0 });
        self.go_on(now, number);
    }

    /// A request is done.
    fn land(&mut self, flight: u64) {
        let Some(Flight { waiters, reads, writes }) = self.flights.remove(&flight) else { return };
        if let Some((file, at, end)) = reads {
            self.files[file as usize].has_read(at, end);
        }
        if let Some(file) = writes {
            self.files[file as usize].writing.retain(|one| *one != flight);
        }
        if flight == self.flush && !self.flush_next.is_empty() {
            let next = std::mem::take(&mut self.flush_next);
            self.begin_flush(self.now, next);
        }
        self.wake(self.now, waiters);
    }

    /// Does what a call has to do until it must wait, or ends.
    fn go_on(&mut self, now: Nanos, number: u64) {
        while let Some(stage) = self.calls.get_mut(&number).and_then(|call| call.stages.pop_front()) {
            match stage {
                Stage::Lock(file, hold) => {
                    if !self.files[file as usize].lock.take(number, hold) {
                        self.waits(number);
                    }
                }
                Stage::Unlock(file) => {
                    let next = self.files[file as usize].lock.give_back();
                    self.wake(now, next);
                }
                Stage::Changed(file, allocates) => self.changed(file, allocates),
                Stage::Requests(requests) => {
                    for request in requests {
                        self.fly(now, request, Some(number), None, None);
                    }
                }
                Stage::Pages { file, stream, at, end } => self.read_pages(now, number, file, stream, at, end),
                Stage::WriteBack(file) => self.write_back(now, number, file),
                Stage::Metadata(file, level) => {
                    let next = self.metadata(file, level);
                    self.prepend(number, next);
                }
                Stage::Inode(file) => self.write_inode(now, number, file),
                Stage::Block(pos) => self.write_block(now, number, pos),
                Stage::Flush if self.flights.contains_key(&self.flush) => {
                    self.flush_next.push(number);
                    self.waits(number);
                }
                Stage::Flush => {
                    self.waits(number);
                    self.begin_flush(now, vec![number]);
                }
                Stage::Commit(commit) => {
                    if self.journal.wait_for(commit, number) {
                        self.waits(number);
                        self.commit(now);
                    }
                }
                Stage::Committed(commit) => {
                    let waiters = self.journal.committed(commit);
                    self.wake(now, waiters);
                    self.commit(now);
                }
            }
            if self.calls.get(&number).is_some_and(|call| call.waits > 0) {
                return;
            }
        }
        if let Some(Running { id: Some(id), .. }) = self.calls.remove(&number) {
            self.done.push((id, now));
        }
    }

    /// What calls waited for has come: they go on if that was the last.
    fn wake(&mut self, now: Nanos, calls: Vec<u64>) {
        for call in calls {
            if let Some(running) = self.calls.get_mut(&call) {
                running.waits -= 1;
                if running.waits == 0 {
                    self.go_on(now, call);
                }
            }
        }
    }

    fn prepend(&mut self, number: u64, stages: Vec<Stage>) {
        if let Some(running) = self.calls.get_mut(&number) {
            for stage in stages.into_iter().rev() {
                running.stages.push_front(stage);
            }
        }
    }

    fn waits(&mut self, number: u64) {
        if let Some(running) = self.calls.get_mut(&number) {
            running.waits += 1;
        }
    }

    /// Hands a request to the device, which a call waits for.
    fn fly(
        &mut self,
        now: Nanos,
        request: Request,
        waiter: Option<u64>,
        reads: Option<(u32, u64, u64)>,
        writes: Option<u32>,
    ) -> u64 {
        self.numbers += 1;
        let number = self.numbers;
        let waiters: Vec<u64> = waiter.into_iter().collect();
        waiter.into_iter().for_each(|call| self.waits(call));
        self.flights.insert(number, Flight { waiters, reads, writes });
        self.device.submit(now, Id(number), request);
        // what a device has completed at once
        self.advance_device(now);
        number
    }

    /// A file's attributes changed, and its blocks if it has got some.
    fn changed(&mut self, number: u32, allocates: bool) {
        let commit = self.journal.note(number, allocates);
        if !self.parameters.journal {
            self.blocks.entry(self.inode(number)).or_default().is_dirty = true;
        }
        self.files[number as usize].changed(commit, allocates);
    }

    /// Gives pages of a file blocks that have none: whether there are such.
    ///
    /// Small files get them from pools that each CPU has (fs/ext4/mballoc.c, ext4_mb_group_or_file): where another file got some since, they lie apart, and where
    /// several threads are at work, which are now on one CPU and now on another. Of 16 pages, each made durable by itself, one file alone had 1 to 4 pieces (24 runs), each of
    /// two or three files 5 to 16 (54 of 56), and a log that processes write in turn 5 after 8 pages (Linux 6.18, 2 CPUs).
    fn allocate(&mut self, number: u32, first: u64, last: u64) -> bool {
        let file = &mut self.files[number as usize];
        let apart = self.several || self.pool != Some(number);
        let allocates = file.allocate(first, last, apart);
        if allocates && file.is_small() {
            self.pool = Some(number);
        }
        if allocates && file.has_block_of_extents() && !self.parameters.journal {
            self.blocks.entry(file.extents()).or_default().is_dirty = true;
        }
        allocates
    }

    fn write_back(&mut self, now: Nanos, call: u64, number: u32) {
        let file = &mut self.files[number as usize];
        let under_way = file.writing.clone();
        let parts = file.take_dirty();
        let mut allocates = false;
        for (at, end) in &parts {
            allocates |= self.allocate(number, *at, *end);
        }
        if allocates {
            self.changed(number, true);
        }
        for flight in under_way {
            if let Some(flight) = self.flights.get_mut(&flight) {
                flight.waiters.push(call);
                self.waits(call);
            }
        }
        for (at, end) in parts {
            for (_, request) in self.files[number as usize].requests(Op::Write, at, end) {
                let flight = self.fly(now, request, Some(call), None, Some(number));
                self.files[number as usize].writing.push(flight);
            }
        }
    }

    /// What makes a file's metadata durable.
    fn metadata(&mut self, number: u32, level: Durable) -> Vec<Stage> {
        let file = &self.files[number as usize];
        if self.parameters.journal {
            let commit = file.needed(level).filter(|commit| !self.journal.is_durable(*commit));
            return vec![commit.map_or(Stage::Flush, Stage::Commit)];
        }
        let extents = file.has_block_of_extents().then(|| Stage::Block(file.extents()));
        let mut stages: Vec<Stage> = extents.into_iter().chain([Stage::Inode(number)]).collect();
        if file.is_new {
            let directory = Request { op: Op::Write, pos: self.inodes() + DIRECTORIES, length: PAGE };
            stages.push(Stage::Requests(vec![directory]));
        }
        stages.push(Stage::Flush);
        stages
    }

    /// Where the first block of inodes lies.
    fn inodes(&self) -> u64 {
        self.parameters.start_bytes.saturating_sub(INODES) / PAGE * PAGE
    }

    /// Where the block of a file's inode lies.
    fn inode(&self, number: u32) -> u64 {
        self.inodes() + u64::from(number) / INODES_OF_A_BLOCK * PAGE
    }

    /// Writes a file's inode if it has changed, or waits for who is writing it.
    fn write_inode(&mut self, now: Nanos, call: u64, number: u32) {
        let pos = self.inode(number);
        let file = &mut self.files[number as usize];
        if file.needed(Durable::All).is_some() {
            file.is_durable();
            self.write_block(now, call, pos);
        } else if let Some(flight) =
            self.blocks.get(&pos).and_then(|block| self.flights.get_mut(&block.flight))
        {
            flight.waiters.push(call);
            self.waits(call);
        }
    }

    /// Writes a block if it has changed. While it is being written it can't be written again: who comes then looks again afterwards.
    fn write_block(&mut self, now: Nanos, call: u64, pos: u64) {
        let block = self.blocks.entry(pos).or_default();
        if let Some(flight) = self.flights.get_mut(&block.flight) {
            flight.waiters.push(call);
            self.waits(call);
            self.prepend(call, vec![Stage::Block(pos)]);
        } else if block.is_dirty {
            block.is_dirty = false;
            let request = Request { op: Op::Write, pos, length: PAGE };
            let flight = self.fly(now, request, Some(call), None, None);
            self.blocks.entry(pos).or_default().flight = flight;
        }
    }

    /// The device does one flush at a time; calls that come meanwhile share the next.
    fn begin_flush(&mut self, now: Nanos, calls: Vec<u64>) {
        let request = Request { op: Op::Flush, pos: 0, length: 0 };
        self.flush = self.fly(now, request, None, None, None);
        if let Some(flight) = self.flights.get_mut(&self.flush) {
            flight.waiters = calls;
        }
    }

    /// Begins a commit if one is asked for and none under way.
    fn commit(&mut self, now: Nanos) {
        if let Some((commit, request, record)) = self.journal.begin() {
            let (request, record) = (Stage::Requests(vec![request]), Stage::Requests(vec![record]));
            let stages = [request, Stage::Flush, record, Stage::Flush, Stage::Committed(commit)];
            self.begin(now, None, stages.into());
        }
    }

    /// Reads pages from `at` on until one has to be waited for.
    fn read_pages(&mut self, now: Nanos, call: u64, number: u32, stream: u32, from: u64, end: u64) {
        let mut at = from;
        while at < end {
            let mut ahead = self.streams.get(&stream).copied().unwrap_or_default();
            let file = &mut self.files[number as usize];
            let known = file.is_cached(at) || file.reading(at).is_some();
            let window = if known {
                if file.markers.remove(&at) { ahead.goes_on(at, end - at, file) } else { None }
            } else {
                ahead.misses(at, end - at, file)
            };
            self.streams.insert(stream, ahead);
            if let Some((first, last, marker)) = window {
                self.read_ahead(now, number, first, last, marker);
            }
            let file = &mut self.files[number as usize];
            if let Some(flight) = file.reading(at) {
                if let Some(flight) = self.flights.get_mut(&flight) {
                    flight.waiters.push(call);
                    self.waits(call);
                }
                self.prepend(call, vec![Stage::Pages { file: number, stream, at, end }]);
                return;
            }
            // past the end of the file, or a hole: there is nothing to read
            file.has_read(at, at + 1);
            at += 1;
        }
        self.streams.entry(stream).or_default().read_to(end);
    }

    /// Begins to read pages that are neither cached nor being read.
    fn read_ahead(&mut self, now: Nanos, number: u32, first: u64, last: u64, marker: Option<u64>) {
        let file = &mut self.files[number as usize];
        file.markers.extend(marker);
        for (at, end) in file.to_read(first, last) {
            for (from, request) in self.files[number as usize].requests(Op::Read, at, end) {
                let to = from + request.length / PAGE;
                let flight = self.fly(now, request, None, Some((number, from, to)), None);
                self.files[number as usize].reads(from, to, flight);
            }
        }
    }
}

/// Requests for neighbouring bytes.
fn requests(op: Op, pos: u64, length: u64) -> Vec<Request> {
    (0..length.div_ceil(LARGEST))
        .map(|number| Request {
            op,
            pos: pos + number * LARGEST,
            length: LARGEST.min(length - number * LARGEST),
        })
        .collect()
}
