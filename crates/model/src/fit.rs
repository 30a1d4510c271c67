//! Fits a model to requests: two passes, one that finds runs and one that counts.

use std::collections::{BTreeMap, HashMap};

use foldhash::fast::FixedState;
use iotrail_sim::Op;

use crate::counts::{Counts, remarkable, table};
use crate::history::{Ends, History};
use crate::model::{
    Device, Direction, FORMAT, Largest, MOMENTS, MOST_ALIGNED, Model, Of, Return, State, Table,
};
use crate::parts::Windows;
use crate::runs::{self, Kind, Recent, Run};
use crate::states::States;
use crate::{Arrival, PAGE, chain, rate};

/// Runs that are kept one by one.
const LARGEST: usize = 144;
/// Least bytes of these.
const LEAST_LARGE: u64 = 64 * PAGE;
/// Sizes that each keeps.
const SIZES: usize = 2;
/// Rows at most of each table over time.
const ROWS: usize = 250;
/// Of so many runs that begin with a size one must be aligned to a power of two for it to be kept.
const RARE_ALIGNMENT: u64 = 50;
/// Of so many requests a size must be of one to be kept apart.
const COMMON: u64 = 5_000;

/// A run as a whole.
#[derive(Clone, Copy, Default)]
struct Whole {
    requests: u64,
    bytes: u64,
    /// Discards don't, however many bytes they are of.
    moves_data: bool,
    is_large: bool,
    /// Requests that were counted, and the size that stands for that of the last one.
    seen: u64,
    size: u64,
}

#[derive(Default)]
struct InState {
    sizes: Counts<(Direction, u64)>,
    starts: Counts<(Direction, u8)>,
}

#[derive(Default)]
struct OfDevice {
    reach: u64,
    chains: HashMap<(u32, u64), chain::Counts, FixedState>,
    states: HashMap<u64, InState, FixedState>,
}

/// Opportunities and how often they were taken, by what was known before.
type Rates = [(u64, u64); 1 << u8::BITS];

struct Tables {
    continued: Rates,
    begun: Rates,
    ranks: Counts<u8>,
    /// Direction, bytes, whether it is the last, bytes before: rare ones are merged with others of the same size.
    next_sizes: Counts<(Direction, u64, u8, u64)>,
    lengths_by_size: Counts<(Direction, u64, u8)>,
    requests: Counts<(Direction, u8)>,
    begins: Counts<(Direction, u8, u8, u8)>,
    returns: Counts<(Direction, u8, Return)>,
    jump_ranks: Counts<(Direction, u8, u8)>,
    zeros: HashMap<(Direction, u64), [u64; 64], FixedState>,
}

/// Counts over time.
struct OverTime {
    distances: Windows<u8>,
    states: Windows<(u32, u64)>,
    sizes: Windows<(Direction, u64)>,
    lengths: Windows<(Direction, u8)>,
    jumps: Windows<(Direction, i8)>,
}

/// The run of each request that has a place.
struct OfRun {
    run: u32,
    /// The rank of the run when the request continued it; none if it began it.
    rank: Option<u8>,
}

/// The run of each request, and how long each is in all.
fn find_runs(arrivals: &[Arrival]) -> (Vec<OfRun>, Vec<Whole>) {
    let (mut of, mut wholes) = (Vec::with_capacity(arrivals.len()), Vec::<Whole>::new());
    let mut recent = Recent::default();
    for Arrival { device, request, .. } in arrivals {
        if request.op == Op::Flush {
            of.push(OfRun { run: 0, rank: None });
            continue;
        }
        let rank = recent.rank(*device, request.op, request.pos);
        let number = match rank {
            Some(rank) => recent.continue_run(rank, request.length).number,
            None => {
                let number = wholes.len() as u64;
                recent.begin(Run::new(*device, *request, 0, number));
                wholes.push(Whole { moves_data: request.op != Op::Trim, ..Whole::default() });
                number
            }
        };
        of.push(OfRun { run: number as u32, rank: rank.map(|rank| rank as u8) });
        wholes[number as usize].requests += 1;
        wholes[number as usize].bytes += request.length;
    }
    let is_large = |run: &usize| wholes[*run].moves_data && wholes[*run].bytes >= LEAST_LARGE;
    let mut by_size: Vec<usize> = (0..wholes.len()).filter(is_large).collect();
    by_size.sort_by_key(|run| std::cmp::Reverse(wholes[*run].bytes));
    by_size.into_iter().take(LARGEST).for_each(|run| wholes[run].is_large = true);
    (of, wholes)
}

