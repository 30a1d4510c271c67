//! Fits a model to requests: two passes, one that finds runs and one that counts.

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;

use foldhash::fast::FixedState;
use iotrail_sim::Op;

use crate::chain::Counts;
use crate::history::{Ends, History};
use crate::model::{Device, Direction, FORMAT, Largest, Model, Part, Return, State};
use crate::runs::{self, Recent, Run};
use crate::states::States;
use crate::{Arrival, PAGE, rate};

/// Runs that are kept one by one.
const LARGEST: usize = 256;
/// Least bytes of these.
const LEAST_LARGE: u64 = 64 * PAGE;
/// Sizes that each keeps.
const SIZES: usize = 2;
/// Parts of the whole, each with quotas of its own.
const PARTS: usize = 16;

/// How often things were seen.
#[derive(Clone)]
struct Tally<K>(HashMap<K, u64, FixedState>);

impl<K> Default for Tally<K> {
    fn default() -> Self {
        Self(HashMap::default())
    }
}

impl<K: Hash + Ord + Copy> Tally<K> {
    fn add(&mut self, thing: K, count: u64) {
        *self.0.entry(thing).or_default() += count;
    }

    fn count(&mut self, thing: K) {
        self.add(thing, 1);
    }

    /// Rows of a table, in the order of the things.
    fn rows<R>(self, row: impl Fn(K, u64) -> R) -> Vec<R> {
        let mut counts: Vec<_> = self.0.into_iter().collect();
        counts.sort_unstable();
        counts.into_iter().map(|(thing, count)| row(thing, count)).collect()
    }
}

/// A run as a whole.
#[derive(Clone, Copy, Default)]
struct Whole {
    requests: u64,
    bytes: u64,
    is_large: bool,
    /// Requests that were counted.
    seen: u64,
}

#[derive(Default)]
struct InState {
    directions: Tally<(Direction, Direction)>,
    sizes: Tally<(Direction, u64)>,
    starts: Tally<(Direction, u8)>,
    lengths: Tally<(Direction, u8)>,
}

#[derive(Clone, Default)]
struct InPart {
    distances: Tally<u8>,
    lengths: Tally<(Direction, u8)>,
    states: Tally<(u32, u64)>,
}

#[derive(Default)]
struct OfDevice {
    reach: u64,
    chains: BTreeMap<(u32, u64), Counts>,
    states: BTreeMap<u64, InState>,
}

#[derive(Default)]
struct Tables {
    actions: Tally<(u8, u8)>,
    ranks: Tally<u8>,
    next_size: Tally<(Direction, bool, u64, u64)>,
    lengths: Tally<(Direction, u64, u8)>,
    in_runs: Tally<(Direction, u8)>,
    begins: Tally<(Direction, bool, u8, u8)>,
    returns: Tally<(Direction, u8, Return)>,
    zeros: HashMap<(Direction, u64), [u64; 64], FixedState>,
}

/// The run of each request that has a place, and how long each is in all.
fn find_runs(arrivals: &[Arrival]) -> (Vec<u32>, Vec<Whole>) {
    let (mut of, mut wholes) = (Vec::with_capacity(arrivals.len()), Vec::<Whole>::new());
    let mut recent = Recent::default();
    for Arrival { device, request, .. } in arrivals {
        if request.op == Op::Flush {
            of.push(0);
            continue;
        }
        let number = match recent.rank(*device, request.op, request.pos) {
            Some(rank) => recent.go_on(rank, request.length).number,
            None => {
                let number = wholes.len() as u64;
                recent.begin(Run::new(*device, *request, 0, number));
                wholes.push(Whole::default());
                number
            }
        };
        of.push(number as u32);
        wholes[number as usize].requests += 1;
        wholes[number as usize].bytes += request.length;
    }
    let mut by_size: Vec<usize> = (0..wholes.len()).filter(|run| wholes[*run].bytes >= LEAST_LARGE).collect();
    by_size.sort_by_key(|run| std::cmp::Reverse(wholes[*run].bytes));
    by_size.into_iter().take(LARGEST).for_each(|run| wholes[run].is_large = true);
    (of, wholes)
}

