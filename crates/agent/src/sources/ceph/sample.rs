//! Which requests are collected when not all are: whole seconds, bursts, and each slow one.
//!
//! Of each minute of the wall clock one second is collected: a hash of the minute's number says which, so that all
//! machines collect the same one, and what happens each full minute is not in it more often than anything else. A
//! request stands for 60 like it: it has that weight, and sums of weights are what all requests come to, but for the
//! sampling error (Horvitz and Thompson, 1952: each request is weighted by the inverse of the probability with which
//! it was collected). That probability is 1, and so is the weight, in a burst, of which the seconds are known before
//! they begin, and of requests that took [`SLOW`] or longer, which are collected whenever they arrived.
//!
//! A request's parts at other daemons may have arrived in the next second, and the request of which a part arrived
//! in a collected second may have arrived before that. Such entries are told too, with weight 0: paths are complete,
//! and sums don't count them.

use iotrail_format::ids::hash63;

use super::settings;

const SECOND: i64 = 1_000_000_000;
const MINUTE: i64 = 60 * SECOND;

/// From how long on a request is slow: `settings::SLOW_FROM`.
pub const SLOW: i64 = SECOND;

/// Seconds of a burst, and of the part of it that is read at a time: daemons keep requests for `settings::KEPT`.
const BURST: i64 = 10;
const PART: i64 = 2;

/// Time after a noticed burst until the next one: what daemons may spend on bursts is less than on the whole minutes'
/// seconds.
const REST: i64 = 10 * MINUTE;

/// How long before a window daemons are told to keep requests, for ticks are a second apart,
const AHEAD: i64 = 2 * SECOND;

/// and after it was noticed or asked for a burst begins at the earliest: the next tick is the first to tell them.
const BURST_AFTER: i64 = 3 * SECOND / 2;

/// How much later than it arrived a request that isn't slow is in its daemon's history for certain.
const SETTLED: i64 = SLOW + settings::INSERTED.as_nanos() as i64 + SECOND / 10;

/// A stretch of time whose requests are collected, on the wall clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// Start, ns since the epoch.
    pub from: i64,
    /// End.
    pub until: i64,
    /// How many requests each of its requests stands for; 0: collected for the paths of others.
    pub weight: i64,
    /// Whether what arrived before and was under way at its start is collected for paths,
    opens: bool,
    /// and so parts that arrive soon after its end.
    closes: bool,
}

impl Window {
    fn has(&self, ts: i64) -> bool {
        (self.from..self.until).contains(&ts)
    }

    /// When it can be read.
    fn due(&self) -> i64 {
        if self.weight == 0 { self.until } else { self.until + SETTLED }
    }
}

/// When what is collected.
#[derive(Debug, Default)]
pub struct Schedule {
    /// The first minute that isn't in `waiting` yet.
    next_minute: Option<i64>,
    /// What is collected, and not read yet.
    waiting: Vec<Window>,
    /// End of the last burst, and start of the last one that was noticed.
    burst_until: i64,
    noticed: Option<i64>,
}

/// The second of a minute, by its number, that is collected on all machines; ns since the epoch.
#[must_use]
pub fn second_of(minute: i64) -> i64 {
    minute * MINUTE + hash63(&minute.to_le_bytes()) % 60 * SECOND
}

impl Schedule {
    /// Takes what is to be read now. `now` is the wall clock's.
    pub fn take_due(&mut self, now: i64) -> Vec<Window> {
        let minute = now.div_euclid(MINUTE);
        // What an agent before this one didn't read any more may still be there.
        let mut next = self.next_minute.unwrap_or((now - kept_ns()).div_euclid(MINUTE)).max(minute - 1);
        while next <= minute + 1 {
            let from = second_of(next);
            if self.next_minute.is_some() || from > now - kept_ns() {
                let until = from + SECOND;
                self.waiting.push(Window { from, until, weight: 60, opens: true, closes: true });
            }
            next += 1;
        }
        self.next_minute = Some(next);
        let (due, waiting) = self.waiting.iter().partition(|window| window.due() <= now);
        self.waiting = waiting;
        due
    }