/// The size that stands for that of each request: of fewer requests than `least` the mean of some sizes near it that have as many
/// together; so as many bytes are asked for.
fn common_sizes(arrivals: &[Arrival], least: u64) -> Vec<u64> {
    let mut counts: Counts<(Direction, u64)> = Counts::default();
    for Arrival { request, .. } in arrivals {
        if let Some(direction) = Direction::of(request.op) {
            counts.count((direction, request.length));
        }
    }
    let mut of_directions: BTreeMap<Direction, Vec<(u64, u64)>> = BTreeMap::new();
    for ((direction, size), count) in counts.sorted() {
        of_directions.entry(direction).or_default().push((size, count));
    }
    let common = of_directions.into_iter().flat_map(|(direction, sizes)| {
        stand_ins(&sizes, least).into_iter().map(move |(size, by)| ((direction, size), by))
    });
    let common: HashMap<(Direction, u64), u64, FixedState> = common.collect();
    let size_of = |Arrival { request, .. }: &Arrival| {
        let direction = Direction::of(request.op)?;
        common.get(&(direction, request.length)).copied()
    };
    arrivals.iter().map(|arrival| size_of(arrival).unwrap_or(arrival.request.length)).collect()
}

/// Of ascending sizes and how often each was asked for, which stands for each.
fn stand_ins(sizes: &[(u64, u64)], least: u64) -> Vec<(u64, u64)> {
    let (common, rare): (Vec<_>, Vec<_>) = sizes.iter().copied().partition(|row| row.1 >= least);
    let mut groups: Vec<Vec<(u64, u64)>> = Vec::new();
    let requests = |group: &[(u64, u64)]| group.iter().map(|row| row.1).sum::<u64>();
    for row in rare {
        match groups.last_mut() {
            Some(group) if requests(group) < least || row.0 * 4 < group[0].0 * 5 => group.push(row),
            _ => groups.push(vec![row]),
        }
    }
    if groups.last().is_some_and(|group| requests(group) < least) {
        let few = groups.pop().unwrap_or_default();
        match groups.last_mut() {
            Some(group) => group.extend(few),
            None => groups.push(few),
        }
    }
    let mut found: Vec<(u64, u64)> = common.iter().map(|row| (row.0, row.0)).collect();
    for group in groups {
        let mean = mean(&group);
        // Fewer than that in all are not told.
        let nearest = common.iter().map(|row| row.0).min_by_key(|size| size.abs_diff(mean));
        let by = if requests(&group) < least { nearest.unwrap_or(mean) } else { mean };
        found.extend(group.iter().map(|row| (row.0, by)));
    }
    found
}

/// Fits a model with ranges of addresses divided `levels` times. Requests are in the order of their arrivals.
///
/// Sizes of fewer than `min_count` requests, or of fewer than one in 5,000, count as the mean of some near them that have as many;
/// in tables of them and of classes, what is both rarer than that counts as what is most similar.
#[must_use]
pub fn fit(arrivals: &[Arrival], levels: u32, min_count: u64) -> Model {
    fit_to(arrivals, &[], levels, min_count)
}

