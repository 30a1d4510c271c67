//! What a trail costs: sealing and reading rate of one core, and bytes an operation at rest.
//!
//! `cargo bench -p iotrail-trail` prints a table: for each workload, rows sealed a second (columns from
//! plain vectors, through Parquet, to a file), bytes an operation as sealed and after compaction, and
//! rows read back a second: the columns a scan of throughput and latency reads, and all of them. Medians
//! and spread of several runs, each on fresh data of a seeded generator. `--columns` adds bytes by column.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use arrow_array::types::Int32Type;
use arrow_array::{ArrayRef, DictionaryArray, Int32Array, Int64Array, RecordBatch, StringArray};
use arrow_buffer::{NullBuffer, ScalarBuffer};
use iotrail_format::call::Call;
use iotrail_format::schema::FILE_OP;
use iotrail_trail::{Order, Snapshot, TrailReader, TrailWriter, arrow_schema, compact};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::file::reader::{FileReader as _, SerializedFileReader};

const ROWS: usize = 2_000_000;
const BATCH: usize = 250_000;
const RUNS: usize = 5;
const SCAN: &[&str] = &["ts", "dur", "thread", "call", "file", "pos", "length", "result"];

fn main() {
    let by_column = std::env::args().any(|argument| argument == "--columns");
    println!(
        "{:<10} {:>18} {:>9} {:>18} {:>9} {:>20} {:>20} {:>18}",
        "workload",
        "sealed M rows/s",
        "bytes/op",
        "compacted M/s",
        "bytes/op",
        "scan M/s",
        "all columns M/s",
        "by time M/s"
    );
    for workload in [Workload::Database, Workload::Tar, Workload::Random] {
        let (mut seal, mut packed, mut scan, mut all, mut by_time) =
            (Vec::new(), Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let (mut sealed, mut compacted) = (0.0, 0.0);
        let mut columns = Vec::new();
        for run in 0..RUNS {
            let batches = workload.rows(run as u64 + 1);
            let folder = tempfile::tempdir().expect("a temporary directory");
            let path = folder.path().join("bench.trail");
            let mut writer = TrailWriter::create(&path, false).expect("a new trail");
            let start = cpu_seconds();
            for batch in batches {
                writer.append(&FILE_OP, &batch.into_batch()).expect("rows in order");
            }
            writer.publish().expect("a snapshot");
            seal.push(ROWS as f64 / (cpu_seconds() - start) / 1e6);
            sealed = bytes_per_row(writer.snapshot());
            let start = cpu_seconds();
            compact(&path, Duration::ZERO).expect("compaction");
            packed.push(ROWS as f64 / (cpu_seconds() - start) / 1e6);
            let snapshot = Snapshot::newest(&path).expect("a trail");
            compacted = bytes_per_row(&snapshot);
            scan.push(read(&path, &snapshot, Some(SCAN)));
            all.push(read(&path, &snapshot, None));
            by_time.push(read_by_time(&path));
            columns = bytes_by_column(&path, &snapshot);
        }
        println!(
            "{:<10} {:>18} {sealed:>9.2} {:>18} {compacted:>9.2} {:>20} {:>20} {:>18}",
            workload.name(),
            spread(&mut seal),
            spread(&mut packed),
            spread(&mut scan),
            spread(&mut all),
            spread(&mut by_time)
        );
        if by_column {
            for (name, bytes) in &columns {
                println!("    {name:<10} {bytes:>6.3} bytes/op");
            }
        }
    }
}

/// Processor time of this process so far: the rate of a core, whatever else the machine does.
fn cpu_seconds() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid timespec to write to.
    let status = unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut time) };
    assert_eq!(status, 0, "every Linux has this clock");
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// Median (least to most).
fn spread(values: &mut [f64]) -> String {
    values.sort_by(f64::total_cmp);
    format!("{:.1} ({:.1} to {:.1})", values[values.len() / 2], values[0], values[values.len() - 1])
}

fn bytes_per_row(snapshot: &Snapshot) -> f64 {
    let bytes: u64 = snapshot.files("file_op").iter().map(|f| f.bytes).sum();
    bytes as f64 / snapshot.rows("file_op") as f64
}

/// Reads columns of all rows on one core, in batches that stay in cache; millions of rows a second.
fn read(trail: &Path, snapshot: &Snapshot, columns: Option<&[&str]>) -> f64 {
    let start = cpu_seconds();
    let mut rows = 0;
    for entry in snapshot.files("file_op") {
        let file = std::fs::File::open(trail.join(&entry.path)).expect("a live file");
        let builder = ParquetRecordBatchReaderBuilder::try_new(file).expect("a Parquet file");
        let mask = match columns {
            Some(names) => ProjectionMask::columns(builder.parquet_schema(), names.iter().copied()),
            None => ProjectionMask::all(),
        };
        let reader = builder.with_projection(mask).with_batch_size(8192).build().expect("its columns");
        rows += reader.map(|batch| batch.expect("rows").num_rows()).sum::<usize>();
    }
    assert_eq!(rows, ROWS);
    rows as f64 / (cpu_seconds() - start) / 1e6
}

