//! Calls by hand on a device whose reads take 1 ms, writes 2 and flushes 3: when each ends, and what the device was asked.

use std::sync::{Arc, Mutex};

use super::*;
use crate::device::Completion;
use crate::fixed::{self, Fixed};

const MS: Nanos = 1_000_000;
const KIB: u64 = 1024;

/// A device whose reads take 1 ms, writes 2 ms and flushes 3 ms, eight at a time, and what it was asked.
#[derive(Clone)]
struct Logged {
    device: Fixed,
    log: Log,
}

type Log = Arc<Mutex<Vec<Request>>>;

impl Device for Logged {
    fn capacity(&self) -> u64 {
        self.device.capacity()
    }
    fn submit(&mut self, now: Nanos, id: Id, request: Request) {
        self.log.lock().unwrap().push(request);
        self.device.submit(now, id, request);
    }
    fn next_event(&self) -> Option<Nanos> {
        self.device.next_event()
    }
    fn advance(&mut self, now: Nanos, completions: &mut Vec<Completion>) {
        self.device.advance(now, completions);
    }
    fn energy(&self, _: Nanos) -> Option<f64> {
        None
    }
}

struct Bench {
    files: FileSystem,
    log: Log,
    ended: Vec<(Id, Nanos)>,
}

const PARAMETERS: Parameters = Parameters {
    journal: false,
    volume_bytes: 1 << 30,
    start_bytes: 16 << 20,
    apart_bytes: 64 << 10,
    warm: false,
};

impl Bench {
    fn new(journal: bool, before: &[Before]) -> Self {
        Self::with(Parameters { journal, ..PARAMETERS }, before)
    }

    fn with(parameters: Parameters, before: &[Before]) -> Self {
        let log = Log::default();
        let device = Fixed::new(fixed::Parameters {
            capacity_bytes: 1 << 30,
            servers: 8,
            read_ns: MS,
            write_ns: 2 * MS,
            flush_ns: 3 * MS,
            trim_ns: MS,
            rate_bytes_per_s: i64::MAX as u64,
        });
        let device = Box::new(Logged { device, log: Arc::clone(&log) });
        Self { files: FileSystem::new(device, parameters, before).unwrap(), log, ended: Vec::new() }
    }

    /// Calls at times, ms: when each has ended, ms.
    fn run(&mut self, calls: &[(Nanos, Call)]) -> Vec<f64> {
        self.ended.clear();
        for (id, (at, call)) in calls.iter().enumerate() {
            self.files.advance(at * MS, &mut self.ended);
            self.files.submit(at * MS, Id(id as u64), *call);
        }
        while let Some(next) = self.files.next_completion() {
            self.files.advance(next, &mut self.ended);
        }
        let mut ends = vec![f64::NAN; calls.len()];
        for (id, at) in &self.ended {
            ends[id.0 as usize] = *at as f64 / MS as f64;
        }
        ends
    }

    /// What the device was asked since the last time: what, and KiB from the start of the first file.
    fn asked(&self) -> Vec<(Op, i64, u64)> {
        let place = |one: &Request| (one.pos as i64 - (16 << 20)) / 1024;
        self.log.lock().unwrap().drain(..).map(|one| (one.op, place(&one), one.length / KIB)).collect()
    }
}

fn call(ask: Ask, kib: u64, length: u64) -> Call {
    Call { file: 0, thread: 0, stream: 0, ask, pos: kib * KIB, length: length * KIB, direct: false }
}

fn direct(ask: Ask, kib: u64, length: u64) -> Call {
    Call { direct: true, ..call(ask, kib, length) }
}

fn file(kib: u64) -> Before {
    Before { exists: true, bytes: kib * KIB, most_bytes: 64 << 20 }
}

const DATA: Ask = Ask::Write(Some(Durable::Data));

