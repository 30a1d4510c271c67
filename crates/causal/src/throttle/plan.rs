//! Which nodes are held in which run, and which of them goes on next.

use std::collections::HashMap;

use super::Run;
use super::analyze::moved;

/// A generator of random numbers (Steele, Lea, Flood: "Fast splittable pseudorandom number generators", OOPSLA 2014).
#[derive(Clone, Debug)]
struct SplitMix(u64);

impl SplitMix {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    /// Below `bound`, which is not 0.
    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last + 1));
        }
    }
}

/// Of `nodes` nodes the halves that are held, one set a run: for any two nodes and either order there is a run that holds the first and
/// not the second. 2·⌈log₂ nodes⌉ runs; none for fewer than two nodes. Which nodes are together depends on the seed.
#[must_use]
pub fn groups(nodes: u32, seed: u64) -> Vec<Vec<u32>> {
    if nodes < 2 {
        return Vec::new();
    }
    // nodes have different codes: where two differ in a bit, one of its two runs holds the one, one the other
    let mut of_code: Vec<u32> = (0..nodes).collect();
    SplitMix(seed).shuffle(&mut of_code);
    let bits = u32::BITS - (nodes - 1).leading_zeros();
    let with = |bit: u32, value: usize| {
        let mut held: Vec<u32> = of_code
            .iter()
            .enumerate()
            .filter(|(code, _)| code >> bit & 1 == value)
            .map(|(_, node)| *node)
            .collect();
        held.sort_unstable();
        held
    };
    (0..bits).flat_map(|bit| [with(bit, 1), with(bit, 0)]).collect()
}

/// One node a run, `count` of them chosen at random (//TRACE, section 5.5), or all if there are fewer.
#[must_use]
pub fn one_each(nodes: u32, count: u32, seed: u64) -> Vec<Vec<u32>> {
    let mut order: Vec<u32> = (0..nodes).collect();
    SplitMix(seed).shuffle(&mut order);
    order.truncate(count as usize);
    order.into_iter().map(|node| vec![node]).collect()
}

/// Chooses which of the paused nodes is released.
///
/// Who comes last is seen as a cause, or seen not to be one. So an operation that was a cause already goes first, and of the others
/// one at random.
#[derive(Clone, Debug)]
pub struct Releases {
    random: SplitMix,
    /// How often something moved after a node was released before an operation.
    causes: HashMap<(u32, u32), u32>,
}

impl Releases {
    /// Without experience.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self { random: SplitMix(seed ^ 0x7468_726f_7474_6c65), causes: HashMap::new() }
    }

    /// Learns from a run.
    pub fn learn(&mut self, run: &Run) {
        for pair in run.snapshots.windows(2) {
            if let [now, next] = pair
                && let Some(node) = now.released
                && moved(now, next).next().is_some()
            {
                self.note_cause(node, now.nodes[node as usize].done);
            }
        }
    }

    /// Something was stuck that moved after `node` was released before its operation `op`.
    pub(super) fn note_cause(&mut self, node: u32, op: u32) {
        *self.causes.entry((node, op)).or_default() += 1;
    }

    /// One of the paused nodes, each with its next operation; none of none.
    pub fn choose(&mut self, paused: &[(u32, u32)]) -> Option<u32> {
        let times = |one: &(u32, u32)| self.causes.get(one).copied().unwrap_or(0);
        let most = paused.iter().map(times).max()?;
        let best: Vec<u32> = paused.iter().filter(|one| times(one) == most).map(|(node, _)| *node).collect();
        Some(best[self.random.below(best.len())])
    }
}
