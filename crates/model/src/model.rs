//! What a model file holds.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::rate::Rate;

/// Version of the format.
pub const FORMAT: u32 = 1;
/// How often ranges of addresses are divided at most.
pub const MOST_LEVELS: u32 = 8;

/// A fitted workload: counts only.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Model {
    /// Version of this format.
    pub format: u32,
    /// How often ranges of addresses were divided in four.
    pub levels: u32,
    /// Devices, by number.
    pub devices: Vec<Device>,
    /// Which device the next request is for.
    pub next_device: Chain,
    /// When requests arrive.
    pub rate: Rate,
    /// Which runs are there, what the next request does, how often.
    pub actions: Vec<(u8, u8, u64)>,
    /// Ranks of the runs that requests went on with, by powers of two, among all; 0: it began one; how often.
    pub ranks: Vec<(u8, u64)>,
    /// Sizes of requests that go on with a run: direction, whether it is the last, bytes of the one before, bytes, how often.
    pub next_size: Vec<(Direction, bool, u64, u64, u64)>,
    /// Lengths of runs: direction, bytes of the first request, class of the length, how often.
    pub lengths: Vec<(Direction, u64, u8, u64)>,
    /// Requests in runs: direction, class of the length, how many in all runs of that class.
    pub in_runs: Vec<(Direction, u8, u64)>,
    /// Where runs begin: direction, whether in the range of the request before, class of their length, distance class of the
    /// first page (0: its first use), how often.
    pub begins: Vec<(Direction, bool, u8, u8, u64)>,
    /// What runs return to: direction, distance class of the first page in fours, where, how often.
    pub returns: Vec<(Direction, u8, Return, u64)>,
    /// Parts of equally many requests.
    pub parts: Vec<Part>,
    /// The largest runs, which the other tables don't count, in the order of their beginnings.
    pub largest: Vec<Largest>,
    /// Addresses at which runs begin: direction, bytes, and the power of two that nearly all are multiples of.
    pub alignment: Vec<(Direction, u64, u8)>,
}

/// One of the largest runs. In the file a list of its fields, in their order.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Largest(
    /// Requests before it.
    pub u64,
    /// Its device.
    pub u32,
    /// The number of its range on the finest level.
    pub u64,
    /// Direction.
    pub Direction,
    /// Bytes of the first request.
    pub u64,
    /// Most frequent sizes of the others, and how often each.
    pub Vec<(u64, u64)>,
    /// The last one of these before it in which it begins, and how many bytes from its beginning.
    pub Option<(usize, u64)>,
    /// Distance class of the first page.
    pub u8,
);

/// Devices at most, and bytes of the addresses of one: beyond, offsets have no place in a trail.
const MOST_DEVICES: usize = 1 << 12;
const MOST_BYTES: u64 = 1 << 62;
/// Bytes of one request at most.
const MOST_LENGTH: u64 = 1 << 32;
/// Requests at most: counts of them stay exact as floating-point numbers.
const MOST_REQUESTS: u64 = 1 << 52;

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

