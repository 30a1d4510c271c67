//! Draws requests from a model: when one comes, of which kind, of which run, how large.

use std::collections::{HashMap, VecDeque};

use foldhash::fast::FixedState;
use iotrail_sim::{Nanos, Op, Request};
use rand::Rng as _;
use rand::SeedableRng as _;
use rand_pcg::Pcg64Mcg;

use crate::model::{Direction, Largest, MOMENTS, Model, Return, Table, rows};
use crate::parts::Schedule;
use crate::places::{Places, Start};
use crate::quotas::{Choices, Quotas, choices, choose, pick};
use crate::rate::{Arrivals, KINDS};
use crate::runs::{self, Kind, Recent, Run};
use crate::{Arrival, PAGE};

/// Requests that are looked at ahead: they come in an order that the runs to continue allow. At least so many, and more as
/// long as they come so soon: what comes in a burst is not taken from it.
const AHEAD: usize = 64;
const LEAST_AHEAD: usize = 8;
const SOON: Nanos = 10_000_000;
/// Least and most that a run is continued more, or less, often as its rank is behind, or ahead.
const LEAST_PULL: f64 = 0.1;
const MOST_PULL: f64 = 2.0;

/// The requests of a model, in the order of their arrivals.
pub struct Draw {
    random: Pcg64Mcg,
    arrivals: Arrivals,
    /// Times and kinds of the next requests.
    times: VecDeque<Nanos>,
    kinds: VecDeque<Kind>,
    /// How many of the first of these are of each kind, and how many are counted.
    counts: [u64; KINDS],
    counted: usize,
    /// Requests since the first of these kinds is the first.
    waited: usize,
    length_ns: Nanos,
    last: Nanos,
    drawn: u64,
    recent: Recent,
    began: bool,
    continued: Rates,
    begun: Rates,
    /// Share of requests that begin a run.
    begin_share: f64,
    due_flushes: Quotas<u32>,
    due_ranks: Quotas<u8>,
    next_sizes: Choices<(Direction, bool, u64), u64>,
    due_next_sizes: Quotas<(Direction, u64)>,
    sizes: Schedule<Table<(u64, u64)>>,
    due_sizes: Quotas<(Direction, u64)>,
    lengths: Schedule<Table<(u8, u64)>>,
    due_lengths: Quotas<(Direction, u8)>,
    lengths_by_size: Choices<(Direction, u64), u8>,
    /// Of runs that begin with a size, shares of each reach.
    reaches: HashMap<(Direction, u64), [f64; 4], FixedState>,
    /// Whether there are runs of a direction and a reach besides the largest.
    counts_runs: [[bool; 4]; 3],
    mean_lengths: HashMap<(Direction, u8), f64, FixedState>,
    largest: Vec<Largest>,
    /// How far those reach that are placed with each of them.
    reaches_of_large: Vec<(u64, u64)>,
    /// Where those of the largest that were drawn began.
    placed: Vec<u64>,
    /// Sizes of the requests that they are still continued with.
    sizes_of_large: HashMap<u64, Vec<u64>, FixedState>,
    places: Places,
}

/// How often opportunities are taken, by what is known before.
type Rates = [f64; 1 << u8::BITS];

/// How often opportunities were taken; with few of them less sure to be always or never, without any `unknown`.
fn rates(rows: &[(u8, u64, u64)], unknown: f64) -> Rates {
    let mut rates = [unknown; 1 << u8::BITS];
    for &(known, all, some) in rows {
        rates[usize::from(known)] = (some as f64 + 0.1) / (all as f64 + 0.5);
    }
    rates
}

/// Whether the tables have runs of each direction and reach.
fn counts_runs(model: &Model) -> [[bool; 4]; 3] {
    let mut counts = [[false; 4]; 3];
    for (direction, (class, _)) in rows(&model.requests) {
        counts[direction as usize][usize::from(runs::reach(class).min(3))] = true;
    }
    counts
}