/// Which size stands for each: those of fewer requests than `least` are of the nearest that has more.
fn common_sizes(arrivals: &[Arrival], least: u64) -> HashMap<(Direction, u64), u64, FixedState> {
    let mut counts: Tally<(Direction, u64)> = Tally::default();
    for Arrival { request, .. } in arrivals {
        if let Some(direction) = Direction::of(request.op) {
            counts.count((direction, request.length));
        }
    }
    let rows = counts.rows(|(direction, size), count| (direction, size, count));
    let nearest = |&(direction, size, _): &(Direction, u64, u64)| {
        let of_direction = rows.iter().filter(|row| row.0 == direction);
        let common = of_direction.clone().filter(|row| row.2 >= least).min_by_key(|row| row.1.abs_diff(size));
        let most = of_direction.max_by_key(|row| row.2);
        ((direction, size), common.or(most).map_or(size, |row| row.1))
    };
    rows.iter().map(nearest).collect()
}

/// Fits a model with ranges of addresses divided `levels` times. Requests are in the order of their arrivals.
///
/// Sizes of fewer than `min_count` requests, or of fewer than one in 5,000, count as the nearest of more.
#[must_use]
pub fn fit(arrivals: &[Arrival], levels: u32, min_count: u64) -> Model {
    let count = arrivals.iter().map(|arrival| arrival.device + 1).max().unwrap_or(0) as usize;
    let mut devices: Vec<OfDevice> = (0..count).map(|_| OfDevice::default()).collect();
    for Arrival { device, request, .. } in arrivals {
        let reach = &mut devices[*device as usize].reach;
        *reach = (request.pos + request.length).max(*reach);
    }
    let (run_of, mut wholes) = find_runs(arrivals);
    let common = common_sizes(arrivals, min_count.max(arrivals.len() as u64 / 5_000));
    let size_of = |direction: Direction, size: u64| common.get(&(direction, size)).copied().unwrap_or(size);
    let mut sizes_of_large: HashMap<u32, Tally<u64>, FixedState> = HashMap::default();
    for (Arrival { request, .. }, run) in arrivals.iter().zip(&run_of) {
        if let Some(direction) = Direction::of(request.op)
            && wholes[*run as usize].is_large
        {
            sizes_of_large.entry(*run).or_default().count(size_of(direction, request.length));
        }
    }
    let mut next_device = Counts::new(count.max(1));
    let (mut tables, mut parts) = (Tables::default(), vec![InPart::default(); PARTS]);
    let (mut recent, mut ends, mut history) = (Recent::default(), Ends::default(), History::default());
    let (mut largest, mut kept) = (Vec::<Largest>::new(), Vec::new());
    let (mut began, mut before, mut place) = (false, Direction::Read, None);
    let mut last = arrivals.first().map_or(0, |arrival| arrival.at);
    for (at, (&Arrival { at: time, device, request }, run)) in arrivals.iter().zip(run_of).enumerate() {
        let context = u8::from(recent.context(began, time - last));
        last = time;
        let Some(direction) = Direction::of(request.op) else {
            tables.actions.count((context, runs::FLUSH));
            tables.ranks.count(runs::FLUSH);
            continue;
        };
        let part = &mut parts[at * PARTS / arrivals.len()];
        let size = size_of(direction, request.length);
        let whole = &mut wholes[run as usize];
        let begins = whole.seen == 0;
        whole.seen += 1;
        let left = whole.requests - whole.seen;
        let of = &mut devices[device as usize];
        let number = States { reach: of.reach, levels }.of(request.pos);
        let draws_place = begins && !whole.is_large;
        part.states.count((device, number));
        next_device.visit(device as usize, draws_place);
        for level in 0..levels {
            let (node, child) = (number >> (2 * (levels - level)), number >> (2 * (levels - level - 1)) & 3);
            let chain = of.chains.entry((level, node)).or_insert_with(|| Counts::new(4));
            chain.visit(child as usize, draws_place);
        }
        let state = of.states.entry(number).or_default();
        if begins {
            let follows = ends.has(device, request.op, request.pos);
            let (class, back) = history.back(device, request, whole.bytes, follows);
            if whole.is_large {
                let within =
                    largest.iter().zip(&kept).rposition(|(run, (of, pos)): (&Largest, &(u32, u64))| {
                        *of == device && (*pos..pos + run.bytes()).contains(&request.pos)
                    });
                let within = within.map(|run| (run, request.pos - kept[run].1));
                let others = sizes_of_large.remove(&run).unwrap_or_default();
                largest.push(Largest(
                    at as u64,
                    device,
                    number,
                    direction,
                    size,
                    frequent(others, size),
                    within,
                    class,
                ));
                kept.push((device, request.pos));
            } else {
                let length = runs::length_class(whole.requests);
                let here = place == Some((device, number));
                tables.actions.count((context, runs::BEGIN));
                tables.ranks.count(runs::BEGIN);
                tables.lengths.count((direction, size, length));
                tables.in_runs.add((direction, length), whole.requests);
                tables.begins.count((direction, here, length, class));
                tables.returns.count((direction, class.div_ceil(4), back));
                part.lengths.count((direction, length));
                state.directions.count((before, direction));
                state.sizes.count((direction, size));
                state.starts.count((direction, class));
                state.lengths.count((direction, length));
            }
            let zeros = tables.zeros.entry((direction, size)).or_insert([0; 64]);
            zeros[request.pos.trailing_zeros().min(63) as usize] += 1;
            if let Some(run) = recent.begin(Run::new(device, request, left, 0)) {
                ends.add(run.device, run.op, run.end);
            }
        } else {
            let rank = recent.rank(device, request.op, request.pos).unwrap_or(0);
            let among = recent.going().take_while(|going| *going < rank).count();
            tables.actions.count((context, runs::action(among)));
            tables.ranks.count(runs::action(rank));
            if !whole.is_large {
                let size_before = size_of(direction, recent.runs()[rank].length);
                tables.next_size.count((direction, left == 0, size_before, size));
            }
            recent.go_on(rank, request.length).left = left;
        }
        history.used_by(device, request, |_, _, class| part.distances.count(class));
        (began, before, place) = (begins, direction, Some((device, number)));
    }
    let times: Vec<_> = arrivals.iter().map(|arrival| arrival.at).collect();
    Model {
        format: FORMAT,
        levels,
        devices: devices.into_iter().map(OfDevice::found).collect(),
        next_device: next_device.found(),
        rate: rate::fit(&times, rate::KEPT),
        actions: tables.actions.rows(|(context, action), count| (context, action, count)),
        ranks: tables.ranks.rows(|action, count| (action, count)),
        next_size: tables.next_size.rows(|(d, last, before, after), count| (d, last, before, after, count)),
        lengths: tables.lengths.rows(|(d, size, class), count| (d, size, class, count)),
        in_runs: tables.in_runs.rows(|(d, class), requests| (d, class, requests)),
        begins: tables.begins.rows(|(d, here, length, class), count| (d, here, length, class, count)),
        returns: tables.returns.rows(|(d, class, back), count| (d, class, back, count)),
        parts: parts.into_iter().map(InPart::found).collect(),
        largest,
        alignment: aligned(tables.zeros),
    }
}