    /// What is collected and not to be read yet.
    #[must_use]
    pub fn waiting(&self) -> &[Window] {
        &self.waiting
    }

    /// Takes what of it has begun, cut off now: the agent leaves.
    pub fn take_begun(&mut self, now: i64) -> Vec<Window> {
        let until = now - settings::INSERTED.as_nanos() as i64;
        let begun = self.waiting.drain(..).map(|window| Window { until: window.until.min(until), ..window });
        begun.filter(|window| window.from < window.until).collect()
    }

    /// Whether daemons have to keep requests now, or soon.
    #[must_use]
    pub fn is_near(&self, now: i64) -> bool {
        self.waiting.iter().any(|window| window.from - AHEAD <= now)
    }

    /// Collects all requests for some whole seconds, from about two seconds on; whether that isn't done already.
    pub fn burst(&mut self, now: i64) -> bool {
        let from = ((now + BURST_AFTER).div_euclid(SECOND) + 1) * SECOND;
        if from < self.burst_until {
            return false;
        }
        self.burst_until = from + BURST * SECOND;
        let burst_until = self.burst_until;
        // Its requests are all there: none stands for others.
        self.waiting.retain(|window| window.until <= from || window.from >= burst_until);
        self.waiting.extend((0..BURST / PART).map(|part| {
            let from = from + part * PART * SECOND;
            let until = from + PART * SECOND;
            Window { from, until, weight: 1, opens: part == 0, closes: until == burst_until }
        }));
        true
    }

    /// Something was noticed: what daemons still have of the last seconds is collected for its paths, and a burst
    /// follows, unless there was one lately.
    pub fn notice(&mut self, now: i64) -> bool {
        if self.noticed.is_some_and(|before| (before..before + REST).contains(&now)) || !self.burst(now) {
            return false;
        }
        self.noticed = Some(now);
        self.waiting.push(Window {
            from: now - kept_ns(),
            until: now,
            weight: 0,
            opens: false,
            closes: false,
        });
        true
    }
}

/// How long daemons keep requests that ended.
fn kept_ns() -> i64 {
    settings::KEPT_SECONDS * SECOND
}

/// What is told of a round of dumps.
#[derive(Clone, Debug, Default)]
pub struct Sample {
    /// What is read.
    pub windows: Vec<Window>,
    /// What will be.
    pub later: Vec<Window>,
}

impl Sample {
    /// The weight of an entry that arrived and ended then, on the wall clock; none if it isn't told in this round.
    /// `is_part`: whether it may be a part of a request at another daemon.
    #[must_use]
    pub fn weight(&self, arrived: i64, ended: i64, is_part: bool) -> Option<i64> {
        if ended - arrived >= SLOW {
            return Some(1);
        }
        let counted = |windows: &[Window]| windows.iter().find(|w| w.weight > 0 && w.has(arrived)).copied();
        if let Some(window) = counted(&self.windows) {
            return Some(window.weight);
        }
        if counted(&self.later).is_some() {
            return None;
        }
        let of_paths = |w: &Window| {
            let before = w.opens && (w.from - SLOW..w.from).contains(&arrived) && ended >= w.from;
            let after = w.closes && is_part && (w.until..w.until + SLOW).contains(&arrived);
            w.weight == 0 && w.has(arrived) || before || after
        };
        self.windows.iter().any(of_paths).then_some(0)
    }
}

/// Whether a daemon's requests take much longer than they did: the mean of a tick, against the median of those of the
/// last minute.
#[derive(Debug, Default)]
pub struct Pace {
    means: Vec<f64>,
    high: u32,
}

impl Pace {
    /// Fewest requests whose mean says something, and fewest means to compare it with.
    const REQUESTS: u64 = 20;
    const MEANS: usize = 20;
    /// How many times the median, and how many ns at least, is much longer.
    const TIMES: f64 = 5.0;
    const AT_LEAST: f64 = 5e6;