impl Draw {
    /// From the start of the model's time.
    #[must_use]
    pub fn new(model: &Model, seed: u64) -> Self {
        let all: u64 = model.begun.iter().map(|row| row.1).sum();
        let begun: u64 = model.begun.iter().map(|row| row.2).sum();
        let mut runs_of: HashMap<(Direction, u8), u64, FixedState> = HashMap::default();
        for (d, (_, length, _, count)) in rows(&model.begins) {
            *runs_of.entry((d, length)).or_default() += count;
        }
        let mean = |(d, (class, requests)): (Direction, (u8, u64))| {
            let runs = runs_of.get(&(d, class)).copied().unwrap_or(0).max(1);
            ((d, class), requests as f64 / runs as f64)
        };
        let mut reaches: HashMap<(Direction, u64), [f64; 4], FixedState> = HashMap::default();
        for (d, (size, class, count)) in rows(&model.lengths_by_size) {
            let shares = reaches.entry((d, size)).or_insert([0.01; 4]);
            shares[usize::from(runs::reach(class))] += count as f64;
        }
        for shares in reaches.values_mut() {
            let all: f64 = shares.iter().sum();
            shares.iter_mut().for_each(|share| *share /= all);
        }
        let next_sizes = rows(&model.next_sizes);
        let begin_share = (begun as f64 + 0.1) / (all as f64 + 0.2);
        Self {
            random: Pcg64Mcg::seed_from_u64(seed),
            arrivals: Arrivals::new(&model.rate),
            times: VecDeque::new(),
            kinds: VecDeque::new(),
            counts: [0; KINDS],
            counted: 0,
            waited: 0,
            length_ns: model.rate.length_ns + 1,
            last: 0,
            drawn: 0,
            recent: Recent::default(),
            began: false,
            continued: rates(&model.continued, 0.5),
            begun: rates(&model.begun, begin_share),
            begin_share,
            due_flushes: Quotas::new(model.flushes.iter().copied()),
            due_ranks: Quotas::new(model.ranks.iter().copied()),
            next_sizes: choices(
                next_sizes.map(|(d, (last, before, size, count))| ((d, last == 1, before), size, count)),
            ),
            due_next_sizes: Quotas::new(
                rows(&model.next_sizes).map(|(d, (_, _, size, count))| ((d, size), count)),
            ),
            sizes: Schedule::new(&model.sizes),
            due_sizes: Quotas::default(),
            lengths: Schedule::new(&model.lengths),
            due_lengths: Quotas::default(),
            lengths_by_size: choices(
                rows(&model.lengths_by_size).map(|(d, (size, class, count))| ((d, size), class, count)),
            ),
            reaches,
            counts_runs: counts_runs(model),
            mean_lengths: rows(&model.requests).map(mean).collect(),
            largest: model.largest.clone(),
            reaches_of_large: Largest::reaches(&model.largest),
            placed: Vec::new(),
            sizes_of_large: HashMap::default(),
            places: Places::new(model),
        }
    }

    fn request(&mut self, at: Nanos) -> Arrival {
        while let Some(sizes) = self.sizes.next(self.drawn) {
            self.due_sizes.add(rows(&sizes).map(|(d, (size, count))| ((d, size), count)));
        }
        while let Some(lengths) = self.lengths.next(self.drawn) {
            self.due_lengths.add(rows(&lengths).map(|(d, (class, count))| ((d, class), count)));
        }
        self.places.advance(self.drawn);
        self.drawn += 1;
        let gap = at - self.last;
        self.last = at;
        let large = self.largest.get(self.placed.len()).filter(|run| at >= self.moment(run.0)).cloned();
        let large =
            large.filter(|run| self.take_beginning(run.3, runs::reach(runs::length_class(run.requests()))));
        let (device, request) = match large {
            Some(run) => self.begin_large(&run),
            None => match self.next_kind(gap) {
                Kind::Flush => {
                    let request = Request { op: Op::Flush, pos: 0, length: 0 };
                    let device = self.due_flushes.choose(&mut self.random, |_| 1.0).unwrap_or(0);
                    self.due_flushes.take(device);
                    return Arrival { at, device, request };
                }
                Kind::Begin(direction, reach) => self.begin_any(direction, reach),
                Kind::Continue(direction) => match self.run_to_continue(direction, gap) {
                    Some(rank) => self.continue_run(rank),
                    None => self.begin_any(direction, 0),
                },
            },
        };
        let run = self.recent.runs().first();
        let to_come = run.map_or(request.length, |run| run.length.saturating_mul(run.remaining + 1));
        self.places.used(device, request, to_come);
        Arrival { at, device, request }
    }

    /// When one of the parts of the whole time begins, in ns.
    fn moment(&self, part: u64) -> Nanos {
        (u128::from(part) * u128::from(self.length_ns) / u128::from(MOMENTS)) as Nanos
    }

    /// Takes the beginning of a run of a direction, and most nearly of a reach, from the kinds to come; if there is one.
    fn take_beginning(&mut self, direction: Direction, reach: u8) -> bool {
        let beginning = |(at, kind): (usize, &Kind)| match kind {
            Kind::Begin(d, of) if *d == direction => Some((of.abs_diff(reach), at)),
            _ => None,
        };
        let nearest = self.kinds.iter().enumerate().filter_map(beginning).min();
        nearest.and_then(|(_, at)| self.take_kind(at)).is_some()
    }

    /// Takes one of the kinds to come.
    fn take_kind(&mut self, at: usize) -> Option<Kind> {
        let kind = self.kinds.remove(at)?;
        if at < self.counted {
            self.counted -= 1;
            self.counts[usize::from(kind.number())] -= 1;
        }
        Some(kind)
    }

