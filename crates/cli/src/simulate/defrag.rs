//! `iotrail-native simulate defrag`: recorded requests on a device before and after the blocks of each file are put one after
//! the other (`iotrail_sim::layout`), and what that takes.
//!
//! Standard input is what `simulate device` takes. `--extents` names an Arrow IPC stream of where files were: `ts`, `device`,
//! `pos`, `length`, `file` and `file_pos` (BIGINT, ns and bytes; `file_pos` null: the parts of the file are in the order of
//! their first use), in the order of `ts`.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use arrow_array::cast::AsArray as _;
use arrow_array::types::Int64Type;
use arrow_array::{Array as _, ArrayRef, Int64Array, RecordBatch};
use arrow_ipc::reader::StreamReader;
use arrow_ipc::writer::StreamWriter;
use iotrail_sim::device::run_in_turn;
use iotrail_sim::layout::{Extent, Layout, Move, Uses};
use iotrail_sim::requests::{Arrivals, Recorded, serve};
use iotrail_sim::{Device, Nanos, Op, Request};
use serde::Serialize;

use super::cache::numbers_of;
use super::device::{Outcome, Row, fit, read, simulated_outcome};
use crate::emudisk::read_device;
use crate::failure::Failure;

/// Requests that a request is compared with to see whether it is sequential: as in sql/io/block_link.sql.
const STREAM_REQUESTS: usize = 16;
/// Bytes that are read before they are written to their new places, and those of a request.
const BUFFER: u64 = 64 << 20;
const MOST_REQUESTED: u64 = 1 << 20;

/// Arguments of `simulate defrag`.
#[derive(clap::Args)]
pub struct Args {
    /// Device file, or the name of one that comes with iotrail
    #[arg(long, value_name = "DEVICE")]
    on: PathBuf,
    /// Where files were
    #[arg(long, value_name = "FILE")]
    extents: PathBuf,
    /// The extents are all that the files have: what lies between is no part of them
    #[arg(long)]
    complete: bool,
    /// Write the requests at their new places to this file, an Arrow IPC stream: `ts`, `device`, `op`, `pos`, `length`
    #[arg(long, value_name = "FILE")]
    rearranged: Option<PathBuf>,
}

/// Requests in one arrangement.
#[derive(Serialize)]
struct Arrangement {
    /// Reads and writes, as the device gets them, and those that go on where an earlier one ended.
    requests: u64,
    sequential: u64,
    /// Each request at its recorded time.
    arrivals_recorded: Outcome,
    /// Each request as long after the completion before it as in the record.
    arrivals_after_completions: Outcome,
}

#[derive(Serialize)]
struct OfFile {
    file: i64,
    fragments: u64,
    bytes: u64,
}

/// The work of rearranging, on idle devices one after the other.
#[derive(Serialize)]
struct Rearranging {
    bytes: u64,
    reads: u64,
    writes: u64,
    elapsed_ns: Nanos,
}

#[derive(Serialize)]
struct Answer {
    device: String,
    requests: u64,
    devices: u64,
    /// Reads and writes whose bytes are all in known files.
    in_files: u64,
    reads_and_writes: u64,
    /// From the first arrival to the last.
    span_ns: Nanos,
    files: Vec<OfFile>,
    before: Arrangement,
    after: Arrangement,
    rearranging: Rearranging,
}

/// An extent on one of the record's devices, and when it was seen.
struct Seen {
    ts: Nanos,
    device: usize,
    extent: Extent,
}

/// Reads, simulates and answers.
pub fn run(args: Args) -> Result<ExitCode, Failure> {
    let file = read_device(&args.on)?;
    let (rows, requests, devices) = read()?;
    let capacity = file.device.capacity();
    fit(&requests, capacity, false, &file.name)?;
    let seen = read_extents(&args.extents, &devices)?;
    let mut layouts = layouts(&requests, &seen, devices.len(), &args, capacity)
        .map_err(|message| Failure::new(format!("{}: {message}", file.name)).hint(ROOM))?;
    let is_move = |request: &&Recorded| matches!(request.request.op, Op::Read | Op::Write);
    let is_in_files = |recorded: &&Recorded| {
        let Request { pos, length, .. } = recorded.request;
        length > 0 && layouts[recorded.device].is_in_files(pos, length)
    };
    let in_files = requests.iter().filter(is_move).filter(is_in_files).count() as u64;
    let (new_rows, new_requests) = rearrange(&rows, &requests, &seen, &mut layouts);
    if let Some(path) = &args.rearranged {
        write(path, &new_rows, &new_requests, &devices)?;
    }
    let files = layouts.iter().flat_map(Layout::fragments);
    let device = file.build();
    let at_rest = || vec![device.clone(); devices.len()];
    super::print(&Answer {
        device: file.name.clone(),
        requests: rows.len() as u64,
        devices: devices.len() as u64,
        in_files,
        reads_and_writes: requests.iter().filter(is_move).count() as u64,
        span_ns: requests
            .first()
            .zip(requests.last())
            .map_or(0, |(first, last)| last.arrival - first.arrival),
        files: files
            .map(|each| OfFile { file: each.file, fragments: each.fragments, bytes: each.bytes })
            .collect(),
        before: arrangement(&rows, &requests, at_rest),
        after: arrangement(&new_rows, &new_requests, at_rest),
        rearranging: rearranging(&layouts, at_rest())?,
    })
}

