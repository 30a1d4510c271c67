//! Draws requests from a model.

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;

use foldhash::fast::FixedState;
use iotrail_sim::{Nanos, Op, Request};
use rand::Rng as _;
use rand::SeedableRng as _;
use rand_pcg::Pcg64Mcg;

use crate::chain::Walk;
use crate::history::{self, History};
use crate::model::{Direction, Largest, Model, Part, Return};
use crate::quotas::{Quotas, choose};
use crate::rate::Arrivals;
use crate::runs::{self, Context, RECENT, Recent, Run};
use crate::states::States;
use crate::{Arrival, PAGE};

/// Places looked at, of each list, for one that a run may return to.
const LOOKED_AT: usize = 6;
/// Lists of places, by powers of four of what was to come of a run.
const LISTS: usize = 8;
/// Ends of forgotten runs that a state knows.
const MOST_ENDS: usize = 256;
/// Tries to find a place that was never used.
const TRIES: usize = 32;
/// A page that is in no state's list.
const UNLISTED: u32 = u32::MAX;

type Table<K, T> = HashMap<K, Vec<(T, u64)>, FixedState>;

struct InState {
    first: u64,
    end: u64,
    directions: Table<Direction, Direction>,
    due_directions: Quotas<Direction>,
    sizes: Table<Direction, u64>,
    due_sizes: Quotas<(Direction, u64)>,
    starts: Table<Direction, u8>,
    due_starts: Quotas<(Direction, u8)>,
    due_lengths: Quotas<(Direction, u8)>,
    lengths: HashMap<(Direction, u8), u64, FixedState>,
    /// Pages in which requests began, by how much of their run was to come, and the time of their last use.
    begun: [BTreeMap<u64, u32>; LISTS],
    /// Where runs ended that are forgotten.
    ends: Vec<(Direction, u64)>,
}

struct OfDevice {
    range: States,
    walks: HashMap<(u32, u64), Walk, FixedState>,
    /// Number of a state to its index in [`Draw::states`].
    index: HashMap<u64, u32, FixedState>,
}

/// The requests of a model, in the order of their arrivals.
pub struct Draw {
    random: Pcg64Mcg,
    arrivals: Arrivals,
    next_device: Walk,
    devices: Vec<OfDevice>,
    states: Vec<InState>,
    recent: Recent,
    began: bool,
    last: Nanos,
    before: Direction,
    place: Option<(usize, u64)>,
    actions: Table<u8, u8>,
    due_actions: Quotas<u8>,
    next_size: Table<(Direction, bool, u64), u64>,
    due_size: Quotas<(Direction, u64)>,
    lengths: Table<(Direction, u64), u8>,
    due_lengths: Quotas<(Direction, u8)>,
    /// Mean lengths of runs by class.
    mean_lengths: HashMap<(Direction, u8), f64, FixedState>,
    due_direction: Quotas<Direction>,
    begins: HashMap<(Direction, bool, u8, u8), f64, FixedState>,
    returns: Table<(Direction, u8), Return>,
    due_returns: Quotas<(Direction, u8, Return)>,
    alignment: HashMap<(Direction, u64), u8, FixedState>,
    /// Uses of pages by distance class.
    due: Quotas<u8>,
    /// Requests by range, of all levels: device, level, number.
    due_states: Quotas<(u32, u32, u64)>,
    parts: Vec<Part>,
    largest: Vec<Largest>,
    /// Sizes of the requests that they still go on with.
    sizes_of_large: HashMap<u64, Vec<u64>, FixedState>,
    /// Where those that were drawn began.
    placed: Vec<u64>,
    requests: u64,
    drawn: u64,
    part: usize,
    history: History,
    /// Of each page the state in whose list it is.
    listed: Vec<(u32, u8)>,
}

/// What a request does.
#[derive(Clone, Copy, Debug)]
enum Step {
    GoOn(usize),
    Begin,
    BeginLarge,
    Flush,
}

