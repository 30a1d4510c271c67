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

mod devices;

pub use devices::Devices;

/// Ranks up to which a request is counted as going on with a run.
pub const RANKS: [usize; 3] = [2, 8, 32];
/// Widths of the intervals in which arrivals are counted, ns: 1 ms to 1000 s, two in each decade.
pub const WIDTHS: [Nanos; 13] = [
    1_000_000,
    3_000_000,
    10_000_000,
    30_000_000,
    100_000_000,
    300_000_000,
    1_000_000_000,
    3_000_000_000,
    10_000_000_000,
    30_000_000_000,
    100_000_000_000,
    300_000_000_000,
    1_000_000_000_000,
];
/// Widths of the windows in which different pages are counted, ns: 1 s, 10 s, 60 s.
pub const WINDOWS: [Nanos; 3] = [1_000_000_000, 10_000_000_000, 60_000_000_000];
/// Buckets of gaps in each power of two: two gaps of one bucket differ by less than 1 %.
const GAP_BUCKETS: u32 = 128;
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
    /// Requests, flushes too, by device.
    pub devices: Vec<(u32, u64)>,
    /// How devices go together.
    pub between: Devices,
    /// Requests that went on with one of the last runs, by how many: [`RANKS`].
    pub going_on: Vec<(usize, u64)>,
    /// Requests of each transition between states of the finest level: device, from, to.
    pub transitions: Vec<(u32, u64, u64, u64)>,
    /// Mean gap, ns; null of fewer than two requests.
    pub gap_ns: Option<f64>,
    /// Quantiles of gaps, ns: [`QUANTILES`].
    pub gaps_ns: Vec<(f64, u64)>,
    /// Their distribution: least gap of a bucket in ns, gaps.
    pub gap_buckets: Vec<(u64, u64)>,
    /// Variance by mean of the requests in intervals, by their width in ns: [`WIDTHS`]. Null of fewer than ten.
    pub dispersion: Vec<(u64, Option<f64>)>,
    /// Different pages.
    pub pages: u64,
    /// Uses of pages.
    pub uses: u64,
    /// Mean of the different pages in windows, by their width in ns: [`WINDOWS`]. Null where not one is over.
    pub working_set: Vec<(u64, Option<f64>)>,
    /// Misses of LRU caches: pages, misses. Sizes are spaced by ratio.
    pub lru: Vec<(u64, u64)>,
    /// The same, of sizes spaced evenly.
    pub lru_even: Vec<(u64, u64)>,
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
    let mut counts: HashMap<u32, u64, FixedState> = HashMap::default();
    let mut windows = WINDOWS.map(|width| Windows::new(width, description.length_ns));
    for &Arrival { at: ts, device, request } in arrivals {
        *counts.entry(device).or_default() += 1;
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
        let least = request.pos / PAGE;
        for page in least..(request.pos + request.length).div_ceil(PAGE).max(least + 1) {
            let Some(number) = numbers.of(device, page) else { continue };
            uses.push(number);
            *distances.entry(reuse.touch(number)).or_default() += 1;
            windows.iter_mut().for_each(|windows| windows.touch(ts - first.at, number));
        }
    }
    let times: Vec<Nanos> = arrivals.iter().map(|arrival| arrival.at - first.at).collect();
    let mut gaps: Vec<u64> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
    gaps.sort_unstable();
    if !gaps.is_empty() {
        description.gap_ns = Some(description.length_ns as f64 / gaps.len() as f64);
        let at = |share: f64| gaps[((gaps.len() as f64 * share).ceil() as usize).clamp(1, gaps.len()) - 1];
        description.gaps_ns = QUANTILES.iter().map(|share| (*share, at(*share))).collect();
        for gaps in gaps.chunk_by(|one, other| gap_bucket(*one) == gap_bucket(*other)) {
            description.gap_buckets.push((gap_bucket(gaps[0]), gaps.len() as u64));
        }
    }
    description.dispersion = WIDTHS.iter().map(|width| (*width, dispersion(&times, *width))).collect();
    description.working_set = windows.iter().map(|windows| (windows.width, windows.mean())).collect();
    description.going_on = RANKS.into_iter().zip(going_on).collect();
    description.devices = counts.into_iter().collect();
    description.devices.sort_unstable();
    description.between = devices::describe(arrivals, &description.devices);
    description.sizes = sizes.into_iter().map(|((d, size), count)| (d, size, count)).collect();
    description.sizes.sort_unstable();
    description.transitions =
        transitions.into_iter().map(|((d, from, to), count)| (d, from, to, count)).collect();
    description.transitions.sort_unstable();
    (description.pages, description.uses) = (u64::from(numbers.len()), uses.len() as u64);
    let (ratio, even) = cache_sizes(pages.unwrap_or(description.pages));
    let mut by_distance: Vec<(u32, u64)> = distances.into_iter().collect();
    by_distance.sort_unstable();
    let misses = |size: &u64| {
        let hits = by_distance.iter().take_while(|(distance, _)| u64::from(*distance) <= *size);
        let hits: u64 = hits.filter(|(distance, _)| *distance > 0).map(|(_, count)| count).sum();
        (*size, description.uses - hits)
    };
    (description.lru, description.lru_even) =
        (ratio.iter().map(misses).collect(), even.iter().map(misses).collect());
    description.others = misses_of_policies(&uses, numbers.len(), &ratio);
    description
}

