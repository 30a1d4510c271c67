//! The log-linear histogram every latency distribution uses: 32 buckets an octave.
//!
//! Values below 32 have a bucket each; above, each octave [2^k, 2^(k+1)) is cut into 32 equal
//! buckets, so that a bucket's width is at most 1/32 (3.1 %) of its lower bound. Histograms of the
//! same layout merge by adding counts and mean the same in SQL, page and notebook. The layout is
//! that of HdrHistogram with 5 significant bits (Tene, hdrhistogram.org). `sql/` computes the same
//! index with `log2`; a test holds the two together.

/// Buckets an octave.
pub const BUCKETS_PER_OCTAVE: i64 = 32;

/// Index of the bucket that holds `value` (a negative value counts as 0).
#[must_use]
pub const fn bucket_of(value: i64) -> i64 {
    if value < BUCKETS_PER_OCTAVE {
        return if value < 0 { 0 } else { value };
    }
    let octave = 63 - value.leading_zeros() as i64;
    let shift = octave - 5;
    shift * BUCKETS_PER_OCTAVE + (value >> shift)
}

/// Smallest value of bucket `index`; the bucket ends before `lower_bound(index + 1)`.
#[must_use]
pub const fn lower_bound(index: i64) -> i64 {
    if index < 2 * BUCKETS_PER_OCTAVE {
        return index;
    }
    let shift = index / BUCKETS_PER_OCTAVE - 1;
    let mantissa = BUCKETS_PER_OCTAVE + index % BUCKETS_PER_OCTAVE;
    mantissa << shift
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_value_lies_in_its_bucket(value in 0..i64::MAX / 2) {
            let index = bucket_of(value);
            prop_assert!(lower_bound(index) <= value);
            prop_assert!(value < lower_bound(index + 1));
            prop_assert!(lower_bound(index + 1) - lower_bound(index) <= (value / 32).max(1));
        }
    }

    #[test]
    fn buckets_touch() {
        for index in 0..1800 {
            assert_eq!(bucket_of(lower_bound(index)), index);
        }
    }
}