    /// Counts the first kinds to come, so many of them.
    fn count_kinds(&mut self, some: usize) {
        let some = some.min(self.kinds.len());
        while self.counted < some {
            self.counts[usize::from(self.kinds[self.counted].number())] += 1;
            self.counted += 1;
        }
        while self.counted > some {
            self.counted -= 1;
            self.counts[usize::from(self.kinds[self.counted].number())] -= 1;
        }
    }

    /// What the next request does, of the kinds to come.
    fn next_kind(&mut self, gap: Nanos) -> Kind {
        let soon = self.times.partition_point(|at| *at <= self.last + SOON).max(LEAST_AHEAD);
        self.count_kinds(soon);
        // Rank classes of the runs to continue, a bit each, by direction.
        let (mut classes, mut unfinished) = ([0u64; 3], 0);
        for rank in self.recent.unfinished() {
            unfinished += 1;
            classes[self.recent.runs()[rank].direction() as usize] |= 1 << runs::rank_class(rank);
        }
        let known = runs::known_before(unfinished, gap, self.began);
        let begin = self.begun[usize::from(known)];
        let weight = |kind: Kind| match kind {
            Kind::Flush => 1.0,
            // It is left for one of the largest.
            Kind::Begin(d, reach) if !self.counts_runs(d, reach) => 0.0,
            Kind::Begin(..) => begin / self.begin_share,
            Kind::Continue(d) => {
                // Less if all runs to continue are of ranks that came too often; none if there is none.
                let of_direction = (0..u64::BITS as u8).filter(|class| classes[d as usize] >> class & 1 == 1);
                let due = of_direction.map(|class| self.due_ranks.pull(class).clamp(LEAST_PULL, MOST_PULL));
                (1.0 - begin) / (1.0 - self.begin_share) * due.fold(0.0, f64::max)
            }
        };
        let mut kinds = [(0, 0.0); KINDS];
        for (number, of) in kinds.iter_mut().enumerate().filter(|(number, _)| self.counts[*number] > 0) {
            *of = (number, self.counts[number] as f64 * weight(Kind::of(number as u8)));
        }
        let drawn = if self.waited > 2 * soon { None } else { pick(&kinds, &mut self.random) };
        let kind = drawn.map_or(self.kinds[0], |kind| Kind::of(kind as u8));
        let at = self.kinds.iter().position(|one| *one == kind).unwrap_or(0);
        self.take_kind(at);
        self.waited = if at == 0 { 0 } else { self.waited + 1 };
        kind
    }

    /// The rank of the run that a request continues; none if there is none of its direction.
    fn run_to_continue(&mut self, direction: Direction, gap: Nanos) -> Option<usize> {
        let runs = self.recent.runs();
        let of_direction = |rank: &usize| runs[*rank].direction() == direction;
        let due = |rank: usize| self.due_ranks.pull(runs::rank_class(rank));
        let rate = |rank: usize| {
            let known = runs::known_of(rank, &runs[rank], gap);
            (rank, self.continued[usize::from(known)] * due(rank).clamp(LEAST_PULL, MOST_PULL))
        };
        let unfinished: Vec<_> = self.recent.unfinished().filter(of_direction).map(rate).collect();
        let random = &mut self.random;
        if unfinished.is_empty() {
            // One is continued that was to end.
            let any = (0..runs.len()).filter(of_direction).map(|rank| (rank, due(rank) / (rank + 1) as f64));
            return pick(&any.collect::<Vec<_>>(), random);
        }
        let taken = unfinished.iter().find(|(_, rate)| random.random::<f64>() < *rate);
        taken.map(|(rank, _)| *rank).or_else(|| pick(&unfinished, random))
    }

    fn continue_run(&mut self, rank: usize) -> (u32, Request) {
        let run = self.recent.runs()[rank];
        let direction = run.direction();
        let due = &self.due_next_sizes;
        let sizes = self.next_sizes.get(&(direction, run.remaining == 1, run.length));
        let of_large = self.sizes_of_large.get_mut(&run.number).and_then(Vec::pop);
        let random = &mut self.random;
        let length = of_large
            .or_else(|| {
                let pull = |size| due.pull((direction, size));
                let pull_due = |size| if due.is_due((direction, size)) { pull(size) } else { 0.0 };
                choose(sizes?, random, pull_due).or_else(|| choose(sizes?, random, pull))
            })
            .or_else(|| Some(due.choose(random, |(d, _)| f64::from(u8::from(*d == direction)))?.1))
            .unwrap_or(run.length);
        if of_large.is_none() {
            self.due_next_sizes.take((direction, length));
        }
        let reach = self.places.reach(run.device);
        let now = self.recent.continue_run(rank, length);
        now.remaining = if run.end + length >= reach { 0 } else { now.remaining.saturating_sub(1) };
        self.due_ranks.take(runs::rank_class(rank));
        self.began = false;
        (run.device, Request { op: run.op, pos: run.end.min(reach.saturating_sub(length)), length })
    }