    /// Takes the requests of a tick and the time they took; whether that is much for the second time in a row.
    pub fn jumps(&mut self, count: u64, took_ns: u64) -> bool {
        if count < Self::REQUESTS {
            return false;
        }
        let mean = took_ns as f64 / count as f64;
        let mut sorted = self.means.clone();
        sorted.sort_by(f64::total_cmp);
        let is_high = sorted.len() >= Self::MEANS
            && mean > Self::TIMES * sorted[sorted.len() / 2]
            && mean > Self::AT_LEAST;
        self.high = if is_high { self.high + 1 } else { 0 };
        if self.means.len() >= 60 {
            self.means.remove(0);
        }
        self.means.push(mean);
        self.high == 2
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn each_minute_has_a_second_and_no_second_is_preferred() {
        let mut counts = [0_u32; 60];
        for minute in 29_000_000..29_060_000 {
            let from = second_of(minute);
            assert_eq!(from.div_euclid(MINUTE), minute);
            counts[usize::try_from(from % MINUTE / SECOND).expect("a second")] += 1;
        }
        // 1,000 each, within five standard deviations.
        assert!(counts.iter().all(|count| count.abs_diff(1_000) < 160), "{counts:?}");
        // Agents of any version agree.
        let seconds = [0, 1, 29_000_000].map(|minute| second_of(minute) % MINUTE / SECOND);
        assert_eq!(seconds, [38, 22, 24]);
    }

    #[test]
    fn a_window_is_due_once_and_not_before_its_requests_have_ended() {
        let mut schedule = Schedule::default();
        let begin = 29_000_000 * MINUTE;
        let mut read = Vec::new();
        for tick in 0..600 {
            let now = begin + tick * SECOND + SECOND / 3;
            for window in schedule.take_due(now) {
                assert!(window.until + SETTLED <= now && now < window.until + SETTLED + SECOND);
                read.push(window.from);
            }
        }
        read.retain(|from| *from >= begin);
        let all: Vec<i64> = (29_000_000..29_000_010).map(second_of).collect();
        assert_eq!(read, all[..read.len()]);
        assert!(read.len() >= 9);
    }

    #[test]
    fn a_burst_takes_the_place_of_a_second_within_it() {
        let mut schedule = Schedule::default();
        let second = second_of(29_000_001);
        schedule.take_due(second - 20 * SECOND);
        assert!(schedule.burst(second - 5 * SECOND));
        assert!(!schedule.burst(second - SECOND), "one is under way");
        let covers: Vec<_> = schedule.waiting().iter().filter(|window| window.has(second)).collect();
        assert_eq!(covers.len(), 1);
        assert_eq!(covers[0].weight, 1);
        let counted: i64 =
            schedule.waiting().iter().filter(|w| w.weight == 1).map(|w| w.until - w.from).sum();
        assert_eq!(counted, BURST * SECOND);
    }

    #[test]
    fn requests_are_kept_from_before_a_window_until_it_is_read() {
        let mut schedule = Schedule::default();
        let (begin, mut near) = (29_000_000 * MINUTE, 0);
        let mut from = 0;
        for tick in 0..3_600 {
            let now = begin + tick * SECOND + SECOND / 3;
            let due = schedule.take_due(now);
            if let Some(window) = due.iter().find(|window| window.from >= begin + MINUTE) {
                assert!(from != 0 && from + SECOND <= window.from, "since {from}, for {window:?}");
            }
            let is_near = schedule.is_near(now);
            from = if !is_near {
                0
            } else if from == 0 {
                now
            } else {
                from
            };
            near += i64::from(is_near);
        }
        // Some six of sixty.
        assert!((240..420).contains(&near), "{near} of 3,600 s");
    }

    #[test]
    fn notices_in_a_row_are_one_burst_in_ten_minutes() {
        let mut schedule = Schedule::default();
        let bursts =
            (0..3600).filter(|second| schedule.notice(29_000_000 * MINUTE + second * SECOND)).count();
        assert_eq!(bursts, 6);
    }

    #[test]
    fn an_entry_is_told_once_whatever_round_finds_it() {
        let window = |from: i64, weight| Window {
            from: from * SECOND,
            until: (from + 1) * SECOND,
            weight,
            opens: true,
            closes: true,
        };
        let sample = Sample { windows: vec![window(100, 60)], later: vec![window(101, 1)] };
        let ms = |at: i64| at * 1_000_000;
        for (arrived, took, is_part, weight) in [
            (100_000, 5, false, Some(60)),
            (100_999, 500, true, Some(60)),
            (100_500, 1_000, false, Some(1)),
            (50_000, 2_000, false, Some(1)),
            // Under way when the second began; ended before it.
            (99_900, 150, false, Some(0)),
            (99_900, 50, false, None),
            // A part after its end is told when the next window is read.
            (101_100, 5, true, None),
            (101_100, 5, false, None),
            (103_000, 5, true, None),
        ] {
            let (arrived, ended) = (ms(arrived), ms(arrived + took));
            assert_eq!(sample.weight(arrived, ended, is_part), weight, "{arrived}");
        }
        let alone = Sample { later: Vec::new(), ..sample };
        assert_eq!(alone.weight(ms(101_100), ms(101_105), true), Some(0));
        assert_eq!(alone.weight(ms(101_100), ms(101_105), false), None);
    }

    #[test]
    fn a_jump_is_noticed_once_and_a_quiet_or_busy_cluster_not() {
        let mut pace = Pace::default();
        let jitter = |i: u64| 1_000_000 + i * 7_919 % 700_000;
        for i in 0..600 {
            assert!(!pace.jumps(100, 100 * jitter(i)), "{i}");
            assert!(!pace.jumps(3, 3 * 900_000_000), "too few to tell");
        }
        let jumps: Vec<u64> = (0..30).filter(|i| pace.jumps(100, 100 * (20_000_000 + jitter(*i)))).collect();
        assert_eq!(jumps, [1]);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(12))]

