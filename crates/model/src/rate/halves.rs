//! Counts arrivals in intervals that are halved, keeps the splits that say most and sums up the others.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use foldhash::fast::FixedState;
use iotrail_sim::Nanos;
use rand::SeedableRng as _;
use rand_pcg::Pcg64Mcg;

use super::{
    Arrivals, CLASSES, Counts, KINDS, Kind, LEAST_RATIO, MOST_LEVELS, MOST_RATIOS, RATIO_STEPS, Rate, WHOLE,
    class, ends,
};

/// Fewest requests of an interval that is halved: all, or such of so many that gaps say more than halves.
const LEAVES: [usize; 2] = [2, 16];
/// Gaps that are compared to choose.
const COMPARED: usize = 200_000;

/// The class of a gap that is so many times as long as the mean.
fn ratio_class(ratio: f64) -> u8 {
    ((ratio.log2() - LEAST_RATIO) * RATIO_STEPS).clamp(0.0, f64::from(MOST_RATIOS - 1)) as u8
}

fn counts_of(kinds: &[u8]) -> Counts {
    let mut counts = [0; KINDS];
    kinds.iter().for_each(|kind| counts[usize::from(*kind)] += 1);
    counts
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
    if arrivals.is_empty() {
        return Rate::default();
    }
    let gaps = sorted(&mut arrivals.iter().copied());
    let halves = halve(arrivals, kinds);
    let of = |leaf: usize| {
        let rate = rate_of(&halves, kinds, kept, leaf);
        let (mut drawn, mut random) = (Arrivals::new(&rate), Pcg64Mcg::seed_from_u64(leaf as u64));
        let times = sorted(&mut std::iter::from_fn(|| Some(drawn.next(&mut random)?.0)));
        (distance(&gaps, &times), rate)
    };
    let fits = LEAVES.map(of);
    let best = fits.into_iter().min_by(|one, other| one.0.total_cmp(&other.0));
    best.map(|(_, rate)| rate).unwrap_or_default()
}

/// Largest difference of the distribution functions of sorted values (Kolmogorov and Smirnov).
fn distance(one: &[u64], other: &[u64]) -> f64 {
    let (mut most, mut of_one, mut of_other) = (0.0f64, 0, 0);
    let share = |count: usize, values: &[u64]| count as f64 / values.len().max(1) as f64;
    while let Some(value) = one.get(of_one).into_iter().chain(other.get(of_other)).min() {
        of_one += one[of_one..].iter().take_while(|of| *of <= value).count();
        of_other += other[of_other..].iter().take_while(|of| *of <= value).count();
        most = most.max((share(of_one, one) - share(of_other, other)).abs());
    }
    most
}

/// An interval and its halves: which arrivals are in it, and the first one in its second half.
struct Split {
    level: u32,
    index: u64,
    inside: Range<usize>,
    half: usize,
}

impl Split {
    /// Whether requests are in both halves.
    fn is_shared(&self) -> bool {
        (self.inside.start + 1..self.inside.end).contains(&self.half)
    }
}

/// All splits of intervals of at least the fewest requests of [`LEAVES`], and gaps.
struct Halves {
    length_ns: Nanos,
    tick_ns: Nanos,
    all: Counts,
    splits: Vec<Split>,
    /// How much each says, and which it is, by how much.
    surprises: Vec<(f64, u32)>,
    /// Gaps in the first intervals of fewer requests than each of [`LEAVES`].
    gaps: [HashMap<(u32, u8), u64, FixedState>; LEAVES.len()],
}

fn halve(arrivals: &[Nanos], kinds: &[u8]) -> Halves {
    let first = arrivals.first().copied().unwrap_or_default();
    let tick_ns = arrivals.iter().fold(0, |tick, at| gcd(at - first, tick)).max(1);
    let length_ns = arrivals.last().map_or(0, |last| last - first);
    let ticks = length_ns / tick_ns + 1;
    let all = counts_of(kinds);
    let mut halves = Halves {
        length_ns,
        tick_ns,
        all,
        splits: Vec::new(),
        surprises: Vec::new(),
        gaps: Default::default(),
    };
    // Requests of the interval that each is half of.
    let mut todo = vec![(0, 0, 0..arrivals.len(), all, usize::MAX)];
    while let Some((mut level, mut index, inside, all, of)) = todo.pop() {
        let count = inside.len();
        // While all are in one half they say the same.
        let mut of_one_half = None;
        loop {
            let (from, to) = ends(ticks, level, index);
            if count < 2 || to - from < 2 || level == MOST_LEVELS - 1 {
                break;
            }
            if of_one_half.is_none() {
                for (gaps, leaf) in halves.gaps.iter_mut().zip(LEAVES) {
                    if count < leaf && of >= leaf {
                        count_gaps(gaps, &arrivals[inside.clone()], ((to - from) * tick_ns) as f64);
                    }
                }
            }
            let middle = first.saturating_add((ends(ticks, level + 1, 2 * index).1).saturating_mul(tick_ns));
            let half = inside.start + arrivals[inside.clone()].partition_point(|at| *at < middle);
            let split = Split { level, index, inside: inside.clone(), half };
            let is_shared = split.is_shared();
            let number = halves.splits.len() as u32;
            halves.splits.push(split);
            if is_shared {
                let left = counts_of(&kinds[inside.start..half]);
                let mut right = all;
                right.iter_mut().zip(left).for_each(|(count, left)| *count -= left);
                halves.surprises.push((surprise(&left, &all), number));
                todo.push((level + 1, 2 * index, inside.start..half, left, count));
                todo.push((level + 1, 2 * index + 1, half..inside.end, right, count));
                break;
            }
            let says = *of_one_half.get_or_insert_with(|| surprise(&all, &all));
            halves.surprises.push((says, number));
            level += 1;
            index = 2 * index + u64::from(half == inside.start);
        }
    }
    halves.surprises.sort_by(|one, other| other.0.total_cmp(&one.0));
    halves
}

