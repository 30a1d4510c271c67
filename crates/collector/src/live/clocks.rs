//! Machines whose clock is off: what they say is now, is shown now.
//!
//! A time ahead of now is a clock's fault. One behind may also be an agent that sends what it had spooled: then it
//! catches up, while a clock that is behind stays so.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

/// From which difference on a clock is off, ns.
pub const OFF: i64 = 60 * 1_000_000_000;
/// A clock that is behind keeps its difference within this, ns, for [`LONG`].
const STEADY: i64 = 2 * 1_000_000_000;
const LONG: i64 = 5 * 1_000_000_000;

struct Clock {
    /// Its difference when it was looked at first, and when that was.
    first: (i64, i64),
    is_off: bool,
    difference: i64,
}

/// Clocks by machine.
#[derive(Default)]
pub struct Clocks(HashMap<Arc<str>, Clock>);

impl Clocks {
    /// Looks at the newest time a machine says, `now` by the collector's clock. Returns whether what is known of its clock
    /// changed.
    pub fn look(&mut self, node: &str, ts: i64, now: i64) -> bool {
        let difference = ts - now;
        if difference.abs() <= OFF {
            return self.0.remove(node).is_some_and(|clock| clock.is_off);
        }
        if !self.0.contains_key(node) {
            self.0.insert(node.into(), Clock { first: (difference, now), is_off: false, difference });
        }
        let clock = self.0.get_mut(node).expect("it was put in");
        if (difference - clock.first.0).abs() > STEADY {
            clock.first = (difference, now);
        }
        let is_off = clock.is_off || difference > 0 || now - clock.first.1 >= LONG;
        let changed = is_off && (!clock.is_off || (difference - clock.difference).abs() > OFF);
        clock.is_off = is_off;
        if changed {
            clock.difference = difference;
        }
        changed
    }

    /// Forgets the clocks of machines that aren't among these.
    pub fn keep(&mut self, is_known: impl Fn(&str) -> bool) {
        self.0.retain(|node, _| is_known(node));
    }

    /// Whether a machine's clock is off.
    pub fn is_off(&self, node: &str) -> bool {
        self.0.get(node).is_some_and(|clock| clock.is_off)
    }

    /// How many are.
    pub fn off(&self) -> usize {
        self.0.values().filter(|clock| clock.is_off).count()
    }

    /// A sentence about a machine's clock; none if it is right.
    pub fn told(&self, node: &str) -> Option<String> {
        let clock = self.0.get(node).filter(|clock| clock.is_off)?;
        let minutes = (clock.difference.unsigned_abs() + 30_000_000_000) / 60_000_000_000;
        let by = humantime::format_duration(Duration::from_secs(minutes * 60));
        let side = if clock.difference > 0 { "ahead" } else { "behind" };
        Some(format!("its clock is {by} {side}: shown by arrival"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: i64 = 1_000_000_000;

    #[test]
    fn a_clock_is_told_from_a_spool() {
        let mut clocks = Clocks::default();
        let day = 86_400 * SECOND;
        assert!(clocks.look("ahead", 10 * day, 9 * day));
        assert_eq!(clocks.told("ahead").as_deref(), Some("its clock is 1day ahead: shown by arrival"));
        assert!(clocks.look("ahead", 9 * day, 9 * day));
        assert!(!clocks.is_off("ahead"));
        // A spool of ten minutes, sent in ten seconds.
        for at in 0..10 {
            let now = 9 * day + at * SECOND;
            assert!(!clocks.look("spool", now - 600 * SECOND + at * 60 * SECOND, now));
        }
        // A clock a day behind, a second a second.
        let seen: Vec<bool> =
            (0..10).map(|at| clocks.look("behind", 8 * day + at * SECOND, 9 * day + at * SECOND)).collect();
        assert_eq!(seen.iter().filter(|changed| **changed).count(), 1);
        assert!(clocks.is_off("behind") && seen[5]);
    }
}
