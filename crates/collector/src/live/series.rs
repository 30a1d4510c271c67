//! What is measured of whom: samples by series, in the order of their time.
//!
//! A sample waits for the window, so that those that come out of order are put in order; one whose moment was shown
//! already is late, and shown next.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::cast::AsArray as _;
use arrow_array::types::{Float64Type, Int32Type, Int64Type};
use arrow_array::{Array as _, RecordBatch};
use foldhash::fast::RandomState;
use iotrail_format::schema::NODE_SAMPLE;

use super::clocks::{Clocks, OFF};
use crate::LONGEST_NAME;

/// Series at most, and samples that wait: more are left out, and counted.
const MOST: usize = if cfg!(test) { 8 } else { 1 << 20 };
/// Bytes of all names of samples and groups, at most.
const MOST_BYTES: usize = 64 << 20;
/// A series that nothing came of for so long makes room for others, ns.
const KEPT: i64 = 3600 * 1_000_000_000;
/// Between two looks for room, ns.
const LOOK: i64 = 60 * 1_000_000_000;

/// A text by number; [`NONE`] for null.
pub type Word = u32;
/// Null.
pub const NONE: Word = Word::MAX;
/// No bucket.
pub const NO_BUCKET: i64 = i64::MIN;

/// What is measured of one member.
pub struct Series {
    /// Whose.
    pub member: Word,
    /// On which machine.
    pub node: Word,
    /// What.
    pub metric: Word,
    /// Of which kind.
    pub name: Word,
    /// Bucket of a histogram.
    pub least: i64,
    /// Whether it is a sum over time; else a level.
    pub is_sum: bool,
    /// The newest level, or sum a second.
    pub value: f64,
    /// When that was, ns since the epoch; 0 never.
    pub end: i64,
}

/// A sample that is due.
#[derive(Clone, Copy)]
pub struct Sample {
    /// Its end, ns since the epoch: when it was known.
    pub end: i64,
    /// When it came.
    pub came: i64,
    /// Its series.
    pub series: u32,
    /// Its value.
    pub value: f64,
    /// Length of its stretch; 0 a level.
    pub dur: i64,
}

/// All series, and samples that wait.
#[derive(Default)]
pub struct Samples {
    words: HashMap<Arc<str>, Word, RandomState>,
    texts: Vec<Arc<str>>,
    /// Of the texts.
    bytes: usize,
    index: HashMap<(Word, Word, Word, i64), u32, RandomState>,
    series: Vec<Series>,
    waiting: Vec<Sample>,
    /// Up to where samples were shown.
    shown: i64,
    /// Samples that came late since it was asked last.
    pub late: u64,
    /// Samples left out.
    pub left_out: u64,
    /// Whether one was because there are so many.
    is_full: bool,
    /// When room was looked for last.
    looked: i64,
}

impl Samples {
    /// The number of a text; none if it is too long, or there are too many.
    pub fn word(&mut self, text: &str) -> Option<Word> {
        if let Some(word) = self.words.get(text) {
            return Some(*word);
        }
        if text.len() > LONGEST_NAME {
            return None;
        }
        if self.bytes + text.len() > MOST_BYTES {
            self.is_full = true;
            return None;
        }
        self.bytes += text.len();
        let text: Arc<str> = text.into();
        let word = self.texts.len() as Word;
        self.texts.push(text.clone());
        self.words.insert(text, word);
        Some(word)
    }

    /// Whether a text has a number.
    pub fn knows(&self, text: &str) -> bool {
        self.words.contains_key(text)
    }

    /// A text.
    pub fn text(&self, word: Word) -> Option<&Arc<str>> {
        self.texts.get(word as usize)
    }

    /// All series.
    pub fn series(&self) -> &[Series] {
        &self.series
    }

