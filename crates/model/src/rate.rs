//! When requests of each kind arrive: counts of intervals that are halved again and again.
//!
//! The whole time has a count of each kind; each half has a share of them, down to the clock's tick. The splits that say most
//! are kept; the others are drawn as unequal as those of the same interval length and a similar count. So bursts are as large
//! and as clustered at each scale as they were, and of the same kinds (multiplicative cascades with beta multipliers: Riedi
//! et al., "A multifractal wavelet model", IEEE Trans. Inf. Theory 1999; here of counts, by the beta-binomial distribution).
//! Intervals of few requests are not halved: their gaps are drawn, as long to the mean of their interval as gaps of such means
//! were. Kinds are split one after the other, as draws without replacement from those on both sides, and more separated than
//! these where they were.

use std::collections::{HashMap, HashSet};

use foldhash::fast::FixedState;
use iotrail_sim::Nanos;
use rand::{Rng, SeedableRng as _};
use rand_distr::{Beta, Binomial, Distribution as _, Hypergeometric};
use rand_pcg::Pcg64Mcg;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::quotas::choose;

/// Splits that are kept.
pub const KEPT: usize = 300;
/// Kinds at most.
pub const KINDS: usize = 16;
/// Fewest requests of an interval that is halved: all, or such of so many that gaps say more than halves.
const LEAVES: [u64; 2] = [2, 16];
/// Gaps that are compared to choose.
const COMPARED: usize = 200_000;
/// Classes of a gap by the mean gap of its interval: steps of a power of two, and where they begin.
const RATIO_STEPS: f64 = 2.0;
const LEAST_RATIO: f64 = -16.0;
const MOST_RATIOS: u8 = 48;
/// Count from which on splits with all on one side are drawn as such: fewer are often so by chance.
const WHOLE: u64 = 8;
/// Halvings at most: a nanosecond of 500 years.
const MOST_LEVELS: u32 = 64;

/// Requests of an interval by kind.
type Counts = [u64; KINDS];

/// Arrivals over a time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Rate {
    /// From the first arrival to the last one, in ns.
    pub length_ns: u64,
    /// The clock's step, in ns: all arrivals are multiples of it.
    pub tick_ns: u64,
    /// Requests of each kind.
    pub counts: Vec<u64>,
    /// Kept splits: level, number of the interval on it, requests of each kind in its first half.
    pub kept: Vec<(u32, u64, Vec<u64>)>,
    /// How requests are split otherwise, by level and class of the count: share of splits with all requests on one side, and,
    /// of the others, correlation between the sides of two requests: 0 by chance, negative more equal than that.
    pub drawn: Vec<(u32, u32, f64, f64)>,
    /// Fewest requests of an interval that is halved.
    pub leaf: u64,
    /// Gaps in intervals that are not halved: power of two of their mean, in ns, class of the gap by the mean, how often.
    pub gaps: Vec<(u32, u8, u64)>,
    /// How kinds are separated otherwise, by level and kind: 0 by chance, 1 as far as possible.
    pub separated: Vec<(u32, u8, f64)>,
}

impl Rate {
    /// Requests of all kinds.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.counts.iter().fold(0, |sum, count| sum.saturating_add(*count))
    }
}

/// The class of a count: powers of two.
fn class(count: u64) -> u32 {
    count.max(1).ilog2()
}

/// The class of a gap that is so many times as long as the mean.
fn ratio_class(ratio: f64) -> u8 {
    ((ratio.log2() - LEAST_RATIO) * RATIO_STEPS).clamp(0.0, f64::from(MOST_RATIOS - 1)) as u8
}

/// A gap of a class, as a multiple of the mean.
fn ratio(class: u8, random: &mut impl Rng) -> f64 {
    ((f64::from(class) + random.random::<f64>()) / RATIO_STEPS + LEAST_RATIO).exp2()
}

/// Length of an interval: the ends of `index` on `level`, in ticks.
fn ends(ticks: u64, level: u32, index: u64) -> (u64, u64) {
    let end = |index: u64| ((u128::from(index) * u128::from(ticks)) >> level) as u64;
    (end(index), end(index + 1))
}

fn counts_of(kinds: &[u8]) -> Counts {
    let mut counts = [0; KINDS];
    kinds.iter().for_each(|kind| counts[usize::from(*kind)] += 1);
    counts
}

