//! Reads a model file and checks that it makes sense.

use std::collections::BTreeMap;

use super::{Chain, Device, FORMAT, Load, MOST_ALIGNED, MOST_LENGTH, MOST_LEVELS, Model, Part, Table};
use crate::rate::{KINDS, Rate};
use crate::runs::Kind;

/// Devices at most, and bytes of the addresses of one: beyond, offsets have no place in a trail.
const MOST_DEVICES: usize = 1 << 12;
const MOST_BYTES: u64 = 1 << 62;
/// Requests at most: counts of them stay exact as floating-point numbers.
const MOST_REQUESTS: u64 = 1 << 52;
/// Classes of distances and of lengths are below.
const CLASSES: u8 = 64;
const LENGTHS: u8 = 100;
const GAPS: u8 = 48;
/// Requests of an interval that is not halved are at most.
const LEAF: u64 = 1024;

/// Why a text is no model.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It isn't written as one.
    #[error("not a model: {0}")]
    Syntax(#[from] serde_json::Error),
    /// Another version wrote it.
    #[error("format: expected {FORMAT}, found {0}")]
    Format(u64),
    /// A value makes no sense.
    #[error("{place}: expected {expected}, found {found}")]
    Value {
        /// Where.
        place: String,
        /// What may be there.
        expected: String,
        /// What is.
        found: String,
    },
}

fn check(
    holds: bool,
    place: impl Into<String>,
    expected: impl Into<String>,
    found: impl ToString,
) -> Result<(), Error> {
    if holds {
        return Ok(());
    }
    Err(Error::Value { place: place.into(), expected: expected.into(), found: found.to_string() })
}

fn check_length(place: &str, bytes: u64) -> Result<(), Error> {
    check(bytes <= MOST_LENGTH, place, format!("at most {MOST_LENGTH} bytes"), bytes)
}

fn check_class(place: &str, class: u8, most: u8) -> Result<(), Error> {
    check(class < most, place, format!("classes below {most}"), class)
}

/// Sums counts; none if they are too many.
fn sum(counts: impl Iterator<Item = u64>) -> Option<u64> {
    let mut sum = 0u64;
    for count in counts {
        sum = sum.checked_add(count).filter(|sum| *sum < MOST_REQUESTS)?;
    }
    Some(sum)
}

/// Sums counts, checked.
fn summed(place: &str, counts: impl Iterator<Item = u64>) -> Result<u64, Error> {
    sum(counts).ok_or_else(|| Error::Value {
        place: place.into(),
        expected: format!("fewer than {MOST_REQUESTS} in all"),
        found: "more".into(),
    })
}

fn rows<R>(table: &Table<R>) -> impl Iterator<Item = &R> {
    table.values().flatten()
}

impl Model {
    /// Reads a model file.
    ///
    /// # Errors
    /// Where it is no model, or one that makes no sense: what, where, expected, found.
    pub fn read(text: &str) -> Result<Self, Error> {
        let value: serde_json::Value = serde_json::from_str(text)?;
        if let Some(format) = value.get("format").and_then(serde_json::Value::as_u64)
            && format != u64::from(FORMAT)
        {
            return Err(Error::Format(format));
        }
        // of the text again: an error says where
        let model: Self = serde_json::from_str(text)?;
        model.check()?;
        Ok(model)
    }

    fn check(&self) -> Result<(), Error> {
        check(self.levels <= MOST_LEVELS, "levels", format!("at most {MOST_LEVELS}"), self.levels)?;
        let devices = self.devices.len();
        check((1..=MOST_DEVICES).contains(&devices), "devices", format!("1 to {MOST_DEVICES}"), devices)?;
        self.rate.check()?;
        let count = self.rate.count();
        self.next_device.check("next_device", devices)?;
        for (at, device) in self.devices.iter().enumerate() {
            device.check(&format!("devices[{at}]"), self.levels)?;
        }
        self.check_parts(count)?;
        self.check_runs()?;
        for (name, amount) in self.load.iter().flat_map(Load::amounts) {
            check(amount < MOST_BYTES, format!("load.{name}"), format!("less than {MOST_BYTES}"), amount)?;
        }
        let flushes = self.rate.counts.get(usize::from(Kind::Flush.number())).copied().unwrap_or(0);
        let found = summed("flushes", self.flushes.iter().map(|row| row.1))?;
        check(found == flushes, "flushes", format!("{flushes} as rate.counts has"), found)?;
        let last = self.flushes.iter().map(|row| row.0 as usize).max().unwrap_or(0);
        check(last < devices, "flushes", format!("devices below {devices}"), last)?;
        let in_states = summed("states", self.states.iter().flat_map(|part| &part.1).map(|row| row.2))?;
        let found = in_states.saturating_add(flushes);
        check(found == count, "states", format!("{count} requests with flushes"), found)?;
        let of_runs = summed("requests", rows(&self.requests).map(|row| row.1))?;
        let of_large = summed("largest", self.largest.iter().map(super::Largest::requests))?;
        let found = of_runs.saturating_add(of_large);
        check(found == in_states, "requests", format!("{in_states} with those of largest"), found)?;
        self.check_transitions()
    }

