//! `iotrail-native simulate cache`: what caches miss.
//!
//! Standard input is one Arrow IPC stream of requests in their order: `device`, `pos` and `length` (BIGINT, bytes) and
//! `write` (BOOLEAN), none of them null. A request uses each block that it touches, from the first on. Standard output gets
//! JSON: counts of all uses, the misses of LRU caches of all sizes, and those of other policies at some sizes.

use std::collections::HashMap;
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};

use arrow_array::cast::AsArray as _;
use arrow_array::types::Int64Type;
use arrow_array::{Array as _, RecordBatch};
use arrow_ipc::reader::StreamReader;
use iotrail_sim::cache::{Numbers, Policy, Reuse};
use serde::Serialize;

use crate::arguments::size;
use crate::failure::Failure;

/// In a use, beside the block's number: it is a write.
const WRITE: u32 = 1 << 31;
/// Uses that are kept at most, of 4 bytes each.
const MOST_USES: u64 = 1 << 30;
/// Sizes of a curve an octave.
const PER_OCTAVE: u32 = 8;

/// Arguments of `simulate cache`.
#[derive(clap::Args)]
pub struct Args {
    /// Bytes of a block
    #[arg(long, value_name = "BYTES", default_value_t = 4096, value_parser = clap::value_parser!(u64).range(1..=1 << 40))]
    block: u64,
    /// Policies beside LRU
    #[arg(long, value_name = "NAME", value_delimiter = ',', value_parser = policy)]
    policy: Vec<Policy>,
    /// Sizes of caches for these; without, eight from all different blocks down, each half of the next
    #[arg(long, value_name = "SIZE", value_delimiter = ',', value_parser = size)]
    size: Vec<u64>,
}

fn policy(name: &str) -> Result<Policy, String> {
    Policy::of_name(name).ok_or_else(|| {
        let known: Vec<_> = Policy::ALL.into_iter().map(Policy::name).collect();
        format!("there is no policy {name:?}; policies are {}", known.join(", "))
    })
}

/// Misses of a policy, by size.
#[derive(Serialize)]
struct Misses {
    policy: &'static str,
    /// In blocks.
    size: Vec<u32>,
    read: Vec<u64>,
    write: Vec<u64>,
}

#[derive(Serialize)]
struct Answer {
    block_bytes: u64,
    reads: u64,
    writes: u64,
    /// Different ones.
    blocks: u32,
    /// First uses, which every cache misses.
    first_reads: u64,
    first_writes: u64,
    /// LRU at sizes that are dense, as a curve.
    curve: Misses,
    policies: Vec<Misses>,
}

/// Reads, simulates and answers.
pub fn run(args: Args) -> Result<ExitCode, Failure> {
    let (uses, blocks) = read(args.block)?;
    let writes = uses.iter().filter(|used| **used & WRITE != 0).count() as u64;
    let curve = curve(&uses, blocks);
    let [first_reads, first_writes] =
        [&curve.read, &curve.write].map(|misses| misses.last().copied().unwrap_or(0));
    let sizes: Vec<u32> = if args.size.is_empty() {
        let halves = (0..8).map(|step| blocks >> step).filter(|size| *size > 0);
        halves.collect::<Vec<_>>().into_iter().rev().collect()
    } else {
        args.size.iter().map(|bytes| u32::try_from(bytes / args.block).unwrap_or(u32::MAX)).collect()
    };
    let answer = Answer {
        block_bytes: args.block,
        reads: uses.len() as u64 - writes,
        writes,
        blocks,
        first_reads,
        first_writes,
        curve,
        policies: simulate(&args.policy, &sizes, &uses, blocks),
    };
    super::print(&answer)
}