/// The direction of a run.
fn of_run(run: &Run) -> Direction {
    Direction::of(run.op).unwrap_or(Direction::Read)
}

/// The list of a place with so much of its run to come.
fn list_of(bytes: u64) -> u8 {
    ((bytes / PAGE).max(1).ilog2() / 2).min(LISTS as u32 - 1) as u8
}

fn grouped<K: Hash + Eq, T: Copy>(items: impl Iterator<Item = (K, T, u64)>) -> Table<K, T> {
    let mut lists: Table<K, T> = HashMap::default();
    for (key, thing, count) in items {
        lists.entry(key).or_default().push((thing, count));
    }
    lists
}

/// How much more often a distance class comes with a kind of run than by chance.
fn lift(begins: &[(Direction, bool, u8, u8, u64)]) -> HashMap<(Direction, bool, u8, u8), f64, FixedState> {
    let (mut of_kind, mut of_class, mut of_both) = (HashMap::new(), HashMap::new(), HashMap::new());
    for &(direction, here, length, class, count) in begins {
        *of_kind.entry((direction, here, length)).or_insert(0) += count;
        *of_class.entry((direction, class)).or_insert(0) += count;
        *of_both.entry(direction).or_insert(0) += count;
    }
    let one = |&(direction, here, length, class, count): &(Direction, bool, u8, u8, u64)| {
        let chance = of_kind[&(direction, here, length)] as f64 * of_class[&(direction, class)] as f64
            / of_both[&direction] as f64;
        ((direction, here, length, class), count as f64 / chance)
    };
    begins.iter().map(one).collect()
}

impl Draw {
    /// From the start of the model's time.
    #[must_use]
    pub fn new(model: &Model, seed: u64) -> Self {
        let mut states = Vec::new();
        let mut devices = Vec::new();
        for device in &model.devices {
            let range = States { reach: device.reach_bytes, levels: model.levels };
            let mut index: HashMap<u64, u32, FixedState> = HashMap::default();
            for state in &device.states {
                index.insert(state.number, states.len() as u32);
                let (first, end) = range.range(state.number);
                let counted = |&(d, class, count): &(Direction, u8, u64)| ((d, class), count);
                states.push(InState {
                    first,
                    end,
                    directions: grouped(state.directions.iter().copied()),
                    due_directions: Quotas::new(state.directions.iter().map(|&(_, d, count)| (d, count))),
                    sizes: grouped(state.sizes.iter().copied()),
                    due_sizes: Quotas::new(state.sizes.iter().map(|&(d, size, count)| ((d, size), count))),
                    starts: grouped(state.starts.iter().copied()),
                    due_starts: Quotas::new(state.starts.iter().map(counted)),
                    due_lengths: Quotas::new(state.lengths.iter().map(counted)),
                    lengths: state.lengths.iter().map(counted).collect(),
                    begun: Default::default(),
                    ends: Vec::new(),
                });
            }
            let walks =
                device.chains.iter().map(|(level, node, chain)| ((*level, *node), Walk::new(4, chain)));
            devices.push(OfDevice { range, walks: walks.collect(), index });
        }
        Self {
            random: Pcg64Mcg::seed_from_u64(seed),
            arrivals: Arrivals::new(&model.rate),
            next_device: Walk::new(model.devices.len().max(1), &model.next_device),
            devices,
            states,
            recent: Recent::default(),
            began: false,
            last: 0,
            before: Direction::Read,
            place: None,
            actions: grouped(model.actions.iter().copied()),
            due_actions: Quotas::new(model.ranks.iter().copied()),
            next_size: grouped(
                model
                    .next_size
                    .iter()
                    .map(|&(d, last, before, after, count)| ((d, last, before), after, count)),
            ),
            due_size: Quotas::new(model.next_size.iter().map(|&(d, _, _, after, count)| ((d, after), count))),
            lengths: grouped(model.lengths.iter().map(|&(d, size, class, count)| ((d, size), class, count))),
            due_lengths: Quotas::new(std::iter::empty()),
            mean_lengths: model
                .in_runs
                .iter()
                .map(|&(d, class, requests)| {
                    let runs: u64 =
                        model.begins.iter().filter(|row| (row.0, row.2) == (d, class)).map(|row| row.4).sum();
                    ((d, class), requests as f64 / runs.max(1) as f64)
                })
                .collect(),
            due_direction: Quotas::new(
                model
                    .in_runs
                    .iter()
                    .map(|&(d, _, requests)| (d, requests))
                    .chain(model.largest.iter().map(|run| (run.3, run.requests()))),
            ),
            begins: lift(&model.begins),
            returns: grouped(model.returns.iter().map(|&(d, class, back, count)| ((d, class), back, count))),
            due_returns: Quotas::new(
                model.returns.iter().map(|&(d, class, back, count)| ((d, class, back), count)),
            ),
            alignment: model.alignment.iter().map(|&(d, size, power)| ((d, size), power)).collect(),
            due: Quotas::new(std::iter::empty()),
            due_states: Quotas::new(std::iter::empty()),
            parts: model.parts.clone(),
            largest: model.largest.clone(),
            placed: Vec::new(),
            sizes_of_large: HashMap::default(),
            requests: model.rate.count,
            drawn: 0,
            part: 0,
            history: History::default(),
            listed: Vec::new(),
        }
    }