impl OfDevice {
    fn found(self) -> Device {
        let state = |(number, state): (u64, InState)| State {
            number,
            directions: state.directions.rows(|(before, d), count| (before, d, count)),
            sizes: state.sizes.rows(|(d, size), count| (d, size, count)),
            starts: state.starts.rows(|(d, class), count| (d, class, count)),
            lengths: state.lengths.rows(|(d, class), count| (d, class, count)),
        };
        Device {
            reach_bytes: self.reach,
            chains: self
                .chains
                .into_iter()
                .map(|((level, node), counts)| (level, node, counts.found()))
                .collect(),
            states: self.states.into_iter().map(state).collect(),
        }
    }
}

impl InPart {
    fn found(self) -> Part {
        Part {
            distances: self.distances.rows(|class, count| (class, count)),
            lengths: self.lengths.rows(|(d, class), count| (d, class, count)),
            states: self.states.rows(|(device, number), count| (device, number, count)),
        }
    }
}

/// The sizes that most requests have but the first one, with those of the others.
fn frequent(mut sizes: Tally<u64>, first: u64) -> Vec<(u64, u64)> {
    if let Some(count) = sizes.0.get_mut(&first) {
        *count -= 1;
    }
    let mut kept = sizes.rows(|bytes, count| (bytes, count));
    kept.retain(|(_, count)| *count > 0);
    kept.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let others = kept.split_off(kept.len().min(SIZES));
    for (bytes, count) in others {
        if let Some(nearest) = kept.iter_mut().min_by_key(|(kept, _)| kept.abs_diff(bytes)) {
            nearest.1 += count;
        }
    }
    kept
}

/// The power of two that at least 95 % of the addresses at which runs begin are multiples of.
fn aligned(zeros: HashMap<(Direction, u64), [u64; 64], FixedState>) -> Vec<(Direction, u64, u8)> {
    let power = |zeros: [u64; 64]| {
        let total: u64 = zeros.iter().sum();
        let mut at_least = 0;
        let found = (0..64).rev().find(|power| {
            at_least += zeros[*power];
            at_least * 20 >= total * 19
        });
        found.unwrap_or(0) as u8
    };
    let mut rows: Vec<_> = zeros.into_iter().map(|((d, size), zeros)| (d, size, power(zeros))).collect();
    rows.sort_unstable();
    rows
}