/// Typed rows in order of time, merged from all threads; millions of rows a second.
fn read_by_time(trail: &Path) -> f64 {
    let start = cpu_seconds();
    let reader = TrailReader::open(trail).expect("a trail");
    let mut rows = reader.file_ops(Order::Time).expect("live files");
    let (mut count, mut moved) = (0, 0);
    while let Some(op) = rows.next().expect("sound rows") {
        count += 1;
        moved += op.result.unwrap_or(0);
    }
    assert_eq!(count, ROWS);
    std::hint::black_box(moved);
    ROWS as f64 / (cpu_seconds() - start) / 1e6
}

fn bytes_by_column(trail: &Path, snapshot: &Snapshot) -> Vec<(String, f64)> {
    let mut columns: Vec<(String, f64)> = FILE_OP.columns.iter().map(|c| (c.name.to_owned(), 0.0)).collect();
    for entry in snapshot.files("file_op") {
        let file = std::fs::File::open(trail.join(&entry.path)).expect("a live file");
        let reader = SerializedFileReader::new(file).expect("a Parquet file");
        for group in reader.metadata().row_groups() {
            for (total, column) in columns.iter_mut().zip(group.columns()) {
                total.1 += column.compressed_size() as f64 / ROWS as f64;
            }
        }
    }
    columns
}

#[derive(Clone, Copy)]
enum Workload {
    /// 8 threads: 8 KiB reads and writes at skewed places of 40 table files, log appends with fdatasync.
    Database,
    /// One thread: stat, open, sequential reads and close of many files, writes to one.
    Tar,
    /// 2 threads: 4 KiB reads at random places of one 4 GiB file.
    Random,
}

/// Plain vectors, as the sealer has them. `i64::MIN` is null.
#[derive(Default)]
struct Columns {
    ts: Vec<i64>,
    dur: Vec<i64>,
    thread: Vec<i64>,
    call: Vec<i32>,
    file: Vec<i64>,
    fd: Vec<i64>,
    pos: Vec<i64>,
    length: Vec<i64>,
    result: Vec<i64>,
    errno: Vec<i64>,
    flags: Vec<i64>,
}

const NULL: i64 = i64::MIN;

/// An operation without its time.
struct Op {
    call: Call,
    file: i64,
    fd: i64,
    pos: i64,
    length: i64,
    result: i64,
    flags: i64,
    /// Median latency, ns.
    typical: f64,
}

/// SplitMix64 (Steele, Lea, Flood 2014).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Log-normal with the given median and a sigma of 0.4, which real cached I/O shows.
    fn latency(&mut self, median: f64) -> i64 {
        let normal = (0..12).map(|_| self.unit()).sum::<f64>() - 6.0;
        (median * (0.4 * normal).exp()) as i64
    }
}