    /// What the next request does.
    fn step(&mut self, gap: Nanos) -> Step {
        let going: Vec<usize> = self.recent.going().collect();
        if let Some(rank) = going.last().filter(|rank| **rank == RECENT - 1) {
            // It would be forgotten.
            return Step::GoOn(*rank);
        }
        if self.largest.get(self.placed.len()).is_some_and(|run| run.0 < self.drawn) {
            return Step::BeginLarge;
        }
        let due = &self.due_actions;
        let context = self.recent.context(self.began, gap);
        // Else as with fewer runs, another gap, or those of another rank, where these never came.
        let less = (0..=context.many).rev().map(|many| Context { many, ..context });
        let gaps = (0..4).map(|gap| Context { gap, ..context });
        let ranks = (0..7).flat_map(|first| (0..4).map(move |gap| Context { first, gap, ..context }));
        let things = less.chain(gaps).chain(ranks).find_map(|context| self.actions.get(&u8::from(context)));
        let runs = self.recent.runs();
        let pull = |rank: usize| due.pull(runs::action(rank)) * self.due_direction.pull(of_run(&runs[rank]));
        let of = |action: u8| {
            let ranks = runs::ranks(action);
            &going[ranks.start.min(going.len())..ranks.end.min(going.len())]
        };
        let pull_of = |action: u8| match (action, of(action)) {
            (runs::BEGIN | runs::FLUSH, _) => due.pull(action),
            (_, []) => 0.0,
            (_, some) => some.iter().map(|rank| pull(*rank)).sum::<f64>() / some.len() as f64,
        };
        let action = things.and_then(|things| choose(things, &mut self.random, pull_of));
        if action == Some(runs::FLUSH) {
            return Step::Flush;
        }
        let of: Vec<(usize, u64)> = of(action.unwrap_or(runs::BEGIN)).iter().map(|rank| (*rank, 1)).collect();
        choose(&of, &mut self.random, pull).map_or(Step::Begin, Step::GoOn)
    }

    /// Notes in which range a request is.
    fn go(&mut self, device: usize, number: u64) {
        self.next_device.go(device);
        let OfDevice { range, walks, .. } = &mut self.devices[device];
        for level in 0..range.levels {
            let (node, child) =
                (number >> (2 * (range.levels - level)), number >> (2 * (range.levels - level - 1)) & 3);
            if let Some(walk) = walks.get_mut(&(level, node)) {
                walk.go(child as usize);
            }
            self.due_states.take((device as u32, level + 1, node << 2 | child));
        }
    }

