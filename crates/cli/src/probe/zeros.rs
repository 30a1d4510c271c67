//! Writes to a target whose data must not be lost: only where it holds zeros, which it gets back.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use iotrail_replay::{Stretch, check_zeros};

use super::{Buffer, Op, Request};
use crate::failure::Failure;

/// Bytes that are read or written at once.
const PIECE: usize = 1 << 20;

/// Stretches that were written, each of which held zeros before: first byte, and the byte after the last. None touches another.
#[derive(Default)]
pub(super) struct Zeros {
    written: BTreeMap<u64, u64>,
}

impl Zeros {
    /// Reads each place that requests will write, if they have not been written before.
    ///
    /// # Errors
    /// One holds data.
    pub fn claim(&mut self, path: &Path, file: &File, requests: &[Request]) -> Result<(), Failure> {
        let mut buffer = Buffer::new(PIECE);
        let writes = requests.iter().filter(|request| matches!(request.op, Op::Write | Op::Trim));
        for request in writes {
            let (from, to) = (request.pos, request.pos + request.length);
            for (from, to) in self.gaps(from, to) {
                check_zeros(path, file, Stretch { from, to }, buffer.bytes(), "the measurement")?;
            }
            self.add(from, to);
        }
        Ok(())
    }

    /// Parts of a stretch that were not written.
    fn gaps(&self, from: u64, to: u64) -> Vec<(u64, u64)> {
        let before = self.written.range(..=from).next_back().map_or(from, |(_, end)| (*end).max(from));
        let (mut gaps, mut at) = (Vec::new(), before.min(to));
        for (start, end) in self.written.range(from..to).filter(|(_, end)| **end > before) {
            gaps.push((at, *start));
            at = (*end).min(to);
        }
        gaps.push((at, to));
        gaps.retain(|(from, to)| from < to);
        gaps
    }

    fn add(&mut self, mut from: u64, mut to: u64) {
        while let Some((&start, &end)) =
            self.written.range(..=to).next_back().filter(|(_, end)| **end >= from)
        {
            self.written.remove(&start);
            (from, to) = (from.min(start), to.max(end));
        }
        if from < to {
            self.written.insert(from, to);
        }
    }

    /// Writes zeros to all that was written.
    ///
    /// # Errors
    /// They can't be written: what the measurement wrote remains where zeros were.
    pub fn restore(self, path: &Path, file: &File) -> Result<(), Failure> {
        let mut buffer = Buffer::new(PIECE);
        buffer.bytes().fill(0);
        let mut write = || {
            for (&from, &to) in &self.written {
                let mut at = from;
                while at < to {
                    let length = (to - at).min(PIECE as u64);
                    file.write_all_at(&buffer.bytes()[..length as usize], at)?;
                    at += length;
                }
            }
            file.sync_data()
        };
        write().map_err(|error| {
            let failure = Failure::new(format!("cannot write zeros back to {}: {error}", path.display()));
            failure.hint("it held zeros where the measurement wrote, and may hold other bytes there now")
        })
    }
}

/// Zeros are written back when whoever asks for requests is gone too: stdin ends then, whatever ended that process.
pub(super) fn outlive_signals() {
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGPIPE] {
        // SAFETY: a valid signal, and no handler.
        unsafe { libc::signal(signal, libc::SIG_IGN) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn stretches_are_sets_of_bytes(added in prop::collection::vec((0_u64..60, 0_u64..9), 0..20), from in 0_u64..60, length in 0_u64..20) {
            let (mut zeros, mut bytes) = (Zeros::default(), [false; 100]);
            for (at, length) in added {
                let fresh: u64 = zeros.gaps(at, at + length).iter().map(|(from, to)| to - from).sum();
                let place = at as usize..(at + length) as usize;
                prop_assert_eq!(fresh as usize, bytes[place.clone()].iter().filter(|byte| !**byte).count());
                bytes[place].fill(true);
                zeros.add(at, at + length);
            }
            let mut gaps = [false; 100];
            for (from, to) in zeros.gaps(from, from + length) {
                gaps[from as usize..to as usize].fill(true);
            }
            for at in 0..100 {
                let is_inside = (from..from + length).contains(&(at as u64));
                prop_assert_eq!(gaps[at], is_inside && !bytes[at]);
            }
            let ends: Vec<(u64, u64)> = zeros.written.iter().map(|(from, to)| (*from, *to)).collect();
            prop_assert!(ends.windows(2).all(|pair| pair[0].1 < pair[1].0));
        }
    }
}
