//! Sequential runs: requests that begin where the one before them in their run ended.

use iotrail_sim::{Nanos, Op, Request};

use crate::model::Direction;

/// Runs that a request can go on with: the last ones that had a request, of all devices.
pub const RECENT: usize = 32;

/// A run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// Number of its device.
    pub device: u32,
    /// Direction of its requests.
    pub op: Op,
    /// Where its last request ended.
    pub end: u64,
    /// Bytes of its last request.
    pub length: u64,
    /// Requests still to come.
    pub remaining: u64,
    /// Its number, of those that have one.
    pub number: u64,
}

impl Run {
    /// The direction of its requests.
    #[must_use]
    pub fn direction(&self) -> Direction {
        Direction::of(self.op).unwrap_or(Direction::Read)
    }

    /// One that begins with a request.
    #[must_use]
    pub fn new(device: u32, request: Request, remaining: u64, number: u64) -> Self {
        let Request { op, pos, length } = request;
        Self { device, op, end: pos + length, length, remaining, number }
    }
}

/// The last runs, most recent first.
#[derive(Clone, Debug, Default)]
pub struct Recent {
    runs: Vec<Run>,
}

impl Recent {
    /// The runs, most recent first.
    #[must_use]
    pub fn runs(&self) -> &[Run] {
        &self.runs
    }

    /// Which run a request goes on with.
    #[must_use]
    pub fn rank(&self, device: u32, op: Op, pos: u64) -> Option<usize> {
        self.runs.iter().position(|run| run.end == pos && run.op == op && run.device == device)
    }

    /// The last runs of a direction on a device, most recent first.
    pub fn of(&self, device: u32, op: Op) -> impl Iterator<Item = &Run> {
        self.runs.iter().filter(move |run| run.op == op && run.device == device).take(NEAR)
    }

    /// Which of the last runs ended nearest to an address, and how far from there it is.
    #[must_use]
    pub fn jump(&self, device: u32, op: Op, pos: u64) -> Option<(u8, i8)> {
        let of = self.of(device, op).enumerate();
        let (rank, run) = of.min_by_key(|(rank, run)| (run.end.abs_diff(pos), *rank))?;
        Some((rank_class(rank), jump_class(run.end, pos)))
    }

    /// Adds a request to the run at a rank.
    pub fn continue_run(&mut self, rank: usize, length: u64) -> &mut Run {
        self.runs[..=rank].rotate_right(1);
        let run = &mut self.runs[0];
        run.end += length;
        run.length = length;
        run
    }

    /// Begins a run; returns the one that is forgotten for it: the oldest of those that have no number, if there is one.
    pub fn begin(&mut self, run: Run) -> Option<Run> {
        let ended =
            || self.runs.iter().rposition(|run| run.number == 0 || run.remaining == 0).unwrap_or(RECENT - 1);
        let forgotten = (self.runs.len() == RECENT).then(ended).map(|rank| self.runs.remove(rank));
        self.runs.insert(0, run);
        forgotten
    }

    /// Ranks of the runs with requests still to come.
    pub fn unfinished(&self) -> impl Iterator<Item = usize> {
        self.runs.iter().enumerate().filter(|(_, run)| run.remaining > 0).map(|(rank, _)| rank)
    }
}

/// Requests to come of a run, in classes: 1, 2 or 3, 4 to 15, and more.
fn remaining_class(left: u64) -> u8 {
    reach(length_class(left.max(1)))
}

/// What is known of a run that goes on: rank, requests to come and the gap before the next request of all.
#[must_use]
pub fn known_of(rank: usize, run: &Run, gap: Nanos) -> u8 {
    rank_class(rank) << 4 | remaining_class(run.remaining) << 2 | gap_class(gap)
}

/// What is known before a request: how many runs go on, by powers of two, the gap, and whether the one before began a run.
#[must_use]
pub fn known_before(going: usize, gap: Nanos, began: bool) -> u8 {
    let many = if going == 0 { 0 } else { (1 + going.ilog2() as u8).min(5) };
    many << 3 | gap_class(gap) << 1 | u8::from(began)
}

/// What a request does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It begins a run of some reach, below [`REACHES`].
    Begin(Direction, u8),
    /// It goes on with a run.
    Continue(Direction),
    /// It flushes.
    Flush,
}