const ROOM: &str = "a device file can say a larger capacity; a map of the files (--fiemap) tells holes from parts that nobody used";

fn read_extents(path: &Path, devices: &HashMap<i64, usize>) -> Result<Vec<Seen>, Failure> {
    let broken = |e: &dyn std::fmt::Display| Failure::new(format!("{}: {e}", path.display()));
    let file = File::open(path).map_err(|e| broken(&e))?;
    let (mut seen, mut uses) = (Vec::new(), HashMap::new());
    for batch in StreamReader::try_new(std::io::BufReader::new(file), None).map_err(|e| broken(&e))? {
        let batch: RecordBatch = batch.map_err(|e| broken(&e))?;
        let [ts, device, pos, length, file] = [0, 1, 2, 3, 4].map(|at| numbers_of(&batch, at));
        let (ts, device, pos, length, file) = (ts?, device?, pos?, length?, file?);
        let file_pos = batch.columns().get(5).and_then(|column| column.as_primitive_opt::<Int64Type>());
        let file_pos = file_pos.ok_or_else(|| broken(&"expected a BIGINT as column 5"))?;
        for at in 0..batch.num_rows() {
            let number = |value: i64| {
                let wrong = || broken(&format!("row {at}: expected numbers of 0 or more"));
                u64::try_from(value).map_err(|_| wrong())
            };
            let (ts, pos, length) = (number(ts[at])?, number(pos[at])?, number(length[at])?);
            // A device without a request needs no place.
            let Some(device) = devices.get(&device[at]).copied().filter(|_| length > 0) else { continue };
            if file_pos.is_valid(at) {
                let extent = Extent { pos, length, file: file[at], file_pos: number(file_pos.value(at))? };
                seen.push(Seen { ts, device, extent });
                continue;
            }
            let uses: &mut Uses = uses.entry((device, file[at])).or_default();
            let extents = uses.extents(file[at], pos, length);
            seen.extend(extents.into_iter().map(|extent| Seen { ts, device, extent }));
        }
    }
    Ok(seen)
}

fn layouts(
    requests: &[Recorded],
    seen: &[Seen],
    devices: usize,
    args: &Args,
    capacity: u64,
) -> Result<Vec<Layout>, iotrail_sim::layout::TooLarge> {
    let of = |device| {
        let extents: Vec<Extent> =
            seen.iter().filter(|seen| seen.device == device).map(|seen| seen.extent).collect();
        let used = requests
            .iter()
            .filter(|recorded| {
                recorded.device == device && matches!(recorded.request.op, Op::Read | Op::Write)
            })
            .map(|recorded| (recorded.request.pos, recorded.request.length));
        Layout::new(&extents, used, args.complete, capacity)
    };
    (0..devices).map(of).collect()
}

/// The requests at their new places. Whoever waits for one that was cut waits for its last part.
fn rearrange(
    rows: &[Row],
    requests: &[Recorded],
    seen: &[Seen],
    layouts: &mut [Layout],
) -> (Vec<Row>, Vec<Recorded>) {
    let (mut new_rows, mut new) = (Vec::new(), Vec::new());
    let mut extents = seen.iter().peekable();
    for row in rows {
        let first = new.len();
        for recorded in &requests[row.first..=row.last] {
            while let Some(seen) = extents.next_if(|seen| seen.ts <= recorded.arrival) {
                layouts[seen.device].see(&seen.extent);
            }
            let Request { op, pos, length } = recorded.request;
            let mut parts = if op == Op::Flush || length == 0 {
                vec![(pos, length)]
            } else {
                layouts[recorded.device].map(pos, length)
            };
            if parts.is_empty() {
                // a discard of bytes that nothing used
                parts.push((pos, 0));
            }
            let count = parts.len();
            new.extend(parts.into_iter().enumerate().map(|(at, (pos, length))| Recorded {
                done: recorded.done.filter(|_| at + 1 == count),
                request: Request { op, pos, length },
                ..*recorded
            }));
        }
        new_rows.push(Row { op: row.op, first, last: new.len() - 1, dur: row.dur });
    }
    (new_rows, new)
}

fn arrangement(
    rows: &[Row],
    requests: &[Recorded],
    at_rest: impl Fn() -> Vec<Box<dyn Device>>,
) -> Arrangement {
    let outcome = |arrivals| {
        let mut built = at_rest();
        let served = serve(&mut built, requests, arrivals);
        simulated_outcome(rows, requests, &served, &built)
    };
    let (requests, sequential) = sequential(requests);
    Arrangement {
        requests,
        sequential,
        arrivals_recorded: outcome(Arrivals::Recorded),
        arrivals_after_completions: outcome(Arrivals::AfterCompletions),
    }
}