/// The same, of devices whose addresses end at these bytes, or further where requests do.
#[must_use]
pub fn fit_to(arrivals: &[Arrival], reaches: &[u64], levels: u32, min_count: u64) -> Model {
    let used = arrivals.iter().map(|arrival| arrival.device + 1).max().unwrap_or(0) as usize;
    let count = used.max(reaches.len());
    let mut devices: Vec<OfDevice> = (0..count).map(|_| OfDevice::default()).collect();
    devices.iter_mut().zip(reaches).for_each(|(device, reach)| device.reach = *reach);
    for Arrival { device, request, .. } in arrivals {
        let reach = &mut devices[*device as usize].reach;
        *reach = (request.pos + request.length).max(*reach);
    }
    let (run_of, mut wholes) = find_runs(arrivals);
    let sizes = common_sizes(arrivals, min_count.max(arrivals.len() as u64 / COMMON));
    let mut sizes_of_large: HashMap<u32, Counts<u64>, FixedState> = HashMap::default();
    for ((Arrival { request, .. }, OfRun { run, .. }), size) in arrivals.iter().zip(&run_of).zip(&sizes) {
        if Direction::of(request.op).is_some() && wholes[*run as usize].is_large {
            sizes_of_large.entry(*run).or_default().count(*size);
        }
    }
    let mut flushes: Counts<u32> = Counts::default();
    let mut next_device = chain::Counts::new(count.max(1));
    let (mut tables, mut time) = (Tables::new(), OverTime::new(arrivals.len()));
    let (mut recent, mut ends, mut history) = (Recent::default(), Ends::default(), History::default());
    let (mut largest, mut kept) = (Vec::<Largest>::new(), Vec::<(u32, u64, u64)>::new());
    let mut began = false;
    let mut kinds = Vec::with_capacity(arrivals.len());
    let first = arrivals.first().map_or(0, |arrival| arrival.at);
    let whole_time = arrivals.last().map_or(0, |arrival| arrival.at - first) + 1;
    let mut last = first;
    let requests = arrivals.iter().zip(run_of).zip(sizes).enumerate();
    for (before, ((&Arrival { at, device, request }, OfRun { run, rank }), size)) in requests {
        let gap = at - last;
        last = at;
        let Some(direction) = Direction::of(request.op) else {
            kinds.push(Kind::Flush.number());
            flushes.count(device);
            continue;
        };
        let whole = &mut wholes[run as usize];
        let begins = whole.seen == 0;
        whole.seen += 1;
        let size_before = std::mem::replace(&mut whole.size, size);
        let remaining = whole.requests - whole.seen;
        let chosen = rank.map(usize::from);
        tables.count_choice(&recent, chosen, gap, began);
        let length = runs::length_class(whole.requests);
        let kind =
            if begins { Kind::Begin(direction, runs::reach(length)) } else { Kind::Continue(direction) };
        kinds.push(kind.number());
        let of = &mut devices[device as usize];
        let number = States { reach: of.reach, levels }.of(request.pos);
        let draws_place = begins && !whole.is_large;
        time.states.count(before, (device, number));
        next_device.visit(device as usize, draws_place);
        for level in 0..levels {
            let (node, child) = (number >> (2 * (levels - level)), number >> (2 * (levels - level - 1)) & 3);
            let chain = of.chains.entry((level, node)).or_insert_with(|| chain::Counts::new(4));
            chain.visit(child as usize, draws_place);
        }
        let state = of.states.entry(number).or_default();
        if begins {
            let follows = ends.has(device, request.op, request.pos);
            let (class, back) = history.back(device, request, whole.bytes, follows);
            if whole.is_large {
                let others = sizes_of_large.remove(&run).unwrap_or_default();
                let moment = u128::from(at - first) * u128::from(MOMENTS) / u128::from(whole_time);
                let others = frequent(others, size);
                largest.push(Largest(moment as u64, device, number, direction, size, others, None, class));
                kept.push((device, request.pos, request.pos + whole.bytes));
            } else {
                let jump = recent.jump(device, request.op, request.pos);
                let near = runs::near_class(jump.map(|jump| jump.1));
                if let Some((rank, class)) = jump {
                    time.jumps.count(before, (direction, class));
                    tables.jump_ranks.count((direction, near, rank));
                }
                time.sizes.count(before, (direction, size));
                time.lengths.count(before, (direction, length));
                tables.lengths_by_size.count((direction, size, length));
                tables.requests.add((direction, length), whole.requests);
                tables.begins.count((direction, near, length, class));
                tables.returns.count((direction, class.div_ceil(4), back));
                state.sizes.count((direction, size));
                state.starts.count((direction, class));
            }
            let zeros = tables.zeros.entry((direction, size)).or_insert([0; 64]);
            zeros[request.pos.trailing_zeros().min(MOST_ALIGNED.into()) as usize] += 1;
            if let Some(run) = recent.begin(Run::new(device, request, remaining, 0)) {
                ends.add(run.device, run.op, run.end);
            }
        } else {
            let rank = chosen.unwrap_or(0);
            tables.ranks.count(runs::rank_class(rank));
            if !whole.is_large {
                tables.next_sizes.count((direction, size, u8::from(remaining == 0), size_before));
            }
            recent.continue_run(rank, request.length).remaining = remaining;
        }
        history.used_by(device, request, |_, class| time.distances.count(before, class));
        began = begins;
    }
    for (run, within) in largest.iter_mut().zip(connected(&kept)) {
        run.6 = within;
    }
    let times: Vec<_> = arrivals.iter().map(|arrival| arrival.at).collect();
    let (sizes, starts) = everywhere(&devices);
    // Of few runs each class says much, and reveals little.
    let rare = min_count.min(sizes.values().sum::<u64>() / COMMON);
    Model {
        format: FORMAT,
        of: Of::default(),
        levels,
        devices: devices.into_iter().map(|device| device.fitted(rare, &sizes, &starts)).collect(),
        next_device: next_device.found(),
        flushes: flushes.sorted().into_iter().collect(),
        rate: rate::fit(&times, &kinds, rate::KEPT),
        distances: time.distances.parts(ROWS, |counts| counts),
        states: time.states.parts(ROWS, |counts| {
            counts.into_iter().map(|((device, number), count)| (device, number, count)).collect()
        }),
        sizes: time.sizes.parts(ROWS, |counts| table(counts, |(d, _)| *d, |(_, size), count| (size, count))),
        lengths: time
            .lengths
            .parts(ROWS, |counts| table(counts, |(d, _)| *d, |(_, class), count| (class, count))),
        jumps: time
            .jumps
            .parts(ROWS, |counts| table(counts, |(d, _)| *d, |(_, class), count| (class, count))),
        jump_ranks: table(
            tables.jump_ranks.sorted(),
            |(d, ..)| *d,
            |(_, near, rank), count| (near, rank, count),
        ),
        continued: rates(&tables.continued),
        begun: rates(&tables.begun),
        ranks: tables.ranks.sorted().into_iter().collect(),
        next_sizes: table(
            tables.next_sizes.merged(rare, |(d, size, ..)| (*d, *size)),
            |(d, ..)| *d,
            |(_, size, last, before), count| (last, before, size, count),
        ),
        lengths_by_size: table(
            tables.lengths_by_size.merged(rare, |(d, size, _)| (*d, *size)),
            |(d, ..)| *d,
            |(_, size, class), count| (size, class, count),
        ),
        requests: table(tables.requests.sorted(), |(d, _)| *d, |(_, class), count| (class, count)),
        begins: table(
            tables.begins.merged(rare, |(d, near, length, _)| (*d, *near, *length)),
            |(d, ..)| *d,
            |(_, near, length, class), count| (near, length, class, count),
        ),
        returns: table(
            tables.returns.merged(rare, |(d, class, _)| (*d, *class)),
            |(d, ..)| *d,
            |(_, class, back), count| (class, back, count),
        ),
        largest,
        alignment: aligned(tables.zeros),
        load: None,
    }
}

