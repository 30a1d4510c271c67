//! A file: where it lies, which of its pages are in the cache, and what of it is not durable.

use std::collections::HashSet;

use super::lock::Lock;
use super::{Before, Durable, PAGE};
use crate::ranges::{Linear, Ranges};

impl Linear for () {
    fn after(self, _: u64) -> Self {}
}

/// The request that reads a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Reading(u64);

impl Linear for Reading {
    fn after(self, _: u64) -> Self {
        self
    }
}

/// Extents that an inode has room for (the kernel's Documentation/filesystems/ext4/ifork.rst).
const EXTENTS: u64 = 4;

/// See the module. Ranges are of pages.
#[derive(Default)]
pub(super) struct File {
    start: u64,
    bytes: u64,
    /// Whether its directory isn't durable.
    pub(super) is_new: bool,
    pub(super) lock: Lock,
    allocated: Ranges<()>,
    cached: Ranges<()>,
    dirty: Ranges<()>,
    being_read: Ranges<Reading>,
    /// Extents that were added apart from others.
    extents: u64,
    /// Requests that write dirty pages.
    pub(super) writing: Vec<u64>,
    /// Pages whose use begins the next read-ahead.
    pub(super) markers: HashSet<u64>,
    /// Commit that has the last change of its blocks, and of anything.
    blocks_changed: Option<u64>,
    last_changed: Option<u64>,
}

impl File {
    /// A file that lies at `start` on the device.
    pub(super) fn new(start: u64, before: &Before, is_cached: bool) -> Self {
        let bytes = before.bytes;
        let mut file = Self { start, bytes, is_new: !before.exists, ..Self::default() };
        if bytes > 0 {
            file.allocated.cover(0, bytes.div_ceil(PAGE), ());
        }
        if bytes > 0 && is_cached {
            file.cached.cover(0, bytes.div_ceil(PAGE), ());
        }
        file
    }

    /// Where a byte of it lies on the device.
    pub(super) fn place(&self, pos: u64) -> u64 {
        self.start + pos
    }

    /// Pages that it has.
    pub(super) fn pages(&self) -> u64 {
        self.bytes.div_ceil(PAGE)
    }

    pub(super) fn is_cached(&self, page: u64) -> bool {
        self.cached.get(page).is_some()
    }

    /// The request that reads a page.
    pub(super) fn reading(&self, page: u64) -> Option<u64> {
        self.being_read.get(page).map(|Reading(flight)| flight)
    }

    /// How many pages before this one are cached without a gap, at most so many.
    pub(super) fn cached_before(&self, page: u64, most: u64) -> u64 {
        (1..=most.min(page)).take_while(|back| self.is_cached(page - back)).count() as u64
    }

    /// The first page from `page` on, before `end`, that is neither cached nor being read.
    pub(super) fn next_missing(&self, page: u64, end: u64) -> Option<u64> {
        (page..end).find(|at| !self.is_cached(*at) && self.reading(*at).is_none())
    }

    /// Parts of these pages that have to be read.
    pub(super) fn to_read(&self, first: u64, last: u64) -> Vec<(u64, u64)> {
        let last = last.min(self.pages());
        if first >= last {
            return Vec::new();
        }
        let allocated =
            self.allocated.pieces(first, last - first).into_iter().filter(|piece| piece.2.is_some());
        let missing = allocated
            .flat_map(|(at, pages, _)| self.cached.pieces(at, pages))
            .filter(|piece| piece.2.is_none());
        missing
            .flat_map(|(at, pages, _)| self.being_read.pieces(at, pages))
            .filter(|piece| piece.2.is_none())
            .map(|(at, pages, _)| (at, at + pages))
            .collect()
    }

    /// A request reads these pages.
    pub(super) fn reads(&mut self, at: u64, end: u64, flight: u64) {
        self.being_read.cover(at, end - at, Reading(flight));
    }

    /// These pages are in the cache.
    pub(super) fn has_read(&mut self, at: u64, end: u64) {
        self.being_read.clear(at, end - at);
        self.cached.cover(at, end - at, ());
    }

    /// The pages that a write to these bytes needs from the device first: those of which it leaves a part as it was.
    pub(super) fn parts_to_read(&self, pos: u64, end: u64) -> Vec<u64> {
        let (first, last) = (pos / PAGE, (end - 1) / PAGE);
        let mut parts = Vec::new();
        if !pos.is_multiple_of(PAGE) || (first == last && end < self.bytes && !end.is_multiple_of(PAGE)) {
            parts.push(first);
        }
        if last != first && !end.is_multiple_of(PAGE) && end < self.bytes {
            parts.push(last);
        }
        parts.retain(|page| {
            *page < self.pages() && !self.is_cached(*page) && self.allocated.get(*page).is_some()
        });
        parts
    }

    /// Pages are written in the cache.
    pub(super) fn write(&mut self, first: u64, last: u64, end: u64) {
        self.cached.cover(first, last - first, ());
        self.dirty.cover(first, last - first, ());
        self.bytes = self.bytes.max(end);
    }

    /// Pages are written on the device, and leave the cache: whether the file gets blocks, and whether its extents are in a
    /// block of their own by then. An inode has room for four.
    pub(super) fn write_directly(&mut self, first: u64, last: u64, end: u64) -> (bool, bool) {
        self.cached.clear(first, last - first);
        self.dirty.clear(first, last - first);
        let longer = end > self.bytes;
        self.bytes = self.bytes.max(end);
        let is_apart = first > 0 && self.allocated.get(first - 1).is_none();
        let allocates = self.allocate(first, last);
        self.extents += u64::from(allocates && is_apart);
        (allocates || longer, self.extents > EXTENTS)
    }

    fn allocate(&mut self, first: u64, last: u64) -> bool {
        let lacks = self.allocated.pieces(first, last - first).iter().any(|piece| piece.2.is_none());
        self.allocated.cover(first, last - first, ());
        lacks
    }

    /// The dirty pages, which are clean now: whether the file gets blocks by writing them.
    pub(super) fn take_dirty(&mut self) -> (Vec<(u64, u64)>, bool) {
        let parts: Vec<(u64, u64)> = self.dirty.all().map(|(at, pages, ())| (at, at + pages)).collect();
        self.dirty = Ranges::default();
        let mut allocates = false;
        for (at, end) in &parts {
            allocates |= self.allocate(*at, *end);
        }
        (parts, allocates)
    }

    /// It has so many bytes.
    pub(super) fn resize(&mut self, bytes: u64) {
        if bytes < self.bytes {
            let (from, end) = (bytes.div_ceil(PAGE), self.pages());
            if from < end {
                for ranges in [&mut self.allocated, &mut self.cached, &mut self.dirty] {
                    ranges.clear(from, end - from);
                }
            }
        }
        self.bytes = bytes;
    }

    /// Something of it changed, and will be in this commit.
    pub(super) fn changed(&mut self, commit: u64, blocks: bool) {
        self.last_changed = Some(commit);
        if blocks {
            self.blocks_changed = Some(commit);
        }
    }

    /// The commit that makes its metadata as durable as that; none if nothing is needed.
    pub(super) fn needed(&self, level: Durable) -> Option<u64> {
        match level {
            Durable::Data => self.blocks_changed,
            Durable::All => self.last_changed,
        }
    }

    /// Its inode is written, and its directory.
    pub(super) fn is_durable(&mut self) {
        (self.blocks_changed, self.last_changed, self.is_new) = (None, None, false);
    }
}
