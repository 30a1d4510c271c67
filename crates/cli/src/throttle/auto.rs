//! `--throttle auto`: further runs with pauses only if a check says that something is missing, and no more of them than it takes.
//!
//! Mesnier et al. choose the period and the threads by how far replays on two storage systems are off ("//TRACE", FAST 2007, section
//! 5.4.1). Here a run with longer operations is the other storage system ([`super::check`]).

use std::time::Duration;

use iotrail_trail::say;

use super::check::{self, Checked};
use super::free::FreeRun;
use super::{Throttle, nothing_to_find};
use crate::human;

/// A prediction that is not further off needs nothing more: programs differ by that from run to run.
const GOOD: f64 = 0.05;
/// The first period is the smallest whose pauses take no longer in all, ns; and how far periods go down, a step.
const FIRST: u64 = 10_000_000_000;
const STEP: u32 = 4;
/// What longer pauses are left to who asks for them, ns.
const LONGEST: u64 = 600_000_000_000;

/// Does the runs, and writes what they say and how far off a prediction is in the end.
pub(super) fn run(throttle: &Throttle<'_>, free: &FreeRun) -> Result<(), String> {
    let measure = || -> Result<Checked, String> {
        let took = Duration::from_nanos(throttle.job.took);
        check::measure(throttle.trail, throttle.program, took, throttle.status())
            .map_err(|why| format!("the recording was not checked: {why}"))
    };
    let pauses = |period| throttle.with_period(period).least(free);
    let mut period = first_period(pauses);
    let mut checked = None;
    if throttle.is_begun() {
        period = throttle.job.period;
    } else {
        let found = measure()?;
        let enough = (found.error().abs() <= GOOD)
            .then(|| format!("a prediction is off by no more than {:.0} %", 100.0 * GOOD));
        let why = enough.or_else(|| nothing_to_find(free));
        checked = Some(found);
        if let Some(why) = why {
            say!("iotrail: no further runs: {why}");
            period = 0;
        }
    }
    while period > 0 {
        let least = pauses(period);
        if least > LONGEST {
            say!(
                "iotrail: no more runs: their pauses would take {}; --throttle groups --period {period} does them",
                human::duration(Duration::from_nanos(least))
            );
            break;
        }
        throttle.with_period(period).pause_all(free)?;
        let found = measure()?;
        period = if found.error().abs() <= GOOD { 0 } else { period / STEP };
        checked = Some(found);
    }
    checked.map_or(Ok(()), |checked| checked.keep(throttle.trail, &throttle.job.machine))
}

/// The smallest of 1, 4, 16 … with which the pauses take little time. `least` is how long they take at least with a period, ns.
fn first_period(least: impl Fn(u32) -> u64) -> u32 {
    let periods = std::iter::successors(Some(1u32), |period| period.checked_mul(STEP));
    let mut chosen = 1;
    for period in periods {
        chosen = period;
        if least(period) <= FIRST {
            break;
        }
    }
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_period_is_the_smallest_of_little_time() {
        assert_eq!(first_period(|_| FIRST), 1);
        assert_eq!(first_period(|period| FIRST * 16 / u64::from(period)), 16);
        assert_eq!(first_period(|period| FIRST * 17 / u64::from(period)), 64);
        // more operations than any program has
        assert_eq!(first_period(|_| u64::MAX), 4u32.pow(15));
    }
}
