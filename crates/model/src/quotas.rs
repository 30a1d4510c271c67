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
    /// Where each thing is in `of`.
    index: HashMap<T, u32, FixedState>,
    of: Vec<Quota<T>>,
    left: i64,
    full: i64,
}

#[derive(Clone, Debug)]
struct Quota<T> {
    thing: T,
    left: i64,
    full: i64,
}

impl<T> Default for Quotas<T> {
    fn default() -> Self {
        Self { index: HashMap::default(), of: Vec::new(), left: 0, full: 0 }
    }
}

impl<T: Copy + Eq + Hash> Quotas<T> {
    /// Things and how often each comes.
    pub fn new(counts: impl Iterator<Item = (T, u64)>) -> Self {
        let mut quotas = Self::default();
        quotas.add(counts);
        quotas
    }

    /// Adds things that still have to come.
    pub fn add(&mut self, counts: impl Iterator<Item = (T, u64)>) {
        for (thing, count) in counts {
            let next = self.of.len() as u32;
            let at = *self.index.entry(thing).or_insert(next);
            if at == next {
                self.of.push(Quota { thing, left: 0, full: 0 });
            }
            self.of[at as usize].left += count as i64;
        }
        // What is behind, or ahead, from before counts too.
        self.of.iter_mut().for_each(|quota| quota.full = quota.left.max(0));
        self.full = self.of.iter().map(|quota| quota.full).sum();
        self.left = self.full;
        // In the order of the table: what is drawn with a seed depends on it.
        let mut of = Vec::with_capacity(self.of.len());
        for at in self.index.values_mut() {
            of.push(self.of[*at as usize].clone());
            *at = of.len() as u32 - 1;
        }
        self.of = of;
    }

    /// Notes that a thing came.
    pub fn take(&mut self, thing: T) {
        self.left -= 1;
        if let Some(at) = self.index.get(&thing) {
            self.of[*at as usize].left -= 1;
        }
    }

    /// Draws one of those that still have to come, as often as they have to, times a weight; if all came, one of all.
    pub fn choose(&self, random: &mut impl Rng, weight: impl Fn(&T) -> f64) -> Option<T> {
        let some = self.of.iter().filter(|quota| quota.left > 0);
        let some = some.map(|quota| (quota.thing, quota.left as f64 * weight(&quota.thing)));
        let all = self.of.iter().map(|quota| (quota.thing, quota.full as f64 * weight(&quota.thing)));
        pick_of(some, random).or_else(|| pick_of(all, random))
    }

    /// Whether a thing still has to come.
    pub fn is_due(&self, thing: T) -> bool {
        self.index.get(&thing).is_some_and(|at| self.of[*at as usize].left > 0)
    }

    /// By how much a thing has to be drawn more, or less, than it was counted.
    pub fn pull(&self, thing: T) -> f64 {
        if self.full == 0 {
            return 1.0;
        }
        let quota = self.index.get(&thing).map(|at| &self.of[*at as usize]);
        let (left, full) = quota.map_or((0.0, 0.0), |quota| (quota.left as f64, quota.full as f64));
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

/// Draws one of counted things, as often as they were counted times a weight; none if there is none of any.
pub fn choose<T: Copy>(things: &[(T, u64)], random: &mut impl Rng, weight: impl Fn(T) -> f64) -> Option<T> {
    pick_of(things.iter().map(|&(thing, count)| (thing, count as f64 * weight(thing))), random)
}

/// Draws one of counted things, as often as they were counted; none if there is none of any.
pub fn choose_counted<T: Copy>(things: &[(T, u64)], random: &mut impl Rng) -> Option<T> {
    draw(things.iter().map(|&(thing, count)| (thing, count as f64)), random)
}

/// Draws one of things with a weight; none if there is none of any.
pub fn pick<T: Copy>(things: &[(T, f64)], random: &mut impl Rng) -> Option<T> {
    draw(things.iter().copied(), random)
}

/// The same, of weights that take time: each is asked for once.
fn pick_of<T: Copy>(things: impl Iterator<Item = (T, f64)>, random: &mut impl Rng) -> Option<T> {
    let mut all = Vec::with_capacity(things.size_hint().1.unwrap_or(0));
    all.extend(things);
    pick(&all, random)
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