    /// What has to come in the next part of the whole.
    fn next_part(&mut self) {
        let levels = self.devices.first().map_or(0, |device| device.range.levels);
        let part = &self.parts[self.part];
        self.due.add(part.distances.iter().copied());
        self.due_lengths.add(part.lengths.iter().map(|&(d, class, count)| ((d, class), count)));
        let states = part.states.iter().flat_map(|&(device, number, count)| {
            (1..=levels).map(move |level| ((device, level, number >> (2 * (levels - level))), count))
        });
        self.due_states.add(states);
        self.part += 1;
    }

    fn request(&mut self, at: Nanos) -> Arrival {
        if self.part < self.parts.len()
            && self.drawn * self.parts.len() as u64 >= self.part as u64 * self.requests
        {
            self.next_part();
        }
        self.drawn += 1;
        let step = self.step(at - self.last);
        self.last = at;
        let (device, direction, pos, length) = match step {
            Step::Flush => {
                self.due_actions.take(runs::FLUSH);
                let device = self.place.map_or(0, |(device, _)| device as u32);
                return Arrival { at, device, request: Request { op: Op::Flush, pos: 0, length: 0 } };
            }
            Step::GoOn(rank) => {
                let run = self.recent.runs()[rank];
                let direction = of_run(&run);
                let due = &self.due_size;
                let things = self.next_size.get(&(direction, run.left == 1, run.length));
                let pull = |size| due.pull((direction, size));
                let of_large = self.sizes_of_large.get_mut(&run.number).and_then(Vec::pop);
                let length =
                    of_large.or_else(|| choose(things?, &mut self.random, pull)).unwrap_or(run.length);
                if of_large.is_none() {
                    self.due_size.take((direction, length));
                }
                let now = self.recent.go_on(rank, length);
                now.left -= 1;
                if run.end + length >= self.devices[run.device as usize].range.reach {
                    now.left = 0;
                }
                self.due_actions.take(runs::action(rank));
                (run.device as usize, direction, run.end, length)
            }
            Step::BeginLarge => self.begin_large(),
            Step::Begin => {
                self.due_actions.take(runs::BEGIN);
                self.begin()
            }
        };
        self.began = !matches!(step, Step::GoOn(_));
        self.before = direction;
        self.due_direction.take(direction);
        let range = self.devices[device].range;
        let pos = pos.min(range.reach.saturating_sub(length));
        let number = range.of(pos);
        self.place = Some((device, number));
        self.go(device, number);
        let request = Request { op: direction.op(), pos, length };
        let to_come =
            self.recent.runs().first().map_or(length, |run| run.length.saturating_mul(run.left + 1));
        self.used(device, number, request, to_come);
        Arrival { at, device: device as u32, request }
    }

