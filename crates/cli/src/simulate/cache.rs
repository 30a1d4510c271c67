//! `iotrail-native simulate cache`: what caches miss.
//!
//! Standard input is one Arrow IPC stream of requests in their order: `device`, `pos` and `length` (BIGINT, bytes) and
//! `write` (BOOLEAN), none of them null. A request uses each block that it touches, from the first on. Standard output gets
//! JSON: counts of all uses, the misses of LRU caches of all sizes, and those of other policies at some sizes; estimates of
//! both if only a sample of the blocks is simulated.

use std::cell::Cell;
use std::collections::HashMap;
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};

use arrow_array::cast::AsArray as _;
use arrow_array::types::Int64Type;
use arrow_array::{Array as _, RecordBatch};
use arrow_ipc::reader::StreamReader;
use iotrail_sim::cache::shards::{GROUPS, Groups, Shards, bound, miniature};
use iotrail_sim::cache::{Numbers, Policy, Reuse};
use serde::Serialize;

use crate::arguments::size;
use crate::failure::Failure;

/// In a use, beside the block's number: it is a write.
const WRITE: u32 = 1 << 31;
/// Uses that are kept at most, of 4 bytes each.
const MOST_USES: u64 = 1 << 30;
/// Uses that a sample is taken from at most.
const MOST_SAMPLED: u64 = 1 << 50;
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
    /// Without sizes: so many for each half
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=16))]
    per_half: u32,
    /// Estimate from a sample of this share of all blocks
    #[arg(long, value_name = "RATE", value_parser = rate)]
    shards: Option<f64>,
}

fn rate(text: &str) -> Result<f64, String> {
    let rate = text.parse().ok().filter(|rate: &f64| *rate > 0.0 && *rate < 1.0);
    rate.ok_or_else(|| format!("expected a share above 0 and below 1, found {text:?}"))
}

pub(super) fn policy(name: &str) -> Result<Policy, String> {
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
    /// Of a sample: half the width of the 95 % confidence intervals.
    #[serde(skip_serializing_if = "Option::is_none")]
    bounds: Option<Bounds>,
}

#[derive(Serialize)]
struct Bounds {
    read: Vec<u64>,
    write: Vec<u64>,
}

/// What estimates are from.
#[derive(Serialize)]
struct Sampled {
    rate: f64,
    uses: u64,
    blocks: u32,
}

#[derive(Serialize)]
struct Answer {
    block_bytes: u64,
    reads: u64,
    writes: u64,
    /// Different ones.
    blocks: u32,
    /// None if all blocks were simulated.
    sample: Option<Sampled>,
    /// First uses, which every cache misses.
    first_reads: u64,
    first_writes: u64,
    /// LRU at sizes that are dense, as a curve.
    curve: Misses,
    policies: Vec<Misses>,
}

/// Uses of blocks, of all or of a sample.
struct Uses {
    /// A block's number, and [`WRITE`].
    uses: Vec<u32>,
    /// Different blocks in `uses`.
    blocks: u32,
    groups: Groups,
    /// Share of blocks that are in `uses`.
    rate: f64,
    /// Of all blocks, reads and writes.
    total: [u64; 2],
}

impl Uses {
    /// Those that are not in a group of blocks; all without one.
    fn without(&self, group: Option<u8>) -> impl Iterator<Item = u32> {
        let is_left =
            move |used: &u32| group.is_none_or(|group| self.groups.is_outside(used & !WRITE, group));
        self.uses.iter().copied().filter(is_left)
    }

    /// The share of blocks that are left then.
    fn rate_without(&self, group: Option<u8>) -> f64 {
        group.map_or(self.rate, |_| self.rate * f64::from(GROUPS - 1) / f64::from(GROUPS))
    }

    /// For how many misses of all uses those of the sample stand.
    fn scaled(&self, misses: [u64; 2], rate: f64) -> [f64; 2] {
        [0, 1].map(|kind| (misses[kind] as f64 / rate).min(self.total[kind] as f64))
    }

    /// None, and each group if this is a sample.
    fn groups(&self) -> Vec<Option<u8>> {
        let groups = if self.rate < 1.0 { GROUPS } else { 0 };
        std::iter::once(None).chain((0..groups).map(Some)).collect()
    }