/// The uses of blocks of all requests, and how many different blocks there are.
fn read(block: u64) -> Result<(Vec<u32>, u32), Failure> {
    let broken = |e| Failure::new(format!("stdin: not a whole Arrow IPC stream: {e}"));
    let (mut numbers, mut devices, mut uses) = (Numbers::default(), HashMap::new(), Vec::new());
    let mut total = 0_u64;
    for batch in StreamReader::try_new(std::io::stdin().lock(), None).map_err(broken)? {
        let batch = batch.map_err(broken)?;
        let [device, pos, length] = [0, 1, 2].map(|at| numbers_of(&batch, at));
        let write = batch.columns().get(3).and_then(|column| column.as_boolean_opt());
        let (device, pos, length) = (device?, pos?, length?);
        let write = write.ok_or_else(|| Failure::new("stdin: expected a BOOLEAN as column 3"))?;
        for at in 0..batch.num_rows() {
            let (Ok(pos), Ok(length)) = (u64::try_from(pos[at]), u64::try_from(length[at])) else {
                return Err(Failure::new(format!(
                    "stdin: row {at}: expected a place and a length of 0 or more"
                )));
            };
            if length == 0 {
                continue;
            }
            let next = devices.len() as u32;
            let device = *devices.entry(device[at]).or_insert(next);
            let blocks = pos / block..=(pos + (length - 1)) / block;
            total = total.saturating_add(blocks.end() - blocks.start() + 1);
            if total > MOST_USES {
                return Err(Failure::new(format!("more than {MOST_USES} uses of blocks of {block} bytes"))
                    .hint("larger blocks, one machine or a stretch of time are fewer"));
            }
            let kind = if write.value(at) { WRITE } else { 0 };
            for used in blocks {
                let number = numbers.of(device, used).filter(|number| number & WRITE == 0);
                let number = number.ok_or_else(|| Failure::new("more than 2^31 different blocks"))?;
                uses.push(number | kind);
            }
        }
    }
    Ok((uses, numbers.len()))
}

pub(super) fn numbers_of(batch: &RecordBatch, at: usize) -> Result<&[i64], Failure> {
    let column = batch.columns().get(at).and_then(|column| column.as_primitive_opt::<Int64Type>());
    let column = column.filter(|column| column.null_count() == 0).map(|column| column.values().as_ref());
    column.ok_or_else(|| Failure::new(format!("stdin: expected a BIGINT without null as column {at}")))
}

/// The misses of LRU caches at dense sizes, up to the one that misses first uses only.
fn curve(uses: &[u32], blocks: u32) -> Misses {
    let mut reuse = Reuse::new(blocks);
    // by reuse distance, of reads and writes
    let mut served = vec![[0_u64; 2]; blocks as usize + 1];
    for used in uses {
        let distance = reuse.touch(used & !WRITE);
        served[distance as usize][usize::from(used & WRITE != 0)] += 1;
    }
    let most = served.iter().rposition(|count| *count != [0; 2]).unwrap_or(0) as u32;
    let size = sizes_of_curve(most);
    let mut left = served.iter().fold([0, 0], |sum, count| [sum[0] + count[0], sum[1] + count[1]]);
    let (mut read, mut write, mut done) = (Vec::new(), Vec::new(), 0);
    for size in &size {
        for count in &served[done + 1..=(*size).min(most).max(done as u32) as usize] {
            left = [left[0] - count[0], left[1] - count[1]];
        }
        done = (*size).min(most).max(done as u32) as usize;
        read.push(left[0]);
        write.push(left[1]);
    }
    Misses { policy: Policy::Lru.name(), size, read, write }
}

/// [`PER_OCTAVE`] sizes an octave, up to the first that is `most` or more.
fn sizes_of_curve(most: u32) -> Vec<u32> {
    let mut sizes: Vec<u32> = Vec::new();
    for step in 0.. {
        let size = (f64::from(step) / f64::from(PER_OCTAVE)).exp2().ceil() as u32;
        if sizes.last() != Some(&size) {
            sizes.push(size);
        }
        if size >= most {
            break;
        }
    }
    sizes
}

/// Misses of each policy at each size, on all cores.
fn simulate(policies: &[Policy], sizes: &[u32], uses: &[u32], blocks: u32) -> Vec<Misses> {
    let jobs: Vec<(Policy, u32)> =
        policies.iter().flat_map(|policy| sizes.iter().map(|size| (*policy, *size))).collect();
    let next = AtomicUsize::new(0);
    let work = || {
        let mut done = Vec::new();
        while let Some((policy, size)) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
            let mut missed = [0_u64; 2];
            policy.run(*size, blocks, uses.iter().map(|used| used & !WRITE), |at| {
                missed[usize::from(uses[at] & WRITE != 0)] += 1;
            });
            done.push((*policy, *size, missed));
        }
        done
    };
    let cores = std::thread::available_parallelism().map_or(1, usize::from).min(jobs.len());
    let done: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..cores).map(|_| scope.spawn(work)).collect();
        threads.into_iter().flat_map(|thread| thread.join().expect("no policy panics")).collect()
    });
    let of = |policy: Policy, kind: usize| -> Vec<u64> {
        let misses =
            |size| done.iter().find(|(p, s, _)| *p == policy && *s == size).map(|(.., missed)| missed[kind]);
        sizes.iter().filter_map(|size| misses(*size)).collect()
    };
    let answer = |policy: &Policy| Misses {
        policy: policy.name(),
        size: sizes.to_vec(),
        read: of(*policy, 0),
        write: of(*policy, 1),
    };
    policies.iter().map(answer).collect()
}
