//! `iotrail-native simulate device`: recorded requests on other devices.
//!
//! Standard input is one Arrow IPC stream of requests in the order of their arrivals: `ts` (BIGINT, ns), `dur` (BIGINT, ns,
//! null unknown), `device`, `op` (0 read, 1 write, 2 flush, 3 discard), `pos`, `length` and `flags` (BIGINT; 8: a flush goes
//! before, 4: the write is durable when it completes). Each device of the record gets a simulated one of its own.

use std::collections::HashMap;
use std::path::PathBuf;
use std::process::ExitCode;

use arrow_array::cast::AsArray as _;
use arrow_array::types::Int64Type;
use arrow_array::{Array as _, RecordBatch};
use arrow_ipc::reader::StreamReader;
use iotrail_sim::file::DeviceFile;
use iotrail_sim::requests::{Arrivals, Recorded, Served, serve};
use iotrail_sim::{Device, Nanos, Op, Request};
use serde::Serialize;

use super::cache::numbers_of;
use super::op_of;
use crate::emudisk::read_device;
use crate::failure::Failure;

/// Arguments of `simulate device`.
#[derive(clap::Args)]
pub struct Args {
    /// Device file, or the name of one that comes with iotrail
    #[arg(long, value_name = "DEVICE", required = true)]
    on: Vec<PathBuf>,
    /// Wrap offsets that lie beyond the end of a device
    #[arg(long)]
    fold: bool,
}

/// Requests of `disk_op` that empty the device's cache first, and those that complete on the medium only.
const PREFLUSH: i64 = 8;
const FUA: i64 = 4;

/// Response times of one kind of request, in nanoseconds.
#[derive(Serialize)]
struct Times {
    op: &'static str,
    count: u64,
    mean_ns: f64,
    p50_ns: Nanos,
    p99_ns: Nanos,
    max_ns: Nanos,
}

/// What happened to all requests.
#[derive(Serialize)]
pub(super) struct Outcome {
    /// From the first arrival to the last completion; null if no completion is known.
    elapsed_ns: Option<Nanos>,
    times: Vec<Times>,
    /// Of all devices; null if the device file has no watts, or nothing was simulated.
    energy_j: Option<f64>,
    /// Share of requests that memory served without the medium; null if nothing was simulated.
    cached: Option<f64>,
    /// Share of the elapsed time in which a device has requests, of all devices; null if nothing was simulated.
    utilisation: Option<f64>,
}

#[derive(Serialize)]
struct OnDevice {
    device: String,
    /// Each request at its recorded time.
    arrivals_recorded: Outcome,
    /// Each request as long after the completion before it as in the record; null if no completion is known.
    arrivals_after_completions: Option<Outcome>,
}

#[derive(Serialize)]
struct Answer {
    requests: u64,
    devices: u64,
    /// Requests whose completion isn't known.
    without_end: u64,
    recorded: Outcome,
    simulated: Vec<OnDevice>,
}

/// Which simulated requests a recorded one became: a flush can go before it or after it, and it can be cut.
pub(super) struct Row {
    pub(super) op: Op,
    pub(super) first: usize,
    pub(super) last: usize,
    pub(super) dur: Option<Nanos>,
}

/// Reads, simulates and answers.
pub fn run(args: Args) -> Result<ExitCode, Failure> {
    let files: Vec<DeviceFile> = args.on.iter().map(|path| read_device(path)).collect::<Result<_, _>>()?;
    let (rows, requests, devices) = read()?;
    let mut simulated = Vec::new();
    for file in &files {
        let capacity = file.device.capacity();
        let requests = fit(&requests, capacity, args.fold, &file.name)?;
        let device = file.build();
        let outcome = |arrivals| {
            let mut built = vec![device.clone(); devices.len()];
            let served = serve(&mut built, &requests, arrivals);
            simulated_outcome(&rows, &requests, &served, &built)
        };
        simulated.push(OnDevice {
            device: file.name.clone(),
            arrivals_recorded: outcome(Arrivals::Recorded),
            arrivals_after_completions: has_ends(&rows).then(|| outcome(Arrivals::AfterCompletions)),
        });
    }
    super::print(&Answer {
        requests: rows.len() as u64,
        devices: devices.len() as u64,
        without_end: rows.iter().filter(|row| row.dur.is_none()).count() as u64,
        recorded: recorded_outcome(&rows, &requests),
        simulated,
    })
}