#[test]
fn a_durable_write_costs_what_has_to_be_written() {
    // data; an inode or a commit; a flush
    let (inode, commit) = (2.0 + 2.0 + 3.0, 2.0 + 2.0 + 3.0 + 2.0 + 3.0);
    for (journal, overwrite, append) in [(false, inode, inode), (true, 2.0 + 3.0, commit)] {
        let mut bench = Bench::new(journal, &[file(64)]);
        assert_eq!(bench.run(&[(0, direct(DATA, 0, 16))]), [overwrite]);
        assert_eq!(bench.run(&[(100, direct(DATA, 64, 16))]), [100.0 + append]);
        assert_eq!(bench.run(&[(200, direct(DATA, 64, 16))]), [200.0 + overwrite]);
        // O_SYNC, and fsync: the time of the write is in the inode
        assert_eq!(bench.run(&[(300, direct(Ask::Write(Some(Durable::All)), 64, 16))]), [300.0 + append]);
        // nothing but a flush is left to do
        assert_eq!(bench.run(&[(400, call(Ask::Sync(Durable::All), 0, 0))]), [403.0]);
    }
    // the directory of a new file, once
    let mut bench = Bench::new(false, &[Before { exists: false, ..file(0) }]);
    assert_eq!(
        bench.run(&[(0, direct(DATA, 0, 4)), (100, direct(DATA, 4, 4))]),
        [2.0 + inode, 100.0 + inode]
    );
}

#[test]
fn what_is_written_to_the_cache_is_on_the_device_after_a_sync() {
    let mut bench = Bench::new(false, &[file(64)]);
    assert_eq!(bench.run(&[(1, call(Ask::Write(None), 0, 64)), (2, call(Ask::Read, 0, 64))]), [1.0, 2.0]);
    assert_eq!(bench.asked(), []);
    assert_eq!(bench.run(&[(10, call(Ask::Sync(Durable::Data), 0, 0))]), [17.0]);
    let (inode, flush) = ((Op::Write, -16384, 4), (Op::Flush, -16384, 0));
    assert_eq!(bench.asked(), [(Op::Write, 0, 64), inode, flush]);
    // in two pieces, and the file grows
    let writes = [(20, call(Ask::Write(None), 8, 4)), (20, call(Ask::Write(None), 64, 4))];
    bench.run(&writes);
    assert_eq!(bench.run(&[(20, call(Ask::Sync(Durable::Data), 0, 0))]), [27.0]);
    assert_eq!(bench.asked(), [(Op::Write, 8, 4), (Op::Write, 64, 4), inode, flush]);
}

#[test]
fn a_sync_waits_for_what_another_is_writing() {
    let mut bench = Bench::new(true, &[file(64)]);
    let sync = call(Ask::Sync(Durable::Data), 0, 0);
    let ends = bench.run(&[(0, call(Ask::Write(None), 0, 4)), (0, sync), (1, sync)]);
    // and then for a flush of its own: the other one's has begun
    assert_eq!(ends, [0.0, 5.0, 8.0]);
}

#[test]
fn writes_that_need_blocks_come_one_after_the_other() {
    let mut bench = Bench::new(false, &[file(64)]);
    let write = |at, kib| (at, direct(DATA, kib, 4));
    // data, inode, flush; a read past the cache waits for them, one of the cache doesn't
    let calls = [write(0, 64), write(0, 68), (1, direct(Ask::Read, 0, 4)), (1, call(Ask::Read, 32, 4))];
    assert_eq!(bench.run(&calls), [7.0, 14.0, 15.0, 2.0]);
    // those to blocks that are there, at once, but for their flushes
    assert_eq!(bench.run(&[write(20, 0), write(20, 4)]), [27.0, 30.0]);
}

#[test]
fn a_file_in_many_pieces_has_a_block_of_extents() {
    let mut bench = Bench::new(false, &[file(0)]);
    let write = |at, kib| (at, direct(DATA, kib, 4));
    // the first piece and three apart from it, two more, one that goes on behind it, one that is there
    let calls =
        [0, 8, 16, 24, 32, 40, 44, 0].into_iter().zip(0..).map(|(kib, number)| write(number * 10, kib));
    let took = |(end, (at, _)): (&f64, &(Nanos, Call))| end - *at as f64;
    let calls: Vec<_> = calls.collect();
    let ends = bench.run(&calls);
    let took: Vec<f64> = ends.iter().zip(&calls).map(took).collect();
    assert_eq!(took, [7.0, 7.0, 7.0, 7.0, 9.0, 9.0, 9.0, 7.0]);
}

