//! What a model file holds.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};

use crate::rate::Rate;

mod check;

pub use check::{Error, schema};

/// Version of the format.
pub const FORMAT: u32 = 2;
/// Bytes of one request at most.
pub const MOST_LENGTH: u64 = 1 << 32;
/// Highest power of two that an address counts as aligned to, 1 TiB: 0 is a multiple of all.
pub const MOST_ALIGNED: u8 = 40;
/// How often ranges of addresses are divided at most.
pub const MOST_LEVELS: u32 = 8;
/// Parts of the whole time that the beginnings of the largest runs are known in.
pub const MOMENTS: u64 = 1 << 16;

/// Rows by direction; in each the last number says how often.
pub type Table<R> = BTreeMap<Direction, Vec<R>>;

/// The rows of a table with their direction.
pub fn rows<R: Copy>(table: &Table<R>) -> impl Iterator<Item = (Direction, R)> + '_ {
    table.iter().flat_map(|(direction, rows)| rows.iter().map(|row| (*direction, *row)))
}

/// A fitted workload: counts only.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Model {
    /// Version of this format.
    pub format: u32,
    /// What requests are for.
    #[serde(default)]
    pub of: Of,
    /// How often ranges of addresses were divided in four.
    pub levels: u32,
    /// Devices, by number.
    pub devices: Vec<Device>,
    /// Which device the next request is for.
    pub next_device: Chain,
    /// Flushes by device.
    pub flushes: Vec<(u32, u64)>,
    /// When requests of each kind arrive.
    pub rate: Rate,
    /// Uses of pages by LRU distance class (0: the first use), over time.
    pub distances: Vec<Part<Vec<(u8, u64)>>>,
    /// Requests by device and number of the range on the finest level, over time.
    pub states: Vec<Part<Vec<(u32, u64, u64)>>>,
    /// Bytes of requests that begin a run, over time.
    pub sizes: Vec<Part<Table<(u64, u64)>>>,
    /// Classes of the lengths of runs that begin, over time.
    pub lengths: Vec<Part<Table<(u8, u64)>>>,
    /// How far runs begin from where one of the last runs of their direction ended, in classes, over time.
    pub jumps: Vec<Part<Table<(i8, u64)>>>,
    /// Class of that distance, and rank class of the run.
    pub jump_ranks: Table<(u8, u8, u64)>,
    /// Unfinished runs: what is known of one before a request that continues it or an older one, how often, and how often it is
    /// the one.
    pub continued: Vec<(u8, u64, u64)>,
    /// What is known before a request, how often, and how often it begins a run.
    pub begun: Vec<(u8, u64, u64)>,
    /// Rank classes of the runs that requests continue.
    pub ranks: Vec<(u8, u64)>,
    /// Sizes of requests that continue a run: 1 for its last, bytes of the one before, bytes.
    pub next_sizes: Table<(u8, u64, u64, u64)>,
    /// Lengths of runs: bytes of the first request, class of the length.
    pub lengths_by_size: Table<(u64, u8, u64)>,
    /// Requests of all runs of a class of lengths.
    pub requests: Table<(u8, u64)>,
    /// Where runs begin: class of the distance from another run, class of their length, LRU distance class of the first page.
    pub begins: Table<(u8, u8, u8, u64)>,
    /// What runs return to: distance class of the first page in fours, where.
    pub returns: Table<(u8, Return, u64)>,
    /// The largest runs, which the other tables don't count except for `rate` and `states`, in the order of their beginnings.
    pub largest: Vec<Largest>,
    /// Bytes of requests that begin runs, a power of two, and how many of their addresses are multiples of it and of no higher
    /// one; of the highest power of each size, which may be none, of it or higher ones.
    pub alignment: Table<(u64, u8, u64)>,
    /// What the programs took besides.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load: Option<Load>,
}

/// What requests are for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Of {
    /// Disks.
    #[default]
    Disks,
    /// Files: each counts as a device.
    Files,
}

/// What the programs took from the first request to the end of the last; null unknown.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Load {
    /// CPU time, ns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_ns: Option<u64>,
    /// Bytes sent through sockets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sent_bytes: Option<u64>,
    /// Bytes received.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub received_bytes: Option<u64>,
}