/// The JSON Schema of model files.
#[must_use]
pub fn schema() -> serde_json::Value {
    let mut schema = schemars::schema_for!(Model).to_value();
    schema["title"] = "iotrail workload model".into();
    schema
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
        let model: Self = serde_json::from_value(value)?;
        model.check()?;
        Ok(model)
    }

    /// Transitions between states: fine ones inside a coarse state, and those between coarse states; going from a coarse state
    /// to itself is one of its fine transitions.
    #[must_use]
    pub fn transitions(&self) -> usize {
        let of_chain = |(level, _, chain): &(u32, u64, Chain)| {
            chain.transitions.iter().filter(|row| row.0 != row.1 || level + 1 == self.levels).count()
        };
        self.devices.iter().flat_map(|device| &device.chains).map(of_chain).sum()
    }

    fn check(&self) -> Result<(), Error> {
        check(self.levels <= MOST_LEVELS, "levels", format!("at most {MOST_LEVELS}"), self.levels)?;
        let count = self.devices.len();
        check((1..=MOST_DEVICES).contains(&count), "devices", format!("1 to {MOST_DEVICES}"), count)?;
        let rate = &self.rate;
        check((1..MOST_REQUESTS).contains(&rate.count), "rate.count", "a count of requests", rate.count)?;
        check(rate.tick_ns > 0, "rate.tick_ns", "1 or more", rate.tick_ns)?;
        check(rate.length_ns < MOST_BYTES, "rate.length_ns", "less than 146 years", rate.length_ns)?;
        for (at, (level, _, split)) in rate.drawn.iter().enumerate() {
            let holds = *level < 64 && (0.0..=1.0).contains(&split.0) && (-1.0..=1.0).contains(&split.1);
            check(
                holds,
                format!("rate.drawn[{at}]"),
                "a level below 64, a share, a correlation",
                format!("{split:?}"),
            )?;
        }
        self.next_device.check("next_device", count)?;
        let mut in_states = 0;
        for (at, device) in self.devices.iter().enumerate() {
            device.check(&format!("devices[{at}]"), self.levels)?;
        }
        for (at, part) in self.parts.iter().enumerate() {
            for &(device, number, requests) in &part.states {
                let known = self
                    .devices
                    .get(device as usize)
                    .is_some_and(|device| device.states.iter().any(|state| state.number == number));
                check(
                    known,
                    format!("parts[{at}].states"),
                    "a state of a device",
                    format!("{device}, {number}"),
                )?;
                in_states += requests;
            }
        }
        let flushes: u64 =
            self.ranks.iter().filter(|(action, _)| *action == crate::runs::FLUSH).map(|(_, n)| n).sum();
        check(
            in_states + flushes == rate.count,
            "parts",
            format!("{} requests in all", rate.count),
            in_states + flushes,
        )?;
        let of_runs: u64 = self.in_runs.iter().map(|(.., requests)| requests).sum();
        let of_large: u64 = self.largest.iter().map(Largest::requests).sum();
        check(
            of_runs + of_large == in_states,
            "in_runs",
            format!("{in_states} requests with those of largest"),
            of_runs + of_large,
        )?;
        for (at, run) in self.largest.iter().enumerate() {
            let place = format!("largest[{at}]");
            check(self.devices.get(run.1 as usize).is_some(), &place, "a device", run.1)?;
            check(
                run.6.is_none_or(|(before, offset)| before < at && offset < MOST_BYTES),
                &place,
                "one before it, and an offset in it",
                format!("{:?}", run.6),
            )?;
            check_length(&place, run.4)?;
            run.5.iter().try_for_each(|(bytes, _)| check_length(&place, *bytes))?;
        }
        self.next_size.iter().try_for_each(|row| check_length("next_size", row.3))?;
        for (.., class, _) in &self.lengths {
            check(*class < 100, "lengths", "a class below 100", class)?;
        }
        self.alignment
            .iter()
            .try_for_each(|row| check(row.2 < 64, "alignment", "a power of two below 64", row.2))
    }
}

fn check_length(place: &str, bytes: u64) -> Result<(), Error> {
    check(bytes <= MOST_LENGTH, place, format!("at most {MOST_LENGTH} bytes"), bytes)
}

impl Chain {
    fn check(&self, place: &str, size: usize) -> Result<(), Error> {
        let last =
            self.transitions.iter().flat_map(|row| [row.0, row.1]).chain([self.first]).max().unwrap_or(0);
        check(last < size, place, format!("numbers below {size}"), last)?;
        let more = self.transitions.iter().find(|row| row.3 > row.2);
        check(more.is_none(), place, "no more beginnings than requests", format!("{more:?}"))
    }
}

impl Device {
    fn check(&self, place: &str, levels: u32) -> Result<(), Error> {
        check(
            self.reach_bytes < MOST_BYTES,
            format!("{place}.reach_bytes"),
            "less than 4 EiB",
            self.reach_bytes,
        )?;
        for (level, node, chain) in &self.chains {
            let place = format!("{place}.chains");
            check(
                *level < levels && *node < 1 << (2 * level),
                &place,
                "a range of the levels",
                format!("{level}, {node}"),
            )?;
            chain.check(&place, 4)?;
        }
        for state in &self.states {
            let place = format!("{place}.states");
            check(
                state.number < 1 << (2 * levels),
                &place,
                format!("a number below {}", 1u64 << (2 * levels)),
                state.number,
            )?;
            state.sizes.iter().try_for_each(|row| check_length(&place, row.1))?;
            let class = state.starts.iter().map(|row| row.1).max().unwrap_or(0);
            check(class < 64, &place, "classes of distances below 64", class)?;
            let class = state.lengths.iter().map(|row| row.1).max().unwrap_or(0);
            check(class < 100, &place, "classes of lengths below 100", class)?;
        }
        Ok(())
    }
}

