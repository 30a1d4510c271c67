//! Where runs begin: in which range of addresses, how far from other runs, how far back the data there were used.

use std::collections::{BTreeMap, HashMap};

use foldhash::fast::FixedState;
use iotrail_sim::{Op, Request};
use rand::Rng as _;
use rand_pcg::Pcg64Mcg;

use crate::PAGE;
use crate::chain::Walk;
use crate::history::{self, History, Page};
use crate::model::{Direction, Model, Return, Table, rows};
use crate::parts::{Ranges, Schedule, sliced};
use crate::quotas::{Choices, Quotas, choices, choose, pick};
use crate::recency::Recency;
use crate::runs::{self, Recent, Run};
use crate::states::States;

mod tables;

use self::tables::{Lifts, lifts, range_key, return_key, start_key};

/// Requests in which ranges have their shares.
const SLICE: u64 = 1000;
/// Places looked at for one that a run may return to: of each list of a state, and on each side of an address.
const LOOKED_AT: usize = 3;
const NEAR: usize = 8;
/// Lists of places, by powers of four of what was to come of a run.
const LISTS: usize = 8;
/// Ends of forgotten runs that a state knows.
const MOST_ENDS: usize = 256;
/// Tries to find a place that was never used, half of them near a run.
const TRIES: usize = 32;
/// Power of two of addresses of which nothing is known.
const SECTOR: u8 = 9;
/// Powers of two that an end to follow may have been used longer ago, or later, than it is to be.
const MOST_APART: f64 = 0.5;
/// Score of a place that is aligned as no request of the size was.
const MISALIGNED: f64 = -8.0;
/// Weight of what was never seen.
const UNSEEN: f64 = 0.02;
/// A page that is in no state's list.
const UNLISTED: u32 = u32::MAX;

struct InState {
    device: u32,
    first: u64,
    end: u64,
    /// How much more often sizes are here than elsewhere.
    sizes: HashMap<(Direction, u64), f64, FixedState>,
    /// Directions of which sizes are as everywhere.
    any_size: Vec<Direction>,
    starts: Choices<Direction, u8>,
    /// By [`start_key`].
    due_starts: Quotas<u16>,
    /// Pages in which requests began, by how much of their run was to come, and the time of their last use.
    begun: [Recency; LISTS],
    /// Where runs ended that are forgotten.
    ends: Vec<(Direction, u64)>,
}

struct OfDevice {
    range: States,
    walks: HashMap<(u32, u64), Walk, FixedState>,
    /// Number of a state to its index in [`Places::states`].
    index: HashMap<u64, u32, FixedState>,
    /// Where requests began last in each page, and the page.
    begun: BTreeMap<u64, u32>,
}

/// Where a run is to begin.
#[derive(Clone, Copy, Debug)]
pub struct Start {
    /// The device.
    pub device: u32,
    /// The range of addresses.
    number: u64,
    /// Class of the distance from another run.
    near: u8,
    /// Addresses at that distance.
    target: Option<(u64, u64)>,
}

impl Start {
    /// Anywhere in a range of addresses.
    pub fn in_state(device: u32, number: u64) -> Self {
        Self { device, number, near: runs::near_class(None), target: None }
    }
}

/// What was used so far, and what has to be used next.
pub struct Places {
    next_device: Walk,
    devices: Vec<OfDevice>,
    states: Vec<InState>,
    distances: Schedule<Vec<(u8, u64)>>,
    due_distances: Quotas<u8>,
    states_over_time: Schedule<Ranges>,
    /// Requests by range, of all levels: by [`range_key`].
    due_states: Quotas<u64>,
    jumps: Schedule<Table<(i8, u64)>>,
    due_jumps: Quotas<(Direction, i8)>,
    jump_ranks: Choices<(Direction, u8), u8>,
    /// Beginnings of runs that are still to come in ranges of all levels, by [`range_key`] and direction.
    begins_left: HashMap<u64, [i64; 3], FixedState>,
    begins: Lifts,
    /// Distance classes of the first pages of runs everywhere.
    starts: Choices<Direction, u8>,
    returns: Choices<(Direction, u8), Return>,
    /// By [`return_key`].
    due_returns: Quotas<u32>,
    /// By direction and size of a run's first request: the power of two that its address is a multiple of.
    alignment: Choices<(Direction, u64), u8>,
    history: History,
    /// Of each page where it is listed.
    listed: Vec<Listed>,
}