/// Takes one of the requests of an interval: its kind.
fn take(counts: &mut Counts, random: &mut impl Rng) -> u8 {
    let mut rest = random.random_range(0..counts.iter().sum::<u64>().max(1));
    let kind = counts.iter().position(|of| {
        let is_it = rest < *of;
        rest = rest.saturating_sub(*of);
        is_it
    });
    let kind = kind.unwrap_or(0);
    counts[kind] = counts[kind].saturating_sub(1);
    kind as u8
}

fn round(share: f64) -> f64 {
    (share * 1e3).round() / 1e3
}

/// Counts arrivals, ns, which never decrease, and their kinds, numbers below [`KINDS`]: halves all intervals, or those of more
/// than a few requests, whichever draws gaps that are more like theirs.
#[must_use]
pub fn fit(arrivals: &[Nanos], kinds: &[u8], kept: usize) -> Rate {
    let sorted = |times: &mut dyn Iterator<Item = Nanos>| {
        let times: Vec<_> = times.take(COMPARED + 1).collect();
        let mut gaps: Vec<_> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
        gaps.sort_unstable();
        gaps
    };
    let gaps = sorted(&mut arrivals.iter().copied());
    let of = |leaf: u64| {
        let rate = fit_halving(arrivals, kinds, kept, leaf);
        let (mut drawn, mut random) = (Arrivals::new(&rate), Pcg64Mcg::seed_from_u64(leaf));
        let times = sorted(&mut std::iter::from_fn(|| Some(drawn.next(&mut random)?.0)));
        (distance(&gaps, &times), rate)
    };
    let fits = LEAVES.map(of);
    let best = fits.into_iter().min_by(|one, other| one.0.total_cmp(&other.0));
    best.map(|(_, rate)| rate).unwrap_or_default()
}

/// Largest difference of the distribution functions of sorted values (Kolmogorov and Smirnov).
fn distance(one: &[u64], other: &[u64]) -> f64 {
    let share = |values: &[u64], value: u64| {
        values.partition_point(|of| *of <= value) as f64 / values.len().max(1) as f64
    };
    let difference = |value: &u64| (share(one, *value) - share(other, *value)).abs();
    one.iter().chain(other).map(difference).fold(0.0, f64::max)
}