/// Reaches of runs: of 1 request, 2 or 3, 4 to 15, and more.
pub const REACHES: u8 = 4;

/// The reach of a class of lengths.
#[must_use]
pub fn reach(class: u8) -> u8 {
    match class / 2 {
        0 => 0,
        1 => 1,
        2 | 3 => 2,
        _ => 3,
    }
}

/// The least class of lengths of a reach.
#[must_use]
pub fn least_class(of: u8) -> u8 {
    [0, 2, 4, 8][usize::from(of.min(3))]
}

impl Kind {
    /// Its number, below [`crate::rate::KINDS`].
    #[must_use]
    pub fn number(self) -> u8 {
        match self {
            Self::Begin(direction, reach) => 5 * direction as u8 + reach,
            Self::Continue(direction) => 5 * direction as u8 + REACHES,
            Self::Flush => 15,
        }
    }

    /// The direction; none of a flush.
    #[must_use]
    pub fn direction(self) -> Option<Direction> {
        match self {
            Self::Begin(direction, _) | Self::Continue(direction) => Some(direction),
            Self::Flush => None,
        }
    }

    /// Of a number.
    #[must_use]
    pub fn of(number: u8) -> Self {
        let direction = match number / 5 {
            0 => Direction::Read,
            1 => Direction::Write,
            2 => Direction::Discard,
            _ => return Self::Flush,
        };
        if number % 5 == REACHES { Self::Continue(direction) } else { Self::Begin(direction, number % 5) }
    }
}

/// The class of a gap: below 0.1, 1 and 10 ms, and longer.
fn gap_class(gap: Nanos) -> u8 {
    [100_000, 1_000_000, 10_000_000].iter().filter(|least| gap >= **least).count() as u8
}

/// Last runs of a direction that beginnings are near to.
pub const NEAR: usize = 8;

/// The class of a distance in bytes: by powers of four, negative towards lower addresses, 0 if there is none.
#[must_use]
pub fn jump_class(from: u64, to: u64) -> i8 {
    let far = from.abs_diff(to);
    let class = if far == 0 { 0 } else { 1 + (far.ilog2() / 2) as i8 };
    if to < from { -class } else { class }
}

/// A coarse class of a distance: up to 64 KiB, up to 16 MiB, up to 1 GiB, and further or from no run.
#[must_use]
pub fn near_class(class: Option<i8>) -> u8 {
    class.map_or(3, |class| match class.unsigned_abs() {
        0..=8 => 0,
        9..=12 => 1,
        13..=15 => 2,
        _ => 3,
    })
}

/// The addresses at a distance of a class from one: the first, and the one after the last.
#[must_use]
pub fn jump_to(from: u64, class: i8) -> (u64, u64) {
    let power = 2 * (u32::from(class.unsigned_abs()).clamp(1, 31) - 1);
    let (near, far) = (1u64 << power, 1u64 << (power + 2));
    match class {
        0 => (from, from + 1),
        1.. => (from.saturating_add(near), from.saturating_add(far)),
        _ => (from.saturating_sub(far - 1), from.saturating_sub(near - 1)),
    }
}

/// The class of a rank: 1, and more by powers of two.
#[must_use]
pub fn rank_class(rank: usize) -> u8 {
    if rank == 0 { 1 } else { 2 + rank.ilog2() as u8 }
}

/// The ranks of a class.
#[must_use]
pub fn ranks(class: u8) -> std::ops::Range<usize> {
    match class {
        0 | 1 => 0..usize::from(class),
        2..32 => 1 << (class - 2)..1 << (class - 1),
        _ => 0..0,
    }
}

/// The class of a run's length in requests, 1 or more: two in a power of two.
#[must_use]
pub fn length_class(requests: u64) -> u8 {
    let power = requests.ilog2();
    let upper = requests >= (3 << power) / 2 && power > 0;
    2 * power as u8 + u8::from(upper)
}

/// The lengths of a class: from, and up to.
#[must_use]
pub fn lengths(class: u8) -> (u64, u64) {
    let from = |class: u8| if class % 2 == 1 { (3 << (class / 2)) / 2 } else { 1 << (class / 2) };
    let next = if class == 0 { 2 } else { class + 1 };
    (from(class), if class == 0 { 2 } else { from(next) })
}
