//! One who watches: what it looks at, and a frame of that when it is due and there is room for it.
//!
//! A frame is made only when the viewer took the one before, so nothing queues up: what changes meanwhile is added up,
//! and the next frame has the newest.

use std::collections::HashSet;
use std::fmt::Write as _;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::clocks::Clocks;
use super::grain::Grain;
use super::members::{By, Members};
use super::series::{NO_BUCKET, Sample, Samples};

/// A part of a group that wasn't sampled for so long doesn't count any more, ns.
const STALE: i64 = 10 * 1_000_000_000;
/// Members and metrics a viewer may name.
const MOST_NAMES: usize = 100_000;

/// What a viewer says.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Said {
    /// What it wants to see.
    pub see: See,
}

/// What a viewer wants to see.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct See {
    /// Members, or groups; none all.
    #[serde(default)]
    pub members: Option<HashSet<String>>,
    /// Metrics; none all.
    #[serde(default)]
    pub metrics: Option<HashSet<String>>,
    /// How members are taken together.
    #[serde(default)]
    pub by: By,
    /// Time between frames at least, ms.
    #[serde(default)]
    pub every_ms: u64,
}

impl See {
    /// Reads what a viewer said.
    ///
    /// # Errors
    /// What was expected and found.
    pub fn read(text: &str) -> Result<Self, String> {
        let said: Said = serde_json::from_str(text)
            .map_err(|e| format!("expected {{\"see\": {{members, metrics, by, every_ms}}}}: {e}"))?;
        let names = |names: &Option<HashSet<String>>| names.as_ref().map_or(0, HashSet::len);
        if names(&said.see.members) + names(&said.see.metrics) > MOST_NAMES {
            return Err(format!("expected at most {MOST_NAMES} names"));
        }
        Ok(said.see)
    }
}

/// What came of a series since the last frame.
#[derive(Clone, Copy, Default)]
struct Sum {
    value: f64,
    dur: i64,
}

/// What is kept of a viewer.
pub struct Viewer {
    see: See,
    every: Duration,
    due: Instant,
    /// By series: whether it is looked at; none not decided yet.
    looked_at: Vec<Option<bool>>,
    sums: Vec<Sum>,
    /// By number: whether it is in the next frame, and whether it was in one.
    changed: Vec<bool>,
    numbers: Vec<u32>,
    told: Vec<bool>,
    members: u64,
    late: u64,
    /// Frames it was too slow for since the last one.
    pub skipped: u64,
}

impl Viewer {
    /// One that wants to see something, and was told about all members.
    pub fn new(see: See, window: Duration, members: u64) -> Self {
        let every = Duration::from_millis(see.every_ms.min(3_600_000)).max(window / 2);
        Self {
            see,
            every,
            due: Instant::now(),
            looked_at: Vec::new(),
            sums: Vec::new(),
            changed: Vec::new(),
            numbers: Vec::new(),
            told: Vec::new(),
            members,
            late: 0,
            skipped: 0,
        }
    }

    /// What it wants to see.
    pub fn see(self) -> See {
        self.see
    }

    /// How it wants members taken together.
    pub fn by(&self) -> By {
        self.see.by
    }

    /// Begins with what is known of everything it looks at.
    pub fn begin(&mut self, samples: &Samples, grain: &Grain, until: i64) {
        for at in 0..samples.series().len() {
            if samples.series()[at].end > until - STALE && self.looks_at(at, samples, grain) {
                self.mark(grain.of[at]);
            }
        }
    }

    /// Adds samples that are due.
    pub fn add(&mut self, due: &[Sample], late: u64, samples: &Samples, grain: &Grain) {
        self.late += late;
        for sample in due {
            let at = sample.series as usize;
            if self.looks_at(at, samples, grain) {
                if self.sums.len() <= at {
                    self.sums.resize(samples.series().len(), Sum::default());
                }
                self.sums[at].value += sample.value;
                self.sums[at].dur += sample.dur;
                self.mark(grain.of[at]);
            }
        }
    }

