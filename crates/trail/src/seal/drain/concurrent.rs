//! Threads post while another drains what they post, all by the same addresses: what Miri and ThreadSanitizer
//! watch (`make sanitize`).

#[cfg(miri)]
use std::mem::offset_of;
#[cfg(miri)]
use std::sync::OnceLock;
use std::sync::atomic::AtomicU64;
#[cfg(miri)]
use std::sync::atomic::Ordering;
use std::thread;

use iotrail_format::call::Call;
use iotrail_format::record::FIRST_TYPE;
use iotrail_format::segment::*;
use iotrail_sdk::{attach, post, record};

use super::tests::Kept;
use super::*;
use crate::seal::journal::pieces;
use crate::seal::view::Unit;

const THREADS: i64 = 2;
/// Calls of each thread; the second pair of threads takes the rings of the first.
const CALLS: i64 = if cfg!(miri) { 30 } else { 50_000 };
/// Each so many calls a thread posts a record of several slots, and a text.
const OTHERS: i64 = 7;
/// A type's number.
const TYPE: u16 = 9;

/// Posts calls of which each word follows from the number in `object`, and some records.
fn post_calls(thread: i64) {
    for nth in 1..=CALLS {
        let number = thread << 32 | nth;
        let draft = post::Draft {
            opcode: Call::Pread as u16,
            kind: 0,
            fd: 3,
            object: number,
            pos: number * 2,
            length: number * 3,
            aux: NONE,
        };
        if let Some(pending) = post::begin(&draft) {
            post::end(&pending, &draft, number * 5, 7);
        }
        if nth % OTHERS == 0 {
            record::post(
                &record::Record { words: [number; 4], ..record::instant(TYPE, 0, number) },
                &[number; 9],
            );
            post::text(TextKind::Path, number, &[b'x'; 100]);
        }
    }
    attach::thread_ends();
}

/// Numbers of the calls, and of the records. Each is whole, and follows what its thread posted before.
fn read(units: &[Unit]) -> [Vec<i64>; 2] {
    let (mut calls, mut records) = (Vec::new(), Vec::new());
    let mut last = HashMap::new();
    let mut follows = |number: i64| {
        let last = last.entry(number >> 33).or_insert(0);
        assert!(*last < number, "{number:x} after {last:x}");
        *last = number;
    };
    for (_, slots) in pieces(units) {
        let mut slots = slots.iter();
        while let Some(slot) = slots.next() {
            let number = slot[3] as i64;
            if slot[0] as u16 == Call::Pread as u16 {
                let words = [number, number * 2, number * 3, number * 5, NONE];
                assert_eq!(slot[0], u64::from(Call::Pread as u16) | 7 << 24 | 3 << 32);
                assert_eq!(slot[3..], words.map(|word| word as u64));
                follows(number * 2);
                calls.push(number);
            } else if slot[0] as u16 == FIRST_TYPE + TYPE {
                assert_eq!(slot[4..], [number as u64; 4]);
                for words in [[number; 7], [number, number, NONE, NONE, NONE, NONE, NONE]] {
                    let more = slots.next().expect("a record stays together");
                    assert_eq!((more[0] as u16, &more[1..]), (OP_MORE, &words.map(|word| word as u64)[..]));
                }
                follows(number * 2 + 1);
                records.push(number);
            }
        }
    }
    [calls, records]
}

