//! Counter ticks to nanoseconds of the trail's clock.
//!
//! A recorded program reads only the processor's counter (11 ns instead of 25 for CLOCK_MONOTONIC).
//! The sealer keeps (counter, CLOCK_MONOTONIC) pairs at most a second apart; a tick is converted
//! linearly between the two pairs around it, so that `ts` follows CLOCK_MONOTONIC, slewing
//! included, and never runs backwards. Ticks before the first and after the last pair take the
//! rate of the whole history.
//!
//! Needs a counter that runs at one rate in every power state on every core (`constant_tsc` and
//! `nonstop_tsc` of /proc/cpuinfo, Intel SDM vol. 3B, 19.17.1): [`Clock::check_counter`].

use std::io;

/// Pairs kept; beyond it the older half is thinned. At one a second that is over an hour of full
/// detail, and each further halving doubles it.
const MAX_PAIRS: usize = 4096;
/// Fraction bits of a piece's rate: at most 2^47 ticks (13 hours at 3 GHz) in a piece err below 1 ns.
const RATE_BITS: u32 = 48;
/// Readings of which the tightest is taken; one in a few is interrupted.
const TRIES: usize = 5;

/// The counter and CLOCK_MONOTONIC at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pair {
    /// Counter ticks.
    pub ticks: u64,
    /// CLOCK_MONOTONIC, nanoseconds.
    pub mono: u64,
}

impl Pair {
    /// Reads both now: the clock between two readings of the counter, the tightest of a few.
    #[must_use]
    pub fn now() -> Self {
        let mut best = (u64::MAX, Self { ticks: 0, mono: 0 });
        for _ in 0..TRIES {
            let before = ticks();
            let mono = clock_ns(libc::CLOCK_MONOTONIC);
            let width = ticks().wrapping_sub(before);
            if width < best.0 {
                best = (width, Self { ticks: before.wrapping_add(width / 2), mono });
            }
        }
        best.1
    }
}

/// The counter now.
#[must_use]
pub fn ticks() -> u64 {
    // Miri has no counter: later than any record.
    #[cfg(miri)]
    return 1 << 40;
    // SAFETY: RDTSC exists on every x86-64 processor and touches no memory.
    #[cfg(not(miri))]
    unsafe {
        core::arch::x86_64::_rdtsc()
    }
}