    fn begin(&mut self) -> (usize, Direction, u64, u64) {
        let random = &mut self.random;
        let device = self.next_device.choose(random, |_| 1.0);
        let OfDevice { range, walks, index } = &self.devices[device];
        let mut number = 0;
        for level in 0..range.levels {
            let due =
                |child: usize| self.due_states.pull((device as u32, level + 1, number << 2 | child as u64));
            let child = walks.get(&(level, number)).map_or(0, |walk| walk.choose(random, due));
            number = number << 2 | child as u64;
        }
        let Some(&state) = index.get(&number).or_else(|| index.values().next()) else {
            return (device, Direction::Read, 0, PAGE);
        };
        let state = state as usize;
        let here = self.place == Some((device, number));
        let inside = &self.states[state];
        let of_before = inside.directions.get(&self.before).or_else(|| inside.directions.values().next());
        let pull = |d| inside.due_directions.pull(d);
        let direction = of_before.and_then(|of| choose(of, random, pull)).unwrap_or(Direction::Read);
        let pull = |size| inside.due_sizes.pull((direction, size));
        let size = inside.sizes.get(&direction).and_then(|of| choose(of, random, pull)).unwrap_or(PAGE);
        let pull = |class| {
            let here = inside.lengths.get(&(direction, class)).copied().unwrap_or(0);
            let here = if here > 0 { inside.due_lengths.pull((direction, class)) } else { 0.01 };
            here * self.due_lengths.pull((direction, class))
        };
        let length_class =
            self.lengths.get(&(direction, size)).and_then(|of| choose(of, random, pull)).unwrap_or(0);
        let (from, to) = runs::lengths(length_class);
        // Of the class, with its mean.
        let mean =
            self.mean_lengths.get(&(direction, length_class)).copied().unwrap_or(from as f64) - from as f64;
        let width = (to - 1 - from) as f64;
        let bend = if mean > 0.0 { width / mean - 1.0 } else { f64::INFINITY };
        let requests = from + (width * random.random::<f64>().powf(bend)).round() as u64;
        let pull = |class: u8| {
            let lift = self.begins.get(&(direction, here, length_class, class)).copied().unwrap_or(0.02);
            lift * self.due.pull(class) * inside.due_starts.pull((direction, class))
        };
        let class = inside.starts.get(&direction).and_then(|of| choose(of, random, pull)).unwrap_or(0);
        let pull = |back| self.due_returns.pull((direction, class.div_ceil(4), back));
        let back = self
            .returns
            .get(&(direction, class.div_ceil(4)))
            .and_then(|of| choose(of, random, pull))
            .unwrap_or_default();
        let inside = &mut self.states[state];
        inside.due_directions.take(direction);
        inside.due_sizes.take((direction, size));
        inside.due_lengths.take((direction, length_class));
        inside.due_starts.take((direction, class));
        self.due_lengths.take((direction, length_class));
        self.due_returns.take((direction, class.div_ceil(4), back));
        let bytes = size.saturating_mul(requests);
        let follows = if back.follows {
            let at = inside.ends.iter().rposition(|(of, _)| *of == direction);
            at.map(|at| inside.ends.remove(at).1)
        } else {
            None
        };
        let again = |draw: &mut Self| {
            if class == 0 { None } else { draw.again(state, direction, size, bytes, class, back) }
        };
        let pos = follows
            .or_else(|| again(self))
            .unwrap_or_else(|| self.fresh(device, state, direction, size, bytes));
        let pos = pos.min(self.devices[device].range.reach.saturating_sub(size));
        let request = Request { op: direction.op(), pos, length: size };
        self.remember(Run::new(device as u32, request, requests - 1, 0));
        (device, direction, pos, size)
    }

    fn begin_large(&mut self) -> (usize, Direction, u64, u64) {
        let run = self.largest[self.placed.len()].clone();
        let (requests, bytes) = (run.requests(), run.bytes());
        let Largest(_, device, state, direction, size, others, within, class) = run;
        let state = self.devices[device as usize].index.get(&state).copied().unwrap_or(0) as usize;
        let place = match within {
            Some((before, offset)) => Some(self.placed[before] + offset),
            None if class > 0 => {
                let back = Return { same_size: true, covered: 2, ..Return::default() };
                self.again(state, direction, size, bytes, class, back)
            }
            None => None,
        };
        let pos = place.unwrap_or_else(|| self.fresh(device as usize, state, direction, size, bytes));
        let pos = pos.min(self.devices[device as usize].range.reach.saturating_sub(size));
        self.placed.push(pos);
        let number = self.placed.len() as u64;
        let mut sizes: Vec<u64> =
            others.iter().flat_map(|&(bytes, count)| std::iter::repeat_n(bytes, count as usize)).collect();
        for at in (1..sizes.len()).rev() {
            sizes.swap(at, self.random.random_range(0..=at));
        }
        self.sizes_of_large.insert(number, sizes);
        let request = Request { op: direction.op(), pos, length: size };
        self.remember(Run::new(device, request, requests - 1, number));
        (device as usize, direction, pos, size)
    }

    fn remember(&mut self, run: Run) {
        if let Some(run) = self.recent.begin(run) {
            let of = &self.devices[run.device as usize];
            if let Some(state) = of.index.get(&of.range.of(run.end)) {
                let ends = &mut self.states[*state as usize].ends;
                if ends.len() == MOST_ENDS {
                    ends.remove(0);
                }
                ends.push((of_run(&run), run.end));
            }
        }
    }