/// Reads and writes, and how many of them are sequential: as in sql/io/block_link.sql.
fn sequential(requests: &[Recorded]) -> (u64, u64) {
    let (mut count, mut sequential) = (0, 0);
    // of each device and kind: ends of the last requests, and whether one went on from there
    let mut ends: BTreeMap<(usize, bool), VecDeque<(u64, bool)>> = BTreeMap::new();
    for recorded in requests {
        let Request { op, pos, length } = recorded.request;
        if !matches!(op, Op::Read | Op::Write) || length == 0 {
            continue;
        }
        count += 1;
        let ends = ends.entry((recorded.device, op == Op::Write)).or_default();
        if let Some((_, is_followed)) = ends.iter_mut().rev().find(|(end, _)| *end == pos)
            && !std::mem::replace(is_followed, true)
        {
            sequential += 1;
        }
        ends.push_back((pos + length, false));
        if ends.len() > STREAM_REQUESTS {
            ends.pop_front();
        }
    }
    (count, sequential)
}

/// What moves is read in the order of its old places and written in that of its new ones, a buffer at a time, each request
/// after the last. What has to make room for a time, because its place is needed before its own is free, isn't counted.
fn rearranging(layouts: &[Layout], devices: Vec<Box<dyn Device>>) -> Result<Rearranging, Failure> {
    let mut sum = Rearranging { bytes: 0, reads: 0, writes: 0, elapsed_ns: 0 };
    for (layout, mut device) in layouts.iter().zip(devices) {
        let moves = layout.moves();
        let mut work: Vec<Request> = Vec::new();
        let mut rest: VecDeque<Move> = moves.iter().copied().collect();
        while !rest.is_empty() {
            let mut batch: Vec<Move> = Vec::new();
            let mut room = BUFFER;
            while room > 0
                && let Some(each) = rest.pop_front()
            {
                let length = each.length.min(room);
                room -= length;
                batch.push(Move { length, ..each });
                if length < each.length {
                    let (from, to, length) = (each.from + length, each.to + length, each.length - length);
                    rest.push_front(Move { from, to, length });
                }
            }
            let written = cut(Op::Write, batch.iter().map(|each| (each.to, each.length)));
            batch.sort_unstable_by_key(|each| each.from);
            let read = cut(Op::Read, batch.iter().map(|each| (each.from, each.length)));
            sum.reads += read.len() as u64;
            sum.writes += written.len() as u64;
            work.extend(read.into_iter().chain(written));
        }
        if work.is_empty() {
            continue;
        }
        sum.bytes += moves.iter().map(|each| each.length).sum::<u64>();
        work.push(Request { op: Op::Flush, pos: 0, length: 0 });
        let served = run_in_turn(&mut *device, work.into_iter().map(|request| (0, request)));
        let served = served.ok_or_else(|| Failure::new("a request did not complete"))?;
        sum.elapsed_ns += served.last().map_or(0, |(_, completion)| completion.done);
    }
    Ok(sum)
}

/// Requests of at most [`MOST_REQUESTED`] bytes for stretches, neighbours together.
fn cut(op: Op, stretches: impl Iterator<Item = (u64, u64)>) -> Vec<Request> {
    let mut requests: Vec<Request> = Vec::new();
    for (mut pos, mut rest) in stretches {
        while rest > 0 {
            let last = requests.last_mut();
            let last = last.filter(|last| last.pos + last.length == pos && last.length < MOST_REQUESTED);
            let length = rest.min(MOST_REQUESTED - last.as_ref().map_or(0, |last| last.length));
            match last {
                Some(last) => last.length += length,
                None => requests.push(Request { op, pos, length }),
            }
            pos += length;
            rest -= length;
        }
    }
    requests
}

/// Writes requests, without the flushes that go with others.
fn write(
    path: &Path,
    rows: &[Row],
    requests: &[Recorded],
    devices: &HashMap<i64, usize>,
) -> Result<(), Failure> {
    let broken = |e: &dyn std::fmt::Display| Failure::new(format!("{}: {e}", path.display()));
    let ids: HashMap<usize, i64> = devices.iter().map(|(id, index)| (*index, *id)).collect();
    let parts = rows.iter().flat_map(|row| {
        let parts = &requests[row.first..=row.last];
        parts.iter().filter(|part| part.request.op == row.op)
    });
    let parts: Vec<&Recorded> = parts.collect();
    let column = |of: &dyn Fn(&Recorded) -> i64| -> ArrayRef {
        Arc::new(Int64Array::from_iter_values(parts.iter().map(|part| of(part))))
    };
    let columns = [
        ("ts", column(&|part| part.arrival as i64)),
        ("device", column(&|part| ids[&part.device])),
        ("op", column(&|part| part.request.op as i64)),
        ("pos", column(&|part| part.request.pos as i64)),
        ("length", column(&|part| part.request.length as i64)),
    ];
    let batch = RecordBatch::try_from_iter(columns).expect("columns of one length");
    let file = File::create(path).map_err(|e| broken(&e))?;
    let mut writer = StreamWriter::try_new(file, &batch.schema()).map_err(|e| broken(&e))?;
    writer.write(&batch).and_then(|()| writer.finish()).map_err(|e| broken(&e))
}
