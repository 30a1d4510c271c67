//! Sealing on one core: from full rings to published Parquet, draining, sorting, encoding, writing.
//!
//! `cargo bench -p iotrail-trail --bench seal`. Prints a table; the figure that counts is calls a
//! second of one core.

#[path = "../tests/producer/mod.rs"]
mod producer;

use std::time::{Duration, Instant};

use iotrail_format::call::{Call, WaitKind};
use iotrail_format::schema::FILE_OP;
use iotrail_format::segment::NONE;
use iotrail_trail::TrailWriter;
use iotrail_trail::seal::drain::{Drain, Output, Turn};
use iotrail_trail::seal::journal::Journal;
use iotrail_trail::seal::rows::Rows;
use iotrail_trail::seal::session::{Budget, Session};
use producer::{NOBODY, Producer, Unit, call, pread};

const RINGS: usize = 8;
const CAPACITY: u64 = 131_072;
const ROUNDS: usize = 5;

/// Writes journals as they fill, in the thread that drains.
struct Inline {
    rows: Rows,
    trail: TrailWriter,
    journals: Vec<Journal>,
    writing: Duration,
}

impl Turn for Inline {
    fn spare(&mut self, _wait: bool) -> Option<Journal> {
        self.journals.pop()
    }

    fn full(&mut self, journal: Journal) {
        let began = Instant::now();
        let trail = &mut self.trail;
        self.rows
            .apply(journal.units(), journal.sequence(), &mut |table, batch| trail.append(table, &batch))
            .expect("rows are written");
        trail.publish().expect("a snapshot is published");
        self.journals.push(journal);
        self.writing += began.elapsed();
    }
}

/// A thread's calls: what programs do, or one call over and over.
fn calls(mixed: bool, ring: usize) -> impl Iterator<Item = Unit> {
    let mut seed = ring as u64 + 1;
    let mut ticks = iotrail_trail::seal::clock::ticks();
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

struct Round {
    seconds: f64,
    draining: f64,
    bytes: f64,
}

fn round(mixed: bool) -> Round {
    let session = Session::create(1 << 30).expect("a session is made");
    let producer = Producer::create(session.dir(), NOBODY, 1, RINGS, CAPACITY);
    for ring in 0..RINGS {
        producer.fill_ring(ring, calls(mixed, ring));
    }
    let folder = tempfile::tempdir_in("/dev/shm").expect("a directory is made");
    let path = folder.path().join("bench.trail");
    let trail = TrailWriter::create(&path, false).expect("a trail is made");
    let units = Budget::of(256 << 20).journal_units;
    let journals = vec![Journal::volatile(units).expect("memory"), Journal::volatile(units).expect("memory")];
    let rows = Rows::new("bench-1".into(), session.clock(), Default::default());
    let inline = Inline { rows, trail, journals, writing: Duration::ZERO };
    let mut drain = Drain::new(session, Output::new(inline, 1));
    let began = Instant::now();
    drain.pass(true).expect("rings are drained");
    let (inline, session, _) = drain.finish().expect("rings are drained");
    let seconds = began.elapsed().as_secs_f64();
    let rows = RINGS as f64 * CAPACITY as f64;
    assert_eq!(inline.rows.totals().rows, RINGS as u64 * CAPACITY, "every call has a row");
    let files = inline.trail.snapshot().files(FILE_OP.name);
    let bytes: u64 = files.iter().map(|file| file.bytes).sum();
    let file_rows: u64 = files.iter().map(|file| file.rows).sum();
    session.remove();
    let draining = seconds - inline.writing.as_secs_f64();
    Round { seconds: seconds / rows, draining: draining / rows, bytes: bytes as f64 / file_rows as f64 }
}

fn median(mut values: Vec<f64>) -> (f64, f64, f64) {
    values.sort_by(f64::total_cmp);
    (values[values.len() / 2], values[0], values[values.len() - 1])
}

fn main() {
    println!("sealing {} calls of {RINGS} threads, {ROUNDS} rounds", RINGS as u64 * CAPACITY);
    println!("{:<22}{:>26}{:>14}{:>18}", "", "calls/s a core", "draining", "bytes/call");
    for (name, mixed) in [("random 4 KiB preads", false), ("mixed calls", true)] {
        let rounds: Vec<Round> = (0..ROUNDS).map(|_| round(mixed)).collect();
        let (mid, least, most) = median(rounds.iter().map(|round| round.seconds).collect());
        let draining = median(rounds.iter().map(|round| round.draining).collect()).0;
        let bytes = median(rounds.iter().map(|round| round.bytes).collect()).0;
        println!(
            "{name:<22}{:>9.2} M ({:.2}–{:.2} M){:>11.0} ns{bytes:>18.2}",
            1e-6 / mid,
            1e-6 / most,
            1e-6 / least,
            draining * 1e9
        );
    }
}
