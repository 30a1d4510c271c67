//! A file: where it lies, which of its pages are in the cache, and what of it is not durable.

use std::collections::HashSet;

use super::lock::Lock;
use super::{Before, Durable, PAGE, Parameters, requests};
use crate::device::{Op, Request};
use crate::ranges::{Linear, Ranges};

impl Linear for () {
    fn after(self, _: u64) -> Self {}
}

/// Where pages lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// Where the file lies.
    Own,
    /// Where blocks of small files are; which of two such places, the first of which is where the file lies.
    Pool(bool),
}

impl Linear for Place {
    fn after(self, _: u64) -> Self {
        self
    }
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
/// Pages of a file whose blocks are taken from where those of other small files are (the kernel's default of mb_stream_req).
const SMALL: u64 = 16;

/// See the module. Ranges are of pages.
#[derive(Default)]
pub(super) struct File {
    start: u64,
    apart: u64,
    bytes: u64,
    /// Whether its directory isn't durable.
    pub(super) is_new: bool,
    pub(super) lock: Lock,
    allocated: Ranges<Place>,
    cached: Ranges<()>,
    dirty: Ranges<()>,
    being_read: Ranges<Reading>,
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
    pub(super) fn new(start: u64, before: &Before, parameters: &Parameters) -> Self {
        let (bytes, apart) = (before.bytes, parameters.apart_bytes);
        let mut file = Self { start, apart, bytes, is_new: !before.exists, ..Self::default() };
        if bytes > 0 {
            file.allocated.cover(0, bytes.div_ceil(PAGE), Place::Own);
            file.extents = 1;
        }
        if bytes > 0 && parameters.warm {
            file.cached.cover(0, bytes.div_ceil(PAGE), ());
        }
        file
    }

    /// Where a byte of it lies on the device.
    pub(super) fn place(&self, pos: u64) -> u64 {
        self.start + pos
    }

    /// Where the block of its extents lies, if it has one.
    pub(super) fn extents(&self) -> u64 {
        self.start.saturating_sub(self.apart)
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes
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

    /// Pages are written on the device, and leave the cache.
    pub(super) fn write_directly(&mut self, first: u64, last: u64, end: u64) {
        self.cached.clear(first, last - first);
        self.dirty.clear(first, last - first);
        self.bytes = self.bytes.max(end);
    }

    /// Whether it gets its blocks from where those of other small files are.
    pub(super) fn is_small(&self) -> bool {
        self.pages() <= SMALL
    }

    /// Whether its extents have no room in its inode.
    pub(super) fn has_block_of_extents(&self) -> bool {
        self.extents > EXTENTS
    }

    /// Pages have blocks, those that had none new ones, apart from what is before them if somebody else took blocks meanwhile: whether there are new ones.
    pub(super) fn allocate(&mut self, first: u64, last: u64, apart: bool) -> bool {
        let mut allocates = false;
        let is_small = self.is_small();
        for (at, pages, place) in self.allocated.pieces(first, last - first) {
            if place.is_some() {
                continue;
            }
            allocates = true;
            let before = at.checked_sub(1).and_then(|page| self.allocated.get(page));
            let place = match before {
                _ if !is_small => Place::Own,
                Some(Place::Pool(second)) => Place::Pool(second != apart),
                Some(Place::Own) | None => Place::Pool(false),
            };
            self.extents += u64::from(before != Some(place));
            self.allocated.cover(at, pages, place);
        }
        allocates
    }

    /// The dirty pages, which are clean now.
    pub(super) fn take_dirty(&mut self) -> Vec<(u64, u64)> {
        let dirty = std::mem::take(&mut self.dirty);
        dirty.all().map(|(at, pages, ())| (at, at + pages)).collect()
    }

    /// Requests for these pages, and the first page of each.
    pub(super) fn requests(&self, op: Op, at: u64, end: u64) -> Vec<(u64, Request)> {
        let mut all = Vec::new();
        for (at, pages, place) in self.allocated.pieces(at, end - at) {
            let shift = if place == Some(Place::Pool(true)) { 2 * self.apart } else { 0 };
            let pos = self.place(at * PAGE).saturating_sub(shift);
            let first = |one: Request| (at + (one.pos - pos) / PAGE, one);
            all.extend(requests(op, pos, pages * PAGE).into_iter().map(first));
        }
        all
    }

    /// It has so many bytes.
    pub(super) fn resize(&mut self, bytes: u64) {
        if bytes < self.bytes {
            let (from, end) = (bytes.div_ceil(PAGE), self.pages());
            if from < end {
                self.allocated.clear(from, end - from);
                self.cached.clear(from, end - from);
                self.dirty.clear(from, end - from);
                if from == 0 {
                    self.extents = 0;
                }
            }
        }
        self.bytes = bytes;
    }

    /// It is a new one from now on.
    pub(super) fn remove(&mut self) {
        self.resize(0);
        (self.blocks_changed, self.last_changed, self.is_new) = (None, None, true);
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
