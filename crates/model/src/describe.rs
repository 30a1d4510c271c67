//! What is compared of two workloads: counts, shares and curves, each from one pass.

use std::collections::HashMap;

use foldhash::fast::FixedState;
use iotrail_sim::cache::{Block, Numbers, Policy, Reuse};
use iotrail_sim::{Nanos, Op};
use serde::Serialize;

use crate::model::Direction;
use crate::runs::{Recent, Run};
use crate::states::States;
use crate::{Arrival, PAGE};

/// Ranks up to which a request is counted as going on with a run.
pub const RANKS: [usize; 3] = [2, 8, 32];
/// Widths of the intervals in which arrivals are counted, ns: 10 ms to 10 s.
pub const WIDTHS: [Nanos; 4] = [10_000_000, 100_000_000, 1_000_000_000, 10_000_000_000];
/// Quantiles of gaps.
pub const QUANTILES: [f64; 5] = [0.1, 0.5, 0.9, 0.99, 0.999];
/// Sizes of caches in each curve.
pub const SIZES: usize = 64;
/// Policies beside LRU whose curves are compared, at one of so many sizes of those spaced by ratio.
pub const POLICIES: [Policy; 3] = [Policy::Fifo, Policy::Arc, Policy::S3Fifo];
const EACH: usize = 4;

/// What a workload is like.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Description {
    /// Requests.
    pub requests: u64,
    /// From the first arrival to the last, ns.
    pub length_ns: u64,
    /// Reads, writes, discards by size: direction, bytes, requests.
    pub sizes: Vec<(Direction, u64, u64)>,
    /// Flushes.
    pub flushes: u64,
    /// Requests that went on with one of the last runs, by how many: [`RANKS`].
    pub going_on: Vec<(usize, u64)>,
    /// Requests of each transition between states of the finest level: device, from, to.
    pub transitions: Vec<(u32, u64, u64, u64)>,
    /// Mean gap, ns; null of fewer than two requests.
    pub gap_ns: Option<f64>,
    /// Quantiles of gaps, ns: [`QUANTILES`].
    pub gaps_ns: Vec<(f64, u64)>,
    /// Variance by mean of the requests in intervals, by their width in ns: [`WIDTHS`]. Null of fewer than ten.
    pub dispersion: Vec<(u64, Option<f64>)>,
    /// Different pages.
    pub pages: u64,
    /// Uses of pages.
    pub uses: u64,
    /// Misses of LRU caches: pages, misses.
    pub lru: Vec<(u64, u64)>,
    /// Misses of other policies: name, pages, misses.
    pub others: Vec<(&'static str, u64, u64)>,
}

/// Sizes of caches whose misses are compared, of a workload with so many different pages: spaced by ratio from a thousandth
/// of them on, and spaced evenly.
#[must_use]
pub fn cache_sizes(pages: u64) -> (Vec<u64>, Vec<u64>) {
    let most = pages.max(1) as f64;
    let least = (most / 1000.0).max(1.0);
    let step = |at: usize| at as f64 / (SIZES - 1) as f64;
    let mut ratio: Vec<u64> =
        (0..SIZES).map(|at| (least * (most / least).powf(step(at))).round() as u64).collect();
    ratio.dedup();
    let mut even: Vec<u64> =
        (1..=SIZES).map(|at| ((most * at as f64 / SIZES as f64).round() as u64).max(1)).collect();
    even.dedup();
    (ratio, even)
}

