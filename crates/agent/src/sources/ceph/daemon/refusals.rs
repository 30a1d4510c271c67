//! What a daemon refused to answer, and when it is asked again.

use std::collections::HashMap;
use std::mem::{Discriminant, discriminant};
use std::time::{Duration, Instant};

use super::ask::Ask;

/// Time until a refused question is put again; doubled with each refusal up to the longest.
const FIRST: Duration = Duration::from_secs(60);
const LONGEST: Duration = Duration::from_secs(64 * 60);

/// Questions that one process refused.
#[derive(Default)]
pub(super) struct Refusals(HashMap<Discriminant<Ask>, (Instant, Duration)>);

impl Refusals {
    /// Notes that a question was refused.
    pub(super) fn add(&mut self, ask: &Ask, now: Instant) {
        let pause = self.0.get(&discriminant(ask)).map_or(FIRST, |(_, pause)| (*pause * 2).min(LONGEST));
        self.0.insert(discriminant(ask), (now + pause, pause));
    }

    /// Forgets that a question was refused.
    pub(super) fn forget(&mut self, ask: &Ask) {
        self.0.remove(&discriminant(ask));
    }

    /// Whether a question was refused lately. Settings are set once: each stands for itself.
    pub(super) fn holds_back(&self, ask: &Ask, now: Instant) -> bool {
        !matches!(ask, Ask::Set(..)) && self.0.get(&discriminant(ask)).is_some_and(|(until, _)| now < *until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_question_is_put_again_ever_more_rarely() {
        let (mut refusals, began) = (Refusals::default(), Instant::now());
        let (mut now, mut asked) = (began, 0);
        // Each second of four hours.
        while now < began + Duration::from_secs(4 * 3600) {
            if !refusals.holds_back(&Ask::Histogram, now) {
                asked += 1;
                refusals.add(&Ask::Histogram, now);
            }
            assert!(!refusals.holds_back(&Ask::Counters, now));
            now += Duration::from_secs(1);
        }
        // At 0, 1, 3, 7, 15, 31, 63, 127 and 191 minutes.
        assert_eq!(asked, 9);
    }
}