/// Where a page is: in which list of which state, if in one, and where there.
#[derive(Clone, Copy)]
struct Listed {
    state: u32,
    list: u8,
    place: u32,
}

/// The list of a place with so much of its run to come.
fn list_of(bytes: u64) -> u8 {
    ((bytes / PAGE).max(1).ilog2() / 2).min(LISTS as u32 - 1) as u8
}

/// Whether an address is aligned as some were; of the highest power also to more.
fn is_aligned(powers: &[(u8, u64)], pos: u64) -> bool {
    let power = pos.trailing_zeros();
    let Some(highest) = powers.iter().map(|row| u32::from(row.0)).max() else { return true };
    powers.iter().any(|&(of, count)| count > 0 && u32::from(of) == power.min(highest))
}

/// How far an address is from some, in powers of two of how many these are.
fn beyond((first, end): (u64, u64), pos: u64) -> f64 {
    let far = if pos < first { first - pos } else { (pos + 1).saturating_sub(end) };
    if far == 0 {
        return 0.0;
    }
    f64::from(far.ilog2().saturating_sub((end - first).max(1).ilog2()).min(8) + 1) / 2.0
}

impl Places {
    /// Nothing was used.
    pub fn new(model: &Model) -> Self {
        let mut of_class: BTreeMap<(Direction, u8), u64> = BTreeMap::new();
        for (d, (_, _, class, count)) in rows(&model.begins) {
            *of_class.entry((d, class)).or_default() += count;
        }
        let starts = choices(of_class.into_iter().map(|((d, class), count)| (d, class, count)));
        let mut places = Self {
            next_device: Walk::new(model.devices.len().max(1), &model.next_device),
            devices: Vec::new(),
            states: Vec::new(),
            distances: Schedule::new(&model.distances),
            due_distances: Quotas::default(),
            states_over_time: Schedule::new(&sliced(&model.states, SLICE)),
            due_states: Quotas::default(),
            jumps: Schedule::new(&model.jumps),
            due_jumps: Quotas::default(),
            jump_ranks: choices(
                rows(&model.jump_ranks).map(|(d, (near, rank, count))| ((d, near), rank, count)),
            ),
            begins_left: HashMap::default(),
            begins: lifts(&model.begins),
            starts,
            returns: choices(rows(&model.returns).map(|(d, (class, back, count))| ((d, class), back, count))),
            due_returns: Quotas::new(
                rows(&model.returns).map(|(d, (class, back, count))| (return_key(d, class, back), count)),
            ),
            alignment: choices(
                rows(&model.alignment).map(|(d, (size, power, count))| ((d, size), power, count)),
            ),
            history: History::default(),
            listed: Vec::new(),
        };
        places.add_devices(model);
        places
    }

    fn add_devices(&mut self, model: &Model) {
        let (mut of_size, mut of_all): (HashMap<_, u64>, HashMap<_, u64>) = (HashMap::new(), HashMap::new());
        for (d, (size, count)) in model.sizes.iter().flat_map(|part| rows(&part.1)) {
            *of_size.entry((d, size)).or_default() += count;
            *of_all.entry(d).or_default() += count;
        }
        for (of, device) in model.devices.iter().enumerate() {
            let range = States { reach: device.reach_bytes, levels: model.levels };
            let mut index: HashMap<u64, u32, FixedState> = HashMap::default();
            for state in &device.states {
                index.insert(state.number, self.states.len() as u32);
                let (first, end) = range.range(state.number);
                for level in 0..=model.levels {
                    let number = state.number >> (2 * (model.levels - level));
                    for (d, count) in &state.begins {
                        let left = self.begins_left.entry(range_key(of as u32, level, number)).or_default();
                        left[*d as usize] += *count as i64;
                    }
                }
                let mut here: HashMap<_, u64> = HashMap::new();
                rows(&state.sizes).for_each(|(d, (_, count))| *here.entry(d).or_default() += count);
                let lift = |(d, (size, count)): (Direction, (u64, u64))| {
                    let all = of_all.get(&d).copied().unwrap_or(0).max(1) as f64;
                    let chance = here[&d] as f64 * of_size.get(&(d, size)).copied().unwrap_or(1) as f64 / all;
                    ((d, size), count as f64 / chance.max(f64::MIN_POSITIVE))
                };
                self.states.push(InState {
                    device: of as u32,
                    first,
                    end,
                    sizes: rows(&state.sizes).map(lift).collect(),
                    any_size: state.begins.keys().filter(|d| !state.sizes.contains_key(d)).copied().collect(),
                    starts: state.starts.iter().map(|(d, rows)| (*d, rows.clone())).collect(),
                    due_starts: Quotas::new(
                        rows(&state.starts).map(|(d, (class, n))| (start_key(d, class), n)),
                    ),
                    begun: Default::default(),
                    ends: Vec::new(),
                });
            }
            let walks =
                device.chains.iter().map(|(level, node, chain)| ((*level, *node), Walk::new(4, chain)));
            self.devices.push(OfDevice { range, walks: walks.collect(), index, begun: BTreeMap::new() });
        }
    }

