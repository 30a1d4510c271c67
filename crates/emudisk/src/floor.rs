//! What the emulation costs a request: the time from the client's call to its return when the answer takes no time.
//!
//! Measured at the start with direct I/O through the file or the loop device itself: the median of reads and writes of two
//! lengths, and a line through them. The writes don't reach the data.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::time::Instant;

use iotrail_sim::{Nanos, Op, Request};

use crate::error::Error;

/// Lengths that are measured, and how often.
const SHORT: (usize, usize) = (4096, 200);
const LONG: (usize, usize) = (128 << 10, 50);

/// Time by length: `base` + `per_byte` · length.
#[derive(Clone, Copy, Debug, Default)]
pub struct Line {
    /// Nanoseconds.
    pub base: f64,
    /// Nanoseconds per byte.
    pub per_byte: f64,
}

impl Line {
    fn through(short: Nanos, long: Nanos) -> Self {
        let per_byte = ((long as f64 - short as f64) / (LONG.0 - SHORT.0) as f64).max(0.0);
        Self { base: (short as f64 - per_byte * SHORT.0 as f64).max(0.0), per_byte }
    }

    /// Nanoseconds for a length.
    #[must_use]
    pub fn at(self, length: u64) -> Nanos {
        (self.base + self.per_byte * length as f64) as Nanos
    }
}

/// The floor of reads and of writes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Floor {
    /// Of reads.
    pub read: Line,
    /// Of writes. Flushes and trims, which carry no data, take its base.
    pub write: Line,
}

impl Floor {
    /// The floor of a request, in nanoseconds.
    #[must_use]
    pub fn of(&self, request: Request) -> Nanos {
        match request.op {
            Op::Read => self.read.at(request.length),
            Op::Write => self.write.at(request.length),
            Op::Flush | Op::Trim => self.write.at(0),
        }
    }
}

/// Memory for direct I/O: a page's alignment.
#[repr(align(4096))]
struct Aligned([u8; LONG.0]);

/// Measures it on a file or block device of so many bytes, which answers at once meanwhile.
pub fn measure(path: &Path, size: u64) -> Result<Floor, Error> {
    let measuring = |source| Error::Io { what: "measure the floor on", path: path.to_owned(), source };
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(libc::O_DIRECT)
        .open(path)
        .map_err(measuring)?;
    let mut memory = Box::new(Aligned([0; LONG.0]));
    let mut median = |write: bool, (length, times): (usize, usize)| -> io::Result<Nanos> {
        let mut taken = Vec::with_capacity(times);
        for at in 0..times {
            let pos = (at * length) as u64 % (size - length as u64 + 1) / 4096 * 4096;
            taken.push(time(&file, write, pos, &mut memory.0[..length])?);
        }
        taken.sort_unstable();
        Ok(taken[times / 2])
    };
    let mut line = |write| Ok(Line::through(median(write, SHORT)?, median(write, LONG)?));
    Ok(Floor { read: line(false).map_err(measuring)?, write: line(true).map_err(measuring)? })
}

fn time(file: &File, write: bool, pos: u64, data: &mut [u8]) -> io::Result<Nanos> {
    let start = Instant::now();
    if write {
        file.write_all_at(data, pos)?;
    } else {
        file.read_exact_at(data, pos)?;
    }
    Ok(start.elapsed().as_nanos() as Nanos)
}
