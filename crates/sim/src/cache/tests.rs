//! Policies beside libCacheSim and naive oracles; reuse distances beside their definition.

use proptest::prelude::*;

use super::*;

/// Uses of skewed blocks with loops among them; the same for the same seed.
fn uses(seed: u64, count: usize, blocks: u32) -> Vec<Block> {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state >> 33
    };
    let mut made = Vec::with_capacity(count + 64);
    while made.len() < count {
        if next() % 16 == 0 {
            let first = next() % u64::from(blocks);
            made.extend((first..first + 48).map(|block| (block % u64::from(blocks)) as Block));
        } else {
            let share = (next() % (1 << 16)) as f64 / f64::from(1 << 16);
            made.push((share.powi(3) * f64::from(blocks)) as Block);
        }
    }
    made.truncate(count);
    made
}

fn misses(policy: Policy, capacity: u32, uses: &[Block], blocks: u32) -> u64 {
    let mut misses = 0;
    policy.run(capacity, blocks, uses.iter().copied(), |_| misses += 1);
    misses
}

/// Miss counts that libCacheSim has for these uses, at sizes of 20 blocks to 2000.
#[test]
fn misses_are_those_of_libcachesim() {
    let uses = uses(7, 100_000, 3000);
    for (policy, expected) in LIBCACHESIM {
        let counts = SIZES.map(|size| misses(policy, size, &uses, 3000));
        assert_eq!(counts, expected, "{}", policy.name());
    }
}

const SIZES: [u32; 8] = [20, 50, 100, 200, 400, 800, 1500, 2000];
const LIBCACHESIM: [(Policy, [u64; 8]); 8] = [
    (Policy::Lru, [98622, 97901, 95058, 90985, 84119, 70504, 48187, 32661]),
    (Policy::Fifo, [98694, 97938, 95221, 91157, 84460, 71108, 48575, 33129]),
    (Policy::Clock, [98611, 97642, 94838, 90921, 84024, 70064, 48292, 32468]),
    (Policy::Lfu, [96466, 94627, 92799, 88947, 81895, 68823, 47413, 31881]),
    (Policy::TwoQ, [96449, 95210, 93566, 89647, 82390, 70017, 47961, 32251]),
    (Policy::Arc, [96237, 95123, 93800, 89692, 82989, 70180, 47993, 32723]),
    (Policy::S3Fifo, [95973, 94464, 92822, 89310, 81938, 69267, 47860, 32372]),
    (Policy::Sieve, [96104, 94353, 92419, 88788, 81772, 68922, 46784, 31877]),
];

#[test]
fn names_are_read_back() {
    for policy in Policy::ALL {
        assert_eq!(Policy::of_name(policy.name()), Some(policy));
    }
    assert_eq!(Policy::of_name("LRU"), None);
}

#[test]
fn blocks_are_numbered_as_they_come() {
    let mut numbers = Numbers::default();
    assert!(numbers.is_empty());
    let given = [(1, 70), (2, 70), (1, 71), (1, 70)].map(|(device, block)| numbers.of(device, block));
    assert_eq!(given, [Some(0), Some(1), Some(2), Some(0)]);
    assert_eq!(numbers.len(), 3);
}

/// More uses than there are turns, of fewer and of more blocks than a region has.
#[test]
fn distances_stay_right_when_marks_move_together() {
    for (blocks, count) in [(300, 700_000), (200_000, 900_000)] {
        let uses = uses(3, count, blocks);
        let mut reuse = Reuse::new(blocks);
        let distances: Vec<u32> = uses.iter().map(|block| reuse.touch(*block)).collect();
        for size in [1, 7, 250, blocks / 3, blocks] {
            let served = distances.iter().filter(|distance| (1..=size).contains(*distance)).count() as u64;
            assert_eq!(
                uses.len() as u64 - served,
                misses(Policy::Lru, size, &uses, blocks),
                "{blocks} {size}"
            );
        }
    }
}

proptest! {
    #[test]
    fn every_policy_holds_what_it_says(
        uses in proptest::collection::vec(0_u32..40, 0..400),
        capacity in 0_u32..50,
    ) {
        let different = uses.iter().collect::<std::collections::HashSet<_>>().len() as u64;
        for policy in Policy::ALL {
            let misses = misses(policy, capacity, &uses, 40);
            // The first use of each block is served by none; a cache for all blocks serves all others.
            prop_assert!((different..=uses.len() as u64).contains(&misses), "{}", policy.name());
            if capacity >= 40 {
                prop_assert_eq!(misses, different, "{}", policy.name());
            }
            if capacity == 0 {
                prop_assert_eq!(misses, uses.len() as u64, "{}", policy.name());
            }
        }
    }

    #[test]
    fn a_distance_is_the_number_of_different_blocks_since(uses in proptest::collection::vec(0_u32..20, 0..200)) {
        let mut reuse = Reuse::new(20);
        for (at, block) in uses.iter().enumerate() {
            let since = uses[..at].iter().rposition(|other| other == block);
            let expected = since.map_or(0, |since| {
                uses[since..at].iter().collect::<std::collections::HashSet<_>>().len() as u32
            });
            prop_assert_eq!(reuse.touch(*block), expected);
        }
    }
}

proptest! {
    #[test]
    fn a_cache_says_what_it_evicts(
        steps in proptest::collection::vec((0_u32..40, proptest::bool::weighted(0.15)), 0..400),
        capacity in 0_u32..50,
    ) {
        for policy in Policy::ALL {
            let (mut cache, mut held) = (Cache::new(policy, capacity), std::collections::BTreeSet::new());
            let mut evicted = Vec::new();
            for (block, removed) in &steps {
                prop_assert_eq!(cache.holds(*block), held.contains(block));
                if *removed {
                    prop_assert_eq!(cache.remove(*block), held.remove(block));
                } else {
                    let was_there = cache.touch(*block, &mut evicted);
                    prop_assert_eq!(was_there, held.contains(block), "{}", policy.name());
                    for block in evicted.drain(..) {
                        prop_assert!(held.remove(&block), "{} evicts {block} twice", policy.name());
                    }
                    if capacity > 0 {
                        held.insert(*block);
                    }
                }
                prop_assert!(held.len() <= capacity as usize, "{}", policy.name());
                prop_assert_eq!(cache.len() as usize, held.len());
                prop_assert!((0..45).all(|block| cache.holds(block) == held.contains(&block)));
            }
        }
    }

    #[test]
    fn step_by_step_misses_the_same(
        uses in proptest::collection::vec(0_u32..40, 0..400),
        capacity in 0_u32..50,
    ) {
        for policy in Policy::ALL {
            let mut missed = Vec::new();
            policy.run(capacity, 40, uses.iter().copied(), |at| missed.push(at));
            let mut cache = Cache::new(policy, capacity);
            let mut evicted = Vec::new();
            let stepped: Vec<usize> =
                (0..uses.len()).filter(|at| !cache.touch(uses[*at], &mut evicted)).collect();
            prop_assert_eq!(missed, stepped);
        }
    }
}