    /// End of a device's addresses.
    pub fn reach(&self, device: u32) -> u64 {
        self.devices[device as usize].range.reach
    }

    /// An address at which a request of a size ends on the device.
    pub fn inside(&self, device: u32, pos: u64, size: u64) -> u64 {
        pos.min(self.reach(device).saturating_sub(size))
    }

    /// Begins the parts that begin after so many requests.
    pub fn advance(&mut self, requests: u64) {
        while let Some(distances) = self.distances.next(requests) {
            self.due_distances.add(distances.into_iter());
        }
        while let Some(jumps) = self.jumps.next(requests) {
            self.due_jumps.add(rows(&jumps).map(|(d, (class, count))| ((d, class), count)));
        }
        let levels = self.devices.first().map_or(0, |device| device.range.levels);
        // On level 0 a range is a whole device.
        while let Some(states) = self.states_over_time.next(requests) {
            let of_level = |&(device, number, count): &(u32, u64, u64)| {
                (0..=levels)
                    .map(move |level| (range_key(device, level, number >> (2 * (levels - level))), count))
            };
            self.due_states.add(states.iter().flat_map(of_level));
        }
    }

    /// The device and range in which a run begins, and how far from another.
    pub fn start(&mut self, direction: Direction, recent: &Recent, random: &mut Pcg64Mcg) -> Start {
        let device = self.next_device.choose(random, |device| {
            let key = range_key(device as u32, 0, 0);
            self.share_left(direction, key) * self.due_states.pull(key)
        });
        let jump = self.due_jumps.choose(random, |(d, _)| f64::from(u8::from(*d == direction)));
        if let Some(jump) = jump {
            self.due_jumps.take(jump);
        }
        let near = runs::near_class(jump.map(|jump| jump.1));
        let targets = jump.map(|(_, class)| self.targets(device as u32, direction, near, class, recent));
        let targets = targets.unwrap_or_default();
        let all: f64 = targets.iter().map(|target| target.1).sum();
        let OfDevice { range, walks, .. } = &self.devices[device];
        let device = device as u32;
        let mut number = 0;
        for level in 0..range.levels {
            let weight = |child: usize| {
                let child = number << 2 | child as u64;
                let (first, end) = States { levels: level + 1, ..*range }.range(child);
                let inside = targets.iter().filter(|(target, _)| first < target.1 && target.0 < end);
                let inside: f64 = inside.map(|target| target.1).sum();
                let reached = if targets.is_empty() { 1.0 } else { (inside / all).max(1e-6) };
                let key = range_key(device, level + 1, child);
                reached * self.share_left(direction, key) * self.due_states.pull(key)
            };
            let child = walks.get(&(level, number)).map_or(0, |walk| walk.choose(random, weight));
            number = number << 2 | child as u64;
        }
        for level in 0..=range.levels {
            let of = range_key(device, level, number >> (2 * (range.levels - level)));
            if let Some(left) = self.begins_left.get_mut(&of) {
                left[direction as usize] -= 1;
            }
        }
        let (first, end) = range.range(number);
        let inside: Vec<_> =
            targets.iter().filter(|(target, _)| first < target.1 && target.0 < end).copied().collect();
        let target = pick(if inside.is_empty() { &targets } else { &inside }, random);
        Start { device, number, near, target }
    }