    /// Of estimates at each size, by group left out with that of all first.
    fn misses(&self, policy: Policy, size: Vec<u32>, estimates: &[Vec<[f64; 2]>]) -> Misses {
        let of = |kind: usize| estimates[0].iter().map(|misses| misses[kind].round() as u64).collect();
        let bounds = |kind: usize| {
            let at = |at: usize| {
                let without: Vec<f64> = estimates[1..].iter().map(|sizes| sizes[at][kind]).collect();
                bound(&without, self.rate).ceil() as u64
            };
            (0..size.len()).map(at).collect()
        };
        let bounds = (estimates.len() > 1).then(|| Bounds { read: bounds(0), write: bounds(1) });
        Misses { policy: policy.name(), read: of(0), write: of(1), bounds, size }
    }
}

/// Reads, simulates and answers.
pub fn run(args: Args) -> Result<ExitCode, Failure> {
    let uses = read(args.block, args.shards)?;
    let blocks = ((f64::from(uses.blocks) / uses.rate).round() as u32).max(uses.blocks);
    let curve = curve(&uses);
    let [first_reads, first_writes] =
        [&curve.read, &curve.write].map(|misses| misses.last().copied().unwrap_or(0));
    let sizes: Vec<u32> = if args.size.is_empty() {
        halves(blocks, args.per_half)
    } else {
        args.size.iter().map(|bytes| u32::try_from(bytes / args.block).unwrap_or(u32::MAX)).collect()
    };
    let [reads, writes] = uses.total;
    let sample = args.shards.map(|rate| Sampled { rate, uses: uses.uses.len() as u64, blocks: uses.blocks });
    let policies = simulate(&args.policy, &sizes, &uses);
    let block_bytes = args.block;
    super::print(&Answer {
        block_bytes,
        reads,
        writes,
        blocks,
        sample,
        first_reads,
        first_writes,
        curve,
        policies,
    })
}

/// Sizes from a 128th of all blocks to all of them, each half of the next, or so many for each half.
fn halves(blocks: u32, per_half: u32) -> Vec<u32> {
    let size = |step: u32| (f64::from(blocks) / (f64::from(step) / f64::from(per_half)).exp2()) as u32;
    let mut sizes: Vec<u32> = (0..=7 * per_half).rev().map(size).filter(|size| *size > 0).collect();
    sizes.dedup();
    sizes
}

/// The uses of blocks of all requests, or of a sample of the blocks.
fn read(block: u64, rate: Option<f64>) -> Result<Uses, Failure> {
    let broken = |e| Failure::new(format!("stdin: not a whole Arrow IPC stream: {e}"));
    let (mut numbers, mut devices) = (Numbers::default(), HashMap::new());
    let shards = rate.map(Shards::new);
    let (mut uses, mut groups, mut total) = (Vec::new(), Groups::default(), [0_u64; 2]);
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
            let count = blocks.end() - blocks.start() + 1;
            total[usize::from(write.value(at))] += count;
            let kept = if shards.is_some() { uses.len() as u64 } else { total[0] + total[1] };
            if kept > MOST_USES || total[0] + total[1] > MOST_SAMPLED {
                return Err(Failure::new(format!("more than {MOST_USES} uses of blocks of {block} bytes"))
                    .hint("larger blocks, a sample (--shards), one machine or a stretch of time are fewer"));
            }
            let kind = if write.value(at) { WRITE } else { 0 };
            for used in blocks {
                let group = match shards.map(|shards| shards.group(device, used)) {
                    Some(None) => continue,
                    Some(group) => group,
                    None => None,
                };
                let number = numbers.of(device, used).filter(|number| number & WRITE == 0);
                let number = number.ok_or_else(|| Failure::new("more than 2^31 different blocks"))?;
                if let Some(group) = group {
                    groups.note(number, group);
                }
                uses.push(number | kind);
            }
        }
    }
    if uses.is_empty() && total != [0, 0] {
        return Err(
            Failure::new("the sample has no blocks").hint("a larger rate has more, and no --shards all")
        );
    }
    Ok(Uses { uses, blocks: numbers.len(), groups, rate: rate.unwrap_or(1.0), total })
}

