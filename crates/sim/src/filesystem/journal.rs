//! The journal: which commit has what, and who waits for it.

use std::collections::HashSet;

use super::{INODES_OF_A_BLOCK, PAGE};
use crate::device::{Op, Request};

/// Bytes of a journal, of volumes of 1 to 32 GiB and more; of smaller ones 1/64 (lib/ext2fs/mkjournal.c, ext2fs_default_journal_size).
const LARGEST: u64 = 1 << 28;
const SHARE: u64 = 64;
/// Blocks beside inodes that change where a file gets blocks: a bitmap and a group descriptor.
const OF_BLOCKS: u64 = 2;

/// See the module. Commits are numbered from 1.
pub(super) struct Journal {
    /// Where it begins, and how long it is, bytes.
    start: u64,
    bytes: u64,
    /// Where the next commit goes in it.
    head: u64,
    /// The commit that changes go to now.
    open: u64,
    done: u64,
    is_committing: bool,
    /// The last one that somebody waits for.
    wanted: u64,
    waiters: Vec<(u64, u64)>,
    /// Blocks of inodes that the open one has, and whether files got blocks.
    inodes: HashSet<u64>,
    allocates: bool,
}

impl Journal {
    /// That of a volume of so many bytes.
    pub(super) fn new(volume: u64) -> Self {
        Self {
            start: volume / 2 / PAGE * PAGE,
            bytes: (volume / SHARE).clamp(64 * PAGE, LARGEST) / PAGE * PAGE,
            head: 0,
            open: 1,
            done: 0,
            is_committing: false,
            wanted: 0,
            waiters: Vec::new(),
            inodes: HashSet::new(),
            allocates: false,
        }
    }

    /// A file's metadata changes: in which commit.
    pub(super) fn note(&mut self, file: u32, allocates: bool) -> u64 {
        self.inodes.insert(u64::from(file) / INODES_OF_A_BLOCK);
        self.allocates |= allocates;
        self.open
    }

    pub(super) fn is_durable(&self, commit: u64) -> bool {
        commit <= self.done
    }

    /// A call waits for a commit: false if that is done.
    pub(super) fn wait_for(&mut self, commit: u64, call: u64) -> bool {
        if self.is_durable(commit) {
            return false;
        }
        self.wanted = self.wanted.max(commit);
        self.waiters.push((commit, call));
        true
    }

    /// Begins the open commit if it is waited for and no other is under way: its number, the request of its blocks and that of
    /// its record.
    pub(super) fn begin(&mut self) -> Option<(u64, Request, Request)> {
        if self.is_committing || self.wanted < self.open {
            return None;
        }
        self.is_committing = true;
        let commit = self.open;
        self.open += 1;
        let changed = self.inodes.len() as u64 + if self.allocates { OF_BLOCKS } else { 0 };
        self.inodes.clear();
        self.allocates = false;
        let blocks = self.take(1 + changed);
        let record = self.take(1);
        Some((commit, blocks, record))
    }

    /// A commit is done: the calls that waited for it.
    pub(super) fn committed(&mut self, commit: u64) -> Vec<u64> {
        self.done = commit;
        self.is_committing = false;
        let waited = self.waiters.extract_if(.., |(wanted, _)| *wanted <= commit);
        waited.map(|(_, call)| call).collect()
    }

    fn take(&mut self, blocks: u64) -> Request {
        let length = (blocks * PAGE).min(self.bytes);
        if self.head + length > self.bytes {
            self.head = 0;
        }
        let pos = self.start + self.head;
        self.head += length;
        Request { op: Op::Write, pos, length }
    }
}
