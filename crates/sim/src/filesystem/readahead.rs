//! Read-ahead, as Linux does it (mm/readahead.c: page_cache_sync_ra, page_cache_async_ra).
//!
//! A window of pages is read at a miss, twice to four times as long as the one before, up to 128 KiB. The first page of the part that
//! was not asked for is a marker: once it is used, the next window begins, while the rest of this one is still there to be used.

use super::file::File;
use crate::windows::{first_size, next_size};

/// Pages of the largest window: 128 KiB, the default of read_ahead_kb.
const MOST: u64 = 32;

/// Pages to be read: the first, the one behind the last, and the marker among them.
type Window = (u64, u64, Option<u64>);

/// What a descriptor has read ahead. Numbers are of pages.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ReadAhead {
    start: u64,
    size: u64,
    /// Pages at the end of the window that nobody asked for.
    beyond: u64,
    /// Where the read before ended.
    previous: Option<u64>,
}

impl ReadAhead {
    /// A page is missing, of a read of so many pages from it on.
    pub(super) fn misses(&mut self, at: u64, pages: u64, file: &File) -> Option<Window> {
        let is_sequential = self.previous.is_some_and(|previous| at == previous || at == previous + 1);
        if at == 0 || pages > MOST || is_sequential {
            self.start = at;
            self.size = first_size(pages, MOST);
            self.beyond = if self.size > pages { self.size - pages } else { self.size / 2 };
        } else {
            let before = file.cached_before(at, MOST);
            if before <= pages {
                // here and there
                return Some((at, at + pages, None));
            }
            let before = if before >= at { before * 2 } else { before };
            self.start = at;
            self.size = (before + pages).min(MOST);
            self.beyond = 1;
        }
        Some(self.window())
    }

    /// A marker was met, of a read of so many pages from it on.
    pub(super) fn goes_on(&mut self, at: u64, pages: u64, file: &File) -> Option<Window> {
        if at == self.start + self.size - self.beyond.min(self.size) {
            self.start += self.size;
            self.size = next_size(self.size, MOST);
        } else {
            // several read this file by one descriptor: go on behind what is there
            let start = file.next_missing(at + 1, at + MOST)?;
            self.size = next_size(start - at + pages, MOST);
            self.start = start;
        }
        self.beyond = self.size;
        Some(self.window())
    }

    /// A read ended before this page.
    pub(super) fn read_to(&mut self, page: u64) {
        self.previous = Some(page);
    }

    fn window(&self) -> Window {
        let end = self.start + self.size;
        (self.start, end, Some(end - self.beyond.min(self.size)))
    }
}
