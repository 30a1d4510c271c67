//! The segment reader on any bytes: it never panics, leaves the segment, or loops for ever.
//!
//! The input is laid over a small valid segment, nine bytes a piece: where (as a fraction of the
//! words that matter) and the word that stands there. So the fuzzer is behind the magic number at once.

#![no_main]

use std::collections::HashSet;
use std::mem::offset_of;
use std::sync::atomic::{AtomicU64, Ordering};

use iotrail_format::segment::*;
use iotrail_trail::seal::clock::{Clock, Pair};
use iotrail_trail::seal::drain::{Output, Turn, read_dead};
use iotrail_trail::seal::journal::Journal;
use iotrail_trail::seal::rows::Rows;
use iotrail_trail::seal::view::Segment;
use libfuzzer_sys::fuzz_target;

const CAPACITY: usize = 64;
const BYTES: usize = RINGS_START + PAGE + CAPACITY * size_of::<Slot>();

/// Words that a program writes: the header, the first entries of the ring table, one ring.
const WRITTEN: [(usize, usize); 4] = [
    (0, size_of::<SegmentHeader>()),
    (PAGE, 8 * size_of::<RingEntry>()),
    (RINGS_START, 64 * 4),
    (RINGS_START + PAGE, CAPACITY * size_of::<Slot>()),
];

/// Turns journals into rows at once.
struct ToRows(Rows, Option<Journal>);

impl Turn for ToRows {
    fn spare(&mut self, _wait: bool) -> Option<Journal> {
        self.1.take().or_else(|| Journal::volatile(256).ok())
    }

    fn full(&mut self, journal: Journal) {
        self.0.apply(journal.units(), journal.sequence(), &mut |_, _| Ok(())).expect("rows fit their tables");
        // The state can be written down and read back at any time.
        let mut again = Rows::new("fuzz-1".into(), Clock::new(0), HashSet::new());
        again.apply(&self.0.carry(), journal.sequence(), &mut |_, _| Ok(())).expect("a carry is a journal");
        self.1 = Some(journal);
    }
}

fuzz_target!(|input: &[u8]| {
    let words: Vec<AtomicU64> = (0..BYTES / 8).map(|_| AtomicU64::new(0)).collect();
    let put = |offset: usize, value: u64| words[offset / 8].store(value, Ordering::Relaxed);
    put(offset_of!(SegmentHeader, magic), SEGMENT_MAGIC);
    put(offset_of!(SegmentHeader, version), u64::from(SEGMENT_VERSION) | 77 << 32);
    put(offset_of!(SegmentHeader, ring_count), 1);
    put(PAGE + offset_of!(RingEntry, offset), RINGS_START as u64);
    put(PAGE + offset_of!(RingEntry, capacity), CAPACITY as u64);
    put(RINGS_START + offset_of!(RingHeader, state), RingState::Live as u64 | 77 << 32);
    put(RINGS_START + offset_of!(RingHeader, thread), 5);
    put(RINGS_START + offset_of!(RingHeader, reserved), CAPACITY as u64);
    for piece in input.chunks_exact(10) {
        let mut at = usize::from(u16::from_le_bytes([piece[0], piece[1]]));
        let value = u64::from_le_bytes(piece[2..].try_into().expect("eight bytes"));
        for (start, length) in WRITTEN {
            if at < length / 8 {
                put(start + at * 8, value);
                break;
            }
            at -= length / 8;
        }
    }
    let Ok(segment) = Segment::new(&words) else { return };
    let mut clock = Clock::new(0);
    clock.push(Pair { ticks: 0, mono: 1 });
    clock.push(Pair { ticks: 1 << 40, mono: 1 << 39 });
    let rows = Rows::new("fuzz-1".into(), clock, HashSet::new());
    let mut output = Output::new(ToRows(rows, None), 1);
    read_dead(segment, &mut output).expect("there is always a journal");
    output.finish();
});