    /// Begins a run: one that was counted with others, or, where none of these is of the direction and reach, the next of the
    /// largest, even before its time.
    fn begin_any(&mut self, direction: Direction, reach: u8) -> (u32, Request) {
        let next = self.largest.get(self.placed.len());
        let next = next.filter(|run| run.3 == direction && !self.counts_runs(direction, reach)).cloned();
        match next {
            Some(run) => self.begin_large(&run),
            None => self.begin(direction, reach),
        }
    }

    fn counts_runs(&self, direction: Direction, reach: u8) -> bool {
        self.counts_runs[direction as usize][usize::from(reach.min(3))]
    }

    fn begin(&mut self, direction: Direction, reach: u8) -> (u32, Request) {
        let random = &mut self.random;
        let start = self.places.start(direction, &self.recent, random);
        let size = {
            let size_lift = self.places.size_lift(&start, direction);
            let weight = |&(d, size): &(Direction, u64)| {
                if d != direction {
                    return 0.0;
                }
                let of_reach = self.reaches.get(&(d, size)).map_or(0.01, |of| of[usize::from(reach.min(3))]);
                of_reach * size_lift(size)
            };
            self.due_sizes.choose(random, weight).map_or(PAGE, |(_, size)| size)
        };
        let pull = |class| {
            f64::from(u8::from(runs::reach(class) == reach)) * self.due_lengths.pull((direction, class))
        };
        let classes = self.lengths_by_size.get(&(direction, size));
        let class = classes
            .and_then(|of| choose(of, random, pull))
            .or_else(|| {
                let of_reach = |(d, class): &(Direction, u8)| *d == direction && runs::reach(*class) == reach;
                self.due_lengths.choose(random, |of| f64::from(u8::from(of_reach(of)))).map(|of| of.1)
            })
            .unwrap_or_else(|| runs::least_class(reach));
        let requests = self.length(direction, size, class);
        self.due_sizes.take((direction, size));
        self.due_lengths.take((direction, class));
        let bytes = size.saturating_mul(requests);
        let pos = self.places.place(&start, direction, (size, bytes), class, &self.recent, &mut self.random);
        let request = Request { op: direction.op(), pos, length: size };
        self.remember(Run::new(start.device, request, requests - 1, 0));
        (start.device, request)
    }

    /// Requests of a run whose length is of a class, so that those of all have its mean; fewer if those of its size came too
    /// often.
    fn length(&mut self, direction: Direction, size: u64, class: u8) -> u64 {
        let (from, to) = runs::lengths(class);
        let due = self.due_next_sizes.pull((direction, size)).clamp(LEAST_PULL, MOST_PULL);
        let mean = self.mean_lengths.get(&(direction, class)).copied().unwrap_or(from as f64) - from as f64;
        let mean = mean * due;
        let width = (to - 1 - from) as f64;
        let bend = if mean > 0.0 { (width / mean - 1.0).max(0.05) } else { f64::INFINITY };
        from + (width * self.random.random::<f64>().powf(bend)).round() as u64
    }

    fn begin_large(&mut self, run: &Largest) -> (u32, Request) {
        let requests = run.requests();
        let &Largest(_, device, state, direction, size, ref others, within, class) = run;
        let start = Start::in_state(device, state);
        let pos = match within
            .and_then(|(before, offset)| Some(self.placed.get(before)?.saturating_add_signed(offset)))
        {
            Some(pos) => self.places.inside(device, pos, size),
            None => {
                let back = Return { same_size: true, covered: 2, ..Return::default() };
                let (before, after) = self.reaches_of_large[self.placed.len()];
                let of = (size, after);
                let pos = self.places.return_or_fresh(
                    &start,
                    direction,
                    of,
                    class,
                    back,
                    &self.recent,
                    &mut self.random,
                );
                let last = self.places.reach(device).saturating_sub(after);
                pos.clamp(before.min(last), last)
            }
        };
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
        (device, request)
    }

    fn remember(&mut self, run: Run) {
        self.began = true;
        if let Some(forgotten) = self.recent.begin(run) {
            self.places.ended(&forgotten);
        }
    }
}

impl Iterator for Draw {
    type Item = Arrival;

    fn next(&mut self) -> Option<Arrival> {
        while self.kinds.len() <= AHEAD
            && let Some((at, kind)) = self.arrivals.next(&mut self.random)
        {
            self.times.push_back(at);
            self.kinds.push_back(Kind::of(kind));
        }
        let at = self.times.pop_front()?;
        Some(self.request(at))
    }
}