pub fn numbers_of(batch: &RecordBatch, at: usize) -> Result<&[i64], Failure> {
    let column = batch.columns().get(at).and_then(|column| column.as_primitive_opt::<Int64Type>());
    let column = column.filter(|column| column.null_count() == 0).map(|column| column.values().as_ref());
    column.ok_or_else(|| Failure::new(format!("stdin: expected a BIGINT without null as column {at}")))
}

/// The misses of LRU caches at dense sizes, up to the one that misses first uses only.
fn curve(uses: &Uses) -> Misses {
    let mut size = Vec::new();
    let mut estimates = Vec::new();
    for group in uses.groups() {
        let rate = uses.rate_without(group);
        let served = distances(uses, group);
        let most = served.iter().rposition(|count| *count != [0; 2]).unwrap_or(0);
        if group.is_none() {
            size = sizes_of_curve((most as f64 / rate).ceil() as u32);
        }
        estimates.push(misses_at(&size, &served, uses, rate));
    }
    uses.misses(Policy::Lru, size, &estimates)
}

/// Uses by their reuse distance, of reads and writes; at 0 the first uses.
fn distances(uses: &Uses, group: Option<u8>) -> Vec<[u64; 2]> {
    let mut reuse = Reuse::new(uses.blocks);
    let mut served = vec![[0_u64; 2]; uses.blocks as usize + 1];
    for used in uses.without(group) {
        let distance = reuse.touch(used & !WRITE);
        served[distance as usize][usize::from(used & WRITE != 0)] += 1;
    }
    served
}

fn misses_at(sizes: &[u32], served: &[[u64; 2]], uses: &Uses, rate: f64) -> Vec<[f64; 2]> {
    let mut left = served.iter().fold([0, 0], |sum, count| [sum[0] + count[0], sum[1] + count[1]]);
    let mut done = 0;
    let at = |size: &u32| {
        let size = (miniature(*size, rate) as usize).min(served.len() - 1);
        for count in &served[done + 1..=size.max(done)] {
            left = [left[0] - count[0], left[1] - count[1]];
        }
        done = size.max(done);
        uses.scaled(left, rate)
    };
    sizes.iter().map(at).collect()
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
fn simulate(policies: &[Policy], sizes: &[u32], uses: &Uses) -> Vec<Misses> {
    let groups = uses.groups();
    let jobs: Vec<(usize, usize, usize)> = (0..policies.len())
        .flat_map(|policy| (0..groups.len()).map(move |group| (policy, group)))
        .flat_map(|(policy, group)| (0..sizes.len()).map(move |size| (policy, group, size)))
        .collect();
    let next = AtomicUsize::new(0);
    let work = || {
        let mut done = Vec::new();
        loop {
            let job = next.fetch_add(1, Ordering::Relaxed);
            let Some((policy, group, size)) = jobs.get(job).copied() else { break };
            let rate = uses.rate_without(groups[group]);
            // A use is taken just before it is missed.
            let (mut missed, is_write) = ([0_u64; 2], Cell::new(false));
            let blocks = uses.without(groups[group]).map(|used| {
                is_write.set(used & WRITE != 0);
                used & !WRITE
            });
            policies[policy].run(miniature(sizes[size], rate), uses.blocks, blocks, |_| {
                missed[usize::from(is_write.get())] += 1;
            });
            done.push((job, uses.scaled(missed, rate)));
        }
        done
    };
    let cores = std::thread::available_parallelism().map_or(1, usize::from).min(jobs.len());
    let mut done: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..cores).map(|_| scope.spawn(work)).collect();
        threads.into_iter().flat_map(|thread| thread.join().expect("no policy panics")).collect()
    });
    done.sort_unstable_by_key(|(job, _)| *job);
    let estimates: Vec<[f64; 2]> = done.into_iter().map(|(_, misses)| misses).collect();
    let by_policy = estimates.chunks(groups.len() * sizes.len().max(1));
    let answer = |(policy, estimates): (&Policy, &[[f64; 2]])| {
        let by_group: Vec<_> = estimates.chunks(sizes.len()).map(<[_]>::to_vec).collect();
        uses.misses(*policy, sizes.to_vec(), &by_group)
    };
    policies.iter().zip(by_policy).map(answer).collect()
}