fn fit_halving(arrivals: &[Nanos], kinds: &[u8], kept: usize, leaf: u64) -> Rate {
    let Some((&first, &last)) = arrivals.first().zip(arrivals.last()) else { return Rate::default() };
    let tick_ns = arrivals.iter().fold(0, |tick, at| gcd(tick, at - first)).max(1);
    let length_ns = last - first;
    let ticks = length_ns / tick_ns + 1;
    let all = counts_of(kinds);
    let used = all.iter().rposition(|count| *count > 0).map_or(0, |kind| kind + 1);
    struct Found {
        surprise: f64,
        level: u32,
        index: u64,
        left: Counts,
        all: Counts,
    }
    let mut splits: Vec<Found> = Vec::new();
    let mut gaps: HashMap<(u32, u8), u64, FixedState> = HashMap::default();
    let mut todo = vec![(0, 0, 0..arrivals.len(), all)];
    while let Some((level, index, inside, all)) = todo.pop() {
        let (from, to) = ends(ticks, level, index);
        if inside.len() < 2 || to - from < 2 || level == MOST_LEVELS - 1 {
            continue;
        }
        if (inside.len() as u64) < leaf {
            let mean = ((to - from) * tick_ns) as f64 / inside.len() as f64;
            for pair in arrivals[inside].windows(2) {
                let class = ratio_class((pair[1] - pair[0]) as f64 / mean);
                *gaps.entry(((mean as u64).max(1).ilog2(), class)).or_default() += 1;
            }
            continue;
        }
        let middle = ends(ticks, level + 1, 2 * index).1;
        let half =
            inside.start + arrivals[inside.clone()].partition_point(|at| (at - first) / tick_ns < middle);
        let left = counts_of(&kinds[inside.start..half]);
        let mut right = all;
        right.iter_mut().zip(left).for_each(|(count, left)| *count -= left);
        let surprise = left.iter().zip(all).map(|(left, all)| surprise(*left as f64, all as f64)).sum();
        splits.push(Found { surprise, level, index, left, all });
        todo.push((level + 1, 2 * index, inside.start..half, left));
        todo.push((level + 1, 2 * index + 1, half..inside.end, right));
    }
    // A split is kept with all that it is inside of: so its interval has as many requests as it had.
    splits.sort_by(|one, other| other.surprise.total_cmp(&one.surprise));
    let mut chosen: HashSet<(u32, u64), FixedState> = HashSet::default();
    for split in &splits {
        let missing = (0..=split.level).map(|up| (split.level - up, split.index >> up));
        let missing: Vec<_> = missing.take_while(|of| !chosen.contains(of)).collect();
        if chosen.len() + missing.len() <= kept {
            chosen.extend(missing);
        }
    }
    let (kept, others): (Vec<_>, Vec<_>) =
        splits.into_iter().partition(|split| chosen.contains(&(split.level, split.index)));
    let mut kept: Vec<_> =
        kept.into_iter().map(|split| (split.level, split.index, split.left[..used].to_vec())).collect();
    kept.sort_unstable();
    let mut sums: HashMap<(u32, u32), Sums> = HashMap::new();
    let mut apart: HashMap<(u32, u8), (f64, f64)> = HashMap::new();
    for Found { level, left, all, .. } in others {
        let (mut left_sum, mut sum): (u64, u64) = (left.iter().sum(), all.iter().sum());
        sums.entry((level, class(sum))).or_default().add(left_sum, sum);
        for kind in 0..used {
            if let Some(draw) = Kind::new(left_sum, sum, all[kind]) {
                let sums = apart.entry((level, kind as u8)).or_default();
                sums.0 += (left[kind] as f64 - draw.mean).powi(2) - draw.by_chance;
                sums.1 += draw.most - draw.by_chance;
            }
            left_sum -= left[kind];
            sum -= all[kind];
        }
    }
    let mut drawn: Vec<_> = sums.into_iter().map(|((level, class), sums)| sums.row(level, class)).collect();
    drawn.sort_unstable_by_key(|(level, class, ..)| (*level, *class));
    let of = |((level, kind), (beyond, most)): ((u32, u8), (f64, f64))| {
        (level, kind, round(if most > 0.0 { (beyond / most).clamp(0.0, 1.0) } else { 0.0 }))
    };
    let mut separated: Vec<_> = apart.into_iter().map(of).collect();
    separated.sort_unstable_by_key(|(level, kind, _)| (*level, *kind));
    let mut gaps: Vec<_> = gaps.into_iter().map(|((mean, class), count)| (mean, class, count)).collect();
    gaps.sort_unstable();
    Rate { length_ns, tick_ns, counts: all[..used].to_vec(), kept, drawn, leaf, gaps, separated }
}

/// How many requests of one kind are among those of a first half.
struct Kind {
    /// Least and most.
    range: (u64, u64),
    mean: f64,
    /// Variance by chance, and if they are all on one side.
    by_chance: f64,
    most: f64,
}

impl Kind {
    /// Of `count` requests among `sum`, of which `left` are in the first half; none if there is but one way.
    fn new(left: u64, sum: u64, count: u64) -> Option<Self> {
        if count == 0 || count == sum || left == 0 || left == sum {
            return None;
        }
        let range = ((count + left).saturating_sub(sum), count.min(left));
        let (n, share, of) = (sum as f64, left as f64 / sum as f64, count as f64);
        let mean = of * share;
        let by_chance = mean * (1.0 - share) * (n - of) / (n - 1.0);
        Some(Self { range, mean, by_chance, most: (range.1 as f64 - mean) * (mean - range.0 as f64) })
    }

    fn draw(&self, left: u64, sum: u64, count: u64, separated: f64, random: &mut impl Rng) -> u64 {
        let (from, to) = self.range;
        let by_chance = |random: &mut _| {
            Hypergeometric::new(sum, count, left).map_or(self.mean as u64, |of| of.sample(random))
        };
        if separated <= 0.0 {
            return by_chance(random);
        }
        let share = (self.mean - from as f64) / (to - from) as f64;
        if to - from == 1 || separated >= 1.0 {
            return if random.random::<f64>() < share { to } else { from };
        }
        // A beta distribution of the share has the variance share (1 - share) / (sum of its parameters + 1).
        let sum_of = 1.0 / separated - 1.0;
        let place = Beta::new(sum_of * share, sum_of * (1.0 - share)).map_or(share, |of| of.sample(random));
        let chance = (by_chance(random) as f64 - self.mean) * (1.0 - separated).sqrt();
        let drawn = from as f64 + (to - from) as f64 * place + chance;
        ((drawn + random.random::<f64>()).floor().max(0.0) as u64).clamp(from, to)
    }
}

