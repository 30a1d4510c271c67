//! Draws that keep to counts: what comes out in the end is about what was counted.

use std::collections::HashMap;
use std::hash::Hash;

use foldhash::fast::FixedState;
use rand::Rng;

/// How strongly a thing is drawn that is behind, or ahead of, its share.
const PULL: f64 = 2.0;
/// Bounds of that.
const LEAST: f64 = 0.01;
const MOST: f64 = 8.0;

/// Counted things that still have to come.
#[derive(Clone, Debug)]
pub struct Quotas<T> {
    of: HashMap<T, (i64, i64), FixedState>,
    left: i64,
    full: i64,
}

impl<T> Default for Quotas<T> {
    fn default() -> Self {
        Self { of: HashMap::default(), left: 0, full: 0 }
    }
}

impl<T: Copy + Eq + Hash> Quotas<T> {
    /// Things and how often each comes.
    pub fn new(counts: impl Iterator<Item = (T, u64)>) -> Self {
        let mut of: HashMap<T, (i64, i64), FixedState> = HashMap::default();
        let mut full = 0;
        for (thing, count) in counts {
            let entry = of.entry(thing).or_default();
            entry.0 += count as i64;
            entry.1 += count as i64;
            full += count as i64;
        }
        Self { of, left: full, full }
    }

    /// Adds things that still have to come.
    pub fn add(&mut self, counts: impl Iterator<Item = (T, u64)>) {
        for (thing, count) in counts {
            self.of.entry(thing).or_default().0 += count as i64;
        }
        // What is behind, or ahead, from before counts too.
        self.full = 0;
        self.left = 0;
        for (left, full) in self.of.values_mut() {
            *full = (*left).max(0);
            self.full += *full;
            self.left += *full;
        }
    }

    /// Notes that a thing came.
    pub fn take(&mut self, thing: T) {
        self.left -= 1;
        if let Some((left, _)) = self.of.get_mut(&thing) {
            *left -= 1;
        }
    }

    /// Draws one of those that still have to come, as often as they have to, times a weight; if all came, one of all.
    pub fn choose(&self, random: &mut impl Rng, weight: impl Fn(&T) -> f64) -> Option<T> {
        let some = self.of.iter().filter(|(_, (left, _))| *left > 0);
        let some: Vec<_> = some.map(|(thing, (left, _))| (*thing, *left as f64 * weight(thing))).collect();
        pick(&some, random).or_else(|| {
            let all: Vec<_> =
                self.of.iter().map(|(thing, (_, full))| (*thing, *full as f64 * weight(thing))).collect();
            pick(&all, random)
        })
    }

    /// By how much a thing has to be drawn more, or less, than it was counted.
    pub fn pull(&self, thing: T) -> f64 {
        if self.full == 0 {
            return 1.0;
        }
        let (left, full) = self.of.get(&thing).map_or((0.0, 0.0), |&(left, full)| (left as f64, full as f64));
        let due = full * (self.left as f64 / self.full as f64).max(0.0);
        ((left.max(0.0) + 0.05) / (due + 0.5)).powf(PULL).clamp(LEAST, MOST)
    }
}

/// Things to choose from, by what is known before.
pub type Choices<K, T> = HashMap<K, Vec<(T, u64)>, FixedState>;

/// Things to choose from, by what is known before.
pub fn choices<K: Hash + Eq, T: Copy>(items: impl Iterator<Item = (K, T, u64)>) -> Choices<K, T> {
    let mut lists: Choices<K, T> = HashMap::default();
    for (key, thing, count) in items {
        lists.entry(key).or_default().push((thing, count));
    }
    lists
}

/// Draws one of things with a weight; none if there is none of any.
pub fn pick<T: Copy>(things: &[(T, f64)], random: &mut impl Rng) -> Option<T> {
    draw(things.iter().copied(), random)
}

/// Draws one of counted things, as often as they were counted times a weight; none if there is none of any.
pub fn choose<T: Copy>(things: &[(T, u64)], random: &mut impl Rng, weight: impl Fn(T) -> f64) -> Option<T> {
    draw(things.iter().map(|&(thing, count)| (thing, count as f64 * weight(thing))), random)
}

fn draw<T: Copy>(things: impl Iterator<Item = (T, f64)> + Clone, random: &mut impl Rng) -> Option<T> {
    let total: f64 = things.clone().map(|(_, weight)| weight).sum();
    let mut rest = random.random::<f64>() * total;
    let mut last = None;
    for (thing, weight) in things.filter(|(_, weight)| *weight > 0.0) {
        last = Some(thing);
        rest -= weight;
        if rest < 0.0 {
            break;
        }
    }
    last
}
