//! Cuts counts over the requests into parts, where they change and as few as that takes, and goes through them again.
//!
//! Windows of equally many requests are merged, neighbours first that are most alike, for as long as the counts of two say
//! less than they take to write.

use std::cmp::Ordering;
use std::collections::{HashMap, VecDeque};
use std::hash::Hash;

use foldhash::fast::FixedState;

use crate::counts::PER_ROW;
use crate::model::Part;

/// Windows before any are merged, and requests in one at least.
const WINDOWS: usize = 1024;
const LEAST: usize = 32;
/// Counts whose logarithms are kept.
const LOGARITHMS: usize = 1024;

/// Counts by windows, which become parts.
#[derive(Debug)]
pub struct Windows<K> {
    requests: usize,
    /// Windows in all.
    count: usize,
    /// Those that were counted.
    windows: Vec<Window<K>>,
    /// Requests before the end of the window that is being counted.
    end: usize,
    counts: HashMap<K, u64, FixedState>,
    /// The thing counted last, and how often in a row; these are not in `counts` yet.
    last: Option<(K, u64)>,
}

#[derive(Clone, Debug)]
struct Window<K> {
    requests: u64,
    /// In the order of the things.
    counts: Vec<(K, u64)>,
    likelihood: f64,
    /// What merging with the next one brings, or costs.
    gain: f64,
}

/// Counts of two windows, in the order of the things.
fn merged<K: Ord + Copy>(one: &[(K, u64)], next: &[(K, u64)]) -> impl Iterator<Item = (K, u64)> {
    let (mut at, mut of_next) = (0, 0);
    std::iter::from_fn(move || {
        let (left, right) = (one.get(at), next.get(of_next));
        let order = match (left, right) {
            (Some(left), Some(right)) => left.0.cmp(&right.0),
            (Some(_), None) => Ordering::Less,
            _ => Ordering::Greater,
        };
        at += usize::from(order.is_le());
        of_next += usize::from(order.is_ge());
        match order {
            Ordering::Less => left.copied(),
            Ordering::Greater => right.copied(),
            Ordering::Equal => left.zip(right).map(|(left, right)| (left.0, left.1 + right.1)),
        }
    })
}

/// Count × ln count, of small counts from a table.
struct Logarithms(Vec<f64>);

impl Logarithms {
    fn new() -> Self {
        Self((0..LOGARITHMS).map(|count| Self::of(count as f64)).collect())
    }

    fn of(count: f64) -> f64 {
        count * count.ln()
    }

    /// Of some counts above 0 how many they are, and the sum of count × ln count, less that of their sum: the log-likelihood of
    /// what was counted.
    fn likelihood(&self, counts: impl Iterator<Item = u64>) -> (usize, f64) {
        let (mut rows, mut sum, mut all) = (0, 0.0, 0.0);
        for count in counts {
            rows += 1;
            sum += self.0.get(count as usize).copied().unwrap_or_else(|| Self::of(count as f64));
            all += count as f64;
        }
        (rows, if all > 0.0 { sum - Self::of(all) } else { 0.0 })
    }
}

impl<K: Ord + Hash + Copy> Windows<K> {
    /// For so many requests.
    #[must_use]
    pub fn new(requests: usize) -> Self {
        let count = (requests / LEAST).clamp(1, WINDOWS);
        let (windows, counts) = (Vec::with_capacity(count), HashMap::default());
        Self { requests, count, windows, end: requests / count, counts, last: None }
    }

    /// Counts a thing of a request, by how many are before that; this never decreases.
    pub fn count(&mut self, before: usize, thing: K) {
        while before >= self.end && self.windows.len() + 1 < self.count {
            self.close();
        }
        match &mut self.last {
            Some((last, times)) if *last == thing => *times += 1,
            last => {
                if let Some((last, times)) = last.replace((thing, 1)) {
                    *self.counts.entry(last).or_default() += times;
                }
            }
        }
    }

    /// Ends the window that is being counted.
    fn close(&mut self) {
        if let Some((last, times)) = self.last.take() {
            *self.counts.entry(last).or_default() += times;
        }
        let mut counts: Vec<_> = self.counts.drain().collect();
        counts.sort_unstable_by_key(|row| row.0);
        let end = |at: usize| at * self.requests / self.count;
        let at = self.windows.len();
        let requests = (end(at + 1) - end(at)) as u64;
        self.end = end(at + 2);
        self.windows.push(Window { requests, counts, likelihood: 0.0, gain: f64::NEG_INFINITY });
    }

    /// The parts, with at most `rows` in all unless one alone has more, and their counts as they are written.
    #[must_use]
    pub fn parts<T>(mut self, rows: usize, written: impl Fn(Vec<(K, u64)>) -> T) -> Vec<Part<T>> {
        while self.windows.len() < self.count {
            self.close();
        }
        let (mut windows, logarithms) = (self.windows, Logarithms::new());
        let likelihood = |counts: &[(K, u64)]| logarithms.likelihood(counts.iter().map(|row| row.1)).1;
        windows.iter_mut().for_each(|window| window.likelihood = likelihood(&window.counts));
        let gain = |windows: &[Window<K>], at: usize| {
            let Some(next) = windows.get(at + 1) else { return f64::NEG_INFINITY };
            let one = &windows[at];
            let (both, likelihood) =
                logarithms.likelihood(merged(&one.counts, &next.counts).map(|row| row.1));
            let fewer = one.counts.len() + next.counts.len() - both;
            fewer as f64 * PER_ROW + likelihood - one.likelihood - next.likelihood
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
            let one = &mut windows[at];
            let both: Vec<_> = merged(&one.counts, &next.counts).collect();
            now = now + both.len() - one.counts.len() - next.counts.len();
            one.requests += next.requests;
            one.likelihood = likelihood(&both);
            one.counts = both;
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

/// Requests by device and number of the range.
pub type Ranges = Vec<(u32, u64, u64)>;

/// Slices of a part at most, however many requests a file says it has.
const MOST_SLICES: u64 = 1024;

/// Parts of at most so many requests, or of as many as make [`MOST_SLICES`], whose rows have even shares of the counts: what is
/// behind, or ahead, in one is drawn more, or less, in the next.
pub fn sliced(parts: &[Part<Ranges>], most: u64) -> Vec<Part<Ranges>> {
    let slices = |Part(of, rows): &Part<Ranges>| {
        let n = of.div_ceil(most).clamp(1, MOST_SLICES);
        // Rows of few counts begin in different slices.
        let until = |at: usize, count: u64, slice: u64| {
            let phase = (at as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) % n;
            ((u128::from(count) * u128::from(slice) + u128::from(phase)) / u128::from(n)) as u64
        };
        let of_slice = |slice: u64| {
            let row = |(at, &(device, range, count)): (usize, &(u32, u64, u64))| {
                let share = until(at, count, slice + 1) - until(at, count, slice);
                (share > 0).then_some((device, range, share))
            };
            let requests = until(0, *of, slice + 1) - until(0, *of, slice);
            Part(requests, rows.iter().enumerate().filter_map(row).collect())
        };
        (0..n).map(of_slice).collect::<Vec<_>>()
    };
    parts.iter().flat_map(slices).collect()
}