    fn looks_at(&mut self, at: usize, samples: &Samples, grain: &Grain) -> bool {
        if self.looked_at.len() <= at {
            self.looked_at.resize(samples.series().len(), None);
        }
        let see = &self.see;
        *self.looked_at[at].get_or_insert_with(|| {
            let series = &samples.series()[at];
            let text = |word| samples.text(word).map_or("", |text| &**text);
            let among = |names: &Option<HashSet<String>>, name: &str| {
                names.as_ref().is_none_or(|names| names.contains(name))
            };
            let group = &*grain.groups[grain.of[at] as usize].key;
            among(&see.metrics, text(series.metric))
                && (among(&see.members, text(series.member)) || among(&see.members, group))
        })
    }

    fn mark(&mut self, number: u32) {
        let at = number as usize;
        if self.changed.len() <= at {
            self.changed.resize(at + 1, false);
        }
        if !self.changed[at] {
            self.changed[at] = true;
            self.numbers.push(number);
        }
    }

    /// Whether a frame is due.
    pub fn is_due(&self, now: Instant) -> bool {
        now >= self.due
    }

    /// Leaves out a frame that there is no room for; the next one has what is in it.
    pub fn skip(&mut self, now: Instant) {
        self.skipped += 1;
        self.due = now + self.every;
    }

    /// The frame, as JSON. `until`: up to where samples are shown, `now` the time, both ns since the epoch.
    pub fn frame(
        &mut self,
        samples: &Samples,
        members: &Members,
        clocks: &Clocks,
        grain: &Grain,
        (until, now): (i64, i64),
    ) -> String {
        // In step, and not later with each frame; after a pause anew.
        let instant = Instant::now();
        self.due = if self.due + self.every > instant { self.due + self.every } else { instant + self.every };
        let changed: Vec<_> = members.since(self.members, clocks).collect();
        self.members = members.changes();
        let mut text =
            format!("{{\"frame\":{{\"ts_ms\":{},\"members\":{}", until / 1_000_000, json(&changed));
        let mut series = String::new();
        let mut values = String::new();
        self.numbers.sort_unstable();
        for number in std::mem::take(&mut self.numbers) {
            let at = number as usize;
            self.changed[at] = false;
            let group = &grain.groups[at];
            let Some(value) = self.value(samples, group.parts.as_slice(), until) else { continue };
            if self.told.len() <= at {
                self.told.resize(at + 1, false);
            }
            if !self.told[at] {
                self.told[at] = true;
                let of = &samples.series()[group.parts[0] as usize];
                let word = |word| samples.text(word).map(|text| &**text);
                let least = (of.least != NO_BUCKET).then_some(of.least);
                let line = json(&(number, &*group.key, word(of.metric), word(of.name), least));
                let _ = write!(series, "{}{line}", if series.is_empty() { "" } else { "," });
            }
            let _ = write!(values, "{}{number},", if values.is_empty() { "" } else { "," });
            // Six digits are more than a screen shows, and half the bytes.
            values.push_str(&json(&rounded(value)));
        }
        self.sums.iter_mut().for_each(|sum| *sum = Sum::default());
        let late_ms = (now - until) / 1_000_000;
        let (late, skipped) = (std::mem::take(&mut self.late), std::mem::take(&mut self.skipped));
        let _ = write!(
            text,
            ",\"series\":[{series}],\"values\":[{values}],\"late_ms\":{late_ms},\"samples_late\":{late},\
             \"skipped\":{skipped}}}}}"
        );
        text
    }

    /// A sum of sums, or a mean of levels, over what isn't stale.
    fn value(&self, samples: &Samples, parts: &[u32], until: i64) -> Option<f64> {
        let (mut sum, mut n, mut is_sum) = (0.0, 0_u32, false);
        for part in parts {
            let series = &samples.series()[*part as usize];
            if series.end <= until - STALE {
                continue;
            }
            is_sum = series.is_sum;
            sum += match self.sums.get(*part as usize) {
                Some(since) if since.dur > 0 => since.value * 1e9 / since.dur as f64,
                _ => series.value,
            };
            n += 1;
        }
        (n > 0).then(|| if is_sum { sum } else { sum / f64::from(n) })
    }
}

/// With six digits.
fn rounded(value: f64) -> f64 {
    if value == 0.0 || !value.is_finite() {
        return 0.0;
    }
    let scale = 10_f64.powi(5 - value.abs().log10().floor() as i32);
    if scale.is_finite() && scale > 0.0 { (value * scale).round() / scale } else { value }
}

fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("it is plain data")
}