/// Counts of some requests that follow each other.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Part<T>(
    /// Requests.
    pub u64,
    /// Counts.
    pub T,
);

/// One of the largest runs. In the file a list of its fields, in their order.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Largest(
    /// When it begins: parts of the whole time before it, of [`MOMENTS`].
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
    /// The first one of these that it touches, itself or by others, and how many bytes from the beginning of that it begins:
    /// negative if before it. None is null, or an empty list: TOML has no null.
    #[serde(deserialize_with = "two_or_none")]
    pub Option<(usize, i64)>,
    /// Distance class of the first page.
    pub u8,
);

fn two_or_none<'de, D: Deserializer<'de>>(values: D) -> Result<Option<(usize, i64)>, D::Error> {
    match Option::<Vec<i64>>::deserialize(values)?.as_deref() {
        None | Some([]) => Ok(None),
        Some(&[run, bytes]) => {
            let run = usize::try_from(run).map_err(D::Error::custom)?;
            Ok(Some((run, bytes)))
        }
        Some(more) => Err(D::Error::invalid_length(more.len(), &"a run and bytes, or neither")),
    }
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
    /// Runs that begin in it.
    pub begins: BTreeMap<Direction, u64>,
    /// Bytes of requests that begin a run; none if they are as everywhere.
    pub sizes: Table<(u64, u64)>,
    /// LRU distance classes of the first pages of runs, 0 is the first use; none if they are as everywhere.
    pub starts: Table<(u8, u64)>,
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
    /// All.
    pub const ALL: [Self; 3] = [Self::Read, Self::Write, Self::Discard];

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

    /// Its operation.
    #[must_use]
    pub fn op(self) -> iotrail_sim::Op {
        match self {
            Self::Read => iotrail_sim::Op::Read,
            Self::Write => iotrail_sim::Op::Write,
            Self::Discard => iotrail_sim::Op::Trim,
        }
    }
}

impl Model {
    /// Transitions between states: fine ones inside a coarse state, and those between coarse states; going from a coarse state
    /// to itself is one of its fine transitions.
    #[must_use]
    pub fn transitions(&self) -> usize {
        let of_chain = |(level, _, chain): &(u32, u64, Chain)| {
            chain.transitions.iter().filter(|row| row.0 != row.1 || level + 1 == self.levels).count()
        };
        self.devices.iter().flat_map(|device| &device.chains).map(of_chain).sum()
    }
}

impl Load {
    /// What is known, by the names of the fields.
    pub fn amounts(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let all = [
            ("cpu_ns", self.cpu_ns),
            ("sent_bytes", self.sent_bytes),
            ("received_bytes", self.received_bytes),
        ];
        all.into_iter().filter_map(|(name, amount)| Some((name, amount?)))
    }
}

impl Largest {
    /// Of each of some, how far the addresses reach of those that refer to it, itself or by others, and its own: bytes before
    /// its beginning, and after that.
    #[must_use]
    pub fn reaches(largest: &[Self]) -> Vec<(u64, u64)> {
        let mut reaches = vec![(0, 0); largest.len()];
        let mut firsts: Vec<(usize, i64)> = Vec::with_capacity(largest.len());
        for (at, run) in largest.iter().enumerate() {
            let (first, offset) = run.6.map_or((at, 0), |(before, offset)| {
                let (first, more) = firsts[before];
                (first, offset.saturating_add(more))
            });
            firsts.push((first, offset));
            let (before, after): &mut (u64, u64) = &mut reaches[first];
            *before = (*before).max(offset.min(0).unsigned_abs());
            *after = (*after).max(run.bytes().saturating_add_signed(offset));
        }
        reaches
    }

    /// Its requests.
    #[must_use]
    pub fn requests(&self) -> u64 {
        self.5.iter().fold(1, |sum, (_, count)| sum.saturating_add(*count))
    }

    /// All its bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.5.iter().fold(self.4, |sum, (bytes, count)| sum.saturating_add(bytes.saturating_mul(*count)))
    }
}