/// Misses of [`POLICIES`], a thread each: they take most of the time.
fn misses_of_policies(uses: &[Block], pages: u32, sizes: &[u64]) -> Vec<(&'static str, u64, u64)> {
    let misses = |policy: Policy, size: u64| {
        let mut misses = 0;
        policy.run(size as u32, pages, uses.iter().copied(), |_| misses += 1);
        (policy.name(), size, misses)
    };
    std::thread::scope(|scope| {
        let threads = POLICIES.map(|policy| {
            let sizes = sizes.iter().step_by(EACH);
            scope.spawn(move || sizes.map(|size| misses(policy, *size)).collect::<Vec<_>>())
        });
        threads
            .into_iter()
            .flat_map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect()
    })
}

/// Least gap of the bucket of a gap, ns: gaps below 256 ns have one each.
fn gap_bucket(gap: Nanos) -> Nanos {
    let shift = gap.max(1).ilog2().saturating_sub(GAP_BUCKETS.ilog2());
    gap >> shift << shift
}

/// Different pages in windows of a width, one after the other; the last one counts only if it is whole.
struct Windows {
    width: Nanos,
    count: u64,
    /// Window, from 1 on, of each page's last use.
    last: Vec<u64>,
    /// Different pages of all windows.
    total: u64,
}

impl Windows {
    fn new(width: Nanos, length: Nanos) -> Self {
        Self { width, count: length / width, last: Vec::new(), total: 0 }
    }

    fn touch(&mut self, at: Nanos, page: Block) {
        let window = at / self.width + 1;
        if window > self.count {
            return;
        }
        let page = page as usize;
        if page >= self.last.len() {
            self.last.resize((page + 1).next_power_of_two(), 0);
        }
        self.total += u64::from(std::mem::replace(&mut self.last[page], window) != window);
    }

    fn mean(&self) -> Option<f64> {
        (self.count > 0).then(|| self.total as f64 / self.count as f64)
    }
}

/// Slices of time in which requests are counted.
pub const SLICES: usize = 200;
/// Columns of time and rows of offsets of a map.
pub const COLUMNS: u64 = 112;
pub const ROWS: u64 = 48;

/// Requests over time and offsets, to draw.
#[derive(Clone, Debug, Default, Serialize)]
pub struct OverTime {
    /// What all slices, and all columns, cover, ns.
    pub length_ns: u64,
    /// Requests in [`SLICES`].
    pub requests: Vec<u64>,
    /// [`COLUMNS`] and [`ROWS`].
    pub columns: u64,
    pub rows: u64,
    /// Cells with requests: column, row from the first offset of the first device on, requests. Flushes have no offset.
    pub cells: Vec<(u64, u64, u64)>,
}