/// Counts gaps between arrivals in an interval of a length, ns.
fn count_gaps(gaps: &mut HashMap<(u32, u8), u64, FixedState>, arrivals: &[Nanos], length: f64) {
    let mean = length / arrivals.len() as f64;
    for pair in arrivals.windows(2) {
        let class = ratio_class((pair[1] - pair[0]) as f64 / mean);
        *gaps.entry(((mean as u64).max(1).ilog2(), class)).or_default() += 1;
    }
}

/// Keeps the splits of intervals of `leaf` and more requests that say most, and sums up the others.
fn rate_of(halves: &Halves, kinds: &[u8], kept: usize, leaf: usize) -> Rate {
    let &Halves { length_ns, tick_ns, all, .. } = halves;
    let used = all.iter().rposition(|count| *count > 0).map_or(0, |kind| kind + 1);
    let at = LEAVES.iter().position(|of| *of == leaf).unwrap_or(0);
    let splits = || {
        let in_order = halves.surprises.iter().map(|(_, number)| &halves.splits[*number as usize]);
        in_order.filter(|split| split.inside.len() >= leaf)
    };
    // A split is kept with all that it is inside of: so its interval has as many requests as it had.
    let mut chosen: HashSet<(u32, u64), FixedState> = HashSet::default();
    for split in splits() {
        let room = kept - chosen.len();
        if room == 0 {
            break;
        }
        let missing = (0..=split.level).map(|up| (split.level - up, split.index >> up));
        let missing: Vec<_> = missing.take_while(|of| !chosen.contains(of)).take(room + 1).collect();
        if missing.len() <= room {
            chosen.extend(missing);
        }
    }
    let mut kept = Vec::with_capacity(chosen.len());
    // By level, and by class or kind.
    let mut sums = vec![[Sums::default(); CLASSES]; MOST_LEVELS as usize];
    let mut apart = vec![[None::<Apart>; KINDS]; MOST_LEVELS as usize];
    for split in splits() {
        let &Split { level, index, ref inside, half } = split;
        if chosen.contains(&(level, index)) {
            let left = counts_of(&kinds[inside.start..half]);
            kept.push((level, index, left[..used].to_vec()));
            continue;
        }
        let (mut left_sum, mut sum) = ((half - inside.start) as u64, inside.len() as u64);
        sums[level as usize][class(sum) as usize].add(left_sum, sum);
        if !split.is_shared() {
            continue;
        }
        let (left, all) = (counts_of(&kinds[inside.start..half]), counts_of(&kinds[inside.clone()]));
        for kind in 0..used {
            if let Some(draw) = Kind::new(left_sum, sum, all[kind]) {
                let sums = apart[level as usize][kind].get_or_insert_default();
                sums.beyond += (left[kind] as f64 - draw.mean).powi(2) - draw.by_chance;
                sums.by_chance += draw.by_chance;
                sums.most += draw.most - draw.by_chance;
            }
            left_sum -= left[kind];
            sum -= all[kind];
        }
    }
    kept.sort_unstable();
    let drawn = (0..).zip(&sums).flat_map(|(level, sums)| {
        let some = (0..).zip(sums).filter(|(_, sums)| sums.splits > 0);
        some.map(move |(class, sums)| sums.row(level, class))
    });
    let separated = (0..).zip(&apart).flat_map(|(level, kinds)| {
        let some = (0..).zip(kinds).filter_map(|(kind, sums)| Some((kind, (*sums)?)));
        some.map(move |(kind, sums)| (level, kind, round(sums.separated())))
    });
    let (drawn, separated) = (drawn.collect(), separated.collect());
    let gaps = halves.gaps[at].iter().map(|((mean, class), count)| (*mean, *class, *count));
    let mut gaps: Vec<_> = gaps.collect();
    gaps.sort_unstable();
    let counts = all[..used].to_vec();
    Rate { length_ns, tick_ns, counts, kept, drawn, leaf: leaf as u64, gaps, separated }
}

/// Sums over splits of one kind.
#[derive(Clone, Copy, Default)]
struct Apart {
    /// Squared differences from the mean less what they are by chance.
    beyond: f64,
    /// What they are by chance.
    by_chance: f64,
    /// What they are if the kind is as far apart as possible, less that.
    most: f64,
}

impl Apart {
    fn separated(&self) -> f64 {
        let most = if self.beyond < 0.0 { self.by_chance } else { self.most };
        if most > 0.0 { (self.beyond / most).clamp(-1.0, 1.0) } else { 0.0 }
    }
}

/// Sums over splits.
#[derive(Clone, Copy, Default)]
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

/// How much a split says beyond halves: the log-likelihood ratio of each kind.
fn surprise(left: &Counts, all: &Counts) -> f64 {
    let of_kind = |(left, all): (&u64, &u64)| {
        let (left, all) = (*left as f64, *all as f64);
        let part = |of: f64| if of > 0.0 { of * (2.0 * of / all).ln() } else { 0.0 };
        part(left) + part(all - left)
    };
    left.iter().zip(all).filter(|(_, all)| **all > 0).map(of_kind).sum()
}