    /// Takes rows of `node_sample` that came now. Returns the machines of which what is known of their clock changed.
    pub fn take(&mut self, batch: &RecordBatch, now: i64, clocks: &mut Clocks) -> Vec<Arc<str>> {
        let at = |name: &str| {
            let at = NODE_SAMPLE.columns.iter().position(|c| c.name == name);
            batch.column(at.expect("a column of the table"))
        };
        let ints = |name: &str| at(name).as_primitive::<Int64Type>();
        let (ts, dur, least) = (ints("ts"), ints("dur"), ints("least"));
        let values = at("value").as_primitive::<Float64Type>();
        let names = at("name").as_string::<i32>();
        let [nodes, members, metrics] =
            ["node", "member", "metric"].map(|name| at(name).as_dictionary::<Int32Type>());
        let [node_words, member_words, metric_words] = [nodes, members, metrics].map(|column| {
            let texts = column.values().as_string::<i32>();
            texts.iter().map(|text| self.word(text.unwrap_or_default())).collect::<Vec<_>>()
        });
        let end =
            |row: usize| ts.value(row).saturating_add(if dur.is_valid(row) { dur.value(row) } else { 0 });
        // The newest of each machine tells about its clock.
        let mut newest: HashMap<usize, i64> = HashMap::new();
        for row in 0..batch.num_rows() {
            if let Some(node) = nodes.key(row) {
                let last = newest.entry(node).or_insert(i64::MIN);
                *last = (*last).max(end(row));
            }
        }
        let mut changed = Vec::new();
        for (node, newest) in newest {
            let Some(node) = node_words[node].and_then(|word| self.text(word)).cloned() else { continue };
            if clocks.look(&node, newest, now) {
                changed.push(node);
            }
        }
        for row in 0..batch.num_rows() {
            let (Some(node), Some(member), Some(metric)) =
                (nodes.key(row), members.key(row), metrics.key(row))
            else {
                continue;
            };
            let words = (node_words[node], member_words[member], metric_words[metric]);
            let (Some(node), Some(member), Some(metric)) = words else {
                self.left_out += 1;
                continue;
            };
            let value = values.value(row);
            let mut end = end(row);
            let is_far = (end - now).abs() > OFF;
            if is_far && !clocks.is_off(&self.texts[node as usize]) {
                // From a spool: it was so then, and isn't now.
                self.late += 1;
                continue;
            }
            if is_far {
                end = now;
            }
            let name = if names.is_valid(row) { self.word(names.value(row)) } else { Some(NONE) };
            let least = if least.is_valid(row) { least.value(row) } else { NO_BUCKET };
            let dur = if dur.is_valid(row) { dur.value(row) } else { 0 };
            if !value.is_finite() || self.waiting.len() >= MOST {
                self.left_out += 1;
                continue;
            }
            let number = |name| self.number(member, node, metric, name, least, dur > 0);
            let Some(series) = name.and_then(number) else {
                self.left_out += 1;
                continue;
            };
            self.late += u64::from(end <= self.shown);
            self.waiting.push(Sample { end, came: now, series, value, dur });
        }
        changed
    }

    fn number(
        &mut self,
        member: Word,
        node: Word,
        metric: Word,
        name: Word,
        least: i64,
        is_sum: bool,
    ) -> Option<u32> {
        let key = (member, metric, name, least);
        if let Some(number) = self.index.get(&key) {
            let known = &mut self.series[*number as usize];
            (known.node, known.is_sum) = (node, is_sum);
            return Some(*number);
        }
        if self.series.len() >= MOST {
            self.is_full = true;
            return None;
        }
        let number = self.series.len() as u32;
        self.index.insert(key, number);
        self.series.push(Series { member, node, metric, name, least, is_sum, value: 0.0, end: 0 });
        Some(number)
    }

    /// Where there was no room for a new series, forgets those that nothing came of for an hour, if they are a quarter of
    /// all. Returns whether it did: the numbers of series and texts begin anew.
    pub fn make_room(&mut self, now: i64) -> bool {
        if !self.is_full || now - self.looked < LOOK {
            return false;
        }
        (self.is_full, self.looked) = (false, now);
        let mut is_kept: Vec<bool> = self.series.iter().map(|series| series.end > now - KEPT).collect();
        for sample in &self.waiting {
            is_kept[sample.series as usize] = true;
        }
        if is_kept.iter().filter(|is_kept| !**is_kept).count() < self.series.len() / 4 {
            return false;
        }
        let mut anew = Self {
            shown: self.shown,
            late: self.late,
            left_out: self.left_out,
            looked: now,
            ..Self::default()
        };
        let mut numbers = HashMap::new();
        for (old, series) in self.series.iter().enumerate().filter(|(old, _)| is_kept[*old]) {
            let mut word = |word| match self.text(word) {
                Some(text) => anew.word(text),
                None => Some(NONE),
            };
            let words = [series.member, series.node, series.metric, series.name].map(&mut word);
            let [Some(member), Some(node), Some(metric), Some(name)] = words else { continue };
            let Some(number) = anew.number(member, node, metric, name, series.least, series.is_sum) else {
                continue;
            };
            let known = &mut anew.series[number as usize];
            (known.value, known.end) = (series.value, series.end);
            numbers.insert(old as u32, number);
        }
        let waiting = std::mem::take(&mut self.waiting).into_iter();
        anew.waiting = waiting
            .filter_map(|sample| Some(Sample { series: *numbers.get(&sample.series)?, ..sample }))
            .collect();
        *self = anew;
        true
    }