/// Sums over splits.
#[derive(Default)]
struct Sums {
    splits: u64,
    whole: u64,
    /// Squared differences of the sides less what they are by chance, and what they are if all are on one side.
    beyond: f64,
    most: f64,
}

impl Sums {
    fn add(&mut self, left: u64, count: u64) {
        self.splits += 1;
        if count >= WHOLE && (left == 0 || left == count) {
            self.whole += 1;
            return;
        }
        let (left, count) = (left as f64, count as f64);
        self.beyond += (2.0 * left - count).powi(2) - count;
        self.most += count * (count - 1.0);
    }

    fn row(&self, level: u32, class: u32) -> (u32, u32, f64, f64) {
        let whole = self.whole as f64 / self.splits.max(1) as f64;
        let together = if self.most > 0.0 { self.beyond / self.most } else { 0.0 };
        (level, class, round(whole), round(together.clamp(-1.0, 1.0)))
    }
}

fn gcd(one: u64, other: u64) -> u64 {
    if other == 0 { one } else { gcd(other, one % other) }
}

/// How much a split says beyond halves: its log-likelihood ratio.
fn surprise(left: f64, count: f64) -> f64 {
    let part = |of: f64| if of > 0.0 { of * (2.0 * of / count).ln() } else { 0.0 };
    part(left) + part(count - left)
}

/// Arrivals drawn from a [`Rate`], in their order.
#[derive(Clone, Debug)]
pub struct Arrivals {
    kept: HashMap<(u32, u64), Counts, FixedState>,
    drawn: HashMap<(u32, u32), (f64, f64), FixedState>,
    separated: HashMap<(u32, u8), f64, FixedState>,
    ticks: u64,
    tick_ns: u64,
    gaps: HashMap<u32, Vec<(u8, u64)>, FixedState>,
    /// Intervals yet to come, the next one last: level, number, requests.
    todo: Vec<(u32, u64, Counts)>,
    leaf: u64,
    /// Requests of the interval that is not halved, the next one last.
    now: Vec<(Nanos, u8)>,
}

impl Arrivals {
    /// One run through the whole time.
    #[must_use]
    pub fn new(rate: &Rate) -> Self {
        let mut gaps: HashMap<u32, Vec<(u8, u64)>, FixedState> = HashMap::default();
        for &(mean, class, count) in &rate.gaps {
            gaps.entry(mean).or_default().push((class, count));
        }
        let padded = |counts: &[u64]| {
            let mut all = [0; KINDS];
            all.iter_mut().zip(counts).for_each(|(to, count)| *to = *count);
            all
        };
        Self {
            kept: rate.kept.iter().map(|(level, index, left)| ((*level, *index), padded(left))).collect(),
            drawn: rate.drawn.iter().map(|row| ((row.0, row.1), (row.2, row.3))).collect(),
            separated: rate.separated.iter().map(|(level, kind, of)| ((*level, *kind), *of)).collect(),
            gaps,
            leaf: rate.leaf,
            now: Vec::new(),
            ticks: rate.length_ns / rate.tick_ns.max(1) + 1,
            tick_ns: rate.tick_ns.max(1),
            todo: vec![(0, 0, padded(&rate.counts))],
        }
    }