impl OverTime {
    fn new(requests: usize) -> Self {
        Self {
            distances: Windows::new(requests),
            states: Windows::new(requests),
            sizes: Windows::new(requests),
            lengths: Windows::new(requests),
            jumps: Windows::new(requests),
        }
    }
}

/// Counts of all states.
type Everywhere<K> = BTreeMap<(Direction, K), u64>;

/// Bytes of requests that begin runs, and distance classes of these, of all states.
fn everywhere(devices: &[OfDevice]) -> (Everywhere<u64>, Everywhere<u8>) {
    let (mut sizes, mut starts) = (Counts::default(), Counts::default());
    for state in devices.iter().flat_map(|device| device.states.values()) {
        state.sizes.rows().for_each(|(thing, count)| sizes.add(thing, count));
        state.starts.rows().for_each(|(thing, count)| starts.add(thing, count));
    }
    (sizes.sorted(), starts.sorted())
}

impl Tables {
    fn new() -> Self {
        Self {
            continued: [(0, 0); 1 << u8::BITS],
            begun: [(0, 0); 1 << u8::BITS],
            ranks: Counts::default(),
            next_sizes: Counts::default(),
            lengths_by_size: Counts::default(),
            requests: Counts::default(),
            begins: Counts::default(),
            returns: Counts::default(),
            jump_ranks: Counts::default(),
            zeros: HashMap::default(),
        }
    }

    /// Counts what a request could have done, and did: continue the run at a rank, or begin one.
    fn count_choice(&mut self, recent: &Recent, chosen: Option<usize>, gap: u64, began: bool) {
        if let Some(chosen) = chosen {
            for rank in recent.unfinished().take_while(|rank| *rank <= chosen) {
                let known = runs::known_of(rank, &recent.runs()[rank], gap);
                let counts = &mut self.continued[usize::from(known)];
                counts.0 += 1;
                counts.1 += u64::from(rank == chosen);
            }
        }
        let known = runs::known_before(recent.unfinished().count(), gap, began);
        let counts = &mut self.begun[usize::from(known)];
        counts.0 += 1;
        counts.1 += u64::from(chosen.is_none());
    }
}