    /// Addresses at a distance of a class from each of the last runs, and how often runs begin at such a distance from it.
    fn targets(
        &self,
        device: u32,
        direction: Direction,
        near: u8,
        class: i8,
        recent: &Recent,
    ) -> Vec<((u64, u64), f64)> {
        let ends: Vec<u64> = recent.of(device, direction.op()).map(|run| run.end).collect();
        let ranks = self.jump_ranks.get(&(direction, near)).map_or(&[][..], |ranks| ranks.as_slice());
        let of_rank = |&(rank, count): &(u8, u64)| {
            let ranks = runs::ranks(rank);
            let some = &ends[ranks.start.min(ends.len())..ranks.end.min(ends.len())];
            let weight = count as f64 / some.len().max(1) as f64;
            some.iter().map(move |end| (runs::jump_to(*end, class), weight))
        };
        ranks.iter().flat_map(of_rank).collect()
    }

    /// The share of a direction in the runs that are still to begin in a range.
    fn share_left(&self, direction: Direction, range: u64) -> f64 {
        let left = self.begins_left.get(&range).copied().unwrap_or_default().map(|left| left.max(0));
        let all: i64 = left.iter().sum();
        (left[direction as usize] as f64 + 0.01) / (all as f64 + 0.01)
    }

    fn state_of(&self, start: &Start) -> Option<&InState> {
        let index = self.devices[start.device as usize].index.get(&start.number)?;
        Some(&self.states[*index as usize])
    }

    /// How much more often a size is in a range than elsewhere.
    pub fn size_lift(&self, start: &Start, direction: Direction) -> impl Fn(u64) -> f64 {
        let of = self.state_of(start).filter(|of| !of.any_size.contains(&direction));
        move |size| of.map_or(1.0, |of| of.sizes.get(&(direction, size)).copied().unwrap_or(UNSEEN))
    }

    /// Where a run of a first size, bytes in all and a class of lengths begins.
    pub fn place(
        &mut self,
        start: &Start,
        direction: Direction,
        (size, bytes): (u64, u64),
        length: u8,
        recent: &Recent,
        random: &mut Pcg64Mcg,
    ) -> u64 {
        let Some(&state) = self.devices[start.device as usize].index.get(&start.number) else {
            return self.fresh(start, direction, size, bytes, recent, random);
        };
        let inside = &self.states[state as usize];
        let lifts = self.begins.get(&(direction, start.near, length));
        let pull = |class: u8| {
            let lift = lifts.and_then(|of| of.get(usize::from(class))).copied().unwrap_or(UNSEEN);
            lift * self.due_distances.pull(class) * inside.due_starts.pull(start_key(direction, class))
        };
        let starts = inside.starts.get(&direction).or_else(|| self.starts.get(&direction));
        let class = starts.and_then(|of| choose(of, random, pull)).unwrap_or(0);
        let fours = class.div_ceil(4);
        let pull = |back| self.due_returns.pull(return_key(direction, fours, back));
        let back = self.returns.get(&(direction, fours)).and_then(|of| choose(of, random, pull));
        let back = back.unwrap_or_default();
        self.due_returns.take(return_key(direction, fours, back));
        self.states[state as usize].due_starts.take(start_key(direction, class));
        if back.follows
            && let Some(at) = self.end_to_follow(state, start, direction, size, class, recent, random)
        {
            let pos = self.states[state as usize].ends.remove(at).1;
            return self.inside(start.device, pos, size);
        }
        self.return_or_fresh(start, direction, (size, bytes), class, back, recent, random)
    }

    /// Where a run begins that returns to a distance class, or to nothing used if that is 0.
    #[expect(clippy::too_many_arguments, reason = "each is a property of the run")]
    pub fn return_or_fresh(
        &mut self,
        start: &Start,
        direction: Direction,
        (size, bytes): (u64, u64),
        class: u8,
        back: Return,
        recent: &Recent,
        random: &mut Pcg64Mcg,
    ) -> u64 {
        let again = if class == 0 {
            None
        } else {
            self.again(start, direction, size, bytes, class, back, recent, random)
        };
        let pos = again.unwrap_or_else(|| self.fresh(start, direction, size, bytes, recent, random));
        self.inside(start.device, pos, size)
    }

    /// When a page was used last at a distance of a class; none of what was never used.
    fn time_of(&self, class: u8, random: &mut Pcg64Mcg) -> Option<u64> {
        if class == 0 {
            return None;
        }
        let (nearest, furthest) = history::distances(class);
        let distance = nearest * (furthest / nearest).powf(random.random::<f64>());
        Some(self.history.page(self.history.at_distance(distance)?).time)
    }