    /// Whether as many requests went on from somewhere, and to somewhere, as there are: one less, in each range that is divided.
    fn check_transitions(&self) -> Result<(), Error> {
        let mut inside: BTreeMap<(u32, u32, u64), u64> = BTreeMap::new();
        for &(device, number, count) in self.states.iter().flat_map(|part| &part.1) {
            for level in 0..=self.levels {
                let range = number.checked_shr(2 * (self.levels - level)).unwrap_or(0);
                let sum = inside.entry((device, level, range)).or_default();
                *sum = sum.saturating_add(count);
            }
        }
        let one_less = |place: String, chain: &Chain, requests: u64| {
            let found = summed(&place, chain.transitions.iter().map(|row| row.2))?;
            check(
                found == requests.saturating_sub(1),
                place,
                format!("one less than {requests} requests"),
                found,
            )
        };
        let all = inside.iter().filter(|(range, _)| range.1 == 0).map(|row| row.1).sum();
        one_less("next_device".into(), &self.next_device, all)?;
        for (at, device) in self.devices.iter().enumerate() {
            let used = inside.iter().any(|(range, count)| range.0 as usize == at && *count > 0);
            let reach = format!("devices[{at}].reach_bytes");
            check(
                !used || device.reach_bytes > 0,
                reach,
                "more than 0 where requests are",
                device.reach_bytes,
            )?;
            for (level, number, chain) in &device.chains {
                let requests = inside.get(&(at as u32, *level, *number)).copied().unwrap_or(0);
                one_less(format!("devices[{at}].chains, level {level}, range {number}"), chain, requests)?;
            }
        }
        Ok(())
    }

    fn check_parts(&self, count: u64) -> Result<(), Error> {
        fn whole<T>(place: &str, parts: &[Part<T>], count: u64) -> Result<(), Error> {
            let found = summed(place, parts.iter().map(|part| part.0))?;
            check(found == count, place, format!("parts of {count} requests"), found)
        }
        whole("distances", &self.distances, count)?;
        whole("states", &self.states, count)?;
        whole("sizes", &self.sizes, count)?;
        whole("lengths", &self.lengths, count)?;
        whole("jumps", &self.jumps, count)?;
        for Part(_, counts) in &self.distances {
            summed("distances", counts.iter().map(|row| row.1))?;
            counts.iter().try_for_each(|row| check_class("distances", row.0, CLASSES))?;
        }
        for (device, number, _) in self.states.iter().flat_map(|part| &part.1) {
            let device_of = self.devices.get(*device as usize);
            let known = device_of.is_some_and(|of| of.states.iter().any(|state| state.number == *number));
            check(known, "states", "states of devices", format!("{device}, {number}"))?;
        }
        for Part(_, table) in &self.sizes {
            summed("sizes", rows(table).map(|row| row.1))?;
            rows(table).try_for_each(|row| check_length("sizes", row.0))?;
        }
        for Part(_, table) in &self.lengths {
            summed("lengths", rows(table).map(|row| row.1))?;
            rows(table).try_for_each(|row| check_class("lengths", row.0, LENGTHS))?;
        }
        for Part(_, table) in &self.jumps {
            summed("jumps", rows(table).map(|row| row.1))?;
            rows(table).try_for_each(|row| check_class("jumps", row.0.unsigned_abs(), CLASSES))?;
        }
        Ok(())
    }