#[test]
fn small_files_that_grow_in_turn_lie_in_pieces() {
    let sync = Call { length: 0, ..call(Ask::Sync(Durable::Data), 0, 0) };
    // by which threads files are appended to, 4 KiB each time, durably: how long each took, and where the first file lies
    let took = |whose: &[(u32, u32)]| {
        let mut bench = Bench::new(false, &[file(0), file(0)]);
        let mut sizes = [0; 2];
        let mut times = Vec::new();
        for (at, (file, thread)) in (0..).step_by(100).zip(whose) {
            let size = &mut sizes[*file as usize];
            let of = |call| (at, Call { file: *file, thread: *thread, ..call });
            times.push(bench.run(&[of(call(Ask::Write(None), *size, 4)), of(sync)])[1] - at as f64);
            *size += 4;
        }
        let asked = bench.asked().into_iter();
        let first = asked.filter(|(op, at, _)| *op == Op::Write && (-128..-64).contains(at)).count();
        (times, first)
    };
    assert_eq!(took(&[(0, 0); 20]), (vec![7.0; 20], 0), "alone");
    // each piece apart from the one before: the fifth needs a block of extents
    let in_pieces = [vec![7.0; 4], vec![9.0; 4]].concat();
    let every_other = |times: Vec<f64>| times.into_iter().step_by(2).collect::<Vec<_>>();
    let (times, apart) = took(&[(0, 0), (1, 1)].repeat(8));
    assert_eq!((every_other(times), apart), (in_pieces.clone(), 4));
    assert_eq!(took(&[(0, 0), (0, 1)].repeat(4)), (in_pieces, 4));
    // no longer small: one more piece, whoever writes
    let (times, apart) = took(&[vec![(0, 0); 16], vec![(0, 0), (0, 1), (1, 0), (0, 2)]].concat());
    assert_eq!((times, apart), (vec![7.0; 20], 0));
}

#[test]
fn what_lies_in_two_pieces_takes_two_requests() {
    let mut bench = Bench::new(false, &[file(0), file(0)]);
    let write = |file, kib, length| (0, Call { file, ..call(Ask::Write(None), kib, length) });
    let sync = |file| (0, Call { file, ..call(Ask::Sync(Durable::Data), 0, 0) });
    bench.run(&[write(0, 0, 6), sync(0)]);
    bench.run(&[write(1, 0, 4), sync(1)]);
    bench.asked();
    // the rest of its second page, and the third
    bench.run(&[write(0, 6, 4), sync(0)]);
    assert_eq!(bench.asked()[..2], [(Op::Write, 4, 4), (Op::Write, 8 - 128, 4)]);
    bench.run(&[write(0, 0, 16), sync(0)]);
    assert_eq!(bench.asked()[..2], [(Op::Write, 0, 8), (Op::Write, 8 - 128, 8)]);
}

#[test]
fn calls_share_blocks_of_inodes_and_flushes() {
    let mut bench = Bench::new(false, &[file(64), file(64), file(64), file(64)]);
    let write = |file, at| (at, Call { file, ..direct(DATA, 0, 4) });
    // from 2 to 4 the block of their inodes is written as it is then, with three changes; a flush from 4 to 7 and one for two until 10;
    // the fourth writes the block again, from 7 to 9, and waits for a third
    assert_eq!(bench.run(&[write(0, 0), write(1, 0), write(2, 1), write(3, 5)]), [7.0, 10.0, 10.0, 13.0]);
    let asked = bench.asked();
    assert_eq!(asked.iter().filter(|(op, at, _)| *op == Op::Write && *at < 0).count(), 2);
    assert_eq!(asked.iter().filter(|(op, ..)| *op == Op::Flush).count(), 3);
}

#[test]
fn calls_share_commits() {
    let mut bench = Bench::new(true, &[file(0), file(0), file(0)]);
    let append = |file, at| (at, Call { file, ..direct(DATA, 0, 4) });
    // the third comes while the commit of the others is under way, from 2 to 12
    assert_eq!(bench.run(&[append(0, 0), append(1, 0), append(2, 5)]), [12.0, 12.0, 22.0]);
}

#[test]
fn a_page_that_is_written_in_part_is_read_first() {
    let mut bench = Bench::new(false, &[file(64)]);
    let write = |kib, length| (0, call(Ask::Write(None), kib, length));
    assert_eq!(bench.run(&[write(1, 2)]), [1.0]);
    assert_eq!(bench.asked(), [(Op::Read, 0, 4)]);
    // both ends; and the last page of the file, behind whose end there is nothing to keep
    let mut bench = Bench::new(false, &[file(62)]);
    assert_eq!(bench.run(&[write(22, 20)]), [2.0]);
    assert_eq!(bench.run(&[write(60, 3)]), [0.0]);
}