    /// How much older one of two uses of pages is than the other, in powers of two.
    fn apart(&self, one: u64, other: u64) -> f64 {
        let age = |time: u64| (self.history.time() - time) as f64 + 1.0;
        (age(one) / age(other)).log2().abs()
    }

    /// Which of the ends of forgotten runs of a state a run begins at whose first page has a distance class.
    #[expect(clippy::too_many_arguments, reason = "each is a property of the run")]
    fn end_to_follow(
        &self,
        state: u32,
        start: &Start,
        direction: Direction,
        size: u64,
        class: u8,
        recent: &Recent,
        random: &mut Pcg64Mcg,
    ) -> Option<usize> {
        let (powers, time) = (self.powers(direction, size), self.time_of(class, random));
        let score = |(at, &(of, end)): (usize, &(Direction, u64))| {
            // Where a run ended that is known, it would continue that.
            if of != direction || recent.rank(start.device, direction.op(), end).is_some() {
                return None;
            }
            let used = self.history.find(start.device, end).map(|page| self.history.page(page).time);
            let apart = match (used, time) {
                (None, None) => 0.0,
                (Some(used), Some(time)) => {
                    Some(self.apart(used, time)).filter(|apart| *apart <= MOST_APART)?
                }
                _ => return None,
            };
            let far = start.target.map_or(0.0, |target| 0.6 * beyond(target, end));
            let misaligned = MISALIGNED * f64::from(u8::from(!is_aligned(powers, end)));
            Some((at, misaligned - 2.0 * apart - far))
        };
        let scores = self.states[state as usize].ends.iter().enumerate().rev().filter_map(score);
        scores.max_by(|one, other| one.1.total_cmp(&other.1)).map(|(at, _)| at)
    }

    /// A place of a state where a request began, whose page was used last at a distance of a class.
    #[expect(clippy::too_many_arguments, reason = "each is a property of the run")]
    fn again(
        &self,
        start: &Start,
        direction: Direction,
        size: u64,
        bytes: u64,
        class: u8,
        back: Return,
        recent: &Recent,
        random: &mut Pcg64Mcg,
    ) -> Option<u64> {
        let state = self.state_of(start)?;
        let time = self.time_of(class, random)?;
        let same = |one: bool, other: bool| f64::from(u8::from(one == other));
        let powers = self.powers(direction, size);
        // Without the pages that are covered, the score is at least as high.
        let score = |page: &Page, far: usize, covered: u8| {
            3.0 * same(page.length == size, back.same_size)
                + MISALIGNED * f64::from(u8::from(!is_aligned(powers, page.pos)))
                + 2.0 * same(page.write == (direction == Direction::Write), back.same_direction)
                - 3.0 * f64::from(covered.abs_diff(back.covered))
                - (f64::from(page.uses.max(1).ilog2().min(6)) - f64::from(back.uses)).abs() / 2.0
                - 2.0 * self.apart(page.time, time)
                - far as f64 / 8.0
                - start.target.map_or(0.0, |target| 0.6 * beyond(target, page.pos))
        };
        let by_time = state.begun.iter().flat_map(|list| {
            let before = list.before(time).take(LOOKED_AT).enumerate();
            before.chain(list.since(time).take(LOOKED_AT).enumerate())
        });
        let by_address = start.target.map(|(first, end)| {
            let (first, end) = (first.max(state.first), end.min(state.end));
            let from = if end > first { random.random_range(first..end) } else { first };
            let of = &self.devices[state.device as usize].begun;
            let up = of.range(from..end.max(from)).take(NEAR);
            up.chain(of.range(first.min(from)..from).rev().take(NEAR)).map(|(_, page)| (0, *page))
        });
        let mut best: Option<(f64, u64)> = None;
        for (far, page) in by_time.chain(by_address.into_iter().flatten()) {
            let page = self.history.page(page);
            let is_better = |score: f64| best.is_none_or(|(most, _)| score > most);
            if !is_better(score(page, far, back.covered)) {
                continue;
            }
            let covered = self.history.covered(page.device, page.pos, bytes);
            let score = score(page, far, covered);
            // Where a run ended that is known, it would continue that.
            if is_better(score) && recent.rank(state.device, direction.op(), page.pos).is_none() {
                best = Some((score, page.pos));
            }
        }
        best.map(|(_, pos)| pos)
    }

    /// How addresses are aligned at which runs begin with a request of a size.
    fn powers(&self, direction: Direction, size: u64) -> &[(u8, u64)] {
        self.alignment.get(&(direction, size)).map_or(&[], Vec::as_slice)
    }