    fn check_runs(&self) -> Result<(), Error> {
        summed("continued", self.continued.iter().map(|row| row.1))?;
        summed("begun", self.begun.iter().map(|row| row.1))?;
        summed("ranks", self.ranks.iter().map(|row| row.1))?;
        summed("jump_ranks", rows(&self.jump_ranks).map(|row| row.2))?;
        summed("next_sizes", rows(&self.next_sizes).map(|row| row.3))?;
        rows(&self.next_sizes).try_for_each(|row| check_length("next_sizes", row.2))?;
        summed("lengths_by_size", rows(&self.lengths_by_size).map(|row| row.2))?;
        rows(&self.lengths_by_size).try_for_each(|row| check_class("lengths_by_size", row.1, LENGTHS))?;
        rows(&self.requests).try_for_each(|row| check_class("requests", row.0, LENGTHS))?;
        summed("begins", rows(&self.begins).map(|row| row.3))?;
        for (_, length, distance, _) in rows(&self.begins) {
            check_class("begins", *length, LENGTHS)?;
            check_class("begins", *distance, CLASSES)?;
        }
        summed("returns", rows(&self.returns).map(|row| row.2))?;
        summed("alignment", rows(&self.alignment).map(|row| row.2))?;
        rows(&self.alignment).try_for_each(|row| check_class("alignment", row.1, MOST_ALIGNED + 1))?;
        for (at, run) in self.largest.iter().enumerate() {
            let place = format!("largest[{at}]");
            check(self.devices.get(run.1 as usize).is_some(), &place, "a device", run.1)?;
            let within =
                run.6.is_none_or(|(before, offset)| before < at && offset.unsigned_abs() < MOST_BYTES);
            check(within, &place, "one before it, and bytes from its beginning", format!("{:?}", run.6))?;
            check_length(&place, run.4)?;
            check_class(&place, run.7, CLASSES)?;
            run.5.iter().try_for_each(|(bytes, _)| check_length(&place, *bytes))?;
        }
        Ok(())
    }
}

impl Rate {
    fn check(&self) -> Result<(), Error> {
        let kinds = self.counts.len();
        check(kinds <= KINDS, "rate.counts", format!("at most {KINDS} kinds"), kinds)?;
        let count = self.count();
        check((1..MOST_REQUESTS).contains(&count), "rate.counts", "counts of requests", count)?;
        check(self.tick_ns > 0, "rate.tick_ns", "1 or more", self.tick_ns)?;
        check(self.length_ns < MOST_BYTES, "rate.length_ns", "less than 146 years", self.length_ns)?;
        for (at, (level, kind, share)) in self.separated.iter().enumerate() {
            let holds = *level < 64 && usize::from(*kind) < KINDS && (-1.0..=1.0).contains(share);
            let place = format!("rate.separated[{at}]");
            check(holds, place, "a level below 64, a kind, -1 to 1", format!("{level}, {kind}, {share}"))?;
        }
        check((2..=LEAF).contains(&self.leaf), "rate.leaf", format!("2 to {LEAF}"), self.leaf)?;
        summed("rate.gaps", self.gaps.iter().map(|row| row.2))?;
        self.gaps.iter().try_for_each(|row| check_class("rate.gaps", row.1, GAPS))?;
        for (at, (level, _, whole, together)) in self.drawn.iter().enumerate() {
            let holds = *level < 64 && (0.0..=1.0).contains(whole) && (-1.0..=1.0).contains(together);
            let place = format!("rate.drawn[{at}]");
            let found = format!("{level}, {whole}, {together}");
            check(holds, place, "a level below 64, a share, a correlation", found)?;
        }
        Ok(())
    }
}

impl Chain {
    fn check(&self, place: &str, size: usize) -> Result<(), Error> {
        let last =
            self.transitions.iter().flat_map(|row| [row.0, row.1]).chain([self.first]).max().unwrap_or(0);
        check(last < size, place, format!("numbers below {size}"), last)?;
        let more = self.transitions.iter().find(|row| row.3 > row.2);
        check(more.is_none(), place, "no more beginnings than requests", format!("{more:?}"))?;
        summed(place, self.transitions.iter().map(|row| row.2)).map(|_| ())
    }
}

impl Device {
    fn check(&self, place: &str, levels: u32) -> Result<(), Error> {
        let reach = format!("{place}.reach_bytes");
        check(self.reach_bytes < MOST_BYTES, reach, "less than 4 EiB", self.reach_bytes)?;
        for (level, node, chain) in &self.chains {
            let place = format!("{place}.chains");
            let holds = *level < levels && *node < 1 << (2 * level);
            check(holds, &place, "a range of the levels", format!("{level}, {node}"))?;
            chain.check(&place, 4)?;
        }
        for state in &self.states {
            let place = format!("{place}.states");
            let expected = format!("a number below {}", 1u64 << (2 * levels));
            check(state.number < 1 << (2 * levels), &place, expected, state.number)?;
            summed(&place, state.begins.values().copied())?;
            summed(&place, rows(&state.sizes).map(|row| row.1))?;
            summed(&place, rows(&state.starts).map(|row| row.1))?;
            rows(&state.sizes).try_for_each(|row| check_length(&place, row.0))?;
            rows(&state.starts).try_for_each(|row| check_class(&place, row.0, CLASSES))?;
        }
        Ok(())
    }
}

/// The JSON Schema of model files.
#[must_use]
pub fn schema() -> serde_json::Value {
    let mut schema = schemars::schema_for!(Model).to_value();
    schema["title"] = "iotrail workload model".into();
    schema
}