/// A clock of the system in nanoseconds.
#[must_use]
pub fn clock_ns(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid timespec; the clocks asked for always exist.
    unsafe { libc::clock_gettime(clock, &mut time) };
    (time.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(time.tv_nsec as u64)
}

/// The history of pairs.
#[derive(Clone, Debug)]
pub struct Clock {
    pairs: Vec<Pair>,
    /// Rate from each pair to the next; the last is that of the whole history.
    rates: Vec<u64>,
    epoch_offset: i64,
}

impl Clock {
    /// A clock whose `ts` is CLOCK_MONOTONIC plus `epoch_offset`.
    #[must_use]
    pub fn new(epoch_offset: i64) -> Self {
        Self { pairs: Vec::new(), rates: Vec::new(), epoch_offset }
    }

    /// Whether this machine's counter can serve as a clock; the error says what is missing.
    pub fn check_counter() -> io::Result<()> {
        let text = std::fs::read_to_string("/proc/cpuinfo")?;
        let flags = text.lines().find(|line| line.starts_with("flags")).unwrap_or_default();
        let missing: Vec<_> = ["constant_tsc", "nonstop_tsc"]
            .into_iter()
            .filter(|flag| !flags.split_ascii_whitespace().any(|have| have == *flag))
            .collect();
        if missing.is_empty() {
            return Ok(());
        }
        Err(io::Error::other(format!(
            "the processor's time stamp counter is no clock here: /proc/cpuinfo lacks {}",
            missing.join(" and ")
        )))
    }

    /// Adds a pair; one that is not later than the last in both is ignored.
    pub fn push(&mut self, pair: Pair) {
        if let Some(last) = self.pairs.last()
            && (pair.ticks <= last.ticks || pair.mono <= last.mono)
        {
            return;
        }
        self.pairs.push(pair);
        if self.pairs.len() > MAX_PAIRS {
            let half = self.pairs.len() / 2;
            let mut index = 0;
            self.pairs.retain(|_| {
                index += 1;
                index > half || index % 2 == 1
            });
        }
        self.rates.clear();
        self.rates.extend(self.pairs.windows(2).map(|two| rate(two[0], two[1])));
        let whole = match (self.pairs.first(), self.pairs.last()) {
            (Some(first), Some(last)) if last.ticks > first.ticks => rate(*first, *last),
            // One pair says nothing of the rate: a tick a nanosecond.
            _ => 1 << RATE_BITS,
        };
        self.rates.push(whole);
    }

    /// Forgets all pairs.
    pub fn clear(&mut self) {
        self.pairs.clear();
        self.rates.clear();
    }

    /// The pairs, oldest first.
    #[must_use]
    pub fn pairs(&self) -> &[Pair] {
        &self.pairs
    }

    /// `ts` of a CLOCK_MONOTONIC reading.
    #[must_use]
    pub fn ts_of_mono(&self, mono: u64) -> i64 {
        // Saturating, so that no damaged number can turn the order round.
        i64::try_from(mono).unwrap_or(i64::MAX).saturating_add(self.epoch_offset)
    }

    /// `ts` of a counter reading. `piece` is where the last one lay, any number at first: readings
    /// come nearly in order, so that it is almost always right.
    #[inline]
    #[must_use]
    pub fn ts(&self, ticks: u64, piece: &mut usize) -> i64 {
        let Some(first) = self.pairs.first() else {
            return self.ts_of_mono(ticks);
        };
        if ticks < first.ticks {
            let before = scale(first.ticks - ticks, self.rates[self.rates.len() - 1]);
            return self.ts_of_mono(first.mono.saturating_sub(before));
        }
        let at = *piece;
        let inside = at < self.pairs.len()
            && self.pairs[at].ticks <= ticks
            && self.pairs.get(at + 1).is_none_or(|next| ticks < next.ticks);
        if !inside {
            *piece = self.pairs.partition_point(|pair| pair.ticks <= ticks) - 1;
        }
        let pair = self.pairs[*piece];
        self.ts_of_mono(pair.mono.saturating_add(scale(ticks - pair.ticks, self.rates[*piece])))
    }
}

/// Nanoseconds a tick from `a` to `b`, in units of 2^-[`RATE_BITS`].
fn rate(a: Pair, b: Pair) -> u64 {
    let rate = (u128::from(b.mono - a.mono) << RATE_BITS) / u128::from(b.ticks - a.ticks);
    u64::try_from(rate).unwrap_or(u64::MAX)
}

fn scale(ticks: u64, rate: u64) -> u64 {
    // Rounded: the rate is rounded down, so a whole piece still ends where the next begins.
    let product = u128::from(ticks) * u128::from(rate) + (1 << (RATE_BITS - 1));
    u64::try_from(product >> RATE_BITS).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The oracle: exact rational interpolation in 128 bits, by a walk over all pairs.
    fn oracle(pairs: &[Pair], ticks: u64) -> i128 {
        let (first, last) = (pairs[0], pairs[pairs.len() - 1]);
        let line = |a: Pair, b: Pair, from: Pair| {
            let (dt, dm) = (i128::from(b.ticks - a.ticks), i128::from(b.mono - a.mono));
            i128::from(from.mono) + (i128::from(ticks) - i128::from(from.ticks)) * dm / dt
        };
        if ticks < first.ticks {
            // The clock has no time before its start; a tick may be so long here that it would be one.
            return line(first, last, first).max(0);
        }
        for two in pairs.windows(2) {
            if ticks < two[1].ticks {
                return line(two[0], two[1], two[0]);
            }
        }
        line(first, last, last)
    }

    proptest! {
        #[test]
        fn conversion_is_that_of_the_oracle_and_never_runs_backwards(
            steps in prop::collection::vec((1_000_000_u64..9_000_000_000, 1_000_000_u64..4_000_000_000), 1..40),
            mut asked in prop::collection::vec(0_u64..200_000_000_000, 1..200),
        ) {
            let mut clock = Clock::new(1_000);
            let mut pair = Pair { ticks: 5_000_000_000, mono: 900_000_000_000 };
            clock.push(pair);
            for (ticks, mono) in steps {
                pair = Pair { ticks: pair.ticks + ticks, mono: pair.mono + mono };
                clock.push(pair);
            }
            let mut piece = 0;
            for &ticks in &asked {
                let got = i128::from(clock.ts(ticks, &mut piece)) - 1_000;
                prop_assert!((got - oracle(clock.pairs(), ticks)).abs() <= 1, "{ticks}: {got}");
            }
            asked.sort_unstable();
            let mut last = i64::MIN;
            for &ticks in &asked {
                let ts = clock.ts(ticks, &mut piece);
                prop_assert!(ts >= last);
                last = ts;
            }
        }
    }

    #[test]
    fn a_long_history_is_thinned_and_still_reaches_back() {
        let mut clock = Clock::new(0);
        for second in 0..20_000_u64 {
            clock.push(Pair { ticks: second * 3_000_000_000, mono: second * 1_000_000_000 });
        }
        assert!(clock.pairs().len() <= MAX_PAIRS);
        assert_eq!(clock.pairs()[0], Pair { ticks: 0, mono: 0 });
        for second in [0, 1, 777, 12_345, 19_998_u64] {
            assert_eq!(clock.ts(second * 3_000_000_000 + 1_500, &mut 7), second as i64 * 1_000_000_000 + 500);
        }
    }

    #[test]
    fn this_machine_has_a_counter_and_readings_are_tight() {
        Clock::check_counter().unwrap();
        let (a, b) = (Pair::now(), Pair::now());
        assert!(b.ticks > a.ticks && b.mono >= a.mono);
    }
}