    /// A place of a state that wasn't used, if there is one.
    fn fresh(
        &self,
        start: &Start,
        direction: Direction,
        size: u64,
        bytes: u64,
        recent: &Recent,
        random: &mut Pcg64Mcg,
    ) -> u64 {
        let range = self.devices[start.device as usize].range.range(start.number);
        let powers = self.powers(direction, size);
        let power = choose(powers, random, |_| 1.0).unwrap_or(SECTOR);
        // Of all but the highest power a multiple of no higher one: an odd multiple.
        let is_odd = powers.iter().any(|row| row.0 > power);
        let aligned = |(from, to): (u64, u64), (step, offset): (u64, u64)| {
            let last = (to.max(1) - 1).checked_sub(offset)?;
            let found = (from.saturating_sub(offset).div_ceil(step), last / step);
            (found.0 <= found.1).then_some(found)
        };
        let wished = if is_odd { (2 << power, 1 << power) } else { (1 << power, 0) };
        // A range may be too short to have such an address.
        let found = aligned(range, wished).map(|whole| (whole, wished));
        let (whole, grid) = found.unwrap_or(((range.0, range.1.max(range.0 + 1) - 1), (1, 0)));
        let near = start.target.map(|(first, end)| (first.max(range.0), end.min(range.1)));
        let near = near.filter(|(from, to)| from < to).and_then(|near| aligned(near, grid));
        let mut pos = range.0;
        for tried in 0..TRIES {
            let (first, end) = near.filter(|_| tried < TRIES / 2).unwrap_or(whole);
            pos = random.random_range(first..=end) * grid.0 + grid.1;
            if self.history.find(start.device, pos).is_none()
                && self.history.covered(start.device, pos, bytes) == 0
                && recent.rank(start.device, direction.op(), pos).is_none()
            {
                break;
            }
        }
        pos
    }

    /// Notes where a run ended that is forgotten.
    pub fn ended(&mut self, run: &Run) {
        let of = &self.devices[run.device as usize];
        if let Some(state) = of.index.get(&of.range.of(run.end)) {
            let ends = &mut self.states[*state as usize].ends;
            if ends.len() == MOST_ENDS {
                ends.remove(0);
            }
            ends.push((run.direction(), run.end));
        }
    }

    /// Notes a request, of whose run so many bytes are to come.
    pub fn used(&mut self, device: u32, request: Request, to_come: u64) {
        self.next_device.go(device as usize);
        self.due_states.take(range_key(device, 0, 0));
        let OfDevice { range, walks, index, begun } = &mut self.devices[device as usize];
        let number = range.of(request.pos);
        for level in 0..range.levels {
            let (node, child) =
                (number >> (2 * (range.levels - level)), number >> (2 * (range.levels - level - 1)) & 3);
            if let Some(walk) = walks.get_mut(&(level, node)) {
                walk.go(child as usize);
            }
            self.due_states.take(range_key(device, level + 1, node << 2 | child));
        }
        // The page may have had a request that began elsewhere in it.
        let before = self.history.find(device, request.pos).map(|page| self.history.page(page).pos);
        if let Some(before) = before.filter(|before| *before != request.pos || request.op == Op::Trim) {
            begun.remove(&before);
        }
        let state = index.get(&number).copied().unwrap_or(UNLISTED);
        let (listed, states, due) = (&mut self.listed, &mut self.states, &mut self.due_distances);
        let mut is_first = true;
        let mut time = self.history.time();
        self.history.used_by(device, request, |page, class| {
            due.take(class);
            time += 1;
            if listed.len() <= page as usize {
                listed.resize(page as usize + 1, Listed { state: UNLISTED, list: 0, place: 0 });
            }
            let of = &mut listed[page as usize];
            if let Some(state) = states.get_mut(of.state as usize) {
                state.begun[usize::from(of.list)].remove(of.place);
            }
            if is_first {
                begun.insert(request.pos, page);
                if state != UNLISTED {
                    (of.state, of.list) = (state, list_of(to_come));
                }
            }
            is_first = false;
            let Listed { state, list, .. } = *of;
            if let Some(state) = states.get_mut(state as usize) {
                let placed = |page, place| listed[page as usize].place = place;
                state.begun[usize::from(list)].push(time, page, placed);
            }
        });
    }
}