impl Workload {
    fn name(self) -> &'static str {
        match self {
            Self::Database => "database",
            Self::Tar => "tar",
            Self::Random => "random",
        }
    }

    fn rows(self, seed: u64) -> Vec<Columns> {
        let threads = match self {
            Self::Database => 8,
            Self::Tar => 1,
            Self::Random => 2,
        };
        let mut random = Random(seed);
        let ids: Vec<i64> = (0..threads).map(|_| (random.next() >> 1) as i64).collect();
        let files: Vec<i64> = (0..100_000).map(|_| (random.next() >> 1) as i64).collect();
        let mut states: Vec<State> = (0..threads)
            .map(|i| State { now: 1_700_000_000_000_000_000 + i as i64 * 777, ..State::default() })
            .collect();
        let mut batches = Vec::new();
        for _ in 0..ROWS / BATCH {
            let mut columns = Columns::default();
            let mut order: Vec<usize> = (0..threads).collect();
            order.sort_by_key(|&i| ids[i]);
            for i in order {
                for _ in 0..BATCH / threads {
                    let op = self.op(i, &mut states[i], &files, &mut random);
                    let state = &mut states[i];
                    let dur = random.latency(op.typical);
                    columns.push(ids[i], state.now, dur, &op);
                    state.now += dur + random.latency(1500.0);
                }
            }
            batches.push(columns);
        }
        batches
    }

    fn op(self, thread: usize, state: &mut State, files: &[i64], random: &mut Random) -> Op {
        let op = |call, file: usize, fd, pos, length, result, flags, typical| Op {
            call,
            file: files[file],
            fd,
            pos,
            length,
            result,
            flags,
            typical,
        };
        match self {
            Self::Random => {
                let pos = random.below(1 << 20) as i64 * 4096;
                op(Call::Pread, 0, 3, pos, 4096, 4096, NULL, 60_000.0)
            }
            Self::Database => {
                state.step += 1;
                match state.step % 12 {
                    10 => {
                        let length = 8192 * (1 + random.below(3) as i64);
                        let pos = state.pos;
                        state.pos += length;
                        op(Call::Pwrite, 90 + thread, 9, pos, length, length, NULL, 6_000.0)
                    }
                    11 => op(Call::Fdatasync, 90 + thread, 9, NULL, NULL, 0, NULL, 400_000.0),
                    step => {
                        let file = (random.unit() * random.unit() * 40.0) as usize;
                        let pos = (random.unit() * random.unit() * 131_072.0) as i64 * 8192;
                        let call = if step % 4 == 3 { Call::Pwrite } else { Call::Pread };
                        op(call, file, 10 + file as i64, pos, 8192, 8192, NULL, 2_500.0)
                    }
                }
            }
            Self::Tar => {
                if state.left == 0 {
                    state.file = (state.file + 1) % files.len();
                    state.left = 5 + random.below(6) as usize;
                    state.parts = state.left - 4;
                    state.at = 0;
                }
                state.left -= 1;
                let file = state.file;
                match (state.parts + 4 - state.left, state.left) {
                    (1, _) => op(Call::Stat, file, NULL, NULL, NULL, 0, NULL, 1_200.0),
                    (2, _) => op(Call::Open, file, 4, NULL, NULL, 4, 0o2_000_000, 2_500.0),
                    (3, _) => op(Call::Fstat, file, 4, NULL, NULL, 0, NULL, 400.0),
                    (_, 0) => op(Call::Close, file, 4, NULL, NULL, 0, NULL, 400.0),
                    (step, left) if step % 2 == 1 => {
                        let moved = if left <= 2 { random.below(10_240) as i64 } else { 10_240 };
                        let pos = state.at;
                        state.at += moved;
                        op(Call::Read, file, 4, pos, 10_240, moved, NULL, 2_000.0)
                    }
                    _ => {
                        let pos = state.pos;
                        state.pos += 10_240;
                        op(Call::Write, 0, 3, pos, 10_240, 10_240, NULL, 4_000.0)
                    }
                }
            }
        }
    }
}

#[derive(Default)]
struct State {
    now: i64,
    step: usize,
    pos: i64,
    at: i64,
    file: usize,
    left: usize,
    parts: usize,
}

impl Columns {
    fn push(&mut self, thread: i64, ts: i64, dur: i64, op: &Op) {
        self.ts.push(ts);
        self.dur.push(dur);
        self.thread.push(thread);
        self.call.push(Call::ALL.iter().position(|c| *c == op.call).expect("a known call") as i32);
        self.file.push(op.file);
        self.fd.push(op.fd);
        self.pos.push(op.pos);
        self.length.push(op.length);
        self.result.push(op.result);
        self.errno.push(0);
        self.flags.push(op.flags);
    }

    fn into_batch(self) -> RecordBatch {
        let rows = self.ts.len();
        let some = |values: Vec<i64>| -> ArrayRef { Arc::new(Int64Array::from(values)) };
        let null = |values: Vec<i64>| -> ArrayRef {
            let nulls = NullBuffer::from_iter(values.iter().map(|&v| v != NULL));
            let nulls = (nulls.null_count() > 0).then_some(nulls);
            Arc::new(Int64Array::new(ScalarBuffer::from(values), nulls))
        };
        let names = StringArray::from_iter_values(Call::ALL.iter().map(|c| c.name()));
        let call = DictionaryArray::<Int32Type>::new(Int32Array::from(self.call), Arc::new(names));
        let node = DictionaryArray::<Int32Type>::new(
            Int32Array::from(vec![0; rows]),
            Arc::new(StringArray::from(vec!["bench-4f1d"])),
        );
        let columns: Vec<ArrayRef> = vec![
            some(self.ts),
            null(self.dur),
            Arc::new(node),
            some(self.thread),
            some(vec![0; rows]),
            Arc::new(call),
            null(self.file),
            Arc::new(Int64Array::new_null(rows)),
            null(self.fd),
            null(self.pos),
            null(self.length),
            null(self.result),
            some(self.errno),
            null(self.flags),
            some(vec![1; rows]),
            Arc::new(Int64Array::new_null(rows)),
        ];
        RecordBatch::try_new(arrow_schema(&FILE_OP), columns).expect("the columns of file_op")
    }
}
