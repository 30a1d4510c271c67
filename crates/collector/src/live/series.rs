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

/// Series at most, and samples that wait: more are left out, and counted.
const MOST: usize = 1 << 20;

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
    index: HashMap<(Word, Word, Word, i64), u32, RandomState>,
    series: Vec<Series>,
    waiting: Vec<Sample>,
    /// Up to where samples were shown.
    shown: i64,
    /// Samples that came late since it was asked last.
    pub late: u64,
    /// Samples left out.
    pub left_out: u64,
}

impl Samples {
    /// The number of a text.
    pub fn word(&mut self, text: &str) -> Word {
        if let Some(word) = self.words.get(text) {
            return *word;
        }
        let text: Arc<str> = text.into();
        let word = self.texts.len() as Word;
        self.texts.push(text.clone());
        self.words.insert(text, word);
        word
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
            texts.iter().map(|text| self.word(text.unwrap_or_default())).collect::<Vec<Word>>()
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
            let node = self.texts[node_words[node] as usize].clone();
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
            let (node, value) = (node_words[node], values.value(row));
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
            let name = if names.is_valid(row) { self.word(names.value(row)) } else { NONE };
            let least = if least.is_valid(row) { least.value(row) } else { NO_BUCKET };
            let dur = if dur.is_valid(row) { dur.value(row) } else { 0 };
            if !value.is_finite() || self.waiting.len() >= MOST {
                self.left_out += 1;
                continue;
            }
            let (member, metric) = (member_words[member], metric_words[metric]);
            let Some(series) = self.number(member, node, metric, name, least, dur > 0) else {
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
            return None;
        }
        let number = self.series.len() as u32;
        self.index.insert(key, number);
        self.series.push(Series { member, node, metric, name, least, is_sum, value: 0.0, end: 0 });
        Some(number)
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
