//! Sizes of Linux's read-ahead windows, in pages (mm/readahead.c: get_init_ra_size, get_next_ra_size). `most` is read_ahead_kb.

/// Pages of the first window for a read of so many.
pub(crate) fn first_size(pages: u64, most: u64) -> u64 {
    let size = pages.next_power_of_two();
    if size <= most / 32 {
        size * 4
    } else if size <= most / 4 {
        size * 2
    } else {
        most
    }
}

/// Pages of the window after one of so many.
pub(crate) fn next_size(pages: u64, most: u64) -> u64 {
    if pages < most / 16 {
        pages * 4
    } else if pages <= most / 2 {
        pages * 2
    } else {
        most
    }
}