/// Describes requests, in the order of their arrivals. `states` are those of each device; caches have sizes for `pages`
/// different pages, or, without, for the workload's own.
#[must_use]
pub fn describe(arrivals: &[Arrival], states: &[States], pages: Option<u64>) -> Description {
    let mut description = Description { requests: arrivals.len() as u64, ..Description::default() };
    let (Some(first), Some(last)) = (arrivals.first(), arrivals.last()) else { return description };
    description.length_ns = last.at - first.at;
    let mut sizes: HashMap<(Direction, u64), u64, FixedState> = HashMap::default();
    let mut transitions: HashMap<(u32, u64, u64), u64, FixedState> = HashMap::default();
    let mut at: HashMap<u32, u64, FixedState> = HashMap::default();
    let (mut recent, mut going_on) = (Recent::default(), [0; RANKS.len()]);
    let (mut numbers, mut reuse, mut uses) = (Numbers::default(), Reuse::new(1 << 16), Vec::<Block>::new());
    let mut distances: HashMap<u32, u64, FixedState> = HashMap::default();
    for &Arrival { device, request, .. } in arrivals {
        let Some(direction) = Direction::of(request.op) else {
            description.flushes += 1;
            continue;
        };
        *sizes.entry((direction, request.length)).or_default() += 1;
        if let Some(states) = states.get(device as usize) {
            let state = states.of(request.pos);
            if let Some(before) = at.insert(device, state) {
                *transitions.entry((device, before, state)).or_default() += 1;
            }
        }
        if let Some(rank) = recent.rank(device, request.op, request.pos) {
            recent.continue_run(rank, request.length);
            for (count, _) in going_on.iter_mut().zip(RANKS).filter(|(_, of)| rank < *of) {
                *count += 1;
            }
        } else {
            recent.begin(Run::new(device, request, 0, 0));
        }
        if request.op == Op::Trim {
            continue;
        }
        let first = request.pos / PAGE;
        for page in first..(request.pos + request.length).div_ceil(PAGE).max(first + 1) {
            let Some(number) = numbers.of(device, page) else { continue };
            uses.push(number);
            *distances.entry(reuse.touch(number)).or_default() += 1;
        }
    }
    let times: Vec<Nanos> = arrivals.iter().map(|arrival| arrival.at - first.at).collect();
    let mut gaps: Vec<u64> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
    gaps.sort_unstable();
    if !gaps.is_empty() {
        description.gap_ns = Some(description.length_ns as f64 / gaps.len() as f64);
        let at = |share: f64| gaps[((gaps.len() as f64 * share).ceil() as usize).clamp(1, gaps.len()) - 1];
        description.gaps_ns = QUANTILES.iter().map(|share| (*share, at(*share))).collect();
    }
    description.dispersion = WIDTHS.iter().map(|width| (*width, dispersion(&times, *width))).collect();
    description.going_on = RANKS.into_iter().zip(going_on).collect();
    description.sizes = sizes.into_iter().map(|((d, size), count)| (d, size, count)).collect();
    description.sizes.sort_unstable();
    description.transitions =
        transitions.into_iter().map(|((d, from, to), count)| (d, from, to, count)).collect();
    description.transitions.sort_unstable();
    (description.pages, description.uses) = (u64::from(numbers.len()), uses.len() as u64);
    let (ratio, even) = cache_sizes(pages.unwrap_or(description.pages));
    let mut by_distance: Vec<(u32, u64)> = distances.into_iter().collect();
    by_distance.sort_unstable();
    let mut all: Vec<u64> = ratio.iter().chain(&even).copied().collect();
    all.sort_unstable();
    all.dedup();
    description.lru = all
        .iter()
        .map(|size| {
            let hits = by_distance.iter().take_while(|(distance, _)| u64::from(*distance) <= *size);
            let hits: u64 = hits.filter(|(distance, _)| *distance > 0).map(|(_, count)| count).sum();
            (*size, description.uses - hits)
        })
        .collect();
    for policy in POLICIES {
        for size in ratio.iter().step_by(EACH) {
            let mut misses = 0;
            policy.run(*size as u32, numbers.len(), uses.iter().copied(), |_| misses += 1);
            description.others.push((policy.name(), *size, misses));
        }
    }
    description
}

/// Variance by mean of the counts in intervals of a width.
fn dispersion(times: &[Nanos], width: Nanos) -> Option<f64> {
    let intervals = times.last()? / width;
    if intervals < 10 {
        return None;
    }
    // Whole intervals only. Those without a request need no room.
    let inside = times.iter().map(|at| at / width).take_while(|interval| *interval < intervals);
    let (mut count, mut squares, mut total, mut last) = (0.0, 0.0, 0.0, 0);
    for interval in inside {
        if interval != last {
            squares += count * count;
            (count, last) = (0.0, interval);
        }
        count += 1.0;
        total += 1.0;
    }
    squares += count * count;
    let mean = total / intervals as f64;
    let variance = squares / intervals as f64 - mean * mean;
    (mean > 0.0).then(|| variance / mean)
}
