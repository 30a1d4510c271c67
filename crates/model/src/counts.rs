//! Counts of things, and tables of them in which rare things are counted as similar ones.

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;

use foldhash::fast::FixedState;

use crate::model::{Direction, Table};

/// How often things were seen.
#[derive(Clone, Debug)]
pub struct Counts<K>(HashMap<K, u64, FixedState>);

impl<K> Default for Counts<K> {
    fn default() -> Self {
        Self(HashMap::default())
    }
}

impl<K: Hash + Ord + Copy> Counts<K> {
    pub fn add(&mut self, thing: K, count: u64) {
        *self.0.entry(thing).or_default() += count;
    }

    pub fn count(&mut self, thing: K) {
        self.add(thing, 1);
    }

    /// Takes one back.
    pub fn uncount(&mut self, thing: K) {
        if let Some(count) = self.0.get_mut(&thing) {
            *count = count.saturating_sub(1);
        }
    }

    /// In any order.
    pub fn rows(&self) -> impl Iterator<Item = (K, u64)> {
        self.0.iter().map(|(thing, count)| (*thing, *count))
    }

    /// In the order of the things.
    pub fn sorted(self) -> BTreeMap<K, u64> {
        self.0.into_iter().filter(|(_, count)| *count > 0).collect()
    }

    /// What fewer than `least` are of counts as the nearest, in their order, of the same group that more are of; without one,
    /// as the most frequent.
    pub fn merged<G: PartialEq>(self, least: u64, group: impl Fn(&K) -> G) -> BTreeMap<K, u64> {
        let rows: Vec<(K, u64)> = self.sorted().into_iter().collect();
        let mut merged = BTreeMap::new();
        for rows in rows.chunk_by(|one, other| group(&one.0) == group(&other.0)) {
            let most = (0..rows.len()).max_by_key(|at| rows[*at].1).unwrap_or(0);
            let is_kept = |at: &usize| rows[*at].1 >= least || *at == most;
            for at in 0..rows.len() {
                let kept = (0..rows.len()).filter(is_kept);
                let nearest = kept.min_by_key(|kept| kept.abs_diff(at)).unwrap_or(most);
                *merged.entry(rows[nearest].0).or_default() += rows[at].1;
            }
        }
        merged
    }
}

/// Counts as a table by direction.
pub fn table<K, R>(
    counts: impl IntoIterator<Item = (K, u64)>,
    direction: impl Fn(&K) -> Direction,
    row: impl Fn(K, u64) -> R,
) -> Table<R> {
    let mut table = Table::new();
    for (thing, count) in counts {
        table.entry(direction(&thing)).or_insert_with(Vec::new).push(row(thing, count));
    }
    table
}

/// Log-likelihood, in nats, that a row of a table must bring to be kept.
pub const PER_ROW: f64 = 4.0;

/// The counts by direction that say more than those of all together, beside what it takes to write them.
pub fn remarkable<K: Ord + Copy>(
    counts: BTreeMap<(Direction, K), u64>,
    all: &BTreeMap<(Direction, K), u64>,
) -> BTreeMap<(Direction, K), u64> {
    let rows: Vec<_> = counts.into_iter().collect();
    let brings = |rows: &&[((Direction, K), u64)]| {
        let direction = rows[0].0.0;
        let sum = |counts: &mut dyn Iterator<Item = u64>| counts.sum::<u64>() as f64;
        let here = sum(&mut rows.iter().map(|row| row.1));
        let everywhere = sum(&mut all.iter().filter(|row| row.0.0 == direction).map(|row| *row.1));
        let row = |(thing, count): &((Direction, K), u64)| {
            let count = *count as f64;
            let chance = all.get(thing).copied().unwrap_or(1) as f64 / everywhere;
            count * (count / here / chance).ln() - PER_ROW
        };
        rows.iter().map(row).sum::<f64>() > 0.0
    };
    rows.chunk_by(|one, other| one.0.0 == other.0.0).filter(brings).flatten().copied().collect()
}