#[test]
fn reads_in_order_are_read_ahead_in_windows_that_grow() {
    let mut bench = Bench::new(false, &[file(1024)]);
    let reads: Vec<_> = (0..64).map(|at| (at * 10, call(Ask::Read, at * 4, 4))).collect();
    let ends = bench.run(&reads);
    // read ahead 32 KiB from 16 KiB on when the second page is read, 64 from 48 on at the fifth, 128 from 112 on at the 13th page …
    let read = |at, length| (Op::Read, at, length);
    let windows = [read(0, 16), read(16, 32), read(48, 64), read(112, 128), read(240, 128), read(368, 128)];
    assert_eq!(bench.asked(), windows);
    // nobody waits but the first
    let waited = ends.iter().zip(&reads).filter(|(end, (at, _))| **end > *at as f64).count();
    assert_eq!(waited, 1);
}

#[test]
fn what_the_cache_has_is_not_read() {
    let mut bench = Bench::with(Parameters { warm: true, ..PARAMETERS }, &[file(64)]);
    // what is there, and a page that is written in part
    assert_eq!(bench.run(&[(0, call(Ask::Read, 0, 64)), (5, call(Ask::Write(None), 10, 1))]), [0.0, 5.0]);
    assert_eq!(bench.asked(), []);
}

#[test]
fn reads_here_and_there_are_as_long_as_asked() {
    let mut bench = Bench::new(false, &[file(1024)]);
    let reads = [500, 100, 900, 300].map(|at| (0, call(Ask::Read, at, 8)));
    assert_eq!(bench.run(&reads), [1.0; 4]);
    assert_eq!(bench.asked(), [500, 100, 900, 300].map(|at| (Op::Read, at, 8)));
    // one that is being read isn't read again
    let again = [(10, call(Ask::Read, 700, 8)), (10, call(Ask::Read, 700, 8)), (20, call(Ask::Read, 700, 8))];
    assert_eq!(bench.run(&again), [11.0, 11.0, 20.0]);
    assert_eq!(bench.asked(), [(Op::Read, 700, 8)]);
    // past the cache
    assert_eq!(bench.run(&[(30, direct(Ask::Read, 500, 8))]), [31.0]);
    // past the end of the file
    assert_eq!(bench.run(&[(40, call(Ask::Read, 2000, 8))]), [40.0]);
}

#[test]
fn a_file_that_is_emptied_has_nothing_to_read() {
    let mut bench = Bench::new(false, &[file(64)]);
    bench.run(&[(0, call(Ask::Resize, 0, 0)), (1, call(Ask::Write(None), 0, 4)), (2, call(Ask::Read, 0, 4))]);
    assert_eq!(bench.asked(), []);
    assert_eq!(bench.run(&[(10, call(Ask::Sync(Durable::Data), 0, 0))]), [17.0]);
}

#[test]
fn a_file_that_is_removed_is_a_new_one_afterwards() {
    let mut bench = Bench::new(false, &[file(64)]);
    assert_eq!(bench.run(&[(0, direct(DATA, 0, 4)), (10, direct(DATA, 4, 4))]), [7.0, 17.0]);
    // its directory is written, too, and its first block is read from nowhere
    let again = [call(Ask::Remove, 0, 0), call(Ask::Write(None), 1, 1), call(Ask::Sync(Durable::Data), 0, 0)];
    assert_eq!(bench.run(&again.map(|call| (20, call))), [20.0, 20.0, 29.0]);
    assert_eq!(bench.run(&[(40, call(Ask::Sync(Durable::Data), 0, 0))]), [43.0]);
}

#[test]
fn files_larger_than_the_volume_are_refused() {
    let parameters = Parameters { volume_bytes: 1 << 20, start_bytes: 0, ..PARAMETERS };
    let device = Bench::new(false, &[]).files.device;
    let refused = FileSystem::new(device, parameters, &[file(64)]).err();
    assert_eq!(refused, Some(TooLarge { volume: 1 << 20, found: 64 << 20 }));
}
