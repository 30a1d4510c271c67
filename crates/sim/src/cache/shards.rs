//! Samples of blocks, from which the misses of caches of all blocks are estimated: SHARDS with a fixed rate (Waldspurger et
//! al., FAST 2015, §3.1 and §3.4).
//!
//! A block is in the sample if its hash is below a threshold, so that all of its uses are or none. A cache of the sample's
//! blocks that is as much smaller misses about as many of their uses: the sizes of caches are multiplied by the rate, for
//! LRU's reuse distances as for a miniature of any other policy (Waldspurger et al., USENIX ATC 2017). The misses of the
//! sample are divided by the *expected* number of its uses: that is SHARDS-adj, which counts the difference to the actual
//! number as hits at distance 1, as most of it comes from blocks used very often.
//!
//! The sample is divided into [`GROUPS`] by other bits of the hash. Estimates without one group each give the standard
//! error (the delete-one-group jackknife), and [`bound`] a confidence interval of 95 %.

use super::Block;

/// Groups of a sample.
pub const GROUPS: u8 = 10;
/// Two-sided 95 % of Student's t with [`GROUPS`] - 1 degrees of freedom.
const STUDENT_T: f64 = 2.262;

/// Which blocks are in a sample.
#[derive(Clone, Copy, Debug)]
pub struct Shards {
    threshold: u64,
}

impl Shards {
    /// A sample of this share of all blocks, which is more than 0 and at most 1.
    #[must_use]
    pub fn new(rate: f64) -> Self {
        Self { threshold: (rate * 2f64.powi(64)) as u64 }
    }

    /// The group of a block of a device; none if it isn't in the sample.
    #[must_use]
    pub fn group(self, device: u32, block: u64) -> Option<u8> {
        let hash = mix(mix(u64::from(device)).wrapping_add(block));
        (hash < self.threshold || self.threshold == u64::MAX).then(|| (mix(hash) % u64::from(GROUPS)) as u8)
    }
}

/// The finalizer of SplitMix64 (Steele et al., OOPSLA 2014), after a step of its counter.
fn mix(value: u64) -> u64 {
    let mut mixed = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// Blocks of the sample that a cache of `size` blocks would hold.
#[must_use]
pub fn miniature(size: u32, rate: f64) -> u32 {
    (f64::from(size) * rate).round() as u32
}

/// Half the width of the 95 % confidence interval of an estimate, from the estimates without each group, at a rate.
#[must_use]
pub fn bound(without: &[f64], rate: f64) -> f64 {
    let count = without.len() as f64;
    let mean = without.iter().sum::<f64>() / count;
    let squares: f64 = without.iter().map(|estimate| (estimate - mean).powi(2)).sum();
    // A sample of all blocks has no error.
    STUDENT_T * ((count - 1.0) / count * squares * (1.0 - rate)).sqrt()
}

/// The blocks of a sample, numbered as [`super::Numbers`] does, and their groups.
#[derive(Default)]
pub struct Groups(Vec<u8>);

impl Groups {
    /// Notes the group of the block with this number.
    pub fn note(&mut self, block: Block, group: u8) {
        if block as usize == self.0.len() {
            self.0.push(group);
        }
    }

    /// Whether a block is in another group.
    #[must_use]
    pub fn is_outside(&self, block: Block, group: u8) -> bool {
        self.0.get(block as usize) != Some(&group)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_has_the_share_of_blocks_and_groups_of_equal_size() {
        for rate in [0.5, 0.1, 0.01] {
            let shards = Shards::new(rate);
            let mut groups = [0_u32; GROUPS as usize];
            for (device, block) in (0..4).flat_map(|device| (0..250_000).map(move |block| (device, block))) {
                if let Some(group) = shards.group(device, block) {
                    groups[group as usize] += 1;
                }
            }
            let expected = rate * 1e6;
            let total: u32 = groups.iter().sum();
            // four standard deviations of a binomial distribution
            assert!((f64::from(total) - expected).abs() < 4.0 * expected.sqrt(), "{rate}: {total}");
            let each = expected / f64::from(GROUPS);
            assert!(
                groups.iter().all(|count| (f64::from(*count) - each).abs() < 4.0 * each.sqrt()),
                "{groups:?}"
            );
        }
        assert!((0..1000).all(|block| Shards::new(1.0).group(0, block).is_some()));
    }

    #[test]
    fn a_bound_is_students_interval() {
        // The jackknife of a mean is its standard error: of 0 to 9, sqrt(55 / 6 / 10).
        let values: Vec<f64> = (0..10).map(f64::from).collect();
        let without: Vec<f64> = values.iter().map(|value| (45.0 - value) / 9.0).collect();
        let expected = 2.262 * (55.0_f64 / 6.0 / 10.0).sqrt();
        assert!((bound(&without, 0.0) - expected).abs() < 1e-9);
        assert!(bound(&without, 1.0).abs() < 1e-9);
    }

    #[test]
    fn a_miniature_is_smaller_by_the_rate() {
        assert_eq!([miniature(1000, 0.1), miniature(4, 0.1), miniature(7, 1.0)], [100, 0, 7]);
    }
}
