//! How times are spread: counts in the log-linear histogram of [`iotrail_format::hist`], their sum and maximum.

use iotrail_format::hist;

/// Counted times, ns.
#[derive(Clone, Debug, Default)]
pub(crate) struct Spread {
    counts: Vec<u64>,
    sum: i128,
    max: i64,
    over_ms: u64,
}

/// What is shown of times, ns.
#[derive(Clone, Copy, Debug, serde::Serialize)]
pub struct Times {
    /// Mean.
    pub mean_ns: i64,
    /// Median.
    pub p50_ns: i64,
    /// 99th percentile.
    pub p99_ns: i64,
    /// Largest.
    pub max_ns: i64,
}

impl Spread {
    pub(crate) fn add(&mut self, time: i64) {
        let time = time.max(0);
        let bucket = hist::bucket_of(time) as usize;
        if self.counts.len() <= bucket {
            self.counts.resize(bucket + 1, 0);
        }
        self.counts[bucket] += 1;
        self.sum += i128::from(time);
        self.max = self.max.max(time);
        self.over_ms += u64::from(time > 1_000_000);
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        self.counts.resize(self.counts.len().max(other.counts.len()), 0);
        for (sum, count) in self.counts.iter_mut().zip(&other.counts) {
            *sum += count;
        }
        self.sum += other.sum;
        self.max = self.max.max(other.max);
        self.over_ms += other.over_ms;
    }

    pub(crate) fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    pub(crate) fn max(&self) -> i64 {
        self.max
    }

    /// How many are over a millisecond.
    pub(crate) fn over_ms(&self) -> u64 {
        self.over_ms
    }

    /// The time that so many percent don't exceed, by the bucket's lower bound.
    pub(crate) fn quantile(&self, percent: u64) -> i64 {
        let all = self.count();
        let mut until_here = 0;
        let bucket = self.counts.iter().position(|count| {
            until_here += count;
            until_here * 100 >= all * percent
        });
        bucket.map_or(0, |bucket| hist::lower_bound(bucket as i64))
    }

    /// None of no times.
    pub(crate) fn times(&self) -> Option<Times> {
        let count = self.count();
        (count != 0).then(|| Times {
            mean_ns: (self.sum / i128::from(count)) as i64,
            p50_ns: self.quantile(50),
            p99_ns: self.quantile(99),
            max_ns: self.max,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_merge_to_the_whole() {
        let (mut all, mut odd, mut even) = (Spread::default(), Spread::default(), Spread::default());
        for time in 0..2_000_000 {
            all.add(time);
            if time % 2 == 0 { even.add(time) } else { odd.add(time) }
        }
        odd.merge(&even);
        assert_eq!(odd.over_ms(), 999_999);
        let (odd, all) = (odd.times().unwrap(), all.times().unwrap());
        assert_eq!((odd.mean_ns, odd.p50_ns, odd.max_ns), (all.mean_ns, all.p50_ns, all.max_ns));
        assert_eq!((all.mean_ns, all.max_ns), (999_999, 1_999_999));
        assert!((970_000..=1_000_000).contains(&all.p50_ns) && all.p99_ns >= 1_900_000);
        assert!(Spread::default().times().is_none());
    }
}