impl Largest {
    /// Its requests.
    #[must_use]
    pub fn requests(&self) -> u64 {
        1 + self.5.iter().map(|(_, count)| count).sum::<u64>()
    }

    /// All its bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.4 + self.5.iter().map(|(bytes, count)| bytes * count).sum::<u64>()
    }
}

/// Some requests that follow each other.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Part {
    /// Uses of pages by distance class; 0 is the first use.
    pub distances: Vec<(u8, u64)>,
    /// Direction, class of the length, how often a run began so.
    pub lengths: Vec<(Direction, u8, u64)>,
    /// Device, number of the range on the finest level, requests.
    pub states: Vec<(u32, u64, u64)>,
}

/// A device's addresses.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Device {
    /// End of the addresses used, in bytes.
    pub reach_bytes: u64,
    /// Which of four ranges is next, for each range that is divided: by its level, from the coarsest, and its number there.
    pub chains: Vec<(u32, u64, Chain)>,
    /// The finest ranges that were used.
    pub states: Vec<State>,
}

/// Transitions between numbered things.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Chain {
    /// The first one.
    pub first: usize,
    /// From, to, requests, and how many of them began a run.
    pub transitions: Vec<(usize, usize, u64, u64)>,
}

/// A range of addresses.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct State {
    /// Its number among those of the finest level.
    pub number: u64,
    /// Direction of the request before, direction of one that begins a run, how often.
    pub directions: Vec<(Direction, Direction, u64)>,
    /// Direction, bytes, how often a run began so.
    pub sizes: Vec<(Direction, u64, u64)>,
    /// Direction, distance class of the first page (0: its first use), how often.
    pub starts: Vec<(Direction, u8, u64)>,
    /// Direction, class of the length, how often.
    pub lengths: Vec<(Direction, u8, u64)>,
}

/// What requests do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub enum Direction {
    /// Reads.
    #[serde(rename = "r")]
    Read,
    /// Writes.
    #[serde(rename = "w")]
    Write,
    /// Discards.
    #[serde(rename = "d")]
    Discard,
}

/// Where a run begins.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(into = "u8", from = "u8")]
#[schemars(with = "u8")]
pub struct Return {
    /// Where a run ended that was forgotten.
    pub follows: bool,
    /// Where a request of the same size began last.
    pub same_size: bool,
    /// Where the last request was of the same direction.
    pub same_direction: bool,
    /// Power of two of the uses before.
    pub uses: u8,
    /// Of the middle and the end of the run, how many were used before.
    pub covered: u8,
}

/// In the file: bits 0, 1 and 2 are the first three, 3 and 4 `covered`, the others `uses`.
impl From<Return> for u8 {
    fn from(back: Return) -> Self {
        Self::from(back.follows)
            | Self::from(back.same_size) << 1
            | Self::from(back.same_direction) << 2
            | back.covered << 3
            | back.uses << 5
    }
}

impl From<u8> for Return {
    fn from(bits: u8) -> Self {
        Self {
            follows: bits & 1 == 1,
            same_size: bits >> 1 & 1 == 1,
            same_direction: bits >> 2 & 1 == 1,
            covered: bits >> 3 & 3,
            uses: bits >> 5,
        }
    }
}

impl Direction {
    /// Of an operation; none of a flush.
    #[must_use]
    pub fn of(op: iotrail_sim::Op) -> Option<Self> {
        match op {
            iotrail_sim::Op::Read => Some(Self::Read),
            iotrail_sim::Op::Write => Some(Self::Write),
            iotrail_sim::Op::Trim => Some(Self::Discard),
            iotrail_sim::Op::Flush => None,
        }
    }

    /// The operation.
    #[must_use]
    pub fn op(self) -> iotrail_sim::Op {
        match self {
            Self::Read => iotrail_sim::Op::Read,
            Self::Write => iotrail_sim::Op::Write,
            Self::Discard => iotrail_sim::Op::Trim,
        }
    }
}