/// Counts requests in slices of a length of time, and by time and offset. Devices lie one after the other, each up to its
/// reach; what lies beyond counts in the last slice or row.
#[must_use]
pub fn over_time(arrivals: &[Arrival], length_ns: Nanos, reaches: &[u64]) -> OverTime {
    let begin = arrivals.first().map_or(0, |first| first.at);
    let (mut begins, mut total) = (Vec::with_capacity(reaches.len()), 0);
    for reach in reaches {
        begins.push(total);
        total += u128::from(*reach);
    }
    let part = |value: u128, of: u128, parts: u64| {
        ((value * u128::from(parts) / of.max(1)) as u64).min(parts.saturating_sub(1))
    };
    let mut requests = vec![0; SLICES];
    let mut cells: HashMap<(u64, u64), u64, FixedState> = HashMap::default();
    for Arrival { at, device, request } in arrivals {
        let at = u128::from(at - begin);
        requests[part(at, u128::from(length_ns), SLICES as u64) as usize] += 1;
        let device = *device as usize;
        if Direction::of(request.op).is_some()
            && let Some(reach) = reaches.get(device)
        {
            let place = begins[device] + u128::from(request.pos.min(reach.saturating_sub(1)));
            let cell = (part(at, u128::from(length_ns), COLUMNS), part(place, total, ROWS));
            *cells.entry(cell).or_default() += 1;
        }
    }
    let mut cells: Vec<(u64, u64, u64)> =
        cells.into_iter().map(|((column, row), count)| (column, row, count)).collect();
    cells.sort_unstable();
    OverTime { length_ns, requests, columns: COLUMNS, rows: ROWS, cells }
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

#[cfg(test)]
mod tests {
    use iotrail_sim::Request;

    use super::*;

    fn at(at: Nanos, device: u32, pos: u64) -> Arrival {
        Arrival { at, device, request: Request { op: Op::Read, pos, length: PAGE } }
    }

    #[test]
    fn a_working_set_is_the_mean_of_whole_windows() {
        // 1 s each: pages 0 and 1; page 0 twice; none; the fourth window isn't whole
        let times = [(0, 0), (500, 1), (1000, 0), (1999, 0), (3000, 5), (3100, 6)];
        let arrivals: Vec<Arrival> =
            times.iter().map(|(ms, page)| at(7 + ms * 1_000_000, 0, page * PAGE)).collect();
        let found = describe(&arrivals, &[], None);
        assert_eq!(found.working_set, [(WINDOWS[0], Some(1.0)), (WINDOWS[1], None), (WINDOWS[2], None)]);
        assert_eq!(found.pages, 4);
    }

    #[test]
    fn buckets_of_gaps_hold_all_of_them() {
        assert_eq!([0, 1, 255, 256, 257, 1000].map(gap_bucket), [0, 1, 255, 256, 256, 1000]);
        for gap in [300, 12_345, 1 << 40, u64::MAX] {
            let bucket = gap_bucket(gap);
            assert!(bucket <= gap && gap - bucket <= gap / 100, "{gap}: {bucket}");
        }
        let arrivals: Vec<Arrival> = [0, 0, 10, 20, 1_000_020].into_iter().map(|ts| at(ts, 0, 0)).collect();
        assert_eq!(describe(&arrivals, &[], None).gap_buckets, [(0, 1), (10, 2), (gap_bucket(1_000_000), 1)]);
    }

    #[test]
    fn devices_lie_one_after_the_other_on_a_map() {
        let arrivals = [at(5, 0, 0), at(5, 1, 0), at(105, 1, 96 * PAGE), at(400, 0, 10_000 * PAGE)];
        let found = over_time(&arrivals, 100, &[96 * PAGE, 96 * PAGE]);
        assert_eq!((found.requests[0], found.requests[SLICES - 1]), (2, 2));
        assert_eq!(found.cells, [(0, 0, 1), (0, 24, 1), (COLUMNS - 1, 23, 1), (COLUMNS - 1, 47, 1)]);
        // without a length or addresses
        assert_eq!(over_time(&arrivals, 0, &[]).requests[0], 2);
        assert_eq!(over_time(&[], 0, &[]).requests.iter().sum::<u64>(), 0);
    }
}