/// Whether the record says when requests were done: else nobody knows what waited for what.
pub(super) fn has_ends(rows: &[Row]) -> bool {
    rows.iter().any(|row| row.dur.is_some())
}

/// Requests within a device's capacity.
pub(super) fn fit(
    requests: &[Recorded],
    capacity: u64,
    fold: bool,
    name: &str,
) -> Result<Vec<Recorded>, Failure> {
    let place = |recorded: &Recorded| {
        let Request { pos, length, .. } = recorded.request;
        if pos.checked_add(length).is_some_and(|end| end <= capacity) {
            return Ok(*recorded);
        }
        if !fold || length > capacity {
            let message =
                format!("{name}: expected requests below {capacity} bytes, its capacity, found one at {pos}");
            return Err(
                Failure::new(message).hint("--fold wraps offsets; a device file can say a larger capacity")
            );
        }
        let sector = 4096.min(capacity);
        let pos = (pos % (capacity - length + 1)) / sector * sector;
        Ok(Recorded { request: Request { pos, ..recorded.request }, ..*recorded })
    };
    requests.iter().map(place).collect()
}

/// The rows of standard input, the requests that they become, and the indices of their devices.
pub(super) type Input = (Vec<Row>, Vec<Recorded>, HashMap<i64, usize>);

/// Reads standard input.
pub(super) fn read() -> Result<Input, Failure> {
    let broken = |e| Failure::new(format!("stdin: not a whole Arrow IPC stream: {e}"));
    let (mut rows, mut requests, mut devices) = (Vec::new(), Vec::new(), HashMap::new());
    for batch in StreamReader::try_new(std::io::stdin().lock(), None).map_err(broken)? {
        let batch: RecordBatch = batch.map_err(broken)?;
        let durs = batch.columns().get(1).and_then(|column| column.as_primitive_opt::<Int64Type>());
        let durs = durs.ok_or_else(|| Failure::new("stdin: expected a BIGINT as column 1"))?;
        let [ts, device, op, pos, length, flags] = [0, 2, 3, 4, 5, 6].map(|at| numbers_of(&batch, at));
        let (ts, device, op, pos, length, flags) = (ts?, device?, op?, pos?, length?, flags?);
        for at in 0..batch.num_rows() {
            let wrong = |what: &str| Failure::new(format!("stdin: row {at}: expected {what}"));
            let arrival = Nanos::try_from(ts[at]).map_err(|_| wrong("a time of 0 or more"))?;
            let dur = (!durs.is_null(at)).then(|| durs.value(at));
            let dur = dur.map(Nanos::try_from).transpose().map_err(|_| wrong("a duration of 0 or more"))?;
            let place =
                |value: i64| u64::try_from(value).map_err(|_| wrong("an offset and a length of 0 or more"));
            let (pos, length) = (place(pos[at])?, place(length[at])?);
            let op = op_of(op[at]).ok_or_else(|| wrong("an operation from 0 to 3"))?;
            let next = devices.len();
            let device = *devices.entry(device[at]).or_insert(next);
            let done = dur.map(|dur| arrival.saturating_add(dur));
            let flush = Request { op: Op::Flush, pos: 0, length: 0 };
            let first = requests.len();
            let mut push = |request, done| requests.push(Recorded { device, arrival, done, request });
            if op != Op::Flush && flags[at] & PREFLUSH != 0 {
                push(flush, None);
            }
            let fua = op == Op::Write && flags[at] & FUA != 0;
            let request = if op == Op::Flush { flush } else { Request { op, pos, length } };
            push(request, if fua { None } else { done });
            if fua {
                push(flush, done);
            }
            rows.push(Row { op, first, last: requests.len() - 1, dur });
        }
    }
    if requests.windows(2).any(|pair| pair[0].arrival > pair[1].arrival) {
        return Err(Failure::new("stdin: expected requests in the order of their arrivals"));
    }
    Ok((rows, requests, devices))
}

