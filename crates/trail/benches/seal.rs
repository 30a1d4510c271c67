//! Sealing on one core: from full rings to published Parquet, draining, sorting, encoding, writing.
//!
//! `cargo bench -p iotrail-trail --bench seal`. Prints a table; the figure that counts is calls a
//! second of one core.

#[path = "../tests/producer/mod.rs"]
mod producer;

use std::collections::HashSet;
use std::time::Duration;

use iotrail_format::call::{Call, WaitKind};
use iotrail_format::segment::NONE;
use iotrail_trail::TrailWriter;
use iotrail_trail::seal::clock;
use iotrail_trail::seal::drain::{Drain, Output, Turn};
use iotrail_trail::seal::journal::Journal;
use iotrail_trail::seal::rows::Rows;
use iotrail_trail::seal::session::{Budget, Session};
use producer::{Producer, Unit, call, pread};

const RINGS: usize = 8;
const CAPACITY: u64 = 131_072;
const ROUNDS: usize = 7;

/// Writes journals as they fill, in the thread that drains.
struct Inline {
    rows: Rows,
    trail: TrailWriter,
    journals: Vec<Journal>,
    writing: f64,
    encoding: f64,
}

impl Turn for Inline {
    fn spare(&mut self, _wait: bool) -> Option<Journal> {
        self.journals.pop()
    }

    fn full(&mut self, journal: Journal) {
        let began = cpu_seconds();
        let (trail, encoding) = (&mut self.trail, &mut self.encoding);
        let mut sink = |table, batch| {
            let began = cpu_seconds();
            let result = trail.append_more(table, &batch);
            *encoding += cpu_seconds() - began;
            result
        };
        self.rows.apply(journal.units(), journal.sequence(), &mut sink).expect("rows are written");
        self.trail.publish().expect("a snapshot is published");
        self.journals.push(journal);
        self.writing += cpu_seconds() - began;
    }
}

/// CPU time of this thread: a core's worth, whatever else the machine does.
fn cpu_seconds() -> f64 {
    clock::clock_ns(libc::CLOCK_THREAD_CPUTIME_ID) as f64 * 1e-9
}

/// A thread's calls: what programs do, or one call over and over.
fn calls(mixed: bool, ring: usize) -> impl Iterator<Item = Unit> {
    let mut seed = ring as u64 + 1;
    let mut ticks = clock::ticks();
    let none = NONE as u64;
    (0_u64..).map(move |n| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        let dur = 800 + seed % 3000;
        ticks += dur + seed % 500;
        let file = 0x1234_5678_9abc_i64 + ring as i64;
        if !mixed {
            return pread(file, (seed % 65_536 * 4096) as i64, ticks, dur);
        }
        match n % 8 {
            0..4 => pread(file, (n * 4096) as i64, ticks, dur),
            4 => call(Call::Write, 0, 4, [ticks, dur, file as u64, n * 512, 512, 512, none]),
            5 => call(Call::Stat, 0, -1, [ticks, dur, file as u64 + seed % 99, none, none, 0, none]),
            6 => call(Call::Open, 0, -1, [ticks, dur, file as u64 + seed % 99, none, none, 5, 0o2]),
            _ => call(Call::Recv, WaitKind::Socket as u8, 9, [ticks, dur, 77, none, 64, 64, none]),
        }
    })
}

/// Seconds of CPU a call, and bytes a row.
struct Round {
    whole: f64,
    draining: f64,
    encoding: f64,
}

/// Fills the rings and drains them, a few times; the first, which faults memory in, doesn't count.
fn rounds(mixed: bool) -> (Vec<Round>, f64) {
    let session = Session::create(1 << 30).expect("a session is made");
    let producer = Producer::create(session.dir(), std::process::id(), 1, RINGS, CAPACITY);
    let folder = tempfile::tempdir_in("/dev/shm").expect("a directory is made");
    let trail = TrailWriter::create(&folder.path().join("bench.trail"), false).expect("a trail is made");
    let units = Budget::of(256 << 20).journal_units;
    let journal = |index| Journal::create(session.dir(), index, units).expect("a journal is made");
    let journals = vec![journal(0), journal(1)];
    let rows = Rows::new("bench-1".into(), session.clock(), HashSet::new());
    let inline = Inline { rows, trail, journals, writing: 0.0, encoding: 0.0 };
    let mut drain = Drain::new(session, Output::new(inline, 1));
    let calls_made = RINGS as f64 * CAPACITY as f64;
    let mut measured = Vec::new();
    for round in 0..=ROUNDS {
        for ring in 0..RINGS {
            producer.fill_ring(ring, calls(mixed, ring));
        }
        let before = (drain.turn().writing, drain.turn().encoding);
        let began = cpu_seconds();
        drain.pass(true).expect("rings are drained");
        drain.hand_over(Duration::ZERO);
        let whole = (cpu_seconds() - began) / calls_made;
        let writing = (drain.turn().writing - before.0) / calls_made;
        let encoding = (drain.turn().encoding - before.1) / calls_made;
        if round > 0 {
            measured.push(Round { whole, draining: whole - writing, encoding });
        }
    }
    let (inline, session, _) = drain.finish().expect("rings are drained");
    session.remove();
    let expected = (ROUNDS as u64 + 1) * RINGS as u64 * CAPACITY;
    assert_eq!(inline.rows.totals().rows, expected, "every call has a row");
    let files = inline.trail.snapshot().all_files();
    let bytes: u64 = files.map(|file| file.bytes).sum();
    (measured, bytes as f64 / expected as f64)
}

fn median(values: impl Iterator<Item = f64>) -> (f64, f64, f64) {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    (values[values.len() / 2], values[0], values[values.len() - 1])
}

fn main() {
    println!("sealing {} calls of {RINGS} threads, {ROUNDS} times, CPU time", RINGS as u64 * CAPACITY);
    println!(
        "{:<22}{:>26}{:>13}{:>13}{:>13}{:>13}",
        "", "calls/s a core", "draining", "rows", "Parquet", "bytes/call"
    );
    for (name, mixed) in [("random 4 KiB preads", false), ("mixed calls", true)] {
        let (rounds, bytes) = rounds(mixed);
        let (mid, least, most) = median(rounds.iter().map(|round| round.whole));
        let draining = median(rounds.iter().map(|round| round.draining)).0;
        let encoding = median(rounds.iter().map(|round| round.encoding)).0;
        println!(
            "{name:<22}{:>9.2} M ({:.2}–{:.2} M){:>10.0} ns{:>10.0} ns{:>10.0} ns{bytes:>13.2}",
            1e-6 / mid,
            1e-6 / most,
            1e-6 / least,
            draining * 1e9,
            (mid - draining - encoding) * 1e9,
            encoding * 1e9,
        );
    }
}