impl OfDevice {
    fn fitted(self, rare: u64, sizes: &Everywhere<u64>, starts: &Everywhere<u8>) -> Device {
        let state = |(number, state): (u64, InState)| {
            let mut begins = BTreeMap::new();
            for ((direction, _), count) in state.starts.rows() {
                *begins.entry(direction).or_default() += count;
            }
            State {
                number,
                begins,
                sizes: table(
                    remarkable(state.sizes.merged(rare, |(d, _)| *d), sizes),
                    |(d, _)| *d,
                    |(_, size), count| (size, count),
                ),
                starts: table(
                    remarkable(state.starts.merged(rare, |(d, _)| *d), starts),
                    |(d, _)| *d,
                    |(_, class), count| (class, count),
                ),
            }
        };
        let chain = |((level, node), counts): ((u32, u64), chain::Counts)| (level, node, counts.found());
        let mut chains: Vec<_> = self.chains.into_iter().map(chain).collect();
        chains.sort_unstable_by_key(|(level, node, _)| (*level, *node));
        let mut states: Vec<_> = self.states.into_iter().map(state).collect();
        states.sort_unstable_by_key(|state| state.number);
        Device { reach_bytes: self.reach, chains, states }
    }
}

fn rates(counts: &Rates) -> Vec<(u8, u64, u64)> {
    let rows = (0..=u8::MAX).zip(counts).filter(|(_, (all, _))| *all > 0);
    rows.map(|(known, (all, some))| (known, *all, *some)).collect()
}

/// The sizes that most requests have but the first one, and the mean of the others.
fn frequent(mut sizes: Counts<u64>, first: u64) -> Vec<(u64, u64)> {
    sizes.uncount(first);
    let mut kept: Vec<(u64, u64)> = sizes.sorted().into_iter().collect();
    kept.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let others = kept.split_off(kept.len().min(SIZES));
    if !others.is_empty() {
        kept.push((mean(&others), others.iter().map(|row| row.1).sum()));
    }
    kept
}

/// Mean of sizes that were asked for so often, a multiple of the power of two that all are, up to a page.
fn mean(sizes: &[(u64, u64)]) -> u64 {
    let bytes: u128 = sizes.iter().map(|row| u128::from(row.0) * u128::from(row.1)).sum();
    let requests: u128 = sizes.iter().map(|row| u128::from(row.1)).sum();
    let mean = (bytes / requests.max(1)) as u64;
    let unit = sizes.iter().map(|row| row.0.trailing_zeros()).min().unwrap_or(0).min(PAGE.ilog2());
    ((mean + (1 << unit) / 2) >> unit << unit).max(1 << unit)
}

/// Of some runs (device, first address, end), in the order of their beginnings, the first one of those that each touches, also by
/// others, and the bytes from there; none of the first ones.
fn connected(runs: &[(u32, u64, u64)]) -> Vec<Option<(usize, i64)>> {
    let mut by_address: Vec<usize> = (0..runs.len()).collect();
    by_address.sort_by_key(|run| (runs[*run].0, runs[*run].1));
    let mut groups: Vec<Vec<usize>> = Vec::new();
    let mut last = None;
    for run in by_address {
        let (device, first, end) = runs[run];
        match (last, groups.last_mut()) {
            (Some((of, until)), Some(group)) if of == device && first <= until => {
                group.push(run);
                last = Some((device, end.max(until)));
            }
            _ => {
                groups.push(vec![run]);
                last = Some((device, end));
            }
        }
    }
    let mut found = vec![None; runs.len()];
    for group in groups {
        let earliest = group.iter().copied().min().unwrap_or_default();
        for run in group.into_iter().filter(|run| *run != earliest) {
            found[run] = Some((earliest, runs[run].1.wrapping_sub(runs[earliest].1) as i64));
        }
    }
    found
}

/// How addresses at which runs begin are aligned: exactly up to the power of two of a page, or to a higher one that at least 95 %
/// are multiples of. Rare powers count as the most frequent one.
fn aligned(zeros: HashMap<(Direction, u64), [u64; 64], FixedState>) -> Table<(u64, u8, u64)> {
    let mut rows: BTreeMap<(Direction, u64, u8), u64> = BTreeMap::new();
    for ((direction, size), mut zeros) in zeros {
        let total: u64 = zeros.iter().sum();
        let at_least = |power: &usize| zeros[*power..].iter().sum::<u64>() * 20 >= total * 19;
        let highest = (0..64).rev().find(at_least).unwrap_or(0).max(PAGE.ilog2() as usize + 1);
        zeros[highest] = zeros[highest..].iter().sum();
        let most = (0..=highest).max_by_key(|power| zeros[*power]).unwrap_or(highest);
        // The highest has a row in any case: it says of the others that they are exact.
        rows.insert((direction, size, highest as u8), 0);
        for (power, &count) in zeros.iter().enumerate().take(highest + 1).filter(|row| *row.1 > 0) {
            let row = if count * RARE_ALIGNMENT < total { most } else { power };
            *rows.entry((direction, size, row as u8)).or_default() += count;
        }
    }
    table(rows, |(d, ..)| *d, |(_, size, power), count| (size, power, count))
}