    /// A place of a state where a request began, whose page was used last at a distance of a class.
    fn again(
        &mut self,
        state: usize,
        direction: Direction,
        size: u64,
        bytes: u64,
        class: u8,
        back: Return,
    ) -> Option<u64> {
        let (nearest, furthest) = history::distances(class);
        let distance = nearest * (furthest / nearest).powf(self.random.random::<f64>());
        let time = self.history.page(self.history.at_distance(distance)?).time;
        let same = |one: bool, other: bool| f64::from(u8::from(one == other));
        let now = self.history.time();
        let age = |time: u64| (now - time) as f64 + 1.0;
        let score = |number: u32, far: usize| {
            let page = self.history.page(number);
            let covered = self.history.covered(page.device, page.pos, bytes);
            3.0 * same(page.length == size, back.same_size)
                + 2.0 * same(page.write == (direction == Direction::Write), back.same_direction)
                - 3.0 * f64::from(covered.abs_diff(back.covered))
                - (f64::from(page.uses.max(1).ilog2().min(6)) - f64::from(back.uses)).abs() / 2.0
                - 2.0 * (age(page.time) / age(time)).log2().abs()
                - far as f64 / 8.0
        };
        let best = self.states[state].begun.iter().flat_map(|list| {
            let before = list.range(..time).rev().take(LOOKED_AT / 2).map(|(_, page)| *page).enumerate();
            let after = list.range(time..).take(LOOKED_AT / 2).map(|(_, page)| *page).enumerate();
            before.chain(after).map(|(far, page)| (score(page, far), page))
        });
        // Where a run ended that is known, it would go on with that.
        let goes_on = |page: u32| {
            let page = self.history.page(page);
            self.recent.rank(page.device, direction.op(), page.pos).is_some()
        };
        let best = best.filter(|(_, page)| !goes_on(*page));
        let (_, page) = best.max_by(|one, other| one.0.total_cmp(&other.0))?;
        Some(self.history.page(page).pos)
    }

    /// A place of a state that wasn't used.
    fn fresh(&mut self, device: usize, state: usize, direction: Direction, size: u64, bytes: u64) -> u64 {
        let inside = &self.states[state];
        let power = self.alignment.get(&(direction, size)).copied().unwrap_or(9).min(40);
        let (first, end) = (inside.first >> power, (inside.end.max(inside.first + 1) - 1) >> power);
        let mut pos = inside.first;
        for _ in 0..TRIES {
            pos = (self.random.random_range(first..=end) << power).max(inside.first);
            if self.history.find(device as u32, pos).is_none()
                && self.history.covered(device as u32, pos, bytes) == 0
            {
                break;
            }
        }
        pos
    }

    fn used(&mut self, device: usize, number: u64, request: Request, to_come: u64) {
        let state = self.devices[device].index.get(&number).copied().unwrap_or(UNLISTED);
        let (listed, states, due) = (&mut self.listed, &mut self.states, &mut self.due);
        let mut is_first = true;
        let mut time = self.history.time();
        self.history.used_by(device as u32, request, |page, before, class| {
            due.take(class);
            time += 1;
            if listed.len() <= page as usize {
                listed.resize(page as usize + 1, (UNLISTED, 0));
            }
            let place = &mut listed[page as usize];
            if let Some(state) = states.get_mut(place.0 as usize) {
                state.begun[usize::from(place.1)].remove(&before);
            }
            if is_first && state != UNLISTED {
                *place = (state, list_of(to_come));
            }
            is_first = false;
            if let Some(state) = states.get_mut(place.0 as usize) {
                state.begun[usize::from(place.1)].insert(time, page);
            }
        });
    }
}

impl Iterator for Draw {
    type Item = Arrival;

    fn next(&mut self) -> Option<Arrival> {
        let at = self.arrivals.next(&mut self.random)?;
        Some(self.request(at))
    }
}