        /// Requests that arrive at random, some slow, with bursts: the sum of weights is as many as there were, on
        /// average over many minutes, and each entry is told with one weight in all rounds that have it.
        #[test]
        fn weights_add_up_to_all_requests(seed in 0_u64..1 << 40, a_second in 5_u64..40) {
            let mut state = seed | 1;
            let mut random = move |below: u64| {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                state % below
            };
            let minutes = 240;
            let begin = 29_000_000 * MINUTE + (random(1 << 20) as i64) * MINUTE;
            let mut schedule = Schedule::default();
            let mut history: Vec<(i64, i64)> = Vec::new();
            let mut told = std::collections::HashSet::new();
            let (mut all, mut sum, mut slow, mut told_slow) = (0_i64, 0_i64, 0_i64, 0_i64);
            for second in 0..minutes * 60 {
                let from = begin + second * SECOND;
                // A load that has a spike in the first second of each minute.
                let n = if second % 60 == 0 { 10 * a_second } else { random(2 * a_second + 1) };
                for _ in 0..n {
                    let arrived = from + random(SECOND as u64) as i64;
                    let took = if random(500) == 0 { SLOW + random(2 * SECOND as u64) as i64 } else { random(SLOW as u64) as i64 };
                    slow += i64::from(took >= SLOW);
                    all += 1;
                    history.push((arrived, arrived + took));
                }
                let now = from + SECOND + SECOND / 3;
                if random(900) == 0 {
                    schedule.burst(now);
                }
                let windows = schedule.take_due(now);
                history.retain(|(arrived, _)| now - arrived <= kept_ns());
                let sample = Sample { windows, later: schedule.waiting().to_vec() };
                for &(arrived, ended) in history.iter().filter(|(_, ended)| *ended <= now) {
                    if let Some(weight) = sample.weight(arrived, ended, false) {
                        // As the collector does, the first that is told holds.
                        if told.insert((arrived, ended)) {
                            sum += weight;
                            told_slow += i64::from(ended - arrived >= SLOW);
                        }
                    }
                }
            }
            // All but those that ended after the last tick.
            prop_assert!(slow - told_slow <= 20 && told_slow <= slow, "{told_slow} of {slow}");
            // 240 seconds out of 14,400; the spike makes their number the larger error: 60 * sqrt(var / 240).
            let error = 60.0 * (240.0 * (a_second as f64).powi(2) * (0.34 + 81.0 / 60.0) * 1.1).sqrt();
            prop_assert!(((sum - all) as f64).abs() < 5.0 * error, "{sum} for {all}, error {error}");
        }
    }
}
