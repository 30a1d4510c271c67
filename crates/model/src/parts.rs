//! Cuts counts over the requests into parts, where they change and as few as that takes, and goes through them again.
//!
//! Windows of equally many requests are merged, neighbours first that are most alike, for as long as the counts of two say
//! less than they take to write.

use std::collections::{BTreeMap, VecDeque};

use crate::counts::PER_ROW;
use crate::model::Part;

/// Windows before any are merged, and requests in one at least.
const WINDOWS: usize = 1024;
const LEAST: usize = 32;

/// Counts by windows, which become parts.
#[derive(Debug)]
pub struct Windows<K> {
    requests: usize,
    windows: Vec<Window<K>>,
}

#[derive(Clone, Debug)]
struct Window<K> {
    requests: u64,
    counts: BTreeMap<K, u64>,
    likelihood: f64,
    /// What merging with the next one brings, or costs.
    gain: f64,
}

/// Sum of count × ln count, less that of their sum: the log-likelihood of what was counted.
fn likelihood<K>(counts: &BTreeMap<K, u64>) -> f64 {
    let (mut sum, mut all) = (0.0, 0.0);
    for count in counts.values().filter(|count| **count > 0) {
        let count = *count as f64;
        sum += count * count.ln();
        all += count;
    }
    if all > 0.0 { sum - all * all.ln() } else { 0.0 }
}

fn merge<K: Ord + Copy>(one: &Window<K>, next: &Window<K>) -> Window<K> {
    let mut counts = one.counts.clone();
    next.counts.iter().for_each(|(thing, count)| *counts.entry(*thing).or_default() += count);
    let likelihood = likelihood(&counts);
    Window { requests: one.requests + next.requests, counts, likelihood, gain: f64::NEG_INFINITY }
}

impl<K: Ord + Copy> Windows<K> {
    /// For so many requests.
    #[must_use]
    pub fn new(requests: usize) -> Self {
        let count = (requests / LEAST).clamp(1, WINDOWS);
        let window = |at: usize| {
            let end = |at: usize| (at * requests / count) as u64;
            let requests = end(at + 1) - end(at);
            Window { requests, counts: BTreeMap::new(), likelihood: 0.0, gain: f64::NEG_INFINITY }
        };
        Self { requests, windows: (0..count).map(window).collect() }
    }

    /// Counts a thing of a request, by how many are before that.
    pub fn count(&mut self, before: usize, thing: K) {
        // The last window that begins at or before it: they are cut as `new` does.
        let count = self.windows.len();
        let window = ((before + 1) * count - 1) / self.requests.max(1);
        *self.windows[window.min(count - 1)].counts.entry(thing).or_default() += 1;
    }

    /// The parts, with at most `rows` in all unless one alone has more, and their counts as they are written.
    #[must_use]
    pub fn parts<T>(self, rows: usize, written: impl Fn(BTreeMap<K, u64>) -> T) -> Vec<Part<T>> {
        let mut windows = self.windows;
        windows.iter_mut().for_each(|window| window.likelihood = likelihood(&window.counts));
        let gain = |windows: &[Window<K>], at: usize| {
            let Some(next) = windows.get(at + 1) else { return f64::NEG_INFINITY };
            let one = &windows[at];
            let both = merge(one, next);
            let fewer = one.counts.len() + next.counts.len() - both.counts.len();
            fewer as f64 * PER_ROW + both.likelihood - one.likelihood - next.likelihood
        };
        for at in 0..windows.len() {
            windows[at].gain = gain(&windows, at);
        }
        let mut now: usize = windows.iter().map(|window| window.counts.len()).sum();
        while windows.len() > 1
            && let Some(at) = (0..windows.len() - 1)
                .max_by(|one, other| windows[*one].gain.total_cmp(&windows[*other].gain))
        {
            if windows[at].gain <= 0.0 && now <= rows {
                break;
            }
            let next = windows.remove(at + 1);
            let both = merge(&windows[at], &next);
            now = now + both.counts.len() - windows[at].counts.len() - next.counts.len();
            windows[at] = both;
            windows[at].gain = gain(&windows, at);
            if at > 0 {
                windows[at - 1].gain = gain(&windows, at - 1);
            }
        }
        windows.into_iter().map(|window| Part(window.requests, written(window.counts))).collect()
    }
}

/// Counts over time, one part after the other.
pub struct Schedule<T> {
    parts: VecDeque<Part<T>>,
    /// Requests before the next part.
    before: u64,
}

impl<T: Clone> Schedule<T> {
    /// Of a model's parts.
    pub fn new(parts: &[Part<T>]) -> Self {
        Self { parts: parts.iter().cloned().collect(), before: 0 }
    }

    /// The next part, if it begins with or before the request after so many.
    pub fn next(&mut self, requests: u64) -> Option<T> {
        if requests < self.before {
            return None;
        }
        let Part(of, counts) = self.parts.pop_front()?;
        self.before += of;
        Some(counts)
    }
}
