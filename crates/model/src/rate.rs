//! When requests of each kind arrive: counts of intervals that are halved again and again.
//!
//! The whole time has a count of each kind; each half has a share of them, down to the clock's tick. The splits that say most
//! are kept; the others are drawn as unequal as those of the same interval length and a similar count. So bursts are as large
//! and as clustered at each scale as they were, and of the same kinds (multiplicative cascades with beta multipliers: Riedi
//! et al., "A multifractal wavelet model", IEEE Trans. Inf. Theory 1999; here of counts, by the beta-binomial distribution).
//! Intervals of few requests are not halved: their gaps are drawn, as long to the mean of their interval as gaps of such means
//! were. Kinds are split one after the other, as draws without replacement from those on both sides, and more separated than
//! these where they were.

use std::collections::HashMap;

use foldhash::fast::FixedState;
use iotrail_sim::Nanos;
use rand::Rng;
use rand_distr::{Beta, Binomial, Distribution as _, Hypergeometric};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::quotas::choose_counted;

mod halves;

pub use halves::fit;

/// Splits that are kept.
pub const KEPT: usize = 300;
/// Kinds at most.
pub const KINDS: usize = 16;
/// Classes of a gap by the mean gap of its interval: steps of a power of two, and where they begin.
const RATIO_STEPS: f64 = 2.0;
const LEAST_RATIO: f64 = -16.0;
const MOST_RATIOS: u8 = 48;
/// Count from which on splits with all on one side are drawn as such: fewer are often so by chance.
const WHOLE: u64 = 8;
/// Classes of a count.
const CLASSES: usize = u64::BITS as usize;
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
    /// How kinds are separated otherwise, by level and kind: 0 by chance, 1 as far as possible, -1 as evenly as possible.
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

/// A gap of a class, as a multiple of the mean.
fn ratio(class: u8, random: &mut impl Rng) -> f64 {
    ((f64::from(class) + random.random::<f64>()) / RATIO_STEPS + LEAST_RATIO).exp2()
}