    /// The next arrival, ns from the first, and its kind; none after the last.
    pub fn next(&mut self, random: &mut impl Rng) -> Option<(Nanos, u8)> {
        loop {
            if let Some(next) = self.now.pop() {
                return Some(next);
            }
            let (level, index, counts) = self.todo.pop()?;
            let count: u64 = counts.iter().sum();
            if count == 0 {
                continue;
            }
            let (from, to) = ends(self.ticks, level, index);
            if to - from < 2 || level == MOST_LEVELS - 1 {
                let mut rest = counts;
                let kind = take(&mut rest, random);
                self.todo.push((level, index, rest));
                return Some((from * self.tick_ns, kind));
            }
            if count < self.leaf {
                self.fill(from, to, counts, count, random);
                continue;
            }
            let left = match self.kept.get(&(level, index)) {
                Some(kept) => {
                    let mut left = *kept;
                    left.iter_mut().zip(counts).for_each(|(left, count)| *left = (*left).min(count));
                    left
                }
                None => self.kinds(level, &counts, count, random),
            };
            let mut right = counts;
            right.iter_mut().zip(left).for_each(|(count, left)| *count -= left);
            self.todo.push((level + 1, 2 * index + 1, right));
            self.todo.push((level + 1, 2 * index, left));
        }
    }

    /// Places the requests of an interval that is not halved, as far from each other as those of such a mean gap.
    fn fill(&mut self, from: u64, to: u64, mut counts: Counts, count: u64, random: &mut impl Rng) {
        let mean = (((to - from) * self.tick_ns) as f64 / count as f64) as u64;
        let class = mean.max(1).ilog2();
        let near = (0..64).find_map(|off| {
            self.gaps.get(&(class + off)).or_else(|| self.gaps.get(&class.checked_sub(off)?))
        });
        let gap = |random: &mut _| {
            let class = near.and_then(|of| choose(of, random, |_| 1.0));
            class.map_or(1.0, |class| ratio(class, random))
        };
        if count == 1 {
            let tick = random.random_range(from..to);
            self.now.push((tick * self.tick_ns, take(&mut counts, random)));
            return;
        }
        // The interval begins within a gap, and ends within one.
        let mut at = gap(random) * random.random::<f64>();
        let mut places = Vec::with_capacity(count as usize);
        for _ in 0..count {
            places.push(at);
            at += gap(random);
        }
        let last = places[places.len() - 1];
        let whole = last + (at - last) * random.random::<f64>();
        for place in places.into_iter().rev() {
            let tick = from + ((to - from) as f64 * place / whole.max(f64::MIN_POSITIVE)) as u64;
            self.now.push((tick.min(to - 1) * self.tick_ns, take(&mut counts, random)));
        }
    }

    /// The requests of each kind in a first half.
    fn kinds(&self, level: u32, counts: &Counts, mut sum: u64, random: &mut impl Rng) -> Counts {
        let mut in_left = self.split(level, sum, random);
        let mut left = [0; KINDS];
        for (kind, count) in counts.iter().enumerate() {
            left[kind] = match Kind::new(in_left, sum, *count) {
                Some(draw) => {
                    let separated = self.separated.get(&(level, kind as u8)).copied().unwrap_or(0.0);
                    draw.draw(in_left, sum, *count, separated, random)
                }
                None if *count == 0 || in_left == 0 => 0,
                // All that are left are of this kind, or in this half.
                None => (*count).min(in_left),
            };
            in_left -= left[kind];
            sum -= count;
        }
        left
    }

    fn split(&self, level: u32, count: u64, random: &mut impl Rng) -> u64 {
        let class = class(count);
        let of = |class: u32| self.drawn.get(&(level, class));
        let near = (0..=class).rev().find_map(of).or_else(|| (class..128).find_map(of));
        let (whole, together) = near.copied().unwrap_or_default();
        if count >= WHOLE && random.random::<f64>() < whole {
            return if random.random::<bool>() { count } else { 0 };
        }
        if together >= 1.0 {
            return if random.random::<bool>() { count } else { 0 };
        }
        let share = if together > 1e-4 {
            // Two of n are on the same side with a probability of (1 + 1 / (2 alpha + 1)) / 2.
            let alpha = (1.0 / together - 1.0) / 2.0;
            Beta::new(alpha, alpha).map_or(0.5, |beta| beta.sample(random))
        } else {
            0.5
        };
        let left = Binomial::new(count, share).map_or(count / 2, |of| of.sample(random));
        if together >= 0.0 {
            return left;
        }
        let middle = count as f64 / 2.0;
        let narrow = (1.0 + (count - 1) as f64 * together).max(0.0).sqrt();
        ((middle + (left as f64 - middle) * narrow + random.random::<f64>() - 0.5).round().max(0.0) as u64)
            .min(count)
    }
}
