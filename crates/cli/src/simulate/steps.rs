//! `iotrail-native simulate steps`: when steps of requests that wait for each other and for disks are done.
//!
//! Standard input is one Arrow IPC stream of steps: `delay` (BIGINT, ns), `after` (BIGINT[], numbers of rows), `disk` (BIGINT, null
//! none), `op` (0 read, 1 write, 2 flush, 3 discard), `pos`, `length` and `service` (BIGINT; of a step without a disk anything),
//! `others` (BIGINT[], disks of which the least busy is asked instead).
//! Standard output is a stream with one row a step: `ready`, `issued` and `done` (BIGINT, ns; null it never begins).

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use arrow_array::cast::AsArray as _;
use arrow_array::types::Int64Type;
use arrow_array::{Array as _, ArrayRef, Int64Array, ListArray, RecordBatch};
use iotrail_sim::steps::{Disk, Step, Times, Work, run as run_steps};
use iotrail_sim::{Op, Request};

use super::cache::numbers_of;
use super::{batches, print_columns};
use crate::emudisk::read_device;
use crate::failure::Failure;

/// Arguments of `simulate steps`.
#[derive(clap::Args)]
pub struct Args {
    /// For each disk, how many requests it works on at a time
    #[arg(long, value_name = "N", value_delimiter = ',')]
    servers: Vec<usize>,
    /// All disks are such devices; without, requests take as long as in the record
    #[arg(long, value_name = "DEVICE")]
    on: Option<PathBuf>,
}

/// Reads, simulates and answers.
pub fn run(args: Args) -> Result<ExitCode, Failure> {
    let file = args.on.as_deref().map(read_device).transpose()?;
    let capacity = file.as_ref().map_or(u64::MAX, |file| file.device.capacity());
    let mut steps = Vec::new();
    for batch in batches()? {
        let batch = batch?;
        let [delay, op, pos, length, service] = [0, 3, 4, 5, 6].map(|at| numbers_of(&batch, at));
        let (delay, op, pos, length, service) = (delay?, op?, pos?, length?, service?);
        let (after, others) = (lists_of(&batch, 1)?, lists_of(&batch, 7)?);
        let disk = batch.columns().get(2).and_then(|column| column.as_primitive_opt::<Int64Type>());
        let disk = disk.ok_or_else(|| Failure::new("stdin: expected a BIGINT as column 2"))?;
        for at in 0..batch.num_rows() {
            let wrong = |what: &str| Failure::new(format!("stdin: row {at}: expected {what}"));
            let natural = |value: i64, what: &str| u64::try_from(value).map_err(|_| wrong(what));
            let numbers = |lists: &ListArray, what: &str| -> Result<Vec<usize>, Failure> {
                let list = lists.value(at);
                let list = list.as_primitive_opt::<Int64Type>().ok_or_else(|| wrong("a list of BIGINT"))?;
                list.values().iter().map(|row| natural(*row, what).map(|row| row as usize)).collect()
            };
            let after = numbers(after, "rows of 0 or more")?;
            let work = if disk.is_null(at) {
                None
            } else {
                let known = "a disk that --servers has";
                let disk = natural(disk.value(at), known)? as usize;
                let others = numbers(others, known)?;
                if others.iter().chain([&disk]).any(|disk| *disk >= args.servers.len()) {
                    return Err(wrong(known));
                }
                let op = [Op::Read, Op::Write, Op::Flush, Op::Trim].get(op[at] as usize).copied();
                let op = op.ok_or_else(|| wrong("an operation from 0 to 3"))?;
                let (pos, length) = (
                    natural(pos[at], "an offset of 0 or more")?,
                    natural(length[at], "a length of 0 or more")?,
                );
                if pos.checked_add(length).is_none_or(|end| end > capacity) {
                    let name = file.as_ref().map_or("a disk", |file| &file.name);
                    let expected = format!("{name}: expected requests below {capacity} bytes, its capacity");
                    return Err(Failure::new(format!("{expected}, found one at {pos}"))
                        .hint("a device file can say a larger capacity"));
                }
                let request = Request { op, pos, length };
                let service = natural(service[at], "a time of 0 or more")?;
                Some(Work { disk, others, request, service })
            };
            let delay = natural(delay[at], "a delay of 0 or more")?;
            steps.push(Step { after, delay, work });
        }
    }
    let device = file.map(|file| file.build());
    let simulated = || device.clone().map(Disk::Simulated);
    let mut disks: Vec<_> =
        args.servers.iter().map(|servers| simulated().unwrap_or_else(|| Disk::recorded(*servers))).collect();
    let times = run_steps(&steps, &mut disks);
    let column = |of: fn(&Times) -> u64| -> ArrayRef {
        let values = times.iter().map(|times| times.as_ref().and_then(|times| i64::try_from(of(times)).ok()));
        Arc::new(values.collect::<Int64Array>())
    };
    print_columns([
        ("ready", column(|times| times.ready)),
        ("issued", column(|times| times.issued)),
        ("done", column(|times| times.done)),
    ])
}

fn lists_of(batch: &RecordBatch, column: usize) -> Result<&ListArray, Failure> {
    let lists = batch.columns().get(column).and_then(|column| column.as_list_opt::<i32>());
    lists.ok_or_else(|| Failure::new(format!("stdin: expected lists as column {column}")))
}