/// Length of an interval: the ends of `index` on `level`, in ticks.
fn ends(ticks: u64, level: u32, index: u64) -> (u64, u64) {
    let end = |index: u64| ((u128::from(index) * u128::from(ticks)) >> level) as u64;
    (end(index), end(index + 1))
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
        if separated == 0.0 {
            return by_chance(random);
        }
        if separated < 0.0 {
            let off = (by_chance(random) as f64 - self.mean) * (1.0 + separated).max(0.0).sqrt();
            return ((self.mean + off + random.random::<f64>()).floor().max(0.0) as u64).clamp(from, to);
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

/// Arrivals drawn from a [`Rate`], in their order.
#[derive(Clone, Debug)]
pub struct Arrivals {
    kept: HashMap<(u32, u64), Counts, FixedState>,
    /// By level, and by class or kind.
    drawn: Vec<[Drawn; CLASSES]>,
    separated: Vec<[f64; KINDS]>,
    ticks: u64,
    tick_ns: u64,
    gaps: HashMap<u32, Vec<(u8, u64)>, FixedState>,
    /// Intervals yet to come that have requests, the next one last: level, number, requests by kind and in all.
    todo: Vec<(u32, u64, Counts, u64)>,
    leaf: u64,
    /// Requests of the interval that is not halved, the next one last.
    now: Vec<(Nanos, u8)>,
}

/// How splits of a level and a class of counts are drawn.
#[derive(Clone, Copy, Debug, Default)]
struct Drawn {
    /// Share of those with all requests on one side, and correlation of the others.
    whole: f64,
    together: f64,
    /// Of the share of the requests in the first half; none if all are in one, or as many as by chance.
    shares: Option<Beta<f64>>,
}

/// As what [`Rate::drawn`] says of the nearest class: of one that is not above, or else of the least.
fn drawn(rate: &Rate) -> Vec<[Drawn; CLASSES]> {
    // Classes above those that a count can have are the least if there is no other.
    let mut known = vec![[None; 2 * CLASSES]; MOST_LEVELS as usize];
    for &(level, class, whole, together) in &rate.drawn {
        if let Some(of) = known.get_mut(level as usize).and_then(|of| of.get_mut(class as usize)) {
            // Two of n are on the same side with a probability of (1 + 1 / (2 alpha + 1)) / 2.
            let alpha = (1.0 / together - 1.0) / 2.0;
            let shares = Beta::new(alpha, alpha).ok().filter(|_| together > 1e-4 && together < 1.0);
            *of = Some(Drawn { whole, together, shares });
        }
    }
    let nearest = |known: [Option<Drawn>; 2 * CLASSES]| {
        let mut last = known.iter().find_map(|of| *of).unwrap_or_default();
        std::array::from_fn(|class| {
            last = known[class].unwrap_or(last);
            last
        })
    };
    known.into_iter().map(nearest).collect()
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
        let mut separated = vec![[0.0; KINDS]; MOST_LEVELS as usize];
        for &(level, kind, of) in &rate.separated {
            let kinds = separated.get_mut(level as usize);
            if let Some(separated) = kinds.and_then(|kinds| kinds.get_mut(usize::from(kind))) {
                *separated = of;
            }
        }
        let counts = padded(&rate.counts);
        let count: u64 = counts.iter().sum();
        Self {
            kept: rate.kept.iter().map(|(level, index, left)| ((*level, *index), padded(left))).collect(),
            drawn: drawn(rate),
            separated,
            gaps,
            leaf: rate.leaf,
            now: Vec::new(),
            ticks: rate.length_ns / rate.tick_ns.max(1) + 1,
            tick_ns: rate.tick_ns.max(1),
            todo: if count > 0 { vec![(0, 0, counts, count)] } else { Vec::new() },
        }
    }

    /// The next arrival, ns from the first, and its kind; none after the last.
    pub fn next(&mut self, random: &mut impl Rng) -> Option<(Nanos, u8)> {
        loop {
            if let Some(next) = self.now.pop() {
                return Some(next);
            }
            let (level, index, counts, count) = self.todo.pop()?;
            let (from, to) = ends(self.ticks, level, index);
            if to - from < 2 || level == MOST_LEVELS - 1 {
                let mut rest = counts;
                let kind = take(&mut rest, random);
                if count > 1 {
                    self.todo.push((level, index, rest, count - 1));
                }
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
            let in_left: u64 = left.iter().sum();
            if in_left < count {
                self.todo.push((level + 1, 2 * index + 1, right, count - in_left));
            }
            if in_left > 0 {
                self.todo.push((level + 1, 2 * index, left, in_left));
            }
        }
    }

    /// Places the requests of an interval that is not halved, as far from each other as those of such a mean gap.
    fn fill(&mut self, from: u64, to: u64, mut counts: Counts, count: u64, random: &mut impl Rng) {
        if count == 1 {
            let tick = random.random_range(from..to);
            self.now.push((tick * self.tick_ns, take(&mut counts, random)));
            return;
        }
        let mean = (((to - from) * self.tick_ns) as f64 / count as f64) as u64;
        let class = mean.max(1).ilog2();
        let near = (0..64).find_map(|off| {
            self.gaps.get(&(class + off)).or_else(|| self.gaps.get(&class.checked_sub(off)?))
        });
        let gap = |random: &mut _| {
            let class = near.and_then(|of| choose_counted(of, random));
            class.map_or(1.0, |class| ratio(class, random))
        };
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
                Some(draw) => draw.draw(in_left, sum, *count, self.separated[level as usize][kind], random),
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
        let &Drawn { whole, together, ref shares } = &self.drawn[level as usize][class(count) as usize];
        if count >= WHOLE && random.random::<f64>() < whole {
            return if random.random::<bool>() { count } else { 0 };
        }
        if together >= 1.0 {
            return if random.random::<bool>() { count } else { 0 };
        }
        let share = shares.map_or(0.5, |shares| shares.sample(random));
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
