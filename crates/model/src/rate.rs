//! When requests arrive: counts of intervals that are halved again and again.
//!
//! The whole time has a count; each half has a share of it, down to the clock's tick. The splits that say most are
//! kept; the others are drawn as unequal as those of the same interval length and a similar count. So bursts are as large and as
//! clustered at each scale as they were (multiplicative cascades with beta multipliers: Riedi et al., "A multifractal wavelet
//! model", IEEE Trans. Inf. Theory 1999; here of counts, by the beta-binomial distribution).

use std::collections::HashMap;

use iotrail_sim::Nanos;
use rand::Rng;
use rand_distr::{Beta, Binomial, Distribution as _};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Splits that are kept.
pub const KEPT: usize = 300;
/// Count from which on splits with all on one side are drawn as such: fewer are often so by chance.
const WHOLE: u64 = 8;
/// Halvings at most: a nanosecond of 500 years.
const MOST_LEVELS: u32 = 64;

/// Arrivals over a time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Rate {
    /// From the first arrival to the last one, in ns.
    pub length_ns: u64,
    /// The clock's step, in ns: all arrivals are multiples of it.
    pub tick_ns: u64,
    /// Requests.
    pub count: u64,
    /// Kept splits: level, number of the interval on it, requests in its first half.
    pub kept: Vec<(u32, u64, u64)>,
    /// How the others are, by level and class of the count.
    pub drawn: Vec<(u32, u32, Split)>,
}

/// How unequal the halves of intervals are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Split(
    /// Share of those with all requests on one side.
    pub f64,
    /// Of the others, correlation between the sides of two requests: 0 by chance, negative more equal than that.
    pub f64,
);

/// The class of a count: two in a power of two, from 2 on.
fn class(count: u64) -> u32 {
    2 * count.ilog2() + u32::from(count >> (count.ilog2() - 1) & 1 == 1)
}

/// Length of an interval: the ends of `index` on `level`, in ticks.
fn ends(ticks: u64, level: u32, index: u64) -> (u64, u64) {
    let end = |index: u64| ((u128::from(index) * u128::from(ticks)) >> level) as u64;
    (end(index), end(index + 1))
}

/// Counts arrivals, ns, which never decrease.
#[must_use]
pub fn fit(arrivals: &[Nanos], kept: usize) -> Rate {
    let Some((&first, &last)) = arrivals.first().zip(arrivals.last()) else { return Rate::default() };
    let tick_ns = arrivals.iter().fold(0, |tick, at| gcd(tick, at - first)).max(1);
    let length_ns = last - first;
    let ticks = length_ns / tick_ns + 1;
    let mut splits: Vec<(f64, (u32, u64, u64), u64)> = Vec::new();
    let mut todo = vec![(0, 0, arrivals)];
    while let Some((level, index, inside)) = todo.pop() {
        let (from, to) = ends(ticks, level, index);
        let count = inside.len() as u64;
        if count < 2 || to - from < 2 || level == MOST_LEVELS - 1 {
            continue;
        }
        let middle = ends(ticks, level + 1, 2 * index).1;
        let left = inside.partition_point(|at| (at - first) / tick_ns < middle);
        splits.push((surprise(left as f64, count as f64), (level, index, left as u64), count));
        todo.push((level + 1, 2 * index, &inside[..left]));
        todo.push((level + 1, 2 * index + 1, &inside[left..]));
    }
    splits.sort_by(|one, other| other.0.total_cmp(&one.0));
    let others = splits.split_off(kept.min(splits.len()));
    let mut kept: Vec<_> = splits.into_iter().map(|(_, split, _)| split).collect();
    kept.sort_unstable();
    let mut sums: HashMap<(u32, u32), Sums> = HashMap::new();
    for (_, (level, _, left), count) in others {
        sums.entry((level, class(count))).or_default().add(left, count);
    }
    let mut drawn: Vec<_> =
        sums.into_iter().map(|((level, class), sums)| (level, class, sums.split())).collect();
    drawn.sort_unstable_by_key(|(level, class, _)| (*level, *class));
    Rate { length_ns, tick_ns, count: arrivals.len() as u64, kept, drawn }
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

    fn split(&self) -> Split {
        let round = |share: f64| (share * 1e4).round() / 1e4;
        let whole = self.whole as f64 / self.splits.max(1) as f64;
        Split(round(whole), round(if self.most > 0.0 { self.beyond / self.most } else { 0.0 }))
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
    kept: HashMap<(u32, u64), u64>,
    drawn: HashMap<(u32, u32), Split>,
    ticks: u64,
    tick_ns: u64,
    /// Intervals yet to come, the next one last: level, number, requests.
    todo: Vec<(u32, u64, u64)>,
}

impl Arrivals {
    /// One run through the whole time.
    #[must_use]
    pub fn new(rate: &Rate) -> Self {
        Self {
            kept: rate.kept.iter().map(|&(level, index, left)| ((level, index), left)).collect(),
            drawn: rate.drawn.iter().map(|(level, class, of)| ((*level, *class), *of)).collect(),
            ticks: rate.length_ns / rate.tick_ns.max(1) + 1,
            tick_ns: rate.tick_ns.max(1),
            todo: vec![(0, 0, rate.count)],
        }
    }

    /// The next arrival, ns from the first; none after the last.
    pub fn next(&mut self, random: &mut impl Rng) -> Option<Nanos> {
        loop {
            let (level, index, count) = self.todo.pop()?;
            if count == 0 {
                continue;
            }
            let (from, to) = ends(self.ticks, level, index);
            if count == 1 || to - from < 2 || level == MOST_LEVELS - 1 {
                if count > 1 {
                    self.todo.push((level, index, count - 1));
                }
                let tick = if to - from < 2 { from } else { random.random_range(from..to) };
                return Some(tick * self.tick_ns);
            }
            let left = match self.kept.get(&(level, index)) {
                Some(left) => (*left).min(count),
                None => self.split(level, count, random),
            };
            self.todo.push((level + 1, 2 * index + 1, count - left));
            self.todo.push((level + 1, 2 * index, left));
        }
    }

    fn split(&self, level: u32, count: u64, random: &mut impl Rng) -> u64 {
        let class = class(count);
        let of = |class: u32| self.drawn.get(&(level, class));
        let near = (0..=class).rev().find_map(of).or_else(|| (class..128).find_map(of));
        let Split(whole, together) = near.copied().unwrap_or_default();
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