#[test]
fn what_is_posted_while_it_is_drained_comes_out_whole_and_in_order() {
    let words = memory();
    let segment = Segment::new(words).unwrap();
    let owner = Owner { process: 1, recorder: false, start_ticks: 0 };
    let mut output = Output::new(Kept(Vec::new(), 256), 1);
    let (mut notes, mut fill) = (Vec::new(), Fill::default());
    for round in 0..2 {
        let post = |thread| {
            move || {
                enter(words, thread);
                post_calls(round * THREADS + thread);
            }
        };
        let threads: Vec<_> = (0..THREADS).map(|thread| thread::spawn(post(thread))).collect();
        let mut drain = || {
            drain_rings(segment, owner, &mut notes, &mut output, Producer::Alive, &mut None, &mut fill)
                .unwrap();
        };
        while threads.iter().any(|thread| !thread.is_finished()) {
            drain();
            for ring in (0..segment.ring_count()).filter_map(|index| segment.ring(index)) {
                assert!(ring.inflight().len() <= 1);
            }
            thread::yield_now();
        }
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        // Only a join makes sure that what they posted last is seen.
        drain();
    }
    let units = output.finish().0;
    let lost: u64 = pieces(&units)
        .map(|(event, _)| match event {
            Event::Lost { calls, loss, .. } => {
                assert_eq!(loss, Loss::RingFull);
                calls
            }
            _ => 0,
        })
        .sum();
    for (found, posted) in read(&units).into_iter().zip([CALLS, CALLS / OTHERS]) {
        let (found, posted) = (found.len() as u64, (2 * THREADS * posted) as u64);
        assert!((posted.saturating_sub(lost)..=posted).contains(&found), "{found} of {posted}, {lost} lost");
    }
}

/// The segment that this process posts into, where the SDK has it.
#[cfg(not(miri))]
fn memory() -> &'static [AtomicU64] {
    let session = Session::create(64 << 20).unwrap();
    assert!(attach::init(session.dir().as_os_str().as_encoded_bytes()));
    // What is mapped stays.
    session.remove();
    let header = &raw const *attach::header().unwrap();
    // SAFETY: the SDK never unmaps its segment, and its words are atomics or not written any more.
    unsafe { std::slice::from_raw_parts(header.cast(), SEGMENT_SPAN / 8) }
}

/// A thread finds its ring by itself.
#[cfg(not(miri))]
fn enter(_: &[AtomicU64], _: i64) {}

/// Slots of a ring under Miri.
#[cfg(miri)]
const CAPACITY: usize = 64;

/// A segment with a free ring for each thread.
#[cfg(miri)]
fn memory() -> &'static [AtomicU64] {
    static MEMORY: OnceLock<Mapping> = OnceLock::new();
    let words =
        MEMORY.get_or_init(|| Mapping::anonymous(RINGS_START + THREADS as usize * RING).unwrap()).words();
    let put = |offset: usize, value: u64| words[offset / 8].store(value, Ordering::Relaxed);
    put(offset_of!(SegmentHeader, version), u64::from(SEGMENT_VERSION));
    put(offset_of!(SegmentHeader, ring_count), THREADS as u64);
    for thread in 0..THREADS as usize {
        put(PAGE + thread * size_of::<RingEntry>(), (RINGS_START + thread * RING) as u64);
        put(PAGE + thread * size_of::<RingEntry>() + offset_of!(RingEntry, capacity), CAPACITY as u64);
    }
    put(offset_of!(SegmentHeader, magic), SEGMENT_MAGIC);
    words
}

/// Bytes of a ring.
#[cfg(miri)]
const RING: usize = PAGE + CAPACITY * size_of::<Slot>();

/// Claims a thread's ring, as the SDK does.
#[cfg(miri)]
fn enter(words: &'static [AtomicU64], thread: i64) {
    let ring = words.as_ptr().wrapping_byte_add(RINGS_START + thread as usize * RING).cast::<RingHeader>();
    // SAFETY: it stands in `words`, and no other thread posts into it.
    let header = unsafe { &*ring };
    header.state.store(RingState::Claimed as u32, Ordering::Relaxed);
    header.tid.store(1 + thread as u32, Ordering::Relaxed);
    header.thread.store(1 + thread, Ordering::Relaxed);
    header.nth.store(1, Ordering::Relaxed);
    header.limit.store(header.tail.load(Ordering::Acquire) + CAPACITY as u64 / 2, Ordering::Relaxed);
    header.end_ticks.store(0, Ordering::Relaxed);
    header.state.store(RingState::Live as u32, Ordering::Release);
    // SAFETY: as above, for ever.
    unsafe { iotrail_sdk::thread::post_into(ring, CAPACITY as u64) };
}
