//! What Linux reads ahead of one file description: a window that grows, and the next one when the reader gets to a marked
//! page (mm/readahead.c of Linux 6.18: page_cache_sync_ra, page_cache_async_ra).

use std::collections::VecDeque;

use crate::windows::{first_size, next_size};

/// Pages from the begin of a stream.
pub(super) type Page = u64;

/// Some pages that are asked of the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Window {
    pub start: Page,
    pub end: Page,
}

/// The page cache of one stream and its state of reading ahead. A stream is read once, from its begin.
#[derive(Clone, Debug, Default)]
pub(super) struct ReadAhead {
    /// Most pages of a window; 0 reads nothing ahead.
    most: u64,
    /// The last window, how much of it lies behind its mark, and the order of its folios.
    start: Page,
    size: u64,
    ahead: u64,
    order: u32,
    /// The last page read.
    last: Option<Page>,
    /// What was asked for, in order, and whether it is there.
    asked: VecDeque<(Window, bool)>,
    /// At this page the next window is asked for.
    mark: Option<Page>,
    /// Where the stream lies on the disk, in pages: ends of windows are aligned there.
    place: u64,
    /// Where the file ends, if the stream is one that was newly opened.
    file_end: Option<Page>,
}

impl ReadAhead {
    /// A stream at a place of the disk; with `file_end` it is a file of its own, of so many pages.
    pub(super) fn new(most: u64, place: u64, file_end: Option<Page>) -> Self {
        Self { most, place, file_end, ..Self::default() }
    }

    /// Reads a page, of `wanted` that are wanted from there. Returns what is asked of the disk for it.
    pub(super) fn read(&mut self, page: Page, wanted: u64) -> Option<Window> {
        let is_asked = self.asked.iter().any(|(window, _)| window.start <= page && page < window.end);
        let window = if !is_asked {
            Some(self.missing(page, wanted))
        } else if self.mark == Some(page) {
            Some(self.marked())
        } else {
            None
        };
        window.and_then(|window| self.ask(page, window))
    }

    /// Asks for pages while a page is read; nothing behind the file's end. Returns what there is to ask for.
    pub(super) fn ask(&mut self, page: Page, mut window: Window) -> Option<Window> {
        // What lies behind is never read again.
        while self.asked.front().is_some_and(|(window, there)| *there && window.end <= page) {
            self.asked.pop_front();
        }
        window.end = self.file_end.map_or(window.end, |end| window.end.min(end));
        if window.start >= window.end {
            return None;
        }
        self.asked.push_back((window, false));
        Some(window)
    }

    /// Pages up to this one were read.
    pub(super) fn has_read(&mut self, end: Page) {
        self.last = end.checked_sub(1);
    }

    /// A page that nobody asked for: page_cache_sync_ra().
    fn missing(&mut self, page: Page, wanted: u64) -> Window {
        self.mark = None;
        if self.most == 0 {
            return Window { start: page, end: page + 1 };
        }
        let is_sequential = self.last.is_some_and(|last| page <= last + 1);
        let starts = self.file_end.is_some() && page == 0;
        if !is_sequential && !starts && wanted <= self.most {
            // A small read at a random place.
            return Window { start: page, end: page + wanted };
        }
        self.start = page;
        self.size = first_size(wanted, self.most);
        self.ahead = if self.size > wanted { self.size - wanted } else { self.size / 2 };
        self.order = 0;
        self.window()
    }

    /// The reader is at the mark: page_cache_async_ra().
    fn marked(&mut self) -> Window {
        self.start += self.size;
        self.size = self.size.max(next_size(self.size, self.most));
        // Folios grow, and the window ends where one does.
        self.order += 2;
        let align = 1 << self.order.min(self.most.trailing_zeros());
        let end = self.place + self.start + self.size;
        let aligned = end / align * align;
        if aligned > self.place + self.start {
            self.size -= end - aligned;
        }
        self.ahead = self.size;
        self.window()
    }

    fn window(&mut self) -> Window {
        self.order = self.order.min(self.size.max(1).ilog2());
        self.mark = Some(self.start + self.size - self.ahead);
        Window { start: self.start, end: self.start + self.size }
    }

    /// Pages have come: a part of what was asked for at a time.
    pub(super) fn arrived(&mut self, part: Window) {
        let Some(at) =
            self.asked.iter().position(|(asked, _)| asked.start <= part.start && part.end <= asked.end)
        else {
            return;
        };
        let Some((asked, _)) = self.asked.remove(at) else { return };
        let pieces = [
            (Window { start: part.end, end: asked.end }, false),
            (part, true),
            (Window { start: asked.start, end: part.start }, false),
        ];
        for piece in pieces.into_iter().filter(|(window, _)| window.start < window.end) {
            self.asked.insert(at, piece);
        }
    }

    /// Whether a page is there.
    pub(super) fn has(&self, page: Page) -> bool {
        self.asked.iter().any(|(window, there)| *there && window.start <= page && page < window.end)
    }

    /// Pages from here on that can be read at once: they are there, and none is marked.
    pub(super) fn readable(&self, page: Page) -> u64 {
        let mut at = page;
        for (window, there) in &self.asked {
            if *there && window.start <= at && at < window.end {
                at = window.end;
            }
        }
        match self.mark {
            Some(mark) if page <= mark && mark < at => mark - page,
            _ => at - page,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lengths of what is asked for while a stream is read page by page, everything being there at once.
    fn windows(mut cache: ReadAhead, pages: u64) -> Vec<u64> {
        let mut lengths = Vec::new();
        for page in 0..pages {
            if let Some(window) = cache.read(page, 1) {
                lengths.push(window.end - window.start);
                cache.arrived(window);
            }
            cache.has_read(page + 1);
        }
        lengths
    }

    #[test]
    fn windows_are_those_of_linux_6_18() {
        // Streams of 1 MiB of a block device at these pages, as the kernel was seen to read them.
        let seen: [(u64, &[u64]); 3] = [
            (7_635_302, &[1, 4, 5, 10, 6, 12, 20, 32, 32, 32]),
            (1_100_919, &[1, 4, 8, 12, 16, 32, 32, 32, 32, 32]),
            (2_966_429, &[1, 4, 6, 8, 16, 32, 32, 32, 32, 32]),
        ];
        for (place, expected) in seen {
            assert_eq!(&windows(ReadAhead::new(32, place, None), 256)[..10], expected, "{place}");
        }
    }

    #[test]
    fn a_file_is_read_ahead_from_its_begin_to_its_end() {
        let lengths = windows(ReadAhead::new(32, 0, Some(64)), 64);
        assert_eq!(lengths[..3], [4, 8, 4]);
        assert_eq!(lengths.iter().sum::<u64>(), 64);
    }

    #[test]
    fn nothing_is_read_ahead_without_a_window() {
        assert_eq!(windows(ReadAhead::new(0, 5, None), 3), [1, 1, 1]);
    }

    #[test]
    fn parts_of_a_window_come_one_by_one() {
        let mut cache = ReadAhead::new(0, 0, None);
        cache.ask(0, Window { start: 0, end: 8 });
        cache.arrived(Window { start: 4, end: 8 });
        assert_eq!((cache.has(0), cache.has(4), cache.readable(0), cache.readable(4)), (false, true, 0, 4));
        cache.arrived(Window { start: 0, end: 4 });
        assert_eq!(cache.readable(0), 8);
    }
}