fn recorded_outcome(rows: &[Row], requests: &[Recorded]) -> Outcome {
    let start = requests.first().map_or(0, |first| first.arrival);
    let ends = requests.iter().filter_map(|request| request.done);
    let durs = rows.iter().filter_map(|row| Some((row.op, row.dur?)));
    Outcome {
        elapsed_ns: ends.max().map(|end| end - start),
        times: times(durs),
        energy_j: None,
        cached: None,
        utilisation: None,
    }
}

pub(super) fn simulated_outcome(
    rows: &[Row],
    requests: &[Recorded],
    served: &[Served],
    devices: &[Box<dyn Device>],
) -> Outcome {
    let elapsed_ns = served.iter().map(|served| served.completion.done).max();
    let done = |row: &Row| served[row.first..=row.last].iter().map(|served| served.completion.done).max();
    let durs = rows.iter().filter_map(|row| Some((row.op, done(row)? - served[row.first].arrival)));
    let energies = devices.iter().map(|device| device.energy(elapsed_ns?));
    let cached = served.iter().filter(|served| served.completion.cached).count();
    Outcome {
        elapsed_ns,
        times: times(durs),
        energy_j: energies.sum(),
        cached: (!served.is_empty()).then(|| cached as f64 / served.len() as f64),
        utilisation: utilisation(requests, served, devices.len()),
    }
}

/// Share of the time from 0 to the last completion in which a device has requests, on average over the devices.
fn utilisation(requests: &[Recorded], served: &[Served], devices: usize) -> Option<f64> {
    let end = served.iter().map(|served| served.completion.done).max().filter(|end| *end > 0)?;
    let mut spans: Vec<Vec<(Nanos, Nanos)>> = vec![Vec::new(); devices];
    for (recorded, served) in requests.iter().zip(served) {
        spans[recorded.device].push((served.arrival, served.completion.done));
    }
    let mut busy: u128 = 0;
    for spans in &mut spans {
        spans.sort_unstable();
        let mut until = 0;
        for (from, to) in spans {
            busy += u128::from(to.saturating_sub(until.max(*from)));
            until = until.max(*to);
        }
    }
    Some(busy as f64 / (u128::from(end) * devices as u128) as f64)
}

fn times(durs: impl Iterator<Item = (Op, Nanos)>) -> Vec<Times> {
    const OPS: [(Op, &str); 4] =
        [(Op::Read, "read"), (Op::Write, "write"), (Op::Flush, "flush"), (Op::Trim, "discard")];
    let mut by_op: [Vec<Nanos>; 4] = Default::default();
    for (op, dur) in durs {
        by_op[OPS.iter().position(|(known, _)| *known == op).unwrap_or(0)].push(dur);
    }
    let mut all = Vec::new();
    for ((_, op), durs) in OPS.into_iter().zip(&mut by_op) {
        durs.sort_unstable();
        let Some(max) = durs.last().copied() else { continue };
        // nearest rank
        let quantile =
            |share: f64| durs[((durs.len() as f64 * share).ceil() as usize).clamp(1, durs.len()) - 1];
        all.push(Times {
            op,
            count: durs.len() as u64,
            mean_ns: durs.iter().map(|dur| *dur as f64).sum::<f64>() / durs.len() as f64,
            p50_ns: quantile(0.5),
            p99_ns: quantile(0.99),
            max_ns: max,
        });
    }
    all
}