    /// The samples up to `until`, and those that came before it and say that they are later, in order; from now on they
    /// are the newest of their series.
    pub fn due(&mut self, until: i64) -> Vec<Sample> {
        let is_due = |sample: &Sample| sample.end <= until || sample.came <= until;
        let (mut due, waiting): (Vec<_>, Vec<_>) = self.waiting.iter().partition(|sample| is_due(sample));
        self.waiting = waiting;
        self.shown = until;
        due.sort_unstable_by_key(|sample| sample.end);
        for sample in &due {
            let series = &mut self.series[sample.series as usize];
            if sample.end >= series.end {
                series.value = sample.rate();
                series.end = sample.end;
            }
        }
        due
    }
}

impl Sample {
    /// The level, or the sum a second.
    pub fn rate(&self) -> f64 {
        if self.dur > 0 { self.value * 1e9 / self.dur as f64 } else { self.value }
    }
}

#[cfg(test)]
mod tests {
    use arrow_array::{ArrayRef, DictionaryArray, Float64Array, Int64Array, new_null_array};
    use iotrail_trail::{arrow_schema, arrow_type};

    use super::*;

    const S: i64 = 1_000_000_000;
    const NOW: i64 = 1_800_000_000 * S;

    /// A sample of each member, that ends now.
    fn rows(now: i64, members: &[&str]) -> RecordBatch {
        let n = members.len();
        let columns = NODE_SAMPLE.columns.iter().map(|column| {
            let words = |words: Vec<&str>| Arc::new(DictionaryArray::<Int32Type>::from_iter(words));
            let array: ArrayRef = match column.name {
                "ts" => Arc::new(Int64Array::from(vec![now; n])),
                "value" => Arc::new(Float64Array::from(vec![1.0; n])),
                "member" => words(members.to_vec()),
                "node" | "metric" => words(vec!["x"; n]),
                _ => new_null_array(&arrow_type(column), n),
            };
            array
        });
        RecordBatch::try_new(arrow_schema(&NODE_SAMPLE), columns.collect()).unwrap()
    }

    fn members(samples: &Samples) -> Vec<&str> {
        samples.series().iter().filter_map(|series| Some(&**samples.text(series.member)?)).collect()
    }

    #[test]
    fn long_names_and_too_many_series_are_left_out_and_counted() {
        let (mut samples, mut clocks) = (Samples::default(), Clocks::default());
        let long = "x".repeat(LONGEST_NAME + 1);
        samples.take(&rows(NOW, &[&long, "a"]), NOW, &mut clocks);
        assert_eq!((members(&samples), samples.left_out), (vec!["a"], 1));
        let many: Vec<String> = (0..100 * MOST).map(|n| n.to_string()).collect();
        for member in &many {
            samples.take(&rows(NOW, &[member]), NOW, &mut clocks);
            samples.due(NOW);
        }
        assert_eq!(samples.series().len(), MOST);
        assert_eq!(samples.left_out, 1 + (many.len() + 1 - MOST) as u64);
    }

    #[test]
    fn series_without_samples_make_room_for_new_ones() {
        let (mut samples, mut clocks) = (Samples::default(), Clocks::default());
        let full = ["a", "b", "c", "d", "e", "f", "g", "h"];
        samples.take(&rows(NOW, &full), NOW, &mut clocks);
        samples.due(NOW);
        assert!(!samples.make_room(NOW + KEPT), "nobody asked for more");
        let later = NOW + KEPT;
        samples.take(&rows(later, &["b", "h", "new"]), later, &mut clocks);
        assert!(samples.make_room(later));
        // Those of which a sample waits are kept, with it.
        assert_eq!(members(&samples), ["b", "h"]);
        samples.take(&rows(later, &["new", "h"]), later, &mut clocks);
        let due: Vec<_> = samples.due(later).iter().map(|sample| sample.series).collect();
        assert_eq!((members(&samples), due), (vec!["b", "h", "new"], vec![0, 1, 2, 1]));
        assert!(!samples.make_room(later + LOOK) && samples.knows("h") && !samples.knows("a"));
    }
}
